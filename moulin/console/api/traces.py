"""Traces: search by service, operation, duration and failure; waterfalls; services and their calls."""

# Decisions: docs/decisions/0570

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
from fastapi import APIRouter, Depends, Path, Query, Request

from moulin.console.api.requests import ConsoleOf, Cursor, from_cursor, takes, to_cursor
from moulin.console.api.shapes import Int64, Page, Shape
from moulin.console.api.spans import LogLine, SpanDetail, log_lines, span_details
from moulin.console.telemetry import GoOn, Moment
from moulin.console.traces.critical_path import critical_path
from moulin.console.traces.range import operations_of, service_calls, services_of
from moulin.console.traces.search import (
    MOST_SPANS,
    SECOND,
    Asked,
    Place,
    logs_of,
    newest_traces,
    spans_of,
)
from moulin.console.traces.spans import numbers, outline, rows_once
from moulin.console.traces.summary import TraceSummary
from moulin.console.traces.tree import NONE, Forest, grow, main_root
from moulin.errors import InvalidInput, NotFound
from moulin.model.columns.arrays import Integers
from moulin.network.callers import Role

router = APIRouter(tags=["traces"])
READ = takes(Role.READ)
HOUR: Final = 3600
_MOST_LOGS: Final = 200
_LONGEST_RANGE: Final = 10 * 365 * 24 * HOUR
_MOST_PAIRS: Final = 10

Moment64 = Annotated[int | None, Query(ge=0, lt=1 << 62, description="Unix nanoseconds.")]
Nanoseconds = Annotated[int | None, Query(ge=0, lt=1 << 62, description="Nanoseconds.")]
Name = Annotated[str | None, Query(max_length=2000)]
TraceId = Annotated[
    str, Path(pattern="^[0-9a-fA-F]{1,32}$", description="In hexadecimal; zeros in front may be left out.")
]
SpanId = Annotated[str, Path(pattern="^[0-9a-fA-F]{16}$", description="In hexadecimal.")]
At = Annotated[int | None, Query(ge=0, lt=1 << 62, description="A time in the trace, which is found sooner by it.")]


class ServiceShape(Shape):
    """Spans of one service, and how many of them failed."""

    service: str
    spans: int
    errors: int


class TraceRow(Shape):
    """A trace in a list. `service` and `operation` are of its root, or of its first span where `rooted` is false."""

    id: str
    start: Int64
    duration: Int64
    service: str
    operation: str
    rooted: bool
    spans: int
    errors: int
    services: list[ServiceShape]


class Operation(Shape):
    name: str
    kind: str
    spans: int


class Call(Shape):
    """Calls of one service by another; `errors` failed in the one that was called."""

    parent: str
    child: str
    calls: int
    errors: int


class ServiceMapShape(Shape):
    """Services with their spans, and the calls between them. It is of the spans that began `since` then."""

    since: Int64
    spans: int
    services: list[ServiceShape]
    calls: list[Call]
    notes: list[str]


class SpanColumns(Shape):
    """The spans of a trace, column by column, in the order of a waterfall.

    `parent` is the position of the parent in these lists, -1 for a root; `service` and `name` are positions in lists
    of the trace.
    """

    span_id: list[str | None]
    parent: list[int]
    depth: list[int]
    service: list[int]
    name: list[int]
    kind: list[str]
    start: list[Int64]
    duration: list[Int64]
    failed: list[bool]


class CriticalShape(Shape):
    """What the trace waited for, by time: in each part, the span at this position."""

    row: list[int]
    start: list[Int64]
    end: list[Int64]


class TraceShape(Shape):
    """One trace. `notes` say what is wrong with it; such spans are shown as they are."""

    id: str
    start: Int64
    duration: Int64
    service: str
    operation: str
    errors: int
    services: list[ServiceShape]
    names: list[str]
    rows: SpanColumns
    critical: CriticalShape
    notes: list[str]


class Spans(Shape):
    """The spans of one trace that have one id: one, unless senders were wrong."""

    items: list[SpanDetail]


class LogLines(Shape):
    items: list[LogLine]
    more: bool


class Range:
    """The range of time that a caller asks for: an hour, until now, where they say nothing."""

    def __init__(
        self,
        since: Moment64 = None,
        until: Moment64 = None,
        last: Annotated[int | None, Query(ge=1, le=_LONGEST_RANGE, description="Seconds, in place of `since`.")] = None,
    ) -> None:
        self.until = time.time_ns() + SECOND if until is None else until
        self.since = max(0, self.until - (HOUR if last is None else last) * SECOND) if since is None else since
        if self.since > self.until:
            raise InvalidInput("A time range must end after it starts: use an `until` later than `since`.")


