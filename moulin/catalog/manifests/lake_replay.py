"""Rebuilds the lake from its manifests: databases, table entries, views, branches, tokens, streams, versions."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import chunks
from moulin.formats import messages as pb
from moulin.storage import paths


class LakeReplay:
    """Starts empty, or with a full lake manifest; then applies every manifest of each later version."""

    def __init__(self) -> None:
        self.state = pb.LakeState()
        self.incarnation = 1
        self.databases: dict[bytes, pb.Database] = {}
        self.entries: dict[bytes, pb.TableEntry] = {}
        self.views: dict[bytes, pb.View] = {}
        self.branches: dict[bytes, pb.Branch] = {}
        self.base_paths: dict[bytes, pb.BasePath] = {}
        self.branch_tables: dict[tuple[bytes, bytes], pb.BranchTable] = {}
        self.tokens: dict[bytes, pb.IngestToken] = {}
        self.streams: dict[bytes, pb.Stream] = {}
        self.set_asides: dict[tuple[int, int], pb.SetAside] = {}
        self.requests: dict[str, pb.Request] = {}
        self.versions: dict[int, tuple[int, str]] = {}
        self.erasures: dict[bytes, pb.Erasure] = {}

    def begin(self, manifest: pb.Manifest) -> None:
        self.state = manifest.state
        self.extend(manifest)

    def extend(self, manifest: pb.Manifest) -> None:
        self.note_version(manifest)
        self.incarnation = max(self.incarnation, manifest.incarnation)
        self.databases.update({row.id: row for row in manifest.databases})
        self.entries.update({row.id: row for row in manifest.table_entries})
        self.views.update({row.id: row for row in manifest.views})
        self.branches.update({row.id: row for row in manifest.branches})
        self.base_paths.update({row.id: row for row in manifest.base_paths})
        self.branch_tables.update({(row.branch_id, row.source_id): row for row in manifest.branch_tables})
        self.tokens.update({row.id: row for row in manifest.ingest_tokens})
        self.streams.update({row.id: row for row in manifest.streams})
        self.set_asides.update({(row.version, row.ordinal): row for row in manifest.set_asides})
        self.requests.update({row.id: row for row in manifest.requests})
        self.erasures.update({row.id: row for row in manifest.erasures})
        for purged in manifest.purged:
            for rows in (self.databases, self.entries, self.views, self.branches, self.base_paths):
                rows.pop(purged, None)
            for rows in (self.tokens, self.streams):
                rows.pop(purged, None)

    def note_version(self, manifest: pb.Manifest) -> None:
        """Record the time and kind of the version; nothing else is needed for versions before a full manifest."""
        if manifest.version:
            self.versions[manifest.version] = (manifest.timestamp_ns, manifest.kind)

    def tables(self) -> Iterator[tuple[UUID, pb.TableEntry]]:
        """In order of creation: a clone comes after its source."""
        made = sorted(self.entries.items(), key=lambda item: item[1].created_version)
        return ((UUID(bytes=key), entry) for key, entry in made)

    def insert_databases(self, connection: sa.Connection) -> None:
        _insert(connection, s.databases, [database_row(row) for row in self.databases.values()])

    def insert_table(self, connection: sa.Connection, entry: pb.TableEntry) -> None:
        """The row of a table; its own manifests have the rest."""
        unknown = ["schema_id", "spec_id", "sort_order_id", "last_column_id", "last_partition_id", "last_sequence"]
        unknown += ["next_row_id", "segments", "rows", "bytes", "inline", "time_classes", "deltas"]
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
        _insert(connection, s.base_paths, [base_path_row(row) for row in self.base_paths.values()])
        _insert(connection, s.branches, [branch_row(row) for row in self.branches.values()])
        listed = [row for row in self.branch_tables.values() if row.branch_id in self.branches]
        _insert(connection, s.branch_tables, [branch_table_row(row) for row in listed])
        _insert(connection, s.requests, [request_row(row) for row in self.requests.values()])

    def insert_erasures(self, connection: sa.Connection) -> None:
        """Erasures as if just committed: the next process finishes them again."""
        _insert(connection, s.erasures, [erasure_row(row) for row in self.erasures.values()])

    def insert_ingest(self, connection: sa.Connection) -> None:
        """Tokens, and streams with offsets. Only the last checkpoint of each is in a manifest."""
        _insert(connection, s.ingest_tokens, [token_row(row) for row in self.tokens.values()])
        _insert(connection, s.token_secrets, [k for row in self.tokens.values() for k in secret_rows(row)])
        _insert(connection, s.streams, [stream_row(row) for row in self.streams.values()])
        known = set(self.entries)
        tables = [table for row in self.streams.values() for table in stream_table_rows(row, known)]
        _insert(connection, s.stream_tables, tables)
        times = {version: stamp for version, (stamp, _) in self.versions.items()}
        points = [point for row in self.streams.values() for point in checkpoint_rows(row, known, times)]
        _insert(connection, s.stream_checkpoints, points)
        _insert(connection, s.set_asides, [set_aside_row(row) for row in self.set_asides.values()])


def database_row(row: pb.Database) -> dict[str, Any]:
    return {
        "id": UUID(bytes=row.id),
        "name": row.name,
        "properties": json.loads(row.properties_json),
        "created_at": row.created_at,
        **_tombstone(row),
        "branch_id": _id(row.branch_id),
        "origin_id": _id(row.origin_id),
    }


def base_path_row(row: pb.BasePath) -> dict[str, Any]:
    return {"id": UUID(bytes=row.id), "name": row.name, "uri": row.uri, "created_at": row.created_at}


def erasure_row(row: pb.Erasure) -> dict[str, Any]:
    """A committed erasure, with a report from its manifests."""
    before = {}
    for path in row.deleted:
        if (found := paths.parse_segment_path(path)) is not None:
            before[found[1]] = path
    rewritten = [
        {"segment": ref.number, "before": before.get(ref.number), "after": ref.path, "sha256": ref.sha256.hex()}
        for ref in row.segments
    ]
    report = {
        "erasure": str(UUID(bytes=row.id)),
        "version": row.version,
        "condition": "",
        "table_id": "",
        "rows": 0,
        "rewritten": rewritten,
        "removed": [{"segment": number, "before": before.get(number)} for number in row.removed],
    }
    return {
        "id": UUID(bytes=row.id),
        "table_id": UUID(bytes=row.tables[0]),
        "outline": "",
        "started_at": 0,
        "version": row.version,
        "data": row.SerializeToString(deterministic=True),
        "report": report,
    }


def branch_row(row: pb.Branch) -> dict[str, Any]:
    return {
        "id": UUID(bytes=row.id),
        "name": row.name,
        "version": row.version,
        "created_at": row.created_at,
        "expires_at": _optional(row, "expires_at"),
        "published_version": _optional(row, "published_version"),
        "began": json.loads(row.began_json) if row.HasField("began_json") else None,
        **_tombstone(row),
    }


def branch_table_row(row: pb.BranchTable) -> dict[str, Any]:
    return {
        "branch_id": UUID(bytes=row.branch_id),
        "source_id": UUID(bytes=row.source_id),
        "database_id": UUID(bytes=row.database_id),
        "name": row.name,
        "own_id": UUID(bytes=row.own_id),
        "opened": row.opened,
    }


def entry_row(entry: pb.TableEntry) -> dict[str, Any]:
    """The changes of a table's row in lake manifests."""
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
        **_query(row.query if row.HasField("query") else None),
    }


