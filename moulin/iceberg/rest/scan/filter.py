"""Filters of scan requests, as a predicate that leaves out segments: it may let through more than what matches.

Engines apply their filter to rows by themselves. So whatever has no equal here (a transform of a column, a number for a
nanosecond, a literal of another type) counts as true, after negations were carried down to where that is safe. In
Iceberg `x != 1` is true of null, in a `where` it is not: what is negated also takes nulls, and NaN where there is one.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from moulin.errors import InvalidInput
from moulin.iceberg.projection.avro import Json
from moulin.model.predicate import Predicate
from moulin.model.schema.values import (
    BinaryType,
    DateType,
    DoubleType,
    FixedType,
    FloatType,
    PrimitiveType,
    Schema,
    TimestampType,
    TimestamptzType,
)
from moulin.model.where import parse_where

_DEEPEST = 100
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_COMPARE: Final[Mapping[str, tuple[str, str]]] = {  # how it is spelled, and what it is when negated
    "lt": ("<", ">="),
    "lt-eq": ("<=", ">"),
    "gt": (">", "<="),
    "gt-eq": (">=", "<"),
    "eq": ("=", "<>"),
    "not-eq": ("<>", "="),
}


def read_filter(document: Any, schema: Schema) -> Predicate:
    """What a filter comes to for segments; None takes everything."""
    text = None if document is None else _Reader(schema).read(document, False, 0)
    return parse_where(text, schema)


class _Reader:
    """Texts of a `where`; None stands for what is not known, and so for true."""

    def __init__(self, schema: Schema) -> None:
        self._schema = schema

    def read(self, node: Any, negated: bool, depth: int) -> str | None:
        if depth > _DEEPEST:
            raise InvalidInput(f"A filter has at most {_DEEPEST} levels.")
        if isinstance(node, bool):
            return _truth(node is not negated)
        if not isinstance(node, dict) or not isinstance(kind := node.get("type"), str):
            raise InvalidInput("An expression of a filter is a JSON boolean, or an object with a type.")
        match kind:
            case "true" | "false":
                return _truth((kind == "true") is not negated)
            case "not":
                return self.read(node.get("child"), not negated, depth + 1)
            case "and" | "or":
                sides = [self.read(node.get(name), negated, depth + 1) for name in ("left", "right")]
                return _united(sides, (kind == "and") is not negated)
        return self._leaf(kind, node, negated)

    def _leaf(self, kind: str, node: Json, negated: bool) -> str | None:
        made: str | None
        if (name := _column(node.get("term"))) is None:
            return None
        try:
            field = self._schema.find_field(name, case_sensitive=False)
        except ValueError:
            raise InvalidInput(f"The filter names a column {name!r}: there is none.") from None
        column, what = _quoted(self._schema, field.field_id), field.field_type
        if not isinstance(what, PrimitiveType):
            return None
        if kind in ("is-null", "not-null"):
            return f"{column} is {'' if (kind == 'is-null') is not negated else 'not '}null"
        if kind in ("is-nan", "not-nan"):
            plain = (kind == "is-nan") is not negated
            made = f"isnan({column})" if plain else f"(not isnan({column}) or {column} is null)"
        elif kind in _COMPARE:
            operator = _COMPARE[kind][negated]
            value = _literal(what, node.get("value"))
            made = None if value is None else f"{column} {operator} {value}"
        elif kind in ("in", "not-in"):
            negated = negated is not (kind == "not-in")
            values = [_literal(what, one) for one in node.get("values") or ()]
            known = [value for value in values if value is not None]
            made = f"{column} {'not ' if negated else ''}in ({', '.join(known)})" if known else None
            made = made if len(known) == len(values) else None
        elif kind in ("starts-with", "not-starts-with"):
            negated = negated is not (kind == "not-starts-with")
            made = _starts(column, node.get("value"), negated)
        else:
            raise InvalidInput(f"{kind!r} is no expression that this catalog knows.")
        if made is not None and (negated or kind == "not-eq"):
            nan = f" or isnan({column})" if isinstance(what, FloatType | DoubleType) else ""
            made = f"({made} or {column} is null{nan})"
        return self._sound(made)

    def _sound(self, text: str | None) -> str | None:
        """`text`, unless a column of its type takes no such literal."""
        if text is not None:
            try:
                parse_where(text, self._schema)
            except InvalidInput:
                return None
        return text


def _united(sides: list[str | None], both: bool) -> str | None:
    known = [side for side in sides if side is not None]
    if both:
        return f"({' and '.join(known)})" if known else None
    return f"({' or '.join(known)})" if len(known) == len(sides) else None


def _truth(value: bool) -> str:
    return "true" if value else "false"


def _column(term: Any) -> str | None:
    """The name of a term; None when it is a column's transform."""
    if isinstance(term, dict) and term.get("type") == "reference":
        term = term.get("term")
    if isinstance(term, dict) and term.get("type") == "transform":
        return None
    if not isinstance(term, str):
        raise InvalidInput("The term of an expression is a column's name or a transform of one.")
    return term


def _quoted(schema: Schema, field_id: int) -> str:
    name = schema.find_column_name(field_id)
    assert name is not None
    whole = name in {field.name for field in schema.fields}
    return ".".join(f"`{part.replace('`', '``')}`" for part in ([name] if whole else name.split(".")))


def _literal(kind: PrimitiveType, value: Any) -> str | None:
    """A literal of a filter as SQL. Engines send days and microseconds as numbers, or dates and times as text."""
    if isinstance(value, bool):
        return _truth(value)
    if isinstance(value, int | float):
        if isinstance(kind, DateType | TimestampType | TimestamptzType):
            return _moment(kind, value)
        return repr(value) if value == value and abs(value) != float("inf") else None
    if not isinstance(value, str):
        return None
    if isinstance(kind, BinaryType | FixedType):
        return f"X'{value}'" if all(char in "0123456789abcdefABCDEF" for char in value) else None
    return "'" + value.replace("'", "''") + "'"


def _moment(kind: PrimitiveType, value: float) -> str | None:
    try:
        if isinstance(kind, DateType):
            return f"'{(_EPOCH + timedelta(days=int(value))).date().isoformat()}'"
        moment = _EPOCH + timedelta(microseconds=int(value))
    except OverflowError:
        return None
    text = moment.isoformat() if isinstance(kind, TimestamptzType) else moment.replace(tzinfo=None).isoformat()
    return f"'{text}'"


def _starts(column: str, value: Any, negated: bool) -> str | None:
    if not isinstance(value, str):
        return None
    escaped = value.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_").replace("'", "''")
    return f"{column} {'not ' if negated else ''}like '{escaped}%'"


__all__ = ["read_filter"]
