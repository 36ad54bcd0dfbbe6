"""Loki's HTTP API under `/loki`: queries, labels, series, volume and detected fields, in Loki's envelope."""

# Decisions: docs/decisions/0661

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any, Final

import numpy as np
import pyarrow as pa
from fastapi import FastAPI, Header, Query, Request, Response
from fastapi.responses import PlainTextResponse

from moulin.console.api.requests import Console
from moulin.console.loki import rows
from moulin.console.loki.logql import SECOND, LogQuery, RangeQuery, parse, parse_selector
from moulin.console.loki.parameters import moment_of, range_of, step_of
from moulin.console.loki.ranges import evaluate
from moulin.console.loki.streams import CATEGORIZED, matrix_of, streams_of, vector_of, volumes
from moulin.console.refusals import HEADERS, answer_errors, plain
from moulin.console.telemetry import GoOn, Moment
from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc

PREFIX: Final = "/loki"
_API: Final = "/loki/api/v1"
_MOST_LINES: Final = 5000
_MOST_FIELDS: Final = 200
_MOST_VALUES: Final = 1000
_FIELD_RECORDS: Final = 1000
Text = Annotated[str | None, Query(max_length=100)]
LogQL = Annotated[str, Query(max_length=5000)]


def build(console: Console) -> FastAPI:
    """The API over the logs of a lake. Every route looks, and takes the role read."""
    app = FastAPI(title="Moulin, as Loki", docs_url=None, redoc_url=None, openapi_url=None)

    @contextmanager
    def reading(request: Request) -> Iterator[tuple[Moment, GoOn]]:
        with console.reading(request) as go_on:
            yield console.telemetry.moment(console.telemetry.table("logs")), go_on

    @app.get(f"{_API}/query_range")
    def query_range(
        request: Request,
        query: LogQL,
        start: Text = None,
        end: Text = None,
        since: Text = None,
        step: Text = None,
        limit: Annotated[int, Query(ge=1)] = 100,
        direction: Annotated[str, Query(pattern="(?i)^(forward|backward)$")] = "backward",
        x_loki_response_encoding_flags: Annotated[str, Header(max_length=200)] = "",
    ) -> Response:
        begin, until = range_of(start, end, since, _now())
        asked = parse(query)
        if isinstance(asked, LogQuery):
            forward = direction.lower() == "forward"
            return _lines(request, asked, begin, until, limit, forward, x_loki_response_encoding_flags)
        with reading(request) as (moment, go_on):
            steps, found = evaluate(moment, asked, begin, until, step_of(step, begin, until), go_on)
        return _answer({"resultType": "matrix", "result": matrix_of(steps, found), "stats": {}})

    def _lines(
        request: Request, asked: LogQuery, begin: int, until: int, limit: int, forward: bool, flags: str
    ) -> Response:
        if limit > _MOST_LINES:
            raise InvalidInput(f"A query returns at most {_MOST_LINES} lines: lower the limit.")
        categorized = CATEGORIZED in flags
        with reading(request) as (moment, go_on):
            found = rows.newest(moment, asked, begin, until, limit=limit, forward=forward, go_on=go_on)
        body = {"resultType": "streams", "result": streams_of(found, categorized=categorized), "stats": {}}
        return _answer(body | ({"encodingFlags": [CATEGORIZED]} if categorized else {}))

    @app.get(f"{_API}/query")
    def query_at(
        request: Request,
        query: LogQL,
        at: Annotated[str | None, Query(alias="time", max_length=100)] = None,
        limit: Annotated[int, Query(ge=1)] = 100,
        x_loki_response_encoding_flags: Annotated[str, Header(max_length=200)] = "",
    ) -> Response:
        when = moment_of(at, _now())
        if query.replace(" ", "") == "vector(1)+vector(1)":  # what Grafana asks to see whether a server is there
            return _answer(
                {"resultType": "vector", "result": [{"metric": {}, "value": [when / 1e9, "2"]}], "stats": {}}
            )
        asked = parse(query)
        if isinstance(asked, LogQuery):
            return _lines(request, asked, when - 3600 * SECOND, when, limit, False, x_loki_response_encoding_flags)
        with reading(request) as (moment, go_on):
            steps, found = evaluate(moment, asked, when, when, SECOND, go_on)
        return _answer({"resultType": "vector", "result": vector_of(steps, found), "stats": {}})

    @app.get(f"{_API}/labels")
    @app.get(f"{_API}/label")
    def labels(request: Request) -> Response:
        return _answer(list(rows.LABELS))

    @app.get(f"{_API}/label/{{name}}/values")
    def label_values(
        request: Request,
        name: str,
        start: Text = None,
        end: Text = None,
        since: Text = None,
        query: Annotated[str | None, Query(max_length=5000)] = None,
    ) -> Response:
        if name not in rows.LABELS:
            return _answer([])
        found = _streams(request, [query] if query else [], *range_of(start, end, since, _now()))
        return _answer(sorted({one[name] for one in found}))

    @app.get(f"{_API}/series")
    def series(
        request: Request,
        match: Annotated[list[str] | None, Query(alias="match[]", max_length=20)] = None,
        also: Annotated[list[str] | None, Query(alias="match", max_length=20)] = None,
        start: Text = None,
        end: Text = None,
        since: Text = None,
    ) -> Response:
        return _answer(_streams(request, [*(match or ()), *(also or ())], *range_of(start, end, since, _now())))

    def _streams(request: Request, selectors: list[str], begin: int, until: int) -> list[dict[str, str]]:
        """The streams that any of the selectors selects."""
        found: set[tuple[str, ...]] = set()
        with reading(request) as (moment, go_on):
            for selector in selectors or ["{}"]:
                asked = LogQuery(parse_selector(selector))
                for part in rows.batches(moment, asked, begin, until, go_on=go_on):
                    found.update(rows.codes(part, rows.LABELS)[0])
        return [dict(zip(rows.LABELS, one, strict=True)) for one in sorted(found)]

    @app.get(f"{_API}/index/volume")
    def volume(
        request: Request,
        query: LogQL,
        start: Text = None,
        end: Text = None,
        since: Text = None,
        limit: Annotated[int, Query(ge=1, le=1000)] = 100,
        target: Annotated[str | None, Query(alias="targetLabels", max_length=1000)] = None,
    ) -> Response:
        begin, until = range_of(start, end, since, _now())
        names = tuple(one for one in (target or "service_name").split(",") if one in rows.LABELS)
        asked = RangeQuery("bytes_over_time", LogQuery(parse_selector(query)), max(1, until - begin), "sum", names)
        with reading(request) as (moment, go_on):
            _, found = evaluate(moment, asked, until - 1, until - 1, SECOND, go_on)
        return _answer({"resultType": "vector", "result": volumes(found, until, limit), "stats": {}})

    @app.get(f"{_API}/index/stats")
    def stats(request: Request, query: LogQL, start: Text = None, end: Text = None, since: Text = None) -> Response:
        entries = size = 0
        streams: set[tuple[str, ...]] = set()
        asked = LogQuery(parse_selector(query))
        with reading(request) as (moment, go_on):
            for part in rows.batches(moment, asked, *range_of(start, end, since, _now()), go_on=go_on):
                entries += part.num_rows
                size += pc.sum(pc.binary_length(rows.lines(part))).as_py() or 0
                streams.update(rows.codes(part, rows.LABELS)[0])
        return plain({"streams": len(streams), "chunks": len(streams), "entries": entries, "bytes": size})

    @app.get(f"{_API}/detected_labels")
    def detected_labels(
        request: Request, query: LogQL = "{}", start: Text = None, end: Text = None, since: Text = None
    ) -> Response:
        found = _streams(request, [query or "{}"], *range_of(start, end, since, _now()))
        return plain({"detectedLabels": [
            {"label": name, "cardinality": len({one[name] for one in found})} for name in rows.LABELS if found
        ]})  # fmt: skip

    @app.get(f"{_API}/detected_fields")
    def detected_fields(
        request: Request, query: LogQL, start: Text = None, end: Text = None, since: Text = None,
        limit: Annotated[int, Query(ge=1, le=_MOST_FIELDS)] = _MOST_FIELDS,
    ) -> Response:  # fmt: skip
        found = _metadata(request, query, start, end, since)
        fields = [
            {"label": name, "type": _type(values), "cardinality": len(values), "parsers": None}
            for name, values in sorted(found.items())
        ]
        return plain({"fields": fields[:limit], "limit": limit})

    @app.get(f"{_API}/detected_field/{{name}}/values")
    def detected_values(
        request: Request, name: str, query: LogQL, start: Text = None, end: Text = None, since: Text = None,
        limit: Annotated[int, Query(ge=1, le=_MOST_VALUES)] = _MOST_VALUES,
    ) -> Response:  # fmt: skip
        return plain(
            {"values": sorted(_metadata(request, query, start, end, since).get(name, ()))[:limit], "limit": limit}
        )

    def _metadata(
        request: Request, query: str, start: str | None, end: str | None, since: str | None
    ) -> dict[str, set[str]]:
        """What the newest records that a query selects carry."""
        asked = parse(query)
        log = asked.log if isinstance(asked, RangeQuery) else asked
        with reading(request) as (moment, go_on):
            begin, until = range_of(start, end, since, _now())
            part = rows.newest(moment, log, begin, until, limit=_FIELD_RECORDS, forward=False, go_on=go_on)
        return _values(part)

    @app.get("/ready")
    def ready() -> Response:
        return PlainTextResponse("ready\n")

    @app.get(f"{_API}/status/buildinfo")
    def build_info() -> Response:
        return plain(
            {"version": "3.0.0", "revision": "", "branch": "", "buildDate": "", "buildUser": "", "goVersion": ""}
        )

    answer_errors(app, _refused, f"Loki's API is at {PREFIX}{_API}.")
    return app


def _values(part: pa.Table) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    names = [one for maps in ("attributes", "resource") for one in map(rows.sanitized, rows.unique_keys(part, maps))]
    for name in dict.fromkeys([*names, "trace_id", "span_id", "event_name", "scope_name", "detected_level"]):
        values = {one for one in pc.unique(rows.label(part, name)).to_pylist() if one}
        if values and name not in rows.LABELS:
            found[name] = values
    return found


def _type(values: set[str]) -> str:
    def fits(kind: type) -> bool:
        try:
            return all(np.isfinite(kind(one)) for one in values)
        except (ValueError, OverflowError):
            return False

    if values <= {"true", "false"}:
        return "boolean"
    return "int" if fits(int) else "float" if fits(float) else "string"


def _now() -> int:
    return time.time_ns() + SECOND


def _answer(data: Any) -> Response:
    return plain({"status": "success", "data": data})


def _refused(status: int, message: str) -> Response:
    """An error as Loki has it."""
    return PlainTextResponse(message, status, headers=HEADERS)


__all__ = ["PREFIX", "build"]
