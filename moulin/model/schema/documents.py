"""Types and schemas as Iceberg's JSON.

Catalogs, manifests and file footers of existing lakes hold these texts, and some compare them: the text of a value
never changes, down to the spelling of its floats.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from decimal import Decimal
from types import MappingProxyType
from typing import Any, TypeVar, overload

from moulin.errors import Corrupt
from moulin.model.schema import single_value
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    GeoType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    Metadata,
    NestedField,
    Schema,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UnknownType,
    UUIDType,
)

Document = dict[str, Any]

_T = TypeVar("_T")
_PLAIN: Mapping[str, IcebergType] = MappingProxyType(
    {
        str(kind): kind
        for kind in (
            BooleanType(),
            IntegerType(),
            LongType(),
            FloatType(),
            DoubleType(),
            DateType(),
            TimeType(),
            TimestampType(),
            TimestamptzType(),
            TimestampNanoType(),
            TimestamptzNanoType(),
            StringType(),
            UUIDType(),
            BinaryType(),
            UnknownType(),
        )
    }
)
_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"))
_DECIMAL = re.compile(r"decimal\(\s*(\d+)\s*,\s*(\d+)\s*\)")
# What Arrow says and Iceberg has no word for. Only our own documents have these keys: `plain_schema` takes them out.
_METADATA, _LENGTH = "moulin-metadata", "moulin-length"
_FIXED = re.compile(r"fixed\[(\d+)\]")


def schema_to_json(schema: Schema) -> str:
    """The schema as JSON in Iceberg's form; `schema_from_json` gives it back with its ids and defaults."""
    return to_text(schema_document(schema))


def schema_from_json(text: str | bytes) -> Schema:
    """The schema that `schema_to_json` wrote."""
    return from_stored(schema_of, text, "schema")


def plain_schema(schema: Schema) -> Schema:
    """The schema without what only Moulin knows of it, for documents that Iceberg engines read."""
    fields = _plain_type(schema.as_struct()).fields
    return Schema(*fields, schema_id=schema.schema_id, identifier_field_ids=schema.identifier_field_ids)


@overload
def _plain_type(kind: StructType) -> StructType: ...
@overload
def _plain_type(kind: IcebergType) -> IcebergType: ...
def _plain_type(kind: IcebergType) -> IcebergType:
    match kind:
        case StructType():
            return StructType(
                *(replace(field, field_type=_plain_type(field.field_type), metadata=()) for field in kind.fields)
            )
        case ListType():
            return replace(kind, element_type=_plain_type(kind.element_type), length=None)
        case MapType():
            return replace(kind, key_type=_plain_type(kind.key_type), value_type=_plain_type(kind.value_type))
    return kind


def from_stored(read: Callable[[Document], _T], text: str | bytes, what: str) -> _T:
    """A value from its stored JSON by `read`; Corrupt when it is not one."""
    try:
        document = json.loads(text)
        if not isinstance(document, dict) or "fields" not in document:
            raise ValueError("its fields are missing")
        return read(document)
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        reason = " ".join(str(error).split())[:200]
        raise Corrupt(
            f"A stored {what} cannot be read ({reason}): run `moulin check`, or recover the catalog."
        ) from None


def schema_document(schema: Schema) -> Document:
    document: Document = {
        "type": "struct",
        "fields": [_field_document(field) for field in schema.fields],
        "schema-id": schema.schema_id,
        "identifier-field-ids": list(schema.identifier_field_ids),
    }
    if schema.metadata:
        document[_METADATA] = _metadata_document(schema.metadata)
    return document


def schema_of(document: Document) -> Schema:
    """The schema of a document, or ValueError, TypeError or LookupError."""
    _expect_struct(document)
    return Schema(
        *map(_field_of, part(document, "fields", list)),
        schema_id=part(document, "schema-id", int, 0),
        identifier_field_ids=part(document, "identifier-field-ids", list, []),
        metadata=_metadata_of(document),
    )


def type_document(kind: IcebergType) -> str | Document:
    match kind:
        case StructType():
            return {"type": "struct", "fields": [_field_document(field) for field in kind.fields]}
        case ListType():
            document: Document = {
                "type": "list",
                "element-id": kind.element_id,
                "element": type_document(kind.element_type),
                "element-required": kind.element_required,
            }
            return document if kind.length is None else {**document, _LENGTH: kind.length}
        case MapType():
            return {
                "type": "map",
                "key-id": kind.key_id,
                "key": type_document(kind.key_type),
                "value-id": kind.value_id,
                "value": type_document(kind.value_type),
                "value-required": kind.value_required,
            }
    return str(kind)


