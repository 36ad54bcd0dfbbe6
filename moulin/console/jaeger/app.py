"""Jaeger's query API under `/jaeger`: services, operations, traces and dependencies, in Jaeger's envelope."""

# Decisions: docs/decisions/0573

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final

from fastapi import FastAPI, Query, Request, Response

from moulin.console.api.requests import Console
from moulin.console.jaeger.documents import COLUMNS, Document, traces_of
from moulin.console.jaeger.question import CALLS_BACK, TRACES_BACK, asked
from moulin.console.refusals import answer_errors, plain
from moulin.console.telemetry import GoOn, Moment
from moulin.console.traces.range import operations_of, service_calls, services_of
from moulin.console.traces.search import MOST_IN_PAGE, MOST_SPANS, SECOND, Asked, newest_traces, spans_of, spans_of_page
from moulin.errors import InvalidInput, NotFound

PREFIX: Final = "/jaeger"
_FAR_BACK: Final = 30 * 24 * 3600 * SECOND
_MOST_IDS: Final = 50
_USUAL_TRACES, _MOST_TRACES = 20, 200
_ID: Final = re.compile("[0-9a-fA-F]{1,32}")
Text = Annotated[str | None, Query(max_length=4000)]
Number = Annotated[int | None, Query(ge=0, lt=1 << 62)]


def build(console: Console) -> FastAPI:
    """The API over the spans of a lake. Every route looks, and takes the role read."""
    app = FastAPI(title="Moulin, as Jaeger", docs_url=None, redoc_url=None, openapi_url=None)

    @contextmanager
    def reading(request: Request) -> Iterator[tuple[Moment, GoOn]]:
        telemetry = console.telemetry
        with console.reading(request) as go_on:
            yield telemetry.moment(telemetry.table("traces")), go_on

    @app.get("/api/services")
    def services(request: Request) -> Response:
        with reading(request) as (moment, go_on):
            return _answer([one.service for one in _known(lambda within: services_of(moment, within, go_on))])

    @app.get("/api/services/{service:path}/operations")
    def operations_of_service(request: Request, service: str) -> Response:
        with reading(request) as (moment, go_on):
            found = _known(lambda within: operations_of(moment, within, go_on), service)
        return _answer(list(dict.fromkeys(one.name for one in found)))

    @app.get("/api/operations")
    def operations(
        request: Request, service: Text = None, span_kind: Annotated[str | None, Query(alias="spanKind")] = None
    ) -> Response:
        if not service:
            raise InvalidInput("The parameter 'service' is required: name a service.")
        with reading(request) as (moment, go_on):
            found = _known(lambda within: operations_of(moment, within, go_on), service)
        kinds = [(one.name, "" if one.kind == "unspecified" else one.kind) for one in found]
        return _answer([{"name": name, "spanKind": kind} for name, kind in kinds if span_kind in (None, "", kind)])

    @app.get("/api/traces")
    def search(
        request: Request,
        service: Text = None,
        operation: Text = None,
        tags: Text = None,
        tag: Annotated[list[str] | None, Query()] = None,
        start: Number = None,
        end: Number = None,
        min_duration: Annotated[str | None, Query(alias="minDuration")] = None,
        max_duration: Annotated[str | None, Query(alias="maxDuration")] = None,
        limit: Annotated[int, Query(ge=1, le=1500)] = _USUAL_TRACES,
        trace_ids: Annotated[list[str] | None, Query(alias="traceID", max_length=_MOST_IDS)] = None,
    ) -> Response:
        if trace_ids:
            return _by_ids(request, trace_ids)
        now = time.time_ns() + SECOND
        wanted = asked(now, service, operation, tags, tag or (), start, end, min_duration, max_duration)
        with reading(request) as (moment, go_on):
            page, _ = newest_traces(moment, wanted, min(limit, _MOST_TRACES), go_on)
            found = spans_of_page(moment, page, COLUMNS, go_on)
        traces = traces_of(found, _warnings(found.num_rows > MOST_IN_PAGE))
        return _answer([traces[one.trace_id] for one in page if one.trace_id in traces])

    def _by_ids(request: Request, trace_ids: Sequence[str]) -> Response:
        traces, errors = [], []
        for trace_id in trace_ids:
            try:
                traces.append(_trace(request, trace_id))
            except NotFound as error:
                errors.append({"code": 404, "msg": error.message, "traceID": trace_id})
        return _answer(traces, errors=errors)

    def _trace(request: Request, trace_id: str, start: int | None = None, end: int | None = None) -> Document:
        if _ID.fullmatch(trace_id) is None:
            raise InvalidInput(f"A trace id has 1 to 32 hexadecimal digits, not {trace_id[:50]!r}.")
        whole = trace_id.lower().rjust(32, "0")
        now = time.time_ns() + SECOND
        until = now if end is None else min(now, end * 1000)
        with reading(request) as (moment, go_on):
            found = spans_of(moment, whole, COLUMNS, go_on, at=None, now=until, since=(start or 0) * 1000)
        if not found.num_rows:
            raise NotFound(f"Trace {whole} was not found.")
        return traces_of(found, _warnings(found.num_rows > MOST_SPANS))[whole]

    @app.get("/api/traces/{trace_id}")
    def trace(request: Request, trace_id: str, start: Number = None, end: Number = None) -> Response:
        return _answer([_trace(request, trace_id, start, end)])

    @app.get("/api/dependencies")
    def dependencies(
        request: Request, end: Annotated[int | None, Query(alias="endTs", ge=0, lt=1 << 43)] = None,
        lookback: Annotated[int | None, Query(ge=0, lt=1 << 43)] = None,
    ) -> Response:  # fmt: skip
        until = time.time_ns() + SECOND if end is None else end * 1_000_000
        since = max(0, until - (CALLS_BACK if lookback is None else lookback * 1_000_000))
        with reading(request) as (moment, go_on):
            found = service_calls(moment, Asked(since, until), go_on)
        return _answer([{"parent": one.parent, "child": one.child, "callCount": one.calls} for one in found.map.calls])

    answer_errors(app, _refused, "Jaeger's query API is at /jaeger/api.")
    return app


def _known(look: Any, service: str | None = None) -> list[Any]:
    """What the last two days have; where there is nothing, what the last 30 have."""
    until = time.time_ns() + SECOND
    found: list[Any] = look(Asked(until - TRACES_BACK, until, service))
    return found or look(Asked(until - _FAR_BACK, until - TRACES_BACK, service))


def _warnings(cut: bool) -> list[str]:
    return ["More spans fit than are read at once: some are left out."] if cut else []


def _answer(data: Any, *, errors: Sequence[Document] = (), status: int = 200) -> Response:
    total = len(data) if isinstance(data, list) else 0
    body = {"data": data, "total": total, "limit": 0, "offset": 0, "errors": list(errors) or None}
    return plain(body, status)


def _refused(status: int, message: str) -> Response:
    """An error as Jaeger has it."""
    return _answer(None, errors=[{"code": status, "msg": message}], status=status)


__all__ = ["PREFIX", "build"]