def _query(row: pb.ViewQuery | None) -> dict[str, Any]:
    if row is None:
        return dict.fromkeys(("representations", "schema_json", "properties", "query_version", "history_json"))
    return {
        "representations": [{"dialect": one.dialect, "sql": one.sql} for one in row.representations],
        "schema_json": row.schema_json,
        "properties": json.loads(row.properties_json),
        "query_version": row.version,
        "history_json": row.history_json if row.HasField("history_json") else None,
    }


def member_rows(row: pb.View) -> list[dict[str, Any]]:
    members = enumerate(row.members)
    return [{"view_id": UUID(bytes=row.id), "ordinal": n, "table_id": UUID(bytes=member)} for n, member in members]


def request_row(row: pb.Request) -> dict[str, Any]:
    return {
        "id": row.id,
        "version": row.version,
        "created_at": row.created_at,
        "versions": row.versions or 1,
        "digest": row.digest or None,
    }


def token_row(row: pb.IngestToken) -> dict[str, Any]:
    return {
        "id": UUID(bytes=row.id),
        "database_id": UUID(bytes=row.database_id),
        "name": row.name,
        "traces_table_id": UUID(bytes=row.traces_table_id),
        "logs_table_id": UUID(bytes=row.logs_table_id),
        "metrics_table_id": UUID(bytes=row.metrics_table_id),
        "created_at": row.created_at,
        **_tombstone(row),
    }


