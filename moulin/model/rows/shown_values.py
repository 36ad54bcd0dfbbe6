"""Stored values (`stored_values`) as readers get them, and the types that they have in Arrow."""

# Decisions: docs/decisions/0331

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from moulin.model.rows.nano_datetime import NanoDatetime
from moulin.model.rows.stored_values import One
from moulin.model.schema.values import (
    IcebergType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
)

_NANOS: Final = (TimestampNanoType, TimestamptzNanoType)


def showing(kind: IcebergType) -> One | None:
    """What makes of a stored value that is not None the one that readers get; None when it is the same."""
    match kind:
        case ListType(element_type=element):
            return _show_list(_show(element))
        case MapType(key_type=key, value_type=value):
            return _show_map(_show(key), _show(value))
        case StructType(fields=fields):
            return _show_struct(tuple((field.name, _show(field.field_type)) for field in fields))
    if isinstance(kind, _NANOS):
        zoned = isinstance(kind, TimestamptzNanoType)
        return lambda value: NanoDatetime.of(value, zoned=zoned)
    return None


def with_numbers(field: NestedField) -> NestedField:
    """The field with longs in place of times in nanoseconds: the type of what is stored."""
    return replace(field, field_type=_numbers(field.field_type))


def _numbers(kind: IcebergType) -> IcebergType:
    match kind:
        case ListType(element_type=element):
            return replace(kind, element_type=_numbers(element))
        case MapType(key_type=key, value_type=value):
            return replace(kind, key_type=_numbers(key), value_type=_numbers(value))
        case StructType(fields=fields):
            return StructType(*map(with_numbers, fields))
    return LongType() if isinstance(kind, _NANOS) else kind


def _show(kind: IcebergType) -> One:
    """`showing` for values inside of others, which may be None."""
    show = showing(kind)
    return (lambda value: value) if show is None else lambda value: None if value is None else show(value)


def _show_list(show: One) -> One:
    return lambda value: [show(element) for element in value]


def _show_map(show_key: One, show_value: One) -> One:
    return lambda value: {show_key(key): show_value(item) for key, item in value.items()}


def _show_struct(fields: Sequence[tuple[str, One]]) -> One:
    return lambda value: {name: show(value.get(name)) for name, show in fields}


__all__ = ["showing", "with_numbers"]
