"""Segments by time and name, by number, and newest first: in pages, each as cheap as the page is short.

The pages of one search see one version: that of the first page, which the cursor carries. Within a table they follow
the classes of length (see live.py) and, in each, the start of the event time: a few short index scans per page.
"""

# Decisions: docs/decisions/0093

from __future__ import annotations

import base64
import binascii
import json
import struct
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from dataclasses import field as dataclass_field
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import tables
from moulin.catalog.objects.names import check_text
from moulin.catalog.segments import bases
from moulin.catalog.segments import live as segments
from moulin.catalog.segments import pages as segment_pages
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import chunks
from moulin.errors import FailedPrecondition, InvalidInput, NotFound
from moulin.formats import manifest as codec
from moulin.formats import messages as pb
from moulin.model.ingest import Stream
from moulin.model.schema.values import TimestampNanoType, TimestampType, TimestamptzNanoType, TimestamptzType

DEFAULT_LIMIT = 1000
MAX_LIMIT = 5_000  # some 400 bytes each: below the 4 MiB that gRPC clients take by default
MAX_NAMES = 1000
INGEST_TIME = "ingest_time"

_MICROS = (TimestampType, TimestamptzType)
_NANOS = (TimestampNanoType, TimestamptzNanoType)


@dataclass(frozen=True, slots=True)
class FoundSegment:
    """A segment as a search found it; `removed_version` is set when the newest version no longer has it."""

    table_id: UUID
    number: int
    path: str
    rows: int  # that are not deleted
    size: int
    sha256: bytes
    added_version: int
    time_range: tuple[int, int] | None
    ingest_range: tuple[int, int] | None
    removed_version: int | None = None
    inline: bytes | None = dataclass_field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class Page:
    """One page of a search. `version` is what all its pages see, `tables` what it searches, in order.

    `MaintenanceCatalog` adds to the first page how far each stream is at that version: no segment holds what lies past.
    """

    segments: tuple[FoundSegment, ...]
    next_cursor: str | None
    version: int = 0
    tables: tuple[UUID, ...] = ()
    streams: tuple[Stream, ...] = ()
    routing_seq: int = 0


def check_limit(limit: int) -> int:
    """How many segments a page has: as asked, up to a cap, and a default when nothing was asked."""
    return DEFAULT_LIMIT if limit <= 0 else min(limit, MAX_LIMIT)


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
        raise InvalidInput("The end of a time range must not be before its start.")
    found = _named(connection, database_id, list(dict.fromkeys(names)))
    asked = binascii.crc32(json.dumps([str(database_id), list(names), time_range]).encode())
    position = [int(found[0].lake_version), asked, 0, segments.NO_TIME, 0, -1]
    if cursor:
        position = _decode(cursor, 6)
        if position[1] != asked or not 0 <= position[2] < 2 * len(found):
            raise InvalidInput("The cursor belongs to another search: start again without one.")
    version = position[0]
    for row in found:
        try:
            tables.require_kept(row, version)
        except NotFound as error:
            raise FailedPrecondition(f"{error.message} Start the search again without a cursor.") from None
    wanted = check_limit(limit)
    rows: list[Any] = []
    where: list[tuple[int, int]] = []
    levels = [(row, level) for row in found for level in bases.levels(row, version)]
    for block in chunks(list(_scans(levels, time_range, position)), segment_pages.MAX_SCANS):
        room = wanted + 1 - len(rows)
        more_rows = segment_pages.first_rows(connection, [scan for _, _, scan in block], room)
        rows += more_rows
        where += [block[row.scan - 1][:2] for row in more_rows]
        if len(rows) > wanted:
            break
    more = None
    if len(rows) > wanted:
        rows = rows[:wanted]
        more = _encode([version, asked, *where[wanted - 1], rows[-1].time_min, rows[-1].number])
    fields = {level.table_id: _ingest_field(row.json) for row, level in reversed(levels)}
    page = tuple(
        one if one.table_id == (asked_for := levels[at][0].id) else replace(one, table_id=asked_for)
        for one, (at, _) in zip(_found(connection, rows, fields, live=True), where, strict=False)
    )
    ids = tuple(row.id for row in found)
    return Page(page, more, version, ids, routing_seq=0 if cursor else int(found[0].routing_seq))


