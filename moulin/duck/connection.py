"""`lake.duckdb()`: a DuckDB connection in which the tables and views of the lake are views, at one version.

In a lake of few segments the view of a table is its SELECT. Elsewhere it is `FROM query(moulin_select_x('<table id>',
<version>, NULL))`: DuckDB evaluates the argument when it plans a statement that names the view, and puts the SELECT
that it gets in its place. So a large table costs nothing before it is read, and DuckDB runs a plain Parquet scan either
way. The function is that of a *source*, which has the pins.
"""

# Decisions: docs/decisions/0262, docs/decisions/0263

from __future__ import annotations

import itertools
import shutil
import tempfile
import threading
import weakref
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from uuid import UUID

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from duckdb import DuckDBPyConnection

from moulin.duck.columns import quoted, quoted_text
from moulin.duck.select import no_rows, select_text
from moulin.errors import Closed, InvalidInput, NotFound
from moulin.lake import Lake
from moulin.model.columns.arrays import Integers
from moulin.model.entities import TableState
from moulin.model.names import parse_table_name
from moulin.sized_cache import SizedCache
from moulin.table.keyed.tables import flush_keyed
from moulin.table.pins import Hold

_FUNCTION = "moulin_select_"
_TEXTS = 32 << 20  # bytes of SELECTs that a connection keeps
_KEPT = frozenset({"information_schema", "pg_catalog"})  # DuckDB does not let others have these
_WRITTEN_OUT = 4_000  # segments of all tables; DuckDB loads pandas, if it is there, to call a function in Python
_NUMBERS = itertools.count(1)