RangeOf = Annotated[Range, Depends()]


class Source:
    """The table that is asked, and the bounds of reading it."""

    def __init__(
        self,
        request: Request,
        console: ConsoleOf,
        table: Annotated[UUID | None, Query(description="The id of a table of spans; otel.traces by default.")] = None,
    ) -> None:
        self._request, self._console, self._table = request, console, table

    @contextmanager
    def reading(self) -> Iterator[tuple[Moment, GoOn]]:
        telemetry = self._console.telemetry
        with self._console.reading(self._request) as go_on:
            yield telemetry.moment(telemetry.table("traces", self._table)), go_on

    @contextmanager
    def reading_logs(self) -> Iterator[tuple[Moment, GoOn]]:
        telemetry = self._console.telemetry
        with self._console.reading(self._request) as go_on:
            yield telemetry.moment(telemetry.table("logs")), go_on


SourceOf = Annotated[Source, Depends()]


@router.get("/traces", **READ)
def find_traces(
    source: SourceOf,
    within: RangeOf,
    service: Name = None,
    operation: Name = None,
    min_duration: Nanoseconds = None,
    max_duration: Nanoseconds = None,
    failed: bool = False,
    attribute: Annotated[
        list[str] | None, Query(max_length=_MOST_PAIRS, description="key=value, of spans or their resource.")
    ] = None,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=200, description="How many traces at most.")] = 50,
) -> Page[TraceRow]:
    """Traces with a span in the range that fits everything that is asked for, newest first.

    A page may have fewer traces than `limit`, and still a cursor. A row sums up the
    spans within five minutes of those on the page: `/traces/{id}` has them all.
    """
    key = from_cursor(cursor, int, str)
    asked = Asked(
        within.since,
        within.until,
        service,
        operation,
        min_duration,
        max_duration,
        failed,
        tuple(_pair(one) for one in attribute or ()),
    )
    with source.reading() as (moment, go_on):
        before = None if key is None else Place(*key)
        found, following = newest_traces(moment, asked, limit, go_on, before)
    more = None if following is None else to_cursor(following.time, following.trace_id)
    return Page(items=[_row(one) for one in found], next_cursor=more)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise InvalidInput(f"An attribute must be given as key=value, not {text[:100]!r}.")
    return key, value


def _row(one: TraceSummary) -> TraceRow:
    return TraceRow(
        id=one.trace_id,
        start=one.start,
        duration=one.end - one.start,
        service=one.service,
        operation=one.name,
        rooted=one.rooted,
        spans=one.spans,
        errors=one.errors,
        services=[ServiceShape(service=x.service, spans=x.spans, errors=x.errors) for x in one.services],
    )


@router.get("/traces/services", **READ)
def list_services(source: SourceOf, within: RangeOf) -> Page[ServiceShape]:
    """The services that have spans in the range, by name; at most 1,000."""
    with source.reading() as (moment, go_on):
        found = services_of(moment, Asked(within.since, within.until), go_on)
    return Page(items=[ServiceShape(service=x.service, spans=x.spans, errors=x.errors) for x in found])


@router.get("/traces/operations", **READ)
def list_operations(source: SourceOf, within: RangeOf, service: Name = None) -> Page[Operation]:
    """The names and kinds of spans in the range, by name; at most 1,000."""
    with source.reading() as (moment, go_on):
        found = operations_of(moment, Asked(within.since, within.until, service), go_on)
    return Page(items=[Operation(name=x.name, kind=x.kind, spans=x.spans) for x in found])


@router.get("/traces/map", **READ)
def show_service_map(source: SourceOf, within: RangeOf) -> ServiceMapShape:
    """Calls between services: one for each span whose parent belongs to another service."""
    with source.reading() as (moment, go_on):
        found = service_calls(moment, Asked(within.since, within.until), go_on)
    notes = [] if found.whole else [f"So much happened that the newest {found.spans} spans are shown alone."]
    return ServiceMapShape(
        since=found.since,
        spans=found.spans,
        services=[ServiceShape(service=x.service, spans=x.spans, errors=x.errors) for x in found.map.services],
        calls=[Call(parent=x.parent, child=x.child, calls=x.calls, errors=x.errors) for x in found.map.calls],
        notes=notes,
    )


@router.get("/traces/{trace_id}", **READ)
def show_trace(source: SourceOf, trace_id: TraceId, at: At = None) -> TraceShape:
    """One trace, its spans in the order of a waterfall, with its critical path."""
    trace_id = whole_id(trace_id)
    with source.reading() as (moment, go_on):
        found = spans_of(moment, trace_id, (), go_on, at=at, now=time.time_ns())
        left_out = moment.left_out
    if not found.num_rows:
        raise NotFound(f"No span of trace {trace_id} was found.")
    return _trace(trace_id, outline(found), left_out)


