"""Branches. A branch has its own databases, named after those of main.

The database `shop` of the branch `exp` is `shop@exp`. Creating a branch lists the tables of main and copies no rows; a
table is cloned at the fork version when it is first opened on the branch.
"""

# Decisions: docs/decisions/0411

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, Final
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.commit import clones, publish_objects
from moulin.catalog.objects import databases, tables
from moulin.catalog.objects.names import NameOrId
from moulin.catalog.objects.tombstones import bury, lift, to_resurrect, tombstone_of
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.sql.draft import Draft, add_branches, add_rows
from moulin.catalog.sql.prepared import Prepared
from moulin.errors import AlreadyExists, InvalidInput, NotFound
from moulin.model.entities import Branch, BranchTable, TableEntry
from moulin.model.ids import new_id
from moulin.model.names import AT, check_branch_name, full_name, on_branch
from moulin.model.operations import Kind

_LIST = Prepared(s.branch_tables.insert())


def create(
    draft: Draft, name: str, version: int | None, expires_in: float | None, only: Collection[UUID] | None
) -> Branch:
    """A branch from main at `version`, by default now, with all tables of main or those in `only`."""
    check_branch_name(name)
    connection, b = draft.connection, s.branches
    if connection.execute(sa.select(b.c.id).where(b.c.name == name, b.c.tombstoned_at.is_(None))).first():
        raise AlreadyExists(f"Branch {name!r} already exists: publish or drop it first.")
    if expires_in is not None and not 0 < expires_in < 2**33:
        raise InvalidInput(f"The expiry of a branch must be a positive number of seconds, not {expires_in}.")
    newest = draft.version - 1
    if version is not None and not 0 <= version <= newest:
        raise InvalidInput(f"Version {version} does not exist; the newest is {newest}.")
    branch_id, at = new_id(), newest if version is None else version
    listed = _tables_at(connection, at, only)
    expires_at = None if expires_in is None else draft.now + int(expires_in * NANOS)
    row = {"id": branch_id, "name": name, "version": at, "created_at": draft.now, "expires_at": expires_at}
    connection.execute(b.insert().values(row))
    made = _copy_databases(draft, branch_id, name)
    rows = [
        {
            "branch_id": branch_id,
            "source_id": table.id,
            "database_id": made[table.database_id],
            "name": table.name,
            "own_id": new_id(),
            "opened": False,
        }
        for table in listed
    ]
    if rows:
        _LIST.run(connection, *rows)
        add_branches(draft.lake(), [], (SimpleNamespace(**one) for one in rows))
    views = {} if only is not None else _copy_views(draft, made, {row["source_id"]: row["own_id"] for row in rows})
    noted = publish_objects.began(connection, made, views)
    connection.execute(b.update().where(b.c.id == branch_id).values(began=noted))
    add_rows(draft, b, [branch_id])
    return load(connection, name)


def _tables_at(connection: sa.Connection, version: int, only: Collection[UUID] | None) -> list[Any]:
    """The live tables of main at a version, which must be kept for each."""
    t, d = s.tables, s.databases
    query = (
        sa.select(t.c.id, t.c.name, t.c.database_id, t.c.oldest_version, d.c.name.label("database"))
        .join(d, d.c.id == t.c.database_id)
        .where(d.c.branch_id.is_(None), t.c.tombstoned_at.is_(None), t.c.created_version <= version)
        .order_by(t.c.id)
    )
    found = [row for row in connection.execute(query) if only is None or row.id in only]
    for row in found:
        if row.oldest_version > version:
            raise InvalidInput(
                f"Version {version} of {full_name(row.database, row.name)} is no longer kept; the oldest is "
                f"{row.oldest_version}."
            )
    if only is not None and len(found) != len(only):
        raise NotFound(f"A table in tables= did not exist at version {version}.")
    return found


