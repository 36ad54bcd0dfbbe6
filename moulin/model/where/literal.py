"""Literals of a `where`, and what a column compared with one means.

A literal takes the type of the column it meets, exactly: nothing is rounded on the way. A number between two values
of the column's type, or beyond all of them, still compares as it should (`x > 1.5` is `x >= 2` for an int, and `x <
1e30` holds for every one). Only floats round, to the nearest double, as in Spark. Text without a time zone is UTC
beside a column with one.
"""

from __future__ import annotations

import math
import re
import struct
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from typing import TypeAlias
from uuid import UUID

from moulin.errors import InvalidInput
from moulin.model.predicate.condition import (
    FALSE,
    Column,
    Comparand,
    Compare,
    Condition,
    IsNan,
    IsNull,
    Operator,
    membership,
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
    UUIDType,
)
from moulin.model.where.moment import DAY_NS, Clock, Day, Instant, read_date, read_instant, read_time

LiteralValue: TypeAlias = bool | Decimal | str | bytes | Day | Instant | Clock | None


@dataclass(frozen=True, slots=True)
class Literal:
    """A value and the text it was written as, for messages."""

    value: LiteralValue
    sql: str


_NUMBER_PATTERN = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.IGNORECASE)
_NOT_FINITE_PATTERN = re.compile(r"[+-]?(nan|inf|infinity)", re.IGNORECASE)

_UNIT_NS: Mapping[type[IcebergType], int] = {
    TimestampType: 1000,
    TimestamptzType: 1000,
    TimestampNanoType: 1,
    TimestamptzNanoType: 1,
}
_ZONED = (TimestamptzType, TimestamptzNanoType)
_INT = (-(2**31), 2**31 - 1)
_LONG = (-(2**63), 2**63 - 1)


def literal_of(value: bool | int | float | str | bytes | Day | Instant) -> Literal:
    """A value that was never SQL text, as a literal. InvalidInput for a float that is not finite, and for half of a
    surrogate pair in text.
    """
    match value:
        case bool():
            return Literal(value, str(value).lower())
        case int() | float():
            if isinstance(value, float) and not math.isfinite(value):
                raise InvalidInput(f"{value} is not a finite number.")
            return Literal(Decimal(repr(value)), repr(value))
        case str():
            return Literal(check_unicode(value), f"'{value}'")
        case bytes():
            return Literal(value, f"x'{value.hex()}'")
        case _:
            return Literal(value, str(value))


