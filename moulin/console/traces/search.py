"""Finds traces in a table: the newest matching ones, one by id, and those of a time range.

A range is read from its end, part by part, each longer than the one before, until there is enough: what is asked for is
mostly new. Ranges are of event times, by which tables are laid out.
"""

# Decisions: docs/decisions/0572

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from moulin.console.telemetry import GoOn, Moment, column, nanos
from moulin.console.traces.attributes import have_pair
from moulin.console.traces.spans import id_texts, needed, numbers, outline
from moulin.console.traces.summary import TraceSummary, summarize
from moulin.model.columns import compute as pc
from moulin.model.otel import SERVICE
from moulin.model.predicate.condition import Comparand, Compare, Condition, Operator, membership
from moulin.model.schema.values import StringType

SECOND: Final = 1_000_000_000
NEAR: Final = 300 * SECOND
"""How far around a span others of its trace are looked for."""
FARTHEST: Final = 12 * 3600 * SECOND
"""The range in which one trace is looked for at most, once a span of it was found."""
MOST_SPANS: Final = 20_000
"""Of one trace."""
MOST_IN_PAGE: Final = 50_000
"""Spans of all traces that are read at once."""
_FIRST_PART, _GROWTH = 15 * SECOND, 6
_EARLIEST: Final = 0


@dataclass(frozen=True, slots=True)
class Asked:
    """Traces with a span that began in [since, until) and fits everything else. Durations are nanoseconds."""

    since: int
    until: int
    service: str | None = None
    operation: str | None = None
    min_duration: int | None = None
    max_duration: int | None = None
    failed: bool = False
    attributes: tuple[tuple[str, str], ...] = ()
    kind: str | None = None


@dataclass(frozen=True, slots=True, order=True)
class Place:
    """Where a trace is in a list: when the newest of its fitting spans began, and its id."""

    time: int
    trace_id: str


def newest_traces(
    moment: Moment, asked: Asked, limit: int, go_on: GoOn, before: Place | None = None
) -> tuple[list[TraceSummary], Place | None]:
    """Traces that fit, newest first, and where to go on; None when there are no more.

    A summary is of the spans within NEAR of the page's. A page may have fewer traces than `limit`, even none.
    """
    places = _places(moment, asked, limit + 1, go_on, before)
    page, more = places[:limit], len(places) > limit
    if not page:
        return [], None
    ids = [place.trace_id for place in page]
    start, end = page[-1].time - NEAR, page[0].time + NEAR
    also = [is_one_of(moment, "trace_id", ids)]
    summaries = summarize(outline(_read(moment, start, end, also, needed(_names(moment)), go_on)))
    if before is not None:
        also += _conditions(moment, asked)
        newer = _newest_by_trace(
            _with_attributes(_read(moment, before.time, asked.until, also, _names_to_find(moment, asked), go_on), asked)
        )
        shown = {Place(*place) for place in zip(newer["time"].to_pylist(), newer["id"].to_pylist(), strict=True)}
        on_pages_before = {place.trace_id for place in shown if place >= before}
        page = [place for place in page if place.trace_id not in on_pages_before]
    found = [summaries[place.trace_id] for place in page if place.trace_id in summaries]
    return found, places[limit - 1] if more else None


def _places(moment: Moment, asked: Asked, enough: int, go_on: GoOn, before: Place | None) -> list[Place]:
    """The newest traces with a span that fits, after `before`, in order."""
    found: list[Place] = []
    until = asked.until if before is None else min(asked.until, before.time + 1)
    names = _names_to_find(moment, asked)
    for low, high in parts(asked.since, until):
        where = moment.where(low, high, also=_conditions(moment, asked))
        held = [_NO_PLACES.empty_table()]
        for rows in moment.batches(where, names, go_on=go_on):
            held.append(_newest_by_trace(_with_attributes(rows, asked)))
        newest = _newest(pa.concat_tables(held))
        newest = newest.filter(
            pc.invert(pc.is_in(newest["id"], pa.array([one.trace_id for one in found], pa.string())))
        )
        if before is not None:
            newest = newest.filter(
                (pc.field("time") < before.time)
                | ((pc.field("time") == before.time) & (pc.field("id") < before.trace_id))
            )
        newest = newest.sort_by([("time", "descending"), ("id", "descending")]).slice(0, enough - len(found))
        found += map(Place, newest["time"].to_pylist(), newest["id"].to_pylist())
        if len(found) >= enough:
            break
    return found


_NO_PLACES = pa.schema([("id", pa.string()), ("time", pa.int64())])


def _newest_by_trace(rows: pa.Table) -> pa.Table:
    """When the newest span of each trace began, of rows with trace ids and times."""
    found = pa.table([id_texts(rows["trace_id"].combine_chunks()), pa.array(nanos(rows))], schema=_NO_PLACES)
    return _newest(found.filter(pc.is_valid(found["id"])))


def _newest(places: pa.Table) -> pa.Table:
    return places.group_by("id").aggregate([("time", "max")]).rename_columns(_NO_PLACES.names)


def parts(since: int, until: int) -> Iterator[tuple[int, int]]:
    """The range from its end, in parts that grow."""
    size = _FIRST_PART
    while until > since:
        start = max(since, until - size)
        yield start, until
        until, size = start, size * _GROWTH


def _conditions(moment: Moment, asked: Asked) -> list[Condition]:
    wanted: list[tuple[str, Operator, Comparand | None]] = [
        (SERVICE, "=", asked.service),
        ("name", "=", asked.operation),
        ("duration_ns", ">=", asked.min_duration),
        ("duration_ns", "<=", asked.max_duration),
        ("status_code", "=", "error" if asked.failed else None),
        ("kind", "=", asked.kind),
    ]
    return [Compare(column(moment.schema, name), how, value) for name, how, value in wanted if value is not None]


