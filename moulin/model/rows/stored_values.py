"""Single Python values in the form in which the log and the memtable store them.

`storing` makes the check of one type once, as a function that is called for every value. It takes plain values alone:
those of exactly the Python type that a column suggests. ValueError, TypeError or OverflowError mean that `model.rows`
must look more closely, which converts more and says what is wrong. Whatever it takes `model.rows` takes, as the same
value.

A stored value is of the type that docs/formats/log_entry.md gives: floats are rounded, decimals have all their digits,
times in nanoseconds are numbers, maps are dicts, and structs are dicts with all their fields. Lists are tuples, which
the garbage collector of Python soon leaves alone when they hold plain values. Dicts are new ones, which nobody else
can change; `shown_values` copies them again for those who read.
"""

# Decisions: docs/decisions/0331

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import date, datetime, time
from decimal import Context, Decimal
from typing import Any, Final, NamedTuple
from uuid import UUID

import numpy as np

from moulin.model.rows.conversion import Target
from moulin.model.rows.nano_datetime import NanoDatetime
from moulin.model.schema.times import datetime_to_nanos
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
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)

One = Callable[[Any], Any]
Many = Callable[[Sequence[Any]], list[Any]]

_WIDE: Final = Context(prec=80)
_FLOAT: Final = struct.Struct("<f")
_VECTORS: Final = frozenset(map(np.dtype, ("float32", "float64", "int32", "int64")))
_NUMBERS: Final = (IntegerType, LongType, FloatType, DoubleType)
_NONE: Final = type(None)


class Stores(NamedTuple):
    """How values of a type are stored: one of them, and those of a list at once."""

    one: One
    many: Many


def storing(field: NestedField) -> One | None:
    """What makes stored values of a column, or ValueError; None for a type whose values cannot be plain."""
    found = _of(field.field_type)
    return None if found is None else found.one if field.required else _or_none(found).one


def _of(kind: IcebergType) -> Stores | None:
    match kind:
        case ListType(element_field=element, length=length):
            inside = _field(element)
            vectors = isinstance(element.field_type, _NUMBERS)
            return None if inside is None else _list(inside.many, length, vectors)
        case MapType(key_field=key, value_field=value):
            keys, values = _field(key), _field(value)
            # A dict holds no keys that are lists or dicts.
            if keys is None or values is None or not key.field_type.is_primitive:
                return None
            return _map(keys.many, values.many)
        case StructType(fields=fields):
            return _struct(fields)
    make = _LEAVES.get(type(kind))
    return None if make is None else make(kind)


def _field(field: NestedField) -> Stores | None:
    found = _of(field.field_type)
    return found if found is None or field.required else _or_none(found)


def _or_none(stores: Stores) -> Stores:
    one, many = stores

    def store(value: Any) -> Any:
        return None if value is None else one(value)

    def store_all(values: Sequence[Any]) -> list[Any]:
        return [store(value) for value in values] if _NONE in set(map(type, values)) else many(values)

    return Stores(store, store_all)


def _each(one: One) -> Stores:
    return Stores(one, lambda values: [one(value) for value in values])


def _refuse(value: Any) -> ValueError:
    return ValueError(f"{type(value).__name__} is checked in detail")


def _exact(wanted: type) -> Callable[[IcebergType], Stores]:
    """Values of exactly this Python type, as they are."""
    only = {wanted}

    def one(value: Any) -> Any:
        if type(value) is not wanted:
            raise _refuse(value)
        return value

    def many(values: Sequence[Any]) -> list[Any]:
        if not set(map(type, values)) <= only:
            raise _refuse(values)
        return list(values)

    return lambda _: Stores(one, many)


def _whole(bits: int) -> Callable[[IcebergType], Stores]:
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1

    def one(value: Any) -> Any:
        if type(value) is not int or not low <= value <= high:
            raise _refuse(value)
        return value

    def many(values: Sequence[Any]) -> list[Any]:
        if values and (set(map(type, values)) != {int} or min(values) < low or max(values) > high):
            raise _refuse(values)
        return list(values)

    return lambda _: Stores(one, many)


def _number(exact: int, round_one: One, round_all: Many) -> Callable[[IcebergType], Stores]:
    """Floats, and whole numbers up to `exact`, which floats hold exactly."""

    def one(value: Any) -> Any:
        if type(value) is float:
            return round_one(value)
        if type(value) is not int or not -exact <= value <= exact:
            raise _refuse(value)
        return float(value)

    def many(values: Sequence[Any]) -> list[Any]:
        return round_all(values) if set(map(type, values)) <= {float} else [one(value) for value in values]

    return lambda _: Stores(one, many)


