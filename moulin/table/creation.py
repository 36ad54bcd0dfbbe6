"""Creates tables: their definition, and their first rows, which are committed with the table in one version.

The segments of first rows are written before the table exists, in the folder of its future id. Nothing is visible until
the single commit; clean-up deletes the files of a dead writer.
"""

# Decisions: docs/decisions/0291

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace as replaced
from itertools import count
from typing import Any

from moulin.catalog.objects.new_table import FirstRows, NewTable, foreseen
from moulin.errors import InvalidInput
from moulin.model.entities import TableState
from moulin.model.ids import new_id
from moulin.model.key.key import with_key
from moulin.model.layout.event_time import event_time_id
from moulin.model.layout.partition import PartitionTuple, parse_spec
from moulin.model.layout.sort import parse_sort
from moulin.model.region_spec import RegionSpec
from moulin.model.rows.rows import to_batches
from moulin.model.schema.schema import make_schema
from moulin.table.bulk.drafts import Drafts
from moulin.table.bulk.writer import BulkPlan, write_bulk, write_runs
from moulin.table.context import Context
from moulin.table.ports import is_frame
from moulin.table.properties import check_properties, effective
from moulin.table.write.layout import Layout
from moulin.table.write.writes import number_source, prepare_append


def new_table(
    schema: Any,
    *,
    primary_key: Sequence[str] = (),
    partition_by: Sequence[str] = (),
    sort_by: Sequence[str] = (),
    event_time: str | None = None,
    properties: Mapping[str, Any] | None = None,
) -> NewTable:
    """A table as `Lake.create_table` describes it, checked."""
    made = make_schema(schema)
    if primary_key:
        made = with_key(made, primary_key)
        if sort_by and list(sort_by) != list(primary_key):
            raise InvalidInput("A keyed table is sorted by its key: leave sort_by out.")
        sort_by = primary_key
    time_field = event_time_id(made, event_time) if event_time else None
    order = list(sort_by) or ([event_time] if event_time else [])
    spec, last_partition_id = parse_spec(list(partition_by), made)
    new = NewTable(
        made,
        made.highest_field_id,
        spec,
        last_partition_id,
        parse_sort(order, made),
        time_field,
        check_properties(properties or {}),
    )
    RegionSpec.of(made, new.properties)
    return new


def create(
    context: Context, database: str, name: str, new: NewTable, rows: object | None = None, *, replace: bool = False
) -> tuple[TableState, int]:
    """Make a table of rows in one version; returns it and how many rows there are.

    `rows` is whatever `Table.append` takes. Of a keyed table each key may come once.
    """
    new = replaced(new, id=new_id())
    state = foreseen(new, database, name)
    first = None if rows is None else _written(context, state, rows)
    with context.catalog.writing():
        made = context.catalog.create_table(database, name, new, first, replace=replace)
    return made, 0 if first is None else sum(facts.rows for facts in first.segments)


def _written(context: Context, state: TableState, rows: Any) -> FirstRows:
    """Segments of `rows`, in the folder of a table that is not there yet."""
    if not state.schema.identifier_field_ids:
        return FirstRows(prepare_append(context, state, rows).added, {})
    spec = RegionSpec.of(state.schema, state.properties)
    numbers = count(1 if spec.is_split else 0)
    size = effective(context.config, state.properties).append_segment_bytes
    known: dict[PartitionTuple, int] = {} if spec.is_split else {(): 0}
    plan = BulkPlan(context.store, Layout.of(state), state.schema, spec, known, (), size)
    if is_frame(rows):
        runs = context.spark().map_frame(write_bulk, plan, rows)
    else:
        runs = write_runs(plan, context, to_batches(rows, state.schema), number_source(context))
    drafts = Drafts.numbered(context, plan, runs, lambda _: next(numbers))
    return FirstRows(tuple(facts for draft in drafts.by_region.values() for facts in draft.added), drafts.numbers)
