"""Reads, decodes and routes baby segments to rows of tables, for the nursery's tasks and the fresh lane.

Unreadable requests are set aside with the reason, and the others continue. Only an unavailable store raises an error.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, Literal
from uuid import UUID

import pyarrow as pa

from moulin.errors import Corrupt, InvalidInput, MoulinError, NotFound, Unsupported
from moulin.formats.baby_segment import PAYLOAD_OF, BabySegment, Entry, Payload, decode
from moulin.ingest.appended import read_rows
from moulin.ingest.intake.routing import Router, fit
from moulin.ingest.otlp.former import former_rows
from moulin.ingest.otlp.otlp import decode as decode_otlp
from moulin.model.ingest import RoutedTable, StreamList, TokenRouting
from moulin.model.otel import SIGNALS, Signal, is_former, takes
from moulin.model.rows.rows import to_batches
from moulin.model.schema.arrow import arrow_schema
from moulin.storage import paths
from moulin.storage.store import Store
from moulin.table.write.layout import Layout

_SIGNAL_OF: Final[Mapping[Payload, Signal]] = {payload: signal for signal, payload in PAYLOAD_OF.items()}
Kind = Signal | Literal["rows"]
"""What an entry of a baby segment is: a signal, or rows that were appended."""
KINDS: Final[frozenset[Kind]] = frozenset({*SIGNALS, "rows"})
_CHUNK_BYTES: Final = 64 << 20
_READS: Final = 2  # a damaged baby segment is read once more, in case the transfer was at fault


@dataclass(frozen=True, slots=True)
class BabySegmentFacts:
    """A baby segment of a stream. `ingest_time` is in nanoseconds, whole seconds."""

    stream_id: UUID
    offset: int
    size: int
    ingest_time: int

    @property
    def path(self) -> str:
        return paths.baby_segment(self.stream_id, self.offset)


@dataclass(frozen=True)
class Targets:
    """Where records can go: the routing of one moment, and layouts of the event tables it may name. Sent to tasks."""

    routing: tuple[TokenRouting, ...]
    tables: tuple[RoutedTable, ...]
    layouts: Mapping[UUID, Layout]

    @cached_property
    def schemas(self) -> Mapping[UUID, pa.Schema]:
        return {table_id: arrow_schema(layout.schema) for table_id, layout in self.layouts.items()}

    def kinds(self, table_id: UUID) -> frozenset[Kind]:
        """What a table can take rows from; nothing when it is none of these tables."""
        schema = self.schemas.get(table_id)
        return frozenset() if schema is None else frozenset({"rows", *(s for s in SIGNALS if takes(schema, s))})

    @cached_property
    def router(self) -> Router:
        able = {table_id: self.kinds(table_id) for table_id in self.layouts}
        return Router(self.routing, self.tables, lambda table_id, signal: signal in able.get(table_id, ()))

    def __getstate__(self) -> tuple[object, ...]:
        return self.routing, self.tables, self.layouts  # what is derived from them is derived again

    def __setstate__(self, state: tuple[object, ...]) -> None:
        for name, value in zip(("routing", "tables", "layouts"), state, strict=True):
            object.__setattr__(self, name, value)


def candidates(listed: StreamList) -> set[UUID]:
    """The tables that records of these streams may go to."""
    databases = {token.database_id for token in listed.routing}
    return {table.id for table in listed.tables if table.database_id in databases}


@dataclass(frozen=True, slots=True)
class Aside:
    """Entries of a baby segment that gave no rows; all of it, when `entries` is empty."""

    baby_segment: BabySegmentFacts
    reason: str
    records: int
    entries: tuple[Entry, ...] = ()


@dataclass(slots=True)
class Intake:
    """Rows of baby segments by table, in the table's columns, and from which streams; and what was set aside."""

    rows: dict[UUID, list[pa.Table]] = field(default_factory=lambda: defaultdict(list))
    streams: dict[UUID, set[UUID]] = field(default_factory=lambda: defaultdict(set))
    asides: list[Aside] = field(default_factory=list)
    fallen_back: int = 0
    repeated_keys: int = 0
    raw_bytes: int = 0

    def add(self, table_id: UUID, rows: pa.Table, streams: Iterable[UUID]) -> None:
        self.rows[table_id].append(rows)
        self.streams[table_id].update(streams)


_Item = tuple[BabySegmentFacts, Entry]


def take_in(
    store: Store, baby_segments: Sequence[BabySegmentFacts], targets: Targets, kinds: Collection[Kind] = KINDS
) -> Intake:
    """Read baby segments, decode what they hold of these kinds and route it.

    NotFound when one is gone, Unavailable when none can be had.
    """
    intake = Intake()
    held: list[_Item] = []
    size = 0
    for baby_segment in baby_segments:
        try:
            found = _read(store, baby_segment)
        except (Corrupt, Unsupported) as error:
            intake.asides.append(Aside(baby_segment, error.message, 0))
            continue
        held += [(baby_segment, entry) for entry in found.entries if _SIGNAL_OF.get(entry.payload, "rows") in kinds]
        size += found.header.raw_size
        intake.raw_bytes += found.header.raw_size
        if size >= _CHUNK_BYTES:
            _route_all(held, targets, intake)
            held, size = [], 0
    _route_all(held, targets, intake)
    return intake


