"""Loki's live tail: what a query selects, over a web socket, each record once.

First come the newest records since `start`, then what collectors store, as it comes.
"""

# Decisions: docs/decisions/0710

from __future__ import annotations

import asyncio
import json
import re
import time
from collections import Counter
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
from starlette.datastructures import QueryParams
from starlette.responses import PlainTextResponse
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from moulin.console.api.logs import MOST_TAILS, Tails
from moulin.console.api.requests import Console
from moulin.console.loki import rows
from moulin.console.loki.logql import SECOND, LogQuery, parse
from moulin.console.loki.parameters import moment_of
from moulin.console.loki.streams import Document, streams_of
from moulin.console.telemetry import Telemetry, TelemetryTable, nanos
from moulin.errors import InvalidInput, MoulinError, Unavailable
from moulin.model.otel import EVENT_TIME, NANOS
from moulin.network.answers import status_of
from moulin.network.callers import IDENTIFY, Identify, Role, RouteRule
from moulin.network.websocket import GOING_AWAY

PATH: Final = "/loki/loki/api/v1/tail"
RULE: Final = RouteRule(frozenset({""}), re.compile(re.escape(PATH)), Role.READ)  # a web socket has no method
_MOST: Final = 5000
_USUAL: Final = 100
_LOOK_SECONDS: Final = 0.5
_REFUSED, _FAILED = 1008, 1011
Entry = tuple[tuple[tuple[str, str], ...], str, str]


class LogTail:
    """Follows the logs with one query. One thread at a time."""

    def __init__(self, telemetry: Telemetry, table: TelemetryTable, query: LogQuery, start: int, limit: int) -> None:
        self._telemetry, self._table, self._query = telemetry, table, query
        self._start, self._limit = start, limit
        self._seen = telemetry.arrivals(table, None).offsets
        self._begin()
        self._told: Counter[Entry] | None = None  # of the past: what comes first may be in it

    def _begin(self) -> None:
        moment = self._telemetry.moment(self._table, fresh=False)
        self._of, self._asked = moment.state.schema_id, rows.select(moment, self._query, None, None)

    def past(self) -> list[Document]:
        """The newest records since the start, the oldest first."""
        moment = self._telemetry.moment(self._table)
        now = time.time_ns() + SECOND
        found = rows.newest(moment, self._query, self._start, now, limit=self._limit, forward=False, go_on=lambda: None)
        streams = streams_of(moment.in_order(found, newest=False), categorized=False)
        self._told = Counter(entry for stream in streams for entry in _entries(stream))
        return streams

    def look(self) -> tuple[list[Document], int]:
        """What came since the last look, and how many records more came than are sent."""
        arrivals = self._telemetry.arrivals(self._table, self._seen)
        self._seen = arrivals.offsets
        if arrivals.is_empty:
            return [], 0
        schema = arrivals.schema
        if self._of != schema.schema_id:
            self._begin()
        exact = EVENT_TIME + NANOS
        names = [*rows.COLUMNS, EVENT_TIME, *(field.name for field in schema.fields if field.name == exact)]
        parts = [rows.matching(part, self._query) for part in arrivals.rows(self._asked, list(dict.fromkeys(names)))]
        if not (parts := [part for part in parts if part.num_rows]):
            return [], 0
        found = pa.concat_tables(parts)
        order = nanos(found).argsort(kind="stable")
        streams = streams_of(found.take(pa.array(order[-_MOST:])), categorized=False)
        return self._news(streams), max(0, found.num_rows - _MOST)

    def _news(self, streams: list[Document]) -> list[Document]:
        """The streams without what the past had, which came while that was read."""
        told, self._told = self._told, None
        if not told:
            return streams
        for stream in streams:
            kept = []
            for value, entry in zip(stream["values"], _entries(stream), strict=True):
                if told[entry]:
                    told[entry] -= 1
                else:
                    kept.append(value)
            stream["values"] = kept
        return [stream for stream in streams if stream["values"]]


def _entries(stream: Document) -> list[Entry]:
    labels = tuple(sorted(stream["stream"].items()))
    return [(labels, at, line) for at, line in stream["values"]]


def route(console: Console) -> WebSocketRoute:
    """The one web socket of a server. It goes on the app itself, before what is mounted."""
    tails = Tails()

    async def follow(socket: WebSocket) -> None:
        if tails.open >= MOST_TAILS:
            said = f"{MOST_TAILS} live tails are open: close one, or query again every few seconds."
            await socket.send_denial_response(PlainTextResponse(said, 503))
            return
        tails.open += 1
        try:
            tail = await asyncio.to_thread(_asked, console.telemetry, socket.query_params)
            past = await asyncio.to_thread(tail.past)
            await socket.accept()
            with suppress(WebSocketDisconnect):
                await _send(console, socket, tail, past)
        except MoulinError as error:  # nothing was accepted yet
            await socket.send_denial_response(PlainTextResponse(error.message, status_of(error)))
        finally:
            tails.open -= 1

    return WebSocketRoute(PATH, follow)


def _asked(telemetry: Telemetry, given: QueryParams) -> LogTail:
    text, limit = given.get("query", ""), given.get("limit", str(_USUAL))
    query = parse(text)
    if not isinstance(query, LogQuery):
        raise InvalidInput("A tail follows lines: leave out the range and what is around it.")
    if not limit.isascii() or not limit.isdigit() or not 0 < int(limit[:9]) <= _MOST:
        raise InvalidInput(f"The limit of a tail is a number from 1 to {_MOST}.")
    now = time.time_ns()
    start = moment_of(given.get("start"), now - 3600 * SECOND)
    return LogTail(telemetry, telemetry.table("logs"), query, start, int(limit))


async def _send(console: Console, socket: WebSocket, tail: LogTail, past: list[Document]) -> None:
    identify: Identify = socket.scope[IDENTIFY]
    gone = asyncio.ensure_future(socket.receive())  # a client sends nothing: what comes is its end
    try:
        if past:
            await socket.send_text(_text(past, 0))
        while not gone.done() and not console.stopping.is_set():
            try:
                await identify()
            except Unavailable:  # the file of tokens: nothing is lost
                await asyncio.sleep(_LOOK_SECONDS)
                continue
            except MoulinError:
                await socket.close(_REFUSED)
                return
            try:
                streams, left_out = await asyncio.to_thread(tail.look)
            except Unavailable:  # the catalog or the store: the next look has it
                streams, left_out = [], 0
            except MoulinError as error:  # the table is gone, or the query no longer fits it
                await socket.close(_FAILED, error.message[:100])
                return
            if streams:
                await socket.send_text(_text(streams, left_out))
            await asyncio.wait([gone], timeout=_LOOK_SECONDS)
        if not gone.done():
            await socket.close(GOING_AWAY)
    finally:
        gone.cancel()


def _text(streams: list[Document], left_out: int) -> str:
    found: dict[str, Any] = {"streams": streams}
    if left_out:
        found["dropped_entries"] = [{"labels": {"records": str(left_out)}, "timestamp": str(time.time_ns())}]
    return json.dumps(found)


__all__ = ["PATH", "RULE", "LogTail", "route"]
