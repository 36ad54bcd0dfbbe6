"""Arrow batches in exactly the types that Spark expects from Python, made from the types of segments."""

from __future__ import annotations

import binascii
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructField, StructType

from moulin.model.schema import values as ice
from moulin.model.schema.values import Schema
from moulin.pipeline.read.columns import shown_type

_UUID_TEXT = 36
_DASHES = (8, 13, 18, 23)


def spark_arrow_schema(columns: StructType) -> pa.Schema:
    """The Arrow schema in which Spark exchanges rows of `columns` with Python."""
    return to_arrow_schema(columns, timezone="UTC")


def to_spark(batch: pa.RecordBatch, schema: Schema, names: Sequence[str], target: pa.Schema) -> pa.RecordBatch:
    """The columns `names` of a batch of a table's rows, converted to `target`, Spark's Arrow schema."""
    arrays = [
        _convert(batch.column(name), schema.find_field(name).field_type, field.type)
        for name, field in zip(names, target, strict=True)
    ]
    if not arrays:
        return pa.RecordBatch.from_struct_array(pa.array([{}] * batch.num_rows, pa.struct([])))
    return pa.RecordBatch.from_arrays(arrays, schema=target)


def shown_table(table: pa.Table, kinds: Sequence[ice.IcebergType]) -> tuple[pa.Table, StructType]:
    """Columns of these types as Spark sees them, and their schema there. REQUIRES: at least one column."""
    shown = StructType([StructField(n, shown_type(kind)) for n, kind in zip(table.column_names, kinds, strict=True)])
    target = spark_arrow_schema(shown)
    arrays = [
        _convert(column.combine_chunks(), kind, field.type)
        for column, kind, field in zip(table.columns, kinds, target, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=target), shown


def _convert(array: pa.Array, kind: ice.IcebergType, target: pa.DataType) -> pa.Array:
    match kind:
        case ice.UUIDType():
            return _uuid_text(array)
        case ice.TimestampNanoType() | ice.TimestamptzNanoType():
            return _micros(array).cast(target)
        case ice.StructType():
            fields = [
                _convert(array.field(index), child.field_type, target.field(index).type)
                for index, child in enumerate(kind.fields)
            ]
            mask = array.is_null() if array.null_count else None
            return pa.StructArray.from_arrays(fields, fields=list(target), mask=mask)
        case ice.ListType():
            values = _convert(array.values, kind.element_type, target.value_type)
            return pa.ListArray.from_arrays(array.offsets, values, type=target, mask=_mask(array))
        case ice.MapType():
            keys = _convert(array.keys, kind.key_type, target.key_type)
            items = _convert(array.items, kind.value_type, target.item_type)
            return pa.MapArray.from_arrays(array.offsets, keys, items, type=target, mask=_mask(array))
        case _:
            return array if array.type == target else array.cast(target)


def _mask(array: pa.Array) -> pa.Array | None:
    """Which lists are null. Arrow takes no mask with offsets that do not start at the first value; rebuild those."""
    return array.is_null() if array.null_count else None


def _micros(array: pa.Array) -> pa.Array:
    """Nanoseconds since 1970 as microseconds, rounded down."""
    nanos = array.cast(pa.int64())
    micros = np.floor_divide(nanos.fill_null(0).to_numpy(zero_copy_only=False), 1000)
    return pa.array(micros, mask=nanos.is_null().to_numpy(zero_copy_only=False) if nanos.null_count else None)


def _uuid_text(array: pa.Array) -> pa.Array:
    storage = array.storage if isinstance(array, pa.ExtensionArray) else array
    rows = len(storage)
    packed = storage.fill_null(bytes(16)) if storage.null_count else storage
    raw = packed.buffers()[1][packed.offset * 16 : (packed.offset + rows) * 16] if rows else b""
    digits = np.frombuffer(binascii.hexlify(raw), np.uint8).reshape(rows, 32)
    text = np.full((rows, _UUID_TEXT), ord("-"), np.uint8)
    text[:, [index for index in range(_UUID_TEXT) if index not in _DASHES]] = digits
    ends = np.arange(rows + 1, dtype=np.int32) * _UUID_TEXT
    made = pa.StringArray.from_buffers(rows, pa.py_buffer(ends), pa.py_buffer(text.tobytes()))
    if not storage.null_count:
        return made
    return pa.array(made.to_numpy(zero_copy_only=False), mask=storage.is_null().to_numpy(zero_copy_only=False))
