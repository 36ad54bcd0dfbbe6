"""Tables: create, load at a version, list, rename, drop, resurrect."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import databases, new_table, references
from moulin.catalog.objects.names import NameOrId, by_key, check_text, require_free_name, same
from moulin.catalog.objects.new_table import FirstRows as FirstRows
from moulin.catalog.objects.new_table import NewTable as NewTable
from moulin.catalog.objects.references import InUse
from moulin.catalog.objects.tombstones import bury, lift, to_resurrect, tombstone_of
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import Draft, add_rows
from moulin.catalog.sql.prepared import Prepared
from moulin.errors import AlreadyExists, NotFound
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.model.entities import TableEntry, TableState
from moulin.model.ids import new_id, new_snapshot_id
from moulin.model.layout.partition_spec import spec_from_json, spec_to_json
from moulin.model.layout.sort_order import sort_from_json, sort_to_json
from moulin.model.names import check_new_name, full_name
from moulin.model.region_spec import HISTORY
from moulin.model.schema.documents import schema_from_json, schema_to_json
from moulin.model.schema.values import Schema

CREATE = "create"


def find(connection: sa.Connection, database: NameOrId, key: NameOrId, *, include_dropped: bool = False) -> Any:
    """The row of a table, as of `find_by_id`: the live one, else (if asked for) the one dropped last."""
    if isinstance(database, str) and isinstance(key, str):
        names = {"in_database": check_text(database), "named": check_text(key)}
        if (found := _BY_NAMES.first(connection, names)) is not None:
            return found
    parent = databases.find(connection, database, include_dropped=include_dropped)
    row = by_key(connection, s.tables, parent, key, "Table", include_dropped=include_dropped)
    return _BY_ID.first(connection, {"table_id": row.id})


_COMMIT = Prepared(s.table_commits.insert())
_LAKE_VERSION = sa.select(s.counter.c.version).scalar_subquery().label("lake_version")
_HEAD_SNAPSHOT = (
    sa.select(s.table_commits.c.snapshot_id)
    .where(s.table_commits.c.table_id == s.tables.c.id, s.table_commits.c.version == s.tables.c.head_version)
    .order_by(s.table_commits.c.ordinal)
    .limit(1)
    .correlate(s.tables)
    .scalar_subquery()
    .label("head_snapshot_id")
)
_ROWS = sa.select(s.tables, s.databases.c.name.label("database"), _LAKE_VERSION, _HEAD_SNAPSHOT).join(
    s.databases, s.databases.c.id == s.tables.c.database_id
)
_BY_ID = Prepared(_ROWS.where(s.tables.c.id == sa.bindparam("table_id")))
_BY_NAMES = Prepared(
    _ROWS.where(
        s.databases.c.name == sa.bindparam("in_database"),
        s.databases.c.tombstoned_at.is_(None),
        s.tables.c.name == sa.bindparam("named"),
        s.tables.c.tombstoned_at.is_(None),
    )
)


def find_by_id(connection: sa.Connection, table_id: UUID, *, dropped_after: int | None = None) -> Any:
    """The row of a live table, with its `database`'s name, the newest `lake_version` and its `head_snapshot_id`.

    With `dropped_after` (a time) it may also be one that was dropped and whose grace window ends later than that.
    """
    row = _BY_ID.first(connection, {"table_id": table_id})
    if row is None:
        raise NotFound("The table was dropped and purged.")
    if row.tombstoned_at is not None and (dropped_after is None or row.delete_at <= dropped_after):
        raise NotFound(f"Table {full_name(row.database, row.name)} was dropped: resurrect it to use it again.")
    return row


def create(draft: Draft, database: NameOrId, name: str, new: NewTable) -> UUID:
    check_new_name(name, "table")
    new_table.check(new)
    parent = databases.find_parent(draft.connection, database)
    require_free_name(draft.connection, parent, name)
    table_id = new.id or new_id()
    if new.id is not None and _BY_ID.first(draft.connection, {"table_id": new.id}) is not None:
        raise AlreadyExists(f"A table with id {new.id} exists or existed: request another id.")
    version = draft.version
    draft.connection.execute(
        s.tables.insert().values(
            id=table_id,
            database_id=parent.id,
            name=name,
            created_at=draft.now,
            created_version=version,
            head_version=version,
            oldest_version=version,
            schema_id=new.schema.schema_id,
            spec_id=new.spec.spec_id,
            sort_order_id=new.sort_order.order_id,
            event_time=new.event_time,
            last_column_id=new.last_column_id,
            last_partition_id=new.last_partition_id,
            last_sequence=0,
            next_row_id=0,
            properties=dict(new.properties),
            segments=0,
            rows=0,
            bytes=0,
            time_classes=0,
            deltas=0,
        )
    )
    store_schema(draft, table_id, new.schema)
    store_setting(draft, s.table_specs, table_id, new.spec.spec_id, spec_to_json(new.spec))
    store_setting(draft, s.table_sort_orders, table_id, new.sort_order.order_id, sort_to_json(new.sort_order))
    row = _by_id(draft.connection, table_id)
    record_commit(draft, row, 0, CREATE, new_snapshot_id(), 0, 0, {}, properties_changed=True)
    add_rows(draft, s.tables, [table_id])
    fill_state(draft.table(table_id), row)
    draft.reroute()
    return table_id


# The lists of a manifest's TableState, and the tables that hold the same.
SETTINGS = {"schemas": s.table_schemas, "specs": s.table_specs, "sort_orders": s.table_sort_orders}


def store_setting(draft: Draft, table: sa.Table, table_id: UUID, setting_id: int, text: str) -> None:
    """Store one schema, spec or sort order, here and in the manifest."""
    key = table.c[1]
    draft.connection.execute(table.insert().values({"table_id": table_id, key.name: setting_id, "json": text}))
    name = next(name for name, source in SETTINGS.items() if source is table)
    getattr(draft.table(table_id).table, name).append(pb.Setting(id=setting_id, json=text))


def store_schema(draft: Draft, table_id: UUID, schema: Schema) -> None:
    """Keep a schema. What is written here is not parsed again by this process."""
    text = schema_to_json(schema)
    store_setting(draft, s.table_schemas, table_id, schema.schema_id, text)
    _parsed.setdefault(("schemas", text), schema)


def record_commit(
    draft: Draft,
    row: Any,
    ordinal: int,
    kind: str,
    snapshot_id: int,
    first_row_id: int,
    added_rows: int,
    summary: Mapping[str, str],
    *,
    properties_changed: bool = False,
    timestamp_ns: int | None = None,
) -> None:
    """Add one operation to the history, as of now; `row` is the table's as it is after it."""
    properties = dict(row.properties) if properties_changed else None
    values = {
        "version": draft.version,
        "ordinal": ordinal,
        "timestamp_ns": draft.now if timestamp_ns is None else timestamp_ns,
        "kind": kind,
        "schema_id": row.schema_id,
        "spec_id": row.spec_id,
        "sort_order_id": row.sort_order_id,
        "sequence": row.last_sequence,
        "snapshot_id": snapshot_id,
        "first_row_id": first_row_id,
        "added_rows": added_rows,
    }
    _COMMIT.run(draft.connection, {**values, "table_id": row.id, "properties": properties, "summary": dict(summary)})
    manifest = draft.table(row.id)
    manifest.snapshot_id = snapshot_id
    manifest.commits.append(
        pb.Commit(
            properties_json=None if properties is None else json.dumps(properties, sort_keys=True),
            summary_json=json.dumps(dict(summary), sort_keys=True),
            **values,
        )
    )


