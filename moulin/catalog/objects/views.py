"""Views: ordered unions of tables of one database, and texts of queries.

A query names tables and views by name, and the catalog does not read it: it holds nothing in place, and what it names
may change or go. The columns of `s.views` that only queries have are null in unions.
"""

# Decisions: docs/decisions/0255, docs/decisions/0500

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace as replace_values
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import databases
from moulin.catalog.objects.names import NameOrId, by_key, live_tables, require_free_name, same
from moulin.catalog.objects.tombstones import bury, lift, to_resurrect, tombstone_of
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import Draft, add_rows
from moulin.errors import Conflict, FailedPrecondition, InvalidInput, NotFound
from moulin.model import view_history
from moulin.model.entities import Named, Representation, View, ViewQuery, ViewVersion
from moulin.model.ids import new_id
from moulin.model.names import check_new_name
from moulin.model.schema.documents import schema_from_json, schema_to_json
from moulin.model.schema.types import check_unique
from moulin.model.texts import check_text, check_texts

_NO_QUERY = dict.fromkeys(("representations", "schema_json", "properties", "query_version", "history_json"))


def find(connection: sa.Connection, database: NameOrId, key: NameOrId, *, include_dropped: bool = False) -> Any:
    parent = databases.find(connection, database, include_dropped=include_dropped)
    return by_key(connection, s.views, parent, key, "View", include_dropped=include_dropped)


def load(connection: sa.Connection, database: NameOrId, key: NameOrId, *, include_dropped: bool = False) -> View:
    return to_view(connection, find(connection, database, key, include_dropped=include_dropped))


def create(
    draft: Draft,
    database: NameOrId,
    name: str,
    members: Sequence[NameOrId],
    description: str | None,
    *,
    query: ViewQuery | None = None,
    replace: bool = False,
    expected: int | None = None,
) -> View:
    """A union of `members`, or a view of `query`. With `replace`, it takes the place of a view that has the name.

    One that takes the place of another keeps its id, and the versions of a query, unless `query` brings a history. With
    `expected`, the view that is replaced must be there and have changed so often: else NotFound or Conflict.
    """
    check_new_name(name, "view")
    if description is not None:
        check_text(description, "description of a view")
    parent = databases.find_parent(draft.connection, database)
    if query is not None:
        _check_query(query, members)
    ids = [] if query is not None else _member_ids(draft.connection, parent, members)
    row = _live(draft.connection, parent, name) if replace else None
    if expected is not None:
        _require_unchanged(parent, name, row, expected)
    if row is None:
        require_free_name(draft.connection, parent, name)
    view_id = new_id() if row is None else row.id
    version = 1 if row is None else (row.query_version or 0) + 1
    if query is not None and query.history is None and row is not None and row.representations is not None:
        query = _continued(query, to_view(draft.connection, row), draft.now)
    values = {"description": description, **(_NO_QUERY if query is None else _query_values(query, version))}
    if row is None:
        values |= {"id": view_id, "database_id": parent.id, "name": name, "created_at": draft.now}
        draft.connection.execute(s.views.insert().values(values))
    else:
        draft.connection.execute(s.views.update().where(s.views.c.id == view_id).values(values))
    _store_members(draft, view_id, ids)
    return _by_id(draft.connection, view_id)


def set_members(draft: Draft, database: NameOrId, key: NameOrId, members: Sequence[NameOrId]) -> View:
    """Replace the whole list."""
    parent = databases.find(draft.connection, database)
    row = find(draft.connection, database, key)
    if row.representations is not None:
        raise FailedPrecondition(
            f"View {parent.name}.{row.name} is a query, not a union of tables: replace it instead."
        )
    ids = _member_ids(draft.connection, parent, members)
    _store_members(draft, row.id, ids)
    return _by_id(draft.connection, row.id)


def set_properties(
    draft: Draft, database: NameOrId, key: NameOrId, updates: Mapping[str, str], removals: Collection[str]
) -> View:
    """Properties of a query set, and removed."""
    _check_properties(updates)
    row = find(draft.connection, database, key)
    if row.representations is None:
        raise FailedPrecondition(f"View {row.name} is a union of tables; only views with a query have properties.")
    properties = {name: value for name, value in row.properties.items() if name not in removals} | dict(updates)
    if properties != row.properties:
        values = {"properties": properties, "query_version": row.query_version + 1}
        draft.connection.execute(s.views.update().where(s.views.c.id == row.id).values(values))
        add_rows(draft, s.views, [row.id])
    return _by_id(draft.connection, row.id)


def list_all(connection: sa.Connection, database: NameOrId, *, include_dropped: bool) -> list[View]:
    parent = databases.find(connection, database, include_dropped=include_dropped)
    query = sa.select(s.views).where(s.views.c.database_id == parent.id).order_by(s.views.c.name, s.views.c.id)
    if not include_dropped:
        query = query.where(s.views.c.tombstoned_at.is_(None))
    return [to_view(connection, row) for row in connection.execute(query).all()]


