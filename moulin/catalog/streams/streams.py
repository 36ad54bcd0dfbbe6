"""Streams of collectors: who writes which, how far each is in segments and deleted from storage, and how they end.

Offsets only ever rise. The objects of a stream hold records of many tables; how far they are taken in is one frontier
for all of them, and for a table that is further, by a row of its own.
"""

# Decisions: docs/decisions/0082

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.sql.draft import Draft, add_rows
from moulin.catalog.sql.pool import Write, chunks
from moulin.catalog.streams import tokens
from moulin.errors import FailedPrecondition, InvalidInput, NotFound
from moulin.model.ids import new_id
from moulin.model.ingest import (
    BEFORE_FIRST,
    Checkpoint,
    RoutedTable,
    StopReason,
    Stream,
    StreamList,
    StreamRegistration,
    StreamTable,
)

MAX_OFFSET = (1 << 63) - 2
_MAX_TEXT = 1024
_NOT_RETIRED = (
    sa.select(s.streams).where(s.streams.c.retired_at.is_(None)).order_by(s.streams.c.created_at, s.streams.c.id)
)


def register(draft: Draft, plaintext: str, collector_id: str, description: str) -> StreamRegistration:
    """The active stream of a collector, made when it has none. The token is checked in the same transaction."""
    token = tokens.validate(draft.connection, plaintext, draft.clock)
    row = active(draft.connection, collector_id)
    if row is None:
        stream_id = new_id()
        draft.connection.execute(
            s.streams.insert().values(
                id=stream_id,
                collector_id=collector_id,
                description=description,
                token_id=token.id,
                created_at=draft.now,
                stop_reason=StopReason.UNSPECIFIED,
                frontier=BEFORE_FIRST,
                frontier_time=0,
                deleted_offset=BEFORE_FIRST,
                deleted_time=0,
            )
        )
        add_rows(draft, s.streams, [stream_id])
        row = find(draft.connection, stream_id)
    return StreamRegistration(to_streams(draft.connection, [row])[0], token)


def check_collector(collector_id: str, description: str) -> None:
    if not collector_id.strip():
        raise InvalidInput("A collector needs a new id for each start.")
    if len(collector_id) > _MAX_TEXT or len(description) > _MAX_TEXT:
        raise InvalidInput(f"A collector's id and description have at most {_MAX_TEXT} characters.")
    if "\0" in collector_id + description:
        raise InvalidInput("A collector's id and description must not contain a zero byte.")


def active(connection: sa.Connection, collector_id: str) -> Any | None:
    """The row of the stream that a collector writes to now."""
    r = s.streams
    return connection.execute(sa.select(r).where(r.c.collector_id == collector_id, r.c.stopped_at.is_(None))).first()


def find(connection: sa.Connection, stream_id: UUID) -> Any:
    row = connection.execute(sa.select(s.streams).where(s.streams.c.id == stream_id)).first()
    if row is None:
        raise NotFound(f"There is no stream {stream_id}.")
    return row


def load(connection: sa.Connection, stream_ids: Iterable[UUID], now: int, keep_seconds: float) -> tuple[Stream, ...]:
    """Streams with their tables and recent checkpoints, in the order of their ids."""
    rows: list[Any] = []
    for chunk in chunks(sorted(set(stream_ids))):
        rows += connection.execute(sa.select(s.streams).where(s.streams.c.id.in_(chunk)))
    return to_streams(connection, rows, since=now - int(keep_seconds * NANOS))


def not_retired(connection: sa.Connection, since: int | None = None) -> tuple[Stream, ...]:
    """The streams that may still hold objects, in the order of their creation; `since` as in `to_streams`."""
    return to_streams(connection, connection.execute(_NOT_RETIRED).all(), since)


def list_all(write: Write, keep_seconds: float) -> StreamList:
    """Everything that a nursery needs to know, numbered. Called under the counter's lock.

    Whatever is created later gets a later time, because `write.now` is kept; so the list is complete through it.
    """
    since = write.now - int(keep_seconds * NANOS)
    listed = _listed(write.connection, write.version, write.now, write.routing_seq, since)
    return replace(listed, response_seq=write.take_response_seq())


def snapshot(connection: sa.Connection, now: int) -> StreamList:
    """The same for a reader: everything as of one version, not numbered, without checkpoints."""
    row = connection.execute(sa.select(s.counter.c.version, s.counter.c.routing_seq)).one()
    return _listed(connection, int(row.version), now, int(row.routing_seq), None)


def _listed(connection: sa.Connection, version: int, now: int, routing_seq: int, since: int | None) -> StreamList:
    t = s.tables
    live = sa.select(t.c.id, t.c.database_id, t.c.name, t.c.tombstoned_at)
    tables = connection.execute(live.where(sa.or_(t.c.delete_at.is_(None), t.c.delete_at > now)))
    return StreamList(
        streams=not_retired(connection, since),
        tables=tuple(
            RoutedTable(row.id, row.database_id, row.name, retired=row.tombstoned_at is not None)
            for row in tables.all()
        ),
        routing=tokens.routing(connection),
        version=version,
        response_seq=0,
        routing_seq=routing_seq,
        complete_through=now,
    )