def _read(store: Store, baby_segment: BabySegmentFacts) -> BabySegment:
    for attempt in range(_READS):
        try:
            return decode(
                store.get(baby_segment.path),
                source=baby_segment.path,
                stream_id=baby_segment.stream_id,
                offset=baby_segment.offset,
            )
        except Corrupt:
            if attempt == _READS - 1:
                raise
    raise AssertionError


def _route_all(items: Sequence[_Item], targets: Targets, intake: Intake) -> None:
    for payload, signal in _SIGNAL_OF.items():
        same = [item for item in items if item[1].payload is payload]
        if same:
            _route_signal(signal, same, targets, intake)
    for item in items:
        if item[1].payload not in _SIGNAL_OF:
            _one_by_one([item], lambda some: _appended(some, targets), intake)


def _route_signal(signal: Signal, items: Sequence[_Item], targets: Targets, intake: Intake) -> None:
    """All together; when something is wrong, each request alone, so that only the wrong ones are set aside."""
    try:
        found = _decoded(signal, items, targets)
    except Exception:  # noqa: BLE001 - whatever a request makes the decoder do, it must not stop the stream
        _one_by_one(items, lambda some: _decoded(signal, some, targets), intake)
    else:
        _add(intake, found)


def _one_by_one(items: Sequence[_Item], route: Callable[[Sequence[_Item]], Intake], intake: Intake) -> None:
    for item in items:
        try:
            found = route([item])
        except Exception as error:  # noqa: BLE001 - as above
            reason = error.message if isinstance(error, MoulinError) else f"{type(error).__name__}: {error}"
            intake.asides.append(Aside(item[0], reason, item[1].records, (item[1],)))
        else:
            _add(intake, found)


def _add(intake: Intake, more: Intake) -> None:
    for table_id, rows in more.rows.items():
        intake.rows[table_id] += rows
        intake.streams[table_id] |= more.streams[table_id]
    intake.asides += more.asides
    intake.fallen_back += more.fallen_back
    intake.repeated_keys += more.repeated_keys


def _decoded(signal: Signal, items: Sequence[_Item], targets: Targets) -> Intake:
    found = Intake()
    decoded = decode_otlp(
        signal, [entry.data for _, entry in items], [baby_segment.ingest_time for baby_segment, _ in items]
    )
    for index, reason in decoded.poison.items():
        baby_segment, entry = items[index]
        found.asides.append(Aside(baby_segment, reason, entry.records, (entry,)))
    routed = targets.router.split(signal, decoded, [entry.token_id for _, entry in items])
    for token_id in routed.unknown:
        lost = [
            item for index, item in enumerate(items) if item[1].token_id == token_id and index not in decoded.poison
        ]
        reason = f"The routing of token {token_id} is no longer known."
        found.asides += [Aside(baby_segment, reason, entry.records, (entry,)) for baby_segment, entry in lost]
    for table_id, rows in routed.rows.items():
        schema = _schema(targets, table_id)
        fitted = fit(former_rows(signal, rows) if is_former(schema) else rows, schema)
        found.add(table_id, fitted, {items[int(index)][0].stream_id for index in routed.requests[table_id]})
    found.fallen_back, found.repeated_keys = routed.fallen_back, decoded.repeated_keys
    return found


def _appended(items: Sequence[_Item], targets: Targets) -> Intake:
    found = Intake()
    for baby_segment, entry in items:
        table_id = targets.router.appended(entry.token_id, entry.table)
        if table_id is None:
            raise NotFound(f"There is no table {entry.table!r} any more that these rows could go to.")
        schema = _schema(targets, table_id)
        rows = read_rows(entry.payload, entry.data, schema)
        batches = list(to_batches(rows, targets.layouts[table_id].schema))
        if batches:
            found.add(table_id, pa.Table.from_batches(batches, schema), {baby_segment.stream_id})
    return found


def _schema(targets: Targets, table_id: UUID) -> pa.Schema:
    schema = targets.schemas.get(table_id)
    if schema is None:
        raise InvalidInput("The table is gone, or has a key; only event tables take streams.")
    return schema


def batches_of(tables: Iterable[pa.Table]) -> Iterator[pa.RecordBatch]:
    for table in tables:
        yield from table.to_batches()


__all__ = ["KINDS", "Aside", "BabySegmentFacts", "Intake", "Kind", "Targets", "batches_of", "candidates", "take_in"]
