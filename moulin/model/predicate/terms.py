"""Terms: the parts of a condition that a row has to match, every one of them, so that they can be tried in turn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.types as pt

from moulin.model.columns import compute as pc
from moulin.model.predicate.condition import And, Computed, Condition, Like, columns_of, expression_of, leaves
from moulin.model.schema.arrow import arrow_type
from moulin.model.schema.values import Schema, StringType


@dataclass(frozen=True, slots=True)
class Term:
    """A part of a predicate that all rows have to match, and the top-level columns that it reads.

    If `within` is not empty, the term is about one column of text, and every text that matches has these bytes in it.
    """

    expression: pc.Expression
    columns: tuple[str, ...]
    within: bytes = b""


def terms_of(condition: Condition, schema: Schema) -> tuple[Term, ...]:
    """The terms of a condition over columns of `schema`, those that read less first.

    What is computed may fail, for a value that another term would leave out: such a condition is a single term.
    """
    used = {column.path[0] for column in columns_of(condition)}
    ordered = tuple(field.name for field in schema.fields if field.name in used)
    if not isinstance(condition, And) or any(isinstance(leaf, Computed) for leaf in leaves(condition)):
        return (Term(expression_of(condition), ordered, _within([condition])),)
    by_columns: dict[tuple[str, ...], list[Condition]] = {}
    for child in condition.children:
        names = {column.path[0] for column in columns_of(child)}
        by_columns.setdefault(tuple(name for name in ordered if name in names), []).append(child)
    widths = {field.name: _width(arrow_type(field.field_type)) for field in schema.fields}
    order = sorted(by_columns, key=lambda names: sum(widths[name] for name in names))
    return tuple(Term(_all(by_columns[names]), names, _within(by_columns[names])) for names in order)


def _all(conditions: Sequence[Condition]) -> pc.Expression:
    return expression_of(conditions[0] if len(conditions) == 1 else And(tuple(conditions)))


def _within(conditions: Sequence[Condition]) -> bytes:
    """The longest text that all matches of a LIKE among `conditions` contain; they all are about the same columns."""
    found = b""
    for condition in conditions:
        if isinstance(condition, Like) and not condition.negated and not condition.ignore_case:
            column = condition.column
            if len(column.path) == 1 and isinstance(column.type, StringType):
                found = max(found, *_literals(condition.pattern), key=len)
    return found


def _literals(pattern: str) -> Iterator[bytes]:
    r"""What stands between the % and _ of a pattern, in which \ makes the next character an ordinary one."""
    text, at = "", 0
    while at < len(pattern):
        if pattern[at] in "%_":
            yield text.encode()
            text = ""
        else:
            at += pattern[at] == "\\" and at + 1 < len(pattern)
            text += pattern[at]
        at += 1
    yield text.encode()


def _width(kind: pa.DataType) -> int:
    """About what a value takes to decode."""
    if pt.is_nested(kind):
        return 64
    return 32 if pt.is_string(kind) or pt.is_binary(kind) else 8


__all__ = ["Term", "terms_of"]