def stop(draft: Draft, stream_id: UUID, stopped_at: int, final_offset: int, reason: StopReason) -> None:
    """Nothing follows `final_offset`. Who comes second changes nothing, and must mean the same offset."""
    check_offset(final_offset)
    if not 0 <= stopped_at <= MAX_OFFSET:
        raise InvalidInput(
            f"The time {stopped_at} at which the stream stopped is not a valid time in Unix nanoseconds."
        )
    row = find(draft.connection, stream_id)
    if row.stopped_at is not None:
        if row.stopped_offset != final_offset:
            raise FailedPrecondition(
                f"Stream {stream_id} was already stopped at offset {row.stopped_offset}, not at {final_offset}."
            )
        return
    furthest = max([row.frontier, *_table_offsets(draft.connection, stream_id).values()])
    if final_offset < furthest:
        raise FailedPrecondition(
            f"Stream {stream_id} is committed up to offset {furthest} and cannot have ended at {final_offset}."
        )
    values = {"stopped_at": stopped_at, "stopped_offset": final_offset, "stop_reason": int(reason)}
    _update(draft, stream_id, **values)
    _retire_if_empty(draft, stream_id)


def set_deleted(draft: Draft, stream_id: UUID, offset: int, ingest_time: int) -> None:
    """The objects up to `offset` are gone from storage. A lower one than known changes nothing."""
    check_offset(offset)
    row = find(draft.connection, stream_id)
    if offset <= row.deleted_offset:
        return
    offsets = _table_offsets(draft.connection, stream_id).values()
    taken_in = max(row.frontier, min(offsets, default=BEFORE_FIRST))
    if offset > taken_in:
        raise FailedPrecondition(
            f"Stream {stream_id} is committed up to offset {taken_in} only: {offset} must not be deleted."
        )
    later = max(row.deleted_time, ingest_time)
    _update(draft, stream_id, deleted_offset=offset, deleted_time=later, frontier=max(row.frontier, offset))
    _retire_if_empty(draft, stream_id)


def remove_table(draft: Draft, stream_id: UUID, table_id: UUID, current_offset: int, merged_offset: int) -> None:
    """Forget how far a table is with a stream; what it took in must be deleted, and the caller must know it."""
    row = find(draft.connection, stream_id)
    found = _table_offsets(draft.connection, stream_id).get(table_id)
    if found is None:
        raise NotFound(f"Stream {stream_id} has no table {table_id}.")
    found = max(found, row.frontier)
    if current_offset < found:
        raise FailedPrecondition(
            f"The table is committed up to offset {found}, past the current offset {current_offset}."
        )
    if merged_offset != found or merged_offset != row.deleted_offset:
        raise FailedPrecondition(
            f"The table is committed up to offset {found} and the stream is deleted up to {row.deleted_offset}; "
            f"both must be {merged_offset}. Read the stream again."
        )
    t, c = s.stream_tables, s.stream_checkpoints
    draft.connection.execute(t.delete().where(t.c.stream_id == stream_id, t.c.table_id == table_id))
    draft.connection.execute(c.delete().where(c.c.stream_id == stream_id, c.c.table_id == table_id))
    add_rows(draft, s.streams, [stream_id])
    seen_all = row.stopped_offset is not None and current_offset >= row.stopped_offset
    if seen_all and not _table_offsets(draft.connection, stream_id):
        _update(draft, stream_id, retired_at=draft.now)


def purge(
    draft: Draft, now: int, keep_seconds: float, checkpoint_seconds: float, pinned_here: int | None = None
) -> None:
    """Remove streams that retired long enough ago, and checkpoints that neither the time kept nor a pin needs.

    `pinned_here` is the oldest version that a living process of this machine reads.
    """
    r, c, connection = s.streams, s.stream_checkpoints, draft.connection
    over = r.c.retired_at <= now - int(keep_seconds * NANOS)
    ids = connection.execute(sa.select(r.c.id).where(over)).scalars().all()
    for chunk in chunks(ids):
        for source in (c, s.stream_tables):
            connection.execute(source.delete().where(source.c.stream_id.in_(chunk)))
        connection.execute(r.delete().where(r.c.id.in_(chunk)))
        draft.lake().purged.extend(stream_id.bytes for stream_id in chunk)
    oldest = _oldest_pin(connection, now, pinned_here)
    old = c.c.created_at < now - int(checkpoint_seconds * NANOS)
    if oldest is not None:
        old = sa.and_(old, c.c.version <= oldest)
    newest = sa.select(c.c.stream_id, c.c.table_id, sa.func.max(c.c.version).label("version"))
    for last in connection.execute(newest.where(old).group_by(c.c.stream_id, c.c.table_id)).all():
        same = c.c.table_id.is_(None) if last.table_id is None else c.c.table_id == last.table_id
        connection.execute(c.delete().where(c.c.stream_id == last.stream_id, same, c.c.version < last.version))


