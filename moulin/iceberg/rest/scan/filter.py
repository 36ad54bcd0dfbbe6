"""Converts filters of scan requests to a predicate that skips segments; it may keep non-matching ones.

Engines apply their filter to rows by themselves. So anything without an equivalent here (a transform of a column, a
number for a nanosecond, a literal of another type) counts as true, after pushing down negations. In Iceberg `x != 1` is
true for null, in a condition it is not: negations also include nulls and NaN.

With `surely` it is the opposite, for rows that match in every engine: anything without an equivalent counts as false,
and rows with null or NaN, where engines differ, are excluded.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from string import hexdigits
from typing import Any, Final

from moulin.errors import InvalidInput
from moulin.iceberg.format.json import Json
from moulin.model.predicate import Predicate
from moulin.model.predicate.condition import (
    FALSE,
    TRUE,
    Column,
    Condition,
    Constant,
    Operator,
    complement,
    conjunction,
    disjunction,
)
from moulin.model.schema.schema import unknown_column
from moulin.model.schema.values import (
    BinaryType,
    DateType,
    FixedType,
    PrimitiveType,
    Schema,
    TimestampType,
    TimestamptzType,
)
from moulin.model.where.conditions import begins_with, column_with_id, compare, is_nan, is_null, one_of
from moulin.model.where.literal import Literal, check_unicode, literal_of
from moulin.model.where.moment import Day, Instant

_DEEPEST = 100
_COMPARE: Final[Mapping[str, Operator]] = {
    "lt": "<",
    "lt-eq": "<=",
    "gt": ">",
    "gt-eq": ">=",
    "eq": "=",
    "not-eq": "!=",
}
_NEGATIVE: Final[Mapping[str, str]] = {"not-nan": "is-nan", "not-in": "in", "not-starts-with": "starts-with"}
_KINDS: Final = {*_COMPARE, *_NEGATIVE, *_NEGATIVE.values()}


def read_filter(document: Any, schema: Schema, *, surely: bool = False) -> Predicate:
    """The predicate of a filter for segments; None matches everything."""
    condition = TRUE if document is None else _Reader(schema, surely).read(document, False, 0)
    return Predicate.of(schema, condition, json.dumps(document))


class _Reader:
    """Conditions of expressions; `_unknown` stands for one that is not understood."""

    def __init__(self, schema: Schema, surely: bool) -> None:
        self._schema, self._surely = schema, surely
        self._unknown = FALSE if surely else TRUE

    def read(self, node: Any, negated: bool, depth: int) -> Condition:
        if depth > _DEEPEST:
            raise InvalidInput(f"A filter has at most {_DEEPEST} levels.")
        if isinstance(node, bool):
            return Constant(node is not negated)
        if not isinstance(node, dict) or not isinstance(kind := node.get("type"), str):
            raise InvalidInput("An expression of a filter is a JSON boolean, or an object with a type.")
        match kind:
            case "true" | "false":
                return Constant((kind == "true") is not negated)
            case "not":
                return self.read(node.get("child"), not negated, depth + 1)
            case "and" | "or":
                sides = [self.read(node.get(name), negated, depth + 1) for name in ("left", "right")]
                return conjunction(sides) if (kind == "and") is not negated else disjunction(sides)
        return self._leaf(kind, node, negated)

    def _leaf(self, kind: str, node: Json, negated: bool) -> Condition:
        term = next((node[name] for name in ("term", "child", "left") if name in node), None)
        if (name := self._name(term)) is None:
            return self._unknown
        try:
            field = self._schema.find_field(name, case_sensitive=False)
        except ValueError:
            raise InvalidInput(f"The filter names a column {str(name)[:200]!r}, which does not exist.") from None
        if not isinstance(field.field_type, PrimitiveType):
            return self._unknown
        column = column_with_id(self._schema, field.field_id)
        if kind in ("is-null", "not-null"):
            if column is None:
                raise InvalidInput(unknown_column(self._schema, str(name)).message)
            found = is_null(column)
            return found if (kind == "is-null") is not negated else complement(found)
        if kind not in _KINDS:
            raise InvalidInput(f"{kind!r} is not an expression that this catalog knows.")
        if column is None:
            return self._unknown
        try:
            return _judged(column, kind, node, negated, self._surely)
        except InvalidInput:  # a column of its type takes no such literal
            return self._unknown

    def _name(self, term: Any) -> str | int | None:
        """The name or id of a column; None when a term is a transform of one, a function or a literal."""
        if isinstance(term, dict):
            match term.get("type"):
                case "reference":
                    term = next((term[name] for name in ("term", "name", "id") if name in term), None)
                case "transform" | "apply" | "literal":
                    return None
        if isinstance(term, bool) or not isinstance(term, str | int):
            raise InvalidInput("The term of an expression is a column's name or a transform of one.")
        return term


def _judged(column: Column, kind: str, node: Json, negated: bool, surely: bool) -> Condition:
    """A leaf that compares a column. Raises InvalidInput for a literal that has no equal in the column's type."""
    around = _without_missing if surely else _with_missing
    if kind in _COMPARE:
        value = _literal(column, _value(node, "value", "right"))
        found = compare(_COMPARE[kind], column, value, negated=negated)
        return around(column, found) if surely or negated or kind == "not-eq" else found
    negated = negated is not (kind in _NEGATIVE)
    match _NEGATIVE.get(kind, kind):
        case "is-nan":
            found = is_nan(column, negated=negated)
            return conjunction([found, complement(is_null(column))]) if surely else found
        case "in":
            found = one_of(column, _literals(column, _value(node, "values")), negated=negated)
        case _:
            found = begins_with(column, _prefix(_value(node, "value", "right")), negated=negated)
    return around(column, found) if surely or negated else found


