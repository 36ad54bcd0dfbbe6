"""Rows of a compaction put together by the table's sharding fields, so that its segments can be ruled out by them.

The rows are ordered by the fields, the most heavily weighted first, and cut into the outputs; within each output they
keep the table's sort order. So the bounds of an output's sharding fields are narrow, and its time range is that of the
whole compaction.
"""

# Decisions: docs/decisions/0150

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers
from moulin.model.entities import TableState
from moulin.model.table_settings import SHARDING, sharding_columns

OUTPUTS = 4
"""A slice of a clustered compaction writes at least so many segments, if there are enough: fewer tell little apart."""


def columns_of(state: TableState) -> tuple[str, ...]:
    """The columns that compactions of a table cluster by, most important first; a keyed table is ordered by its key."""
    if SHARDING not in state.properties or state.schema.identifier_field_ids:
        return ()
    plain = [field.name for field in state.schema.fields if field.field_type.is_primitive]
    return sharding_columns(state.properties, plain)


def clustered(
    table: pa.Table, order: Integers | None, bounds: Sequence[tuple[int, int]], columns: Sequence[str]
) -> Integers | None:
    """An order of the rows for outputs of `bounds`, from `order` (None: as they are), which each output keeps."""
    if not columns or len(bounds) < 2:
        return order
    order = np.arange(table.num_rows, dtype=np.int64) if order is None else order
    codes = np.zeros(table.num_rows, dtype=np.int64)
    for name in columns:
        ranks = _ranks(table.column(name))
        codes = _dense(codes * (int(ranks.max(initial=0)) + 1) + ranks)
        if codes.max(initial=0) >= len(bounds) * OUTPUTS:
            break  # more than enough to tell the outputs apart
    shelved = np.argsort(codes[order], kind="stable")
    return np.concatenate([order[np.sort(shelved[start:stop])] for start, stop in bounds])


def _ranks(column: pa.ChunkedArray) -> Integers:
    """The rank of each value among the different ones, in their order; nulls come first."""
    if pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    coded = column.combine_chunks().dictionary_encode()
    ranks = np.empty(len(coded.dictionary) + 1, dtype=np.int64)
    ranks[np.asarray(pc.sort_indices(coded.dictionary))] = np.arange(1, len(coded.dictionary) + 1)
    ranks[-1] = 0
    found: Integers = ranks[np.asarray(coded.indices.fill_null(len(coded.dictionary)))]
    return found


def _dense(codes: Integers) -> Integers:
    """Numbered from zero without gaps, so that the next field can be multiplied in."""
    return np.unique(codes, return_inverse=True)[1].astype(np.int64)
