"""Segments by time and name, by number, and newest first: in pages, each as cheap as the page is short.

The pages of one search see one version: that of the first page, which the cursor carries. Within a table they follow
the classes of length (see segments.py) and, in each, the start of the event time: a few short index scans per page.
"""

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any
from uuid import UUID

import sqlalchemy as sa
from pyiceberg.types import TimestampNanoType, TimestampType, TimestamptzNanoType, TimestamptzType

from moulin.catalog import schema as s
from moulin.catalog import segments, streams, tables
from moulin.catalog.engine import chunks
from moulin.errors import FailedPrecondition, InvalidInput, NotFound
from moulin.model.facts import LiveSegment
from moulin.model.ingest import Stream

DEFAULT_LIMIT = 1000
MAX_LIMIT = 10_000
MAX_NAMES = 1000
INGEST_TIME = "ingest_time"

_MICROS = (TimestampType, TimestamptzType)
_NANOS = (TimestampNanoType, TimestamptzNanoType)


@dataclass(frozen=True, slots=True)
class FoundSegment:
    """A segment as a search found it; `removed_version` is set when the newest version no longer has it."""

    table_id: UUID
    segment: LiveSegment
    ingest_range: tuple[int, int] | None
    removed_version: int | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a search. `version` is what all its pages see, `tables` what it searches, in order.

    The first page also says how far each stream is at that version: what lies past that, no segment holds yet.
    """

    segments: tuple[FoundSegment, ...]
    next_cursor: str | None
    version: int
    tables: tuple[UUID, ...] = ()
    streams: tuple[Stream, ...] = ()
    routing_seq: int = 0


def check_limit(limit: int) -> int:
    """How many segments a page has: as asked, up to a cap, and a default when nothing was asked."""
    return DEFAULT_LIMIT if limit <= 0 else min(limit, MAX_LIMIT)


_SCANS = 40  # index scans that one statement makes
_BOUNDS = ("table_id", "time_class", "first_start", "last_start", "first_end", "after")


@cache  # putting a statement together takes longer than running it
def _page(scans: int) -> sa.Select[Any]:
    """The first rows of several scans, in their order. Parameters of scan n end with _n."""
    p = s.segment_spans
    found = []
    for n in range(scans):
        bounds: list[sa.BindParameter[Any]] = [sa.bindparam(f"{name}_{n}") for name in _BOUNDS]
        table_id, k, first_start, last_start, first_end, after = bounds
        place = (
            sa.select(p.c.id, sa.literal_column(str(n)).label("scan"), p.c.time_min, p.c.segment)
            .where(p.c.table_id == table_id, p.c.branch == s.MAIN, p.c.time_class == k)
            .where(p.c.added_version <= sa.bindparam("version"), p.c.removed_version > sa.bindparam("version"))
            .where(p.c.time_min >= first_start, p.c.time_min <= last_start, p.c.time_max >= first_end)
            .where(sa.or_(p.c.time_min > first_start, p.c.segment > after))
            .order_by(p.c.time_min, p.c.segment)
            .limit(sa.bindparam("limit"))
        )
        found.append(sa.select(place.subquery()))
    every = sa.union_all(*found).subquery()
    return (
        segments.select_live(every.c.scan, p.c.table_id, p.c.time_min, p.c.removed_version)
        .join(every, every.c.id == p.c.id)
        .order_by(every.c.scan, every.c.time_min, every.c.segment)
        .limit(sa.bindparam("limit"))
    )


def find(
    connection: sa.Connection,
    database_id: UUID,
    names: Sequence[str],
    time_range: tuple[int, int] | None,
    limit: int,
    cursor: str | None,
) -> Page:
    """Live segments of tables of a database whose event time overlaps a closed range, or all without one.

    Every name must be that of a live table. With a cursor the search goes on at the version of its first page.
    """
    if not names or len(names) > MAX_NAMES:
        raise InvalidInput(f"From 1 to {MAX_NAMES} tables can be searched at once, not {len(names)}.")
    if time_range is not None and time_range[0] > time_range[1]:
        raise InvalidInput("A time range ends no earlier than it starts.")
    found = [tables.find(connection, database_id, name) for name in dict.fromkeys(names)]
    asked = binascii.crc32(json.dumps([str(database_id), list(names), time_range]).encode())
    place = [int(found[0].lake_version), asked, 0, segments.NO_TIME, 0, -1]
    if cursor:
        place = _decode(cursor, 6)
        if place[1] != asked or not 0 <= place[2] < len(found):
            raise InvalidInput("The cursor belongs to another search; start again without one.")
    version = place[0]
    for row in found:
        try:
            tables.require_kept(row, version)
        except NotFound as error:
            raise FailedPrecondition(f"{error.message} Start the search again without a cursor.") from None
    wanted = check_limit(limit)
    rows: list[Any] = []
    where: list[tuple[int, int]] = []
    for block in chunks(list(_scans(found, time_range, place)), _SCANS):
        bounds = {f"{name}_{n}": scan[name] for n, (_, _, scan) in enumerate(block) for name in _BOUNDS}
        room = wanted + 1 - len(rows)
        more_rows = connection.execute(_page(len(block)), {**bounds, "version": version, "limit": room}).all()
        rows += more_rows
        where += [block[row[-4]][:2] for row in more_rows]
        if len(rows) > wanted:
            break
    more = None
    if len(rows) > wanted:
        rows = rows[:wanted]
        more = _encode([version, asked, *where[wanted - 1], rows[-1][-2], rows[-1].number])
    page = tuple(_found(connection, rows, live=True))
    ids = tuple(row.id for row in found)
    if cursor:
        return Page(page, more, version, ids)
    # In the snapshot that the version was read in, so that both are of one moment.
    r = s.streams
    active = connection.execute(sa.select(r).where(r.c.retired_at.is_(None)).order_by(r.c.created_at, r.c.id)).all()
    routing_seq = int(connection.execute(sa.select(s.counter.c.routing_seq)).scalar_one())
    return Page(page, more, version, ids, streams.to_streams(connection, active), routing_seq)


def _scans(
    found: Sequence[Any], time_range: tuple[int, int] | None, place: Sequence[int]
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """What to ask, from `place` on: for each table, for each class that it uses."""
    _, _, first_table, first_class, first_start, after = place
    for at in range(first_table, len(found)):
        here = {"table_id": found[at].id}
        if time_range is None:
            timeless = {"time_class": segments.NO_TIME, "first_start": 0, "last_start": 0, "first_end": 0}
            scans = [timeless, *segments.time_bounds(found[at].time_classes, (None, None))]
        else:
            scans = list(segments.time_bounds(found[at].time_classes, time_range))
        for scan in scans:
            k = scan["time_class"]
            if at == first_table and k < first_class:
                continue
            resumed = at == first_table and k == first_class and after >= 0
            start = {"first_start": max(first_start, scan["first_start"]), "after": after} if resumed else {"after": -1}
            yield at, k, {**here, **scan, **start}


def by_number(connection: sa.Connection, numbers: Iterable[int]) -> list[FoundSegment]:
    """Segments as they are now or, when the newest version has them no longer, as they were last."""
    p = s.segment_spans
    newest: dict[int, Any] = {}
    for chunk in chunks(sorted(set(numbers))):
        query = segments.select_live(p.c.table_id, p.c.time_min, p.c.removed_version)
        for row in connection.execute(query.where(p.c.segment.in_(chunk), p.c.branch == s.MAIN)):
            known = newest.get(row.number)
            if known is None or row[-1] > known[-1]:
                newest[row.number] = row
    return list(_found(connection, list(newest.values())))


_IS_OPEN = s.segment_spans.c.removed_version == sa.literal_column(str(s.OPEN))
_WARM = (
    segments.select_live(s.segment_spans.c.table_id, s.segment_spans.c.time_max, s.segment_spans.c.removed_version)
    .where(
        _IS_OPEN,  # as the index on what is live says it
        s.segment_spans.c.branch == s.MAIN,
        s.segment_spans.c.table_id.not_in(sa.select(s.tables.c.id).where(s.tables.c.tombstoned_at.is_not(None))),
        sa.tuple_(s.segment_spans.c.time_max, s.segment_spans.c.segment)
        < sa.tuple_(sa.bindparam("time_max"), sa.bindparam("segment")),
    )
    .order_by(s.segment_spans.c.time_max.desc(), s.segment_spans.c.segment.desc())
    .limit(sa.bindparam("limit"))
)


def newest_first(connection: sa.Connection, limit: int, cursor: str | None) -> Page:
    """Live segments of all live tables by the end of their event time, newest first, then by number, highest first."""
    wanted = check_limit(limit)
    end, number = _decode(cursor, 2) if cursor else (s.OPEN, s.OPEN)
    rows = connection.execute(_WARM, {"time_max": end, "segment": number, "limit": wanted + 1}).all()
    more = None
    if len(rows) > wanted:
        rows = rows[:wanted]
        more = _encode([rows[-1][-2], rows[-1].number])
    version = int(connection.execute(sa.select(s.counter.c.version)).scalar_one())
    return Page(tuple(_found(connection, rows)), more, version)


def _found(connection: sa.Connection, rows: Sequence[Any], *, live: bool = False) -> Iterator[FoundSegment]:
    fields = _ingest_fields(connection, {row[-3] for row in rows})
    found = segments.to_found(rows, connection, {field for field, _ in fields.values()})
    for row, segment in zip(rows, found, strict=True):
        removed = None if live or row[-1] == s.OPEN else int(row[-1])
        yield FoundSegment(row[-3], segment, _ingest_range(segment, fields.get(row[-3])), removed)


def _ingest_fields(connection: sa.Connection, table_ids: Collection[UUID]) -> dict[UUID, tuple[int, int]]:
    """Of each table that keeps the time of ingest in a column: its field id, and nanoseconds per unit."""
    t, j = s.tables, s.table_schemas
    fields: dict[UUID, tuple[int, int]] = {}
    for chunk in chunks(sorted(table_ids)):
        same = sa.and_(j.c.table_id == t.c.id, j.c.schema_id == t.c.schema_id)
        for row in connection.execute(sa.select(t.c.id, j.c.json).join(j, same).where(t.c.id.in_(chunk))):
            for field in tables.parse_schema(row.json).fields:
                if field.name == INGEST_TIME and isinstance(field.field_type, (*_MICROS, *_NANOS)):
                    fields[row.id] = field.field_id, 1000 if isinstance(field.field_type, _MICROS) else 1
    return fields


def _ingest_range(segment: LiveSegment, field: tuple[int, int] | None) -> tuple[int, int] | None:
    """From the bounds of the column, else the event time: no event is older than its ingest."""
    facts = next((c for c in segment.facts.columns if field is not None and c.field_id == field[0]), None)
    if field is not None and facts is not None and facts.lower is not None and facts.upper is not None:
        low, high = struct.unpack("<q", facts.lower)[0], struct.unpack("<q", facts.upper)[0]
        return low * field[1], high * field[1]
    if segment.facts.time_min is None or segment.facts.time_max is None:
        return None
    return segment.facts.time_min, segment.facts.time_max


def _encode(place: Sequence[int]) -> str:
    return base64.urlsafe_b64encode(struct.pack(f"<B{len(place)}q", 1, *place)).decode()


def _decode(cursor: str, count: int) -> list[int]:
    try:
        form, *place = struct.unpack(f"<B{count}q", base64.b64decode(cursor.encode(), altchars=b"-_", validate=True))
    except (ValueError, struct.error):
        raise InvalidInput("The cursor is not one that this server gave; start again without one.") from None
    if form != 1:
        raise InvalidInput("The cursor is of another version of the server; start again without one.")
    return place
