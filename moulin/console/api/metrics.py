"""Metrics: names, and time series."""

# Decisions: docs/decisions/0660

from __future__ import annotations

import math
import time
from typing import Annotated, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Depends, Query, Request

from moulin.console.api.requests import ConsoleOf, takes
from moulin.console.api.shapes import Int64, Shape
from moulin.console.logs.counts import step_of
from moulin.console.metrics import chart, names
from moulin.console.metrics.chart import USUAL_QUANTILES, Asked
from moulin.errors import InvalidInput
from moulin.network.callers import Role

router = APIRouter(prefix="/metrics", tags=["metrics"])
READ = takes(Role.READ)
_SECOND: Final = 1_000_000_000
_MOST_FILTERS: Final = 20
_MOST_VALUES: Final = 200
_USUAL_STEPS: Final = 120

_TableId = Annotated[UUID | None, Query(description="The id of a table of metrics; without it `otel.metrics`.")]
_Nanos = Annotated[int | None, Query(ge=0, lt=1 << 62)]
_Name = Annotated[str, Query(max_length=1000)]
_Key = Annotated[str, Query(max_length=1000)]
_Last = Annotated[int, Query(ge=1, le=10 * 366 * 86400, description="Without `start`: seconds back from `end`.")]
_Stat = Literal["avg", "min", "max", "sum", "rate", "increase", "quantile", "mean"]


class MetricTable(Shape):
    """A table that holds metrics."""

    id: str
    database: str
    name: str


class MetricTables(Shape):
    """The tables with metrics, the one to begin with first; `now` is the time of the server."""

    items: list[MetricTable]
    now: Int64


class MetricShape(Shape):
    """A metric. `attributes` are the names of those that its points have."""

    name: str
    kind: str
    unit: str
    temporality: str
    monotonic: bool
    description: str
    points: Int64
    attributes: list[str]


class MetricNames(Shape):
    """The metrics of a range, by name. `left_out` baby segments wait for the nursery and were not read."""

    items: list[MetricShape]
    start: Int64
    end: Int64
    version: Int64
    left_out: int


class AttributeValues(Shape):
    """The values of an attribute, in order; `more` says that there are others."""

    values: list[str]
    more: bool


class LineShape(Shape):
    """A value for each step, null where there is none. `quantile` is set for percentiles."""

    labels: dict[str, str | None]
    quantile: float | None
    values: list[float | None]


class ExemplarShape(Shape):
    """A single value that the metric kept, and its trace."""

    time: Int64
    value: float
    trace_id: str
    span_id: str | None
    attributes: dict[str, str]


class MetricChart(Shape):
    """The lines of a metric: step n begins at `first` + n * `step`. There would be `groups` lines or more without a
    limit; `left_out` baby segments wait for the nursery and were not read."""

    name: str
    kind: str
    unit: str
    stat: str
    start: Int64
    end: Int64
    first: Int64
    step: Int64
    lines: list[LineShape]
    groups: int
    exemplars: list[ExemplarShape]
    version: Int64
    left_out: int


class _Range:
    """The range of a question."""

    def __init__(self, start: _Nanos = None, end: _Nanos = None, last: _Last = 3600) -> None:
        self.end = time.time_ns() + _SECOND if end is None else end
        self.start = max(0, self.end - last * _SECOND) if start is None else start
        if self.start >= self.end:
            raise InvalidInput("The range is empty: its end must be later than its start.")


_RangeOf = Annotated[_Range, Depends(_Range)]


@router.get("/tables", **READ)
def list_metric_tables(console: ConsoleOf) -> MetricTables:
    """The tables that hold metrics. None is no error: it is a lake without telemetry."""
    items = [MetricTable(id=str(x.id), database=x.database, name=x.name) for x in console.telemetry.tables("metrics")]
    return MetricTables(items=items, now=time.time_ns())