def _copy_databases(draft: Draft, branch_id: UUID, name: str) -> dict[UUID, UUID]:
    """Create a database of the branch for each of main; returns their ids by those of main's."""
    d, made = s.databases, {}
    mine = sa.select(d).where(d.c.branch_id.is_(None), d.c.tombstoned_at.is_(None)).order_by(d.c.name)
    rows = []
    for row in draft.connection.execute(mine).all():
        made[row.id] = new_id()
        values = {"id": made[row.id], "name": on_branch(row.name, name), "properties": row.properties}
        rows.append({**values, "created_at": draft.now, "branch_id": branch_id, "origin_id": row.id})
    if rows:
        draft.connection.execute(d.insert(), rows)
        add_rows(draft, d, list(made.values()))
    return made


def _copy_views(draft: Draft, made: dict[UUID, UUID], own: dict[UUID, UUID]) -> dict[UUID, UUID]:
    """Create the views of main over the tables of the branch; `own` and the result map ids of main to those of the
    branch.
    """
    v, m, connection = s.views, s.view_members, draft.connection
    copies: dict[UUID, UUID] = {}
    live = sa.select(v).where(v.c.tombstoned_at.is_(None), v.c.database_id.in_(list(made)))
    for row in connection.execute(live).all():
        chosen = sa.select(m.c.table_id).where(m.c.view_id == row.id).order_by(m.c.ordinal)
        members = list(connection.execute(chosen).scalars())
        if not own.keys() >= set(members):
            continue  # a table of it is younger than the branch
        view_id = copies[row.id] = new_id()
        values = {**row._mapping, "id": view_id, "database_id": made[row.database_id], "created_at": draft.now}
        connection.execute(v.insert().values(values))
        for ordinal, member in enumerate(members):
            connection.execute(m.insert().values(view_id=view_id, ordinal=ordinal, table_id=own[member]))
        add_rows(draft, v, [view_id])
    return copies


def find(connection: sa.Connection, name: str, *, include_dropped: bool = False) -> Any:
    b = s.branches
    query = sa.select(b).where(b.c.name == name)
    if not include_dropped:
        query = query.where(b.c.tombstoned_at.is_(None))
    row = connection.execute(query.order_by(b.c.tombstoned_at.desc().nulls_first()).limit(1)).first()
    if row is None:
        raise databases.no_branch(name)
    return row


def list_all(connection: sa.Connection, *, include_dropped: bool) -> list[Branch]:
    query = sa.select(s.branches).order_by(s.branches.c.name, s.branches.c.id)
    if not include_dropped:
        query = query.where(s.branches.c.tombstoned_at.is_(None))
    return [_to_branch(connection, row) for row in connection.execute(query).all()]


def load(connection: sa.Connection, name: str) -> Branch:
    return _to_branch(connection, find(connection, name))


def _to_branch(connection: sa.Connection, row: Any) -> Branch:
    c = s.branch_tables
    both = sa.select(sa.func.count(), sa.func.sum(sa.case((c.c.opened, 1), else_=0))).where(c.c.branch_id == row.id)
    total, opened = connection.execute(both).one()
    times = row.created_at, row.expires_at
    counts = total, opened or 0
    return Branch(row.id, row.name, row.version, *times, *counts, tombstone_of(row), row.published_version)


def unopened(connection: sa.Connection, *where: sa.ColumnElement[bool]) -> list[Any]:
    """The tables of live branches that are not opened yet, by name.

    A replica clones such a table only for itself.
    """
    d, c, b = s.databases, s.branch_tables, s.branches
    cloned = sa.exists().where(s.tables.c.id == c.c.own_id).correlate(c)
    query = (
        sa.select(c, b.c.version, b.c.created_at, d.c.name.label("database"))
        .join(d, d.c.id == c.c.database_id)
        .join(b, b.c.id == c.c.branch_id)
        .where(c.c.opened.is_(False), ~cloned, d.c.tombstoned_at.is_(None), *where)
        .order_by(c.c.name)
    )
    return list(connection.execute(query))


def in_database(database: NameOrId) -> sa.ColumnElement[bool]:
    """The condition for tables of `unopened` in a database."""
    return s.databases.c.id == database if isinstance(database, UUID) else s.databases.c.name == database


