"""What a query asks for sure of one of its tables, so that files without such a row need not be read.

Only what Spark and Moulin are certain to understand alike counts: `column = literal` and `column in (literals)`, of
text or whole numbers, joined by `and` in the WHERE of a SELECT from this table alone. The condition comes from Spark's
parser, as JSON; Spark checks every row itself.
"""

# Decisions: docs/decisions/0131

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from moulin.errors import InvalidInput
from moulin.model.predicate import Predicate
from moulin.model.predicate.condition import Column, conjunction
from moulin.model.schema.values import IntegerType, LongType, Schema, StringType
from moulin.model.where.conditions import one_of
from moulin.model.where.literal import literal_of

_WHOLE = {"byte", "short", "integer", "long"}


@dataclass(frozen=True, slots=True)
class Known:
    """The column of every row that is asked for has one of these values."""

    column: str
    values: tuple[str, ...] | tuple[int, ...]


@dataclass(frozen=True, slots=True)
class _Node:
    """An expression as Spark describes it: its class, its fields and its operands."""

    kind: str
    fields: dict[str, Any]
    operands: tuple[_Node, ...]


def known_values(condition: str, qualifiers: Sequence[Sequence[str]]) -> tuple[Known, ...]:
    """What the JSON of a condition says of the columns of a table that may be named by `qualifiers`.

    Names are not looked up in a schema.
    """
    wanted = {()} | {tuple(part.lower() for part in parts) for parts in qualifiers}
    return tuple(_known(_node(iter(json.loads(condition))), wanted))


def literal_text(expression: str) -> str | None:
    """The text that the JSON of an expression is a literal of; None when it is something else."""
    node = _node(iter(json.loads(expression)))
    is_text = node.kind == "Literal" and node.fields["dataType"] == "string"
    return node.fields["value"] if is_text else None


def literal_number(expression: str) -> int | None:
    """The whole number that the JSON of an expression is a literal of; None when it is something else."""
    node = _node(iter(json.loads(expression)))
    is_number = node.kind == "Literal" and node.fields["dataType"] in _WHOLE and node.fields["value"] is not None
    return int(node.fields["value"]) if is_number else None


def _node(parts: Iterator[dict[str, Any]]) -> _Node:
    """The next expression; nodes come before their operands."""
    fields = next(parts)
    operands = tuple(_node(parts) for _ in range(fields["num-children"]))
    return _Node(fields["class"].rpartition(".")[2], fields, operands)


def _known(condition: _Node, qualifiers: set[tuple[str, ...]]) -> Iterator[Known]:
    if condition.kind == "And":
        for operand in condition.operands:
            yield from _known(operand, qualifiers)
    elif condition.kind == "EqualTo":
        for column, value in (condition.operands, condition.operands[::-1]):
            yield from _listed(column, [value], qualifiers)
    elif condition.kind == "In":
        yield from _listed(condition.operands[0], condition.operands[1:], qualifiers)


def _listed(column: _Node, values: Sequence[_Node], qualifiers: set[tuple[str, ...]]) -> Iterator[Known]:
    if column.kind != "UnresolvedAttribute" or not values or any(value.kind != "Literal" for value in values):
        return
    *qualifier, name = column.fields["nameParts"][1:-1].split(", ")
    types = {value.fields["dataType"] for value in values}
    texts = [value.fields["value"] for value in values]
    if tuple(part.lower() for part in qualifier) not in qualifiers or None in texts:
        return
    if types == {"string"}:
        yield Known(name, tuple(texts))
    elif types <= _WHOLE:
        yield Known(name, tuple(int(text) for text in texts))


def predicate_of(known: Sequence[Known], schema: Schema) -> Predicate:
    """The rows of a table of which all this is true; what does not fit the types of its columns is left out."""
    if any(", " in field.name for field in schema.fields):  # the parts of a name are told apart by that
        return Predicate.everything(schema)
    fields = {field.name.lower(): field for field in schema.fields}
    conditions = []
    for one in known:
        field = fields.get(one.column.lower())
        fitting = StringType if isinstance(one.values[0], str) else (IntegerType, LongType)
        if field is not None and isinstance(field.field_type, fitting):
            column = Column((field.name,), field.field_id, field.field_type)
            try:
                conditions.append(one_of(column, [literal_of(value) for value in one.values]))
            except InvalidInput:  # whatever it is, Spark says it better, or takes it
                return Predicate.everything(schema)
    return Predicate.of(schema, conjunction(conditions), "the conditions of a query")
