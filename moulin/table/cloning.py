"""Clones of tables: without copies in one lake, or with copied rows, also from another lake."""

# Decisions: docs/decisions/0410

from __future__ import annotations

from moulin.catalog.objects.new_table import NewTable
from moulin.errors import InvalidInput
from moulin.model.entities import TableState
from moulin.model.schema.values import Schema
from moulin.model.tags import shown
from moulin.table.context import Context
from moulin.table.creation import create
from moulin.table.snapshot import Snapshot


def clone(context: Context, source: Snapshot, database: str, name: str, *, copy: bool) -> TableState:
    """Make `name` a table of the rows of `source`; see `Lake.clone_table`."""
    if copy:
        with source:
            source.scan(limit=1).plan()  # what refuses the source does so here, and not as an error of Arrow's
            made, _ = create(context, database, name, _new_table(source.state), source.scan().to_reader())
        return made
    if not source.is_in(context):
        raise InvalidInput(
            "A table of another lake is cloned with copy=True: its lake would not know that its files are in use."
        )
    return context.catalog.clone_table(source.state.id, database, name, version=source.version)


def _new_table(state: TableState) -> NewTable:
    now = state.schema
    key = now.identifier_field_ids
    return NewTable(
        Schema(*now.fields, schema_id=0, identifier_field_ids=key, metadata=now.metadata),
        state.last_column_id,
        state.spec,
        state.last_partition_id,
        state.sort_order,
        state.event_time,
        shown(state.properties),
    )