def named(key: NameOrId) -> sa.ColumnElement[bool]:
    """The condition for tables of `unopened` with a name or id."""
    c = s.branch_tables
    return c.c.own_id == key if isinstance(key, UUID) else c.c.name == key


def entries(connection: sa.Connection, database: NameOrId) -> list[TableEntry]:
    """What a list of tables says of those that are not opened yet: their counts are those of the branch's version."""
    rows = {row.source_id: row for row in unopened(connection, in_database(database))}
    sources = connection.execute(sa.select(s.tables).where(s.tables.c.id.in_(list(rows)))).all() if rows else []
    return [
        replace(
            tables.to_entry(rows[source.id].database, source),
            id=rows[source.id].own_id,
            name=rows[source.id].name,
            database_id=rows[source.id].database_id,
            tombstone=None,
            **_counts(connection, source, rows[source.id].version),
        )
        for source in sources
    ]


def _counts(connection: sa.Connection, source: Any, version: int) -> dict[str, Any]:
    if version >= source.head_version:
        return {}
    counts = clones.sums(connection, source, version)
    return {"head_version": version, **{name: counts[name] for name in ("segments", "rows", "bytes")}}


def open_table(draft: Draft, row: Any) -> None:
    """Clone an unopened table at the fork version."""
    c, connection = s.branch_tables, draft.connection
    mine = (c.c.branch_id == row.branch_id, c.c.source_id == row.source_id)
    if connection.execute(sa.select(c.c.opened).where(*mine)).scalar() is not False:
        return  # another process was faster
    clone_table(draft, row)
    connection.execute(c.update().where(*mine).values(opened=True))
    add_branches(draft.lake(), [], connection.execute(sa.select(c).where(*mine)))


def clone_table(draft: Draft, row: Any) -> None:
    """Clone an unopened table as of the creation of its branch, without recording that it is opened."""
    source, parent, began = row.source_id, row.database_id, row.created_at
    clones.clone(draft, source, parent, row.name, row.version, table_id=row.own_id, created_at=began, on_branch=True)


def version_to_read(connection: sa.Connection, row: Any, version: int | None) -> int | None:
    """The version with the same rows that a table had at `version`; `row` is the table's row.

    From the fork version until it is opened, a table on a branch has the rows with which it is opened.
    """
    if version is None or version >= row.created_version or row.base_id is None:
        return version
    b, c = s.branches, s.branch_tables
    began = sa.select(b.c.version).join(c, c.c.branch_id == b.c.id).where(c.c.own_id == row.id)
    since = connection.execute(began).scalar()
    return version if since is None or version < since else int(row.created_version)


_QUIET: Final = (Kind.COMPACT, Kind.CREATE_INDEX, Kind.UPDATE_INDEX, Kind.DROP_INDEX)


def changed(connection: sa.Connection, name: str) -> list[BranchTable]:
    """The tables of a branch that differ from its fork version, by name, without unopened tables."""
    branch = find(connection, name)
    t, d, c, h = s.tables, s.databases, s.branch_tables, s.table_commits
    mine, began = d.alias("mine"), d.alias("began")
    wrote = sa.exists().where(h.c.table_id == t.c.id, h.c.version > t.c.created_version, h.c.kind.not_in(_QUIET))
    indexed = sa.exists().where(s.indexes.c.table_id == t.c.id)
    p = s.segment_spans
    beside = sa.exists().where(p.c.table_id == t.c.id, p.c.removed_version == s.OPEN, p.c.columns_id != 0)
    columns = (t.c.id, t.c.name, t.c.tombstoned_at, t.c.created_version, t.c.head_version, t.c.database_id)
    query = (
        sa.select(
            *columns,
            mine.c.name.label("database"),
            c.c.source_id,
            c.c.name.label("old_name"),
            c.c.database_id.label("old_database_id"),
            began.c.name.label("old_database"),
            sa.or_(wrote, indexed).label("wrote"),
            beside.label("beside"),
        )
        .join(mine, mine.c.id == t.c.database_id)
        .join(c, sa.and_(c.c.own_id == t.c.id, c.c.branch_id == branch.id), isouter=True)
        .join(began, began.c.id == c.c.database_id, isouter=True)
        .where(mine.c.branch_id == branch.id)
    )
    found = [_branch_table(name, row) for row in connection.execute(query).all()]
    found += _purged(connection, branch)
    return sorted((one for one in found if one is not None), key=lambda one: one.after or one.before or "")


