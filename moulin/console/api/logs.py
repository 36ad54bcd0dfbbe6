"""Logs: search, counts, context, and live tail."""

# Decisions: docs/decisions/0566, docs/decisions/0567, docs/decisions/0568

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any, Final
from uuid import UUID

from fastapi import APIRouter, Depends, Header, Path, Query, Request
from fastapi.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from moulin.console.api.requests import Console, ConsoleOf, Cursor, from_cursor, takes, to_cursor
from moulin.console.api.shapes import Cutter, Int64, Page, Shape
from moulin.console.logs import counts, records
from moulin.console.logs.levels import ALL
from moulin.console.logs.question import Question
from moulin.console.logs.records import Place, Record
from moulin.console.logs.search import LONGEST
from moulin.console.logs.tail import News, Tail
from moulin.console.telemetry import Moment
from moulin.errors import InvalidInput, MoulinError, Unavailable
from moulin.network.callers import IDENTIFY, Identify, Role

router = APIRouter(prefix="/logs", tags=["logs"])
READ = takes(Role.READ)
MOST_TAILS: Final = 16
_MOST_FACETS: Final = 8
_MOST_STREAMS: Final = 500
_SAMPLE: Final = 500
_LOOK_SECONDS: Final = 0.5
_BEAT_SECONDS: Final = 2.0
_RANGE: Final = 15 * 60
_SECOND: Final = 1_000_000_000
_LONGEST_BODY: Final = 1 << 18

_TableId = Annotated[UUID | None, Query(description="The id of a table of logs; without it `otel.logs`, or the first.")]
_Nanos = Annotated[int | None, Query(ge=-(1 << 63), lt=1 << 63)]
_Search = Annotated[str, Query(max_length=LONGEST, description='Such as `level:error service:cart "timed out"`.')]
_Where = Annotated[str, Query(max_length=4000, description="An SQL condition over the columns of the table.")]
_Last = Annotated[
    int, Query(ge=1, le=10 * 366 * 86400, description="Without `start`: so many seconds back from `end`.")
]


class LogTable(Shape):
    """A table that holds logs."""

    id: str
    database: str
    name: str


class LogTables(Shape):
    """The tables with logs, the one to begin with first; `now` is the time of the server."""

    items: list[LogTable]
    now: Int64


class LogRecord(Shape):
    """A record. `id` says which it is; a long body is cut, and whole in its detail."""

    id: str
    time: Int64
    level: str
    severity: str | None
    service: str | None
    event: str | None
    body: str | None
    trace_id: str | None
    span_id: str | None
    attributes: dict[str, str | None]


class LogPage(Page[LogRecord]):
    """Records, newest first, of a range. `left_out` baby segments wait for the nursery and were not read."""

    start: Int64
    end: Int64
    version: Int64
    left_out: int
    cut: bool


class LevelCounts(Shape):
    level: str
    counts: list[int]


class LogHistogram(Shape):
    """How many records there are: step n begins at `first` + n * `step`. Levels without records are left out."""

    start: Int64
    end: Int64
    first: Int64
    step: Int64
    total: Int64
    levels: list[LevelCounts]
    version: Int64
    left_out: int


class FacetValue(Shape):
    value: str | None
    count: int


class FacetShape(Shape):
    """The most frequent values of a field, of `distinct` ones; of at least so many, when `cut`."""

    field: str
    values: list[FacetValue]
    distinct: int
    cut: bool


class LogFacets(Shape):
    """`attributes` are those that the newest records have."""

    items: list[FacetShape]
    attributes: list[str]


class LogContext(Shape):
    """What came before a record in time, and after it: both newest first."""

    before: list[LogRecord]
    after: list[LogRecord]
    cut: bool


class LogDetail(Shape):
    """A record with all its columns."""

    record: LogRecord
    table: LogTable
    fields: dict[str, Any]
    cut: bool


class _Asked:
    """What every route takes: a table, a range, and conditions."""

    def __init__(
        self,
        console: ConsoleOf,
        table: _TableId = None,
        q: _Search = "",
        where: _Where = "",
        start: _Nanos = None,
        end: _Nanos = None,
        last: _Last = _RANGE,
    ) -> None:
        found = console.telemetry.table("logs", table)
        self.table = found
        self.end = time.time_ns() + _SECOND if end is None else end
        self.start = self.end - last * _SECOND if start is None else start
        if self.start >= self.end:
            raise InvalidInput("The range is empty: its end must be later than its start.")
        self.question = Question(self.start, self.end, q, where.strip() or None)
        self._console = console

    def moment(self) -> Moment:
        return self._console.telemetry.moment(self.table)


_AskedOf = Annotated[_Asked, Depends(_Asked)]