_NAMED = (
    sa.select(
        *(s.tables.c[name] for name in ("id", "name", "created_version", "oldest_version", "time_classes")),
        s.tables.c.base_id,
        s.tables.c.base_version,
        s.databases.c.name.label("database"),
        s.table_schemas.c.json,
        s.counter.c.version.label("lake_version"),
        s.counter.c.routing_seq,
    )
    .join(s.databases, s.databases.c.id == s.tables.c.database_id)
    .join(
        s.table_schemas,
        sa.and_(s.table_schemas.c.table_id == s.tables.c.id, s.table_schemas.c.schema_id == s.tables.c.schema_id),
    )
    .join(s.counter, sa.true())
    .where(
        s.databases.c.id == sa.bindparam("database_id"),
        s.databases.c.tombstoned_at.is_(None),
        s.tables.c.name.in_(sa.bindparam("names", expanding=True)),
        s.tables.c.tombstoned_at.is_(None),
    )
)


def _named(connection: sa.Connection, database_id: UUID, names: Sequence[str]) -> list[Any]:
    """The rows of live tables with their schemas, in the order of their names."""
    wanted = {"database_id": database_id, "names": [check_text(name) for name in names]}
    found = {row.name: row for row in connection.execute(_NAMED, wanted)}
    for name in names:
        if name not in found:
            tables.find(connection, database_id, name)  # says what is wrong
            raise NotFound(f"There is no table {name!r}.")
    return [found[name] for name in names]


def _scans(
    levels: Sequence[tuple[Any, bases.Level]], time_range: tuple[int, int] | None, position: Sequence[int]
) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """What to ask, from `position` on: for each level of each table, for each class that the table uses."""
    _, _, first_table, first_class, first_start, after = position
    for at in range(first_table, len(levels)):
        row, level = levels[at]
        here = {"mask_of": level.table_id, "mask_version": -1, **level.parameters()}
        if time_range is None:
            timeless = {"time_class": segments.NO_TIME, "first_start": 0, "last_start": 0, "first_end": 0}
            scans = [timeless, *segments.time_bounds(row.time_classes, (None, None))]
        else:
            scans = list(segments.time_bounds(row.time_classes, time_range))
        for scan in scans:
            k = scan["time_class"]
            if at == first_table and k < first_class:
                continue
            resumed = at == first_table and k == first_class and after >= 0
            start = {"first_start": max(first_start, scan["first_start"]), "after": after} if resumed else {"after": -1}
            yield at, k, {**here, **scan, **start}


def by_number(connection: sa.Connection, numbers: Iterable[int]) -> list[FoundSegment]:
    """Segments as they are now or, when the newest version has them no longer, as they were last."""
    newest: dict[int, Any] = {}
    for chunk in chunks(sorted(set(numbers))):
        for row in connection.execute(_BY_NUMBER, {"numbers": chunk}):
            known = newest.get(row.number)
            if known is None or row.removed_version > known.removed_version:
                newest[row.number] = row
    return list(_found(connection, list(newest.values())))


def owner(connection: sa.Connection, numbers: Sequence[int]) -> UUID | None:
    """The table of the first existing of these segments."""
    g = s.segments
    for chunk in chunks(sorted(numbers)):
        query = sa.select(g.c.table_id).where(g.c.number.in_(chunk)).order_by(g.c.number).limit(1)
        found: UUID | None = connection.execute(query).scalar()
        if found is not None:
            return found
    return None


