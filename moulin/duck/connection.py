"""`lake.duckdb()`: a DuckDB connection with the tables and views of the lake as views, at one version.

The view of a table with few segments is its SELECT. Other views call a function of the *source*, which DuckDB evaluates
when it plans a statement with the view. So a large table costs nothing before it is read, and DuckDB always runs a
plain Parquet scan.
"""

# Decisions: docs/decisions/0262, docs/decisions/0263, docs/decisions/0275

from __future__ import annotations

import threading
import weakref
from collections.abc import Collection
from pathlib import Path

import duckdb
from duckdb import DuckDBPyConnection

from moulin.duck.source import Source
from moulin.duck.views import show
from moulin.lake import Lake


class LakeDuck:
    """Fills `moulin.table.ports.Duck`. Thread-safe; a connection is not, as DuckDB has it: make a cursor per thread."""

    def __init__(self, lake: Lake, folder: Path | None = None) -> None:
        """Connections read files of their own below `folder`; without one, in the folder for such files."""
        self._lake, self._folder = lake, folder
        self._sources: weakref.WeakKeyDictionary[DuckDBPyConnection, Source] = weakref.WeakKeyDictionary()
        self._opened: weakref.WeakSet[DuckDBPyConnection] = weakref.WeakSet()
        self._lock = threading.Lock()

    def connect(
        self, connection: DuckDBPyConnection | None = None, branches: Collection[str] = ()
    ) -> DuckDBPyConnection:
        """A connection at the newest version: a new one, or the given one brought there; see `Lake.duckdb`."""
        if connection is None:
            connection = duckdb.connect()
            self._opened.add(connection)
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET parquet_metadata_cache = true")  # segments never change
        with self._lock:
            source = self._sources.get(connection)
            if source is None:
                source = Source(self._lake, self._folder)
                _register(connection, source)
                self._sources[connection] = source
            _register_files(connection, source)
            show(connection, source, branches)
        return connection

    def source(self, connection: DuckDBPyConnection) -> Source:
        """What a connection of this lake calls back."""
        with self._lock:
            return self._sources[connection]

    def close(self) -> None:
        """Close the connections that were opened here; in others, statements that ask for a table fail from now on."""
        with self._lock:
            for source in self._sources.values():
                source.closed = True
            for connection in self._opened:
                connection.close()


def _register(connection: DuckDBPyConnection, source: Source) -> None:
    """The functions of a source, the macro that calls them for older versions, and objects of stores as files."""
    whole, text = "UBIGINT", "VARCHAR"
    for name, function, parameters in (
        (source.text_name, source.text, [whole, text]),
        (source.select_name, source.select, [text, "BIGINT", "BIGINT", text]),
    ):
        connection.create_function(  # type: ignore[call-overload] # words for enumerations that each version keeps elsewhere
            name, function, parameters, text, type="native", null_handling="special"
        )
    call = source.call("name", "version", "epoch_us(CAST(as_of AS TIMESTAMPTZ)) * 1000")
    connection.execute(
        f"CREATE OR REPLACE MACRO moulin_table(name, version := NULL, as_of := NULL) AS TABLE FROM query({call})"
    )


def _register_files(connection: DuckDBPyConnection, source: Source) -> None:
    """Objects of stores as files, and adopted ones, where there are some."""
    store = source.lake.context.store
    if source.files is None and (not store.is_local or source.lake.catalog.bases()):
        from moulin.duck.files import LakeFiles

        source.files = LakeFiles(store)
        connection.register_filesystem(source.files)
