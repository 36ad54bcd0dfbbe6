"""Views: ordered unions of tables of one database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import databases
from moulin.catalog.objects.names import NameOrId, by_key, live_tables, require_free_name, same
from moulin.catalog.objects.tombstones import bury, lift, to_resurrect, tombstone_of
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import Draft, add_rows
from moulin.errors import FailedPrecondition, InvalidInput
from moulin.model.entities import Named, View
from moulin.model.ids import new_id
from moulin.model.names import check_name
from moulin.model.texts import check_text


def find(connection: sa.Connection, database: NameOrId, key: NameOrId, *, include_dropped: bool = False) -> Any:
    parent = databases.find(connection, database, include_dropped=include_dropped)
    return by_key(connection, s.views, parent, key, "View", include_dropped=include_dropped)


def load(connection: sa.Connection, database: NameOrId, key: NameOrId, *, include_dropped: bool = False) -> View:
    return to_view(connection, find(connection, database, key, include_dropped=include_dropped))


def create(draft: Draft, database: NameOrId, name: str, members: Sequence[NameOrId], description: str | None) -> View:
    check_name(name, "view")
    if description is not None:
        check_text(description, "description of a view")
    parent = databases.find_parent(draft.connection, database)
    ids = _member_ids(draft.connection, parent, members)
    require_free_name(draft.connection, parent, name)
    view_id = new_id()
    draft.connection.execute(
        s.views.insert().values(
            id=view_id, database_id=parent.id, name=name, description=description, created_at=draft.now
        )
    )
    _store_members(draft, view_id, ids)
    return _by_id(draft.connection, view_id)


def set_members(draft: Draft, database: NameOrId, key: NameOrId, members: Sequence[NameOrId]) -> View:
    """Replace the whole list."""
    parent = databases.find(draft.connection, database)
    row = find(draft.connection, database, key)
    ids = _member_ids(draft.connection, parent, members)
    draft.connection.execute(s.view_members.delete().where(s.view_members.c.view_id == row.id))
    _store_members(draft, row.id, ids)
    return _by_id(draft.connection, row.id)


def list_all(connection: sa.Connection, database: NameOrId, *, include_dropped: bool) -> list[View]:
    parent = databases.find(connection, database, include_dropped=include_dropped)
    query = sa.select(s.views).where(s.views.c.database_id == parent.id).order_by(s.views.c.name, s.views.c.id)
    if not include_dropped:
        query = query.where(s.views.c.tombstoned_at.is_(None))
    return [to_view(connection, row) for row in connection.execute(query).all()]


def rename(draft: Draft, database: NameOrId, key: NameOrId, new_name: str) -> View:
    check_name(new_name, "view")
    parent = databases.find(draft.connection, database)
    row = find(draft.connection, database, key)
    if new_name != row.name:
        require_free_name(draft.connection, parent, new_name)
        draft.connection.execute(s.views.update().where(s.views.c.id == row.id).values(name=new_name))
        add_rows(draft, s.views, [row.id])
    return _by_id(draft.connection, row.id)


def drop(draft: Draft, database: NameOrId, key: NameOrId, *, grace_seconds: float) -> View:
    row = find(draft.connection, database, key, include_dropped=True)
    bury(draft, s.views, row, grace_seconds)
    return _by_id(draft.connection, row.id)


def resurrect(draft: Draft, database: NameOrId, key: NameOrId) -> View:
    parent = databases.find_parent(draft.connection, database)
    found = find(draft.connection, database, key, include_dropped=True)
    named = same(s.views, parent, found, key)
    row = to_resurrect(draft.connection, s.views, named, draft.clock, f"View {parent.name}.{found.name}")
    if row is not None:
        require_free_name(draft.connection, parent, row.name)
        view = to_view(draft.connection, row)
        gone = [m.name for m in view.members if not _is_live(draft.connection, parent.id, m.id)]
        if gone:
            raise FailedPrecondition(
                f"View {parent.name}.{row.name} unites tables that are no longer there: {', '.join(gone)}; "
                "resurrect them first."
            )
        lift(draft, s.views, [row.id])
    return _by_id(draft.connection, found.id if row is None else row.id)


def _by_id(connection: sa.Connection, view_id: UUID) -> View:
    return to_view(connection, connection.execute(sa.select(s.views).where(s.views.c.id == view_id)).one())


def _member_ids(connection: sa.Connection, parent: Any, members: Sequence[NameOrId]) -> list[UUID]:
    if not members:
        raise InvalidInput("A view needs at least one table.")
    ids = live_tables(connection, parent, members, "a view unites tables of its own database")
    if len(set(ids)) != len(ids):
        raise InvalidInput("A view may name each table once; a table named twice would count its rows twice.")
    return ids


def _store_members(draft: Draft, view_id: UUID, ids: list[UUID]) -> None:
    draft.connection.execute(
        s.view_members.insert(),
        [{"view_id": view_id, "ordinal": ordinal, "table_id": table_id} for ordinal, table_id in enumerate(ids)],
    )
    add_rows(draft, s.views, [view_id])


def _is_live(connection: sa.Connection, database_id: UUID, table_id: UUID) -> bool:
    t = s.tables
    query = sa.select(t.c.id).where(t.c.id == table_id, t.c.database_id == database_id, t.c.tombstoned_at.is_(None))
    return connection.execute(query).first() is not None


def to_view(connection: sa.Connection, row: Any) -> View:
    d, m, t = s.databases, s.view_members, s.tables
    members = connection.execute(
        sa.select(m.c.table_id, t.c.name)
        .join(t, t.c.id == m.c.table_id, isouter=True)
        .where(m.c.view_id == row.id)
        .order_by(m.c.ordinal)
    )
    database = connection.execute(sa.select(d.c.name).where(d.c.id == row.database_id)).scalar_one()
    return View(
        row.id,
        database,
        row.name,
        tuple(Named(member.table_id, member.name or "(purged)") for member in members),
        row.created_at,
        row.description,
        tombstone_of(row),
    )