def _round_all(values: Sequence[Any]) -> list[Any]:
    form = f"<{len(values)}f"
    return list(struct.unpack(form, struct.pack(form, *values)))


def _decimal(kind: Any) -> Stores:
    scale, whole = kind.scale, kind.precision - kind.scale
    unit, zero, limit = Decimal(1).scaleb(-scale), Decimal(0).scaleb(-scale), 10 ** max(whole, 0)

    def one(value: Any) -> Any:
        if type(value) is int:
            if not -limit < value < limit:
                raise _refuse(value)
            value = Decimal(value)
        elif type(value) is not Decimal or not value.is_finite():
            raise _refuse(value)
        if not -scale <= value.as_tuple().exponent <= 0:
            raise _refuse(value)
        if not value:
            return zero
        if value.adjusted() >= whole:
            raise _refuse(value)
        return _WIDE.quantize(value, unit)

    return _each(one)


def _fixed(kind: Any) -> Stores:
    length = len(kind)

    def one(value: Any) -> Any:
        if type(value) is not bytes or len(value) != length:
            raise _refuse(value)
        return value

    return _each(one)


def _time(_: IcebergType) -> Stores:
    def one(value: Any) -> Any:
        if type(value) is not time or value.tzinfo is not None:
            raise _refuse(value)
        return value

    return _each(one)


def _moment(zoned: bool) -> Callable[[IcebergType], Stores]:
    def one(value: Any) -> Any:
        if type(value) is not datetime or (value.tzinfo is not None) is not zoned:
            raise _refuse(value)
        return value

    return lambda _: _each(one)


def _nano_moment(zoned: bool) -> Callable[[IcebergType], Stores]:
    def one(value: Any) -> Any:
        if type(value) not in (datetime, NanoDatetime) or (value.tzinfo is not None) is not zoned:
            raise _refuse(value)
        nanos = datetime_to_nanos(value)
        if not -(1 << 63) < nanos < 1 << 63:
            raise _refuse(value)
        return nanos

    return lambda _: _each(one)


def _list(inside: Many, length: int | None, vectors: bool) -> Stores:
    def one(value: Any) -> Any:
        if vectors and type(value) is np.ndarray and value.ndim == 1 and value.dtype in _VECTORS:
            value = value.tolist()
        elif type(value) is not list and type(value) is not tuple:
            raise _refuse(value)
        if length is not None and len(value) != length:
            raise _refuse(value)
        return tuple(inside(value))

    return _each(one)


def _map(keys: Many, values: Many) -> Stores:
    def one(value: Any) -> Any:
        if type(value) is list and all(type(pair) is tuple and len(pair) == 2 for pair in value):
            given, items = [key for key, _ in value], [item for _, item in value]
        elif type(value) is dict:
            given, items = list(value), list(value.values())
        else:
            raise _refuse(value)
        made = dict(zip(keys(given), values(items), strict=True))
        if len(made) != len(given):  # Arrow keeps a key that comes twice
            raise _refuse(value)
        return made

    return _each(one)


def _struct(fields: Sequence[NestedField]) -> Stores | None:
    inside = [(field.name, _field(field), written_default(field)) for field in fields]
    if any(stores is None for _, stores, _ in inside):
        return None
    checks = [(name, stores.one, default) for name, stores, default in inside if stores is not None]
    names = {name for name, _, _ in checks}

    def one(value: Any) -> Any:
        if type(value) is not dict or not value.keys() <= names:
            raise _refuse(value)
        return {name: check(value.get(name, default)) for name, check, default in checks}

    return _each(one)


def written_default(field: NestedField) -> Any:
    """What a row that lacks a field is given, as a value that `storing` takes; None when there is no default."""
    return Target.of(field).python_default


_LEAVES: Final[dict[type[IcebergType], Callable[[Any], Stores]]] = {
    BooleanType: _exact(bool),
    IntegerType: _whole(32),
    LongType: _whole(64),
    FloatType: _number(1 << 24, lambda value: _FLOAT.unpack(_FLOAT.pack(value))[0], _round_all),
    DoubleType: _number(1 << 53, lambda value: value, list),
    DecimalType: _decimal,
    StringType: _exact(str),
    BinaryType: _exact(bytes),
    FixedType: _fixed,
    UUIDType: _exact(UUID),
    DateType: _exact(date),
    TimeType: _time,
    TimestampType: _moment(zoned=False),
    TimestamptzType: _moment(zoned=True),
    TimestampNanoType: _nano_moment(zoned=False),
    TimestamptzNanoType: _nano_moment(zoned=True),
}


__all__ = ["One", "storing", "written_default"]
