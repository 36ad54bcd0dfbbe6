"""The key columns of rows: as values, and encoded. See `key` for the encoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.key.key_value import SIGN, VARIABLE
from moulin.model.layout.transform import raw_values
from moulin.model.schema.arrow import arrow_field
from moulin.model.schema.values import (
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    TimestampNanoType,
    TimestamptzNanoType,
    UUIDType,
)

Bytes = npt.NDArray[np.uint8]


def key_values(fields: Sequence[NestedField], rows: pa.Table | pa.RecordBatch) -> list[Any]:
    """The key values of rows, as `check` gives them."""
    try:
        columns = [_python_values(rows.column(field.name), field.field_type) for field in fields]
    except (ValueError, OverflowError) as error:
        raise InvalidInput(
            f"A key value cannot be represented in Python ({error}); use append to write such rows."
        ) from None
    return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))


def encode_keys(fields: Sequence[NestedField], width: int | None, rows: pa.Table | pa.RecordBatch) -> pa.Array:
    """The encoded keys of rows: fixed-size binary when `width` is known, else binary."""
    columns = [_whole(rows.column(field.name)) for field in fields]
    if width is not None:
        parts = [_fixed(column, field.field_type) for column, field in zip(columns, fields, strict=True)]
        return _fixed_array(parts[0] if len(parts) == 1 else np.hstack(parts))
    last = len(columns) - 1
    joined = [
        _variable(column, field.field_type, final=index == last)
        for index, (column, field) in enumerate(zip(columns, fields, strict=True))
    ]
    return joined[0] if last == 0 else pc.binary_join_element_wise(*joined, b"")


def key_table(fields: Sequence[NestedField], values: Sequence[Any]) -> pa.Table:
    """Key values, as `check` gives them, as rows of the key's columns."""
    columns: Sequence[Any] = (
        [values] if len(fields) == 1 else list(zip(*values, strict=True)) if values else [()] * len(fields)
    )
    arrow = [arrow_field(field) for field in fields]
    return pa.Table.from_arrays(
        [_from_python(list(column), field.type) for column, field in zip(columns, arrow, strict=True)],
        schema=pa.schema(arrow),
    )


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _fixed(column: pa.Array, kind: IcebergType) -> Bytes:
    """The encoded values as a matrix of bytes."""
    rows = len(column)
    if isinstance(kind, BooleanType):
        flags: Bytes = column.cast(pa.uint8()).to_numpy().reshape(rows, 1)
        return flags
    if isinstance(kind, UUIDType | FixedType):
        storage = column.storage if isinstance(column, pa.ExtensionArray) else column
        width = storage.type.byte_width
        data = np.frombuffer(storage.buffers()[1] or b"", np.uint8)
        return data[storage.offset * width : (storage.offset + rows) * width].reshape(rows, width)
    if isinstance(kind, DecimalType):
        words = raw_values(column, np.dtype("V16")).view("<u8").reshape(-1, 2)
        turned = np.stack([words[:, 1] ^ np.uint64(SIGN), words[:, 0]], axis=1)
        return turned.astype(">u8").view(np.uint8).reshape(rows, 16)
    narrow = isinstance(kind, IntegerType | DateType)
    numbers = raw_values(column, np.int32 if narrow else np.int64).astype(np.int64, copy=False)
    return (numbers.view(np.uint64) ^ np.uint64(SIGN)).astype(">u8").view(np.uint8).reshape(rows, 8)


def _fixed_array(data: Bytes) -> pa.Array:
    rows, width = data.shape
    return pa.Array.from_buffers(pa.binary(width), rows, [None, pa.py_buffer(np.ascontiguousarray(data))])


def _variable(column: pa.Array, kind: IcebergType, *, final: bool) -> pa.Array:
    if not isinstance(kind, VARIABLE):
        return _fixed_array(_fixed(column, kind)).cast(pa.binary())
    data = column.cast(pa.binary())
    if final:
        return data
    if pc.any(pc.match_substring(data, b"\0")).as_py():
        data = pc.replace_substring(data, pattern=b"\0", replacement=b"\0\xff")
    return pc.binary_join_element_wise(data, pa.scalar(b"\0\0", pa.binary()), b"")


def _python_values(column: pa.Array | pa.ChunkedArray, kind: IcebergType) -> list[Any]:
    column = _whole(column)
    if isinstance(kind, IntegerType | LongType):
        values: list[Any] = column.to_numpy(zero_copy_only=False).tolist()
        return values
    if isinstance(kind, TimestampNanoType | TimestamptzNanoType):
        return column.cast(pa.int64()).to_pylist()  # type: ignore[no-any-return]
    return column.to_pylist()  # type: ignore[no-any-return]


def _from_python(values: list[Any], kind: pa.DataType) -> pa.Array:
    if kind == pa.uuid():
        return pa.ExtensionArray.from_storage(kind, pa.array([value.bytes for value in values], pa.binary(16)))
    return pa.array(values, kind)


__all__ = ["encode_keys", "key_table", "key_values"]
