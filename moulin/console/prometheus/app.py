"""Prometheus' HTTP API under `/prometheus`: instant and range queries, labels, series and metadata."""

# Decisions: docs/decisions/0662

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final

import numpy as np
from fastapi import FastAPI, Query, Request, Response

from moulin.console.api.requests import Console
from moulin.console.loki.parameters import moment_of, step_of
from moulin.console.metrics.names import Metric, list_metrics
from moulin.console.prometheus.engine import MOST_STEPS, Engine, Value
from moulin.console.prometheus.forms import Forms
from moulin.console.prometheus.promql import Matcher, parse, parse_selector
from moulin.console.prometheus.samples import MILLI, Labels, base_name, exposed, go_float, label_name, select
from moulin.console.prometheus.vectors import Vector
from moulin.console.refusals import answer_errors, plain
from moulin.console.telemetry import GoOn, Moment
from moulin.errors import InvalidInput

PREFIX: Final = "/prometheus"
_API: Final = "/api/v1"
_HOUR: Final = 3600 * 1000
_FIXED: Final = ("__name__", "instance", "job")
_KINDS: Final = {"sum": "gauge", "exponential_histogram": "histogram"}
MOST_ANSWERED: Final = 1_000_000
"""Values of an answer. Each of them is a text that takes a hundred times the memory of a number."""
Text = Annotated[str | None, Query(max_length=100)]
PromQL = Annotated[str, Query(max_length=5000)]
Match = Annotated[list[str] | None, Query(alias="match[]", max_length=20)]


