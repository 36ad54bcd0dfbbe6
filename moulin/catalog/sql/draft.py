"""The manifests of one version, built while it commits and saved in its transaction.

Storage gets them afterwards, from the outbox (manifests/publish.py). A mutation that turns out to change nothing never
asks for `version`, and then none is taken.
"""

# Decisions: docs/decisions/0380

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import Write
from moulin.catalog.sql.prepared import Prepared
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.release import VERSION
from moulin.storage import paths

# A full manifest lists every sequence number of its table, so it waits for as many deltas as are in proportion to them,
# but for no more than the most.
SEQUENCES_PER_DELTA = 64
MOST_DELTAS = 4096

_OUTBOX = Prepared(s.outbox.insert())
_REQUEST = Prepared(s.requests.insert())


class Draft:
    """A version being created. `kind` is its kind in the lake's history."""

    def __init__(self, write: Write, lake_uuid: UUID, kind: str) -> None:
        self.write = write
        self.connection = write.connection
        self.now, self.clock = write.now, write.clock
        self.lake_uuid = lake_uuid
        self._kind = kind
        self._version: int | None = None
        self._lake: pb.Manifest | None = None
        self._tables: dict[UUID, pb.Manifest] = {}
        # Of deltas without a full manifest, among the tables of this version and the lake; see manifests/publish.py.
        self.longest_chain = 0

    @property
    def version(self) -> int:
        if self._version is None:
            self._version = self.write.take_version(self._kind)
        return self._version

    def lake(self) -> pb.Manifest:
        """The lake manifest of this version."""
        if self._lake is None:
            self._lake = self._start()
        return self._lake

    def table(self, table_id: UUID) -> pb.Manifest:
        """The manifest of one table of this version."""
        if table_id not in self._tables:
            self._tables[table_id] = self._start()
            self._tables[table_id].table_uuid = str(table_id)
        return self._tables[table_id]

    def request(self, request_id: str, *, versions: int = 1, digest: bytes | None = None) -> None:
        """Store an idempotency key with this version, the last of its `versions` consecutive ones."""
        values: dict[str, Any] = {"id": request_id, "version": self.version, "created_at": self.now}
        values["versions"] = versions
        _REQUEST.run(self.connection, {**values, "digest": digest})
        holder = self._lake or next(iter(self._tables.values()), None) or self.lake()
        holder.requests.append(pb.Request(**values, digest=digest or b""))

    def reroute(self) -> None:
        """Record that this version may change the routing of records."""
        self.write.routing_seq = self.version
        self.lake().routing_changed = True

    @property
    def is_saved(self) -> bool:
        """Whether a version was taken."""
        return self._version is not None

    def save(self) -> None:
        """Put the manifests into the outbox, if a version was taken."""
        if self._version is None:
            return
        if self._lake is None and not self._tables:
            self.lake()
        parts = {paths.table_manifest(table_id, self._version, "delta"): m for table_id, m in self._tables.items()}
        if self._lake is not None:
            parts[paths.lake_manifest(self._version, "delta")] = self._lake
            self.write.deltas += 1
            self.longest_chain = max(self.longest_chain, self.write.deltas)
        members = sorted(table_id.bytes for table_id in self._tables)
        rows = []
        for path, manifest in parts.items():
            manifest.tables.extend(members)
            manifest.lake = self._lake is not None
            rows.append({"version": self._version, "path": path, "data": codec.encode(manifest, full=False)})
        _OUTBOX.run(self.connection, *rows)

    def _start(self) -> pb.Manifest:
        return start_manifest(self.lake_uuid, self.write.incarnation, self.version, self.now, self._kind)


def start_manifest(lake_uuid: UUID, incarnation: int, version: int, timestamp_ns: int, kind: str) -> pb.Manifest:
    """A manifest with the common fields."""
    return pb.Manifest(
        version=version,
        reader_features=codec.COMMON_FEATURES,
        writer_features=codec.COMMON_FEATURES,
        lake_uuid=lake_uuid.bytes,
        incarnation=incarnation,
        timestamp_ns=timestamp_ns,
        last_updated_ms=timestamp_ns // 1_000_000,
        kind=kind,
        writer=f"moulin {VERSION}",
    )


def _tombstone(row: Any) -> pb.Tombstone | None:
    if row.tombstoned_at is None:
        return None
    return pb.Tombstone(tombstoned_at=row.tombstoned_at, delete_at=row.delete_at)


def database_entry(row: Any) -> pb.Database:
    return pb.Database(
        id=row.id.bytes,
        name=row.name,
        properties_json=json.dumps(row.properties, sort_keys=True),
        created_at=row.created_at,
        tombstone=_tombstone(row),
        branch_id=b"" if row.branch_id is None else row.branch_id.bytes,
        origin_id=b"" if row.origin_id is None else row.origin_id.bytes,
    )


def add_branches(manifest: pb.Manifest, branches: Iterable[Any], tables: Iterable[Any]) -> None:
    """Put the present state of branches and of their tables into a lake manifest; those who do not know them stop."""
    for row in branches:
        manifest.branches.add(
            id=row.id.bytes,
            name=row.name,
            version=row.version,
            created_at=row.created_at,
            expires_at=row.expires_at,
            tombstone=_tombstone(row),
            published_version=row.published_version,
            began_json=None if row.began is None else json.dumps(row.began, sort_keys=True),
        )
    for row in tables:
        manifest.branch_tables.add(
            branch_id=row.branch_id.bytes,
            source_id=row.source_id.bytes,
            database_id=row.database_id.bytes,
            name=row.name,
            own_id=row.own_id.bytes,
            opened=row.opened,
        )
    if manifest.branches or manifest.branch_tables:
        codec.require_feature(manifest, codec.FEATURE_BRANCHES)


