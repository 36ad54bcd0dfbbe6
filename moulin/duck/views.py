"""The views of a connection: one for every table and view of the lake at a version.

The query of a view is planned before its view is created. If DuckDB cannot plan it, the view raises an error with the
reason.
"""

# Decisions: docs/decisions/0263, docs/decisions/0276, docs/decisions/0501

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from uuid import UUID

import duckdb
from duckdb import DuckDBPyConnection

from moulin.duck.columns import quoted, quoted_text
from moulin.duck.select import no_rows
from moulin.duck.source import DECLARES, Source, asked_late
from moulin.errors import NotFound, Unsupported
from moulin.lake import Lake
from moulin.model.entities import TableState, ViewQuery
from moulin.model.names import full_name
from moulin.table.context import Context
from moulin.table.pins import Hold

_KEPT = frozenset({"information_schema", "pg_catalog"})  # DuckDB does not let others have these
_WRITTEN_OUT = 256  # segments of a table; DuckDB loads pandas, if it is there, to call a function in Python
_ALL_WRITTEN_OUT = 4_000  # segments of all tables

Name = tuple[str, str]


def show(connection: DuckDBPyConnection, source: Source, branches: Collection[str] = ()) -> None:
    """Make the views of the newest version, with those of some branches, from now on.

    What was put into keyed tables is committed first.
    """
    context, catalog = source.lake.context, source.lake.catalog
    with source.lock:
        known = source.branches
        for name in branches:
            source.lake.open_branch(name)  # says so when there is none
        source.branches = known | set(branches)
        source.failures = _flush(context)
        for one in _opened(source):
            source.failures = {**source.failures, **_flush(one.context)}
        version = catalog.version()
        if version == source.version and known == source.branches:
            return
        holds: dict[UUID, Hold] = {}
        wanted, queries = _views(source, version, holds)
        connection.execute(f"SET VARIABLE {DECLARES} = true")
        try:
            try:
                with _transaction(connection):
                    _replace_views(connection, wanted, queries, source.select_name, _make)
            except duckdb.Error:  # a file of a table is gone: one by one, so that the others are there
                _replace_views(connection, wanted, queries, source.select_name, _make_or_say)
            _make_queries(connection, queries, wanted, source.select_name)
        finally:
            connection.execute(f"RESET VARIABLE {DECLARES}")
        if version != source.version:
            source.forget_texts()
        source.version = version
        for hold in source.current.values():
            context.pins.release_later(hold)  # a result that is still being read may need it
        source.current = holds


def _opened(source: Source) -> Iterator[Lake]:
    """The branches that the connection shows, but for those that are gone."""
    for name in source.branches:
        with suppress(NotFound):
            yield source.lake.open_branch(name)


def _flush(context: Context) -> Mapping[UUID, Exception]:
    """Commit what was put into keyed tables; returns the errors of those for which that fails."""
    if not context.keyed and not (context.catalog.may_write and context.catalog.claimed_tables()):
        return {}
    from moulin.table.keyed.tables import flush_keyed  # takes longer to load than all of the rest

    return flush_keyed(context)


def _views(source: Source, version: int, holds: dict[UUID, Hold]) -> tuple[dict[Name, str], dict[Name, ViewQuery]]:
    """Names in DuckDB with the SELECTs that they stand for, and those of views that are queries; holds what is read.

    DuckDB does not tell names apart by case: the first of several gets the name.
    """
    catalog, pins, left = source.lake.catalog, source.lake.context.pins, _ALL_WRITTEN_OUT
    wanted: dict[Name, str] = {}
    queries: dict[Name, ViewQuery] = {}
    taken: set[Name] = set()

    def free(name: Name) -> bool:
        found = _folded(name) not in taken
        taken.add(_folded(name))
        return found

    shown = catalog.databases()
    for branch in sorted(source.branches):
        shown += catalog.databases(branch=branch)
    for database in shown:
        if database.name.lower() in _KEPT:
            continue
        rows: dict[UUID, str] = {}
        for table in catalog.tables(database.name):
            with suppress(NotFound):  # dropped in the meantime
                hold = pins.hold(table.id, version, check=False)
                state = catalog.table_by_id(table.id, version)
                holds[table.id] = hold
                left -= table.segments
                few = table.segments <= _WRITTEN_OUT and left >= 0
                rows[table.id] = _rows(source, state, write_out=few)
                if free((database.name, table.name)):
                    wanted[database.name, table.name] = rows[table.id]
        for view in catalog.views(database.name):
            name = database.name, view.name
            if view.query is not None and free(name):
                queries[name] = view.query
            elif view.query is None and all(member.id in rows for member in view.members) and free(name):
                wanted[name] = " UNION ALL BY NAME ".join(f"({rows[member.id]})" for member in view.members)
    return wanted, queries


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


