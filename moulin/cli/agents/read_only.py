"""Statements of an agent: one SELECT over tables and views of the lake, and nothing else of the machine.

In DuckDB there are two walls, each of which is enough. The text must pass the check of texts of views. And the
connection opens no files but those of the lake, loads no extensions and takes no settings. On Spark it is the safe mode
of `lake.sql`.
"""

# Decisions: docs/decisions/0672

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pyarrow as pa

from moulin.errors import InvalidInput, PermissionDenied, Unavailable, Unsupported
from moulin.model.view_history import Home

if TYPE_CHECKING:
    from moulin.lake import Lake

MEMORY_BYTES = 1 << 30
_THREADS = 2


class ReadOnly(Protocol):
    """Runs statements of an agent, one at a time."""

    def run(self, text: str, rows: int, seconds: float) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        """The first `rows` rows; Unavailable when it takes longer than `seconds`."""


class SafeSpark:
    """Statements on Spark, in the safe mode of `lake.sql`."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake

    def run(self, text: str, rows: int, seconds: float) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        from moulin.pipeline.sql.results import batches, columns_of

        frame = self._lake.sql(text, safe=True)
        with _cancelled_after(seconds, frame.sparkSession.sparkContext.cancelAllJobs):
            found = list(batches(frame, rows))
        return found[0].schema if found else columns_of(frame), found


class SafeDuck:
    """Statements in DuckDB, in a connection of their own."""

    def __init__(self, lake: Lake, folder: Path) -> None:
        """`folder` is for what does not fit into memory, and belongs to this process alone."""
        self._lake, self._folder = lake, folder
        self._connection: Any = None

    def run(self, text: str, rows: int, seconds: float) -> tuple[pa.Schema, list[pa.RecordBatch]]:
        from moulin.duck.results import batches, reader

        fresh = self._connection is None
        self._connection = self._lake.duckdb(self._connection)
        if fresh:
            self._confine()
        with _cancelled_after(seconds, self._connection.interrupt):
            stream = reader(self._connection, f"SELECT * FROM ({self._checked(text)}) LIMIT {rows}")
            return stream.schema, list(batches(stream))

    def _checked(self, text: str) -> str:
        from moulin.duck.checked import checked

        views = self._connection.execute("SELECT schema_name, view_name FROM duckdb_views() WHERE NOT internal")
        known = {(schema.lower(), name.lower()) for schema, name in views.fetchall()}
        try:
            return checked(self._connection, text, Home(""), known)
        except Unsupported as error:
            raise PermissionDenied(
                f"The query is refused: {error.message}. Write one SELECT over tables and views of the lake."
            ) from None

    def _confine(self) -> None:
        folders = ", ".join(f"'{folder}'" for folder in self._readable())
        for name, value in (
            ("memory_limit", f"'{MEMORY_BYTES}B'"),
            ("threads", str(_THREADS)),
            ("temp_directory", f"'{_quoted(self._folder)}'"),
            ("autoinstall_known_extensions", "false"),
            ("autoload_known_extensions", "false"),
            ("python_enable_replacements", "false"),
            ("allowed_directories", f"[{folders}]"),
            ("enable_external_access", "false"),
            ("lock_configuration", "true"),
        ):
            self._connection.execute(f"SET {name} = {value}")

    def _readable(self) -> Iterator[str]:
        """The lake's own files and base paths where they are folders; objects of stores are read through Moulin."""
        store = self._lake.context.store
        for prefix in ("", *(f"bases/{base.id}/" for base in self._lake.catalog.bases())):
            local = store.local_path(f"{prefix}x")
            if local is not None:
                yield f"{_quoted(local.parent)}/"
        yield f"{_quoted(self._folder)}/"
        yield "moulin://"


def _quoted(path: Path) -> str:
    return str(path).replace("'", "''")


@contextmanager
def _cancelled_after(seconds: float, cancel: Any) -> Iterator[None]:
    """Calls `cancel` when the block takes longer, which then raises Unavailable."""
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
                f"The query took longer than {seconds:g} seconds and was stopped: ask for less of it."
            ) from None
        raise
    finally:
        timer.cancel()


def read_only(engine: str, lake: Lake, folder: Path) -> ReadOnly:
    """What runs statements: duckdb or spark."""
    if engine == "spark":
        return SafeSpark(lake)
    if engine == "duckdb":
        return SafeDuck(lake, folder)
    raise InvalidInput(f"There is no engine {engine!r}: choose duckdb or spark.")


__all__ = ["ReadOnly", "SafeDuck", "SafeSpark", "read_only"]
