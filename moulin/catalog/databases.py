"""Databases: create, list, rename, drop with or without their children, preview, resurrect."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog import schema as s
from moulin.catalog.draft import Draft, add_rows
from moulin.catalog.tombstones import bury, lift, to_resurrect, tombstone_of
from moulin.errors import AlreadyExists, FailedPrecondition, NotFound
from moulin.model.entities import Database, DropPreview, Member
from moulin.model.ids import new_id
from moulin.model.names import check_name


def find(connection: sa.Connection, name: str, *, include_dropped: bool = False) -> Any:
    """The row of database `name`: the live one, else (if asked for) the one dropped last."""
    d = s.databases
    query = sa.select(d).where(d.c.name == name)
    if not include_dropped:
        query = query.where(d.c.tombstoned_at.is_(None))
    row = connection.execute(query.order_by(d.c.tombstoned_at.desc().nulls_first()).limit(1)).first()
    if row is None:
        raise NotFound(f"Database {name!r} does not exist; create it with create_database({name!r}).")
    return row


def find_parent(connection: sa.Connection, name: str) -> Any:
    """The row of a live database that something is made in; FailedPrecondition when it was dropped."""
    row = find(connection, name, include_dropped=True)
    if row.tombstoned_at is not None:
        raise FailedPrecondition(f"Database {name!r} was dropped; resurrect it, or create it anew.")
    return row


def to_database(row: Any) -> Database:
    return Database(row.id, row.name, row.properties, row.created_at, tombstone_of(row))


def create(draft: Draft, name: str, properties: Mapping[str, str], *, if_not_exists: bool) -> Database:
    check_name(name, "database")
    if not if_not_exists:
        _require_free(draft.connection, name)
    row = _live(draft.connection, name)
    if row is None:
        database_id = new_id()
        draft.connection.execute(
            s.databases.insert().values(id=database_id, name=name, properties=dict(properties), created_at=draft.now)
        )
        add_rows(draft, s.databases, [database_id])
        row = _live(draft.connection, name)
    return to_database(row)


def list_all(connection: sa.Connection, *, include_dropped: bool) -> list[Database]:
    query = sa.select(s.databases).order_by(s.databases.c.name, s.databases.c.id)
    if not include_dropped:
        query = query.where(s.databases.c.tombstoned_at.is_(None))
    return [to_database(row) for row in connection.execute(query)]


def rename(draft: Draft, name: str, new_name: str) -> Database:
    row = find(draft.connection, name)
    check_name(new_name, "database")
    if new_name != name:
        _require_free(draft.connection, new_name)
        draft.connection.execute(s.databases.update().where(s.databases.c.id == row.id).values(name=new_name))
        add_rows(draft, s.databases, [row.id])
    return to_database(find(draft.connection, new_name))


def preview_drop(connection: sa.Connection, name: str, grace_seconds: float) -> DropPreview:
    row = find(connection, name)
    return DropPreview(
        to_database(row), _children(connection, s.tables, row.id), _children(connection, s.views, row.id), grace_seconds
    )


def drop(draft: Draft, name: str, *, cascade: bool, grace_seconds: float) -> Database:
    """Tombstone the database; with `cascade`, its live children too, with the same end of grace, in one version."""
    row = find(draft.connection, name, include_dropped=True)
    held = [
        f"{kind} {member.name!r}"
        for kind, table in (("table", s.tables), ("view", s.views))
        for member in _children(draft.connection, table, row.id)
    ]
    if held and not cascade:
        raise FailedPrecondition(
            f"Database {name!r} still holds {', '.join(held[:5])}{' and more' if len(held) > 5 else ''}; "
            "drop them first, or drop the database with cascade."
        )
    bury(draft, s.databases, row, grace_seconds)
    for table in (s.views, s.tables):
        # Children that fell with it before have its tombstone: when that ends earlier now, so does theirs.
        fell_with_it = sa.or_(table.c.tombstoned_at.is_(None), table.c.tombstoned_at == row.tombstoned_at)
        children = sa.select(table).where(table.c.database_id == row.id, fell_with_it)
        for child in draft.connection.execute(children).all():
            bury(draft, table, child, grace_seconds)
    return to_database(_by_id(draft.connection, row.id))


def resurrect(draft: Draft, name: str) -> Database:
    """Lift the tombstone of the database and of every child still in its grace window; all or nothing.

    A view whose tables do not all come back stays behind.
    """
    row = to_resurrect(draft.connection, s.databases, s.databases.c.name == name, draft.now, f"Database {name!r}")
    if row is None:
        return to_database(find(draft.connection, name))
    lift(draft, s.databases, [row.id])
    tables = _in_grace(draft, s.tables, row.id)
    alive = {table.id for table in tables}
    members = s.view_members
    views = [
        view
        for view in _in_grace(draft, s.views, row.id)
        if alive.issuperset(
            draft.connection.execute(sa.select(members.c.table_id).where(members.c.view_id == view.id)).scalars()
        )
    ]
    names = [child.name for child in (*tables, *views)]
    if twice := sorted({child for child in names if names.count(child) > 1}):
        raise AlreadyExists(
            f"Database {name!r} cannot come back: it holds more than one dropped table or view named "
            f"{', '.join(map(repr, twice))}. Wait until the grace window of all but one has passed."
        )
    lift(draft, s.tables, [table.id for table in tables])
    lift(draft, s.views, [view.id for view in views])
    return to_database(_by_id(draft.connection, row.id))


def _in_grace(draft: Draft, table: sa.Table, database_id: UUID) -> list[Any]:
    query = sa.select(table).where(table.c.database_id == database_id, table.c.delete_at > draft.now)
    return list(draft.connection.execute(query.order_by(table.c.name)))


def _by_id(connection: sa.Connection, database_id: UUID) -> Any:
    return connection.execute(sa.select(s.databases).where(s.databases.c.id == database_id)).one()


def _live(connection: sa.Connection, name: str) -> Any:
    d = s.databases
    return connection.execute(sa.select(d).where(d.c.name == name, d.c.tombstoned_at.is_(None))).first()


def _require_free(connection: sa.Connection, name: str) -> None:
    if _live(connection, name) is not None:
        raise AlreadyExists(f"Database {name!r} already exists.")


def _children(connection: sa.Connection, table: sa.Table, database_id: UUID) -> tuple[Member, ...]:
    query = (
        sa.select(table.c.id, table.c.name)
        .where(table.c.database_id == database_id, table.c.tombstoned_at.is_(None))
        .order_by(table.c.name)
    )
    return tuple(Member(row.id, row.name) for row in connection.execute(query))
