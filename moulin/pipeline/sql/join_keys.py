"""Conditions from the rows of a small join source: columns equal to values of the source."""

# Decisions: docs/decisions/0295

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.types as pt

from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.predicate.condition import FALSE, TRUE, Column, Condition, conjunction
from moulin.model.schema.values import Schema
from moulin.model.where.conditions import between, one_of
from moulin.pipeline.sql.catalyst import Expression
from moulin.pipeline.sql.expressions import Node, read_expression
from moulin.pipeline.sql.filters import MOST_MEMBERS, FilterReader, typed_literal

_WHOLE = ("byte", "short", "integer", "long")  # from narrow to wide


@dataclass(frozen=True, slots=True)
class JoinSides:
    """The attributes of both sides of a join, by the numbers that expressions know them by: columns of the table by
    name, and columns of the source by index."""

    table: Mapping[int, str]
    source: Mapping[int, int]


def needed_of(schema: Schema, on: Expression, every: Any, sides: JoinSides, rows: pa.Table) -> Condition:
    """A condition that holds for every row of a table that one of the source's `rows` is joined with."""
    reader = _Reader(schema, on, every, sides)
    return conjunction([_one_of(*key, rows) for key in reader.equal_columns()])


class _Reader(FilterReader):
    def __init__(self, schema: Schema, on: Expression, every: Any, sides: JoinSides) -> None:
        super().__init__(schema, on, every)
        self._sides = sides

    def equal_columns(self) -> Iterator[tuple[Column, int, str]]:
        """Columns of the table that equal columns of the source in every pair, and the types of the latter."""
        nodes = [read_expression(self._expression.toJSON())]
        while nodes:
            node = nodes.pop()
            if node.kind == "And":
                nodes += node.operands
            elif node.kind == "EqualTo":
                for own, other in (node.operands, node.operands[::-1]):
                    column, found = self._own(own), self._source(other)
                    if column is not None and found is not None:
                        yield column, *found

    def _own(self, node: Node) -> Column | None:
        inner = node.operands[0] if node.kind == "Cast" else node
        return self.column(node) if inner.kind == "AttributeReference" and _id(inner) in self._sides.table else None

    def _source(self, node: Node) -> tuple[int, str] | None:
        """A column of the source, perhaps as a wider whole number."""
        inner = node.operands[0] if node.kind == "Cast" else node
        if inner.kind != "AttributeReference" or _id(inner) not in self._sides.source:
            return None
        kind, shown = inner.fields["dataType"], node.fields["dataType"]
        widened = kind in _WHOLE and shown in _WHOLE and _WHOLE.index(kind) <= _WHOLE.index(shown)
        if not isinstance(kind, str) or not (kind == shown or widened):
            return None
        return self._sides.source[_id(inner)], kind


def _one_of(column: Column, index: int, kind: str, rows: pa.Table) -> Condition:
    """The values of a column of the source or, where they are many, their range."""
    values = rows.column(index).drop_null()
    if not len(values):
        return FALSE  # null equals nothing
    if pt.is_floating(values.type) or pt.is_nested(values.type):
        return TRUE
    if pt.is_timestamp(values.type):
        values = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64())
    elif pt.is_date(values.type):
        values = values.cast(pa.int32())
    values = pc.unique(values)
    many = len(values) > MOST_MEMBERS
    if many:
        bounds = pc.min_max(values).as_py()
        chosen = [bounds["min"], bounds["max"]]
    else:
        chosen = values.to_pylist()
    try:
        literals = [typed_literal(column, kind, _shown(value)) for value in chosen]
        known = [literal for literal in literals if literal is not None]
        if len(known) < len(literals):
            return TRUE
        return between(column, *known) if many else one_of(column, known)
    except InvalidInput:  # a value that no column of ours is compared with
        return TRUE


def _shown(value: Any) -> Any:
    """A value as it stands in Spark's JSON, which `typed_literal` reads."""
    return str(value).lower() if isinstance(value, bool) else value


def _id(node: Node) -> int:
    return int(node.fields["exprId"]["id"])
