"""The lock of flushes: one of a region at a time, several regions at once, or one thread with all of them."""

# Decisions: docs/decisions/0456

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType


class FlushLock:
    """`with lock.of(region)` holds one region, `with lock` all of them. Not reentrant.

    A thread that waits for all of them has priority over later ones for one.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._regions: set[int] = set()
        self._all = False
        self._waiting = 0  # for all

    @contextmanager
    def of(self, region: int) -> Iterator[None]:
        with self._changed:
            self._changed.wait_for(lambda: not self._all and not self._waiting and region not in self._regions)
            self._regions.add(region)
        try:
            yield
        finally:
            with self._changed:
                self._regions.discard(region)
                self._changed.notify_all()

    def __enter__(self) -> FlushLock:
        with self._changed:
            self._waiting += 1
            try:
                self._changed.wait_for(lambda: not self._all and not self._regions)
            finally:
                self._waiting -= 1
            self._all = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._changed:
            self._all = False
            self._changed.notify_all()


__all__ = ["FlushLock"]
