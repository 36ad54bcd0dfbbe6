r"""The language of the search box, as a condition over the columns of a table of logs.

    search  = either
    either  = all { "OR" all }
    all     = one { [ "AND" ] one }
    one     = [ "-" | "NOT" ] ( "(" either ")" | field ":" value | value )
    value   = word | quoted            within a word, * is any text; \ takes away the meaning of what follows
    quoted  = '"' text '"'             \" and \\ stand for themselves

`level:error service:cart "timed out"` are records of that level and service with that text in their body. Text is
looked for in any case, and anywhere in the body; the value of a field is compared as a whole and as it is written.
`field:*` matches records with that field. Fields are level (with level:>=warn, too), service, event, scope, trace, span
and body; any other name is an attribute of the record or of its resource, and `resource.x` of the resource alone. `-`
takes in records that lack the field.
"""

# Decisions: docs/decisions/0566

from __future__ import annotations

import re
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, NoReturn

from moulin.console.logs.levels import ALL, LEVELS, UNKNOWN, at_least, has_level, parse_level
from moulin.console.telemetry import column
from moulin.errors import InvalidInput
from moulin.model.predicate.condition import (
    TRUE,
    Column,
    Compare,
    Condition,
    Constant,
    IsNull,
    complement,
    conjunction,
    disjunction,
)
from moulin.model.schema.values import FixedType, Schema
from moulin.model.where.conditions import compare, is_null, matches
from moulin.model.where.formula import Term, map_value
from moulin.model.where.literal import Literal, check_unicode

LONGEST: Final = 2000
_MOST_TERMS: Final = 64
_DEEPEST: Final = 16
_FIELDS: Final = MappingProxyType(
    {
        "service": "service_name",
        "service_name": "service_name",
        "event": "event_name",
        "event_name": "event_name",
        "scope": "scope_name",
        "scope_name": "scope_name",
        "trace": "trace_id",
        "trace_id": "trace_id",
        "span": "span_id",
        "span_id": "span_id",
    }
)
_LEVEL: Final = frozenset({"level", "severity"})
_ID_BYTES: Final = {"trace_id": 16, "span_id": 8}
_FIELD: Final = re.compile(r"([A-Za-z_@][A-Za-z0-9_.@/-]*):(?!//)")
_COMPARED: Final = re.compile(r"(>=|<=|>|<|=)")
_QUOTED: Final = re.compile(r'"((?:\\["\\]|\\(?!["\\])|[^"\\])*)"')
_ESCAPED: Final = re.compile(r'\\(["\\])')
_SPACE: Final = " \t\r\n"


@dataclass(frozen=True, slots=True)
class Pattern:
    """A value as it was written: stretches of text, with any text between two of them."""

    parts: tuple[str, ...]
    at: int

    @property
    def text(self) -> str:
        return "*".join(self.parts)

    @property
    def is_plain(self) -> bool:
        return len(self.parts) == 1

    @property
    def is_anything(self) -> bool:
        return len(self.parts) > 1 and not any(self.parts)

    def like(self, around: str = "") -> str:
        """As a pattern of `like`, whose escape is a backslash."""
        escaped = [re.sub(r"([\\%_])", r"\\\1", part) for part in self.parts]
        return around + "%".join(escaped) + around


def parse_search(text: str, schema: Schema) -> Condition:
    """The condition that a search stands for. InvalidInput says at which column something is wrong."""
    if len(text) > LONGEST:
        raise InvalidInput(f"A search can have at most {LONGEST} characters, not {len(text)}.")
    check_unicode(text)
    return _Parser(text, schema).parse()