def build(console: Console) -> FastAPI:
    """The API over the metrics of a lake. Every route looks, and takes the role read."""
    app = FastAPI(title="Moulin, as Prometheus", docs_url=None, redoc_url=None, openapi_url=None)

    @contextmanager
    def reading(request: Request) -> Iterator[tuple[Moment, GoOn]]:
        with console.reading(request) as go_on:
            yield console.telemetry.moment(console.telemetry.table("metrics")), go_on

    def evaluate(request: Request, query: str, steps: np.ndarray[Any, np.dtype[np.int64]]) -> Value:
        node = parse(query)
        with reading(request) as (moment, go_on):
            found = Engine(steps, lambda matchers, a, b: select(moment, matchers, a, b, go_on), go_on).run(node)
        if isinstance(found, Vector) and np.count_nonzero(found.known) > MOST_ANSWERED:
            raise InvalidInput(
                f"More than {MOST_ANSWERED:,} values are the result: sum by fewer labels, or ask for longer steps."
            )
        return found

    @app.get(f"{_API}/query")
    def query_at(
        request: Request, query: PromQL, at: Annotated[str | None, Query(alias="time", max_length=100)] = None
    ) -> Response:
        when = moment_of(at, time.time_ns()) // MILLI
        found = evaluate(request, query, np.array([when], np.int64))
        if not isinstance(found, Vector):
            return _answer({"resultType": "scalar", "result": [when / 1000, go_float(float(found[0]))]})
        result = [
            {"metric": dict(labels), "value": [when / 1000, go_float(float(row[0]))]}
            for labels, row, known in zip(found.labels, found.values, found.known, strict=True)
            if known[0]
        ]
        return _answer({"resultType": "vector", "result": result})

    @app.get(f"{_API}/query_range")
    def query_range(
        request: Request,
        query: PromQL,
        start: Annotated[str, Query(max_length=100)],
        end: Annotated[str, Query(max_length=100)],
        step: Annotated[str, Query(max_length=100)],
    ) -> Response:
        begin, until = (moment_of(text, 0) // MILLI for text in (start, end))
        apart = max(1, step_of(step, 0, 0) // MILLI)
        if until < begin:
            raise InvalidInput("The range is empty: its end must not be before its start.")
        if (until - begin) // apart >= MOST_STEPS:
            raise InvalidInput(f"A query has at most {MOST_STEPS:,} steps: ask for longer ones, or a shorter range.")
        steps = np.arange(begin, until + 1, apart, dtype=np.int64)
        return _answer({"resultType": "matrix", "result": _matrix(evaluate(request, query, steps), steps)})

    @app.get(f"{_API}/labels")
    def labels(request: Request, match: Match = None, start: Text = None, end: Text = None) -> Response:
        found = set(_FIXED)
        if match:
            found |= {name for one in _series(request, match, start, end) for name, _ in one}
        else:
            for metric in _metrics(request, start, end, attributes=True):
                found |= {label_name(key) for key in metric.attributes}
                found |= {"le"} if "histogram" in metric.kind else set()
        return _answer(sorted(found))

    @app.get(f"{_API}/label/{{name}}/values")
    def label_values(
        request: Request, name: str, match: Match = None, start: Text = None, end: Text = None
    ) -> Response:
        if name == "__name__" and not match:
            names = {one for metric in _metrics(request, start, end) for one in exposed(metric)}
            return _answer(sorted(names))
        selected = match or [f'{{{name}!="",__name__=~".+"}}']
        found = {value for one in _series(request, selected, start, end) for key, value in one if key == name}
        return _answer(sorted(found))

    @app.get(f"{_API}/series")
    def series(request: Request, match: Match = None, start: Text = None, end: Text = None) -> Response:
        if not match:
            raise InvalidInput("The parameter 'match[]' is required: give a selector.")
        return _answer([dict(one) for one in _series(request, match, start, end)])

    @app.get(f"{_API}/metadata")
    def metadata(request: Request, metric: Annotated[str | None, Query(max_length=1000)] = None) -> Response:
        found: dict[str, list[dict[str, str]]] = {}
        for one in _metrics(request, None, None):
            name = base_name(one.name, one.unit, one.kind, one.monotonic)
            kind = "counter" if one.kind == "sum" and one.monotonic else _KINDS.get(one.kind, one.kind)
            line = {"type": kind, "help": one.description[:2000], "unit": one.unit}
            if metric in (None, "", name) and line not in found.setdefault(name, []):
                found[name].append(line)
        return _answer(found)

    @app.get(f"{_API}/status/buildinfo")
    def build_info() -> Response:
        return _answer(
            {"version": "3.0.0", "revision": "", "branch": "", "buildUser": "", "buildDate": "", "goVersion": ""}
        )

    @app.get(f"{_API}/rules")
    def rules() -> Response:
        return _answer({"groups": []})

    def _range(start: str | None, end: str | None) -> tuple[int, int]:
        until = moment_of(end, time.time_ns()) // MILLI
        return moment_of(start, (until - _HOUR) * MILLI) // MILLI, until

    def _metrics(request: Request, start: str | None, end: str | None, *, attributes: bool = False) -> Sequence[Metric]:
        begin, until = _range(start, end)
        with reading(request) as (moment, go_on):
            within = moment.where(begin * MILLI, (until + 1) * MILLI)
            return list_metrics(moment, within, attributes=attributes, go_on=go_on)

    def _series(request: Request, match: Sequence[str], start: str | None, end: str | None) -> list[Labels]:
        begin, until = _range(start, end)
        chosen: list[Sequence[Matcher]] = [parse_selector(one).matchers for one in match]
        with reading(request) as (moment, go_on):
            found = {one.labels for matchers in chosen for one in select(moment, matchers, begin, until, go_on)}
        return sorted(found)

    answer_errors(app, _refused, f"Prometheus' API is at {PREFIX}{_API}.")
    app.add_middleware(Forms, prefix=PREFIX)
    return app


def _matrix(found: Value, steps: np.ndarray[Any, np.dtype[np.int64]]) -> list[dict[str, Any]]:
    if not isinstance(found, Vector):
        found = Vector([()], found[None, :], np.ones((1, len(steps)), np.bool_))
    seconds = (steps / 1000).tolist()
    result = []
    for labels, row, known in zip(found.labels, found.values.tolist(), found.known.tolist(), strict=True):
        values = [[at, go_float(value)] for at, value, held in zip(seconds, row, known, strict=True) if held]
        if values:
            result.append({"metric": dict(labels), "values": values})
    return result


def _answer(data: Any) -> Response:
    return plain({"status": "success", "data": data})


def _refused(status: int, message: str) -> Response:
    """An error as Prometheus has it."""
    kind = {400: "bad_data", 404: "not_found", 503: "unavailable"}.get(status, "internal")
    return plain({"status": "error", "errorType": kind, "error": message}, status)


__all__ = ["PREFIX", "build"]
