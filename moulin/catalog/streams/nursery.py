"""What a nursery commits: segments from streams, and with them, in the same transaction, how far each stream is.

Every offset is compared with what the caller saw, so of two nurseries that took in the same objects one commits.
"""

# Decisions: docs/decisions/0084

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.commit import commit as commits
from moulin.catalog.commit.table_commit import TableCommit
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.sql.draft import Draft, add_rows
from moulin.catalog.sql.pool import Write
from moulin.catalog.streams import streams
from moulin.errors import AlreadyExists, Conflict, FailedPrecondition, InvalidInput
from moulin.formats import messages as pb
from moulin.model import request_ids
from moulin.model.facts import SegmentFacts
from moulin.model.ingest import Advance, Frontier, NurseryBatch, Registration, SetAside
from moulin.model.operations import Append
from moulin.model.texts import check_text
from moulin.storage import paths

KIND = "append"
_MAX_REQUEST_ID = 255
_MAX_REASON = 1000


def request_key(request_id: str) -> str:
    """The key under which the request id of a nursery is remembered; commits of others have keys of their own."""
    if not request_id.strip():
        raise InvalidInput("A registration needs a request id: one per batch, the same for every attempt.")
    if len(request_id) > _MAX_REQUEST_ID or "\0" in request_id:
        raise InvalidInput(f"A request id has at most {_MAX_REQUEST_ID} characters, none of them a zero byte.")
    return request_ids.NURSERY + request_id


def digest(*parts: object) -> bytes:
    """Tells whether a request id stands for the same request as before."""
    return hashlib.sha256(repr(parts).encode()).digest()


def earlier(connection: sa.Connection, key: str, asked: bytes) -> tuple[int, ...]:
    """The versions that a request took before; none when it is new. InvalidInput when it was another request."""
    row = connection.execute(sa.select(s.requests).where(s.requests.c.id == key)).first()
    if row is None:
        return ()
    if row.digest is not None and bytes(row.digest) != asked:
        raise InvalidInput("This request id was used for another batch: use a new id for each batch.")
    return tuple(range(row.version - row.versions + 1, row.version + 1))


def register(
    write: Write,
    lake_uuid: UUID,
    table_id: UUID,
    registrations: Sequence[Registration],
    idle: Sequence[Advance],
    key: str,
    asked: bytes,
) -> list[Draft]:
    """Add segments to one table, one version for each, in order; then move the streams that brought nothing."""
    gave = {advance.stream_id for registration in registrations for advance in registration.advances}
    if both := gave.intersection(advance.stream_id for advance in idle):
        raise InvalidInput(f"Stream {min(both)} has segments in this batch, so it cannot be idle.")
    drafts = []
    for count, registration in enumerate(registrations, start=1):
        draft = Draft(write, lake_uuid, KIND)
        drafts.append(draft)
        _append(draft, {table_id: [registration.segment]})
        if registration.source:
            _note_source(draft, registration.source)
        moved = [_advance(draft, table_id, advance, least=1) for advance in registration.advances]
        if count == len(registrations):
            moved += [_advance(draft, table_id, advance, least=0) for advance in idle]
            draft.request(key, versions=count, digest=asked)
        add_rows(draft, s.streams, sorted(set(moved)))
        draft.save()
    return drafts


def commit_batch(draft: Draft, batch: NurseryBatch, key: str, asked: bytes) -> None:
    """All tables, one frontier per stream and what was set aside, as one version. Refused when routing changed."""
    if not batch.frontiers:
        raise InvalidInput("A batch must move the frontier of at least one stream.")
    moved = [frontier.stream_id for frontier in batch.frontiers]
    if len(set(moved)) != len(moved):
        raise InvalidInput("A batch may move the frontier of each stream only once.")
    if draft.write.routing_seq != batch.routing_seq:
        raise Conflict(
            f"Routing changed since the batch was planned (from {batch.routing_seq} to {draft.write.routing_seq}); "
            "read the streams and route again.",
            requirement="routing_seq",
            expected=batch.routing_seq,
            found=draft.write.routing_seq,
        )
    added = {table_id: facts for table_id, facts in batch.segments.items() if facts}
    _append(draft, added)
    for frontier in batch.frontiers:
        _move_frontier(draft, frontier, added.keys())
    _set_aside(draft, batch.set_asides, set(moved))
    add_rows(draft, s.streams, sorted(moved))
    draft.request(key, digest=asked)
    draft.save()


