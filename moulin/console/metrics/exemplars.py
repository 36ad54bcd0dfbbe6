"""Exemplars: single values that a metric kept, with the trace that each belongs to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from moulin.console.metrics.points import Points
from moulin.console.traces.attributes import event_time, in_hex
from moulin.model.columns import compute as pc
from moulin.model.rows.nano_datetime import to_rows

MOST_EXEMPLARS: Final = 200
_POINTS_LOOKED_AT: Final = 2000


@dataclass(frozen=True, slots=True)
class Exemplar:
    time: int
    value: float
    trace_id: str
    span_id: str | None
    attributes: tuple[tuple[str, str], ...]


def exemplars_of(points: Points, start: int, end: int) -> list[Exemplar]:
    """The newest exemplars of a range that name a trace, by time."""
    lists = points.rows.column("exemplars")
    some = np.flatnonzero(np.asarray(pc.fill_null(pc.list_value_length(lists), 0)) > 0)
    some = some[points.times[some] >= start]
    some = some[np.argsort(points.times[some], kind="stable")][-_POINTS_LOOKED_AT:]
    held = to_rows(points.rows.select(["exemplars"]).take(some), pairs=True)
    found: dict[tuple[int, str, float], Exemplar] = {}
    for row, at in zip(held, some.tolist(), strict=True):
        for one in row["exemplars"] or ():
            trace, value = in_hex(one["trace_id"]), one["value"] if one["value_int"] is None else one["value_int"]
            when = event_time(one) or int(points.times[at])
            if trace is not None and value is not None and start <= when < end:
                series = points.series[int(points.of[at])]
                key = (when, trace, float(value))
                found[key] = Exemplar(when, float(value), trace, in_hex(one["span_id"]), series.attributes)
    return sorted(found.values(), key=lambda one: one.time)[-MOST_EXEMPLARS:]


__all__ = ["MOST_EXEMPLARS", "Exemplar", "exemplars_of"]
