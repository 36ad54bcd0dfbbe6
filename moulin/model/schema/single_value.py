"""One value of a type as bytes and as JSON: Appendix D of Iceberg's specification.

In bytes, dates, times and timestamps are numbers of their own unit since 1970, and UUIDs are bytes. In JSON and in the
defaults of a schema they are Python's own values; timestamps in nanoseconds, which Python has none for, are numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import date, datetime, time
from decimal import Decimal
from struct import Struct
from types import MappingProxyType
from typing import Any
from uuid import UUID

from moulin.model.schema.times import (
    date_to_days,
    datetime_to_micros,
    datetime_to_nanos,
    days_to_date,
    micros_to_time,
    micros_to_timestamp,
    micros_to_timestamptz,
    nanos_to_text,
    text_to_datetime,
    text_to_nanos,
    time_to_micros,
)
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
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

_INT, _LONG, _FLOAT, _DOUBLE = Struct("<i"), Struct("<q"), Struct("<f"), Struct("<d")
_NUMBERS: Mapping[type[IcebergType], Struct] = MappingProxyType(
    {
        BooleanType: Struct("<?"),
        IntegerType: _INT,
        LongType: _LONG,
        FloatType: _FLOAT,
        DoubleType: _DOUBLE,
        DateType: _INT,
        TimeType: _LONG,
        TimestampType: _LONG,
        TimestamptzType: _LONG,
        TimestampNanoType: _LONG,
        TimestamptzNanoType: _LONG,
    }
)
# What a value had for bytes before its column was widened.
_NARROW: Mapping[type[IcebergType], Struct] = MappingProxyType({LongType: _INT, DoubleType: _FLOAT})


def to_bytes(kind: IcebergType, value: Any) -> bytes:
    """The bytes of a value. ValueError, TypeError, AttributeError or struct.error when the type cannot hold it."""
    form = _NUMBERS.get(type(kind))
    if form is not None:
        return form.pack(_number(kind, value))
    match kind:
        case StringType():
            return bytes(value.encode())
        case UUIDType():
            return value if isinstance(value, bytes) else bytes(value.bytes)
        case FixedType() | BinaryType():
            return bytes(memoryview(value))
        case DecimalType():
            _, digits, exponent = value.as_tuple()
            if abs(exponent) != kind.scale or len(digits) > kind.precision:
                raise ValueError(f"{value} has a different scale than {kind}, or more digits.")
            return decimal_to_bytes(value)
    raise TypeError(f"Values of type {kind} have no bytes.")


def from_bytes(kind: IcebergType, data: bytes) -> Any:
    """The value of `to_bytes`, numbers and bytes for times and UUIDs; those of an int or float for a long or double.

    ValueError or struct.error when `data` is no value of the type.
    """
    form = _NUMBERS.get(type(kind))
    if form is not None:
        return (_NARROW.get(type(kind), form) if len(data) < form.size else form).unpack(data)[0]
    match kind:
        case StringType():
            return bytes(data).decode()
        case UUIDType() | FixedType() | BinaryType():
            return data
        case DecimalType():
            return unscaled_to_decimal(int.from_bytes(data, "big", signed=True), kind.scale)
        case UnknownType():
            return None
    raise TypeError(f"Values of type {kind} have no bytes.")


def to_json(kind: IcebergType, value: Any) -> Any:
    """What stands for a value in JSON. Dates, times and UUIDs may be given as `from_bytes` does."""
    match kind:
        case BooleanType() | IntegerType() | LongType() | FloatType() | DoubleType() | StringType():
            return value
        case DateType():
            return days_to_date(_number(kind, value)).isoformat()
        case TimeType():
            return micros_to_time(_number(kind, value)).isoformat()
        case TimestampType():
            return micros_to_timestamp(_number(kind, value)).isoformat()
        case TimestamptzType():
            return micros_to_timestamptz(_number(kind, value)).isoformat()
        case TimestampNanoType() | TimestamptzNanoType():
            return nanos_to_text(_number(kind, value), zoned=isinstance(kind, TimestamptzNanoType))
        case FixedType() | BinaryType():
            if isinstance(kind, FixedType) and len(value) != len(kind):
                raise ValueError(f"{len(value)} bytes do not fit {kind}.")
            return bytes(value).hex()
        case UUIDType():
            return str(UUID(bytes=value) if isinstance(value, bytes) else value)
        case DecimalType():
            return str(value)
    raise TypeError(f"Values of type {kind} have no JSON.")


def from_json(kind: IcebergType, value: Any) -> Any:
    """The value that `to_json` gave `value` for. What is no text is returned as it is, dates and times from numbers."""
    read = _READ.get(type(kind))
    if read is None:
        raise TypeError(f"Values of type {kind} have no JSON.")
    found = read(value)
    if isinstance(kind, FixedType) and len(found) != len(kind):
        raise ValueError(f"{len(found)} bytes do not fit {kind}.")
    return found


def decimal_to_bytes(value: Decimal) -> bytes:
    """The digits of a decimal without the point, as the shortest big-endian two's complement."""
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits)))
    return unscaled_to_bytes(-number if sign else number)


