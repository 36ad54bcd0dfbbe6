"""Finds rows of a source by equal values: the join of merges, in this process and in tasks.

Values are encoded as small integers, column by column, so that the rest is NumPy. Null equals nothing. Without columns
to compare, every row goes with every row.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers, distinct

_UNITS = ("s", "ms", "us", "ns")


class SourceKeys:
    """The rows of a source by the values of their key columns."""

    def __init__(self, columns: Sequence[pa.Array], rows: int) -> None:
        self._values: list[pa.Array] = []  # of each column
        self._known: list[Integers] = []  # the codes of combinations of the columns so far that there are
        codes, valid = np.zeros(rows, np.int64), np.ones(rows, np.bool_)
        for column in columns:
            values = pc.unique(column.drop_null())
            codes, valid = _mixed(codes, valid, column, values)
            known = distinct(codes[valid])
            codes = np.searchsorted(known, codes)
            self._values.append(values)
            self._known.append(known)
        there = np.flatnonzero(valid)
        order = np.argsort(codes[there], kind="stable")
        self._order = there[order]
        groups = np.arange(len(self._known[-1]) if self._known else min(rows, 1))
        self._starts = np.searchsorted(codes[self._order], groups)
        self._counts = np.diff(self._starts, append=len(self._order))

    def pairs(self, columns: Sequence[pa.Array], rows: int, most: int) -> Iterator[tuple[Integers, Integers]]:
        """Indexes of source rows, and of the rows of `columns` whose values equal theirs; at most `most` at a time."""
        codes, valid = np.zeros(rows, np.int64), np.full(rows, len(self._starts) > 0)
        for column, values, known in zip(columns, self._values, self._known, strict=True):
            mixed, valid = _mixed(codes, valid, column, values)
            codes = np.minimum(np.searchsorted(known, mixed), max(len(known) - 1, 0))
            valid = valid & (known[codes] == mixed) if len(known) else np.zeros(rows, np.bool_)
        found = np.flatnonzero(valid)
        starts, counts = self._starts[codes[found]], self._counts[codes[found]]
        ends = np.cumsum(counts)
        for first in range(0, int(ends[-1]) if len(ends) else 0, most):
            pair = np.arange(first, min(first + most, int(ends[-1])))
            at = np.searchsorted(ends, pair, side="right")
            yield self._order[starts[at] + pair - (ends[at] - counts[at])], found[at]


def _mixed(
    codes: Integers, valid: npt.NDArray[np.bool_], column: pa.Array, values: pa.Array
) -> tuple[Integers, npt.NDArray[np.bool_]]:
    """Codes of one column more, and which of them stand for values that are all in the source."""
    own = pc.fill_null(pc.index_in(column, value_set=values), -1).to_numpy(zero_copy_only=False).astype(np.int64)
    return codes * max(len(values), 1) + own, valid & (own >= 0)


def common_type(one: pa.DataType, other: pa.DataType) -> pa.DataType:
    """The type in which two columns are compared: they differ in scale, in unit, or as dates and timestamps do."""
    if one.equals(other):
        return one
    if pt.is_decimal(one) and pt.is_decimal(other):
        return pa.decimal256(76, max(one.scale, other.scale))
    stamps = [kind for kind in (one, other) if pt.is_timestamp(kind)]
    if stamps:
        unit = max((kind.unit for kind in stamps), key=_UNITS.index)
        return pa.timestamp(unit, next((kind.tz for kind in stamps if kind.tz), None))
    return one


def as_key(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """A column to compare, in a type whose equal values are equal bits: NaN equals NaN, and -0.0 equals 0.0."""
    array = column.cast(kind).combine_chunks() if column.num_chunks else pa.nulls(0, kind)
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if not pt.is_floating(kind):
        return array
    numbers = pc.fill_null(array, 0.0).to_numpy(zero_copy_only=False) + 0.0
    numbers = np.where(np.isnan(numbers), np.nan, numbers)
    return pa.array(numbers.view(np.int64), mask=array.is_null().to_numpy(zero_copy_only=False))
