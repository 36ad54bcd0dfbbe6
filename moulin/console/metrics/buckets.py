"""Histograms as counts below bounds, explicit and exponential ones alike; and percentiles of them."""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from moulin.console.metrics.points import Floats, Integers
from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc

MOST_CELLS: Final = 20_000_000
MOST_BOUNDS: Final = 400
_FINEST: Final = 160
"""Buckets to one side of zero that an exponential histogram is shown with; finer ones are joined two by two."""
EXPLICIT: Final = ("bucket_counts", "explicit_bounds")
EXPONENTIAL: Final = (
    "scale",
    "zero_count",
    "zero_threshold",
    "positive_offset",
    "positive_counts",
    "negative_offset",
    "negative_counts",
)


def explicit(rows: pa.Table) -> tuple[Floats, Floats]:
    """Bounds, the last of them infinite, and for each row how many values are at or below each of them.

    Where rows have different bounds there are all of them; between its own, a row counts as if values lay evenly.
    """
    bounds, of_bound = _flat(rows.column("explicit_bounds"))
    counts, of_count = _flat(rows.column("bucket_counts"))
    every = np.unique(bounds[np.isfinite(bounds)])
    if len(every) > MOST_BOUNDS:
        raise InvalidInput(f"These histograms have more than {MOST_BOUNDS} different bounds: ask for one of them.")
    _check_cells(rows.num_rows, len(every) + 1)
    reached = np.zeros((rows.num_rows, len(every) + 1))
    starts = np.searchsorted(of_bound, np.arange(rows.num_rows + 1))
    begins = np.searchsorted(of_count, np.arange(rows.num_rows + 1))
    for mine, indices in _alike(rows.column("explicit_bounds"), bounds, starts):
        width = len(mine) + 1
        whole = indices[np.diff(begins)[indices] == width]  # a point with other counts than its bounds say has none
        table = np.cumsum(counts[begins[whole][:, None] + np.arange(width)], axis=1)
        reached[whole, -1] = table[:, -1]
        if width > 1:
            reached[np.ix_(whole, np.arange(len(every)))] = _between(mine, table[:, :-1], every)
    return np.append(every, np.inf), reached


def _alike(column: pa.ChunkedArray, bounds: Floats, starts: Integers) -> list[tuple[Floats, Integers]]:
    """The different lists of bounds, each with its rows."""
    texts = pc.binary_join(pc.cast(column, pa.list_(pa.string())), " ")
    coded = pa.concat_arrays([pa.array([], pa.string()), *pc.fill_null(texts, "").chunks]).dictionary_encode()
    indices = np.asarray(coded.indices)
    found = []
    for code in range(len(coded.dictionary)):
        mine = np.flatnonzero(indices == code)
        found.append((bounds[starts[mine[0]] : starts[mine[0] + 1]], mine))
    return found


def _between(mine: Floats, reached: Floats, every: Floats) -> Floats:
    """Counts below all bounds, of counts below some of them."""
    after = np.clip(np.searchsorted(mine, every), 0, len(mine) - 1)
    before = np.maximum(after - 1, 0)
    gap = np.where(after == before, 1.0, mine[after] - mine[before])
    part = np.clip((every - mine[before]) / gap, 0.0, 1.0)
    part = np.where(after == before, (every >= mine[0]).astype(float), part)
    low = np.where(after == before, 0.0, reached[:, before])
    return low + (reached[:, after] - low) * part


