"""A table's state after schema changes, for the catalog and for writers that plan ahead."""

# Decisions: docs/decisions/0258

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from moulin.model.branch_ids import next_schema_id
from moulin.model.entities import TableState
from moulin.model.schema.change import SchemaChange
from moulin.model.schema.evolution import apply_changes


def altered(state: TableState, changes: Sequence[SchemaChange]) -> TableState:
    """The state with the schema that `changes`, in order, make of the current one.

    The same state and changes always give the same schema id and field ids, so a writer can write segments in the
    schema that its own commit will make.
    """
    in_use = dict.fromkeys((f.source_id for f in state.sort_order.fields), "the sort order")
    in_use.update(dict.fromkeys((f.source_id for f in state.spec.fields), "the partitioning"))
    if state.event_time is not None:
        in_use[state.event_time] = "the event time"
    changed, last_column_id = apply_changes(
        state.schema,
        state.last_column_id,
        changes,
        schema_id=next_schema_id(state.schemas, state.last_column_id),
        in_use=in_use,
        partition_names=[f.name for f in state.spec.fields],
        partition_sources=[f.source_id for spec in state.specs.values() for f in spec.fields],
    )
    return replace(
        state,
        schemas={**state.schemas, changed.schema_id: changed},
        schema_id=changed.schema_id,
        last_column_id=last_column_id,
    )


__all__ = ["altered"]
