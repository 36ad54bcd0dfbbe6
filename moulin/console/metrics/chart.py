"""The lines of one metric along time: values of gauges, rates of counters, percentiles of histograms."""

# Decisions: docs/decisions/0660

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from moulin.console.metrics.buckets import EXPLICIT, EXPONENTIAL, explicit, exponential, quantiles
from moulin.console.metrics.curves import gains
from moulin.console.metrics.exemplars import Exemplar, exemplars_of
from moulin.console.metrics.names import is_named
from moulin.console.metrics.points import NO_VALUE, Floats, Points, Series, read_points, start_columns
from moulin.console.telemetry import GoOn, Moment, Times, column
from moulin.errors import InvalidInput, NotFound
from moulin.model.predicate.condition import Compare, Condition, disjunction
from moulin.model.where.conditions import compare
from moulin.model.where.formula import map_value
from moulin.model.where.literal import Literal, check_unicode

MOST_STEPS: Final = 2000
MOST_LINES: Final = 100
_AROUND: Final = 300 * 1_000_000_000
"""How far before and after a range counters are read, so that its first and last step know where they were."""
GAUGE_STATS: Final = ("avg", "min", "max", "sum")
COUNTER_STATS: Final = ("rate", "increase")
HISTOGRAM_STATS: Final = ("quantile", "mean", *COUNTER_STATS)
USUAL_QUANTILES: Final = (0.5, 0.9, 0.99)
STATS: Final = (*GAUGE_STATS, *HISTOGRAM_STATS)


@dataclass(frozen=True, slots=True)
class Asked:
    """A metric in [start, end), in steps of nanoseconds, where attributes have these values; one line for each
    combination of the values of `by`. Without `stat`, what suits the kind of the metric."""

    name: str
    start: int
    end: int
    step: int
    equal: Sequence[tuple[str, str]] = ()
    by: Sequence[str] = ()
    stat: str | None = None
    quantiles: Sequence[float] = USUAL_QUANTILES
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class Line:
    """A value for each step, NaN where there is none. `quantile` is set for percentiles alone."""

    labels: tuple[tuple[str, str | None], ...]
    quantile: float | None
    values: Floats


@dataclass(frozen=True, slots=True)
class Chart:
    """Step n begins at `first` + n * `step`. `groups` counts the lines there would be without a limit."""

    kind: str
    unit: str
    stat: str
    first: int
    step: int
    lines: list[Line]
    groups: int
    exemplars: list[Exemplar]


