"""Pairs of a source row and a target row in merges: one struct column for each side.

So `source.x` and `target.x` in an expression are fields of columns.
"""

from __future__ import annotations

from itertools import count

import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.model.assignments import computed
from moulin.model.columns import compute as pc
from moulin.model.predicate import Predicate
from moulin.model.schema.types import renumber
from moulin.model.schema.values import NestedField, Schema, StructType

SOURCE, TARGET = "source", "target"
ALIASES = {"s": SOURCE, "t": TARGET}


def pair_schema(source: Schema, target: Schema) -> Schema:
    """Pairs of rows of two schemas. Fields have ids of their own."""
    sides = [
        NestedField(number, name, StructType(*schema.fields), required=False)
        for number, (name, schema) in enumerate(((SOURCE, source), (TARGET, target)), 1)
    ]
    made = renumber(StructType(*sides), count(1).__next__)
    assert isinstance(made, StructType)
    return Schema(*made.fields)


def paired(rows: int, source: pa.Table | None = None, target: pa.Table | None = None) -> pa.Table:
    """Pairs of so many rows. A side that is left out, or has no columns, is left out of the pairs."""
    sides = {name: side for name, side in ((SOURCE, source), (TARGET, target)) if side is not None and side.num_columns}
    if not sides:
        return pa.table({"": pa.nulls(rows)})
    return pa.table({name: side.to_struct_array() for name, side in sides.items()})


def true_for(predicate: Predicate | None, pairs: pa.Table, rows: int, what: str) -> pa.ChunkedArray | None:
    """For which pairs a condition is true; None: for all."""
    if predicate is None or predicate.is_true:
        return None
    if predicate.is_false:
        return pa.chunked_array([pa.repeat(False, rows)])
    return pc.fill_null(computed(predicate.expression, pairs, what), False)


def unreadable(what: str, error: InvalidInput, schema: Schema) -> InvalidInput:
    """The error for an expression over pairs that cannot be read."""
    return InvalidInput(
        f"{what}: {error.message} Name columns as {' and '.join(f'{f.name}.x' for f in schema.fields)}."
    )


__all__ = ["ALIASES", "SOURCE", "TARGET", "pair_schema", "paired", "true_for", "unreadable"]