@router.get("/tables", **READ)
def list_log_tables(console: ConsoleOf) -> LogTables:
    """The tables that hold logs. None is no error: it is a lake without telemetry."""
    items = [LogTable(id=str(x.id), database=x.database, name=x.name) for x in console.telemetry.tables("logs")]
    return LogTables(items=items, now=time.time_ns())


@router.get("/search", **READ)
def search_logs(
    request: Request,
    console: ConsoleOf,
    asked: _AskedOf,
    cursor: Cursor = None,
    limit: Annotated[int, Query(ge=1, le=1000)] = 200,
) -> LogPage:
    """Records, newest first. Later pages have the range of the first: pass `start` and `end` of its answer."""
    key = from_cursor(cursor, int, str)
    with console.reading(request) as go_on:
        moment = asked.moment()
        place = None if key is None else Place(*key)
        found, more = records.newest(moment, asked.question, limit=limit, go_on=go_on, after=place)
    cutter = Cutter()
    return LogPage(
        items=[_record(one, cutter) for one in found],
        next_cursor=to_cursor(found[-1].time, found[-1].digest) if more else None,
        start=asked.start,
        end=asked.end,
        version=moment.version,
        left_out=moment.left_out,
        cut=cutter.cut,
    )


@router.get("/histogram", **READ)
def count_logs(
    request: Request, console: ConsoleOf, asked: _AskedOf, buckets: Annotated[int, Query(ge=2, le=500)] = 60
) -> LogHistogram:
    """How many records the whole range has, by time and level."""
    with console.reading(request) as go_on:
        moment = asked.moment()
        found = counts.histogram(moment, asked.question, buckets=buckets, go_on=go_on)
    return LogHistogram(
        start=asked.start,
        end=asked.end,
        first=found.first,
        step=found.step,
        total=found.total,
        levels=[
            LevelCounts(level=level, counts=column.tolist())
            for level, column in zip(ALL, found.counts.T, strict=True)
            if column.any()
        ],
        version=moment.version,
        left_out=moment.left_out,
    )


@router.get("/facets", **READ)
def facet_logs(
    request: Request,
    console: ConsoleOf,
    asked: _AskedOf,
    field: Annotated[list[Annotated[str, Query(max_length=200)]] | None, Query(max_length=_MOST_FACETS)] = None,
    limit: Annotated[int, Query(ge=1, le=100)] = 10,
) -> LogFacets:
    """The most frequent values of fields over the whole range: level, service, event, scope, or an attribute."""
    with console.reading(request) as go_on:
        moment = asked.moment()
        found = counts.facets(moment, asked.question, field or ["level", "service"], most=limit, go_on=go_on)
        newest = moment.first(asked.question.of(moment), ["attributes"], limit=_SAMPLE, go_on=go_on)
    return LogFacets(
        items=[
            FacetShape(
                field=one.field,
                values=[FacetValue(value=value, count=number) for value, number in one.values],
                distinct=one.distinct,
                cut=one.cut,
            )
            for one in found
        ],
        attributes=[name for name, _ in counts.attribute_names(newest, 50)],
    )


@router.get("/context", **READ)
def show_log_context(
    request: Request,
    console: ConsoleOf,
    id: Annotated[str, Query(max_length=4096, description="The id of a record.")],
    table: _TableId = None,
    q: _Search = "",
    where: _Where = "",
    before: Annotated[int, Query(ge=0, le=200)] = 20,
    after: Annotated[int, Query(ge=0, le=200)] = 20,
) -> LogContext:
    """What happened before and after a record; with a condition, such as `service:cart`, of that alone."""
    place = _place(id)
    with console.reading(request) as go_on:
        moment = console.telemetry.moment(console.telemetry.table("logs", table))
        question = Question(None, None, q, where.strip() or None)
        earlier, later = records.around(moment, question, place, before=before, after=after, go_on=go_on)
    cutter = Cutter()
    return LogContext(
        before=[_record(one, cutter) for one in earlier], after=[_record(one, cutter) for one in later], cut=cutter.cut
    )


@router.get("/tail", response_class=StreamingResponse, **READ)
async def follow_logs(
    request: Request,
    console: ConsoleOf,
    table: _TableId = None,
    q: _Search = "",
    where: _Where = "",
    since: Annotated[str | None, Query(max_length=1 << 16, description="The id of the last event that came.")] = None,
    last_event_id: Annotated[str | None, Header(max_length=1 << 16)] = None,
) -> StreamingResponse:
    """Events `records` ({items, left_out, lost}) with what comes, each record once, and `beat` every two seconds.

    A stream goes on where another one ended when it is given the id of that one's last event, as browsers do.
    `end` comes last: `{"reason": "stopping"}` when the server stops, `"signed-out"` when the token was taken back.
    """
    tails: Tails = request.app.state.tails
    if tails.open >= MOST_TAILS:
        raise Unavailable(f"{MOST_TAILS} live tails are open: close one, or repeat the search every few seconds.")
    telemetry = console.telemetry
    question = Question(None, None, q, where.strip() or None)
    seen = _seen(last_event_id or since)
    tails.open += 1  # before the tail is made, or many that come at once would all find room
    try:
        tail = await asyncio.to_thread(lambda: Tail(telemetry, telemetry.table("logs", table), question, seen))
        return _CountedTail(tails, _events(console, tail, request.scope[IDENTIFY]))
    except BaseException:
        tails.open -= 1
        raise