def rename(
    draft: Draft, database: NameOrId, key: NameOrId, new_name: str, new_database: NameOrId | None = None
) -> View:
    """Rename a view, possibly to another database if it is a query: a union stays with its tables."""
    check_new_name(new_name, "view")
    row = find(draft.connection, database, key)
    target = databases.find_parent(draft.connection, database if new_database is None else new_database)
    if target.id != row.database_id:
        databases.require_same_branch(draft.connection, row.database_id, target)
        if row.representations is None:
            raise InvalidInput(
                "A union of tables cannot move to another database: create a new view there, and drop this one."
            )
    if (new_name, target.id) != (row.name, row.database_id):
        require_free_name(draft.connection, target, new_name)
        values = {"name": new_name, "database_id": target.id}
        draft.connection.execute(s.views.update().where(s.views.c.id == row.id).values(values))
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
                f"View {parent.name}.{row.name} combines tables that no longer exist: {', '.join(gone)}: resurrect "
                f"them first."
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
        raise InvalidInput("A view may use each table only once.")
    return ids


def _live(connection: sa.Connection, parent: Any, name: str) -> Any:
    v = s.views
    query = sa.select(v).where(v.c.database_id == parent.id, v.c.name == name, v.c.tombstoned_at.is_(None))
    return connection.execute(query).first()


def _check_query(query: ViewQuery, members: Sequence[NameOrId]) -> None:
    if members:
        raise InvalidInput("A view can have tables or a query, not both.")
    view_history.check_dialects(query.representations)
    if not query.schema.fields:
        raise InvalidInput("A view needs at least one column.")
    check_unique(query.schema.fields, "The view")
    check_text(schema_to_json(query.schema), "schema of a view")
    _check_properties(query.properties)
    view_history.check_history(query)


def _require_unchanged(parent: Any, name: str, row: Any, expected: int) -> None:
    if row is None:
        raise NotFound(f"View {parent.name}.{name} does not exist.")
    if (row.query_version or 0) != expected:
        raise Conflict(
            f"View {parent.name}.{name} was changed by another writer: read it again.", requirement="the view"
        )


def _continued(query: ViewQuery, before: View, now: int) -> ViewQuery:
    """The query as one version more of the view that it replaces."""
    assert before.query is not None
    history = before.query.history or view_history.begun(before.query, before.database, before.created_at)
    texts, summary = query.representations, {"engine-name": "moulin"}
    version = ViewVersion(history.current_id, now // 1_000_000, 0, summary, texts, (before.database,))
    history = view_history.extended(history, query.schema, version)
    history = view_history.trimmed(history, view_history.kept(query.properties))
    return replace_values(query, schema=history.schema, history=history)


def _check_properties(properties: Mapping[str, str]) -> None:
    check_texts(properties, "property")
    for name in properties:
        if name.startswith("moulin."):
            raise InvalidInput(f"Property {name!r:.60} is reserved for tables: remove it.")


def _query_values(query: ViewQuery, version: int) -> dict[str, Any]:
    return {
        "representations": [{"dialect": one.dialect, "sql": one.sql} for one in query.representations],
        "schema_json": schema_to_json(query.schema),
        "properties": dict(query.properties),
        "query_version": version,
        "history_json": None if query.history is None else view_history.history_to_json(query.history),
    }


def _store_members(draft: Draft, view_id: UUID, ids: list[UUID]) -> None:
    """Replace the tables of a view."""
    draft.connection.execute(s.view_members.delete().where(s.view_members.c.view_id == view_id))
    rows = [{"view_id": view_id, "ordinal": ordinal, "table_id": table_id} for ordinal, table_id in enumerate(ids)]
    if rows:
        draft.connection.execute(s.view_members.insert(), rows)
    add_rows(draft, s.views, [view_id])


def _is_live(connection: sa.Connection, database_id: UUID, table_id: UUID) -> bool:
    t = s.tables
    query = sa.select(t.c.id).where(t.c.id == table_id, t.c.database_id == database_id, t.c.tombstoned_at.is_(None))
    return connection.execute(query).first() is not None


def to_view(connection: sa.Connection, row: Any) -> View:
    d, m, t, b = s.databases, s.view_members, s.tables, s.branch_tables
    members = connection.execute(
        sa.select(m.c.table_id, sa.func.coalesce(t.c.name, b.c.name).label("name"))
        .join(t, t.c.id == m.c.table_id, isouter=True)
        .join(b, b.c.own_id == m.c.table_id, isouter=True)  # not opened on its branch yet
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
        None if row.representations is None else _to_query(row),
    )


def _to_query(row: Any) -> ViewQuery:
    return ViewQuery(
        tuple(Representation(one["dialect"], one["sql"]) for one in row.representations),
        schema_from_json(row.schema_json),
        row.properties,
        row.query_version,
        None if row.history_json is None else view_history.history_from_json(row.history_json),
    )
