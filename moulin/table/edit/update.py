"""Updates without Spark: rows that match a condition get new values for some columns.

A slice reads the columns of the condition and the new values, and creates an edit for each matching row. The kernel of
edits reads the other columns of only these rows.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from moulin.model.assignments import Assignments
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.predicate import Predicate
from moulin.model.schema.arrow import POSITION as ROW_POSITION
from moulin.model.schema.arrow import arrow_schema, empty_table
from moulin.model.schema.values import Schema
from moulin.model.where import Where, parse_where
from moulin.storage.store import Store
from moulin.table.commit.vectors import read_vector
from moulin.table.context import Context
from moulin.table.edit.commit import apply_edits
from moulin.table.edit.edits import Action, Clause, Edits, EditSlices, edit_batch
from moulin.table.edit.slices import cut, segments_for
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.read.footers import open_reader
from moulin.table.write.writes import Outcome


@dataclass(frozen=True, slots=True)
class UpdateSlice:
    """Segments in which to update the rows that match or, without values, to delete them. Sent to a task."""

    store: Store
    predicate: Predicate
    values: Assignments
    segments: Mapping[int, LiveSegment]

    def edits(self, source: Schema) -> Generator[pa.RecordBatch, None, None]:
        for segment in self.segments.values():
            yield from self._of_segment(source, segment)

    def _of_segment(self, source: Schema, segment: LiveSegment) -> Generator[pa.RecordBatch, None, None]:
        facts, schema = segment.facts, self.values.schema
        deleted = None if segment.vector is None else read_vector(self.store, segment.vector, facts.rows)
        needed = {column.path[0] for column in self.values.columns}
        columns = [field.name for field in schema.fields if field.name in needed]
        with open_reader(self.store, facts, schema, columns=columns) as reader:
            for batch in reader.batches(deleted=deleted, predicate=self.predicate, position=True):
                rows = pa.Table.from_batches([batch])
                place = (facts.number, batch.column(ROW_POSITION))
                yield edit_batch(source, 0, batch.num_rows, self.values.over(rows), place)


def update(
    context: Context,
    newest: Callable[[], TableState],
    keyed: KeyedTable | None,
    given: Mapping[str, object],
    where: Where,
) -> Outcome:
    """Give columns new values in the rows that match, in one version."""
    first = newest()
    assignments(first, given)  # refused before the table is held
    summary = {"statement": "UPDATE", "where": parse_where(where, first.schema).outline()}

    def compute(state: TableState) -> Edits:
        values = assignments(state, given)
        predicate = parse_where(where, state.schema)
        slices = [
            UpdateSlice(context.store, predicate, values, part) for part in cut(segments_for(context, state, predicate))
        ]
        return Edits((Clause(Action.UPDATE, values.names),), EditSlices(slices))

    return apply_edits(context, newest, keyed, compute, summary)


def assignments(state: TableState, given: Mapping[str, object]) -> Assignments:
    """The new values of an update, checked against the table."""
    sql = f'lake.sql("update {state.full_name} set ...")'
    values = Assignments.of(state.schema, given, state.schema, "set", aliases={}, sql=sql)
    values.refuse_key()
    values.over(empty_table(arrow_schema(state.schema)))
    return values