def _replace_views(
    connection: DuckDBPyConnection,
    wanted: Mapping[Name, str],
    queries: Collection[Name],
    owner: str,
    make: Callable[[DuckDBPyConnection, Name, str, str], None],
) -> None:
    """Make the views that are wanted, and drop those that were made before, but for `queries`, which are made later.

    A comment on a view says whose it is.
    """
    kept = {_folded(name) for name in (*wanted, *queries)}
    for name in _own_views(connection, owner):
        if _folded(name) not in kept or name in queries:
            connection.execute(f"DROP VIEW {_quoted(name)}")
    for schema in {schema.lower(): schema for schema, _ in (*wanted, *queries)}.values():
        connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(schema)}")
    for name, text in wanted.items():
        make(connection, name, text, owner)


def _make_queries(
    connection: DuckDBPyConnection, queries: Mapping[Name, ViewQuery], tables: Collection[Name], owner: str
) -> None:
    """Make views that are queries: those that others name come before them, however they are listed."""
    if not queries:
        return
    from moulin.duck.translation import translated  # brings sqlglot along

    known = {_folded(name) for name in (*tables, *queries)}
    left: dict[Name, str] = {}
    refused: dict[Name, str] = {}
    for name, query in queries.items():
        try:
            left[name] = translated(connection, name[0], query, known)
        except Unsupported as error:
            refused[name] = str(error)
    made = True
    while left and made:
        made = False
        for name, text in list(left.items()):
            try:
                _make(connection, name, text, owner)
            except duckdb.Error as error:
                refused[name] = f"DuckDB cannot plan it ({_first_line(error)})"
            else:
                made = True
                refused.pop(name, None)
                del left[name]
    for name, reason in refused.items():
        _make(connection, name, _refusal(name, queries[name], reason), owner)


def _refusal(name: Name, query: ViewQuery, reason: str) -> str:
    """A view that cannot be read: using it raises the reason."""
    said = f"View {full_name(*name)} cannot be read in DuckDB: {reason}. Read it on Spark."
    try:
        return _unreadable(said, no_rows(query.schema))
    except Unsupported:
        return _unreadable(said)


def _unreadable(said: str, columns: str = "SELECT NULL AS unreadable WHERE false") -> str:
    return asked_late(columns, f"error({quoted_text(said)})")


def _first_line(error: duckdb.Error) -> str:
    return str(error).splitlines()[0].rstrip(".!")


def _make(connection: DuckDBPyConnection, name: Name, text: str, owner: str) -> None:
    connection.execute(f"CREATE OR REPLACE VIEW {_quoted(name)} AS {text}")
    connection.execute(f"COMMENT ON VIEW {_quoted(name)} IS '{owner}'")


def _quoted(name: Name) -> str:
    return f"{quoted(name[0])}.{quoted(name[1])}"


def _folded(name: Name) -> Name:
    """A name as DuckDB compares it."""
    return name[0].lower(), name[1].lower()


def _make_or_say(connection: DuckDBPyConnection, name: Name, text: str, owner: str) -> None:
    """Make a view; in place of one that DuckDB cannot plan, one that says so to whoever names it."""
    try:
        _make(connection, name, text, owner)
    except duckdb.Error as error:
        said = f"{full_name(*name)} cannot be read: {_first_line(error)}. Run `moulin check`."
        _make(connection, name, _unreadable(said), owner)


def _own_views(connection: DuckDBPyConnection, owner: str) -> Iterable[Name]:
    text = f"SELECT schema_name, view_name FROM duckdb_views() WHERE comment = '{owner}'"
    return connection.execute(text).fetchall()
