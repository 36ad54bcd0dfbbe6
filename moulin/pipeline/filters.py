"""Filters that Spark hands to a Python data source, as text for `where`."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from types import MappingProxyType
from typing import Any

from pyiceberg import types as ice
from pyiceberg.schema import Schema
from pyspark.sql import datasource as source

from moulin.errors import InvalidInput
from moulin.model.names import quote
from moulin.model.where import parse_where

_COMPARISONS: Mapping[type[source.Filter], str] = MappingProxyType(
    {
        source.EqualTo: "=",
        source.EqualNullSafe: "<=>",
        source.GreaterThan: ">",
        source.GreaterThanOrEqual: ">=",
        source.LessThan: "<",
        source.LessThanOrEqual: "<=",
    }
)
_PATTERNS: Mapping[type[source.Filter], str] = MappingProxyType(
    {source.StringStartsWith: "{}%", source.StringEndsWith: "%{}", source.StringContains: "%{}%"}
)


def to_where(given: source.Filter, schema: Schema) -> str | None:
    """A condition that takes exactly the rows that the filter takes; None when there is none, and Spark must filter."""
    text = _condition(given, schema)
    if text is None:
        return None
    try:
        parse_where(text, schema)
    except InvalidInput:
        return None
    return text


def _condition(given: source.Filter, schema: Schema) -> str | None:
    if isinstance(given, source.Not):
        inner = _condition(given.child, schema)
        return None if inner is None else f"not ({inner})"
    attribute: tuple[str, ...] = given.attribute  # type: ignore[attr-defined]
    name = quote(*attribute)
    if isinstance(given, source.IsNull):
        return f"{name} is null"
    if isinstance(given, source.IsNotNull):
        return f"{name} is not null"
    literal = _LITERALS.get(type(_type_of(attribute, schema)))
    if literal is None:
        return None
    if isinstance(given, source.In):
        values = [literal(value) for value in given.value]
        return None if not values or None in values else f"{name} in ({', '.join(map(str, values))})"
    value = literal(given.value)  # type: ignore[attr-defined]
    if value is None:
        return None
    if type(given) in _COMPARISONS:
        return f"{name} {_COMPARISONS[type(given)]} {value}"
    pattern = _PATTERNS.get(type(given))
    return None if pattern is None else f"{name} like {_text(pattern.format(_escaped(given.value)))}"  # type: ignore[attr-defined]


def _type_of(attribute: tuple[str, ...], schema: Schema) -> ice.IcebergType | None:
    fields: Mapping[str, ice.NestedField] = {field.name: field for field in schema.fields}
    kind: ice.IcebergType | None = None
    for name in attribute:
        if name not in fields:
            return None
        kind = fields[name].field_type
        fields = {field.name: field for field in kind.fields} if isinstance(kind, ice.StructType) else {}
    return kind


def _boolean(value: Any) -> str | None:
    return str(value).lower() if isinstance(value, bool) else None


def _integer(value: Any) -> str | None:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else None


def _floating(value: Any) -> str | None:
    return repr(value) if isinstance(value, float) and math.isfinite(value) else _integer(value)


def _decimal(value: Any) -> str | None:
    return f"{value:f}" if isinstance(value, Decimal) and value.is_finite() else _integer(value)


def _text(value: Any) -> str | None:
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else None


def _date(value: Any) -> str | None:
    return f"date '{value.isoformat()}'" if isinstance(value, date) and not isinstance(value, datetime) else None


def _local_time(value: Any) -> str | None:
    known = isinstance(value, datetime) and value.tzinfo is None
    return f"timestamp '{value.isoformat(' ')}'" if known else None


def _instant(value: Any) -> str | None:
    known = isinstance(value, datetime) and value.tzinfo is not None
    return f"timestamp '{value.astimezone(UTC).replace(tzinfo=None).isoformat(' ')}Z'" if known else None


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


# Only types that Spark and `where` compare alike. Nanoseconds are missing: Spark sees them rounded down.
_LITERALS: Mapping[type[Any], Callable[[Any], str | None]] = MappingProxyType(
    {
        ice.BooleanType: _boolean,
        ice.IntegerType: _integer,
        ice.LongType: _integer,
        ice.FloatType: _floating,
        ice.DoubleType: _floating,
        ice.DecimalType: _decimal,
        ice.StringType: _text,
        ice.DateType: _date,
        ice.TimestampType: _local_time,
        ice.TimestamptzType: _instant,
    }
)
