"""Single values of key columns: checked, and encoded as `Key` says."""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from numbers import Integral
from typing import Any, Final
from uuid import UUID

from moulin.errors import InvalidInput
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    FixedType,
    IcebergType,
    IntegerType,
    LongType,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

SIGN: Final = 1 << 63
VARIABLE: Final = (StringType, BinaryType)
_EPOCH: Final = datetime(1970, 1, 1)
_DAY: Final = date(1970, 1, 1).toordinal()
_MICROS: Final = timedelta(microseconds=1)
_WIDE: Final = Context(prec=60)


def _number(value: int) -> bytes:
    return struct.pack(">Q", value + SIGN)


def _micros(value: datetime) -> int:
    naive = value.astimezone(UTC).replace(tzinfo=None) if value.tzinfo else value
    return (naive - _EPOCH) // _MICROS


def _time_micros(value: time) -> int:
    return ((value.hour * 60 + value.minute) * 60 + value.second) * 1_000_000 + value.microsecond


def _unscaled(value: Decimal) -> bytes:
    sign, digits, _ = value.as_tuple()
    number = int("".join(map(str, digits))) * (-1 if sign else 1)
    return (number + (1 << 127)).to_bytes(16, "big")


# From a checked value to its bytes.
ENCODERS: dict[type[IcebergType], Callable[[Any], bytes]] = {
    BooleanType: lambda value: b"\1" if value else b"\0",
    IntegerType: _number,
    LongType: _number,
    DateType: lambda value: _number(value.toordinal() - _DAY),
    TimeType: lambda value: _number(_time_micros(value)),
    TimestampType: lambda value: _number(_micros(value)),
    TimestamptzType: lambda value: _number(_micros(value)),
    TimestampNanoType: _number,
    TimestamptzNanoType: _number,
    DecimalType: _unscaled,
    StringType: lambda value: value.encode(),
    BinaryType: bytes,
    FixedType: bytes,
    UUIDType: lambda value: value.bytes,
}


def _refuse(value: Any, name: str, wanted: str) -> InvalidInput:
    shown = repr(value)
    return InvalidInput(f"Key column {name} takes {wanted}, not {shown if len(shown) <= 80 else shown[:80] + '...'}.")


def _simple(kind: type, wanted: str) -> Callable[[Any], Callable[[Any, str], Any]]:
    def make(_: Any) -> Callable[[Any, str], Any]:
        def check(value: Any, name: str) -> Any:
            if type(value) is not kind:
                raise _refuse(value, name, wanted)
            return value

        return check

    return make


def _whole_number(bits: int) -> Callable[[Any], Callable[[Any, str], Any]]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def make(_: Any) -> Callable[[Any, str], Any]:
        def check(value: Any, name: str) -> int:
            if not isinstance(value, int) and isinstance(value, Integral):  # of NumPy
                value = int(value)
            if type(value) is not int or not low <= value <= high:
                raise _refuse(value, name, f"a whole number of {bits} bits")
            return value

        return check

    return make


def _check_text(_: Any) -> Callable[[Any, str], str]:
    def check(value: Any, name: str) -> str:
        if not isinstance(value, str):
            raise _refuse(value, name, "text")
        try:
            value.encode()
        except UnicodeEncodeError:
            raise _refuse(value, name, "valid Unicode text") from None
        return str(value)

    return check


def _check_bytes(kind: Any) -> Callable[[Any, str], bytes]:
    width = len(kind) if isinstance(kind, FixedType) else None

    def check(value: Any, name: str) -> bytes:
        if not isinstance(value, bytes | bytearray | memoryview):
            raise _refuse(value, name, "bytes")
        data = bytes(value)
        if width is not None and len(data) != width:
            raise _refuse(value, name, f"{width} bytes")
        return data

    return check


def _check_moment(kind: Any) -> Callable[[Any, str], Any]:
    zoned = isinstance(kind, TimestamptzType | TimestamptzNanoType)
    nanos = isinstance(kind, TimestampNanoType | TimestamptzNanoType)

    def check(value: Any, name: str) -> Any:
        try:
            return moment(value, name)
        except OverflowError:
            raise _refuse(value, name, "a time between the years 1 and 9999") from None

    def moment(value: Any, name: str) -> Any:
        if nanos and type(value) is int and -SIGN <= value < SIGN:
            return value
        if isinstance(value, str):
            try:
                text = datetime.fromisoformat(value)
            except ValueError:
                raise _refuse(value, name, "a time") from None
            value = text.replace(tzinfo=UTC) if zoned and text.tzinfo is None else text
        if not isinstance(value, datetime):
            raise _refuse(value, name, "a datetime")
        if zoned:
            if value.tzinfo is None:
                raise _refuse(value, name, "a datetime with a time zone")
            value = value.astimezone(UTC)
        elif value.tzinfo is not None:
            raise _refuse(value, name, "a datetime without a zone")
        if not nanos:
            if getattr(value, "nanosecond", 0):
                raise _refuse(value, name, "a time in whole microseconds")
            return value
        number = _micros(value) * 1000 + getattr(value, "nanosecond", 0)
        if not -SIGN <= number < SIGN:
            raise _refuse(value, name, "a time between 1677 and 2262")
        return number

    return check


def _check_time(_: Any) -> Callable[[Any, str], time]:
    def check(value: Any, name: str) -> time:
        if type(value) is not time or value.tzinfo is not None:
            raise _refuse(value, name, "a time of day without a zone")
        return value

    return check


def _check_date(_: Any) -> Callable[[Any, str], date]:
    def check(value: Any, name: str) -> date:
        if isinstance(value, str):
            try:
                return date.fromisoformat(value)
            except ValueError:
                raise _refuse(value, name, "a date") from None
        if type(value) is not date:
            raise _refuse(value, name, "a date")
        return value

    return check


def _check_decimal(kind: Any) -> Callable[[Any, str], Decimal]:
    quantum, limit = Decimal(1).scaleb(-kind.scale), Decimal(10) ** (kind.precision - kind.scale)

    def check(value: Any, name: str) -> Decimal:
        if type(value) is int:
            value = Decimal(value)
        if not isinstance(value, Decimal) or not value.is_finite() or value.copy_abs() >= limit:
            raise _refuse(value, name, str(kind))
        scaled = value.quantize(quantum, context=_WIDE)
        if scaled != value:
            raise _refuse(value, name, str(kind))
        return scaled or scaled.copy_abs()

    return check


def _check_uuid(_: Any) -> Callable[[Any, str], UUID]:
    def check(value: Any, name: str) -> UUID:
        if isinstance(value, UUID):
            return value
        try:
            return UUID(bytes=bytes(value)) if isinstance(value, bytes) else UUID(value)
        except (ValueError, AttributeError, TypeError):
            raise _refuse(value, name, "a UUID") from None

    return check


# From the type of a column to what checks a value of the column with this name, and gives it in its one form.
CHECKS: dict[type[IcebergType], Callable[[Any], Callable[[Any, str], Any]]] = {
    BooleanType: _simple(bool, "True or False"),
    IntegerType: _whole_number(32),
    LongType: _whole_number(64),
    DateType: _check_date,
    TimeType: _check_time,
    TimestampType: _check_moment,
    TimestamptzType: _check_moment,
    TimestampNanoType: _check_moment,
    TimestamptzNanoType: _check_moment,
    DecimalType: _check_decimal,
    StringType: _check_text,
    BinaryType: _check_bytes,
    FixedType: _check_bytes,
    UUIDType: _check_uuid,
}
