"""Terms: the parts of a condition that a row has to match, every one of them, so that they can be tried in turn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from moulin.model.columns import compute as pc
from moulin.model.predicate.condition import And, Computed, Condition, columns_of, expression_of, leaves
from moulin.model.schema.arrow import arrow_type
from moulin.model.schema.values import Schema


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a predicate that all rows have to match, and the top-level columns that it reads."""

    expression: pc.Expression
    columns: tuple[str, ...]


def terms_of(condition: Condition, schema: Schema) -> tuple[Term, ...]:
    """The terms of a condition over columns of `schema`, those that read less first.

    What is computed may fail, for a value that another term would leave out: such a condition is a single term.
    """
    used = {column.path[0] for column in columns_of(condition)}
    ordered = tuple(field.name for field in schema.fields if field.name in used)
    if not isinstance(condition, And) or any(isinstance(leaf, Computed) for leaf in leaves(condition)):
        return (Term(expression_of(condition), ordered),)
    by_columns: dict[tuple[str, ...], list[Condition]] = {}
    for child in condition.children:
        names = {column.path[0] for column in columns_of(child)}
        by_columns.setdefault(tuple(name for name in ordered if name in names), []).append(child)
    widths = {field.name: _width(arrow_type(field.field_type)) for field in schema.fields}
    order = sorted(by_columns, key=lambda names: sum(widths[name] for name in names))
    return tuple(Term(_all(by_columns[names]), names) for names in order)


def _all(conditions: Sequence[Condition]) -> pc.Expression:
    return expression_of(conditions[0] if len(conditions) == 1 else And(tuple(conditions)))


def _width(kind: pa.DataType) -> int:
    """About what a value takes to decode."""
    if pt.is_nested(kind):
        return 64
    return 32 if pt.is_string(kind) or pt.is_binary(kind) else 8


__all__ = ["Term", "terms_of"]