def exponential(rows: pa.Table) -> tuple[Floats, Floats]:
    """The same of exponential histograms, at the coarsest of their scales."""
    number = rows.num_rows
    scale = _integers(rows, "scale")
    if not number:
        return np.array([np.inf]), np.zeros((0, 1))
    sides = {}
    for side in ("positive", "negative"):
        counts, of = _flat(rows.column(f"{side}_counts"))
        first = np.searchsorted(of, np.arange(number))
        index = _integers(rows, f"{side}_offset")[of] + np.arange(len(of)) - first[of]
        sides[side] = (counts[counts > 0], of[counts > 0], index[counts > 0])
    target = int(scale.min())
    while any(_span(index >> (scale[of] - target)) > _FINEST for _, of, index in sides.values()):
        target -= 1
    threshold = float(np.nanmax(np.append(_real(rows, "zero_threshold"), 0.0)))
    below, low = _side(sides["negative"], scale, target, number, -1)
    above, high = _side(sides["positive"], scale, target, number, 1)
    zero = _integers(rows, "zero_count").astype(float)[:, None]
    bounds = np.concatenate([below, [max(threshold, below[-1] if len(below) else threshold)], above, [np.inf]])
    counts = np.concatenate([low, zero, high, np.zeros((number, 1))], axis=1)
    _check_cells(number, len(bounds))
    return bounds, np.cumsum(counts, axis=1)


def _side(
    found: tuple[Floats, Integers, Integers], scale: Integers, target: int, number: int, sign: int
) -> tuple[Floats, Floats]:
    """Upper bounds and counts of the buckets to one side of zero, with an empty one between them and zero."""
    counts, of, index = found
    if not len(index):
        return np.zeros(0), np.zeros((number, 0))
    place = index >> (scale[of] - target)
    first, last = int(place.min()), int(place.max())
    _check_cells(number, last - first + 2)
    table = np.zeros((number, last - first + 2))
    np.add.at(table, (of, place - first + 1), counts)
    reach = np.exp2(np.clip(np.arange(first, last + 2) * 2.0**-target, -1074.0, 1023.0))
    return (reach, table) if sign > 0 else (-reach[::-1], table[:, ::-1])


def _span(index: Integers) -> int:
    return int(index.max() - index.min()) + 1 if len(index) else 0


def quantiles(bounds: Floats, reached: Floats, wanted: Floats) -> Floats:
    """For each row and each quantile the value below which that part of all values is; NaN for a row without any.

    Values lie evenly between two bounds. Past the last finite bound there is nothing to go by: it is the answer.
    """
    finite = bounds[:-1]
    found = np.full((len(reached), len(wanted)), np.nan)
    if not len(finite):
        return found
    some = reached[:, -1] > 0
    table = np.maximum.accumulate(reached[some], axis=1)
    rank = table[:, -1:] * wanted[None, :]
    after = (table[:, None, :-1] < rank[:, :, None]).sum(axis=2)
    inside = np.minimum(after, len(finite) - 1)
    high = finite[inside]
    low = np.where(inside > 0, finite[np.maximum(inside - 1, 0)], np.minimum(0.0, finite[0]))
    rows = np.arange(len(table))[:, None]
    until = table[rows, inside]
    since = np.where(inside > 0, table[rows, np.maximum(inside - 1, 0)], 0.0)
    part = np.divide(rank - since, until - since, out=np.zeros_like(rank), where=until > since)
    found[some] = np.where(after >= len(finite), finite[-1], low + (high - low) * part)
    return found


def _flat(lists: pa.ChunkedArray) -> tuple[Floats, Integers]:
    """The numbers of lists, and the row of each."""
    lengths = np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)
    values = np.asarray(pc.list_flatten(lists).cast(pa.float64()), np.float64)
    return values, np.repeat(np.arange(len(lengths)), lengths)


def _integers(rows: pa.Table, name: str) -> Integers:
    return np.asarray(pc.fill_null(rows.column(name), 0)).astype(np.int64)


def _real(rows: pa.Table, name: str) -> Floats:
    return np.asarray(rows.column(name).fill_null(0.0), np.float64)


def _check_cells(rows: int, columns: int) -> None:
    if rows * columns > MOST_CELLS:
        raise InvalidInput("Too many histograms fit: ask for a shorter range, or for fewer series.")


__all__ = ["EXPLICIT", "EXPONENTIAL", "MOST_BOUNDS", "explicit", "exponential", "quantiles"]
