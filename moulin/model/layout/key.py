"""The primary key: which columns, and an encoding of its values whose bytes compare as the values do.

Every column is encoded on its own and the parts are joined. Fixed widths, most significant byte first, with the sign
bit turned over: boolean 1 byte; int, long, date, time and timestamps 8 bytes; decimal 16 bytes (unscaled); uuid and
fixed as they are. Text (UTF-8) and binary are as they are in the last column; in an earlier one a zero byte becomes 00
FF, and 00 00 ends the value. DO NOT CHANGE: key indexes and the bounds of segments hold these bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from moulin.errors import InvalidInput
from moulin.model.layout.key_value import CHECKS, ENCODERS, SIGN
from moulin.model.layout.transform import raw_values
from moulin.model.names import did_you_mean
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    NestedField,
    PrimitiveType,
    Schema,
    StringType,
    TimestampNanoType,
    TimestamptzNanoType,
    UUIDType,
)

Bytes = npt.NDArray[np.uint8]

_VARIABLE = (StringType, BinaryType)


def with_key(schema: Schema, names: Sequence[str]) -> Schema:
    """`schema` with these columns as its key: required, in this order."""
    if isinstance(names, str):
        raise InvalidInput(f"primary_key takes a list of columns: write [{names!r}].")
    fields = {field.name: field for field in schema.fields}
    for name in names:
        if name not in fields:
            raise InvalidInput(f"The key column {name!r} is not in the schema.{did_you_mean(str(name), fields)}")
        kind = fields[name].field_type
        if isinstance(kind, FloatType | DoubleType):
            raise InvalidInput(
                f"Column {name} is of type {kind}, which cannot be a key: equal floats may differ in bits."
            )
        if not isinstance(kind, PrimitiveType) or type(kind) not in ENCODERS:
            raise InvalidInput(f"Column {name} is of type {kind}, which cannot be a key; use a simple type.")
    if len(set(names)) != len(names):
        raise InvalidInput("primary_key names a column twice.")
    key = [fields[name].field_id for name in names]
    required = [replace(f, required=True) if f.name in names else f for f in schema.fields]
    return Schema(*required, schema_id=schema.schema_id, identifier_field_ids=key)


@dataclass(frozen=True)
class Key:
    """The key of a table. A key value in Python is the bare value when there is one column, else a tuple."""

    fields: tuple[NestedField, ...]

    @classmethod
    def of(cls, schema: Schema) -> Key | None:
        """The key of a table with this schema; None for an event table."""
        ids = schema.identifier_field_ids
        return cls(tuple(schema.find_field(field_id) for field_id in ids)) if ids else None

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(field.name for field in self.fields)

    @cached_property
    def field_ids(self) -> tuple[int, ...]:
        return tuple(field.field_id for field in self.fields)

    @cached_property
    def width(self) -> int | None:
        """Bytes of an encoded key, when all have the same number."""
        widths = [_width(field.field_type) for field in self.fields]
        return None if None in widths else sum(width or 0 for width in widths)

    @cached_property
    def _checks(self) -> tuple[Callable[[Any, str], Any], ...]:
        return tuple(CHECKS[type(field.field_type)](field.field_type) for field in self.fields)

    @cached_property
    def _encoders(self) -> tuple[Callable[[Any], bytes], ...]:
        return tuple(ENCODERS[type(field.field_type)] for field in self.fields)

    def check(self, value: Any) -> Any:
        """The key value in its one form; InvalidInput when it does not fit."""
        if len(self.fields) == 1:
            if isinstance(value, tuple) and len(value) == 1:
                value = value[0]
            return self._checks[0](value, self.names[0])
        if isinstance(value, Mapping):
            value = tuple(value.get(name) for name in self.names)
        if not isinstance(value, tuple | list) or len(value) != len(self.fields):
            raise InvalidInput(f"A key of this table is a tuple of {', '.join(self.names)}, not {value!r}.")
        return tuple(check(part, name) for check, part, name in zip(self._checks, value, self.names, strict=True))

    def encode_one(self, value: Any) -> bytes:
        """The bytes of a key value that `check` gave."""
        if len(self.fields) == 1:
            return self._encoders[0](value)
        return self._join(value)

    def encode_prefix(self, value: Any) -> bytes:
        """The bytes that begin every key whose first columns have these values: a whole key, or fewer columns."""
        parts = value if isinstance(value, tuple | list) else (value,)
        if not 0 < len(parts) <= len(self.fields):
            raise InvalidInput(
                f"A key of this table has {len(self.fields)} columns ({', '.join(self.names)}), not {value!r}."
            )
        return self._join([check(p, n) for check, p, n in zip(self._checks, parts, self.names, strict=False)])

    def _join(self, parts: Sequence[Any]) -> bytes:
        last = len(self.fields) - 1
        encoded = []
        for index, (encode, part) in enumerate(zip(self._encoders, parts, strict=False)):
            data = encode(part)
            if index < last and isinstance(self.fields[index].field_type, _VARIABLE):
                data = data.replace(b"\0", b"\0\xff") + b"\0\0"
            encoded.append(data)
        return b"".join(encoded)

    def values(self, rows: pa.Table | pa.RecordBatch) -> list[Any]:
        """The key values of rows, as `check` gives them."""
        try:
            columns = [_python_values(rows.column(field.name), field.field_type) for field in self.fields]
        except (ValueError, OverflowError) as error:
            raise InvalidInput(
                f"A key value cannot be held in Python ({error}); to write such rows use append."
            ) from None
        return columns[0] if len(columns) == 1 else list(zip(*columns, strict=True))

    def encode(self, rows: pa.Table | pa.RecordBatch) -> pa.Array:
        """The encoded keys of rows: fixed-size binary when `width` is known, else binary."""
        columns = [_whole(rows.column(field.name)) for field in self.fields]
        if self.width is not None:
            parts = [_fixed(column, field.field_type) for column, field in zip(columns, self.fields, strict=True)]
            return _fixed_array(parts[0] if len(parts) == 1 else np.hstack(parts))
        last = len(columns) - 1
        joined = [
            _variable(column, field.field_type, final=index == last)
            for index, (column, field) in enumerate(zip(columns, self.fields, strict=True))
        ]
        return joined[0] if last == 0 else pc.binary_join_element_wise(*joined, b"")

    def to_table(self, values: Sequence[Any]) -> pa.Table:
        """Key values, as `check` gives them, as rows of the key's columns."""
        from moulin.model.schema.arrow import arrow_field

        columns: Sequence[Any] = (
            [values]
            if len(self.fields) == 1
            else list(zip(*values, strict=True))
            if values
            else [()] * len(self.fields)
        )
        fields = [arrow_field(field) for field in self.fields]
        return pa.Table.from_arrays(
            [_from_python(list(column), field.type) for column, field in zip(columns, fields, strict=True)],
            schema=pa.schema(fields),
        )


def successor(prefix: bytes) -> bytes | None:
    """The smallest bytes greater than everything that begins with `prefix`; None when there are none."""
    stripped = prefix.rstrip(b"\xff")
    return None if not stripped else stripped[:-1] + bytes([stripped[-1] + 1])


def _whole(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _width(kind: IcebergType) -> int | None:
    if isinstance(kind, _VARIABLE):
        return None
    if isinstance(kind, FixedType):
        return len(kind)
    return 1 if isinstance(kind, BooleanType) else 16 if isinstance(kind, DecimalType | UUIDType) else 8


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
    if not isinstance(kind, _VARIABLE):
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
