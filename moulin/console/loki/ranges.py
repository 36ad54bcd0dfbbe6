"""Counts of records over time: for each step, of the range before it, by labels."""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from moulin.console.loki import rows
from moulin.console.loki.logql import SECOND, RangeQuery
from moulin.console.telemetry import GoOn, Moment
from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc

MOST_SERIES: Final = 500
MOST_STEPS: Final = 11_000
Labels = tuple[tuple[str, str], ...]
Floats = npt.NDArray[np.float64]


def evaluate(
    moment: Moment, query: RangeQuery, start: int, end: int, step: int, go_on: GoOn
) -> tuple[npt.NDArray[np.int64], dict[Labels, Floats]]:
    """The steps, and for each series its value at each of them, NaN where no record is in the range."""
    if (end - start) // step >= MOST_STEPS:
        raise InvalidInput(f"A query has at most {MOST_STEPS:,} steps: ask for longer ones, or for a shorter range.")
    steps = np.arange(start, end + 1, step, dtype=np.int64)
    if query.aggregate == "sum" and not query.without:
        names: tuple[str, ...] = query.labels
    else:
        names = tuple(dict.fromkeys([*rows.LABELS, *(query.labels if not query.without else ())]))
    counted = _count(moment, query, names, steps, go_on)
    found = {
        tuple((name, value) for name, value in zip(names, values, strict=True) if value): line
        for values, line in counted.items()
    }
    return steps, _aggregated(query, found)


def _count(
    moment: Moment, query: RangeQuery, names: tuple[str, ...], steps: npt.NDArray[np.int64], go_on: GoOn
) -> dict[tuple[str, ...], Floats]:
    weighs = query.function.startswith("bytes")
    width = len(steps)
    held: dict[tuple[str, ...], tuple[Floats, Floats]] = {}
    first, last = int(steps[0]) - query.range + 1, int(steps[-1]) + 1
    for found in rows.batches(moment, query.log, first, last, go_on=go_on):
        times = rows.times_of(found)
        weights = np.asarray(pc.binary_length(rows.lines(found)), np.float64) if weighs else np.ones(len(times))
        keys, of = rows.codes(found, names)
        # A record counts from the first step that is not before it, for as long as the range is.
        begin, end = np.searchsorted(steps, times), np.searchsorted(steps, times + query.range)
        for number, key in enumerate(keys):
            mine = of == number
            if key not in held:
                if len(held) >= MOST_SERIES:
                    raise InvalidInput(f"More than {MOST_SERIES} series: sum by fewer labels, or select fewer streams.")
                held[key] = (np.zeros(width + 1), np.zeros(width + 1))
            for line, weight in zip(held[key], (weights[mine], None), strict=True):
                line += np.bincount(begin[mine], weight, minlength=width + 1)[: width + 1]
                line -= np.bincount(end[mine], weight, minlength=width + 1)[: width + 1]
    by_second = query.range / SECOND if query.function.endswith("rate") else 1.0
    return {
        key: np.where(np.cumsum(number)[:width] > 0.5, np.cumsum(weight)[:width] / by_second, np.nan)
        for key, (weight, number) in held.items()
    }


def _aggregated(query: RangeQuery, found: dict[Labels, Floats]) -> dict[Labels, Floats]:
    if query.aggregate is None:
        return found
    groups: dict[Labels, list[Floats]] = {}
    for labels, line in found.items():
        kept = tuple(pair for pair in labels if (pair[0] in query.labels) != query.without)
        groups.setdefault(kept, []).append(line)
    return {labels: _joined(query.aggregate, np.stack(group)) for labels, group in groups.items()}


def _joined(aggregate: str, table: Floats) -> Floats:
    known = ~np.isnan(table)
    counts = known.sum(axis=0)
    if aggregate == "count":
        found = counts.astype(float)
    elif aggregate in ("min", "max"):
        fill = np.inf if aggregate == "min" else -np.inf
        found = getattr(np, aggregate)(np.where(known, table, fill), axis=0)
    else:
        found = np.where(known, table, 0.0).sum(axis=0)
        if aggregate == "avg":
            found = found / np.maximum(counts, 1)
    return np.where(counts > 0, found, np.nan)


__all__ = ["MOST_SERIES", "MOST_STEPS", "evaluate"]