def fill_state(manifest: pb.Manifest, row: Any) -> None:
    """The settings of a table into its manifest, in the original fields and in our own."""
    manifest.sequence_number = row.last_sequence
    manifest.schema_id = row.schema_id
    manifest.partition_spec_id = row.spec_id
    manifest.last_column_id = row.last_column_id
    manifest.properties.clear()
    manifest.properties.update({key: str(value) for key, value in row.properties.items()})
    state = manifest.table
    state.created_version = row.created_version
    state.oldest_version = row.oldest_version
    state.schema_id, state.spec_id, state.sort_order_id = row.schema_id, row.spec_id, row.sort_order_id
    if row.event_time is not None:
        state.event_time = row.event_time
    state.last_column_id, state.last_partition_id = row.last_column_id, row.last_partition_id
    state.last_sequence, state.next_row_id = row.last_sequence, row.next_row_id
    state.properties_json = json.dumps(dict(row.properties), sort_keys=True)
    if row.base_id is not None:
        state.base_id, state.base_version = row.base_id.bytes, row.base_version
        codec.require_feature(manifest, codec.FEATURE_BASES)
    if HISTORY in row.properties:
        codec.require_feature(manifest, codec.FEATURE_REGION_SPECS)


def _up_to(*columns: Any) -> sa.Select[Any]:
    """Commits of a table up to a version, the last one only."""
    c = s.table_commits.c
    query = sa.select(*columns).where(c.table_id == sa.bindparam("table_id"), c.version <= sa.bindparam("version"))
    return query.order_by(c.version.desc(), c.ordinal.desc()).limit(1)


