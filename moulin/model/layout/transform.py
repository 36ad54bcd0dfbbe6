"""Partition transforms over Arrow arrays, equal to Iceberg's: null stays null, and times before 1970 round down."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moulin.errors import InvalidInput, Unsupported
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers
from moulin.model.layout.murmur3 import hash_bytes, hash_longs
from moulin.model.layout.partition_spec import (
    BucketTransform,
    DayTransform,
    HourTransform,
    IdentityTransform,
    MonthTransform,
    Transform,
    TruncateTransform,
    VoidTransform,
    YearTransform,
)
from moulin.model.schema.schema import column_path
from moulin.model.schema.values import (
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    Schema,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

_DAY_MICROS = 86_400_000_000
_HOUR_MICROS = 3_600_000_000


def transform_array(transform: Transform, source_type: IcebergType, array: pa.Array | pa.ChunkedArray) -> pa.Array:
    """`transform` of every value of `array`, whose Arrow type is the canonical one of `source_type`.

    The result has the Arrow type of the transform's result type: date32 for day, int32 for year, month, hour, bucket,
    and the source's own for identity, truncate, void.
    """
    if not transform.can_transform(source_type):
        raise InvalidInput(f"The transform {transform} does not apply to values of type {source_type}.")
    column = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    match transform:
        case IdentityTransform():
            return column
        case VoidTransform():
            return pa.nulls(len(column), column.type)
        case DayTransform():
            return _rebuild(_days(source_type, column).astype(np.int32), column).cast(pa.date32())
        case MonthTransform():
            return _rebuild(_days(source_type, column).astype("M8[D]").astype("M8[M]").astype(np.int32), column)
        case YearTransform():
            return _rebuild(_days(source_type, column).astype("M8[D]").astype("M8[Y]").astype(np.int32), column)
        case HourTransform():
            return _rebuild(_hours(_micros(source_type, column)), column)
        case BucketTransform():
            positive = hash_array(source_type, column) & np.uint32(0x7FFFFFFF)
            return _rebuild((positive % np.uint32(transform.num_buckets)).astype(np.int32), column)
        case TruncateTransform():
            return _truncate(source_type, column, transform.width)
    raise Unsupported(f"Rows cannot be written with the transform {transform}: it was created by a newer version.")


def source_column(table: pa.Table | pa.RecordBatch, schema: Schema, field_id: int) -> pa.Array:
    """The column of a field, found by its names; a field of a struct is null where the struct is."""
    path = column_path(schema, field_id)
    if path is None:
        raise InvalidInput(f"Field {field_id} is not a column of the schema, nor a field of a struct column.")
    column = table.column(path[0])
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column if len(path) == 1 else pc.struct_field(column, list(path[1:]))


def hash_array(source_type: IcebergType, array: pa.Array) -> npt.NDArray[np.uint32]:
    """Iceberg's 32-bit hash of every value; that of some other value where it is null."""
    match source_type:
        case IntegerType() | DateType():
            return hash_longs(raw_values(array, np.int32).astype(np.int64))
        case LongType() | TimeType():
            return hash_longs(raw_values(array, np.int64))
        case TimestampType() | TimestamptzType() | TimestampNanoType() | TimestamptzNanoType():
            return hash_longs(_micros(source_type, array))
        case DecimalType():
            return _hash_decimals(array)
        case UUIDType() | FixedType():
            storage = array.storage if isinstance(array, pa.ExtensionArray) else array
            width = storage.type.byte_width
            data = np.frombuffer(storage.buffers()[1] or b"", np.uint8)
            starts = np.arange(storage.offset, storage.offset + len(storage), dtype=np.int64) * width
            return hash_bytes(data, starts, np.full(len(storage), width, np.int64))
    _, offsets, data = array.buffers()
    ends = np.frombuffer(offsets or bytes(4), np.int32)[array.offset : array.offset + len(array) + 1].astype(np.int64)
    return hash_bytes(np.frombuffer(data or b"", np.uint8), ends[:-1], np.diff(ends))


