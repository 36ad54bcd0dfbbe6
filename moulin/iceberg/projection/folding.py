"""Column files, for engines that read one file per segment: folded first, or left out.

The property `moulin.projection` says which: `fold`, the default, writes such segments as one file before the newest
version is projected; `lag` leaves their columns out of the projected schema until a compaction has folded them. Older
versions cannot be folded any more, and lag.
"""

# Decisions: docs/decisions/0424

from __future__ import annotations

from collections.abc import Set
from dataclasses import replace

from moulin.catalog.segments import column_sets
from moulin.model.entities import TableState
from moulin.model.schema.values import Schema
from moulin.model.table_settings import LAG, PROJECTION
from moulin.table.compact.compaction import fold
from moulin.table.context import Context


def unfolded(context: Context, state: TableState) -> frozenset[int]:
    """The ids of the columns of a version that lie in column files of live segments."""
    shown = {field.field_id for field in state.schema.fields}
    with context.own_catalog().pool.read() as connection:
        return frozenset(
            column_sets.fields_at(connection, state.id, state.version, has_base=state.base_id is not None) & shown
        )


def folded(context: Context, state: TableState) -> TableState:
    """The newest state of a table, its column files folded, where it is to be so."""
    if state.properties.get(PROJECTION) == LAG or not context.catalog.may_write or not unfolded(context, state):
        return state
    fold(context, state)
    return context.catalog.table_by_id(state.id)


def without(state: TableState, fields: Set[int]) -> TableState:
    """A table whose schemas lack some columns."""
    return replace(state, schemas={number: _without(schema, fields) for number, schema in state.schemas.items()})


def _without(schema: Schema, fields: Set[int]) -> Schema:
    if fields.isdisjoint(field.field_id for field in schema.fields):
        return schema
    left = (field for field in schema.fields if field.field_id not in fields)
    return Schema(
        *left,
        schema_id=schema.schema_id,
        identifier_field_ids=schema.identifier_field_ids,
        metadata=schema.metadata,
    )


def schema_before(state: TableState, schema_id: int, fields: Set[int]) -> int:
    """The newest schema up to `schema_id` that lacks the columns: a snapshot of theirs is read with it for good."""
    fitting = (
        number
        for number in sorted(state.schemas, reverse=True)
        if number <= schema_id and fields.isdisjoint(field.field_id for field in state.schemas[number].fields)
    )
    return next(fitting, schema_id)


__all__ = ["folded", "schema_before", "unfolded", "without"]
