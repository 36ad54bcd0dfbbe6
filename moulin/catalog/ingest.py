"""The part of the catalog for ingest: tokens, streams, commits of nurseries, members.

Like the catalog itself it only opens transactions; other modules implement them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import databases, tables
from moulin.catalog.objects.names import NameOrId
from moulin.catalog.segments import staging
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import Draft
from moulin.catalog.sql.pool import Pool, Write
from moulin.catalog.streams import members, nursery, streams, tokens
from moulin.errors import FailedPrecondition, InvalidInput, Unavailable
from moulin.model.entities import TableState
from moulin.model.ingest import (
    Advance,
    Frontier,
    Member,
    MemberKind,
    NewToken,
    NurseryBatch,
    NurseryResult,
    Registration,
    Routing,
    SetAside,
    StopReason,
    Stream,
    StreamList,
    StreamRegistration,
    Token,
)
from moulin.model.names import full_name
from moulin.storage import paths

Mutation = Callable[[str], AbstractContextManager[Draft]]
Publish = Callable[[Draft, list[UUID]], None]
_MAX_STAGED = 10_000


class IngestCatalog:
    """Reached as `catalog.ingest`. Safe to use from several threads."""

    def __init__(self, pool: Pool, lake_uuid: UUID, mutation: Mutation, publish: Publish) -> None:
        self._pool, self._lake_uuid, self._mutation, self._publish = pool, lake_uuid, mutation, publish
        self._config = pool.config

    # Tokens

    def create_token(
        self, database: NameOrId, name: str, routing: Routing, *, expires_in: float | None = None
    ) -> NewToken:
        with self._mutation("create-token") as draft:
            return tokens.create(draft, database, name, routing, expires_in=expires_in)

    def rotate_token(
        self, database: NameOrId, token: NameOrId, *, overlap_seconds: float = 0, expires_in: float | None = None
    ) -> NewToken:
        with self._mutation("rotate-token") as draft:
            return tokens.rotate(draft, database, token, overlap_seconds=overlap_seconds, expires_in=expires_in)

    def validate_token(self, plaintext: str) -> Token:
        """The live token with this plaintext, else Unauthenticated."""
        with self._pool.read() as connection:
            return tokens.validate(connection, plaintext, self._pool.now(connection))

    def token(self, database: NameOrId, token: NameOrId, *, include_dropped: bool = False) -> Token:
        with self._pool.read() as connection:
            return tokens.load(connection, database, token, include_dropped=include_dropped)

    def tokens(self, database: NameOrId, *, include_dropped: bool = False) -> list[Token]:
        with self._pool.read() as connection:
            return tokens.list_all(connection, database, include_dropped=include_dropped)

    def set_token_routing(self, database: NameOrId, token: NameOrId, routing: Routing) -> Token:
        with self._mutation("set-token-routing") as draft:
            return tokens.set_routing(draft, database, token, routing)

    def drop_token(self, database: NameOrId, token: NameOrId) -> Token:
        with self._mutation("drop-token") as draft:
            return tokens.drop(draft, database, token, grace_seconds=self._config.token_grace)

    def resurrect_token(self, database: NameOrId, token: NameOrId) -> Token:
        with self._mutation("resurrect-token") as draft:
            return tokens.resurrect(draft, database, token)

    # Streams

    def register_stream(self, plaintext: str, collector_id: str, description: str = "") -> StreamRegistration:
        """The stream that a collector writes to. Unauthenticated without a valid token."""
        streams.check_collector(collector_id, description)
        with self._pool.read() as connection:
            token = tokens.validate(connection, plaintext, self._pool.now(connection))
            row = streams.active(connection, collector_id)
            if row is not None:
                return StreamRegistration(streams.to_streams(connection, [row])[0], token)
        with self._mutation("register-stream") as draft:
            return streams.register(draft, plaintext, collector_id, description)

    def stream_list(self) -> StreamList:
        """All streams that are not retired, tables and routing, with a number that orders results."""
        with self._pool.write() as write:
            return streams.list_all(write, self._config.checkpoint_keep)

    def snapshot(self) -> StreamList:
        """Streams, tables and routing at one version, for readers: takes no lock and no number."""
        with self._pool.read() as connection:
            return streams.snapshot(connection, self._pool.now(connection))

    def streams(self, stream_ids: Sequence[UUID]) -> tuple[Stream, ...]:
        """The existing ones of these streams, including retired ones."""
        with self._pool.read() as connection:
            return self._load(connection, stream_ids)

    def stop_stream(
        self, stream_id: UUID, final_offset: int, *, stopped_at: int, reason: StopReason = StopReason.UNSPECIFIED
    ) -> None:
        with self._mutation("stop-stream") as draft:
            streams.stop(draft, stream_id, stopped_at, final_offset, reason)

    def deletable_offsets(self, published: int) -> dict[UUID, int]:
        """The offsets up to which objects of streams may be deleted, `blob_keep` after their commit."""
        pinned = self._pool.in_use().oldest_pin()
        with self._pool.read() as connection:
            now = self._pool.now(connection)
            return streams.deletable(connection, now, self._config.blob_keep, published, pinned)

    def set_deleted_offset(self, stream_id: UUID, offset: int, ingest_time: int = 0) -> None:
        with self._mutation("trim-stream") as draft:
            streams.set_deleted(draft, stream_id, offset, ingest_time)

    def remove_stream_table(self, stream_id: UUID, table_id: UUID, *, current_offset: int, merged_offset: int) -> None:
        with self._mutation("remove-stream-table") as draft:
            streams.remove_table(draft, stream_id, table_id, current_offset, merged_offset)

    # Nurseries

    def stage_segments(self, database: NameOrId, table: NameOrId, count: int) -> list[str]:
        """Paths for segments to be written and registered. Clean-up removes files that are never registered."""
        if not 1 <= count <= _MAX_STAGED:
            raise InvalidInput(f"From 1 to {_MAX_STAGED} segments can be staged at once, not {count}.")
        with self._pool.read() as connection:
            table_id: UUID = tables.find(connection, database, table, include_dropped=True).id
            tables.find_by_id(connection, table_id, dropped_after=self._pool.now(connection))
        first = staging.reserve(self._pool, table_id, count, "nursery", self._config.staged_seconds).first
        return [paths.segment_path(table_id, number, secrets.token_hex(4)) for number in range(first, first + count)]

    def target(self, table_id: UUID) -> TableState:
        """A table that can receive segments: a live one, or a dropped one within its grace period."""
        with self._pool.read() as connection:
            row = tables.find_by_id(connection, table_id, dropped_after=self._pool.now(connection))
            return tables.load(connection, row)

    def register_segments(
        self,
        database: NameOrId,
        table_id: UUID,
        registrations: Sequence[Registration],
        *,
        idle: Sequence[Advance] = (),
        request_id: str,
        digest: bytes | None = None,
    ) -> NurseryResult:
        """Add segments to one table, each as a version, and advance their streams, atomically.

        `digest` identifies the request if the facts of the segments differ between attempts.
        """
        if not registrations:
            raise InvalidInput("A registration needs at least one segment.")
        key = nursery.request_key(request_id)
        asked = nursery.digest(table_id, tuple(registrations), tuple(idle)) if digest is None else digest
        moves = [*(advance for registration in registrations for advance in registration.advances), *idle]
        with self._losing(key, moves, table_id), self._pool.write() as write:
            self._require_event_table(write, table_id, database)
            if versions := nursery.earlier(write.connection, key, asked):
                drafts = []
            else:
                drafts = nursery.register(write, self._lake_uuid, table_id, registrations, idle, key, asked)
                versions = tuple(draft.version for draft in drafts)
            result = self._result(write, versions, [move.stream_id for move in moves], replayed=not drafts)
        if drafts:
            self._publish(drafts[-1], [table_id])
        return result

    def commit_nursery_batch(self, batch: NurseryBatch, *, request_id: str) -> NurseryResult:
        """Commit a whole batch as one version. Conflict if a stream or the routing has changed."""
        key, asked = nursery.request_key(request_id), nursery.digest(batch)
        with self._losing(key, batch.frontiers), self._pool.write() as write:
            draft = None
            if not (versions := nursery.earlier(write.connection, key, asked)):
                for table_id in batch.segments:
                    self._require_event_table(write, table_id, None)
                draft = Draft(write, self._lake_uuid, nursery.KIND)
                nursery.commit_batch(draft, batch, key, asked)
                versions = (draft.version,)
            moved = [frontier.stream_id for frontier in batch.frontiers]
            result = self._result(write, versions, moved, replayed=draft is None)
        if draft is not None:
            self._publish(draft, list(batch.segments))
        return result

    def registered(self, request_id: str, digest: bytes, moves: Sequence[Advance]) -> NurseryResult | None:
        """The result of an earlier registration with this id; None if there is none."""
        key = nursery.request_key(request_id)
        with self._pool.read() as connection:
            if not nursery.earlier(connection, key, digest):
                return None
        with self._pool.write() as write:
            versions = nursery.earlier(write.connection, key, digest)
            return self._result(write, versions, [move.stream_id for move in moves], replayed=True)

    @contextmanager
    def _losing(self, key: str, moves: Sequence[Advance | Frontier], table_id: UUID | None = None) -> Iterator[None]:
        """If another nursery took the range while this one waited for the catalog, a retry is pointless."""
        try:
            yield
        except Unavailable:
            with suppress(Unavailable), self._pool.read() as connection:
                nursery.check_not_lost(connection, key, moves, table_id)
            raise

    def forget_set_aside(self, path: str) -> None:
        """Record that an object that was set aside was deleted; the record of it stays."""
        a = s.set_asides
        with self._pool.unordered() as connection:
            connection.execute(a.update().where(a.c.path == path).values(path=""))

    def set_asides(self, stream_id: UUID | None = None) -> list[tuple[int, SetAside]]:
        """Records that nurseries set aside, each with its version; of one stream, or all."""
        a = s.set_asides
        query = sa.select(a).order_by(a.c.version, a.c.ordinal)
        if stream_id is not None:
            query = query.where(a.c.stream_id == stream_id)
        with self._pool.read() as connection:
            return [
                (row.version, SetAside(row.stream_id, row.stream_offset, row.records, row.reason, row.path))
                for row in connection.execute(query)
            ]

    def _require_event_table(self, write: Write, table_id: UUID, database: NameOrId | None) -> None:
        """Reject a table of another database, one past its grace period, and a keyed table."""
        if database is not None:
            parent = databases.find(write.connection, database, include_dropped=True)
            tables.find(write.connection, parent.id, table_id, include_dropped=True)
        row = tables.find_by_id(write.connection, table_id, dropped_after=write.now)
        if tables.load(write.connection, row).schema.identifier_field_ids:
            raise FailedPrecondition(
                f"Table {full_name(row.database, row.name)} has a primary key; only event tables can receive streams."
            )

    def _result(
        self, write: Write, versions: tuple[int, ...], stream_ids: Sequence[UUID], *, replayed: bool
    ) -> NurseryResult:
        moved = self._load(write.connection, stream_ids, write.now)
        return NurseryResult(versions, moved, write.take_response_seq(), replayed)

    def _load(
        self, connection: sa.Connection, stream_ids: Sequence[UUID], now: int | None = None
    ) -> tuple[Stream, ...]:
        now = self._pool.now(connection) if now is None else now
        return streams.load(connection, stream_ids, now, self._config.checkpoint_keep)

    # Members

    def beat(self, server: str, member_id: str, kind: MemberKind, endpoint: str, weight: int) -> None:
        members.beat(self._pool, server, member_id, kind, endpoint, weight)

    def members(self, kind: MemberKind | None = None) -> list[Member]:
        with self._pool.read() as connection:
            return members.list_live(connection, self._pool.now(connection), self._config.member_ttl, kind)

    def forget_members(self, server: str) -> None:
        members.forget(self._pool, server, self._config.member_ttl)