def check_not_lost(
    connection: sa.Connection, key: str, moves: Sequence[Advance | Frontier], table_id: UUID | None = None
) -> None:
    """Raise Conflict when another nursery has moved one of the streams; a request that is known was first itself.

    The same comparisons as in the commit, for one that waited in vain for its turn: of a table, or of frontiers.
    """
    if connection.execute(sa.select(s.requests.c.id).where(s.requests.c.id == key)).first() is not None:
        return
    t = s.stream_tables
    seen: set[UUID] = set()
    for move in moves:
        row = connection.execute(sa.select(s.streams).where(s.streams.c.id == move.stream_id)).first()
        if row is None or move.stream_id in seen:
            continue  # later moves of a stream in one request follow its first
        seen.add(move.stream_id)
        merged = sa.select(sa.func.max(t.c.merged_offset)).where(t.c.stream_id == row.id)
        if table_id is not None:
            merged = merged.where(t.c.table_id == table_id)
        ahead = connection.execute(merged).scalar()
        found = row.frontier if ahead is None else max(row.frontier, ahead)
        if found > move.start:
            raise _lost(row.id, "committed up to", move.start, found)


def _append(draft: Draft, segments: Mapping[UUID, Sequence[SegmentFacts]]) -> None:
    commits.apply(
        draft,
        [
            TableCommit(table_id, draft.write.version, Append(added=tuple(facts)), into_dropped=True)
            for table_id, facts in sorted(segments.items())
        ],
    )


def _note_source(draft: Draft, source: str) -> None:
    """Remember an upload as long as requests are, so that it is registered once."""
    key = f"{request_ids.NURSERY}source:{hashlib.sha256(source.encode()).hexdigest()}"
    if draft.connection.execute(sa.select(s.requests.c.id).where(s.requests.c.id == key)).first() is not None:
        raise AlreadyExists(f"{source} was already registered, under another request id.")
    draft.request(key)


def _advance(draft: Draft, table_id: UUID, advance: Advance, *, least: int) -> UUID:
    """Move one table's offset in one stream by compare-and-set; returns the stream."""
    row = _open_stream(draft, advance)
    if advance.reached < advance.start + least:
        raise InvalidInput(
            f"Stream {row.id} cannot go from offset {advance.start} to {advance.reached}"
            f"{' with a segment' if least else ''}."
        )
    t, connection = s.stream_tables, draft.connection
    mine = sa.and_(t.c.stream_id == row.id, t.c.table_id == table_id)
    known = connection.execute(sa.select(t).where(mine)).first()
    found = row.frontier if known is None else max(row.frontier, known.merged_offset)
    if advance.start != found:
        raise _lost(row.id, f"committed to table {table_id} up to", advance.start, found)
    time = _whole_seconds(advance.ingest_time)
    if known is None:
        values = {"stream_id": row.id, "table_id": table_id, "created_at": draft.now}
        connection.execute(
            t.insert().values(**values, merged_offset=advance.reached, merged_time=max(time, row.frontier_time))
        )
    else:
        time = max(time, known.merged_time)
        connection.execute(t.update().where(mine).values(merged_offset=advance.reached, merged_time=time))
    _checkpoint(draft, row.id, table_id, advance.reached, time)
    stream_id: UUID = row.id
    return stream_id