def draw(moment: Moment, asked: Asked, go_on: GoOn) -> Chart:
    """The chart of a metric. NotFound when it has no points in the range, InvalidInput for a stat that it lacks."""
    first = asked.start // asked.step * asked.step
    if (width := -(-(asked.end - first) // asked.step)) > MOST_STEPS:
        raise InvalidInput(f"A chart has at most {MOST_STEPS} steps: ask for longer ones, or for a shorter range.")
    edges = first + asked.step * np.arange(width + 1, dtype=np.int64)
    kind, points = _read(moment, asked, go_on)
    allowed, usual = _stats(kind, points)
    stat = asked.stat or usual
    if stat not in allowed:
        raise InvalidInput(f"A metric of the kind {kind} has {', '.join(allowed)}, and not {stat}.")
    groups: dict[tuple[str | None, ...], list[tuple[int, slice]]] = {}
    for number, part in points.runs():
        groups.setdefault(tuple(points.series[number].value(key) for key in asked.by), []).append((number, part))
    lines: list[Line] = []
    for values in sorted(groups, key=lambda one: [(value is None, value or "") for value in one])[:MOST_LINES]:
        go_on()
        labels = tuple(zip(asked.by, values, strict=True))
        drawn = _DRAW[stat](_Group(points, groups[values], edges, asked, kind, stat))
        lines += [Line(labels, quantile, found) for quantile, found in drawn if not np.isnan(found).all()]
    shown = exemplars_of(points, asked.start, asked.end)
    unit = next((series.unit for series in points.series if series.unit), "")
    return Chart(kind, unit, stat, first, asked.step, lines, len(groups), shown)


def _read(moment: Moment, asked: Asked, go_on: GoOn) -> tuple[str, Points]:
    """The points, of one kind: a name may come with two."""
    schema = moment.schema
    also: list[Condition] = [is_named(schema, asked.name)]
    for key, value in asked.equal:
        check_unicode(key + value)
        terms = [map_value(column(schema, maps), key) for maps in ("attributes", "resource")]
        also.append(disjunction(compare("=", term, Literal(value, "a text")) for term in terms))
    if asked.kind is not None:
        also.append(Compare(column(schema, "kind"), "=", asked.kind))
    around = max(asked.step, _AROUND)
    names = ["value", "value_int", "count", "sum", *start_columns(moment), "kind", "exemplars", "quantiles"]
    wanted = moment.where(asked.start - around, asked.end + around, None, also)
    points = read_points(moment, wanted, [*names, *EXPLICIT, *EXPONENTIAL], go_on=go_on)
    held = (points.flags() & NO_VALUE) == 0
    kinds = sorted({points.series[number].kind for number, _ in points.runs()})
    if not kinds:
        raise NotFound(f"No point of a metric {asked.name[:200]!r} with these attributes is in this range.")
    if len(kinds) > 1:
        raise InvalidInput(f"This metric comes as {' and as '.join(kinds)}: name one with `kind`.")
    return kinds[0], points.take(held)


def _stats(kind: str, points: Points) -> tuple[tuple[str, ...], str]:
    """The stats of a kind of metric, and the usual one."""
    if kind in ("histogram", "exponential_histogram"):
        return HISTOGRAM_STATS, "quantile"
    if kind == "summary":
        return ("quantile", "mean", *COUNTER_STATS), "quantile"
    if kind == "sum" and any(series.monotonic for series in points.series):
        return (*COUNTER_STATS, *GAUGE_STATS), "rate"
    return GAUGE_STATS, "avg" if kind == "gauge" else "sum"


@dataclass(frozen=True)
class _Group:
    """The series of a line."""

    points: Points
    runs: Sequence[tuple[int, slice]]
    edges: Times
    asked: Asked
    kind: str
    stat: str

    @property
    def width(self) -> int:
        return len(self.edges) - 1

    def gained(self, counts: Floats) -> tuple[Floats, Floats]:
        """What all series gained by step, and the same by second; counts has a row for each point."""
        shape = (self.width, counts.shape[1])
        found, rate = np.zeros(shape), np.zeros(shape)
        known = np.zeros(self.width, np.bool_)
        starts = self.points.starts()
        for number, part in self.runs:
            series: Series = self.points.series[number]
            mine, seconds = gains(
                self.points.times[part],
                counts[part],
                starts[part],
                self.edges,
                is_delta=series.is_delta,
                total=counts[part][:, -1],
            )
            found += mine
            covered = seconds > 0
            known |= covered
            rate[covered] += mine[covered] / seconds[covered, None]
        found[~known], rate[~known] = np.nan, np.nan
        return found, rate


def _gauge(group: _Group) -> list[tuple[float | None, Floats]]:
    points, width = group.points, group.width
    index = np.concatenate([np.arange(part.start, part.stop) for _, part in group.runs])
    step = (points.times[index] - group.edges[0]) // group.asked.step
    values = points.values()[index]
    inside = (step >= 0) & (step < width) & ~np.isnan(values)
    index, step, values = index[inside], step[inside], values[inside]
    if group.stat == "sum":  # the last value that each series has in a step
        last = np.append((np.diff(points.of[index]) != 0) | (np.diff(step) != 0), True) if len(index) else inside[:0]
        index, step, values = index[last], step[last], values[last]
    counts = np.bincount(step, minlength=width)
    if group.stat in ("min", "max"):
        found = np.full(width, np.inf if group.stat == "min" else -np.inf)
        (np.minimum if group.stat == "min" else np.maximum).at(found, step, values)
    else:
        found = np.bincount(step, values, minlength=width)
        if group.stat == "avg":
            found = np.divide(found, counts, out=np.zeros(width), where=counts > 0)
    return [(None, np.where(counts > 0, found, np.nan))]


def _counter(group: _Group) -> list[tuple[float | None, Floats]]:
    counts = group.points.values() if group.kind == "sum" else group.points.number("count")
    found, rate = group.gained(np.nan_to_num(counts)[:, None])
    return [(None, (rate if group.stat == "rate" else found)[:, 0])]


def _mean(group: _Group) -> list[tuple[float | None, Floats]]:
    counts = np.stack([np.nan_to_num(group.points.number(name)) for name in ("sum", "count")], axis=1)
    found, _ = group.gained(counts)
    some = found[:, 1] > 0
    return [(None, np.divide(found[:, 0], found[:, 1], out=np.full(group.width, np.nan), where=some))]


def _percentiles(group: _Group) -> list[tuple[float | None, Floats]]:
    if group.kind == "summary":
        return _summary(group)
    # Of its own series alone: others may have other bounds.
    index = np.concatenate([np.arange(part.start, part.stop) for _, part in group.runs])
    own = group.points.take(index)
    bounds, reached = (explicit if group.kind == "histogram" else exponential)(own.rows)
    found, _ = _Group(own, own.runs(), group.edges, group.asked, group.kind, group.stat).gained(reached)
    shown = quantiles(bounds, np.nan_to_num(found), np.asarray(group.asked.quantiles, float))
    return [(quantile, shown[:, at]) for at, quantile in enumerate(group.asked.quantiles)]


def _summary(group: _Group) -> list[tuple[float | None, Floats]]:
    """What senders computed: the highest of each step, since percentiles cannot be joined."""
    found: dict[float, Floats] = {}
    for _, part in group.runs:
        steps = (group.points.times[part] - group.edges[0]) // group.asked.step
        for step, pairs in zip(steps.tolist(), group.points.rows.column("quantiles")[part].to_pylist(), strict=True):
            if 0 <= step < group.width:
                for one in pairs or ():
                    line = found.setdefault(one["quantile"], np.full(group.width, np.nan))
                    line[step] = np.fmax(line[step], one["value"])
    return [(quantile, found[quantile]) for quantile in sorted(found)]


_DRAW: Final = {
    **dict.fromkeys(GAUGE_STATS, _gauge),
    **dict.fromkeys(COUNTER_STATS, _counter),
    "mean": _mean,
    "quantile": _percentiles,
}

__all__ = ["MOST_LINES", "MOST_STEPS", "STATS", "USUAL_QUANTILES", "Asked", "Chart", "Line", "draw"]
