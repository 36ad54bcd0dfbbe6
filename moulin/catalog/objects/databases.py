"""Databases: create, list, rename, drop with or without their children, preview, resurrect."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects.names import NameOrId, check_text
from moulin.catalog.objects.tombstones import bury, lift, to_resurrect, tombstone_of
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import Draft, add_rows
from moulin.catalog.sql.prepared import Prepared
from moulin.errors import AlreadyExists, FailedPrecondition, InvalidInput, NotFound
from moulin.model.entities import Database, DropPreview, Named
from moulin.model.ids import new_id
from moulin.model.names import AT, LEVEL, check_name
from moulin.model.texts import check_texts


def _by_key(column: str, include_dropped: bool) -> Prepared:
    d = s.databases
    query = sa.select(d).where(d.c[column] == sa.bindparam("key"))
    if not include_dropped:
        query = query.where(d.c.tombstoned_at.is_(None))
    return Prepared(query.order_by(d.c.tombstoned_at.desc().nulls_first()).limit(1))


_BY_KEY = {(column, dropped): _by_key(column, dropped) for column in ("id", "name") for dropped in (False, True)}


def find(connection: sa.Connection, key: NameOrId, *, include_dropped: bool = False) -> Any:
    """The row of a database, by name or id: the live one, else (if asked for) the one dropped last."""
    column = "id" if isinstance(key, UUID) else "name"
    value = key if isinstance(key, UUID) else check_text(key)
    row = _BY_KEY[column, include_dropped].first(connection, {"key": value})
    if row is None and isinstance(key, UUID):
        raise NotFound(f"There is no database {key}, or it was dropped.")
    if row is None:
        _require_branch(connection, str(key))
        raise NotFound(f"Database {key!r} does not exist; create it with create_database({key!r}).")
    return row


def find_parent(connection: sa.Connection, key: NameOrId) -> Any:
    """The row of a live database that something is made in; FailedPrecondition when it was dropped."""
    row = find(connection, key, include_dropped=True)
    if row.tombstoned_at is not None:
        raise FailedPrecondition(f"Database {row.name!r} was dropped; resurrect it, or create a new one.")
    return row


def to_database(row: Any) -> Database:
    return Database(row.id, row.name, row.properties, row.created_at, tombstone_of(row))


def create(draft: Draft, name: str, properties: Mapping[str, str], *, if_not_exists: bool) -> Database:
    branch_id = _branch_of(draft.connection, name)
    check_texts(properties, "property")
    if not if_not_exists:
        _require_free(draft.connection, name)
    row = _live(draft.connection, name)
    if row is None:
        database_id = new_id()
        draft.connection.execute(
            s.databases.insert().values(
                id=database_id, name=name, properties=dict(properties), created_at=draft.now, branch_id=branch_id
            )
        )
        add_rows(draft, s.databases, [database_id])
        row = _live(draft.connection, name)
    return to_database(row)


def list_all(connection: sa.Connection, *, include_dropped: bool, branch: str | None = None) -> list[Database]:
    """The databases of main, or of a branch."""
    b, d = s.branches, s.databases
    live = sa.select(b.c.id).where(b.c.name == branch, b.c.tombstoned_at.is_(None)).scalar_subquery()
    query = (
        sa.select(d)
        .where(d.c.branch_id.is_(None) if branch is None else d.c.branch_id == live)
        .order_by(s.databases.c.name, s.databases.c.id)
    )
    if not include_dropped:
        query = query.where(s.databases.c.tombstoned_at.is_(None))
    return [to_database(row) for row in connection.execute(query)]


def rename(draft: Draft, key: NameOrId, new_name: str) -> Database:
    row = find(draft.connection, key)
    if _branch_of(draft.connection, new_name) != row.branch_id:
        raise InvalidInput("A database stays on its branch: publish the branch, or create the database again.")
    if new_name != row.name:
        _require_free(draft.connection, new_name)
        _refuse_below(draft.connection, row, "rename")
        draft.connection.execute(s.databases.update().where(s.databases.c.id == row.id).values(name=new_name))
        add_rows(draft, s.databases, [row.id])
    return to_database(_by_id(draft.connection, row.id))


def set_properties(draft: Draft, key: NameOrId, updates: Mapping[str, str], removals: Collection[str]) -> Database:
    """Set and remove properties."""
    check_texts(updates, "property")
    row = find(draft.connection, key)
    properties = {name: value for name, value in row.properties.items() if name not in removals} | dict(updates)
    draft.connection.execute(s.databases.update().where(s.databases.c.id == row.id).values(properties=properties))
    add_rows(draft, s.databases, [row.id])
    return to_database(_by_id(draft.connection, row.id))


# What lives in a database, in the order in which it may be purged: views and tokens refer to tables.
CHILDREN = {"view": s.views, "ingest token": s.ingest_tokens, "table": s.tables}


def preview_drop(connection: sa.Connection, key: NameOrId, grace_seconds: float) -> DropPreview:
    row = find(connection, key)
    children = {kind: _children(connection, table, row.id) for kind, table in CHILDREN.items()}
    return DropPreview(to_database(row), children["table"], children["view"], grace_seconds, children["ingest token"])


def drop(draft: Draft, key: NameOrId, *, cascade: bool, grace_seconds: float) -> Database:
    """Drop the database; with `cascade`, its live children too, with the same end of grace, in one version."""
    row = find(draft.connection, key, include_dropped=True)
    held = [
        f"{kind} {member.name!r}"
        for kind, table in reversed(CHILDREN.items())
        for member in _children(draft.connection, table, row.id)
    ]
    if held and not cascade:
        raise FailedPrecondition(
            f"Database {row.name!r} still holds {', '.join(held[:5])}{' and more' if len(held) > 5 else ''}; "
            "drop them first, or drop the database with cascade."
        )
    if row.tombstoned_at is None:
        _refuse_below(draft.connection, row, "drop")
    bury(draft, s.databases, row, grace_seconds)
    for table in CHILDREN.values():
        # Children that fell with it before have its tombstone: when that ends earlier now, so does theirs.
        fell_with_it = sa.or_(table.c.tombstoned_at.is_(None), table.c.tombstoned_at == row.tombstoned_at)
        children = sa.select(table).where(table.c.database_id == row.id, fell_with_it)
        for child in draft.connection.execute(children).all():
            bury(draft, table, child, grace_seconds)
    return to_database(_by_id(draft.connection, row.id))


def resurrect(draft: Draft, key: NameOrId) -> Database:
    """Resurrect the database and every child still in its grace period; all or nothing.

    A view or token whose tables are not all resurrected stays dropped.
    """
    d = s.databases
    named = d.c.id == key if isinstance(key, UUID) else d.c.name == key
    row = to_resurrect(draft.connection, d, named, draft.clock, f"Database {key}")
    if row is None:
        return to_database(find(draft.connection, key))
    _require_free(draft.connection, row.name)
    lift(draft, d, [row.id])
    children = {kind: _in_grace(draft, table, row.id) for kind, table in CHILDREN.items()}
    tables = children["table"]
    alive = {table.id for table in tables}
    members = s.view_members
    views = [
        view
        for view in children["view"]
        if alive.issuperset(
            draft.connection.execute(sa.select(members.c.table_id).where(members.c.view_id == view.id)).scalars()
        )
    ]
    tokens = [
        token
        for token in children["ingest token"]
        if alive.issuperset({token.traces_table_id, token.logs_table_id, token.metrics_table_id})
    ]
    for kind, names in (
        ("table or view", [child.name for child in (*tables, *views)]),
        ("ingest token", [child.name for child in tokens]),
    ):
        if twice := sorted({child for child in names if names.count(child) > 1}):
            raise AlreadyExists(
                f"Database {row.name!r} cannot come back: it holds more than one dropped {kind} named "
                f"{', '.join(map(repr, twice))}. Wait until the grace window of all but one has passed."
            )
    for table, rows in ((s.tables, tables), (s.views, views), (s.ingest_tokens, tokens)):
        lift(draft, table, [child.id for child in rows])
    return to_database(_by_id(draft.connection, row.id))


def _in_grace(draft: Draft, table: sa.Table, database_id: UUID) -> list[Any]:
    query = sa.select(table).where(table.c.database_id == database_id, table.c.delete_at > draft.clock)
    return list(draft.connection.execute(query.order_by(table.c.name)))


def _by_id(connection: sa.Connection, database_id: UUID) -> Any:
    return connection.execute(sa.select(s.databases).where(s.databases.c.id == database_id)).one()


def _branch_of(connection: sa.Connection, name: str) -> UUID | None:
    """The live branch that a name for a database is on; None for main."""
    check_name(name, "database")
    stem, at, branch = name.rpartition(AT)
    if not at:
        return None
    b = s.branches
    found = connection.execute(sa.select(b.c.id).where(b.c.name == branch, b.c.tombstoned_at.is_(None))).scalar()
    if found is None or not stem or AT in stem:
        raise InvalidInput(f"Database name {name!r} contains {AT!r}, and there is no branch {branch!r}.")
    return UUID(str(found))


def require_same_branch(connection: sa.Connection, database_id: UUID, other: Any) -> None:
    """InvalidInput when a table of one database cannot move to another, because that is on another branch."""
    if _by_id(connection, database_id).branch_id != other.branch_id:
        raise InvalidInput("A table stays on its branch: publish the branch, or clone the table.")


def _require_branch(connection: sa.Connection, name: str) -> None:
    """NotFound when the branch of a database's name is missing, and not the database alone."""
    _, at, branch = name.rpartition(AT)
    b = s.branches
    live = sa.select(b.c.id).where(b.c.name == branch, b.c.tombstoned_at.is_(None))
    if at and connection.execute(live).first() is None:
        raise no_branch(branch)


