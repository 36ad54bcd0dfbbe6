"""Pages for browsing a lake: tables by name, commits newest first, totals."""

# Decisions: docs/decisions/0534

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import history, tables
from moulin.catalog.sql import schema as s
from moulin.model.entities import CommitInfo, TableEntry

_ESCAPE = "\\"


@dataclass(frozen=True, slots=True)
class LakeFigures:
    """Sums over the live tables of main, and the commit time of the newest version (Unix nanoseconds)."""

    version: int
    committed_at: int | None
    databases: int
    tables: int
    rows: int
    bytes: int
    segments: int
    dropped: int


@dataclass(frozen=True, slots=True)
class Activity:
    """One version of the lake: how many `tables` it changed (none: it is about names alone), and its first changes."""

    version: int
    timestamp_ns: int
    kind: str
    tables: int
    changes: tuple[TableChange, ...]


@dataclass(frozen=True, slots=True)
class TableChange:
    """The change of one table in a version. `database` includes the branch, if any."""

    table_id: UUID
    database: str
    name: str
    kind: str
    added_rows: int
    summary: Mapping[str, str]


def tables_page(
    connection: sa.Connection,
    after: tuple[str, str] | None,
    limit: int,
    *,
    text: str = "",
    database_id: UUID | None = None,
) -> list[TableEntry]:
    """Live tables of main in the order of their names, those after a database and name. `text` is in the name."""
    t, d = s.tables, s.databases
    query = (
        sa.select(t, d.c.name.label("database"))
        .join(d, d.c.id == t.c.database_id)
        .where(t.c.tombstoned_at.is_(None), d.c.tombstoned_at.is_(None), d.c.branch_id.is_(None))
        .order_by(d.c.name, t.c.name)
        .limit(limit)
    )
    if after is not None:
        query = query.where(sa.tuple_(d.c.name, t.c.name) > sa.tuple_(*map(sa.literal, after)))
    if text:
        query = query.where(contains(d.c.name + "." + t.c.name, text))
    if database_id is not None:
        query = query.where(d.c.id == database_id)
    return [tables.to_entry(row.database, row) for row in connection.execute(query)]


def tables_with_column(connection: sa.Connection, text: str, limit: int) -> list[tuple[TableEntry, str]]:
    """Live tables of main whose schema, a JSON document that is returned with each, has the text in it."""
    t, d, j = s.tables, s.databases, s.table_schemas
    query = (
        sa.select(t, d.c.name.label("database"), j.c.json)
        .join(d, d.c.id == t.c.database_id)
        .join(j, sa.and_(j.c.table_id == t.c.id, j.c.schema_id == t.c.schema_id))
        .where(t.c.tombstoned_at.is_(None), d.c.tombstoned_at.is_(None), d.c.branch_id.is_(None))
        .where(contains(j.c.json, text))
        .order_by(d.c.name, t.c.name)
        .limit(limit)
    )
    return [(tables.to_entry(row.database, row), row.json) for row in connection.execute(query)]


def commits_page(
    connection: sa.Connection, table_id: UUID, before: tuple[int, int] | None, limit: int
) -> list[CommitInfo]:
    """Kept commits of a table, newest first, those before a version and ordinal."""
    return history.of_table(connection, tables.find_by_id(connection, table_id), limit, before)


def activity(connection: sa.Connection, since: int, before: int | None, limit: int, most: int) -> list[Activity]:
    """Versions after `since` and before `before`, newest first, each with at most `most` things that it did to tables.

    A table's commits are looked up by its id. Only tables that changed since the oldest of these versions are asked.
    """
    v = s.versions
    query = sa.select(v).where(v.c.version > since).order_by(v.c.version.desc()).limit(limit)
    versions = connection.execute(query if before is None else query.where(v.c.version < before)).all()
    if not versions:
        return []
    low, high = versions[-1].version, versions[0].version
    changes: dict[int, list[TableChange]] = {}
    for row in connection.execute(_changes(low, high, most)):
        summary = {key: str(value) for key, value in row.summary.items()}
        change = TableChange(row.table_id, row.database, row.name, str(row.kind), row.added_rows, summary)
        changes.setdefault(row.version, []).append(change)
    counts = {row.version: row.tables for row in connection.execute(_changed_tables(low, high))}
    return [
        Activity(
            one.version, one.timestamp_ns, one.kind, counts.get(one.version, 0), tuple(changes.get(one.version, ()))
        )
        for one in versions
    ]