def secret_rows(row: pb.IngestToken) -> list[dict[str, Any]]:
    return [
        {
            "selector": secret.selector,
            "token_id": UUID(bytes=row.id),
            "hash": secret.hash,
            "hint": secret.hint,
            "created_at": secret.created_at,
            "expires_at": _optional(secret, "expires_at"),
        }
        for secret in row.secrets
    ]


def stream_row(row: pb.Stream) -> dict[str, Any]:
    optional = {name: _optional(row, name) for name in ("stopped_at", "stopped_offset", "retired_at")}
    plain = ("collector_id", "description", "created_at", "stop_reason", "frontier", "frontier_time")
    return {
        "id": UUID(bytes=row.id),
        "token_id": UUID(bytes=row.token_id),
        **{name: getattr(row, name) for name in (*plain, "deleted_offset", "deleted_time")},
        **optional,
    }


def stream_table_rows(row: pb.Stream, known: Collection[bytes]) -> list[dict[str, Any]]:
    """The offsets of existing tables in a stream."""
    return [
        {
            "stream_id": UUID(bytes=row.id),
            "table_id": UUID(bytes=table.table_id),
            "merged_offset": table.merged_offset,
            "merged_time": table.merged_time,
            "created_at": table.created_at,
        }
        for table in row.tables
        if table.table_id in known
    ]


def checkpoint_rows(row: pb.Stream, known: Collection[bytes], times: Mapping[int, int]) -> list[dict[str, Any]]:
    """The last checkpoint of the stream, and of each table with its own offset."""
    points: list[tuple[UUID | None, int, int, int]] = [(None, row.frontier_version, row.frontier, row.frontier_time)]
    points += [
        (UUID(bytes=table.table_id), table.version, table.merged_offset, table.merged_time)
        for table in row.tables
        if table.table_id in known
    ]
    return [
        {
            "stream_id": UUID(bytes=row.id),
            "table_id": table_id,
            "version": version,
            "stream_offset": offset,
            "ingest_time": time,
            "created_at": times.get(version, row.created_at),
        }
        for table_id, version, offset, time in points
        if version
    ]


def set_aside_row(row: pb.SetAside) -> dict[str, Any]:
    plain = ("version", "ordinal", "stream_offset", "records", "reason", "path", "created_at")
    return {"stream_id": UUID(bytes=row.stream_id), **{name: getattr(row, name) for name in plain}}


def _id(value: bytes) -> UUID | None:
    return UUID(bytes=value) if value else None


def _optional(row: Any, name: str) -> Any:
    return getattr(row, name) if row.HasField(name) else None


def _insert(connection: sa.Connection, table: sa.Table, rows: list[dict[str, Any]]) -> None:
    for chunk in chunks(rows):
        connection.execute(table.insert(), list(chunk))


def _tombstone(row: pb.Database | pb.TableEntry | pb.View | pb.Branch | pb.IngestToken) -> dict[str, int | None]:
    if not row.HasField("tombstone"):
        return {"tombstoned_at": None, "delete_at": None}
    return {"tombstoned_at": row.tombstone.tombstoned_at, "delete_at": row.tombstone.delete_at}
