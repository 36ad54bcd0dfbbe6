"""Reads column types from text and from Arrow."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from itertools import count
from types import MappingProxyType
from typing import NoReturn

import pyarrow as pa
import pyarrow.types as pt
from pyiceberg.types import IcebergType, ListType, MapType, NestedField, StructType, UUIDType

from moulin.errors import InvalidInput
from moulin.model.names import check_column_name, did_you_mean
from moulin.model.schema.types import (
    KNOWN_TYPES,
    PLAIN_TYPES,
    check_depth,
    check_storable,
    check_unique,
    decimal_type,
    fixed_type,
    renumber,
)

_ALIASES: Mapping[str, str] = MappingProxyType({"bool": "boolean", "integer": "int", "bigint": "long", "array": "list"})
_PARAMETRIC = ("decimal", "fixed", "list", "map", "struct")


def parse_type(text: str) -> IcebergType:
    """The type that `text` names, such as "long", "decimal(9, 2)" or "map<string, list<int>>".

    Elements, map values and struct fields are optional. Field ids inside it are provisional: a schema gives its own.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"A type is given as text, not as {type(text).__name__}. Known types: {KNOWN_TYPES}.")
    parser = _Parser(text)
    parsed = parser.type(1)
    parser.end()
    return renumber(parsed, count(1).__next__)


def to_type(given: object, what: str = "the column") -> IcebergType:
    """A storable type from text, an Arrow type or an Iceberg type; `what` names the column in errors."""
    if isinstance(given, pa.DataType):
        found = _from_arrow(given, what, 1)
        check_storable(found, what)
        return renumber(found, count(1).__next__)
    if isinstance(given, IcebergType):
        check_storable(given, what)
        return given
    if isinstance(given, str):
        return parse_type(given)
    raise InvalidInput(
        f"The type of {what} must be text, an Arrow type or an Iceberg type, not {type(given).__name__}."
    )


def _from_arrow(given: pa.DataType, what: str, depth: int) -> IcebergType:
    check_depth(depth, what)
    if isinstance(given, pa.UuidType):
        return UUIDType()
    if isinstance(given, pa.BaseExtensionType):
        return _from_arrow(given.storage_type, what, depth)
    if pt.is_dictionary(given) or pt.is_run_end_encoded(given):
        return _from_arrow(given.value_type, what, depth)
    if pt.is_struct(given):
        return StructType(*(field_from_arrow(field, what, depth + 1) for field in given))
    if pt.is_map(given):
        key = _from_arrow(given.key_type, f"{what}.key", depth + 1)
        value = _from_arrow(given.item_type, f"{what}.value", depth + 1)
        return MapType(0, key, 0, value, not given.item_field.nullable)
    if any(is_list(given) for is_list in _LISTS):
        element = _from_arrow(given.value_type, f"{what}.element", depth + 1)
        return ListType(0, element, not given.value_field.nullable)
    if pt.is_decimal(given):
        return decimal_type(given.precision, given.scale, what)
    if pt.is_fixed_size_binary(given):
        return fixed_type(given.byte_width, what)
    if pt.is_timestamp(given):
        name = "timestamp" if given.tz is None else "timestamptz"
        return PLAIN_TYPES[f"{name}_ns" if given.unit == "ns" else name]
    for matches, name in _ARROW:
        if matches(given):
            return PLAIN_TYPES[name]
    advice = next((text for matches, text in _ADVICE if matches(given)), f"Known types: {KNOWN_TYPES}.")
    raise InvalidInput(f"The Arrow type {given} of {what} cannot be stored. {advice}")


def field_from_arrow(field: pa.Field, what: str = "", depth: int = 1) -> NestedField:
    """An Iceberg field like an Arrow one: its name, type, nullability and `doc`. The ids are provisional."""
    name = check_column_name(field.name)
    found = _from_arrow(field.type, f"{what}.{name}" if what else f"column {name}", depth)
    doc = (field.metadata or {}).get(b"doc")
    return NestedField(0, name, found, not field.nullable, doc=None if doc is None else doc.decode("utf-8", "replace"))


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


class _Parser:
    """Reads one type from left to right."""

    _SPACE = re.compile(r"\s*")
    _WORD = re.compile(r"[A-Za-z_]\w*")
    _NUMBER = re.compile(r"\d{1,10}(?!\d)")
    _NAME = re.compile(r"[^:<>,]+")

    def __init__(self, text: str) -> None:
        self._text = text
        self._shown = repr(text if len(text) <= 200 else f"{text[:200]}...")
        self._position = 0

    def type(self, depth: int) -> IcebergType:
        check_depth(depth, self._shown)
        word = self._take(self._WORD, "a type").lower()
        word = _ALIASES.get(word, word)
        if word in PLAIN_TYPES:
            return PLAIN_TYPES[word]
        if word == "decimal":
            return self._decimal()
        if word == "fixed":
            return self._fixed()
        if word == "list":
            self._expect("<")
            element = self.type(depth + 1)
            self._expect(">")
            return ListType(0, element, False)
        if word == "map":
            self._expect("<")
            key = self.type(depth + 1)
            self._expect(",")
            value = self.type(depth + 1)
            self._expect(">")
            return MapType(0, key, 0, value, False)
        if word == "struct":
            return self._struct(depth)
        near = did_you_mean(word, (*PLAIN_TYPES, *_ALIASES, *_PARAMETRIC))
        raise InvalidInput(f"Unknown type {word!r} in {self._shown}.{near} Known types: {KNOWN_TYPES}.")

    def end(self) -> None:
        self._skip()
        if self._position != len(self._text):
            self._fail("nothing more")

    def _decimal(self) -> IcebergType:
        self._expect("(")
        precision = int(self._take(self._NUMBER, "a precision"))
        self._expect(",")
        scale = int(self._take(self._NUMBER, "a scale"))
        self._expect(")")
        return decimal_type(precision, scale, self._shown)

    def _fixed(self) -> IcebergType:
        opening = self._text[self._position : self._position + 1]
        self._expect("(" if opening == "(" else "[")
        length = int(self._take(self._NUMBER, "a length"))
        self._expect(")" if opening == "(" else "]")
        return fixed_type(length, self._shown)

    def _struct(self, depth: int) -> IcebergType:
        self._expect("<")
        fields: list[NestedField] = []
        while True:
            name = check_column_name(self._take(self._NAME, "a field name").strip())
            self._expect(":")
            fields.append(NestedField(0, name, self.type(depth + 1), False))
            if not self._accept(","):
                break
        self._expect(">")
        check_unique(fields, f"The struct in {self._shown}")
        return StructType(*fields)

    def _skip(self) -> None:
        found = self._SPACE.match(self._text, self._position)
        self._position = found.end() if found else self._position

    def _take(self, pattern: re.Pattern[str], what: str) -> str:
        self._skip()
        found = pattern.match(self._text, self._position)
        if found is None:
            self._fail(what)
        self._position = found.end()
        return found.group()

    def _accept(self, character: str) -> bool:
        self._skip()
        if not self._text.startswith(character, self._position):
            return False
        self._position += 1
        return True

    def _expect(self, character: str) -> None:
        if not self._accept(character):
            self._fail(repr(character))

    def _fail(self, expected: str) -> NoReturn:
        found = repr(self._text[self._position]) if self._position < len(self._text) else "its end"
        raise InvalidInput(
            f"The type {self._shown} has {found} at character {self._position + 1} where {expected} belongs. "
            f"Known types: {KNOWN_TYPES}."
        )


__all__ = ["field_from_arrow", "parse_type", "to_type"]
