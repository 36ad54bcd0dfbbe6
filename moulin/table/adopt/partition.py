"""Partition values in paths (`day=2026-01-01/`), and the partition that all rows of a file are in."""

# Decisions: docs/decisions/0431

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.formats.segment.row_mapping import arrow_scalar
from moulin.model.facts import ColumnFacts
from moulin.model.layout.bounds import TRUNCATE_LENGTH, bound_from_bytes, bound_to_bytes, lower_bound, upper_bound
from moulin.model.layout.partition import PartitionTuple
from moulin.model.layout.partition_rows import encoded_values, split_by_partition
from moulin.model.layout.partition_spec import BucketTransform, PartitionField, PartitionSpec
from moulin.model.layout.transform import transform_array
from moulin.model.schema.defaults import coerce_default
from moulin.model.schema.schema import column_path
from moulin.model.schema.times import (
    date_to_days,
    datetime_to_micros,
    datetime_to_nanos,
    text_to_datetime,
    text_to_nanos,
    time_to_micros,
)
from moulin.model.schema.values import (
    BooleanType,
    DateType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    PrimitiveType,
    Schema,
    StringType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
)

NULL = "__HIVE_DEFAULT_PARTITION__"
_PART = re.compile(r"([^=]+)=(.*)", re.DOTALL)
Constants = Mapping[int, bytes | None]


def path_values(path: str) -> dict[str, str | None]:
    """The values that the folders of a path name; None for null. Names and values are percent-decoded."""
    found: dict[str, str | None] = {}
    for part in path.split("/")[:-1]:
        if (match := _PART.fullmatch(part)) is not None:
            name, value = unquote(match[1]), unquote(match[2])
            found[name] = None if value == NULL else value
    return found


def constant(kind: object, text: str | None, what: str) -> bytes | None:
    """The single-value bytes of a partition value that is written as text."""
    if text is None:
        return None
    if not isinstance(kind, PrimitiveType):
        raise InvalidInput(f"{what} is of type {kind}, whose values cannot be in a path.")
    try:
        return bound_to_bytes(kind, _value(kind, text, what))
    except (ValueError, OverflowError):
        raise InvalidInput(f"{what} is {text!r} in the path, which is not a value of type {kind}.") from None


def _value(kind: PrimitiveType, text: str, what: str) -> Any:
    match kind:
        case StringType():
            return text
        case BooleanType():
            return {"true": True, "false": False}[text.lower()] if text.lower() in ("true", "false") else _wrong(text)
        case IntegerType() | LongType():
            return int(text) if re.fullmatch(r"[+-]?[0-9]+", text) else _wrong(text)
        case FloatType() | DoubleType():
            return float(text)
        case DateType():
            return date_to_days(coerce_default(kind, text, what))
        case TimeType():
            return time_to_micros(coerce_default(kind, text, what))
        case TimestampType() | TimestamptzType():
            return datetime_to_micros(text_to_datetime(text, zoned=isinstance(kind, TimestamptzType)))
        case TimestampNanoType() | TimestamptzNanoType():
            return text_to_nanos(text, zoned=isinstance(kind, TimestamptzNanoType))
    return coerce_default(kind, text, what)


def _wrong(text: str) -> Any:
    raise ValueError(text)


def constant_of(kind: PrimitiveType, value: Any) -> bytes:
    """The single-value bytes of a default, as a schema keeps it."""
    match value:
        case datetime():
            nanos = isinstance(kind, TimestampNanoType | TimestamptzNanoType)
            return bound_to_bytes(kind, datetime_to_nanos(value) if nanos else datetime_to_micros(value))
    if isinstance(kind, DateType):
        value = date_to_days(value)
    elif isinstance(kind, TimeType):
        value = time_to_micros(value)
    return bound_to_bytes(kind, value)


def constant_facts(field_id: int, kind: object, value: bytes | None, rows: int) -> ColumnFacts:
    """The facts of a column that has one value in all rows."""
    if value is None or not isinstance(kind, PrimitiveType):
        return ColumnFacts(field_id, rows, rows, 0 if isinstance(kind, FloatType | DoubleType) else None)
    known = bound_from_bytes(kind, value)
    nans = 0 if isinstance(kind, FloatType | DoubleType) else None
    return ColumnFacts(field_id, rows, 0, nans, 0, lower_bound(kind, known), upper_bound(kind, known))


def partition_of(
    spec: PartitionSpec,
    schema: Schema,
    constants: Constants,
    facts: Mapping[int, ColumnFacts],
    read: Callable[[list[str]], pa.Table],
    where: str,
) -> PartitionTuple:
    """The partition of all rows of a file. `read` gives columns of it, where facts do not tell."""
    if not spec.fields:
        return ()
    known = [_from_facts(field, schema, constants, facts) for field in spec.fields]
    if all(found is not None for found in known):
        return tuple(found[0] for found in known if found is not None)
    paths = [column_path(schema, field.source_id) for field in spec.fields]
    names = list(dict.fromkeys(path[0] for path in paths if path is not None))
    parts = split_by_partition(read(names), spec, schema)
    if len(parts) != 1:
        raise InvalidInput(
            f"{where} holds rows of {len(parts)} partitions of the table, and a segment has one: append its rows."
        )
    return parts[0][0]


def _from_facts(
    field: PartitionField, schema: Schema, constants: Constants, facts: Mapping[int, ColumnFacts]
) -> tuple[bytes | None] | None:
    """The value of a partition field, in a tuple, when facts tell it."""
    number, kind = field.source_id, schema.find_type(field.source_id)
    assert isinstance(kind, PrimitiveType)
    if number in constants:
        value = constants[number]
        return (None,) if value is None else _transformed(field, kind, [value])
    found = facts.get(number)
    if found is None or found.values == 0:
        return None
    if found.nulls == found.values:
        return (None,)
    if found.nulls or (found.nans is None and isinstance(kind, FloatType | DoubleType)):
        return None
    ends = found.lower, found.upper
    if ends[0] is None or ends[1] is None or isinstance(field.transform, BucketTransform):
        return None
    if max(len(ends[0]), len(ends[1])) >= TRUNCATE_LENGTH:
        return None  # they may be cut off
    return _transformed(field, kind, [ends[0], ends[1]])


def _transformed(field: PartitionField, kind: PrimitiveType, values: list[bytes]) -> tuple[bytes | None] | None:
    """What a transform makes of these values, when it makes the same of all."""
    scalars = [arrow_scalar(kind, bound_from_bytes(kind, value)) for value in values]
    array = pa.concat_arrays([pa.repeat(scalar, 1) for scalar in scalars])
    found = encoded_values(field.transform.result_type(kind), transform_array(field.transform, kind, array))
    return (found[0],) if len(found) == 1 else None


__all__ = ["constant", "constant_facts", "constant_of", "partition_of", "path_values"]
