"""Reads column types and columns from Arrow."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.types as pt

from moulin.errors import InvalidInput
from moulin.model.names import check_column_name
from moulin.model.schema.types import (
    KNOWN_TYPES,
    PLAIN_TYPES,
    check_depth,
    check_storable,
    decimal_type,
    fixed_type,
)
from moulin.model.schema.values import IcebergType, ListType, MapType, Metadata, NestedField, StructType, UUIDType


def type_from_arrow(given: object, where: str) -> IcebergType:
    """The storable type of an Arrow one. The ids inside it are provisional."""
    if not isinstance(given, pa.DataType):
        raise InvalidInput(f"The type of {where} is an Arrow {type(given).__name__}: pass only its type.")
    found = _from_arrow(given, where, 1)
    check_storable(found, where)
    return found


def columns_from_arrow(given: object) -> tuple[list[NestedField], Metadata]:
    """The columns of an Arrow schema, or of anything that exports one, and its metadata. Their ids are provisional."""
    schema = pa.schema(given)
    return [_column(field) for field in schema], _kept(schema.metadata)


def column_from_arrow(given: object) -> NestedField:
    """The column of one Arrow field. Its ids are provisional."""
    if not isinstance(given, pa.Field):
        raise InvalidInput(f"Column {given!r} is not (name, type) or (name, type, nullable).")
    return _column(given)


def _column(field: pa.Field) -> NestedField:
    found = _field(field)
    check_storable(found.field_type, f"column {found.name}")
    return found


def _from_arrow(given: pa.DataType, where: str, depth: int) -> IcebergType:
    check_depth(depth, where)
    if isinstance(given, pa.UuidType):
        return UUIDType()
    if isinstance(given, pa.BaseExtensionType):
        return _from_arrow(given.storage_type, where, depth)
    if pt.is_dictionary(given) or pt.is_run_end_encoded(given):
        return _from_arrow(given.value_type, where, depth)
    if pt.is_struct(given):
        return StructType(*(_field(field, where, depth + 1) for field in given))
    if pt.is_map(given):
        key = _from_arrow(given.key_type, f"{where}.key", depth + 1)
        value = _from_arrow(given.item_type, f"{where}.value", depth + 1)
        return MapType(0, key, 0, value, not given.item_field.nullable)
    if any(is_list(given) for is_list in _LISTS):
        element = _from_arrow(given.value_type, f"{where}.element", depth + 1)
        length = given.list_size if pt.is_fixed_size_list(given) else None
        return ListType(0, element, not given.value_field.nullable, length)
    if pt.is_decimal(given):
        return decimal_type(given.precision, given.scale, where)
    if pt.is_fixed_size_binary(given):
        return fixed_type(given.byte_width, where)
    if pt.is_timestamp(given):
        name = "timestamp" if given.tz is None else "timestamptz"
        return PLAIN_TYPES[f"{name}_ns" if given.unit == "ns" else name]
    for matches, name in _ARROW:
        if matches(given):
            return PLAIN_TYPES[name]
    advice = next((text for matches, text in _ADVICE if matches(given)), f"Known types: {KNOWN_TYPES}.")
    raise InvalidInput(f"The Arrow type {given} of {where} cannot be stored. {advice}")


def _field(field: pa.Field, where: str = "", depth: int = 1) -> NestedField:
    """An Iceberg field like an Arrow one: its name, type, nullability, doc and metadata. The ids are provisional."""
    name = check_column_name(field.name)
    found = _from_arrow(field.type, f"{where}.{name}" if where else f"column {name}", depth)
    said = field.metadata or {}
    doc = next((said[key] for key in _DOCS if key in said), None)
    text = None if doc is None else doc.decode("utf-8", "replace")
    return NestedField(0, name, found, not field.nullable, doc=text, metadata=_kept(field.metadata))


def _kept(metadata: Mapping[bytes, bytes] | None) -> Metadata:
    """The part of the metadata of a field or schema that a table keeps.

    Docs are left out, since they are the column's doc; so are keys that describe the Arrow data itself, and bytes that
    are not UTF-8, on which some libraries fail.
    """
    kept = {
        key: value
        for key, value in (metadata or {}).items()
        if key not in _DOCS
        and key not in _OF_ITS_DATA
        and not key.startswith(_OF_ITS_FORM)
        and _is_text(key)
        and _is_text(value)
    }
    size = sum(len(key) + len(value) for key, value in kept.items())
    if size > _MOST_METADATA:
        raise InvalidInput(
            f"The metadata of an Arrow field or schema has {size} bytes; at most {_MOST_METADATA} are kept: remove "
            "it with remove_metadata()."
        )
    return tuple(kept.items())


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


_DOCS = (b"doc", b"comment")
_OF_ITS_DATA = (b"pandas",)
_OF_ITS_FORM = (b"ARROW:", b"PARQUET:")
_MOST_METADATA = 64 << 10

_LISTS = (pt.is_list, pt.is_large_list, pt.is_fixed_size_list, pt.is_list_view, pt.is_large_list_view)

_ARROW: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pt.is_boolean, "boolean"),
    (lambda t: pt.is_integer(t) and t not in (pa.uint32(), pa.int64(), pa.uint64()), "int"),
    (lambda t: t in (pa.uint32(), pa.int64()), "long"),
    (lambda t: pt.is_float16(t) or pt.is_float32(t), "float"),
    (pt.is_float64, "double"),
    (pt.is_date, "date"),
    (pt.is_time, "time"),
    (lambda t: pt.is_string(t) or pt.is_large_string(t) or pt.is_string_view(t), "string"),
    (lambda t: pt.is_binary(t) or pt.is_large_binary(t) or pt.is_binary_view(t), "binary"),
)

_ADVICE: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pt.is_uint64, "Cast it to int64 if its values fit, else to decimal128(20, 0)."),
    (pt.is_null, "It holds nothing but nulls: give the column a type, such as string."),
    (pt.is_duration, "Store it as a number of microseconds (long)."),
    (pt.is_interval, "Store its parts as numbers."),
    (pt.is_union, "Store each kind in its own column."),
)


__all__ = ["column_from_arrow", "columns_from_arrow", "type_from_arrow"]