# Built once: every query begins with loading its tables, and building the statements took most of that time.
_LAST_COMMIT = Prepared(_up_to(s.table_commits))
_LAST_PROPERTIES = Prepared(_up_to(s.table_commits.c.properties).where(s.table_commits.c.properties.is_not(sa.null())))
_SETTINGS = Prepared(
    sa.union_all(
        *(
            sa.select(sa.literal_column(f"'{name}'").label("list"), table.c[1], table.c.json).where(
                table.c.table_id == sa.bindparam("table_id")
            )
            for name, table in SETTINGS.items()
        )
    )
)


def load(connection: sa.Connection, row: Any, version: int | None = None, *, current: int | None = None) -> TableState:
    """The state of a table (a row of `find` or `find_by_id`) at `version`, by default the newest.

    `current` is the newest version inside a mutation, which others do not see yet.
    """
    current = row.lake_version if current is None else current
    schema_id, spec_id, sort_order_id = row.schema_id, row.spec_id, row.sort_order_id
    head, properties, sequence, next_row_id = row.head_version, row.properties, row.last_sequence, row.next_row_id
    if version is not None:
        require_kept(row, version, current=current)
        at = {"table_id": row.id, "version": version}
        last = _LAST_COMMIT.first(connection, at)
        schema_id, spec_id, sort_order_id = last.schema_id, last.spec_id, last.sort_order_id
        head, sequence, next_row_id = last.version, last.sequence, last.first_row_id + last.added_rows
        (properties,) = _LAST_PROPERTIES.first(connection, at)
    settings: dict[str, dict[int, Any]] = {name: {} for name in SETTINGS}
    for name, setting_id, text in _SETTINGS.all(connection, {"table_id": row.id}):
        settings[name][setting_id] = _parse(name, text)
    return TableState(
        id=row.id,
        database=row.database,
        name=row.name,
        version=current if version is None else version,
        head_version=head,
        created_version=row.created_version,
        oldest_version=row.oldest_version,
        created_at=row.created_at,
        schemas=settings["schemas"],
        schema_id=schema_id,
        specs=settings["specs"],
        spec_id=spec_id,
        sort_orders=settings["sort_orders"],
        sort_order_id=sort_order_id,
        event_time=row.event_time,
        last_column_id=row.last_column_id,
        last_partition_id=row.last_partition_id,
        last_sequence=sequence,
        next_row_id=next_row_id,
        properties={key: str(value) for key, value in properties.items()},
        inline=row.inline,
        base_id=row.base_id,
        newest_version=row.head_version,
    )


def numbers_at(connection: sa.Connection, row: Any, version: int) -> tuple[int, int]:
    """The last sequence number of a table (a row of `find_by_id`) at a version, and the next row id."""
    require_kept(row, version)
    last = _LAST_COMMIT.first(connection, {"table_id": row.id, "version": version})
    return int(last.sequence), int(last.first_row_id + last.added_rows)


def made(draft: Draft, table_id: UUID) -> TableState:
    """A table as the version being committed leaves it."""
    return load(draft.connection, find_by_id(draft.connection, table_id), current=draft.write.version)


def require_kept(row: Any, version: int, *, current: int | None = None) -> None:
    """Reject a version before the table's creation, in the future, or cleaned up."""
    name, current = full_name(row.database, row.name), row.lake_version if current is None else current
    if version > current:
        raise NotFound(f"Version {version} does not exist yet; the lake is at {current}.")
    if version < row.created_version:
        raise NotFound(f"Table {name} was created at version {row.created_version}, after version {version}.")
    if version < row.oldest_version:
        raise NotFound(
            f"Version {version} of {name} was cleaned up; the oldest that can still be read is {row.oldest_version}."
        )


_parsed: dict[tuple[str, str], Any] = {}


def _parse(name: str, text: str) -> Any:
    """Parsing costs up to a millisecond and settings never change, so the last few hundred are kept."""
    if (name, text) not in _parsed:
        if len(_parsed) > 256:
            _parsed.clear()
        _parsed[name, text] = _PARSE[name](text)
    return _parsed[name, text]


