"""Schemas: creates them from user input, with new field ids, and searches them."""

# Decisions: docs/decisions/0013

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import count

from moulin.errors import InvalidInput, NotFound
from moulin.model.names import check_column_name, did_you_mean
from moulin.model.schema.defaults import coerce_default, default_value
from moulin.model.schema.foreign import own_value
from moulin.model.schema.type_reader import parse_type, to_type
from moulin.model.schema.types import check_storable, check_unique, renumber
from moulin.model.schema.values import (
    DoubleType,
    FloatType,
    Metadata,
    NestedField,
    PrimitiveType,
    Schema,
    StructType,
    inner_fields,
)

MAX_FIELDS = 10_000
# Iceberg reserves the ids above for metadata columns.
MAX_FIELD_ID = 2147483447

# Column names in an error.
_SHOWN = 20


def make_schema(spec: object, primary_key: Sequence[str] = ()) -> Schema:
    """The schema of a new table, with field ids from 1 on: top-level columns first, then what is nested in them.

    `spec` is an Arrow schema (or anything that exports one), a pyiceberg schema, or a sequence of (name, type) or
    (name, type, nullable), where a type is text, an Arrow type or an Iceberg type. The columns of `primary_key` become
    required and, in the order given, the key; without it a pyiceberg schema keeps its own identifier fields. Docs and
    metadata of an Arrow schema are kept.
    """
    spec = own_value(spec)
    fields, metadata = _fields(spec)
    if isinstance(spec, Schema) and not primary_key:
        primary_key = _key_names(spec)
    if not fields:
        raise InvalidInput("A table needs at least one column.")
    check_unique(fields, "The schema")
    key = _check_key(fields, primary_key)
    fields = [replace(field, required=True) if field.name in key else field for field in fields]
    numbers = count(1)
    struct = renumber(StructType(*fields), numbers.__next__)
    assert isinstance(struct, StructType)
    check_field_count(next(numbers) - 1)
    by_name = {field.name: field.field_id for field in struct.fields}
    numbered = [by_name[name] for name in key]
    return Schema(*struct.fields, schema_id=0, identifier_field_ids=numbered, metadata=metadata)


def check_field_count(fields: int) -> None:
    """Refuses a schema with more fields, nested ones counted, than a file footer can sensibly describe."""
    if fields > MAX_FIELDS:
        raise InvalidInput(
            f"The schema has {fields} fields, nested ones included; a table can have at most {MAX_FIELDS}."
        )


def find_column(schema: Schema, name: str) -> NestedField:
    """The field of that name; a nested one by its dotted path, list elements as `element`, map values as `value`."""
    try:
        return schema.find_field(name)
    except ValueError:
        raise unknown_column(schema, name) from None


def unknown_column(schema: Schema, name: str) -> NotFound:
    """The error for a column that is not there, naming those that are."""
    known = sorted(schema.column_names) if "." in name else [field.name for field in schema.fields]
    more = len(known) - _SHOWN
    shown = ", ".join(known[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
    return NotFound(f"There is no column {name!r}.{did_you_mean(name, known)} The columns are: {shown}.")


def column_path(schema: Schema, field_id: int) -> tuple[str, ...] | None:
    """The names that lead from the top to a field through structs alone; None for one in a list or map, or absent."""

    def search(fields: tuple[NestedField, ...]) -> tuple[str, ...] | None:
        for field in fields:
            if field.field_id == field_id:
                return (field.name,)
            if isinstance(field.field_type, StructType) and (found := search(field.field_type.fields)) is not None:
                return (field.name, *found)
        return None

    return search(schema.fields)


def key_names(schema: Schema) -> tuple[str, ...]:
    """The columns of the key, in the key's order; none for an event table."""
    return tuple(schema.find_field(field_id).name for field_id in schema.identifier_field_ids)


def nested_ids(field: NestedField) -> set[int]:
    """The id of a field and of every field inside it."""
    return {field.field_id}.union(*map(nested_ids, inner_fields(field.field_type)))


def _fields(spec: object) -> tuple[list[NestedField], Metadata]:
    if isinstance(spec, Schema):
        for field in spec.fields:
            check_column_name(field.name)
            check_storable(field.field_type, f"column {field.name}")
        return list(spec.fields), spec.metadata
    if hasattr(spec, "__arrow_c_schema__"):
        from moulin.model.schema.arrow_reader import columns_from_arrow

        return columns_from_arrow(spec)
    if isinstance(spec, str | bytes | Mapping) or not isinstance(spec, Iterable):
        raise InvalidInput(
            "A schema is an Arrow schema, an Iceberg schema, or a list of (name, type) or (name, type, nullable), "
            f"not {type(spec).__name__}."
        )
    return [_from_tuple(column) for column in spec], ()


def _from_tuple(column: object) -> NestedField:
    if hasattr(column, "__arrow_c_schema__"):
        from moulin.model.schema.arrow_reader import column_from_arrow

        return column_from_arrow(column)
    if isinstance(column, str) or not isinstance(column, Sequence) or len(column) not in (2, 3):
        raise InvalidInput(f"Column {column!r} is not (name, type) or (name, type, nullable).")
    name = check_column_name(column[0])
    nullable = column[2] if len(column) == 3 else True
    if not isinstance(nullable, bool):
        raise InvalidInput(
            f"The third part of column {name} says whether it may be null: True or False, not {nullable!r}."
        )
    return NestedField(0, name, to_type(column[1], f"column {name}"), not nullable)


def _check_key(fields: Sequence[NestedField], primary_key: Sequence[str]) -> tuple[str, ...]:
    if isinstance(primary_key, str):
        raise InvalidInput(f"The primary key must be a list of columns: use [{primary_key!r}].")
    by_name = {field.name: field for field in fields}
    for index, name in enumerate(primary_key):
        field = by_name.get(name)
        if field is None:
            raise InvalidInput(
                f"The primary key names {name!r}, which is not a top-level column.{did_you_mean(str(name), by_name)}"
            )
        if name in primary_key[:index]:
            raise InvalidInput(f"The primary key names {name!r} twice.")
        if not isinstance(field.field_type, PrimitiveType) or isinstance(field.field_type, FloatType | DoubleType):
            raise InvalidInput(
                f"Column {name} of type {field.field_type} cannot be part of a primary key: choose another."
            )
    return tuple(primary_key)


def _key_names(spec: Schema) -> tuple[str, ...]:
    return tuple(spec.find_column_name(field_id) or "" for field_id in spec.identifier_field_ids)


__all__ = [
    "MAX_FIELDS",
    "MAX_FIELD_ID",
    "check_field_count",
    "coerce_default",
    "column_path",
    "default_value",
    "find_column",
    "key_names",
    "make_schema",
    "nested_ids",
    "parse_type",
    "unknown_column",
]
