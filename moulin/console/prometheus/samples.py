"""Points of metrics as Prometheus' series, by OpenTelemetry's rules for the translation of names."""

# Decisions: docs/decisions/0662

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa

from moulin.console.metrics.buckets import EXPLICIT, EXPONENTIAL, explicit, exponential
from moulin.console.metrics.names import Metric, is_named, list_metrics
from moulin.console.metrics.points import NO_VALUE, Floats, Points, Series, read_points
from moulin.console.prometheus.promql import Matcher
from moulin.console.prometheus.windows import LOOKBACK, Mask, Times
from moulin.console.telemetry import GoOn, Moment
from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.predicate.condition import disjunction

MILLI: Final = 1_000_000
MOST_SERIES: Final = 10_000
MOST_SAMPLES: Final = 5_000_000
_LONGEST_PATTERN: Final = 1000
_MOST_METRICS: Final = 200
_ODD: Final = re.compile(r"[^A-Za-z0-9_:]+")
_UNITS: Final = {
    "d": "days",
    "h": "hours",
    "min": "minutes",
    "s": "seconds",
    "ms": "milliseconds",
    "us": "microseconds",
    "ns": "nanoseconds",
    "By": "bytes",
    "KiBy": "kibibytes",
    "MiBy": "mebibytes",
    "GiBy": "gibibytes",
    "KBy": "kilobytes",
    "MBy": "megabytes",
    "GBy": "gigabytes",
    "m": "meters",
    "V": "volts",
    "A": "amperes",
    "J": "joules",
    "W": "watts",
    "g": "grams",
    "Cel": "celsius",
    "Hz": "hertz",
    "%": "percent",
}
_PER: Final = {"s": "second", "m": "minute", "h": "hour", "d": "day", "w": "week", "mo": "month", "y": "year"}
_HISTOGRAMS: Final = ("histogram", "exponential_histogram")
Labels = tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Samples:
    """A series: times in milliseconds, and where `stale`, a marker that there is no value from here on."""

    labels: Labels
    times: Times
    values: Floats
    stale: Mask


def base_name(name: str, unit: str, kind: str, monotonic: bool) -> str:
    """The name of a metric in Prometheus, with its unit, and `_total` for a counter."""
    words = [one for one in _ODD.sub("_", name).split("_") if one]
    main, _, per = unit.partition("/")
    for one in (_unit(main), f"per_{_PER.get(per, _unit(per))}" if _unit(per) else ""):
        missing = [word for word in one.split("_") if word]
        if missing and words[-len(missing) :] != missing and one not in words:
            words += missing
    if kind == "gauge" and unit == "1" and "ratio" not in words:
        words.append("ratio")
    if kind == "sum" and monotonic:
        words = [*(one for one in words if one != "total"), "total"]
    found = "_".join(words) or "_"
    return "_" + found if found[0].isdigit() else found


def _unit(text: str) -> str:
    plain = text.strip()
    return "" if not plain or plain == "1" or "{" in plain else _UNITS.get(plain, _ODD.sub("_", plain).strip("_"))


def exposed(metric: Metric) -> list[str]:
    """The names under which a metric has series."""
    base = base_name(metric.name, metric.unit, metric.kind, metric.monotonic)
    if metric.kind in _HISTOGRAMS:
        return [f"{base}_bucket", f"{base}_count", f"{base}_sum"]
    return [f"{base}_count", f"{base}_sum"] if metric.kind == "summary" else [base]


def label_name(key: str) -> str:
    found = re.sub(r"[^A-Za-z0-9_]", "_", key) or "_"
    return "_" + found if found[0].isdigit() else found


def select(moment: Moment, matchers: Sequence[Matcher], start: int, end: int, go_on: GoOn) -> list[Samples]:
    """The series with samples in [start, end] milliseconds that all matchers hold for."""
    if holds_all([""], matchers)[0]:  # reads every pattern, too
        raise InvalidInput("A selector names a metric, or asks for one label that is not empty.")
    first = start - LOOKBACK  # what delta counters had by then is not known; a little is, so that rates are right
    within = moment.where(first * MILLI, (end + 1) * MILLI)
    names = [one for one in matchers if one.label == "__name__"]
    known = list_metrics(moment, within, attributes=False, go_on=go_on)
    wanted = sorted({one.name for one in known if holds_all(exposed(one), names).any()})
    if not wanted:
        return []
    if len(wanted) > _MOST_METRICS:
        raise InvalidInput(f"This selects more than {_MOST_METRICS} metrics: name fewer.")
    columns = ["value", "value_int", "count", "sum", *EXPLICIT, *EXPONENTIAL]
    asked = moment.where(
        first * MILLI, (end + 1) * MILLI, None, [disjunction(is_named(moment.schema, name) for name in wanted)]
    )
    points = read_points(moment, asked, columns, go_on=go_on)
    found: dict[Labels, list[Samples]] = {}
    total = 0
    for number, part in points.runs():
        go_on()
        for one in _series(points, number, part, names):
            if one.times[-1] >= start:
                found.setdefault(one.labels, []).append(one)
            total += len(one.times)
            if total > MOST_SAMPLES:
                raise InvalidInput(f"More than {MOST_SAMPLES:,} samples fit: ask for a shorter range or fewer series.")
    kept = _kept(list(found), [one for one in matchers if one.label != "__name__"])
    if len(kept) > MOST_SERIES:
        raise InvalidInput(f"More than {MOST_SERIES:,} series fit: ask for fewer by their labels.")
    return [_joined(labels, found[labels]) for labels in sorted(kept)]