def add_base_paths(manifest: pb.Manifest, rows: Iterable[Any]) -> None:
    """Put base paths into a lake manifest; those who do not know them stop."""
    for row in rows:
        manifest.base_paths.add(id=row.id.bytes, name=row.name, uri=row.uri, created_at=row.created_at)
    if manifest.base_paths:
        codec.require_feature(manifest, codec.FEATURE_BASE_PATHS)


def table_entry(row: Any) -> pb.TableEntry:
    return pb.TableEntry(
        id=row.id.bytes,
        database_id=row.database_id.bytes,
        name=row.name,
        created_at=row.created_at,
        created_version=row.created_version,
        oldest_version=row.oldest_version,
        head_version=row.head_version,
        tombstone=_tombstone(row),
    )


def add_view(manifest: pb.Manifest, connection: sa.Connection, row: Any) -> None:
    """Put the present state of a view into a lake manifest. Those who do not know queries must not read it."""
    manifest.views.append(_view_entry(connection, row))
    if row.representations is not None:
        codec.require_feature(manifest, codec.FEATURE_QUERY_VIEWS)


def _view_entry(connection: sa.Connection, row: Any) -> pb.View:
    members = connection.execute(
        sa.select(s.view_members.c.table_id)
        .where(s.view_members.c.view_id == row.id)
        .order_by(s.view_members.c.ordinal)
    ).scalars()
    return pb.View(
        id=row.id.bytes,
        database_id=row.database_id.bytes,
        name=row.name,
        description=row.description,
        created_at=row.created_at,
        tombstone=_tombstone(row),
        members=[member.bytes for member in members],
        query=None if row.representations is None else _query_entry(row),
    )


def _query_entry(row: Any) -> pb.ViewQuery:
    return pb.ViewQuery(
        version=row.query_version,
        representations=[pb.ViewRepresentation(**one) for one in row.representations],
        schema_json=row.schema_json,
        properties_json=json.dumps(row.properties, sort_keys=True),
        history_json=row.history_json,
    )


def token_entry(connection: sa.Connection, row: Any) -> pb.IngestToken:
    k = s.token_secrets
    secrets = connection.execute(sa.select(k).where(k.c.token_id == row.id).order_by(k.c.created_at, k.c.selector))
    return pb.IngestToken(
        id=row.id.bytes,
        database_id=row.database_id.bytes,
        name=row.name,
        traces_table_id=row.traces_table_id.bytes,
        logs_table_id=row.logs_table_id.bytes,
        metrics_table_id=row.metrics_table_id.bytes,
        created_at=row.created_at,
        tombstone=_tombstone(row),
        secrets=[
            pb.TokenSecret(
                selector=secret.selector,
                hash=secret.hash,
                hint=secret.hint,
                created_at=secret.created_at,
                expires_at=secret.expires_at,
            )
            for secret in secrets
        ],
    )


def stream_entry(connection: sa.Connection, row: Any) -> pb.Stream:
    c, t = s.stream_checkpoints, s.stream_tables
    moved = sa.select(c.c.table_id, sa.func.max(c.c.version)).where(c.c.stream_id == row.id).group_by(c.c.table_id)
    versions = {last[0]: last[1] for last in connection.execute(moved)}
    return pb.Stream(
        id=row.id.bytes,
        collector_id=row.collector_id,
        description=row.description,
        token_id=row.token_id.bytes,
        created_at=row.created_at,
        stopped_at=row.stopped_at,
        stopped_offset=row.stopped_offset,
        stop_reason=row.stop_reason,
        frontier=row.frontier,
        frontier_time=row.frontier_time,
        deleted_offset=row.deleted_offset,
        deleted_time=row.deleted_time,
        retired_at=row.retired_at,
        frontier_version=versions.get(None, 0),
        tables=[
            pb.StreamTable(
                table_id=table.table_id.bytes,
                merged_offset=table.merged_offset,
                merged_time=table.merged_time,
                created_at=table.created_at,
                version=versions.get(table.table_id, 0),
            )
            for table in connection.execute(sa.select(t).where(t.c.stream_id == row.id).order_by(t.c.table_id))
        ],
    )


def add_rows(draft: Draft, table: sa.Table, ids: list[UUID]) -> None:
    """Put the present state of rows of databases, tables, views, branches, tokens or streams into the lake manifest."""
    rows = draft.connection.execute(sa.select(table).where(table.c.id.in_(ids))).all() if ids else []
    for row in rows:
        if table is s.databases:
            draft.lake().databases.append(database_entry(row))
        elif table is s.tables:
            draft.lake().table_entries.append(table_entry(row))
        elif table is s.views:
            add_view(draft.lake(), draft.connection, row)
        elif table is s.branches:
            add_branches(draft.lake(), [row], [])
        elif table is s.base_paths:
            add_base_paths(draft.lake(), [row])
        elif table is s.ingest_tokens:
            draft.lake().ingest_tokens.append(token_entry(draft.connection, row))
        else:
            draft.lake().streams.append(stream_entry(draft.connection, row))