def _hash_decimals(array: pa.Array) -> npt.NDArray[np.uint32]:
    """Hashes of the shortest big-endian two's complement form of the unscaled values."""
    reversed_ = np.ascontiguousarray(raw_values(array, np.dtype("V16")).view(np.uint8).reshape(-1, 16)[:, ::-1])
    negative = reversed_[:, :1] >> 7
    spare = (reversed_[:, :-1] == np.where(negative, 0xFF, 0)) & (reversed_[:, 1:] >> 7 == negative)
    skipped = np.logical_and.accumulate(spare, axis=1).sum(axis=1, dtype=np.int64)
    starts = np.arange(len(array), dtype=np.int64) * 16 + skipped
    return hash_bytes(reversed_.reshape(-1), starts, 16 - skipped)


def raw_values(array: pa.Array, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """The stored values of a fixed-width array; zero where it is null."""
    kind = np.dtype(dtype)
    values = np.frombuffer(array.buffers()[1] or b"", kind)[array.offset : array.offset + len(array)]
    if array.null_count == 0:
        return values
    filled = np.zeros(len(array), kind)
    valid = array.is_valid().to_numpy(zero_copy_only=False)
    filled[valid] = values[valid]
    return filled


def _rebuild(values: npt.NDArray[Any], source: pa.Array) -> pa.Array:
    """An Arrow array of `values`, null where `source` is."""
    if source.null_count == 0:
        return pa.array(values)
    return pa.array(values, mask=source.is_null().to_numpy(zero_copy_only=False))


def _micros(source_type: IcebergType, array: pa.Array) -> Integers:
    values = raw_values(array, np.int64)
    return values // 1000 if isinstance(source_type, TimestampNanoType | TimestamptzNanoType) else values


def _days(source_type: IcebergType, array: pa.Array) -> Integers:
    if isinstance(source_type, DateType):
        return raw_values(array, np.int32).astype(np.int64)
    return _micros(source_type, array) // _DAY_MICROS


def _hours(micros: Integers) -> npt.NDArray[np.int32]:
    hours = micros // _HOUR_MICROS
    if len(hours) and (hours.min() < -(2**31) or hours.max() >= 2**31):
        raise InvalidInput("A time is too far from 1970 to be counted in hours: partition by day or month instead.")
    return hours.astype(np.int32)


def _truncate(source_type: IcebergType, array: pa.Array, width: int) -> pa.Array:
    match source_type:
        case IntegerType() | LongType():
            # Wide enough for the width; like Iceberg's own arithmetic, it wraps around below the smallest value.
            values = raw_values(array, np.int32 if isinstance(source_type, IntegerType) else np.int64)
            return _rebuild((values - values.astype(np.int64) % width).astype(values.dtype), array)
        case DecimalType():
            return _truncate_decimals(array, width)
        case StringType():
            return pc.utf8_slice_codeunits(array, 0, width)
    return pc.binary_slice(array, 0, width)


def _truncate_decimals(array: pa.Array, width: int) -> pa.Array:
    """Unscaled 128-bit values rounded down to a multiple of `width`, as pairs of 64-bit words, the low one unsigned."""
    words = raw_values(array, np.dtype("V16")).view(np.uint64).reshape(-1, 2)
    low, high = words[:, 0], words[:, 1].view(np.int64)
    step = np.uint64(width)
    carried = (high % width).astype(np.uint64) * np.uint64(2**64 % width) % step
    rest = (carried + low % step) % step
    cut = np.stack([low - rest, (high - (low < rest)).view(np.uint64)], axis=1)
    rounded = pa.Array.from_buffers(array.type, len(array), [None, pa.py_buffer(cut)])
    return rounded if array.null_count == 0 else pc.if_else(array.is_valid(), rounded, None)


__all__ = ["hash_array", "raw_values", "source_column", "transform_array"]
