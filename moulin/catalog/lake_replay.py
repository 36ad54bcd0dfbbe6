"""The lake as a whole from its manifests: databases, table entries, views, requests, and when versions were made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin._proto.moulin.format.v1 import manifest_pb2 as pb
from moulin.catalog import schema as s
from moulin.catalog.engine import chunks


class LakeReplay:
    """Starts empty, or with a full lake manifest; then takes in every manifest of each later version."""

    def __init__(self) -> None:
        self.state = pb.LakeState()
        self.incarnation = 1
        self.databases: dict[bytes, pb.Database] = {}
        self.entries: dict[bytes, pb.TableEntry] = {}
        self.views: dict[bytes, pb.View] = {}
        self.requests: dict[str, pb.Request] = {}
        self.versions: dict[int, tuple[int, str]] = {}

    def begin(self, manifest: pb.Manifest) -> None:
        self.state = manifest.state
        self.extend(manifest)

    def extend(self, manifest: pb.Manifest) -> None:
        self.note_version(manifest)
        self.incarnation = max(self.incarnation, manifest.incarnation)
        self.databases.update({row.id: row for row in manifest.databases})
        self.entries.update({row.id: row for row in manifest.table_entries})
        self.views.update({row.id: row for row in manifest.views})
        self.requests.update({row.id: row for row in manifest.requests})
        for purged in manifest.purged:
            for rows in (self.databases, self.entries, self.views):
                rows.pop(purged, None)

    def note_version(self, manifest: pb.Manifest) -> None:
        """Keep when and what the version was; all that is needed of those before a full manifest."""
        if manifest.version:
            self.versions[manifest.version] = (manifest.timestamp_ns, manifest.kind)

    def tables(self) -> Iterator[tuple[UUID, pb.TableEntry]]:
        return ((UUID(bytes=key), entry) for key, entry in self.entries.items())

    def insert_databases(self, connection: sa.Connection) -> None:
        _insert(connection, s.databases, [database_row(row) for row in self.databases.values()])

    def insert_table(self, connection: sa.Connection, entry: pb.TableEntry) -> None:
        """The row of a table; its own manifests say the rest."""
        unknown = ["schema_id", "spec_id", "sort_order_id", "last_column_id", "last_partition_id", "last_sequence"]
        unknown += ["next_row_id", "segments", "rows", "bytes", "time_classes", "deltas"]
        row = {
            **entry_row(entry),
            "created_at": entry.created_at,
            "created_version": entry.created_version,
            "head_version": entry.head_version,
            "properties": {},
            **dict.fromkeys(unknown, 0),
        }
        _insert(connection, s.tables, [row])

    def insert_views(self, connection: sa.Connection) -> None:
        _insert(connection, s.views, [view_row(row) for row in self.views.values()])
        _insert(connection, s.view_members, [member for row in self.views.values() for member in member_rows(row)])
        _insert(connection, s.requests, [request_row(row) for row in self.requests.values()])


def database_row(row: pb.Database) -> dict[str, Any]:
    return {
        "id": UUID(bytes=row.id),
        "name": row.name,
        "properties": json.loads(row.properties_json),
        "created_at": row.created_at,
        **_tombstone(row),
    }


def entry_row(entry: pb.TableEntry) -> dict[str, Any]:
    """What lake manifests change of a table's row."""
    return {
        "id": UUID(bytes=entry.id),
        "database_id": UUID(bytes=entry.database_id),
        "name": entry.name,
        "oldest_version": entry.oldest_version,
        **_tombstone(entry),
    }


def view_row(row: pb.View) -> dict[str, Any]:
    return {
        "id": UUID(bytes=row.id),
        "database_id": UUID(bytes=row.database_id),
        "name": row.name,
        "description": row.description if row.HasField("description") else None,
        "created_at": row.created_at,
        **_tombstone(row),
    }


def member_rows(row: pb.View) -> list[dict[str, Any]]:
    members = enumerate(row.members)
    return [{"view_id": UUID(bytes=row.id), "ordinal": n, "table_id": UUID(bytes=member)} for n, member in members]


def request_row(row: pb.Request) -> dict[str, Any]:
    return {"id": row.id, "version": row.version, "created_at": row.created_at}


def _insert(connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    for chunk in chunks(rows):
        connection.execute(table.insert(), list(chunk))


def _tombstone(row: pb.Database | pb.TableEntry | pb.View) -> dict[str, int | None]:
    if not row.HasField("tombstone"):
        return {"tombstoned_at": None, "delete_at": None}
    return {"tombstoned_at": row.tombstone.tombstoned_at, "delete_at": row.tombstone.delete_at}