_p, _g = s.segment_spans, s.segments
_BY_NUMBER = segment_pages.with_facts(_p).where(
    _p.c.segment.in_(sa.bindparam("numbers", expanding=True)), _p.c.table_id == _g.c.table_id
)
_WARM = (
    segment_pages.with_facts(_p)
    .where(
        _p.c.removed_version == sa.literal_column(str(s.OPEN)),  # as the index on what is live says it
        _p.c.table_id == _g.c.table_id,  # a clone has the files of its base, which are listed once
        _p.c.table_id.not_in(sa.select(s.tables.c.id).where(s.tables.c.tombstoned_at.is_not(None))),
        sa.tuple_(_p.c.time_max, _p.c.segment) < sa.tuple_(sa.bindparam("time_max"), sa.bindparam("segment")),
    )
    .order_by(_p.c.time_max.desc(), _p.c.segment.desc())
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
        more = _encode([rows[-1].time_max, rows[-1].number])
    return Page(_found(connection, rows), more)


_IngestField = tuple[int, int] | None


def _found(
    connection: sa.Connection,
    rows: Sequence[Any],
    fields: Mapping[UUID, _IngestField] | None = None,
    *,
    live: bool = False,
) -> tuple[FoundSegment, ...]:
    """What a search found. `fields` are the ingest times of the tables, where that is known already."""
    if fields is None:
        fields = _ingest_fields(connection, {row.table_id for row in rows})
    told = _told_ranges(connection, rows, fields)
    found = []
    for number, path, count, size, sha256, added, deleted, table_id, low, high, removed, has_time, held, *_ in rows:
        times = (low, high) if has_time else None
        gone = None if live or removed == s.OPEN else removed
        # No event is older than its ingest.
        ingest = told.get(number, times)
        found.append(
            FoundSegment(
                table_id,
                number,
                path,
                count - (deleted or 0),
                size,
                sha256,
                added,
                times,
                ingest,
                gone,
                None if held is None else pb.SegmentColumns.FromString(held).inline,
            )
        )
    return tuple(found)


def _told_ranges(
    connection: sa.Connection, rows: Sequence[Any], fields: Mapping[UUID, _IngestField]
) -> dict[int, tuple[int, int]]:
    """The times of ingest of those segments whose columns tell them."""
    wanted = {row.number: field for row in rows if (field := fields.get(row.table_id)) is not None}
    told: dict[int, tuple[int, int]] = {}
    for chunk in chunks(sorted(wanted)):
        for number, stored in connection.execute(_STORED, {"numbers": chunk}):
            field_id, unit = wanted[number]
            for facts in codec.decode_columns(pb.SegmentColumns.FromString(stored), (field_id,)):
                if facts.lower is not None and facts.upper is not None:
                    low, high = struct.unpack("<q", facts.lower)[0], struct.unpack("<q", facts.upper)[0]
                    told[number] = low * unit, high * unit
    return told


_STORED = sa.select(s.segments.c.number, s.segments.c.facts).where(
    s.segments.c.number.in_(sa.bindparam("numbers", expanding=True))
)
_SCHEMAS = (
    sa.select(s.tables.c.id, s.table_schemas.c.json)
    .join(
        s.table_schemas,
        sa.and_(s.table_schemas.c.table_id == s.tables.c.id, s.table_schemas.c.schema_id == s.tables.c.schema_id),
    )
    .where(s.tables.c.id.in_(sa.bindparam("ids", expanding=True)))
)


def _ingest_fields(connection: sa.Connection, table_ids: Collection[UUID]) -> dict[UUID, _IngestField]:
    fields: dict[UUID, _IngestField] = {}
    for chunk in chunks(sorted(table_ids)):
        fields.update({row.id: _ingest_field(row.json) for row in connection.execute(_SCHEMAS, {"ids": chunk})})
    return fields


def _ingest_field(schema: str) -> _IngestField:
    """Of a table that keeps the time of ingest in a column: its field id, and nanoseconds per unit."""
    for field in tables.parse_schema(schema).fields:
        if field.name == INGEST_TIME and isinstance(field.field_type, (*_MICROS, *_NANOS)):
            return field.field_id, 1000 if isinstance(field.field_type, _MICROS) else 1
    return None


def _encode(position: Sequence[int]) -> str:
    return base64.urlsafe_b64encode(struct.pack(f"<B{len(position)}q", 1, *position)).decode()


def _decode(cursor: str, count: int) -> list[int]:
    try:
        form, *position = struct.unpack(f"<B{count}q", base64.b64decode(cursor.encode(), altchars=b"-_", validate=True))
    except (ValueError, struct.error):
        raise InvalidInput("Unknown cursor: start again without one.") from None
    if form != 1:
        raise InvalidInput("The cursor is from another version of the server: start again without one.")
    return position
