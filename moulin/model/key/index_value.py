"""Values of an indexed column as bytes that compare as the values do.

All types but floats are encoded as in a key (model/key/key.py). A float is encoded as a double, so that widening
changes nothing: -0.0 as 0.0, every NaN as one that is above infinity; then the sign bit is turned over, and of negative
values all bits. DO NOT CHANGE: files of indexes hold these bytes.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import Any

import numpy as np
import pyarrow as pa

from moulin.model.columns import compute as pc
from moulin.model.key.key import Key
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
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

LONGEST = 128
"""Bytes of a value that a sorted index keeps; longer ones are cut, and found by their beginning."""


class Encoding(IntEnum):
    """How the values of a file were made. Columns whose types share an encoding share their bytes."""

    BOOLEAN = 1
    INTEGER = 2
    DATE = 3
    TIME = 4
    TIMESTAMP = 5
    TIMESTAMP_NS = 6
    DECIMAL = 7
    STRING = 8
    BINARY = 9
    FIXED = 10
    UUID = 11
    FLOAT = 12


_ENCODINGS: dict[type[IcebergType], Encoding] = {
    BooleanType: Encoding.BOOLEAN,
    IntegerType: Encoding.INTEGER,
    LongType: Encoding.INTEGER,
    DateType: Encoding.DATE,
    TimeType: Encoding.TIME,
    TimestampType: Encoding.TIMESTAMP,
    TimestamptzType: Encoding.TIMESTAMP,
    TimestampNanoType: Encoding.TIMESTAMP_NS,
    TimestamptzNanoType: Encoding.TIMESTAMP_NS,
    DecimalType: Encoding.DECIMAL,
    StringType: Encoding.STRING,
    BinaryType: Encoding.BINARY,
    FixedType: Encoding.FIXED,
    UUIDType: Encoding.UUID,
    FloatType: Encoding.FLOAT,
    DoubleType: Encoding.FLOAT,
}
_WIDTHS = {Encoding.BOOLEAN: 1, Encoding.DECIMAL: 16, Encoding.UUID: 16, Encoding.STRING: 0, Encoding.BINARY: 0}
_SIGN = 1 << 63
_NAN = struct.unpack("<Q", struct.pack("<d", float("nan")))[0] & ~_SIGN


def encoding_of(kind: IcebergType) -> Encoding | None:
    """The encoding of a type; None for one that cannot be indexed."""
    return _ENCODINGS.get(type(kind))


def width_of(kind: IcebergType) -> int:
    """Bytes of every encoded value of a type; 0 when they differ, or are more than an index keeps."""
    if isinstance(kind, FixedType):
        return len(kind) if len(kind) <= LONGEST else 0
    return _WIDTHS.get(_ENCODINGS[type(kind)], 8)


def encode_values(values: pa.Array, kind: IcebergType) -> pa.Array:
    """The bytes of values, none of which is null: fixed-size binary when `width_of` is known, else binary."""
    if isinstance(values, pa.ExtensionArray):
        values = values.storage
    if isinstance(kind, FloatType | DoubleType):
        return _floats(values)
    field = NestedField(1, "value", kind, required=True)
    encoded = Key((field,)).encode(pa.table([values], names=["value"]))
    return encoded.cast(pa.binary()) if not width_of(kind) else encoded


def cut(values: pa.Array) -> pa.Array:
    """Encoded values of differing length, none longer than an index keeps."""
    if pa.types.is_fixed_size_binary(values.type) or not len(values):
        return values
    longest = pc.max(pc.binary_length(values)).as_py()
    return pc.binary_slice(values, 0, LONGEST) if longest > LONGEST else values


def encode_literal(kind: IcebergType, key: Any) -> bytes | None:
    """The bytes of a value as predicates hold it (model/predicate/condition.py); None when no row can hold it."""
    match _ENCODINGS[type(kind)]:
        case Encoding.BOOLEAN:
            return bytes([1 if key else 0])
        case Encoding.STRING:
            return str(key).encode()
        case Encoding.BINARY | Encoding.FIXED | Encoding.UUID:
            return bytes(key)
        case Encoding.DECIMAL:
            return (key + (1 << 127)).to_bytes(16, "big") if -(1 << 127) <= key < 1 << 127 else None
        case Encoding.FLOAT:
            return bytes(_floats(pa.array([float(key)], pa.float64()))[0].as_py())
        case _:
            return struct.pack(">Q", key + _SIGN) if -_SIGN <= key < _SIGN else None


def _floats(values: pa.Array) -> pa.Array:
    numbers = np.asarray(values.cast(pa.float64())) + 0.0
    bits = numbers.view(np.uint64).copy()
    bits[np.isnan(numbers)] = _NAN
    negative = bits >> np.uint64(63) == 1
    bits = np.where(negative, ~bits, bits ^ np.uint64(_SIGN))
    data = pa.py_buffer(bits.astype(">u8").tobytes())
    return pa.Array.from_buffers(pa.binary(8), len(bits), [None, data])