def _kept(labels: list[Labels], matchers: Sequence[Matcher]) -> list[Labels]:
    mask = np.ones(len(labels), np.bool_)
    for one in matchers:
        mask &= holds_all([dict(found).get(one.label, "") for found in labels], [one])
    return [found for found, kept in zip(labels, mask.tolist(), strict=True) if kept]


def holds_all(values: list[str], matchers: Sequence[Matcher]) -> Mask:
    """For which values all matchers hold. Arrow searches with RE2, which takes linear time whatever the pattern."""
    mask = np.ones(len(values), np.bool_)
    texts = pa.array(values, pa.string())
    for one in matchers:
        if one.operator in ("=", "!="):
            found = np.array([value == one.value for value in values], np.bool_)
        else:
            if len(one.value) > _LONGEST_PATTERN:
                raise InvalidInput(f"A pattern has at most {_LONGEST_PATTERN} characters.")
            try:
                matched = pc.match_substring_regex(texts, f"\\A(?s:{one.value})\\z")
            except (pa.ArrowInvalid, UnicodeEncodeError) as error:
                raise InvalidInput(f"A pattern cannot be read: {str(error)[:200]}.") from None
            found = np.asarray(matched.to_numpy(zero_copy_only=False), np.bool_)
        mask &= ~found if one.operator in ("!=", "!~") else found
    return mask


def _series(points: Points, number: int, part: slice, names: Sequence[Matcher]) -> list[Samples]:
    """The series that the points of one have under the names that are asked for."""
    series = points.series[number]
    base = base_name(series.name, series.unit, series.kind, series.monotonic)
    own = points.take(np.arange(part.start, part.stop))
    times, stale = own.times // MILLI, (own.flags() & NO_VALUE) != 0
    shared = _labels(series)

    def make(name: str, values: Callable[[], Floats], *, counts: bool, extra: Labels = ()) -> list[Samples]:
        if not holds_all([name], names)[0]:
            return []
        found = values()
        if counts and series.is_delta:
            found = np.cumsum(np.nan_to_num(found))
        return [Samples(tuple(sorted([*shared, ("__name__", name), *extra])), times, found, stale)]

    if series.kind in ("gauge", "sum"):
        return make(base, own.values, counts=series.kind == "sum")
    made = make(f"{base}_count", lambda: own.number("count"), counts=True)
    made += make(f"{base}_sum", lambda: own.number("sum"), counts=True)
    if series.kind in _HISTOGRAMS and holds_all([f"{base}_bucket"], names)[0]:
        bounds, reached = (explicit if series.kind == "histogram" else exponential)(own.rows)
        for at, bound in enumerate(bounds.tolist()):
            column = reached[:, at]
            made += make(f"{base}_bucket", partial(np.asarray, column), counts=True, extra=(("le", go_float(bound)),))
    return made


def _labels(series: Series) -> list[tuple[str, str]]:
    """Attributes; `job` and `instance` say which service sent them, as Prometheus has it."""
    resource = dict(series.resource)
    space, instance = resource.get("service.namespace"), resource.get("service.instance.id")
    found = {label_name(key): value for key, value in series.attributes if value}
    if series.service:
        found["job"] = f"{space}/{series.service}" if space else series.service
    if instance:
        found["instance"] = instance
    found.pop("__name__", None)
    return list(found.items())


def _joined(labels: Labels, parts: list[Samples]) -> Samples:
    """One series of those with the same labels, such as of two scopes; of two samples of one time, one."""
    if len(parts) == 1 and (np.diff(parts[0].times) > 0).all():
        return parts[0]
    times = np.concatenate([one.times for one in parts])
    values, stale = np.concatenate([one.values for one in parts]), np.concatenate([one.stale for one in parts])
    _, at = np.unique(times, return_index=True)
    return Samples(labels, times[at], values[at], stale[at])


def go_float(value: float) -> str:
    """A number as Go writes it at its shortest."""
    if value != value:
        return "NaN"
    if abs(value) == float("inf"):
        return "+Inf" if value > 0 else "-Inf"
    if value == int(value) and abs(value) < 1e15:
        return str(int(value))
    text = repr(float(value))
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        return text
    return f"{mantissa.removesuffix('.0')}e{exponent[0]}{exponent[1:].rjust(2, '0')}"


__all__ = ["MILLI", "Labels", "Samples", "base_name", "exposed", "go_float", "holds_all", "label_name", "select"]
