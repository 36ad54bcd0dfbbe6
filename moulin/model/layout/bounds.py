"""Iceberg single-value bytes (Appendix D of its specification), as kept in `ColumnFacts.lower` and `.upper`.

Values are int for whole numbers and for dates (days), times and timestamps (their own unit since
the epoch), bytes for uuid, fixed and binary, and bool, float, str and Decimal for the rest.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping
from decimal import Decimal
from typing import Any, TypeVar

from moulin.errors import Corrupt, InvalidInput
from moulin.model.schema.single_value import from_bytes, to_bytes, unscaled_to_bytes, unscaled_to_decimal
from moulin.model.schema.values import (
    BinaryType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

TRUNCATE_LENGTH = 16
"""Code points of a string, or bytes of a binary value, that a bound keeps."""

INT64_MIN = -(2**63)
INT64_MAX = 2**63 - 1

_DAY_NS = 86_400 * 10**9
_UNITS_PER_DAY: Mapping[type[PrimitiveType], int] = {
    TimestampType: 86_400 * 10**6,
    TimestamptzType: 86_400 * 10**6,
    TimestampNanoType: _DAY_NS,
    TimestamptzNanoType: _DAY_NS,
}
# Bytes of whole numbers, which are most bounds: they are read in the shortest way.
_WHOLE: Mapping[type[PrimitiveType], int] = {
    IntegerType: 4,
    LongType: 8,
    DateType: 4,
    TimeType: 8,
    **dict.fromkeys(_UNITS_PER_DAY, 8),
}
_WHOLE_FORMS = {kind: struct.Struct("<i" if size == 4 else "<q") for kind, size in _WHOLE.items()}
# Bytes of the types that can be widened, and of those that they can be widened to.
_WIDTHS: Mapping[type[PrimitiveType], int] = {**_WHOLE, FloatType: 4, DoubleType: 8}
_LAST_CODE_POINT = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)
_UNFIT = (ArithmeticError, AttributeError, TypeError, ValueError, struct.error)

_Text = TypeVar("_Text", str, bytes)


def bound_to_bytes(iceberg: PrimitiveType, value: Any) -> bytes:
    """The bytes of one value, whole. InvalidInput for NaN and for what the type cannot hold."""
    if isinstance(value, float) and math.isnan(value):
        raise InvalidInput(f"NaN is never a bound of a {iceberg} column; leave the bound out.")
    try:
        if isinstance(iceberg, DecimalType):
            return unscaled_to_bytes(_unscaled(iceberg, Decimal(value)))
        data = bytes(to_bytes(iceberg, value))
    except _UNFIT as error:
        raise InvalidInput(f"The value {value!r} does not fit type {iceberg}.") from error
    if (isinstance(iceberg, FixedType) and len(data) != len(iceberg)) or (
        isinstance(iceberg, UUIDType) and len(data) != 16
    ):
        raise InvalidInput(f"The value {value!r} of {len(data)} bytes does not fit type {iceberg}.")
    return data


def _packed(form: struct.Struct, iceberg: PrimitiveType, value: int) -> bytes:
    try:
        return form.pack(value)
    except struct.error as error:
        raise InvalidInput(f"The value {value!r} does not fit type {iceberg}.") from error


def bound_from_bytes(iceberg: PrimitiveType, data: bytes) -> Any:
    """The value of `data`, which may have been written before its column was widened to `iceberg`."""
    if len(data) == _WHOLE.get(type(iceberg)):
        return int.from_bytes(data, "little", signed=True)
    try:
        if isinstance(iceberg, DecimalType):
            return unscaled_to_decimal(int.from_bytes(data, "big", signed=True), iceberg.scale)
        per_day = _UNITS_PER_DAY.get(type(iceberg))
        if per_day is not None and len(data) == 4:
            return int(from_bytes(DateType(), data)) * per_day
        if isinstance(iceberg, UUIDType) and len(data) != 16:
            raise ValueError("a uuid has 16 bytes")
        return from_bytes(iceberg, bytes(data))
    except _UNFIT as error:
        raise Corrupt(f"The bound {bytes(data).hex()} is not a value of type {iceberg}.") from error


def is_wider(one: IcebergType, other: IcebergType) -> bool:
    """Whether bounds of type `one` have more bytes than those of `other`: what has them is no value of `other`."""
    if not isinstance(one, PrimitiveType) or not isinstance(other, PrimitiveType):
        return False
    return _WIDTHS.get(type(one), 0) > _WIDTHS.get(type(other), 8)


def lower_bound(iceberg: PrimitiveType, value: Any) -> bytes | None:
    """The bytes of a bound <= `value`: truncated for text and binary, -0.0 for a zero. None for NaN."""
    if type(value) is int and (form := _WHOLE_FORMS.get(type(iceberg))) is not None:
        return _packed(form, iceberg, value)
    if isinstance(iceberg, FloatType | DoubleType):
        if math.isnan(value):
            return None
        value = -0.0 if value == 0 else value
    elif isinstance(iceberg, StringType | BinaryType):
        value = truncate_lower(value)
    return bound_to_bytes(iceberg, value)


def upper_bound(iceberg: PrimitiveType, value: Any) -> bytes | None:
    """The bytes of a bound >= `value`: truncated for text and binary, +0.0 for a zero. None for NaN, or without one."""
    if type(value) is int and (form := _WHOLE_FORMS.get(type(iceberg))) is not None:
        return _packed(form, iceberg, value)
    if isinstance(iceberg, FloatType | DoubleType):
        if math.isnan(value):
            return None
        value = 0.0 if value == 0 else value
    elif isinstance(iceberg, StringType | BinaryType):
        value = truncate_upper(value)
    return None if value is None else bound_to_bytes(iceberg, value)


def truncate_lower(value: _Text, length: int = TRUNCATE_LENGTH) -> _Text:
    """The first `length` code points or bytes: a value <= `value`."""
    return value[:length]


def truncate_upper(value: _Text, length: int = TRUNCATE_LENGTH) -> _Text | None:
    """A value >= `value` of at most `length` code points or bytes: itself if that short, None if there is none."""
    if len(value) <= length:
        return value
    for last in range(length - 1, -1, -1):
        grown = _grown(value[last : last + 1])
        if grown is not None:
            return value[:last] + grown
    return None


def time_range_ns(iceberg: IcebergType, lower: bytes, upper: bytes) -> tuple[int, int]:
    """The instants that two bounds of a date or timestamp column span, in Unix nanoseconds.

    A date spans its whole day, up to its last nanosecond. Instants outside of 64 bits are moved to the nearest end of
    that range, so that comparing with instants treated alike still answers "may overlap" whenever they do.
    """
    if not isinstance(iceberg, PrimitiveType) or not has_time_range(iceberg):
        raise InvalidInput(f"A column of type {iceberg} cannot be the event time: choose a date or timestamp column.")
    first, last = bound_from_bytes(iceberg, lower), bound_from_bytes(iceberg, upper)
    if isinstance(iceberg, DateType):
        return _clamped(first * _DAY_NS), _clamped((last + 1) * _DAY_NS - 1)
    unit = _DAY_NS // _UNITS_PER_DAY[type(iceberg)]
    return _clamped(first * unit), _clamped(last * unit)


def has_time_range(iceberg: IcebergType) -> bool:
    """Whether `time_range_ns` takes the type."""
    return isinstance(iceberg, DateType) or type(iceberg) in _UNITS_PER_DAY


def _grown(last: _Text) -> _Text | None:
    """The character or byte after `last`, or None after the greatest."""
    if isinstance(last, bytes):
        return bytes([last[0] + 1]) if last[0] < 0xFF else None
    point = ord(last) + 1
    if point > _LAST_CODE_POINT:
        return None
    return chr(_SURROGATES.stop if point in _SURROGATES else point)


def _unscaled(iceberg: DecimalType, value: Decimal) -> int:
    sign, digits, exponent = value.as_tuple()
    shift = iceberg.scale + int(exponent)
    number: int = int("".join(map(str, digits))) * 10 ** max(shift, 0)
    number, lost = divmod(number, 10 ** max(-shift, 0))
    if lost or len(str(number)) > iceberg.precision:
        raise ValueError("too many digits")
    return -number if sign else number


def _clamped(instant: int) -> int:
    return max(INT64_MIN, min(INT64_MAX, instant))


__all__ = [
    "INT64_MAX",
    "INT64_MIN",
    "TRUNCATE_LENGTH",
    "bound_from_bytes",
    "bound_to_bytes",
    "has_time_range",
    "is_wider",
    "lower_bound",
    "time_range_ns",
    "truncate_lower",
    "truncate_upper",
    "upper_bound",
]
