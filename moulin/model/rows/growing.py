"""Computes the schema that user data needs, for appends that evolve a table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.model.rows.conversion import Misfit, Target, fit
from moulin.model.rows.python_values import from_python
from moulin.model.rows.rows import is_arrow, opened
from moulin.model.schema.change import SchemaChange
from moulin.model.schema.evolution import apply_changes
from moulin.model.schema.growth import growth
from moulin.model.schema.values import Schema


def replayable(data: object) -> tuple[object, bool]:
    """Rows in a form whose columns can be looked at before they are read, and whether they can be read twice."""
    data = opened(data)
    if isinstance(data, Mapping):
        return {name: _held(values) for name, values in data.items()}, True
    if isinstance(data, pa.Table | pa.RecordBatch) or (isinstance(data, list) and not is_arrow(data)):
        return data, True
    try:
        if hasattr(data, "__arrow_c_stream__"):
            return pa.RecordBatchReader.from_stream(data), False
        if hasattr(data, "__arrow_c_array__"):
            return pa.record_batch(data), True
    except (pa.ArrowException, ValueError, TypeError):
        return data, True  # such data is refused when it is read
    if isinstance(data, str | bytes) or not isinstance(data, Iterable):
        return data, True  # and so is this
    return list(data), True


def growth_for(data: Any, schema: Schema) -> tuple[SchemaChange, ...]:
    """The changes of `schema` that `data`, as `replayable` gave it, needs; in order, none when it fits.

    Arrow data counts by its types. Python values count by themselves: a column is widened when one does not fit.
    """
    if isinstance(data, Mapping):
        return _of_columns(data, schema)
    if hasattr(data, "schema") and isinstance(data.schema, pa.Schema):
        return growth(schema, data.schema)
    changes: tuple[SchemaChange, ...] = ()
    if isinstance(data, list):
        rows = [row for row in data if isinstance(row, Mapping)]
        if rows:
            names = dict.fromkeys(name for row in rows for name in row)
            return _of_columns({name: [row.get(name) for row in rows] for name in names}, schema)
        for item in data:
            if isinstance(arrow := getattr(item, "schema", None), pa.Schema):
                changes += growth(_after(schema, changes), arrow)
    return changes


def _of_columns(columns: Mapping[Any, Any], schema: Schema) -> tuple[SchemaChange, ...]:
    known = {field.name: field for field in schema.fields}
    changes: tuple[SchemaChange, ...] = ()
    for name, values in columns.items():
        if name not in known:
            changes += growth(schema, pa.schema([_field(name, values)]))
        elif not _fits(values, Target.of(known[name])):
            changes += _grown(schema, name, values)
    return changes


def _grown(schema: Schema, name: str, values: Any) -> tuple[SchemaChange, ...]:
    """Fields that a struct lacks come first; types are widened only if values still do not fit."""
    try:
        given = pa.schema([_field(name, values)])
    except InvalidInput:
        return ()  # no one type: refused with the row when it is read
    added = growth(schema, given, widen=False)
    target = Target.of(_after(schema, added).find_field(name))
    return added if added and _fits(values, target) else growth(schema, given)


def _after(schema: Schema, changes: Sequence[SchemaChange]) -> Schema:
    return apply_changes(schema, schema.highest_field_id, changes, schema_id=0)[0] if changes else schema


def _fits(values: Any, target: Target) -> bool:
    try:
        if isinstance(values, pa.ChunkedArray):
            values = values.combine_chunks()
        fit(values, target) if isinstance(values, pa.Array) else from_python(values, target)
    except Misfit:
        return False
    return True


def _held(values: Any) -> Any:
    """The values of a column, which an iterator gives only once."""
    once = isinstance(values, Iterable) and not hasattr(values, "__len__")
    return list(values) if once else values


def _field(name: object, values: Any) -> pa.Field:
    if not isinstance(name, str):
        raise InvalidInput(f"A column name must be text, not {name!r}.")
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return pa.field(name, values.type)
    try:
        return pa.field(name, pa.array(values).type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise InvalidInput(
            f"Column {name} is new, and its values have no common type ({str(error).splitlines()[0]}): convert them."
        ) from None


__all__ = ["growth_for", "replayable"]