@router.get("/names", **READ)
def list_metric_names(request: Request, console: ConsoleOf, within: _RangeOf, table: _TableId = None) -> MetricNames:
    """The metrics that have points in a range, with their kind, unit and attributes."""
    with console.reading(request) as go_on:
        moment = console.telemetry.moment(console.telemetry.table("metrics", table))
        found = names.list_metrics(moment, moment.where(within.start, within.end), attributes=True, go_on=go_on)
    items = [
        MetricShape(
            name=one.name,
            kind=one.kind,
            unit=one.unit,
            temporality=one.temporality,
            monotonic=one.monotonic,
            description=one.description[:2000],
            points=one.points,
            attributes=sorted(one.attributes),
        )
        for one in found
    ]
    return MetricNames(
        items=items, start=within.start, end=within.end, version=moment.version, left_out=moment.left_out
    )


@router.get("/values", **READ)
def list_attribute_values(
    request: Request, console: ConsoleOf, within: _RangeOf, name: _Name, key: _Key, table: _TableId = None
) -> AttributeValues:
    """The values that an attribute of a metric has in a range, at most 200."""
    with console.reading(request) as go_on:
        moment = console.telemetry.moment(console.telemetry.table("metrics", table))
        asked = moment.where(within.start, within.end, None, [names.is_named(moment.schema, name)])
        found = names.attribute_values(moment, asked, key, most=_MOST_VALUES + 1, go_on=go_on)
    return AttributeValues(values=found[:_MOST_VALUES], more=len(found) > _MOST_VALUES)


@router.get("/query", **READ)
def query_metric(
    request: Request,
    console: ConsoleOf,
    within: _RangeOf,
    name: _Name,
    where: Annotated[
        list[_Key] | None,
        Query(
            max_length=_MOST_FILTERS,
            description="Such as `http.route=/cart`. In the key, = is %3D, and % is %25.",
        ),
    ] = None,
    by: Annotated[list[_Key] | None, Query(max_length=8, description="Attributes: a line for each value.")] = None,
    stat: _Stat | None = None,
    quantile: Annotated[list[float] | None, Query(max_length=10)] = None,
    kind: Annotated[str | None, Query(max_length=100)] = None,
    step: Annotated[int | None, Query(ge=1_000_000, lt=1 << 62, description="Nanoseconds.")] = None,
    table: _TableId = None,
) -> MetricChart:
    """The lines of a metric: values of gauges, rates of counters by second, percentiles of histograms."""
    if any(not 0 <= one <= 1 for one in quantile or ()):
        raise InvalidInput("A quantile must be a number from 0 to 1, such as 0.99.")
    asked = Asked(
        name,
        within.start,
        within.end,
        step_of(within.start, within.end, _USUAL_STEPS) if step is None else step,
        [_pair(one) for one in where or ()],
        list(dict.fromkeys(by or ())),
        stat,
        sorted(set(quantile)) if quantile else USUAL_QUANTILES,
        kind,
    )
    with console.reading(request) as go_on:
        moment = console.telemetry.moment(console.telemetry.table("metrics", table))
        found = chart.draw(moment, asked, go_on)
    return MetricChart(
        name=name,
        kind=found.kind,
        unit=found.unit,
        stat=found.stat,
        start=within.start,
        end=within.end,
        first=found.first,
        step=found.step,
        lines=[
            LineShape(labels=dict(one.labels), quantile=one.quantile, values=[_finite(x) for x in one.values.tolist()])
            for one in found.lines
        ],
        groups=found.groups,
        exemplars=[
            ExemplarShape(
                time=one.time,
                value=one.value,
                trace_id=one.trace_id,
                span_id=one.span_id,
                attributes=dict(one.attributes),
            )
            for one in found.exemplars
            if math.isfinite(one.value)
        ],
        version=moment.version,
        left_out=moment.left_out,
    )


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise InvalidInput(f"The parameter 'where' must be key=value, not {text[:100]!r}.")
    return key.replace("%3D", "=").replace("%25", "%"), value


def _finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


__all__ = ["router"]
