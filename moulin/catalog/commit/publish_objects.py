"""Publishing a branch: its databases, table names and views are transferred to main, unless main has changed them.

At creation, a branch records main's databases and views. A publish compares the recorded state, the branch, and main.
Changes on one side are applied; changes on both sides raise Conflict.
"""

# Decisions: docs/decisions/0413

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import databases, references
from moulin.catalog.objects.tombstones import bury
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import Draft, add_rows
from moulin.errors import Conflict
from moulin.model.entities import BranchTable
from moulin.model.ids import new_id
from moulin.model.names import AT

_CONTENT = ("name", "description", "representations", "schema_json", "properties")


def began(connection: sa.Connection, of_database: Mapping[UUID, UUID], of_view: Mapping[UUID, UUID]) -> dict[str, Any]:
    """The databases and views of main for a new branch, by the ids of the branch's own."""
    d, v = s.databases, s.views
    named = {row.id: row for row in connection.execute(sa.select(d).where(d.c.id.in_(list(of_database)))).all()}
    views = connection.execute(sa.select(v).where(v.c.id.in_(list(of_view)))).all() if of_view else []
    return {
        "databases": {
            str(own): {"name": named[main].name, "properties": named[main].properties}
            for main, own in of_database.items()
        },
        "views": {
            str(of_view[row.id]): {"origin": str(row.id), **_content(connection, row, row.database_id)} for row in views
        },
    }


def _content(
    connection: sa.Connection, row: Any, database_id: UUID, renamed: Mapping[UUID, UUID] | None = None
) -> dict[str, Any]:
    """The definition of a view on main; `renamed` maps tables of a branch to those of main."""
    m = s.view_members
    members = connection.execute(sa.select(m.c.table_id).where(m.c.view_id == row.id).order_by(m.c.ordinal)).scalars()
    found = {name: getattr(row, name) for name in _CONTENT}
    if row.history_json is not None:
        found["history"] = hashlib.sha256(row.history_json.encode()).hexdigest()
    found["database"] = str(database_id)
    return {**found, "members": [str((renamed or {}).get(member, member)) for member in members]}