def type_of(document: object) -> IcebergType:
    """The type of a document, or ValueError, TypeError or LookupError."""
    if isinstance(document, str):
        return _primitive(document)
    if not isinstance(document, dict):
        raise TypeError(f"a type is text or an object, not {document!r}")
    match document.get("type"):
        case "struct":
            return StructType(*map(_field_of, part(document, "fields", list)))
        case "list":
            element = type_of(document["element"])
            required = part(document, "element-required", bool, True)
            length = None if _LENGTH not in document else part(document, _LENGTH, int)
            return ListType(part(document, "element-id", int), element, required, length)
        case "map":
            return MapType(
                part(document, "key-id", int),
                type_of(document["key"]),
                part(document, "value-id", int),
                type_of(document["value"]),
                part(document, "value-required", bool, True),
            )
    raise ValueError(f"unknown type {document.get('type')!r}")


def part(document: Mapping[str, Any], name: str, kind: type[_T], default: _T | None = None) -> _T:
    """A part of a document, of exactly that type; ValueError when it lacks one that has no default."""
    if not isinstance(document, Mapping):
        raise TypeError(f"{document!r} is not an object")
    value = document.get(name, default)
    if type(value) is not kind:
        raise ValueError(f"{name} is {value!r}, not {kind.__name__}")
    return value


def to_text(value: Any) -> str:
    """A document as JSON without spaces, text as UTF-8."""
    if not _holds_float(value):
        return _ENCODER.encode(value)
    match value:
        case dict():
            return "{" + ",".join(f"{_ENCODER.encode(name)}:{to_text(inner)}" for name, inner in value.items()) + "}"
        case list():
            return "[" + ",".join(map(to_text, value)) + "]"
    return _number(value)


def _holds_float(value: Any) -> bool:
    """Whether a document holds a number that JSON's own encoder spells in another way."""
    if isinstance(value, dict | list):
        return any(map(_holds_float, value.values() if isinstance(value, dict) else value))
    return isinstance(value, float)


def _number(value: float) -> str:
    """Python's form of a float, but 0.00001 for 1e-05, 1e-6 for 1e-06, and null for what JSON has no number for."""
    digits, _, exponent = repr(value).partition("e")
    if not math.isfinite(value):
        return "null"
    if not exponent:
        return digits
    return format(Decimal(repr(value)), "f") if int(exponent) == -5 else f"{digits}e{int(exponent):+d}"


def _field_document(field: NestedField) -> Document:
    document: Document = {
        "id": field.field_id,
        "name": field.name,
        "type": type_document(field.field_type),
        "required": field.required,
    }
    if field.doc is not None:
        document["doc"] = field.doc
    if field.initial_default is not None:
        document["initial-default"] = single_value.to_json(field.field_type, field.initial_default)
    if field.write_default is not None:
        document["write-default"] = single_value.to_json(field.field_type, field.write_default)
    if field.metadata:
        document[_METADATA] = _metadata_document(field.metadata)
    return document


def _field_of(document: Document) -> NestedField:
    kind = type_of(document["type"])
    initial, write = document.get("initial-default"), document.get("write-default")
    return NestedField(
        part(document, "id", int),
        part(document, "name", str),
        kind,
        part(document, "required", bool, False),
        None if document.get("doc") is None else part(document, "doc", str),
        None if initial is None else single_value.from_json(kind, initial),
        None if write is None else single_value.from_json(kind, write),
        _metadata_of(document),
    )


def _metadata_document(metadata: Metadata) -> Document:
    return {key.decode(): value.decode() for key, value in metadata}


def _metadata_of(document: Document) -> Metadata:
    found = part(document, _METADATA, dict, {})
    return tuple((key.encode(), value.encode()) for key, value in found.items())


def _primitive(text: str) -> IcebergType:
    if text in _PLAIN:
        return _PLAIN[text]
    if (found := _DECIMAL.fullmatch(text)) is not None:
        return DecimalType(int(found[1]), int(found[2]))
    if (found := _FIXED.fullmatch(text)) is not None:
        return FixedType(int(found[1]))
    if text.startswith(("geometry", "geography")):
        return GeoType(text)
    raise ValueError(f"unknown type {text!r}")


def _expect_struct(document: Document) -> None:
    if document.get("type", "struct") != "struct":
        raise ValueError(f"a schema is a struct, not {document['type']!r}")
