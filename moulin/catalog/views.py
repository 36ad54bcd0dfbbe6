"""Views: ordered unions of tables of one database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog import databases
from moulin.catalog import schema as s
from moulin.catalog.draft import Draft, add_rows
from moulin.catalog.names import require_free_name
from moulin.catalog.tombstones import bury, lift, to_resurrect, tombstone_of
from moulin.errors import FailedPrecondition, InvalidInput, NotFound
from moulin.model.entities import Member, View
from moulin.model.ids import new_id
from moulin.model.names import check_name


def find(connection: sa.Connection, database: str, name: str, *, include_dropped: bool = False) -> Any:
    v = s.views
    parent = databases.find(connection, database, include_dropped=include_dropped)
    query = sa.select(v).where(v.c.database_id == parent.id, v.c.name == name)
    if not include_dropped:
        query = query.where(v.c.tombstoned_at.is_(None))
    row = connection.execute(query.order_by(v.c.tombstoned_at.desc().nulls_first()).limit(1)).first()
    if row is None:
        raise NotFound(f"View {database}.{name} does not exist.")
    return row


def load(connection: sa.Connection, database: str, name: str, *, include_dropped: bool = False) -> View:
    return _to_view(connection, database, find(connection, database, name, include_dropped=include_dropped))


def create(draft: Draft, database: str, name: str, members: Sequence[str], description: str | None) -> View:
    check_name(name, "view")
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
    return load(draft.connection, database, name)


def set_members(draft: Draft, database: str, name: str, members: Sequence[str]) -> View:
    """Replace the whole list."""
    parent = databases.find(draft.connection, database)
    row = find(draft.connection, database, name)
    ids = _member_ids(draft.connection, parent, members)
    draft.connection.execute(s.view_members.delete().where(s.view_members.c.view_id == row.id))
    _store_members(draft, row.id, ids)
    return load(draft.connection, database, name)


def list_all(connection: sa.Connection, database: str, *, include_dropped: bool) -> list[View]:
    parent = databases.find(connection, database, include_dropped=include_dropped)
    query = sa.select(s.views).where(s.views.c.database_id == parent.id).order_by(s.views.c.name, s.views.c.id)
    if not include_dropped:
        query = query.where(s.views.c.tombstoned_at.is_(None))
    return [_to_view(connection, database, row) for row in connection.execute(query).all()]


def rename(draft: Draft, database: str, name: str, new_name: str) -> View:
    check_name(new_name, "view")
    parent = databases.find(draft.connection, database)
    row = find(draft.connection, database, name)
    if new_name != name:
        require_free_name(draft.connection, parent, new_name)
        draft.connection.execute(s.views.update().where(s.views.c.id == row.id).values(name=new_name))
        add_rows(draft, s.views, [row.id])
    return load(draft.connection, database, new_name)


def drop(draft: Draft, database: str, name: str, *, grace_seconds: float) -> View:
    row = find(draft.connection, database, name, include_dropped=True)
    bury(draft, s.views, row, grace_seconds)
    buried = draft.connection.execute(sa.select(s.views).where(s.views.c.id == row.id)).one()
    return _to_view(draft.connection, database, buried)


def resurrect(draft: Draft, database: str, name: str) -> View:
    parent = databases.find_parent(draft.connection, database)
    named = sa.and_(s.views.c.database_id == parent.id, s.views.c.name == name)
    row = to_resurrect(draft.connection, s.views, named, draft.now, f"View {database}.{name}")
    if row is not None:
        require_free_name(draft.connection, parent, name)
        view = _to_view(draft.connection, database, row)
        gone = [m.name for m in view.members if not _is_live(draft.connection, parent.id, m.id)]
        if gone:
            raise FailedPrecondition(
                f"View {database}.{name} unites tables that are no longer there: {', '.join(gone)}; "
                "resurrect them first."
            )
        lift(draft, s.views, [row.id])
    return load(draft.connection, database, name)


def using_table(connection: sa.Connection, table_id: UUID) -> list[str]:
    """The names of live views that have the table as a member."""
    v, m = s.views, s.view_members
    query = (
        sa.select(v.c.name)
        .join(m, m.c.view_id == v.c.id)
        .where(m.c.table_id == table_id, v.c.tombstoned_at.is_(None))
        .order_by(v.c.name)
    )
    return list(connection.execute(query).scalars())


def _member_ids(connection: sa.Connection, parent: Any, members: Sequence[str]) -> list[UUID]:
    if not members:
        raise InvalidInput("A view needs at least one table.")
    if len(set(members)) != len(members):
        raise InvalidInput("A view may name each table once; a table named twice would count its rows twice.")
    t = s.tables
    found = {
        row.name: row.id
        for row in connection.execute(
            sa.select(t.c.id, t.c.name).where(
                t.c.database_id == parent.id, t.c.name.in_(members), t.c.tombstoned_at.is_(None)
            )
        )
    }
    if missing := [name for name in members if name not in found]:
        raise NotFound(f"Table {parent.name}.{missing[0]} does not exist; a view unites tables of its own database.")
    return [found[name] for name in members]


def _store_members(draft: Draft, view_id: UUID, ids: list[UUID]) -> None:
    draft.connection.execute(
        s.view_members.insert(),
        [{"view_id": view_id, "ordinal": place, "table_id": table_id} for place, table_id in enumerate(ids)],
    )
    add_rows(draft, s.views, [view_id])


def _is_live(connection: sa.Connection, database_id: UUID, table_id: UUID) -> bool:
    t = s.tables
    query = sa.select(t.c.id).where(t.c.id == table_id, t.c.database_id == database_id, t.c.tombstoned_at.is_(None))
    return connection.execute(query).first() is not None


def _to_view(connection: sa.Connection, database: str, row: Any) -> View:
    m, t = s.view_members, s.tables
    members = connection.execute(
        sa.select(m.c.table_id, t.c.name)
        .join(t, t.c.id == m.c.table_id, isouter=True)
        .where(m.c.view_id == row.id)
        .order_by(m.c.ordinal)
    )
    return View(
        row.id,
        database,
        row.name,
        tuple(Member(member.table_id, member.name or "(purged)") for member in members),
        row.created_at,
        row.description,
        tombstone_of(row),
    )