def no_branch(name: str) -> NotFound:
    return NotFound(
        f"Branch {name!r} does not exist; make it with lake.branch({name!r}), or list them with lake.branches()."
    )


def _live(connection: sa.Connection, name: str) -> Any:
    d = s.databases
    return connection.execute(sa.select(d).where(d.c.name == name, d.c.tombstoned_at.is_(None))).first()


def _require_free(connection: sa.Connection, name: str) -> None:
    if _live(connection, name) is not None:
        raise AlreadyExists(f"Database {name!r} already exists.")


def _refuse_below(connection: sa.Connection, row: Any, what: str) -> None:
    """FailedPrecondition while a database has others below it: `a.b` lies below `a`."""
    d = s.databases
    stem = row.name.partition(AT)[0]
    begins = sa.func.substr(d.c.name, 1, len(stem) + 1) == stem + LEVEL
    query = sa.select(d.c.name).where(begins, d.c.tombstoned_at.is_(None), _same_branch(row)).order_by(d.c.name)
    below = list(connection.execute(query.limit(6)).scalars())
    if below:
        raise FailedPrecondition(
            f"Database {row.name!r} has others below it, {', '.join(map(repr, below[:5]))}"
            f"{' and more' if len(below) > 5 else ''}: {what} those first."
        )


def _same_branch(row: Any) -> sa.ColumnElement[bool]:
    d = s.databases
    return d.c.branch_id.is_(None) if row.branch_id is None else d.c.branch_id == row.branch_id


def _children(connection: sa.Connection, table: sa.Table, database_id: UUID) -> tuple[Named, ...]:
    query = (
        sa.select(table.c.id, table.c.name)
        .where(table.c.database_id == database_id, table.c.tombstoned_at.is_(None))
        .order_by(table.c.name, table.c.id)
    )
    return tuple(Named(row.id, row.name) for row in connection.execute(query))