@router.get("/records/{id}", **READ)
def show_log(
    id: Annotated[str, Path(max_length=4096)], request: Request, console: ConsoleOf, table: _TableId = None
) -> LogDetail:
    """A record with all its columns, the body whole up to 256 Ki characters."""
    place = _place(id)
    with console.reading(request) as go_on:
        found = console.telemetry.table("logs", table)
        one = records.find(console.telemetry.moment(found), place.time, place.digest, go_on)
    cutter = Cutter(_LONGEST_BODY)
    return LogDetail(
        record=_record(one, cutter),
        table=LogTable(id=str(found.id), database=found.database, name=found.name),
        fields={name: cutter.cell(_plain(value)) for name, value in one.values.items() if value is not None},
        cut=cutter.cut,
    )


class Tails:
    """How many tails a server has open."""

    def __init__(self) -> None:
        self.open = 0


class _CountedTail(StreamingResponse):
    """REQUIRES: it is counted already."""

    def __init__(self, tails: Tails, events: AsyncIterator[str]) -> None:
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(events, media_type="text/event-stream", headers=headers)
        self._tails = tails

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._tails.open -= 1


async def _events(console: Console, tail: Tail, identify: Identify) -> AsyncIterator[str]:
    beat = -_BEAT_SECONDS
    while not console.stopping.is_set():
        try:
            await identify()
            news = await asyncio.to_thread(tail.look)
        except Unavailable:  # the catalog, the store or the file of tokens: nothing is lost, the next look has it
            await asyncio.sleep(_LOOK_SECONDS)
            continue
        except MoulinError as error:
            yield _event("end", {"reason": "signed-out" if await _is_out(identify) else error.message})
            return
        if news.records or news.lost:
            yield _event("records", _news(news), _event_id(tail))
        if time.monotonic() - beat >= _BEAT_SECONDS:
            beat = time.monotonic()
            yield _event("beat", {"at": str(time.time_ns())}, _event_id(tail))
        for _ in range(2):
            if not console.stopping.is_set():
                await asyncio.sleep(_LOOK_SECONDS / 2)
    yield _event("end", {"reason": "stopping"})


async def _is_out(identify: Identify) -> bool:
    try:
        await identify()
    except MoulinError:
        return True
    return False


def _news(news: News) -> dict[str, Any]:
    cutter = Cutter()
    items = [_record(one, cutter).model_dump(mode="json") for one in news.records]
    return {"items": items, "left_out": news.left_out, "lost": news.lost}


def _event(name: str, data: Mapping[str, Any], id: str | None = None) -> str:
    end = "" if id is None else f"id: {id}\n"
    return f"event: {name}\ndata: {json.dumps(data)}\n{end}\n"


def _event_id(tail: Tail) -> str:
    """How far a tail is, so that the next one goes on from there."""
    return to_cursor(" ".join(f"{stream}={offset}" for stream, offset in tail.seen.items()))


def _seen(id: str | None) -> Mapping[UUID, int] | None:
    if not id:
        return None
    try:
        key = from_cursor(id, str)
        assert key is not None
        pairs = [one.partition("=") for one in key[0].split()]
        return {UUID(stream): int(offset) for stream, _, offset in pairs[:_MOST_STREAMS]}
    except ValueError:
        raise InvalidInput("Unknown event: pass back the id of the last event unchanged.") from None


def _place(id: str) -> Place:
    try:
        key = from_cursor(id, int, str)
    except InvalidInput:
        raise InvalidInput("Unknown record: pass back the id of a record unchanged.") from None
    assert key is not None
    return Place(*key)


def _record(one: Record, cutter: Cutter) -> LogRecord:
    values = {name: cutter.cell(_plain(value)) for name, value in one.values.items() if name in records.COLUMNS}
    return LogRecord(
        id=to_cursor(one.time, one.digest),
        time=one.time,
        level=one.level,
        severity=values["severity_text"],
        service=values["service_name"],
        event=values["event_name"],
        body=values["body"],
        trace_id=values["trace_id"],
        span_id=values["span_id"],
        attributes=values["attributes"] or {},
    )


def _plain(value: Any) -> Any:
    """Maps, which come as pairs, as objects."""
    if isinstance(value, list) and all(isinstance(one, tuple) and len(one) == 2 for one in value):
        return dict(value)
    return value


__all__ = ["MOST_TAILS", "Tails", "router"]
