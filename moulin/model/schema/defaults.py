"""Default values of columns: from what a user gives to what a schema keeps, and their JSON.

A schema keeps a default as bool, int, float, Decimal, date, time, datetime (UTC for timestamptz), str,
bytes or UUID. For the nanosecond types, which Python's datetime cannot hold, it is an int: nanoseconds since 1970.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time
from decimal import Decimal, InvalidOperation, localcontext
from types import MappingProxyType
from typing import Any, TypeVar
from uuid import UUID

from moulin.errors import InvalidInput
from moulin.model.schema.times import datetime_to_nanos, text_to_nanos
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

_T = TypeVar("_T")


def coerce_default(kind: IcebergType, value: Any, what: str) -> Any:
    """`value` in the form in which a schema keeps a default of type `kind`; refused when it does not fit exactly.

    Text is read for dates, times, UUIDs and decimals; a float default is rounded to the nearest float, as stored values
    are; text without a zone counts as UTC where the type has one, and a datetime needs one there.
    """
    coerce = _COERCE.get(type(kind))
    if coerce is None:
        raise InvalidInput(f"A default for {what} is not possible: columns of type {kind} have no defaults.")
    try:
        return coerce(kind, value)
    except (ValueError, TypeError, OverflowError, InvalidOperation, struct.error):
        raise InvalidInput(f"The default {value!r} of {what} does not fit its type {kind}.") from None


def default_value(field: NestedField, *, write: bool = False) -> Any:
    """What rows get that lack `field`: rows stored before it was added, or, with `write`, rows written without it.

    None for null. The value is one that `pa.scalar(value, arrow_type(field.field_type))` takes.
    """
    value = field.write_default if write else field.initial_default
    return None if value is None else coerce_default(field.field_type, value, f"column {field.name}")


def widen_default(old: IcebergType, new: IcebergType, value: Any) -> Any:
    """The default of a column after its type was widened from `old` to `new`."""
    if value is not None and isinstance(old, DateType) and not isinstance(new, DateType):
        value = datetime.combine(value, time())
    return None if value is None else coerce_default(new, value, "the widened column")


def _boolean(_: IcebergType, value: Any) -> bool:
    return _of(value, bool)


def _integer(kind: IcebergType, value: Any) -> int:
    if isinstance(value, bool):
        raise TypeError
    number = _of(value, int)
    struct.pack("<i" if isinstance(kind, IntegerType) else "<q", number)
    return number


def _floating(kind: IcebergType, value: Any) -> float:
    if isinstance(value, bool):
        raise TypeError
    number = float(_of(value, int, float))
    if isinstance(value, int) and int(number) != value:
        raise ValueError
    if isinstance(kind, FloatType):
        (number,) = struct.unpack("<f", struct.pack("<f", number))
    if not math.isfinite(number):
        raise ValueError  # JSON, in which schemas are kept, has no form for it
    return number


def _decimal(kind: IcebergType, value: Any) -> Decimal:
    assert isinstance(kind, DecimalType)
    if isinstance(value, bool) or not isinstance(value, str | int | float | Decimal):
        raise TypeError
    number = Decimal(repr(value) if isinstance(value, float) else value)
    with localcontext(prec=kind.precision) as context:
        context.traps[InvalidOperation] = True
        exact = number.quantize(Decimal(1).scaleb(-kind.scale))
    if exact != number:
        raise ValueError
    return exact


def _date(_: IcebergType, value: Any) -> date:
    if isinstance(value, datetime):
        raise TypeError
    return date.fromisoformat(value) if isinstance(value, str) else _of(value, date)


def _time(_: IcebergType, value: Any) -> time:
    found = time.fromisoformat(value) if isinstance(value, str) else _of(value, time)
    if found.tzinfo is not None:
        raise ValueError
    return found


def _timestamp(kind: IcebergType, value: Any) -> datetime:
    if isinstance(value, str) and _SUB_MICRO.search(value):
        raise ValueError
    found = datetime.fromisoformat(value) if isinstance(value, str) else _of(value, datetime)
    if isinstance(kind, TimestamptzType):
        if found.tzinfo is None and not isinstance(value, str):
            raise ValueError
        return found.replace(tzinfo=UTC) if found.tzinfo is None else found.astimezone(UTC)
    if found.tzinfo is not None:
        raise ValueError
    return found


def _nanos(kind: IcebergType, value: Any) -> int:
    zoned = isinstance(kind, TimestamptzNanoType)
    if isinstance(value, str):
        text = value.replace(" ", "T", 1)
        if zoned and re.search(r"(Z|[+-]\d\d:?\d\d)$", text):
            number = text_to_nanos(text.replace("Z", "+00:00"), zoned=True)
        else:
            number = text_to_nanos(text, zoned=False)
    elif isinstance(value, datetime):
        number = datetime_to_nanos(_timestamp(TimestamptzType() if zoned else TimestampType(), value))
    else:
        number = _integer(LongType(), value)
    struct.pack("<q", number)
    return number


def _string(_: IcebergType, value: Any) -> str:
    text = _of(value, str)
    text.encode()  # a lone surrogate has no UTF-8 form
    return text


def _uuid(_: IcebergType, value: Any) -> UUID:
    if isinstance(value, bytes):
        return UUID(bytes=value)
    return UUID(value) if isinstance(value, str) else _of(value, UUID)


def _binary(kind: IcebergType, value: Any) -> bytes:
    found = bytes(_of(value, bytes, bytearray, memoryview))
    if isinstance(kind, FixedType) and len(found) != len(kind):
        raise ValueError
    return found


def _of(value: object, *kinds: type[_T]) -> _T:
    if not isinstance(value, kinds):
        raise TypeError
    return value


_SUB_MICRO = re.compile(r"\.\d{7,}")

_COERCE: Mapping[type[IcebergType], Callable[[IcebergType, Any], Any]] = MappingProxyType(
    {
        BooleanType: _boolean,
        IntegerType: _integer,
        LongType: _integer,
        FloatType: _floating,
        DoubleType: _floating,
        DecimalType: _decimal,
        DateType: _date,
        TimeType: _time,
        TimestampType: _timestamp,
        TimestamptzType: _timestamp,
        TimestampNanoType: _nanos,
        TimestamptzNanoType: _nanos,
        StringType: _string,
        UUIDType: _uuid,
        FixedType: _binary,
        BinaryType: _binary,
    }
)


__all__ = ["coerce_default", "default_value", "widen_default"]
