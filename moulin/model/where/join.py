"""A condition on pairs of rows, taken apart for a join: what must be equal on both sides, and the rest."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from sqlglot import exp

from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.predicate import Predicate
from moulin.model.predicate.condition import (
    TRUE,
    And,
    Column,
    Computed,
    Condition,
    Constant,
    Or,
    columns_of,
    conjunction,
    disjunction,
    leaves,
)
from moulin.model.schema.values import Schema, StructType
from moulin.model.where.conditions import compare
from moulin.model.where.foreign import bind
from moulin.model.where.formula import Term, equal_forms, term_columns
from moulin.model.where.parser import TOO_DEEP, chain, parse_text
from moulin.model.where.reader import Reader


@dataclass(frozen=True, slots=True)
class Equality:
    """A term of each side, and expressions that are equal where the terms are."""

    left: Term
    right: Term
    left_form: pc.Expression
    right_form: pc.Expression


@dataclass(frozen=True, slots=True)
class Join:
    """The pairs for which every equality and `rest` hold."""

    equal: tuple[Equality, ...]
    rest: Predicate

    @property
    def columns(self) -> tuple[Column, ...]:
        terms = (term for one in self.equal for term in (one.left, one.right))
        return (*(column for term in terms for column in term_columns(term)), *columns_of(self.rest.condition))


def parse_join(text: str, schema: Schema, left: str, right: str, aliases: Mapping[str, str]) -> Join:
    """The join that an SQL condition over `schema` describes, whose columns `left` and `right` are the two sides."""
    if not isinstance(text, str):
        raise InvalidInput(f"A condition on two tables is SQL text, not {type(text).__name__}.")
    equal: list[Equality] = []
    rest: list[Condition] = []
    try:
        for part in _parts(parse_text(text)):
            found = _equality(part, Reader(schema, aliases), left, right)
            if found is None:
                rest.append(Reader(schema, aliases).condition(part, False))
            else:
                equal.append(found)
    except RecursionError:
        raise InvalidInput(TOO_DEEP) from None
    condition = conjunction(rest)
    for leaf in leaves(condition):
        if isinstance(leaf, Computed):
            bind(leaf.expression, schema)
    return Join(tuple(equal), Predicate.of(schema, condition, text))


def of_side(condition: Condition, side: str, schema: Schema) -> Condition:
    """What a condition over pairs asks of the rows of one side alone, over `schema`; TRUE when that is nothing.

    Rows for which it is not true are in no pair for which the condition holds.
    """
    match condition:
        case And(children):
            return conjunction(of_side(child, side, schema) for child in children)
        case Or(children):
            return disjunction(of_side(child, side, schema) for child in children)
        case Constant():
            return condition
        case Computed():
            return TRUE
        case _:
            column = of_column(condition.column, side, schema)
            return TRUE if column is None else replace(condition, column=column)


def of_column(column: Column, side: str, schema: Schema) -> Column | None:
    """A column of one side of pairs as a column of `schema`; None when it is of the other side."""
    if column.path[0] != side or len(column.path) == 1:
        return None
    fields, path = schema.fields, column.path[1:]
    for name in path:
        found = next(field for field in fields if field.name == name)
        fields = found.field_type.fields if isinstance(found.field_type, StructType) else ()
    return Column(path, found.field_id, found.field_type)


def _parts(node: exp.Expression) -> Iterable[exp.Expression]:
    """The conditions that must all hold."""
    while isinstance(node, exp.Paren):
        node = node.this
    if not isinstance(node, exp.And):
        yield node
        return
    for part in chain(node):
        yield from _parts(part)


def _equality(node: exp.Expression, reader: Reader, left: str, right: str) -> Equality | None:
    """An equation with one side of the pairs on each side of it."""
    if not isinstance(node, exp.EQ):
        return None
    one, other = reader.term(node.this), reader.term(node.expression)
    sides = tuple({column.path[0] for column in term_columns(term)} for term in (one, other))
    if sides == ({right}, {left}):
        one, other = other, one
    elif sides != ({left}, {right}):
        return None
    compare("=", one, other)  # refuses values that cannot be compared
    return Equality(one, other, *equal_forms(one, other))


__all__ = ["Equality", "Join", "of_column", "of_side", "parse_join"]