def _commits_between(low: int, high: int) -> tuple[sa.FromClause, sa.ColumnElement[bool]]:
    c, t = s.table_commits, s.tables
    between = sa.and_(t.c.head_version >= low, c.c.version >= low, c.c.version <= high, c.c.kind != history.EXPIRED)
    return t.join(c, c.c.table_id == t.c.id), between


def _changed_tables(low: int, high: int) -> sa.Select[Any]:
    """Each version, and how many tables it changed."""
    c = s.table_commits
    source, between = _commits_between(low, high)
    count = sa.func.count(c.c.table_id.distinct()).label("tables")
    return sa.select(c.c.version, count).select_from(source).where(between).group_by(c.c.version)


def _changes(low: int, high: int, most: int) -> sa.Select[Any]:
    """The first changes of each version. Ranked by what is small: a version may have changed every table."""
    c, t, d = s.table_commits, s.tables, s.databases
    source, between = _commits_between(low, high)
    by_name = (d.c.name, t.c.name, c.c.ordinal)
    rank = sa.func.row_number().over(partition_by=c.c.version, order_by=by_name).label("rank")
    ranked = (
        sa.select(c.c.table_id, c.c.version, c.c.ordinal, t.c.name, d.c.name.label("database"), rank)
        .select_from(source.join(d, d.c.id == t.c.database_id))
        .where(between)
        .subquery()
    )
    same = sa.and_(c.c.table_id == ranked.c.table_id, c.c.version == ranked.c.version, c.c.ordinal == ranked.c.ordinal)
    return (
        sa.select(c, ranked.c.name, ranked.c.database)
        .select_from(ranked.join(c, same))
        .where(ranked.c.rank <= most)
        .order_by(c.c.version.desc(), ranked.c.rank)
    )


def versions_by_time(connection: sa.Connection, since_ns: int, step_ns: int) -> dict[int, int]:
    """How many versions were committed in each step of time, by its number."""
    v = s.versions
    step = (v.c.timestamp_ns // step_ns).label("step")
    query = sa.select(step, sa.func.count()).where(v.c.timestamp_ns >= since_ns).group_by(step)
    return {int(number): int(count) for number, count in connection.execute(query)}


def figures(connection: sa.Connection) -> LakeFigures:
    t, d, v = s.tables, s.databases, s.versions
    live = sa.and_(t.c.tombstoned_at.is_(None), d.c.tombstoned_at.is_(None), d.c.branch_id.is_(None))
    sums: Any = connection.execute(
        sa.select(sa.func.count(), sa.func.sum(t.c.rows), sa.func.sum(t.c.bytes), sa.func.sum(t.c.segments))
        .select_from(t.join(d, d.c.id == t.c.database_id))
        .where(live)
    ).one()
    databases = sa.select(sa.func.count()).where(d.c.tombstoned_at.is_(None), d.c.branch_id.is_(None))
    last = sa.select(v.c.timestamp_ns).order_by(v.c.version.desc()).limit(1)
    dropped = sum(
        int(connection.execute(sa.select(sa.func.count()).where(source.c.tombstoned_at.is_not(None))).scalar_one())
        for source in (s.databases, s.tables, s.views, s.ingest_tokens)
    )
    return LakeFigures(
        int(connection.execute(sa.select(s.counter.c.version)).scalar_one()),
        connection.execute(last).scalar(),
        int(connection.execute(databases).scalar_one()),
        int(sums[0]),
        int(sums[1] or 0),
        int(sums[2] or 0),
        int(sums[3] or 0),
        dropped,
    )


def contains(column: sa.ColumnElement[str], text: str) -> sa.ColumnElement[bool]:
    """Whether a column contains the text, case-insensitive, without wildcards."""
    escaped = text.lower()
    for character in (_ESCAPE, "%", "_"):
        escaped = escaped.replace(character, _ESCAPE + character)
    return sa.func.lower(column).like(f"%{escaped}%", escape=_ESCAPE)
