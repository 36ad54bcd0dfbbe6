"""Read options of a segment, and rows as ranges of positions."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypedDict

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from moulin.formats.deletion_vector import keep_mask
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers
from moulin.model.facts import ColumnFacts
from moulin.model.predicate import Predicate


class ReadOptions(TypedDict, total=False):
    """What to read of a file; all of it when nothing is said. Positions count every row of the file, deleted ones too.

    The columns of the reader come first, then `_row_id`, `_last_updated_sequence_number` and `_pos`, where asked for.
    """

    start: int
    """Only rows from this position on; row groups that are not touched are not decoded."""
    stop: int | None
    """Only rows before this position."""
    row_groups: Sequence[int] | None
    """Only these row groups, in the file's order."""
    positions: Integers | None
    """Only rows at these positions, which ascend."""
    keep_group: Callable[[Mapping[int, ColumnFacts], int], bool] | None
    """Asked for each row group with its facts by field id, and its rows: False skips it."""
    deleted: BitMap64 | None
    """Positions to leave out."""
    expression: pc.Expression | None
    """Only rows for which this is true. It may name columns of the reader, `extra_columns` and those added below."""
    extra_columns: Sequence[str]
    """Columns that `expression` needs; those that the reader does not give are read, and not given."""
    position: bool
    """Add `_pos`, the position of each row."""
    row_id: bool
    """Add `_row_id`: as stored, or where it is not, `first_row_id` + position."""
    first_row_id: int | None
    sequence: bool
    """Add `_last_updated_sequence_number`: as stored, or where it is not, `sequence_number`."""
    sequence_number: int | None
    use_threads: bool
    predicate: Predicate | None
    """Only rows that match. Its columns are read first, and of the others what rows that match need; row groups that
    cannot match are skipped. It takes the place of `expression`, `extra_columns` and `keep_group`."""
    most: int | None
    """With a predicate or positions: no more than so many rows."""
    by_pages: bool
    """Whether pages without wanted rows are passed over, and columns of a predicate are read before the others. The
    rows are the same without."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    start: int = 0
    stop: int | None = None
    row_groups: Sequence[int] | None = None
    positions: Integers | None = None
    keep_group: Callable[[Mapping[int, ColumnFacts], int], bool] | None = None
    deleted: BitMap64 | None = None
    expression: pc.Expression | None = None
    extra_columns: Sequence[str] = ()
    position: bool = False
    row_id: bool = False
    first_row_id: int | None = None
    sequence: bool = False
    sequence_number: int | None = None
    use_threads: bool = True
    predicate: Predicate | None = None
    most: int | None = None
    by_pages: bool = True

    @property
    def plain(self) -> Options:
        """The same rows, by a filter over all columns."""
        found = self.predicate
        if found is None or found.is_true:
            return replace(self, predicate=None)
        return replace(
            self,
            predicate=None,
            expression=found.expression,
            extra_columns=found.columns,
            keep_group=found.may_match,
        )


@dataclass(frozen=True, slots=True)
class Range:
    """Rows [start, stop) of the file, all in one row group."""

    group: int
    start: int
    stop: int


def stretches_of(ranges: Sequence[Range]) -> list[range]:
    """The positions of the ranges, neighbours joined."""
    stretches: list[range] = []
    for one in ranges:
        if stretches and stretches[-1].stop == one.start:
            stretches[-1] = range(stretches[-1].start, one.stop)
        else:
            stretches.append(range(one.start, one.stop))
    return stretches


def positions_of(stretches: Sequence[range] | Integers) -> Integers:
    """The positions of rows that are given as stretches, or by their positions already."""
    if isinstance(stretches, np.ndarray):
        return stretches
    return np.concatenate(
        [np.empty(0, np.int64), *(np.arange(stretch.start, stretch.stop, dtype=np.int64) for stretch in stretches)]
    )


def kept_mask(deleted: BitMap64, stretches: Sequence[range]) -> pa.Array | None:
    masks = [keep_mask(deleted, stretch.start, len(stretch)) for stretch in stretches]
    if all(mask is None for mask in masks):
        return None
    every = [
        np.ones(len(stretch), np.bool_) if mask is None else mask
        for mask, stretch in zip(masks, stretches, strict=True)
    ]
    return pa.array(np.concatenate(every))


def cut_batches(table: pa.Table, rows: int) -> Iterator[pa.RecordBatch]:
    if table.num_columns:
        yield from table.to_batches(max_chunksize=rows)
        return
    for start in range(0, table.num_rows, rows):
        yield pa.record_batch({"": pa.nulls(min(rows, table.num_rows - start))}).select([])


def bare_rows(rows: int) -> pa.Table:
    """Rows without columns."""
    return pa.table({"": pa.nulls(rows)}).select([])


__all__ = [
    "Options",
    "Range",
    "ReadOptions",
    "bare_rows",
    "cut_batches",
    "kept_mask",
    "positions_of",
    "stretches_of",
]
