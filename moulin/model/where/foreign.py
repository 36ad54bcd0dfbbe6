"""A `where` that the user wrote as a pyarrow expression.

Python cannot look into it. Arrow is asked which columns it reads, and for its comparisons (see `substrait`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.predicate.condition import TRUE, Column, Computed, Condition, conjunction
from moulin.model.schema.arrow import arrow_schema, empty_table
from moulin.model.schema.schema import unknown_column
from moulin.model.schema.values import Schema
from moulin.model.where.substrait import weaker


def foreign(expression: pc.Expression, schema: Schema) -> Condition:
    """The condition that `expression` is, once it is known to fit `schema`: what is understood of it, and itself."""
    bind(expression, schema)
    columns = tuple(Column((field.name,), field.field_id, field.field_type) for field in schema.fields)
    # A column named by its position has to keep it.
    by_name = "FieldPath(" not in str(expression)
    if not by_name:
        return Computed(expression, columns, foreign=True)
    read = tuple(_read(expression, arrow_schema(schema), columns))
    return conjunction([weaker(expression, read), Computed(expression, read, foreign=True)])


@dataclass(frozen=True)
class Hint:
    """A condition of somebody who tests the rows himself: what cannot hold it may be left out, and need not be."""

    expression: pc.Expression

    def condition(self, schema: Schema) -> Condition:
        """What holds for all rows that are wanted, whatever is thought of NaN and of null in lists."""
        try:
            bind(self.expression, schema)
        except InvalidInput:
            return TRUE  # whoever tests the rows converts them first
        columns = tuple(Column((field.name,), field.field_id, field.field_type) for field in schema.fields)
        return weaker(self.expression, tuple(_read(self.expression, arrow_schema(schema), columns)), floats=False)


def bind(expression: pc.Expression, schema: Schema) -> None:
    """Refuses an expression that Arrow cannot evaluate on rows of `schema`, or that is not a condition."""
    try:
        empty_table(arrow_schema(schema)).filter(expression)
    except pa.ArrowException as error:
        missing = re.match(r"No match for FieldRef\.(?:Name\((?P<name>[^)]*)\)|Nested)", str(error))
        if missing is not None and missing["name"]:
            raise InvalidInput(unknown_column(schema, missing["name"]).message) from None
        raise InvalidInput(f"The where cannot be evaluated on this table: {str(error).splitlines()[0]}.") from None


def _read(expression: pc.Expression, arrow: pa.Schema, columns: Sequence[Column]) -> Iterator[Column]:
    """Those of `columns` without which `expression` does not bind, found by halving."""
    gone = {column.path[0] for column in columns}
    try:
        empty_table(pa.schema([field for field in arrow if field.name not in gone])).filter(expression)
    except pa.ArrowException:
        if len(columns) == 1:
            yield columns[0]
        else:
            half = len(columns) // 2
            yield from _read(expression, arrow, columns[:half])
            yield from _read(expression, arrow, columns[half:])