class Objects:
    """The databases, tables by name, and views of a branch that is being published."""

    def __init__(self, draft: Draft, branch: Any, found: Sequence[BranchTable], grace_seconds: float) -> None:
        self._draft, self._connection = draft, draft.connection
        self._branch, self._found, self._grace = branch, found, grace_seconds
        self._ending = AT + branch.name
        d = s.databases
        mine = sa.select(d).where(d.c.branch_id == branch.id).order_by(d.c.created_at, d.c.name)
        self._databases = list(self._connection.execute(mine).all())
        self._main: dict[UUID, UUID] = {}  # main's databases by those of the branch
        noted = branch.began or {}
        self._noted: Mapping[str, Any] = noted.get("databases", {})
        self._noted_views: Mapping[str, Any] = noted.get("views", {})

    def apply(self) -> None:
        """Publish databases and table names. Names of removed views are free afterwards."""
        for row in self._databases:
            if row.tombstoned_at is None:
                self._main[row.id] = self._database(row)
            elif row.origin_id is not None:
                self._main[row.id] = row.origin_id
        self._drop_views()
        for table in self._found:
            if table.after is None and table.source_id is not None:
                self._drop_table(table)
        self._rename()
        for row in self._databases:
            if row.tombstoned_at is not None and row.origin_id is not None:
                self._drop_database(row)

    def _conflict(self, what: str, on_branch: str, on_main: str, advice: str) -> Conflict:
        return Conflict(
            f"{what} {on_branch} on branch {self._branch.name} and {on_main} on main since version "
            f"{self._branch.version}. {advice}",
            requirement=what,
            expected=on_branch,
            found=on_main,
        )

    # Databases

    def _database(self, row: Any) -> UUID:
        """The database of main for one of the branch, with the branch's changes."""
        name = row.name.removesuffix(self._ending)
        if row.origin_id is None:
            return databases.create(self._draft, name, row.properties, if_not_exists=True).id
        d = s.databases
        main = self._connection.execute(sa.select(d).where(d.c.id == row.origin_id)).first()
        then = self._noted.get(str(row.id))
        if main is None or main.tombstoned_at is not None:
            if not self._is_used(row.id):
                return UUID(str(row.origin_id))  # it is not published
            advice = "Resurrect it on main, or drop it on the branch."
            raise self._conflict(f"Database {name!r}", "was changed", "was dropped", advice)
        if then is None:
            return UUID(str(main.id))
        if then["name"] != name != main.name:
            if main.name != then["name"]:
                advice = "Give it the same name on both sides."
                raise self._conflict(f"Database {then['name']!r}", f"is now {name!r}", f"is now {main.name!r}", advice)
            databases.rename(self._draft, main.id, name)
        self._merge_properties(main, then["properties"], row.properties)
        return UUID(str(main.id))

    def _is_used(self, database_id: UUID) -> bool:
        """Whether a database of the branch contains anything to publish."""
        t, v = s.tables, s.views
        mine = {one.own_id for one in self._found if one.after is not None}
        query = sa.select(t.c.id).where(t.c.database_id == database_id, t.c.tombstoned_at.is_(None))
        if mine.intersection(self._connection.execute(query).scalars()):
            return True
        fresh = sa.select(v.c.id).where(v.c.database_id == database_id, v.c.tombstoned_at.is_(None))
        return any(str(view) not in self._noted_views for view in self._connection.execute(fresh).scalars())

    def _merge_properties(self, main: Any, then: Mapping[str, str], own: Mapping[str, str]) -> None:
        now = dict(main.properties)
        wanted = [key for key in {*then, *own} if then.get(key) != own.get(key) != now.get(key)]
        for key in sorted(wanted):
            if now.get(key) != then.get(key):
                what = f"Property {key!r} of database {main.name!r}"
                advice = "Set it to the same value on both sides."
                raise self._conflict(what, f"became {own.get(key)!r}", f"became {now.get(key)!r}", advice)
        if wanted:
            updates = {key: own[key] for key in wanted if key in own}
            databases.set_properties(self._draft, main.id, updates, [key for key in wanted if key not in own])

    def _drop_database(self, row: Any) -> None:
        d = s.databases
        main = self._connection.execute(sa.select(d).where(d.c.id == row.origin_id)).first()
        if main is None or main.tombstoned_at is not None:
            return
        for source in (s.tables, s.views, s.ingest_tokens):
            left = sa.select(source.c.name).where(source.c.database_id == main.id, source.c.tombstoned_at.is_(None))
            if (name := self._connection.execute(left.limit(1)).scalar()) is not None:
                raise self._conflict(
                    f"Database {main.name!r}",
                    "was dropped",
                    f"holds {name!r}",
                    "Drop it there, or resurrect the database.",
                )
        bury(self._draft, d, main, self._grace)

    # Tables

    def _drop_table(self, table: BranchTable) -> None:
        assert table.source_id is not None
        t = s.tables
        row = self._connection.execute(sa.select(t).where(t.c.id == table.source_id)).first()
        if row is None or row.tombstoned_at is not None:
            return  # removed on both sides
        if row.head_version > self._branch.version:
            advice = "Drop it on main yourself, or resurrect it on the branch."
            raise self._conflict(
                f"Table {table.before}", "was dropped", f"was changed by version {row.head_version}", advice
            )
        if users := references.to_table(self._connection, row.id):
            advice = "Drop or change them first, or resurrect it on the branch."
            raise self._conflict(f"Table {table.before}", "was dropped", f"is used by {users}", advice)
        bury(self._draft, t, row, self._grace)

    def _rename(self) -> None:
        """Tables that were renamed or created on the branch; all old names are freed before new ones are set."""
        t, wanted = s.tables, dict[UUID, tuple[Any, str]]()
        for table in self._found:
            if table.after is None or table.before == table.after:
                if table.source_id is not None and table.after is not None:
                    self._require_there(table)
                continue
            own = self._connection.execute(sa.select(t).where(t.c.id == table.own_id)).one()
            if table.source_id is None:
                moved = own
            else:
                moved = self._require_there(table)
                self._require_name_as_it_was(table, moved)
            wanted[moved.id] = (self._main[own.database_id], own.name)
        for table_id in wanted:
            self._connection.execute(t.update().where(t.c.id == table_id).values(name=f"moulin-{new_id()}"))
        for table_id, (database_id, name) in wanted.items():
            self._require_free(database_id, name)
            values = {"database_id": database_id, "name": name}
            self._connection.execute(t.update().where(t.c.id == table_id).values(values))
        if wanted:
            add_rows(self._draft, t, list(wanted))
            self._draft.reroute()

    def _require_there(self, table: BranchTable) -> Any:
        """Main's table, which must not have been dropped."""
        t = s.tables
        row = self._connection.execute(sa.select(t).where(t.c.id == table.source_id)).first()
        if row is None or row.tombstoned_at is not None:
            advice = "Resurrect it on main, or drop it on the branch."
            raise self._conflict(f"Table {table.before}", "was changed", "was dropped", advice)
        return row

    def _require_name_as_it_was(self, table: BranchTable, row: Any) -> None:
        d = s.databases
        parent = self._connection.execute(sa.select(d.c.name).where(d.c.id == row.database_id)).scalar_one()
        if f"{parent}.{row.name}" not in (table.before, table.after):
            advice = "Give it the same name on both sides."
            raise self._conflict(
                f"Table {table.before}", f"is now {table.after}", f"is now {parent}.{row.name}", advice
            )
        if users := references.to_table(self._connection, row.id):
            own = self._connection.execute(sa.select(s.tables.c.database_id).where(s.tables.c.id == table.own_id))
            if self._main[own.scalar_one()] != row.database_id:
                advice = "Drop or change them first."
                raise self._conflict(f"Table {table.before}", f"moved to {table.after}", f"is used by {users}", advice)

    def _require_free(self, database_id: UUID, name: str) -> None:
        for kind, source in (("table", s.tables), ("view", s.views)):
            taken = sa.select(source.c.id).where(
                source.c.database_id == database_id, source.c.name == name, source.c.tombstoned_at.is_(None)
            )
            if self._connection.execute(taken).first():
                advice = "Rename one of the two."
                raise self._conflict(f"The name {name!r}", "was given to a table", f"to another {kind}", advice)

    # Views

    def _views(self, *, live: bool) -> list[Any]:
        v = s.views
        alive = v.c.tombstoned_at.is_(None) if live else v.c.tombstoned_at.is_not(None)
        ids = [row.id for row in self._databases]
        return list(self._connection.execute(sa.select(v).where(v.c.database_id.in_(ids), alive).order_by(v.c.name)))

    def _drop_views(self) -> None:
        """Views that were dropped on the branch."""
        live = {str(row.id) for row in self._views(live=True)}
        v = s.views
        for own_id, then in self._noted_views.items():
            main = self._connection.execute(sa.select(v).where(v.c.id == UUID(then["origin"]))).first()
            if own_id in live or main is None or main.tombstoned_at is not None:
                continue
            content = _content(self._connection, main, main.database_id)
            if content != _noted(then, content):
                advice = "Drop it on main yourself, or resurrect it on the branch."
                raise self._conflict(f"View {main.name!r}", "was dropped", "was changed", advice)
            bury(self._draft, v, main, self._grace)

    def apply_views(self) -> None:
        """Views that were created or changed on the branch, over main's tables."""
        c = s.branch_tables
        rows = self._connection.execute(sa.select(c.c.own_id, c.c.source_id).where(c.c.branch_id == self._branch.id))
        renamed: dict[UUID, UUID] = {row.own_id: row.source_id for row in rows}
        for row in self._views(live=True):
            content = _content(self._connection, row, self._main[row.database_id], renamed)
            then = self._noted_views.get(str(row.id))
            if then is None:
                self._store_view(new_id(), row, content, is_new=True)
            elif content != _noted(then, content):
                self._change_view(row, content, then)

    def _change_view(self, row: Any, content: dict[str, Any], then: Mapping[str, Any]) -> None:
        v = s.views
        main = self._connection.execute(sa.select(v).where(v.c.id == UUID(then["origin"]))).first()
        if main is None or main.tombstoned_at is not None:
            advice = "Resurrect it on main, or drop it on the branch."
            raise self._conflict(f"View {then['name']!r}", "was changed", "was dropped", advice)
        now = _content(self._connection, main, main.database_id)
        if now == content:
            return
        if now != _noted(then, now):
            advice = "Make it the same on both sides."
            raise self._conflict(f"View {then['name']!r}", "was changed", "was changed", advice)
        self._store_view(main.id, row, content, is_new=False)

    def _store_view(self, view_id: UUID, row: Any, content: dict[str, Any], *, is_new: bool) -> None:
        v, m = s.views, s.view_members
        database_id = self._main[row.database_id]
        values = {name: content[name] for name in _CONTENT}
        values |= {"query_version": row.query_version, "history_json": row.history_json}
        if is_new:
            self._require_free(database_id, row.name)
            values |= {"id": view_id, "database_id": database_id, "created_at": self._draft.now}
            self._connection.execute(v.insert().values(values))
        else:
            main = self._connection.execute(sa.select(v).where(v.c.id == view_id)).one()
            if (main.name, main.database_id) != (row.name, database_id):
                self._require_free(database_id, row.name)
            values["database_id"] = database_id
            if row.query_version is not None:
                values["query_version"] = max(row.query_version, (main.query_version or 0) + 1)
            self._connection.execute(v.update().where(v.c.id == view_id).values(values))
        self._connection.execute(m.delete().where(m.c.view_id == view_id))
        members = [
            {"view_id": view_id, "ordinal": ordinal, "table_id": UUID(member)}
            for ordinal, member in enumerate(content["members"])
        ]
        if members:
            self._connection.execute(m.insert(), members)
        add_rows(self._draft, v, [view_id])


def _noted(then: Mapping[str, Any], like: Mapping[str, Any]) -> dict[str, Any]:
    """The recorded state of a view, for comparison. Older releases recorded no database, because it could not
    change.
    """
    return {"database": like["database"], **{key: value for key, value in then.items() if key != "origin"}}