def unscaled_to_bytes(unscaled: int) -> bytes:
    """The shortest big-endian two's complement of a number."""
    bits = (unscaled if unscaled >= 0 else ~unscaled).bit_length()
    return unscaled.to_bytes(bits // 8 + 1, "big", signed=True)


def unscaled_to_decimal(unscaled: int, scale: int) -> Decimal:
    """The decimal with these digits, `scale` of them after the point, exactly and whatever the context."""
    sign, digits, _ = Decimal(unscaled).as_tuple()
    return Decimal((sign, digits, -scale))


def _number(kind: IcebergType, value: Any) -> Any:
    """The number that stands for a date, time, timestamp or boolean; other values as they are."""
    match value:
        case datetime():
            nanos = isinstance(kind, TimestampNanoType | TimestamptzNanoType)
            return datetime_to_nanos(value) if nanos else datetime_to_micros(value)
        case date():
            return date_to_days(value)
        case time():
            return time_to_micros(value)
    return bool(value) if isinstance(kind, BooleanType) else value


def _reader(from_text: Callable[[str], Any], from_number: Callable[[int], Any] | None = None) -> Callable[[Any], Any]:
    def read(value: Any) -> Any:
        if isinstance(value, str):
            return from_text(value)
        return from_number(value) if from_number is not None and isinstance(value, int) else value

    return read


def _uuid(value: Any) -> Any:
    if isinstance(value, bytes):
        return UUID(bytes=value)
    return UUID(value) if isinstance(value, str) else value


def _as_it_is(value: Any) -> Any:
    return value


_READ: Mapping[type[IcebergType], Callable[[Any], Any]] = MappingProxyType(
    {
        BooleanType: _as_it_is,
        IntegerType: _as_it_is,
        LongType: _as_it_is,
        FloatType: _as_it_is,
        DoubleType: _as_it_is,
        StringType: _as_it_is,
        DateType: _reader(date.fromisoformat, days_to_date),
        TimeType: _reader(time.fromisoformat, micros_to_time),
        TimestampType: _reader(lambda text: text_to_datetime(text, zoned=False), micros_to_timestamp),
        TimestamptzType: _reader(lambda text: text_to_datetime(text, zoned=True), micros_to_timestamptz),
        TimestampNanoType: _reader(lambda text: text_to_nanos(text, zoned=False)),
        TimestamptzNanoType: _reader(lambda text: text_to_nanos(text, zoned=True)),
        FixedType: _reader(bytes.fromhex),
        BinaryType: _reader(bytes.fromhex),
        DecimalType: Decimal,
        UUIDType: _uuid,
    }
)
