"""Telemetry of a lake for screens: its tables, and their rows in a time range, including fresh records.

    telemetry = Telemetry(lake)                          # one for each server
    table = telemetry.table("logs")                      # or telemetry.table("logs", table_id)
    moment = telemetry.moment(table)                     # one version, and what collectors stored beyond it
    asked = moment.where(start, end, "service_name = 'cart'")
    newest = moment.first(asked, ["body"], limit=200, go_on=go_on)
    for rows in moment.batches(asked, ["duration_ns"], go_on=go_on): ...

Times are Unix nanoseconds; a range has its start and not its end. `go_on` is called before each part is read, and
raises to stop (`Console.reading` makes one). What is read at once is bounded by the scan's own limits; fresh records
are decoded once, kept in a cache with a limit, and left out past `FRESH_BYTES` of storage: `Moment.left_out` counts.
"""

# Decisions: docs/decisions/0565, docs/decisions/0568

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moulin.errors import InvalidInput, NotFound, Unavailable
from moulin.ingest.intake.backlog import backlog
from moulin.ingest.intake.fresh import FreshSegments
from moulin.ingest.intake.intake import BabySegmentFacts, take_in
from moulin.lake import Lake
from moulin.model.columns import compute as pc
from moulin.model.entities import TableState
from moulin.model.ingest import BEFORE_FIRST, StreamList
from moulin.model.otel import DATABASE, EVENT_TIME, NANOS, Signal, takes
from moulin.model.predicate import Predicate
from moulin.model.predicate.condition import Column, Compare, Condition, IsNull, conjunction, disjunction
from moulin.model.schema.arrow import arrow_schema, empty_table, show, shown_schema
from moulin.model.schema.schema import unknown_column
from moulin.model.schema.values import Schema, TimestamptzType
from moulin.model.where import Where, parse_where
from moulin.sized_cache import SizedCache
from moulin.table.snapshot import Snapshot

GoOn = Callable[[], None]
Times = npt.NDArray[np.int64]