def _with_missing(column: Column, found: Condition) -> Condition:
    """The rows of `found`, and those with null or NaN."""
    return disjunction([found, is_null(column), *([is_nan(column)] if column.is_floating else [])])


def _without_missing(column: Column, found: Condition) -> Condition:
    """The rows of `found` that have a value, and not NaN."""
    return conjunction(
        [found, complement(is_null(column)), *([complement(is_nan(column))] if column.is_floating else [])]
    )


def _value(node: Json, *names: str) -> Any:
    """A member that holds literals; those that say their type are as good as plain ones."""
    found = next((node[name] for name in names if name in node), None)
    if isinstance(found, dict) and found.get("type") in ("literal", "literals"):
        found = found.get("value", found.get("values"))
    if isinstance(found, list):
        return [one.get("value") if isinstance(one, dict) and one.get("type") == "literal" else one for one in found]
    return found


def _literal(column: Column, value: Any) -> Literal:
    """A literal of a filter. Engines send days and microseconds as numbers, or dates and times as text."""
    kind = column.type
    if not isinstance(value, bool | int | float | str):
        raise InvalidInput("A literal of a filter is a boolean, a number or text.")
    if isinstance(kind, DateType | TimestampType | TimestamptzType) and not isinstance(value, bool | str):
        return literal_of(_moment(kind, value))
    return literal_of(_bytes(value) if isinstance(kind, BinaryType | FixedType) and isinstance(value, str) else value)


def _literals(column: Column, values: Any) -> list[Literal]:
    if not isinstance(values, list) or not values:
        raise InvalidInput("The values of a filter are a list of at least one.")
    return [_literal(column, value) for value in values]


def _moment(kind: DateType | TimestampType | TimestamptzType, value: float) -> Day | Instant:
    if isinstance(value, float) and not value.is_integer():
        raise InvalidInput("A date or a timestamp of a filter is a whole number, or text.")
    return (
        Day(int(value)) if isinstance(kind, DateType) else Instant(int(value) * 1000, isinstance(kind, TimestamptzType))
    )


def _bytes(value: str) -> bytes:
    if any(digit not in hexdigits for digit in value) or len(value) % 2:
        raise InvalidInput("Bytes of a filter are text of two hex digits each.")
    return bytes.fromhex(value)


def _prefix(value: Any) -> str:
    if not isinstance(value, str):
        raise InvalidInput("The prefix of a filter is text.")
    return check_unicode(value)


__all__ = ["read_filter"]
