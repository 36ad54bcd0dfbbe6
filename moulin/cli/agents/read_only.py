"""Runs statements of an agent: one SELECT over tables and views of the lake, without other access to the machine.

In DuckDB they run as statements of the console do (`moulin/duck/safe.py`), on Spark in the safe mode of `lake.sql`.
"""

# Decisions: docs/decisions/0672

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from moulin.errors import InvalidInput, Unavailable

if TYPE_CHECKING:
    from moulin.lake import Lake

MEMORY_BYTES = 1 << 30


class ReadOnly(Protocol):
    """Runs statements of an agent, one at a time."""

    def run(self, text: str, rows: int, seconds: float) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        """The first `rows` rows; Unavailable when it takes longer than `seconds`."""


class OnSpark:
    """Statements on Spark, in the safe mode of `lake.sql`."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def run(self, text: str, rows: int, seconds: float) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        from moulin.pipeline.sql.results import batches, columns_of

        frame = self._lake.sql(text, safe=True)
        with _cancelled_after(seconds, frame.sparkSession.sparkContext.cancelAllJobs):
            found = list(batches(frame, rows))
        return found[0].schema if found else columns_of(frame), found


class OnDuckDB:
    """Statements in DuckDB, sandboxed like those of the console."""

    def __init__(self, lake: Lake, folder: Path) -> None:
        """`folder` is for temporary files; only this process uses it."""
        from moulin.duck.safe import SafeDuck

        self._duck = SafeDuck(lake, folder, memory_bytes=MEMORY_BYTES)

    def run(self, text: str, rows: int, seconds: float) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        with _cancelled_after(seconds, self._duck.cancel):
            schema, found = self._duck.run(text)
            kept: list[pa.RecordBatch] = []
            for batch in found:
                kept.append(batch.slice(0, rows))
                rows -= batch.num_rows
                if rows <= 0:
                    break
            return schema, kept


@contextmanager
def _cancelled_after(seconds: float, cancel: Any) -> Iterator[None]:
    """Calls `cancel` if the block takes longer; the block then raises Unavailable."""
    over = threading.Event()

    def stop() -> None:
        over.set()
        cancel()

    timer = threading.Timer(seconds, stop)
    timer.start()
    try:
        yield
    except (Exception, KeyboardInterrupt):  # DuckDB's way to report that it was interrupted
        if over.is_set():
            raise Unavailable(
                f"The query took longer than {seconds:g} seconds and was stopped: narrow it with WHERE, or aggregate."
            ) from None
        raise
    finally:
        timer.cancel()


def read_only(engine: str, lake: Lake, folder: Path) -> ReadOnly:
    """What runs statements: duckdb or spark."""
    if engine == "spark":
        return OnSpark(lake)
    if engine == "duckdb":
        return OnDuckDB(lake, folder)
    raise InvalidInput(f"Unknown engine {engine!r}: use duckdb or spark.")


__all__ = ["OnDuckDB", "OnSpark", "ReadOnly", "read_only"]
