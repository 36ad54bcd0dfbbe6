"""Starts Spark in the background: batches run in this process until the session is ready."""

# Decisions: docs/decisions/0231

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from moulin.table.ports import Spark
from moulin.table.runner import TaskRunner

_RETRY_SECONDS = 60.0


class WarmUp:
    """Starts the session of a lake in a thread of its own when it is first asked for, and `announce`s what happens.

    A start that failed is tried again after a while. One thread asks.
    """

    def __init__(self, make: Callable[[], Spark], announce: Callable[[str], object]) -> None:
        self._make, self._announce = make, announce
        self._spark: Spark | None = None
        self._thread: threading.Thread | None = None
        self._retry_at = 0.0

    def runner(self) -> TaskRunner | None:
        """Spark's runner once the session has started; until then None, and it is being started."""
        if self._spark is None:
            self._spark = self._make()
        runner = self._spark.runner()
        if runner is None and self._thread is None and time.monotonic() >= self._retry_at:
            self._announce("Spark is starting; until it is ready, batches run in this process.")
            self._thread = threading.Thread(target=self._start, args=(self._spark,), name="moulin-spark", daemon=True)
            self._thread.start()
        return runner

    def _start(self, spark: Spark) -> None:
        began = time.monotonic()
        try:
            spark.session()
            self._announce(f"Spark has started, in {time.monotonic() - began:.0f} s; large batches run on it now.")
        except Exception as error:  # noqa: BLE001 - whatever it is, batches go on in this process
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            self._announce(f"Spark did not start, so batches go on in this process: {error}")
        finally:
            self._thread = None
