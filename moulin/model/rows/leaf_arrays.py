"""The leaf columns of Arrow tables, and the least and greatest value of one in the form that bounds have."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from moulin.model.columns import compute as pc
from moulin.model.schema.arrow import field_id, list_values


def leaf_arrays(field: pa.Field, column: pa.ChunkedArray) -> Iterator[tuple[int, pa.ChunkedArray]]:
    """The leaves in a column that have field ids, without what lies below nulls."""
    kind, number = field.type, field_id(field)
    if pt.is_struct(kind):
        for child, values in zip(kind, column.flatten(), strict=True):
            yield from leaf_arrays(child, values)
    elif pt.is_map(kind):
        entries = pa.struct([kind.key_field, kind.item_field])
        flat = [list_values(chunk.cast(pa.list_(entries))) for chunk in column.chunks]
        yield from leaf_arrays(pa.field("entries", entries), pa.chunked_array(flat, entries))
    elif pt.is_list(kind):
        flat = [list_values(chunk) for chunk in column.chunks]
        yield from leaf_arrays(kind.value_field, pa.chunked_array(flat, kind.value_type))
    elif number is not None:
        yield number, column


def count_nans(column: pa.ChunkedArray) -> int:
    return (pc.sum(pc.is_nan(column)).as_py() or 0) if pt.is_floating(column.type) else 0


def value_range(column: pa.ChunkedArray) -> tuple[Any, Any]:
    """The least and the greatest value, in the form of `bound_from_bytes`; NaN does not count. None without values."""
    if pt.is_floating(column.type):
        column = column.filter(pc.invert(pc.is_nan(column)))
    if isinstance(column.type, pa.BaseExtensionType):
        column = pa.chunked_array([chunk.storage for chunk in column.chunks], column.type.storage_type)
    if pt.is_temporal(column.type):
        column = column.cast(pa.int32() if pt.is_date32(column.type) else pa.int64())
    if pt.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    found = pc.min_max(column).as_py()
    return found["min"], found["max"]