def whole_id(trace_id: str) -> str:
    return trace_id.lower().rjust(32, "0")


def _trace(trace_id: str, spans: pa.Table, left_out: int) -> TraceShape:
    once = rows_once(spans)
    repeated = spans.num_rows - len(once)
    cut = len(once) > MOST_SPANS
    spans = spans.take(once).sort_by("start").slice(0, MOST_SPANS)
    start, end = numbers(spans, "start"), numbers(spans, "end")
    forest = grow(spans)
    root = main_root(forest, start, end)
    path = critical_path(forest, start, end)
    order = forest.order
    position = np.empty(len(order) + 1, np.int64)
    position[order], position[NONE] = np.arange(len(order)), NONE
    shown = spans.take(order)
    services, names = (shown[name].combine_chunks().dictionary_encode() for name in ("service", "name"))
    errors = shown["error"].to_numpy()
    codes = np.asarray(services.indices)
    first = int(start.min())
    return TraceShape(
        id=trace_id,
        start=first,
        duration=int(end.max()) - first,
        service=spans["service"][root].as_py(),
        operation=spans["name"][root].as_py(),
        errors=int(errors.sum()),
        services=_services(services.dictionary.to_pylist(), codes, codes[errors]),
        names=names.dictionary.to_pylist(),
        rows=SpanColumns(
            span_id=shown["span_id"].to_pylist(),
            parent=position[forest.parent[order]].tolist(),
            depth=forest.depth[order].tolist(),
            service=codes.tolist(),
            name=np.asarray(names.indices).tolist(),
            kind=shown["kind"].to_pylist(),
            start=start[order].tolist(),
            duration=(end - start)[order].tolist(),
            failed=errors.tolist(),
        ),
        critical=CriticalShape(row=position[path.row].tolist(), start=path.start.tolist(), end=path.end.tolist()),
        notes=_notes(forest, repeated, cut, left_out),
    )


def _services(names: list[str], codes: Integers, failed: Integers) -> list[ServiceShape]:
    counts = zip(
        names,
        np.bincount(codes, minlength=len(names)).tolist(),
        np.bincount(failed, minlength=len(names)).tolist(),
        strict=True,
    )
    return [ServiceShape(service=name, spans=spans, errors=errors) for name, spans, errors in counts]


def _notes(forest: Forest, repeated: int, cut: bool, left_out: int) -> list[str]:
    """What is wrong with a trace, in a sentence each."""
    said = [
        (int(forest.orphan.sum()), "name a parent that is not there; they are shown as roots"),
        (int(forest.cut.sum()), "have themselves among their parents; they are shown as roots"),
        (int(forest.repeated.sum()), "have the id of another span; children are shown below the first one"),
        (int(forest.early.sum()), "begin before their parents, since the clocks of their hosts differ"),
        (repeated, "came again with the same content, and are shown once"),
    ]
    notes = [f"Spans that {what}: {count:,}." for count, what in said if count]
    if cut:
        notes.append(f"The trace has more than {MOST_SPANS:,} spans: some of them are shown.")
    if left_out:
        notes.append(
            f"{left_out:,} stored requests wait to be taken in and were not looked at: there may be more spans."
        )
    return notes


@router.get("/traces/{trace_id}/spans/{span_id}", **READ)
def show_span(source: SourceOf, trace_id: TraceId, span_id: SpanId, at: At = None) -> Spans:
    """Everything that was sent of one span."""
    with source.reading() as (moment, go_on):
        items = span_details(moment, whole_id(trace_id), span_id.lower(), go_on, at=at)
    if not items:
        raise NotFound(f"No span {span_id.lower()} of trace {whole_id(trace_id)} was found.")
    return Spans(items=items)


@router.get("/traces/{trace_id}/logs", **READ)
def list_logs(
    source: SourceOf,
    trace_id: TraceId,
    at: At = None,
    span_id: Annotated[str | None, Query(pattern="^[0-9a-fA-F]{16}$", description="Of this span alone.")] = None,
) -> LogLines:
    """Log records that name the trace, or one of its spans, the oldest first; at most 200."""
    with source.reading_logs() as (moment, go_on):
        span = None if span_id is None else span_id.lower()
        found = logs_of(moment, whole_id(trace_id), span, go_on, at=at, now=time.time_ns(), limit=_MOST_LOGS + 1)
    return LogLines(items=log_lines(found.slice(0, _MOST_LOGS)), more=found.num_rows > _MOST_LOGS)


__all__ = ["router"]