def _move_frontier(draft: Draft, frontier: Frontier, written: Iterable[UUID]) -> None:
    """Move a stream's frontier for all tables by compare-and-set."""
    row = _open_stream(draft, frontier)
    if frontier.reached < frontier.start:
        raise InvalidInput(f"The frontier of stream {row.id} cannot go back to {frontier.reached}.")
    if not set(frontier.tables) <= set(written):
        raise InvalidInput(f"Stream {row.id} has tables without segments in the batch.")
    t = s.stream_tables
    ahead = sa.select(sa.func.max(t.c.merged_offset)).where(t.c.stream_id == row.id)
    found = max(row.frontier, draft.connection.execute(ahead).scalar() or row.frontier)
    if frontier.start != found:
        raise _lost(row.id, "committed up to", frontier.start, found)
    time = max(row.frontier_time, _whole_seconds(frontier.ingest_time))
    draft.connection.execute(
        s.streams.update().where(s.streams.c.id == row.id).values(frontier=frontier.reached, frontier_time=time)
    )
    known = set(draft.connection.execute(sa.select(t.c.table_id).where(t.c.stream_id == row.id)).scalars())
    values = {"stream_id": row.id, "merged_offset": frontier.reached, "merged_time": time, "created_at": draft.now}
    if new := sorted(set(frontier.tables) - known):
        draft.connection.execute(t.insert(), [{**values, "table_id": table_id} for table_id in new])
    if frontier.reached > frontier.start:
        _checkpoint(draft, row.id, None, frontier.reached, time)


def _open_stream(draft: Draft, move: Advance | Frontier) -> Any:
    """The row of a stream that may go as far as asked."""
    for offset in (move.start, move.reached):
        streams.check_offset(offset)
    if not 0 <= move.ingest_time <= streams.MAX_OFFSET:
        raise InvalidInput(f"The ingest time {move.ingest_time} is not a valid time in Unix nanoseconds.")
    row = streams.find(draft.connection, move.stream_id)
    if row.stopped_offset is not None and move.reached > row.stopped_offset:
        raise FailedPrecondition(f"Stream {row.id} ended at offset {row.stopped_offset}, before {move.reached}.")
    return row


def _lost(stream_id: UUID, what: str, expected: int, found: int) -> Conflict:
    return Conflict(
        f"Stream {stream_id} is {what} offset {found}, not {expected}: another nursery committed first. Read the "
        f"streams and plan again.",
        requirement=f"stream {stream_id}",
        expected=expected,
        found=found,
    )


def _whole_seconds(time: int) -> int:
    """Ingest times have no part of a second; objects' times are rounded up."""
    return -(-time // NANOS) * NANOS


def _checkpoint(draft: Draft, stream_id: UUID, table_id: UUID | None, offset: int, time: int) -> None:
    values = {"stream_id": stream_id, "table_id": table_id, "stream_offset": offset, "ingest_time": time}
    draft.connection.execute(
        s.stream_checkpoints.insert().values(**values, version=draft.version, created_at=draft.now)
    )


def _set_aside(draft: Draft, rows: Sequence[SetAside], moved: set[UUID]) -> None:
    for ordinal, row in enumerate(rows):
        streams.check_offset(row.offset)
        if row.stream_id not in moved:
            raise InvalidInput(f"Records of stream {row.stream_id} cannot be set aside without moving its frontier.")
        if row.records < 0 or not row.reason.strip():
            raise InvalidInput("Records that are set aside need a reason and a non-negative number.")
        check_text(row.reason, "reason why records are set aside")
        if row.path:
            paths.checked(row.path)
        values: dict[str, Any] = {
            "version": draft.version,
            "ordinal": ordinal,
            "stream_offset": row.offset,
            "records": row.records,
        }
        values |= {"reason": row.reason[:_MAX_REASON], "path": row.path, "created_at": draft.now}
        draft.connection.execute(s.set_asides.insert().values(**values, stream_id=row.stream_id))
        draft.lake().set_asides.append(pb.SetAside(**values, stream_id=row.stream_id.bytes))