def parse_schema(text: str) -> Schema:
    schema: Schema = _parse("schemas", text)
    return schema


_PARSE: Mapping[str, Callable[[str], Any]] = {
    "schemas": schema_from_json,
    "specs": spec_from_json,
    "sort_orders": sort_from_json,
}


def list_all(connection: sa.Connection, database: NameOrId, *, include_dropped: bool) -> list[TableEntry]:
    parent = databases.find(connection, database, include_dropped=include_dropped)
    query = sa.select(s.tables).where(s.tables.c.database_id == parent.id).order_by(s.tables.c.name, s.tables.c.id)
    if not include_dropped:
        query = query.where(s.tables.c.tombstoned_at.is_(None))
    return [to_entry(parent.name, row) for row in connection.execute(query)]


def to_entry(database: str, row: Any) -> TableEntry:
    return TableEntry(
        row.id,
        database,
        row.name,
        row.created_at,
        row.head_version,
        row.segments,
        row.rows,
        row.bytes,
        tombstone_of(row),
        row.database_id,
        {key: str(value) for key, value in row.properties.items()},
    )


def rename(draft: Draft, database: NameOrId, key: NameOrId, new_database: NameOrId, new_name: str) -> UUID:
    """Rename a table, possibly to another database of its branch. Its versions, files and id do not change."""
    check_new_name(new_name, "table")
    row = find(draft.connection, database, key)
    parent = databases.find_parent(draft.connection, new_database)
    table_id: UUID = row.id
    if row.database_id != parent.id:
        databases.require_same_branch(draft.connection, row.database_id, parent)
    if (row.database_id, row.name) == (parent.id, new_name):
        return table_id
    require_free_name(draft.connection, parent, new_name)
    if row.database_id != parent.id and (users := references.to_table(draft.connection, row.id)):
        raise InUse(
            f"Table {full_name(row.database, row.name)} is used by {users} and cannot leave its database.", users
        )
    draft.connection.execute(
        s.tables.update().where(s.tables.c.id == row.id).values(name=new_name, database_id=parent.id)
    )
    add_rows(draft, s.tables, [row.id])
    draft.reroute()
    return table_id


def replace(draft: Draft, database: NameOrId, name: str, replacement: NameOrId, *, grace_seconds: float) -> UUID:
    """Give the name of a table to another one of the same database, and drop the table that had it, if there is one.

    The dropped one keeps its id, versions and files for its grace window.
    """
    new = find(draft.connection, database, replacement)
    make_way(draft, database, name, grace_seconds=grace_seconds, stays=new.id)
    return rename(draft, database, new.id, database, name)


def make_way(draft: Draft, database: NameOrId, name: str, *, grace_seconds: float, stays: UUID | None = None) -> None:
    """Drop the table that has a name, if there is one and it is not the one that `stays`."""
    parent = databases.find_parent(draft.connection, database)
    taken = sa.select(s.tables.c.id).where(
        s.tables.c.database_id == parent.id, s.tables.c.name == name, s.tables.c.tombstoned_at.is_(None)
    )
    old = draft.connection.execute(taken).scalar()
    if old is not None and old != stays:
        drop(draft, database, old, grace_seconds=grace_seconds)


def drop(draft: Draft, database: NameOrId, key: NameOrId, *, grace_seconds: float) -> TableEntry:
    row = find(draft.connection, database, key, include_dropped=True)
    if row.tombstoned_at is None and (users := references.to_table(draft.connection, row.id)):
        raise InUse(f"Table {full_name(row.database, row.name)} is used by {users}; drop or change them first.", users)
    bury(draft, s.tables, row, grace_seconds)
    return to_entry(row.database, _by_id(draft.connection, row.id))


def resurrect(draft: Draft, database: NameOrId, key: NameOrId) -> TableEntry:
    parent = databases.find_parent(draft.connection, database)
    found = by_key(draft.connection, s.tables, parent, key, "Table", include_dropped=True)
    named = same(s.tables, parent, found, key)
    row = to_resurrect(draft.connection, s.tables, named, draft.clock, f"Table {parent.name}.{found.name}")
    if row is not None:
        require_free_name(draft.connection, parent, row.name)
        lift(draft, s.tables, [row.id])
    return to_entry(parent.name, _by_id(draft.connection, found.id if row is None else row.id))


def _by_id(connection: sa.Connection, table_id: UUID) -> Any:
    return connection.execute(sa.select(s.tables).where(s.tables.c.id == table_id)).one()
