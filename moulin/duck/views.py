"""The views of a connection: one for every table and view of the lake at a version."""

# Decisions: docs/decisions/0263, docs/decisions/0276

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from uuid import UUID

from duckdb import DuckDBPyConnection

from moulin.duck.columns import quoted
from moulin.duck.source import DECLARES, Source
from moulin.errors import NotFound
from moulin.model.entities import TableState
from moulin.table.keyed.tables import flush_keyed
from moulin.table.pins import Hold

_KEPT = frozenset({"information_schema", "pg_catalog"})  # DuckDB does not let others have these
_WRITTEN_OUT = 256  # segments of a table; DuckDB loads pandas, if it is there, to call a function in Python
_ALL_WRITTEN_OUT = 4_000  # segments of all tables

Name = tuple[str, str]


def show(connection: DuckDBPyConnection, source: Source) -> None:
    """Make the views of the newest version; what was put into keyed tables is committed first."""
    context, catalog = source.lake.context, source.lake.catalog
    with source.lock:
        source.failures = flush_keyed(context)
        version = catalog.version()
        if version == source.version:
            return
        holds: dict[UUID, Hold] = {}
        wanted = dict(_views(source, version, holds))
        with _transaction(connection):
            _replace_views(connection, wanted, source.select_name)
        source.version = version
        for hold in source.current.values():
            context.pins.release_later(hold)  # a result that is still being read may need it
        source.current = holds


def _views(source: Source, version: int, holds: dict[UUID, Hold]) -> Iterator[tuple[Name, str]]:
    """Names in DuckDB with the queries that they stand for; holds what they read.

    DuckDB does not tell names apart by case: the first of several gets the name.
    """
    catalog, pins, left = source.lake.catalog, source.lake.context.pins, _ALL_WRITTEN_OUT
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
                few = table.segments <= _WRITTEN_OUT and left >= 0
                rows[table.id] = _rows(source, state, write_out=few)
                yield (database.name, table.name), rows[table.id]
        for view in catalog.views(database.name):
            if view.query is None and all(member.id in rows for member in view.members):
                yield (
                    (database.name, view.name),
                    " UNION ALL BY NAME ".join(f"({rows[m.id]})" for m in view.members),
                )


def _rows(source: Source, state: TableState, *, write_out: bool) -> str:
    """What the view of a table is: its SELECT, or the call for it."""
    if write_out and state.id not in source.failures:
        return source.every_row(state)
    return source.call_table(state)


@contextmanager
def _transaction(connection: DuckDBPyConnection) -> Iterator[None]:
    connection.execute("BEGIN")
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")


def _replace_views(connection: DuckDBPyConnection, wanted: Mapping[Name, str], owner: str) -> None:
    """Make these views, and drop those that were made before and are not wanted any more.

    A comment on a view says whose it is.
    """
    spelled: dict[Name, Name] = {}
    for given in wanted:
        spelled.setdefault((given[0].lower(), given[1].lower()), given)
    for schema, name in _own_views(connection, owner):
        if (schema.lower(), name.lower()) not in spelled:
            connection.execute(f"DROP VIEW {quoted(schema)}.{quoted(name)}")
    for schema in {schema.lower(): schema for schema, _ in spelled.values()}.values():
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
    connection.execute(f"SET VARIABLE {DECLARES} = true")
    try:
        for named in spelled.values():
            view = f"{quoted(named[0])}.{quoted(named[1])}"
            connection.execute(f"CREATE OR REPLACE VIEW {view} AS {wanted[named]}")
            connection.execute(f"COMMENT ON VIEW {view} IS '{owner}'")
    finally:
        connection.execute(f"RESET VARIABLE {DECLARES}")


def _own_views(connection: DuckDBPyConnection, owner: str) -> Iterable[Name]:
    text = f"SELECT schema_name, view_name FROM duckdb_views() WHERE comment = '{owner}'"
    return connection.execute(text).fetchall()
