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

# What Arrow and SQL call the types. `int8` is 8 bits in Arrow and 64 in PostgreSQL: a long holds both.
_ALIASES: Mapping[str, str] = MappingProxyType(
    {
        other: name
        for name, others in {
            "boolean": "bool",
            "int": "integer int2 int4 int16 int32 uint8 uint16 tinyint smallint byte short",
            "long": "bigint int8 int64 uint32",
            "float": "real float4 float16 float32 halffloat",
            "double": "float8 float64",
            "date": "date32 date64",
            "time": "time32 time64",
            "timestamp": "datetime timestamp_ntz",
            "timestamptz": "timestamp_ltz",
            "string": "str utf8 text varchar char large_string large_utf8 string_view utf8_view",
            "binary": "blob bytes bytea varbinary large_binary binary_view",
            "decimal": "numeric decimal128",
            "fixed": "fixed_size_binary",
            "list": "array large_list fixed_size_list",
        }.items()
        for other in others.split()
    }
)
_PARAMETRIC = ("decimal", "fixed", "list", "map", "struct")
_MICRO_DIGITS, _NANO_DIGITS = 6, 9


def parse_type(text: str) -> IcebergType:
    """The type that `text` names, such as "long", "decimal(9, 2)" or "map<string, list<int>>".

    Names that Arrow and SQL have for them are read too: "int64", "varchar", "timestamp[us, tz=UTC]", "float[3]".
    Elements, map values and struct fields are optional unless "not null" follows them. Field ids inside it are
    provisional: a schema gives its own.
    """
    if not isinstance(text, str):
        raise InvalidInput(f"A type must be text, not {type(text).__name__}. Known types: {KNOWN_TYPES}.")
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
    _ARROW_NAME = re.compile(r"(item|element)\s*:")
    _UNIT = re.compile(r"\[\s*(s|ms|us|ns|day)\s*(?=[],])")
    _ZONE = re.compile(r"(tz\s*=\s*)?[\w/+:-]+")

    def __init__(self, text: str) -> None:
        self._text = text
        self._shown = repr(text if len(text) <= 200 else f"{text[:200]}...")
        self._position = 0

    def type(self, depth: int) -> IcebergType:
        """A type, and lists of it as SQL writes them: `int[]`, `float[3]`."""
        found = self._one(depth)
        while self._accept("["):
            depth += 1
            check_depth(depth, self._shown)
            length = None if self._accept("]") else int(self._take(self._NUMBER, "a length"))
            if length is not None:
                self._expect("]")
            found = ListType(0, found, False, length)
        return found

    def end(self) -> None:
        self._skip()
        if self._position != len(self._text):
            self._fail("nothing more")

    def _one(self, depth: int) -> IcebergType:
        check_depth(depth, self._shown)
        spelled = self._take(self._WORD, "a type").lower()
        word = _ALIASES.get(spelled, spelled)
        if word in ("timestamp", "timestamptz", "time", "date"):
            return self._time(word)
        if spelled == "double":
            self._accept_words("precision")
        if word in PLAIN_TYPES:
            return PLAIN_TYPES[word]
        match word:
            case "decimal":
                return self._decimal()
            case "fixed":
                return self._fixed()
            case "list":
                return self._list(depth)
            case "map":
                return self._map(depth)
            case "struct":
                return self._struct(depth)
        near = did_you_mean(word, (*PLAIN_TYPES, *_ALIASES, *_PARAMETRIC))
        raise InvalidInput(f"Unknown type {word!r} in {self._shown}.{near} Known types: {KNOWN_TYPES}.")

    def _time(self, word: str) -> IcebergType:
        """A date, time or timestamp with its unit or digits, and its zone: as in SQL, and as Arrow shows it."""
        nanos, zoned = False, word == "timestamptz"
        if self._accept("("):
            digits = int(self._take(self._NUMBER, "a number of digits"))
            self._expect(")")
            if digits > _MICRO_DIGITS:
                nanos = True
            if digits > (_NANO_DIGITS if word.startswith("timestamp") else _MICRO_DIGITS):
                self._fail("fewer digits")
        elif (unit := self._maybe(self._UNIT)) is not None:
            nanos = "ns" in unit
            if self._accept(","):
                zoned = bool(self._take(self._ZONE, "a time zone such as tz=UTC"))
            self._expect("]")
        if self._accept_words("with time zone") or self._accept_words("with local time zone"):
            zoned = True
        else:
            self._accept_words("without time zone")
        if not word.startswith("timestamp"):
            if zoned:
                raise InvalidInput(f"The type {self._shown} has a time zone, which only timestamps support.")
            return PLAIN_TYPES[word]
        return PLAIN_TYPES[f"timestamp{'tz' if zoned else ''}{'_ns' if nanos else ''}"]

    def _decimal(self) -> IcebergType:
        self._expect("(")
        precision = int(self._take(self._NUMBER, "a precision"))
        scale = int(self._take(self._NUMBER, "a scale")) if self._accept(",") else 0
        self._expect(")")
        return decimal_type(precision, scale, self._shown)

    def _fixed(self) -> IcebergType:
        opening = self._text[self._position : self._position + 1]
        self._expect("(" if opening == "(" else "[")
        length = int(self._take(self._NUMBER, "a length"))
        self._expect(")" if opening == "(" else "]")
        return fixed_type(length, self._shown)

    def _list(self, depth: int) -> IcebergType:
        self._expect("<")
        self._maybe(self._ARROW_NAME)
        element, required = self._inner(depth)
        self._expect(">")
        length = None
        if self._accept("["):
            length = int(self._take(self._NUMBER, "a length"))
            self._expect("]")
        return ListType(0, element, required, length)

    def _map(self, depth: int) -> IcebergType:
        self._expect("<")
        key = self.type(depth + 1)
        self._expect(",")
        value, required = self._inner(depth)
        self._expect(">")
        return MapType(0, key, 0, value, required)

    def _struct(self, depth: int) -> IcebergType:
        self._expect("<")
        fields: list[NestedField] = []
        while True:
            name = check_column_name(self._take(self._NAME, "a field name").strip())
            self._expect(":")
            kind, required = self._inner(depth)
            fields.append(NestedField(0, name, kind, required))
            if not self._accept(","):
                break
        self._expect(">")
        check_unique(fields, f"The struct in {self._shown}")
        return StructType(*fields)

    def _inner(self, depth: int) -> tuple[IcebergType, bool]:
        """The type of a field, and whether it is required."""
        return self.type(depth + 1), self._accept_words("not null")

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

    def _maybe(self, pattern: re.Pattern[str]) -> str | None:
        self._skip()
        found = pattern.match(self._text, self._position)
        if found is None:
            return None
        self._position = found.end()
        return found.group()

    def _accept_words(self, words: str) -> bool:
        return self._maybe(re.compile(r"\s+".join(words.split()) + r"\b", re.IGNORECASE)) is not None

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