def _oldest_pin(connection: sa.Connection, now: int, pinned_here: int | None) -> int | None:
    pinned = connection.execute(sa.select(sa.func.min(s.pins.c.version)).where(s.pins.c.expires_at > now)).scalar()
    return min((version for version in (pinned, pinned_here) if version is not None), default=None)


def deletable(
    connection: sa.Connection, now: int, keep_seconds: float, published: int, pinned_here: int | None = None
) -> dict[UUID, int]:
    """How far the objects of each stream may be deleted: taken in long enough ago by a version that is published, and
    needed by no pinned one. Streams of which nothing may be are left out."""
    r, c = s.streams, s.stream_checkpoints
    pinned = _oldest_pin(connection, now, pinned_here)
    last = published if pinned is None else min(published, pinned)
    reached = sa.func.max(c.c.stream_offset)
    found = connection.execute(
        sa.select(r.c.id, reached.label("offset"))
        .join(c, c.c.stream_id == r.c.id)
        .where(r.c.retired_at.is_(None), c.c.table_id.is_(None), c.c.version <= last)
        .where(c.c.created_at <= now - int(keep_seconds * NANOS))
        .group_by(r.c.id, r.c.deleted_offset)
        .having(reached > r.c.deleted_offset)
    )
    return {row.id: int(row.offset) for row in found}


def check_offset(offset: int) -> None:
    if not BEFORE_FIRST <= offset <= MAX_OFFSET:
        raise InvalidInput(f"An offset of a stream is from {BEFORE_FIRST} to {MAX_OFFSET}, not {offset}.")


def to_streams(connection: sa.Connection, rows: Sequence[Any], since: int | None = None) -> tuple[Stream, ...]:
    """Streams from their rows; with `since`, also their checkpoints from that time on and the last one before it."""
    t, c = s.stream_tables, s.stream_checkpoints
    tables: dict[UUID, list[Any]] = {}
    points: dict[tuple[UUID, UUID | None], list[Any]] = {}
    for chunk in chunks([row.id for row in rows]):
        for table in connection.execute(sa.select(t).where(t.c.stream_id.in_(chunk)).order_by(t.c.table_id)):
            tables.setdefault(table.stream_id, []).append(table)
        if since is not None:
            for point in connection.execute(sa.select(c).where(c.c.stream_id.in_(chunk)).order_by(c.c.version)):
                points.setdefault((point.stream_id, point.table_id), []).append(point)
    return tuple(_to_stream(row, tables.get(row.id, []), points, since or 0) for row in rows)


def _to_stream(row: Any, tables: list[Any], points: dict[tuple[UUID, UUID | None], list[Any]], since: int) -> Stream:
    common = points.get((row.id, None), [])
    return Stream(
        id=row.id,
        collector_id=row.collector_id,
        description=row.description,
        token_id=row.token_id,
        created_at=row.created_at,
        frontier=row.frontier,
        frontier_time=row.frontier_time,
        deleted_offset=row.deleted_offset,
        deleted_time=row.deleted_time,
        stopped_at=row.stopped_at,
        stopped_offset=row.stopped_offset,
        stop_reason=StopReason(row.stop_reason),
        retired_at=row.retired_at,
        checkpoints=_recent(common, since),
        tables=tuple(
            StreamTable(
                table.table_id,
                max(table.merged_offset, row.frontier),
                max(table.merged_time, row.frontier_time),
                table.created_at,
                _recent([*points.get((row.id, table.table_id), []), *common], since),
            )
            for table in tables
        ),
    )


def _recent(points: list[Any], since: int) -> tuple[Checkpoint, ...]:
    """Checkpoints from a time on, and the newest one before it: it says how far the first version of that time was."""
    points.sort(key=lambda point: point.version)
    older = [point for point in points if point.created_at < since][-1:]
    kept = older + [point for point in points if point.created_at >= since]
    return tuple(Checkpoint(point.version, point.stream_offset, point.ingest_time) for point in kept)


def _table_offsets(connection: sa.Connection, stream_id: UUID) -> dict[UUID, int]:
    t = s.stream_tables
    rows = connection.execute(sa.select(t.c.table_id, t.c.merged_offset).where(t.c.stream_id == stream_id))
    return {row.table_id: row.merged_offset for row in rows}


def _retire_if_empty(draft: Draft, stream_id: UUID) -> None:
    """A stream is over when it has ended and all of its objects are deleted."""
    row = find(draft.connection, stream_id)
    if row.retired_at is None and row.stopped_offset is not None and row.deleted_offset >= row.stopped_offset:
        _update(draft, stream_id, retired_at=draft.now)


def _update(draft: Draft, stream_id: UUID, **values: Any) -> None:
    draft.connection.execute(s.streams.update().where(s.streams.c.id == stream_id).values(values))
    add_rows(draft, s.streams, [stream_id])