class _Parser:
    def __init__(self, text: str, schema: Schema) -> None:
        self._text, self._schema = text, schema
        self._at = self._depth = self._terms = 0

    def parse(self) -> Condition:
        if not self._more():
            return TRUE
        found = self._either()
        if self._more():
            self._refuse(self._at, "unmatched ): remove it, or put it in quotes")
        return found

    def _either(self) -> Condition:
        parts = [self._all()]
        while self._word("OR"):
            parts.append(self._all())
        return disjunction(parts)

    def _all(self) -> Condition:
        parts = [self._one()]
        while self._more() and self._text[self._at] != ")" and not self._is_word("OR"):
            self._word("AND")
            parts.append(self._one())
        return conjunction(parts)

    def _one(self) -> Condition:
        negated = False
        while self._more() and (self._word("NOT") or self._minus()):
            negated = not negated
        found = self._primary()
        return complement(found) if negated else found

    def _minus(self) -> bool:
        follows = self._text[self._at + 1 : self._at + 2]
        if self._text[self._at] != "-" or not follows or follows in _SPACE:
            return False
        self._at += 1
        return True

    def _primary(self) -> Condition:
        if not self._more():
            self._refuse(self._at, "a search term is missing here")
        begin = self._at
        if self._text[begin] == "(":
            return self._group(begin)
        if self._text[begin] == ")" or self._is_word("OR") or self._is_word("AND"):
            self._refuse(begin, "a search term is missing before this")
        self._terms += 1
        if self._terms > _MOST_TERMS:
            self._refuse(begin, f"a search has at most {_MOST_TERMS} terms")
        named = _FIELD.match(self._text, begin)
        if named is None:
            return self._contains(self._value(begin))
        self._at = named.end()
        return self._field(named[1], begin)

    def _group(self, begin: int) -> Condition:
        self._depth += 1
        if self._depth > _DEEPEST:
            self._refuse(begin, f"parentheses can be nested at most {_DEEPEST} deep")
        self._at += 1
        found = self._either()
        if not self._more():
            self._refuse(begin, "this ( is not closed")
        self._at += 1
        self._depth -= 1
        return found

    def _field(self, name: str, begin: int) -> Condition:
        lower = name.lower()
        if lower in _LEVEL:
            return self._level()
        value = self._value(begin)
        if lower == "body":
            return self._contains(value)
        if lower in _FIELDS:
            return self._known(column(self._schema, _FIELDS[lower]), value)
        if lower.startswith("resource.") and len(name) > len("resource."):
            return _compared(self._attribute("resource", name[len("resource.") :]), value)
        key = name[len("attributes.") :] if lower.startswith("attributes.") and len(name) > 11 else name
        both = [self._attribute("attributes", key), self._attribute("resource", key)]
        return disjunction(_compared(term, value) for term in (both if key == name else both[:1]))

    def _attribute(self, maps: str, key: str) -> Term:
        return map_value(column(self._schema, maps), key)

    def _level(self) -> Condition:
        operator = _COMPARED.match(self._text, self._at)
        begin = self._at
        self._at = operator.end() if operator else begin
        value = self._value(begin)
        if value.is_anything and operator is None:
            return has_level(self._schema, LEVELS)
        level = parse_level(value.text) if value.is_plain else None
        if level is None or (level == UNKNOWN and operator is not None):
            self._refuse(value.at, f"a level must be one of {', '.join(ALL)}")
        if level == UNKNOWN:
            return has_level(self._schema, (UNKNOWN,))
        return has_level(self._schema, at_least(level, operator[1] if operator else "="))

    def _known(self, found: Column, value: Pattern) -> Condition:
        if found.name not in _ID_BYTES or value.is_anything:
            return _compared(found, value)
        lower = Pattern(tuple(part.lower() for part in value.parts), value.at)
        if not isinstance(found.type, FixedType):
            return _compared(found, lower)
        try:
            data = bytes.fromhex(lower.text)
        except ValueError:
            data = b""
        return Compare(found, "=", data) if len(data) == _ID_BYTES[found.name] else Constant(False)

    def _contains(self, value: Pattern) -> Condition:
        body = column(self._schema, "body")
        return IsNull(body, True) if value.is_anything else matches(body, value.like("%"), "\\", ignore_case=True)

    def _value(self, begin: int) -> Pattern:
        start = self._at
        if self._text[start : start + 1] == '"':
            return self._quoted(start)
        parts: list[str] = []
        held: list[str] = []
        while self._at < len(self._text):
            one = self._text[self._at]
            if one in _SPACE or one in '()"':
                break
            self._at += 1
            if one == "*":
                parts.append("".join(held))
                held = []
            elif one == "\\" and self._at < len(self._text):
                held.append(self._text[self._at])
                self._at += 1
            else:
                held.append(one)
        if self._at == start:
            self._refuse(begin, "a value is missing after this field")
        return Pattern((*parts, "".join(held)), start)

    def _quoted(self, start: int) -> Pattern:
        found = _QUOTED.match(self._text, start)
        if found is None:
            self._refuse(start, "this quote is not closed")
        self._at = found.end()
        return Pattern((_ESCAPED.sub(r"\1", found[1]),), start)

    def _more(self) -> bool:
        while self._at < len(self._text) and self._text[self._at] in _SPACE:
            self._at += 1
        return self._at < len(self._text)

    def _is_word(self, word: str) -> bool:
        end = self._at + len(word)
        return self._text[self._at : end] == word and (end == len(self._text) or self._text[end] in _SPACE + "()")

    def _word(self, word: str) -> bool:
        if not self._more() or not self._is_word(word):
            return False
        self._at += len(word)
        return True

    def _refuse(self, at: int, why: str) -> NoReturn:
        raise InvalidInput(f"The search cannot be parsed at column {at + 1}: {why}.")


def _compared(term: Term, value: Pattern) -> Condition:
    if value.is_anything:
        return complement(is_null(term))
    if value.is_plain:
        return compare("=", term, Literal(value.text, "a text"))
    return matches(term, value.like(), "\\", ignore_case=False)


__all__ = ["LONGEST", "Pattern", "parse_search"]