def check_unicode(text: str) -> str:
    """`text` itself. Raises InvalidInput when no file can hold it."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidInput(
            f"The where has a character at offset {error.start} that is half of a surrogate pair; remove it."
        ) from None
    return text


def read_number(text: str) -> Decimal | None:
    """A finite number, or None."""
    try:
        return Decimal(text.strip()) if _NUMBER_PATTERN.fullmatch(text.strip()) else None
    except InvalidOperation:
        return None


def cast(literal: Literal, name: str, scale: int | None) -> Literal | None:
    """`cast(literal as name)`, or a literal such as date '...'; None when it is no value of that type.

    `scale` is that of decimal(p, s).
    """
    value = literal.value
    text = value if isinstance(value, str) else None
    number = read_number(text) if text is not None else value if isinstance(value, Decimal) else None
    found: LiteralValue = None
    if value is None:
        return literal
    if name == "DATE":
        found = read_date(text) if text is not None else value if isinstance(value, Day) else None
    elif name == "TIME":
        found = read_time(text) if text is not None else value if isinstance(value, Clock) else None
    elif name.startswith(("TIMESTAMP", "DATETIME")):
        instant = read_instant(text) if text is not None else value
        found = Instant(instant.days * DAY_NS, False) if isinstance(instant, Day) else instant
        found = found if isinstance(found, Instant) else None
    elif name in ("TINYINT", "SMALLINT", "INT", "BIGINT", "DECIMAL"):
        found = number if number is not None and _floor(number, scale or 0)[1] else None
    elif name in ("FLOAT", "DOUBLE"):
        found = _rounded(number, name) if number is not None else text if _float(text) else None
    elif name in ("TEXT", "VARCHAR", "CHAR", "UUID"):
        found = text
    elif name == "BOOLEAN":
        found = value if isinstance(value, bool) else {"true": True, "false": False}.get((text or "").strip().lower())
    return None if found is None else Literal(found, literal.sql)


def comparison(column: Column, operator: Operator, literal: Literal) -> Condition:
    """The rows whose `column` compares so with `literal`. None do when it is null."""
    if literal.value is None:
        return FALSE
    comparand, exact = floor_of(column, literal)
    if isinstance(comparand, int):
        return _whole(column, operator, comparand, exact)
    if isinstance(comparand, float) and math.isnan(comparand):
        if operator in (">", "<="):
            return FALSE if operator == ">" else IsNull(column, True)
        return IsNan(column, operator in ("!=", "<"))
    if not exact:
        if operator in ("=", "!="):
            return membership(column, [], operator == "!=")
        operator = ">" if operator in (">", ">=") else "<="
    return Compare(column, operator, comparand)


def members(column: Column, literals: list[Literal]) -> tuple[list[Comparand], bool]:
    """The comparands of `literals`, less those that the column cannot hold, and whether NaN was among them."""
    comparands: list[Comparand] = []
    nan = False
    limits = limits_of(column.type)
    for literal in literals:
        comparand, exact = floor_of(column, literal)
        if isinstance(comparand, float) and math.isnan(comparand):
            nan = True
        elif exact and (limits is None or limits[0] <= comparand <= limits[1]):  # type: ignore[operator]
            comparands.append(comparand)
    return comparands, nan


def floor_of(column: Column, literal: Literal) -> tuple[Comparand, bool]:
    """The greatest comparand not above `literal`, and whether it is equal. It may be beyond the limits of the type."""
    found = _floor_of(column.type, literal.value)
    if found is None:
        wanted = _WANTED.get(type(column.type), "another value")
        raise InvalidInput(
            f"Column {column.name} has type {column.type} and cannot be compared with {shown(literal)}; write {wanted}."
        )
    return found


def shown(literal: Literal) -> str:
    """The literal as it was written, cut to fit a message."""
    return literal.sql if len(literal.sql) <= 60 else literal.sql[:57] + "..."


def limits_of(iceberg: IcebergType) -> tuple[int, int] | None:
    """The least and the greatest comparand of a type whose comparands are ints; None for others."""
    if isinstance(iceberg, DecimalType):
        return 1 - 10**iceberg.precision, 10**iceberg.precision - 1
    if isinstance(iceberg, BooleanType):
        return 0, 1
    if isinstance(iceberg, TimeType):
        return 0, DAY_NS // 1000 - 1
    if isinstance(iceberg, IntegerType | DateType):
        return _INT
    return _LONG if isinstance(iceberg, LongType) or type(iceberg) in _UNIT_NS else None


_WANTED: Mapping[type[IcebergType], str] = {
    BooleanType: "true or false",
    IntegerType: "a number",
    LongType: "a number",
    DecimalType: "a number",
    FloatType: "a number",
    DoubleType: "a number",
    DateType: "a date such as '2024-05-31'",
    TimeType: "a time such as '12:30:00'",
    TimestampType: "a timestamp without time zone such as '2024-05-31 12:30:00'",
    TimestampNanoType: "a timestamp without time zone such as '2024-05-31 12:30:00'",
    TimestamptzType: "a timestamp such as '2024-05-31T12:30:00Z'",
    TimestamptzNanoType: "a timestamp such as '2024-05-31T12:30:00Z'",
    StringType: "text in single quotes",
    UUIDType: "a uuid in single quotes",
    FixedType: "bytes of that length such as x'00ff'",
    BinaryType: "bytes such as x'00ff'",
}


def _whole(column: Column, operator: Operator, floor: int, exact: bool) -> Condition:
    """A comparison with a type whose comparands are ints, as an equality or a closed bound within its limits."""
    least, greatest = limits_of(column.type) or (floor, floor)
    if operator in ("=", "!="):
        return membership(column, [floor] if exact and least <= floor <= greatest else [], operator == "!=")
    if operator in (">", ">="):
        bound = floor if exact and operator == ">=" else floor + 1
        outside, everything = bound > greatest, bound <= least
        kept = Compare(column, ">=", bound)
    else:
        bound = floor - 1 if exact and operator == "<" else floor
        outside, everything = bound < least, bound >= greatest
        kept = Compare(column, "<=", bound)
    return FALSE if outside else IsNull(column, True) if everything else kept


def _floor_of(iceberg: IcebergType, value: LiteralValue) -> tuple[Comparand, bool] | None:
    """As `floor_of`; None when the two do not go together."""
    match iceberg:
        case BooleanType():
            if isinstance(value, str):
                value = {"true": True, "false": False}.get(value.strip().lower(), value)
            return (int(value), True) if isinstance(value, bool) else None
        case IntegerType() | LongType() | DecimalType():
            number = read_number(value) if isinstance(value, str) else value
            scale = iceberg.scale if isinstance(iceberg, DecimalType) else 0
            return _floor(number, scale) if isinstance(number, Decimal) else None
        case DateType():
            moment = read_date(value) if isinstance(value, str) else value
            if isinstance(moment, Instant) and not moment.zoned:
                days, rest = divmod(moment.ns, DAY_NS)
                return days, rest == 0
            return (moment.days, True) if isinstance(moment, Day) else None
        case TimeType():
            clock = read_time(value) if isinstance(value, str) else value
            return (clock.ns // 1000, clock.ns % 1000 == 0) if isinstance(clock, Clock) else None
        case TimestampType() | TimestamptzType() | TimestampNanoType() | TimestamptzNanoType():
            instant = read_instant(value) if isinstance(value, str) else value
            if isinstance(instant, Day):
                instant = Instant(instant.days * DAY_NS, False)
            if not isinstance(instant, Instant) or (instant.zoned and not isinstance(iceberg, _ZONED)):
                return None
            units, rest = divmod(instant.ns, _UNIT_NS[type(iceberg)])
            return units, rest == 0
        case StringType():
            return (value, True) if isinstance(value, str) else None
        case UUIDType():
            return _uuid(value)
        case FixedType():
            return (value, True) if isinstance(value, bytes) and len(value) == len(iceberg) else None
        case BinaryType():
            return (value, True) if isinstance(value, bytes) else None
        case FloatType() | DoubleType():
            return _float(value)
        case _:
            return None


def _floor(number: Decimal, scale: int) -> tuple[int, bool]:
    # Exponents come from the user, so a number far outside every type must not be written out in digits.
    if number and number.adjusted() > 80:
        return (10**120 if number > 0 else -(10**120)), True
    if number and number.adjusted() < -80:
        return (0 if number > 0 else -1), False
    numerator, denominator = number.as_integer_ratio()
    floor, rest = divmod(numerator * 10**scale, denominator)
    return floor, rest == 0


def _rounded(number: Decimal, name: str) -> Decimal | str:
    """The nearest float or double, exactly."""
    try:
        found = struct.unpack("<f", struct.pack("<f", float(number)))[0] if name == "FLOAT" else float(number)
    except OverflowError:
        found = math.copysign(math.inf, number)
    return Decimal(found) if math.isfinite(found) else str(found)


def _float(value: LiteralValue) -> tuple[Comparand, bool] | None:
    if isinstance(value, str):
        if _NOT_FINITE_PATTERN.fullmatch(value.strip()):
            return float(value), True
        value = read_number(value)
    if not isinstance(value, Decimal):
        return None
    nearest = float(value)
    if math.isinf(nearest):
        return (sys.float_info.max if nearest > 0 else nearest), False
    return nearest, True


def _uuid(value: LiteralValue) -> tuple[Comparand, bool] | None:
    if isinstance(value, bytes) and len(value) == 16:
        return value, True
    try:
        return (UUID(value.strip()).bytes, True) if isinstance(value, str) else None
    except ValueError:
        return None