def _purged(connection: sa.Connection, branch: Any) -> list[BranchTable | None]:
    """Tables that were dropped on a branch and already purged."""
    c, d, t = s.branch_tables, s.databases, s.tables
    query = sa.select(c, d.c.name.label("database")).join(d, d.c.id == c.c.database_id, isouter=True)
    gone = ~sa.exists().where(t.c.id == c.c.own_id)
    ending = AT + branch.name
    return [
        BranchTable(
            row.source_id, row.own_id, f"{(row.database or '').removesuffix(ending)}.{row.name}", None, 0, 0, False
        )
        for row in connection.execute(query.where(c.c.branch_id == branch.id, c.c.opened, gone))
    ]


def _branch_table(branch: str, row: Any) -> BranchTable | None:
    is_new, is_gone = row.source_id is None, row.tombstoned_at is not None
    moved = not is_new and (row.old_name, row.old_database_id) != (row.name, row.database_id)
    if (is_new and is_gone) or not (is_new or is_gone or moved or row.wrote):
        return None
    ending = AT + branch
    before = None if is_new else full_name(row.old_database.removesuffix(ending), row.old_name)
    after = None if is_gone else full_name(row.database.removesuffix(ending), row.name)
    versions = row.created_version, row.head_version
    return BranchTable(row.source_id, row.id, before, after, *versions, bool(row.wrote), bool(row.beside))


def drop(draft: Draft, name: str, *, grace_seconds: float) -> Branch:
    """Drop a branch and everything on it."""
    row = find(draft.connection, name)
    bury(draft, s.branches, row, grace_seconds)
    found = _databases(draft.connection, row.id, live=True)
    for database in sorted(found, key=lambda one: len(one.name), reverse=True):  # those below others come first
        databases.drop(draft, database.id, cascade=True, grace_seconds=grace_seconds)
    return _to_branch(draft.connection, find(draft.connection, name, include_dropped=True))


def resurrect(draft: Draft, name: str) -> Branch:
    b = s.branches
    row = to_resurrect(draft.connection, b, b.c.name == name, draft.clock, f"Branch {name!r}")
    if row is not None:
        lift(draft, b, [row.id])
        for database in _databases(draft.connection, row.id, live=False):
            if database.tombstoned_at >= row.tombstoned_at:
                databases.resurrect(draft, database.id)
        draft.connection.execute(
            b.update().where(b.c.id == row.id, b.c.expires_at <= draft.now).values(expires_at=None)
        )
        add_rows(draft, b, [row.id])
    return load(draft.connection, name)


def _databases(connection: sa.Connection, branch_id: UUID, *, live: bool) -> list[Any]:
    d = s.databases
    alive = d.c.tombstoned_at.is_(None) if live else d.c.tombstoned_at.is_not(None)
    return list(connection.execute(sa.select(d).where(d.c.branch_id == branch_id, alive).order_by(d.c.name)))


def expired(connection: sa.Connection, now: int) -> list[str]:
    """The names of live branches that have expired."""
    b = s.branches
    over = sa.select(b.c.name).where(b.c.tombstoned_at.is_(None), b.c.expires_at <= now).order_by(b.c.name)
    return list(connection.execute(over).scalars())


def purge(draft: Draft, now: int) -> list[str]:
    """Purge branches past their grace period; main's tables are then no longer kept for them."""
    b, c, connection = s.branches, s.branch_tables, draft.connection
    names = []
    for row in connection.execute(sa.select(b).where(b.c.delete_at <= now)).all():
        names.append(f"branch {row.name}")
        draft.lake().purged.append(row.id.bytes)
        connection.execute(c.delete().where(c.c.branch_id == row.id))
        connection.execute(b.delete().where(b.c.id == row.id))
    return names
