"""Reads column types from text. Those of Arrow are read by `arrow_reader`, which loads with the first of them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import count
from types import MappingProxyType
from typing import NoReturn

from moulin.errors import InvalidInput
from moulin.model.names import check_column_name, did_you_mean
from moulin.model.schema.foreign import own_value
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
from moulin.model.schema.values import IcebergType, ListType, MapType, NestedField, StructType

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
    if isinstance(given, str):
        return parse_type(given)
    given = own_value(given)
    if hasattr(given, "__arrow_c_schema__"):
        from moulin.model.schema.arrow_reader import type_from_arrow

        found = type_from_arrow(given, what)
        return renumber(found, count(1).__next__)
    if isinstance(given, IcebergType):
        check_storable(given, what)
        return given
    raise InvalidInput(
        f"The type of {what} must be text, an Arrow type or an Iceberg type, not {type(given).__name__}."
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


__all__ = ["parse_type", "to_type"]