FRESH_BYTES: Final = 32 << 20
"""Stored bytes of fresh baby segments that one question reads, the newest first."""
_DECODED_BYTES: Final = 128 << 20
_MOST_TABLES: Final = 100
_RECENT_SECONDS: Final = 0.25
_SIGN: Final = {"logs": "severity_number", "traces": "duration_ns", "metrics": "bucket_counts"}
"""A column that only tables of a signal have."""
_LEAST, _MOST = -(1 << 63), (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class TelemetryTable:
    """A table that holds one signal."""

    id: UUID
    database: str
    name: str
    signal: Signal


class Telemetry:
    """The telemetry of one lake. Thread-safe."""

    def __init__(self, lake: Lake) -> None:
        self._lake = lake
        self._lock = threading.Lock()
        self._last: FreshSegments | None = None
        self._listed: StreamList | None = None
        self._recent: tuple[float, StreamList] | None = None
        self._decoded: SizedCache[Hashable, pa.Table] = SizedCache(_DECODED_BYTES, lambda rows: 1024 + rows.nbytes)

    def tables(self, signal: Signal) -> list[TelemetryTable]:
        """The tables of main that hold a signal, `otel.<signal>` first, then by name; at most 100."""
        found = []
        for entry, _ in self._lake.own_catalog().overview.tables_with_column(f'"{_SIGN[signal]}"', _MOST_TABLES):
            if _holds(self._lake.catalog.table_by_id(entry.id), signal):
                found.append(TelemetryTable(entry.id, entry.database, entry.name, signal))
        return sorted(found, key=lambda one: (one.database, one.name) != (DATABASE, signal))

    def table(self, signal: Signal, table_id: UUID | None = None) -> TelemetryTable:
        """A table by id, or the default one. NotFound if no table has the signal."""
        if table_id is None:
            if not (found := self.tables(signal)):
                raise NotFound(
                    f"No table of this lake holds {signal}: make them with `moulin init --otel`, and send some with "
                    "`moulin up`."
                )
            return found[0]
        state = self._lake.catalog.table_by_id(table_id)
        if not _holds(state, signal):
            raise InvalidInput(f"Table {state.full_name} does not have the columns of {signal}: choose another.")
        return TelemetryTable(state.id, state.database, state.name, signal)

    def moment(self, table: TelemetryTable, *, fresh: bool = True) -> Moment:
        """The rows of a table as they are now."""
        catalog = self._lake.catalog
        if not fresh or catalog.is_replica:
            return Moment(self, Snapshot(self._lake.context, catalog.table_by_id(table.id)), None)
        waiting = self._waiting(catalog.ingest.snapshot())
        return Moment(self, Snapshot(self._lake.context, catalog.table_by_id(table.id, waiting.version)), waiting)

    def _waiting(self, listed: StreamList) -> FreshSegments:
        """What streams hold beyond `listed`. Where rows go is looked up once for each version."""
        found = FreshSegments(self._lake.store, self._lake.catalog, listed)
        found.baby_segments  # noqa: B018 - listed at once: later, some may be committed and trimmed
        self._share_targets(found, listed)
        return found

    def _share_targets(self, found: FreshSegments, listed: StreamList) -> None:
        with self._lock:
            last, before = self._last, self._listed
            if last is not None and before is not None and _route_alike(before, listed):
                found.targets = last.targets
            self._last, self._listed = found, listed

    def fresh_rows(self, fresh: FreshSegments, baby_segment: BabySegmentFacts, table_id: UUID) -> pa.Table:
        """The rows of a table that a baby segment has, decoded once. NotFound when the baby segment is gone."""

        def decode() -> pa.Table:
            targets = fresh.targets
            intake = take_in(self._lake.store, [baby_segment], targets, targets.kinds(table_id))
            return pa.concat_tables([targets.schemas[table_id].empty_table(), *intake.rows.get(table_id, ())])

        return self._decoded.get((baby_segment, table_id, fresh.routing), decode)

    def arrivals(self, table: TelemetryTable, seen: Mapping[UUID, int] | None) -> Arrivals:
        """What collectors stored for a table beyond the offsets `seen`; with None nothing, but how far they are."""
        listed = self._recent_list()
        fresh = FreshSegments(self._lake.store, self._lake.catalog, listed)
        self._share_targets(fresh, listed)
        streams = {stream.id: stream for stream in listed.streams}
        if seen is not None and (gone := [one for one in seen if one not in streams]):
            streams |= {stream.id: stream for stream in self._lake.own_catalog().ingest.streams(gone)}
        offsets: dict[UUID, int] = {}
        found: list[BabySegmentFacts] = []
        lost = False
        for stream in streams.values():
            after = stream.frontier if seen is None else seen.get(stream.id, BEFORE_FIRST)
            if after < stream.deleted_offset:
                lost, after = lost or seen is not None, stream.deleted_offset
            new = backlog(self._lake.store, replace(stream, frontier=after)).baby_segments
            if new or stream.retired_at is None:
                offsets[stream.id] = new[-1].offset if new else after
            found += [] if seen is None else new
        newest, left_out = _newest(found)
        known = table.id in fresh.targets.layouts
        return Arrivals(self, table.id, fresh, newest if known else [], offsets, left_out, lost)

    def _recent_list(self) -> StreamList:
        """The recent state of the streams, shared by all live tails."""
        with self._lock:
            if self._recent is None or time.monotonic() - self._recent[0] > _RECENT_SECONDS:
                self._recent = (time.monotonic(), self._lake.own_catalog().ingest.snapshot())
            return self._recent[1]


@dataclass(frozen=True)
class Arrivals:
    """Records that came for a table. `left_out` baby segments are not read, `lost`: some were gone before."""

    _telemetry: Telemetry
    _table_id: UUID
    _fresh: FreshSegments
    _baby_segments: Sequence[BabySegmentFacts]
    offsets: Mapping[UUID, int]
    left_out: int
    lost: bool

    @property
    def schema(self) -> Schema:
        return self._fresh.targets.layouts[self._table_id].schema

    def rows(self, asked: Predicate, columns: Sequence[str]) -> Iterator[pa.Table]:
        """The rows that are asked for, as far as they are still stored."""
        for baby_segment in self._baby_segments:
            with suppress(NotFound):
                rows = matching(self._telemetry.fresh_rows(self._fresh, baby_segment, self._table_id), asked)
                if rows.num_rows:
                    yield show(rows.select(list(columns)), shown_columns(self.schema, columns))

    @property
    def is_empty(self) -> bool:
        return not self._baby_segments


class Moment:
    """The rows of one table at one version, with the fresh ones beyond it: each record once."""

    def __init__(self, telemetry: Telemetry, snapshot: Snapshot, fresh: FreshSegments | None) -> None:
        self._telemetry, self._snapshot, self._fresh = telemetry, snapshot, fresh
        self.state: TableState = snapshot.state
        self.schema: Schema = snapshot.state.schema
        self.version = snapshot.version
        self._time = column(self.schema, EVENT_TIME)
        self._in_micros = isinstance(self._time.type, TimestamptzType)

    @property
    def left_out(self) -> int:
        """How many fresh baby segments are not read, since too much waits for the nursery."""
        return self._baby_segments[1]

    @cached_property
    def time_columns(self) -> tuple[str, ...]:
        """The columns that `nanos` needs."""
        return (EVENT_TIME, EVENT_TIME + NANOS) if self._in_micros else (EVENT_TIME,)

    def where(
        self, start: int | None = None, end: int | None = None, text: Where = None, also: Sequence[Condition] = ()
    ) -> Predicate:
        """The rows with an event time in [start, end) that are as an SQL condition and other conditions ask."""
        asked = parse_where(text, self.schema)
        conditions = [*self._from(start), *self._before(end), asked.condition, *also]
        return Predicate.of(self.schema, conjunction(conditions), "true" if text is None else asked.text)

    def _from(self, start: int | None) -> list[Condition]:
        if start is None:
            return []
        start = min(max(start, _LEAST), _MOST)
        if not self._in_micros:
            return [Compare(self._time, ">=", start)]
        found: list[Condition] = [Compare(self._time, ">=", start // 1000)]
        return found + ([self._exactly(">=", start)] if start % 1000 else [])

    def _before(self, end: int | None) -> list[Condition]:
        if end is None:
            return []
        end = min(max(end, _LEAST), _MOST)
        if not self._in_micros:
            return [Compare(self._time, "<", end)]
        found: list[Condition] = [Compare(self._time, "<", -(-end // 1000))]
        return found + ([self._exactly("<", end)] if end % 1000 else [])

    def _exactly(self, operator: str, nanos: int) -> Condition:
        exact = column(self.schema, EVENT_TIME + NANOS)
        bound = Compare(exact, "<" if operator == "<" else ">=", nanos)
        return disjunction([bound, IsNull(exact, False)])

    def batches(self, asked: Predicate, columns: Sequence[str], *, go_on: GoOn) -> Iterator[pa.Table]:
        """All rows that are asked for, some at a time, in no order."""
        yield from self._fresh_rows(asked, columns, go_on)
        scan = self._snapshot.scan(columns=list(columns), where=asked, go_on=go_on)
        with closing(scan.to_batches()) as found:
            for batch in found:
                go_on()
                yield pa.Table.from_batches([batch], scan.schema)

    def first(
        self, asked: Predicate, columns: Sequence[str], *, limit: int, go_on: GoOn, newest: bool = True
    ) -> pa.Table:
        """The newest rows, or the oldest, in order of their time; parts that cannot have them are not read.

        Has the columns asked for and those of the time.
        """
        names = list(dict.fromkeys([*columns, *self.time_columns]))
        order = [f"{name} {'desc' if newest else 'asc'}" for name in self.time_columns]
        scan = self._snapshot.scan(columns=names, where=asked, limit=limit, order_by=order, go_on=go_on)
        held = [scan.to_arrow()]
        for rows in self._fresh_rows(asked, names, go_on):
            held.append(rows)
            if len(held) > 8:
                held = [self.in_order(pa.concat_tables(held), newest=newest).slice(0, limit)]
        return self.in_order(pa.concat_tables(held), newest=newest).slice(0, limit)

    def in_order(self, rows: pa.Table, *, newest: bool = True) -> pa.Table:
        times = nanos(rows)
        return rows.take(pa.array(np.argsort(-times if newest else times, kind="stable")))

    def empty(self, columns: Sequence[str]) -> pa.Table:
        return empty_table(shown_columns(self.schema, columns))

    @cached_property
    def _baby_segments(self) -> tuple[list[BabySegmentFacts], int]:
        """The fresh ones that are read, and how many are not."""
        return _newest([] if self._fresh is None else self._fresh.of(self.state.id))

    def _fresh_rows(self, asked: Predicate, columns: Sequence[str], go_on: GoOn) -> Iterator[pa.Table]:
        if self._fresh is None or asked.is_false:
            return
        shown = shown_columns(self.schema, columns)
        for baby_segment in self._baby_segments[0]:
            go_on()
            try:
                rows = self._telemetry.fresh_rows(self._fresh, baby_segment, self.state.id)
            except NotFound as error:
                raise Unavailable(f"Fresh records were committed and deleted: retry. {error}") from error
            if (rows := matching(rows, asked)).num_rows:
                yield show(rows.select(list(columns)), shown)


def _holds(state: TableState, signal: Signal) -> bool:
    event_time = state.event_time_field
    return (
        not state.schema.identifier_field_ids
        and event_time is not None
        and event_time.name == EVENT_TIME
        and takes(arrow_schema(state.schema), signal)
    )


def _newest(found: Sequence[BabySegmentFacts]) -> tuple[list[BabySegmentFacts], int]:
    """The newest baby segments within `FRESH_BYTES`, one at least, and how many are left out."""
    newest = sorted(found, key=lambda one: (one.ingest_time, one.offset), reverse=True)
    kept = int(np.searchsorted(np.cumsum([one.size for one in newest]), FRESH_BYTES, side="right"))
    kept = max(kept, min(1, len(newest)))
    return newest[:kept], len(newest) - kept


def shown_columns(schema: Schema, columns: Sequence[str]) -> pa.Schema:
    """Some columns of a table, as readers get them; InvalidInput for one that it lacks."""
    full = shown_schema(schema)
    for name in columns:
        column(schema, name)
    return pa.schema([full.field(name) for name in columns], full.metadata)


def _route_alike(one: StreamList, other: StreamList) -> bool:
    return one.version == other.version and one.routing_seq == other.routing_seq


def column(schema: Schema, name: str) -> Column:
    """A column as conditions name it; InvalidInput when there is none of that name."""
    found = next((field for field in schema.fields if field.name == name), None)
    if found is None:
        raise InvalidInput(unknown_column(schema, name).message)
    return Column((found.name,), found.field_id, found.field_type)


def matching(rows: pa.Table, asked: Predicate) -> pa.Table:
    """The rows of a table in memory that are asked for."""
    if asked.is_true or not rows.num_rows:
        return rows
    batches = [batch.filter(asked.mask(batch)) for batch in rows.to_batches()]
    return pa.Table.from_batches(batches, rows.schema)


def nanos(rows: pa.Table, name: str = EVENT_TIME) -> Times:
    """A time of each row, which must not be null, in Unix nanoseconds; `rows` has its column, and the exact one if the
    table has it."""
    found = rows.column(name)
    if found.type.unit == "ns":
        return np.asarray(found.cast(pa.int64()))
    whole = pc.multiply(found.cast(pa.int64()), 1000)
    exact = name + NANOS
    return np.asarray(pc.coalesce(rows.column(exact), whole) if exact in rows.column_names else whole)


__all__ = [
    "FRESH_BYTES",
    "Arrivals",
    "GoOn",
    "Moment",
    "Telemetry",
    "TelemetryTable",
    "Times",
    "column",
    "matching",
    "nanos",
]