class LakeDuck:
    """Fills `moulin.table.ports.Duck`. Thread-safe; a connection is not, as DuckDB has it: make a cursor per thread."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._sources: weakref.WeakKeyDictionary[DuckDBPyConnection, Source] = weakref.WeakKeyDictionary()
        self._opened: weakref.WeakSet[DuckDBPyConnection] = weakref.WeakSet()
        self._lock = threading.Lock()

    def connect(self, connection: DuckDBPyConnection | None = None) -> DuckDBPyConnection:
        """A connection at the newest version: a new one, or the given one brought there; see `Lake.duckdb`."""
        if connection is None:
            connection = duckdb.connect()
            self._opened.add(connection)
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET parquet_metadata_cache = true")  # segments never change
        with self._lock:
            source = self._sources.get(connection)
            if source is None:
                source = Source(self._lake)
                _register(connection, source)
                self._sources[connection] = source
            source.show(connection)
        return connection

    def close(self) -> None:
        """Close the connections that were opened here; in others, statements that ask for a table fail from now on."""
        with self._lock:
            for source in self._sources.values():
                source.closed = True
            for connection in self._opened:
                connection.close()


class Source:
    """What one connection calls back: it holds the versions that the connection shows, and writes their SELECTs.

    It lives as long as the connection or a cursor of it, because DuckDB holds the function.
    """

    def __init__(self, lake: Lake) -> None:
        self.function = f"{_FUNCTION}{next(_NUMBERS)}"
        self.closed = False
        self._lake = lake
        self._version = -1
        self._failures: Mapping[UUID, Exception] = {}
        self._current: dict[UUID, Hold] = {}
        self._older: dict[tuple[UUID, int], Hold] = {}
        self._texts: SizedCache[tuple[UUID, int], str] = SizedCache(_TEXTS, len)
        self._folder: Path | None = None
        self._files = itertools.count()
        self._declares = False  # views are being made, for which columns are enough
        self._lock = threading.RLock()

    # What DuckDB calls

    def select(self, names: pa.Array, versions: pa.Array, moments: pa.Array) -> pa.Array:
        """The SELECT of one table: of a view, by its id, or of `moulin_table`, by its name."""
        name, version, moment = (column[0].as_py() for column in (names, versions, moments))
        return _repeated(self._text(name, version, moment).encode(), len(names))

    def _text(self, name: str | None, version: int | None, moment: int | None) -> str:
        if self.closed:
            raise Closed("The lake was closed; connect again.")
        if name is None:
            raise InvalidInput("moulin_table takes the name of a table: moulin_table('database.table').")
        if version is not None and moment is not None:
            raise InvalidInput("moulin_table takes version or as_of, not both.")
        catalog = self._lake.catalog
        with self._lock:
            if "." not in name:
                state = catalog.table_by_id(UUID(name), version)
            else:
                asked = version if moment is None else catalog.version_at(moment)
                state = catalog.table(*parse_table_name(name), self._version if asked is None else asked)
            if state.version == self._version and state.id in self._failures:
                raise self._failures[state.id]
            if self._declares:
                return no_rows(state.schema)
            key = state.id, state.version
            if (state.id not in self._current or state.version != self._version) and key not in self._older:
                self._older[key] = self._lake.context.pins.hold(*key)
            return self._texts.get((state.id, state.head_version), lambda: self._write(state))

    def _write(self, state: TableState) -> str:
        context = self._lake.context
        segments = context.catalog.segments(state.id, state.version, with_columns=False)
        return select_text(context, state, segments, self._locate, self._keep)

    def _locate(self, path: str) -> str:
        local = self._lake.context.store.local_path(path)
        if local is not None:
            return str(local)
        from moulin.duck.files import address

        return address(path)

    def _keep(self, rows: Integers) -> str:
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="moulin-duckdb-"))
            weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
        file = self._folder / f"{next(self._files)}.parquet"
        pq.write_table(pa.Table.from_arrays([pa.array(rows)], ["row"]), file)
        return str(file)

    # Views

    def show(self, connection: DuckDBPyConnection) -> None:
        """Make the views of the newest version; what was put into keyed tables is committed first."""
        context, catalog = self._lake.context, self._lake.catalog
        with self._lock:
            self._failures = flush_keyed(context)
            version = catalog.version()
            if version == self._version:
                return
            holds: dict[UUID, Hold] = {}
            wanted = dict(self._views(version, holds))
            before, self._version = self._version, version
            self._declares = True
            try:
                with _transaction(connection):
                    _replace_views(connection, wanted, self.function)
            except BaseException:
                self._version = before
                raise
            finally:
                self._declares = False
            for hold in self._current.values():
                context.pins.release_later(hold)  # a result that is still being read may need it
            self._current = holds

    def _rows(self, state: TableState, *, write_out: bool) -> str:
        """What the view of a table is: its SELECT, or the call for it."""
        if write_out and state.id not in self._failures:
            return self._texts.get((state.id, state.head_version), lambda: self._write(state))
        return f"FROM query({self.function}({quoted_text(str(state.id))}, {state.version}, NULL))"

    def _views(self, version: int, holds: dict[UUID, Hold]) -> Iterator[tuple[tuple[str, str], str]]:
        """Names in DuckDB with the queries that they stand for; holds what they read.

        DuckDB does not tell names apart by case: the first of several gets the name.
        """
        catalog, pins, left = self._lake.catalog, self._lake.context.pins, _WRITTEN_OUT
        for database in catalog.databases():
            if database.name.lower() in _KEPT:
                continue
            rows: dict[UUID, str] = {}
            for table in catalog.tables(database.name):
                hold = pins.hold(table.id, version, check=False)
                with suppress(NotFound):  # dropped meanwhile
                    state = catalog.table_by_id(table.id, version)
                    holds[table.id] = hold
                    left -= table.segments
                    rows[table.id] = self._rows(state, write_out=left >= 0)
                    yield (database.name, table.name), rows[table.id]
            for view in catalog.views(database.name):
                if view.query is None and all(member.id in rows for member in view.members):
                    yield (
                        (database.name, view.name),
                        " UNION ALL BY NAME ".join(f"({rows[m.id]})" for m in view.members),
                    )


def _register(connection: DuckDBPyConnection, source: Source) -> None:
    """The function of a source, the macro that calls it for older versions, and objects of stores as files."""
    connection.create_function(  # type: ignore[call-overload] # words for enumerations that each version keeps elsewhere
        source.function,
        source.select,
        ["VARCHAR", "BIGINT", "BIGINT"],
        "VARCHAR",
        type="arrow",
        null_handling="special",
    )
    moment = "epoch_us(CAST(as_of AS TIMESTAMPTZ)) * 1000"
    connection.execute(
        f"CREATE OR REPLACE MACRO moulin_table(name, version := NULL, as_of := NULL) AS TABLE "
        f"FROM query({source.function}(name, version, {moment}))"
    )
    store = source._lake.context.store
    if not store.is_local:
        from moulin.duck.files import LakeFiles

        connection.register_filesystem(LakeFiles(store))


def _repeated(text: bytes, count: int) -> pa.Array:
    """Text as an array. Arrow would load pandas to make one of a Python value, which takes longer than the rest."""
    offsets = np.arange(count + 1, dtype=np.int32) * len(text)
    return pa.StringArray.from_buffers(count, pa.py_buffer(offsets), pa.py_buffer(text * count))


@contextmanager
def _transaction(connection: DuckDBPyConnection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _replace_views(connection: DuckDBPyConnection, wanted: Mapping[tuple[str, str], str], function: str) -> None:
    """Make these views, and drop those that were made before and are not wanted any more.

    A comment on a view says whose it is.
    """
    spelled: dict[tuple[str, str], tuple[str, str]] = {}
    for given in wanted:
        spelled.setdefault((given[0].lower(), given[1].lower()), given)
    for schema, name in _own_views(connection, function):
        if (schema.lower(), name.lower()) not in spelled:
            connection.execute(f"DROP VIEW {quoted(schema)}.{quoted(name)}")
    for schema in {schema.lower(): schema for schema, _ in spelled.values()}.values():
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
    for named in spelled.values():
        view = f"{quoted(named[0])}.{quoted(named[1])}"
        connection.execute(f"CREATE OR REPLACE VIEW {view} AS {wanted[named]}")
        connection.execute(f"COMMENT ON VIEW {view} IS '{function}'")


def _own_views(connection: DuckDBPyConnection, function: str) -> Iterable[tuple[str, str]]:
    text = f"SELECT schema_name, view_name FROM duckdb_views() WHERE comment = '{function}'"
    return connection.execute(text).fetchall()
