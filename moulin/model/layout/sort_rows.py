"""Rows sorted by a sort order.

Iceberg's order of values: NaN after every other number, -0.0 before 0.0, text by its UTF-8 bytes, UUIDs by their bytes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moulin.model.columns import compute as pc
from moulin.model.layout.partition_spec import IdentityTransform
from moulin.model.layout.sort_order import NullOrder, SortDirection, SortOrder
from moulin.model.layout.transform import raw_values, source_column, transform_array
from moulin.model.schema.values import (
    BooleanType,
    DateType,
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    Schema,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

# Rows that `is_sorted` looks at first: most unsorted data betrays itself there.
_GLANCE = 1024

_Numbers = npt.NDArray[Any]
# A key to sort by, most significant first: numbers in ascending order, or an Arrow array and whether it descends.
_Key = _Numbers | tuple[pa.Array, bool]


def sort_indices(table: pa.Table, order: SortOrder, schema: Schema) -> npt.NDArray[np.int64] | None:
    """Indexes of the rows of `table` in sorted order, equal rows as they came; None when they are sorted already."""
    keys = _keys(table, order, schema)
    if not keys or _is_sorted(keys, table.num_rows):
        return None
    numbers = [key for key in keys if isinstance(key, np.ndarray)]
    if len(numbers) == len(keys):
        packed = _pack(numbers)
        return np.lexsort(numbers[::-1]) if packed is None else np.argsort(packed, kind="stable")
    columns = {str(index): key if isinstance(key, np.ndarray) else key[0] for index, key in enumerate(keys)}
    directions = [
        (str(index), "descending" if isinstance(key, tuple) and key[1] else "ascending")
        for index, key in enumerate(keys)
    ]
    indices = pc.sort_indices(pa.table(columns), sort_keys=directions)
    return np.asarray(indices).astype(np.int64)


def is_sorted(table: pa.Table, order: SortOrder, schema: Schema) -> bool:
    """Whether the rows are in sorted order. Any rows are in that of an unsorted table."""
    keys = _keys(table, order, schema)
    return not keys or _is_sorted(keys, table.num_rows)


def _keys(table: pa.Table, order: SortOrder, schema: Schema) -> list[_Key]:
    keys: list[_Key] = []
    for field in order.fields:
        kind = schema.find_type(field.source_id)
        column = source_column(table, schema, field.source_id)
        if not isinstance(field.transform, IdentityTransform):
            column, kind = transform_array(field.transform, kind, column), field.transform.result_type(kind)
        descending = field.direction is SortDirection.DESC
        if column.null_count:
            nulls_first = field.null_order is NullOrder.NULLS_FIRST
            rank = column.is_valid() if nulls_first else column.is_null()
            keys.append(rank.to_numpy(zero_copy_only=False).view(np.int8))
        numbers = _numbers(kind, column)
        if numbers is None:
            keys.append((column.storage if isinstance(column, pa.ExtensionArray) else column, descending))
        else:
            keys.append(~numbers if descending else numbers)
    return keys


def _numbers(kind: IcebergType, column: pa.Array) -> _Numbers | None:
    """Whole numbers in the order of the values, zero for null; None for types that have none."""
    match kind:
        case IntegerType() | DateType():
            return raw_values(column, np.int32)
        case (
            LongType() | TimeType() | TimestampType() | TimestamptzType() | TimestampNanoType() | TimestamptzNanoType()
        ):
            return raw_values(column, np.int64)
        case FloatType():
            return _float_order(raw_values(column, np.float32), np.int32)
        case DoubleType():
            return _float_order(raw_values(column, np.float64), np.int64)
        case BooleanType():
            return _true(column).view(np.int8)
    return None


def _float_order(values: _Numbers, integer: type[np.signedinteger[Any]]) -> _Numbers:
    """The bits of the numbers, arranged so that they compare as the numbers do."""
    bits = np.where(np.isnan(values), np.array(np.nan, values.dtype), values).view(integer)
    return np.where(bits < 0, bits ^ np.iinfo(integer).max, bits)


def _pack(keys: list[_Numbers]) -> _Numbers | None:
    """One number per row that orders as all of `keys` do; None when 63 bits cannot hold them."""
    if len(keys) == 1:
        return keys[0]
    lows = [int(key.min()) for key in keys]
    spans = [int(key.max()) - low + 1 for key, low in zip(keys, lows, strict=True)]
    if sum(span.bit_length() for span in spans) > 62:
        return None
    packed = np.zeros(len(keys[0]), np.int64)
    for key, low, span in zip(keys, lows, spans, strict=True):
        packed *= span
        packed += key.astype(np.int64) - low
    return packed


def _is_sorted(keys: list[_Key], rows: int) -> bool:
    glance = min(rows, _GLANCE)
    return _no_descent(keys, 0, glance) and (glance == rows or _no_descent(keys, glance - 1, rows))


def _no_descent(keys: list[_Key], start: int, end: int) -> bool:
    """Whether no row in the range is followed by a smaller one."""
    undecided = np.ones(max(end - start - 1, 0), np.bool_)
    for key in keys:
        if isinstance(key, np.ndarray):
            earlier, later = key[start : end - 1], key[start + 1 : end]
            less, greater = earlier < later, earlier > later
        else:
            column, descending = key
            earlier, later = column[start : end - 1], column[start + 1 : end]
            if descending:
                earlier, later = later, earlier
            less, greater = _true(pc.less(earlier, later)), _true(pc.greater(earlier, later))
        if np.any(undecided & greater):
            return False
        undecided &= ~less
    return True


def _true(booleans: pa.Array) -> npt.NDArray[np.bool_]:
    result: npt.NDArray[np.bool_] = pc.fill_null(booleans, False).to_numpy(zero_copy_only=False)
    return result


__all__ = ["is_sorted", "sort_indices"]