def _names_to_find(moment: Moment, asked: Asked) -> list[str]:
    """The columns that tell which traces fit, beyond conditions, and when."""
    return [*moment.time_columns, "trace_id", *(("attributes", "resource") if asked.attributes else ())]


def _with_attributes(rows: pa.Table, asked: Asked) -> pa.Table:
    for key, value in asked.attributes:
        rows = rows.filter(have_pair(rows["attributes"], key, value) | have_pair(rows["resource"], key, value))
    return rows


def _names(moment: Moment) -> list[str]:
    return [field.name for field in moment.schema.fields]


def is_one_of(moment: Moment, name: str, ids: Sequence[str]) -> Condition:
    """An id, in hexadecimal, is one of these; former tables keep bytes."""
    named = column(moment.schema, name)
    return membership(named, ids if isinstance(named.type, StringType) else [bytes.fromhex(one) for one in ids])


def _read(
    moment: Moment,
    start: int,
    end: int,
    also: Sequence[Condition],
    names: Sequence[str],
    go_on: GoOn,
    most: int | None = None,
) -> pa.Table:
    held, count = [moment.empty(names)], 0
    for rows in moment.batches(moment.where(start, end, also=also), names, go_on=go_on):
        held.append(rows)
        count += rows.num_rows
        if most is not None and count > most:
            break
    return pa.concat_tables(held)


def spans_of(
    moment: Moment,
    trace_id: str,
    names: Sequence[str],
    go_on: GoOn,
    *,
    at: int | None,
    now: int,
    span_id: str | None = None,
    since: int = _EARLIEST,
) -> pa.Table:
    """The spans of one trace, or those with one id: at least these columns, in no order, hardly more than MOST_SPANS.

    `at` is a time in the trace: what is read then lies around it. Without it, tables are read from now backwards
    until a span is found, no farther than `since`; an index on trace_id spares what lies between.
    """
    also = [is_one_of(moment, "trace_id", [trace_id])]
    if span_id is not None:
        also.append(is_one_of(moment, "span_id", [span_id]))
    names = list(dict.fromkeys([*needed(_names(moment)), *names]))

    def read(start: int, end: int, most: int = MOST_SPANS) -> pa.Table:
        return _read(moment, start, end, also, names, go_on, most)

    if at is not None and (found := _around(read, at, now)).num_rows:
        return found
    for start, end in parts(since, now):
        if (seen := read(start, end, 1)).num_rows:
            return _around(read, int(nanos(seen)[0]), now)
    return moment.empty(names)


def _around(read: Callable[[int, int], pa.Table], at: int, now: int) -> pa.Table:
    """What lies around a time, farther and farther while spans lie near the edges."""
    low, high = at - NEAR, at + NEAR
    found, step = read(low, high), NEAR
    while 0 < found.num_rows <= MOST_SPANS and high - low < FARTHEST:
        times = nanos(found)
        sooner = int(times.min()) < low + NEAR and low > _EARLIEST
        later = int(numbers(outline(found), "end").max()) > high - NEAR and high < now
        if not sooner and not later:
            break
        step *= 2
        held = [found]
        if sooner:
            held.append(read(low - step, low))
            low -= step
        if later:
            held.append(read(high, high + step))
            high += step
        found = pa.concat_tables(held)
    return found


def spans_of_page(moment: Moment, page: Sequence[TraceSummary], names: Sequence[str], go_on: GoOn) -> pa.Table:
    """The spans of traces of a list: at least these columns, in no order, hardly more than MOST_IN_PAGE."""
    names = list(dict.fromkeys([*needed(_names(moment)), *names]))
    if not page:
        return moment.empty(names)
    start, end = min(one.start for one in page) - NEAR, max(one.end for one in page) + NEAR
    also = [is_one_of(moment, "trace_id", [one.trace_id for one in page])]
    return _read(moment, start, end, also, names, go_on, MOST_IN_PAGE)


def logs_of(
    moment: Moment, trace_id: str, span_id: str | None, go_on: GoOn, *, at: int | None, now: int, limit: int
) -> pa.Table:
    """The oldest log records that name a trace, or a span of it, in order; `moment` is of a table of logs.

    `at` is a time in the trace: records within NEAR of it are found. Without it, they are looked for everywhere.
    """
    also = [is_one_of(moment, "trace_id", [trace_id])]
    if span_id is not None:
        also.append(is_one_of(moment, "span_id", [span_id]))
    where = moment.where(None if at is None else at - NEAR, now if at is None else at + NEAR, also=also)
    names = ["severity_text", "severity_number", "body", SERVICE, "span_id"]
    return moment.first(where, names, limit=limit, go_on=go_on, newest=False)


def batches_of(moment: Moment, asked: Asked, names: Sequence[str], go_on: GoOn) -> Iterator[pa.Table]:
    """These columns of the spans that fit, some at a time."""
    where = moment.where(asked.since, asked.until, also=_conditions(moment, asked))
    return moment.batches(where, names, go_on=go_on)


__all__ = [
    "FARTHEST",
    "MOST_IN_PAGE",
    "MOST_SPANS",
    "NEAR",
    "SECOND",
    "Asked",
    "Place",
    "batches_of",
    "is_one_of",
    "logs_of",
    "newest_traces",
    "parts",
    "spans_of",
    "spans_of_page",
]
