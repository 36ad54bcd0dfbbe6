"""How objects are told apart: by name among the live ones, or by id. Tables and views of a database share names."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.prepared import Prepared
from moulin.errors import AlreadyExists, FailedPrecondition, InvalidInput, NotFound
from moulin.model.names import full_name

NameOrId = str | UUID
"""A name, which may pass from one object to another, or an id, which never does."""


def require_free_name(connection: sa.Connection, database: Any, name: str) -> None:
    """AlreadyExists when a live table or view of the database has the name."""
    for kind, table in (("Table", s.tables), ("View", s.views)):
        taken = sa.select(table.c.id).where(
            table.c.database_id == database.id, table.c.name == name, table.c.tombstoned_at.is_(None)
        )
        if connection.execute(taken).first() is not None:
            raise AlreadyExists(f"{kind} {full_name(database.name, name)} already exists.")


def check_text(name: str) -> str:
    """`name` itself; PostgreSQL does not take every text that a client may send."""
    if "\0" in name:
        raise InvalidInput("A name must not contain a zero byte.")
    return name


def by_key(
    connection: sa.Connection, table: sa.Table, parent: Any, key: NameOrId, kind: str, *, include_dropped: bool
) -> Any:
    """The row of a table, view or token of the database `parent`; of dropped ones with its name, the last.

    NotFound when there is none; InvalidInput when the id is that of one in another database.
    """
    if isinstance(key, UUID):
        row = connection.execute(sa.select(table).where(table.c.id == key)).first()
        if row is not None and row.database_id != parent.id:
            raise InvalidInput(f"{kind} {key} is not in database {parent.name!r}; check both ids.")
        if row is not None and row.tombstoned_at is not None and not include_dropped:
            raise NotFound(f"{kind} {parent.name}.{row.name} was dropped: resurrect it to use it again.")
    else:
        named = {"parent": parent.id, "name": check_text(key)}
        row = _by_name(table, include_dropped).first(connection, named)
    if row is None:
        raise NotFound(f"{kind} {parent.name}.{key} does not exist.")
    return row


@cache
def _by_name(table: sa.Table, include_dropped: bool) -> Prepared:
    query = sa.select(table).where(table.c.database_id == sa.bindparam("parent"), table.c.name == sa.bindparam("name"))
    if not include_dropped:
        query = query.where(table.c.tombstoned_at.is_(None))
    return Prepared(query.order_by(table.c.tombstoned_at.desc().nulls_first()).limit(1))


def same(table: sa.Table, parent: Any, row: Any, key: NameOrId) -> sa.ColumnElement[bool]:
    """The condition for rows that `key` may mean: the one with the id, or all in the database with the name."""
    if isinstance(key, UUID):
        return sa.and_(table.c.id == row.id)
    return sa.and_(table.c.database_id == parent.id, table.c.name == row.name)


def live_tables(connection: sa.Connection, parent: Any, keys: Sequence[NameOrId], why: str) -> list[UUID]:
    """The ids of live tables of a database, in the order of `keys`; `why` ends the sentence that refuses another."""
    t = s.tables
    ids = [key for key in keys if isinstance(key, UUID)]
    names = [key for key in keys if not isinstance(key, UUID)]
    query = sa.select(t.c.id, t.c.name, t.c.database_id, t.c.tombstoned_at)
    named = sa.and_(t.c.database_id == parent.id, t.c.name.in_(names), t.c.tombstoned_at.is_(None))
    rows = connection.execute(query.where(sa.or_(t.c.id.in_(ids), named))).all()
    by_id, by_name = {row.id: row for row in rows}, {row.name: row for row in rows}
    found: list[UUID] = []
    for key in keys:
        row = by_id.get(key) if isinstance(key, UUID) else by_name.get(key)
        if row is None:
            raise NotFound(f"Table {parent.name}.{key} does not exist; {why}.")
        if row.database_id != parent.id:
            raise InvalidInput(f"Table {key} is not in database {parent.name!r}; {why}.")
        if row.tombstoned_at is not None:
            raise FailedPrecondition(f"Table {parent.name}.{row.name} was dropped; resurrect it first.")
        found.append(row.id)
    return found
