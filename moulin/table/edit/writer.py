"""The kernel of edits: rows to insert, update or delete become segments and positions to hide. Nothing is committed.

An update contains the changed columns. The others, and the row id, are read from the segment of the old row, so that no
value is converted by another engine.
"""

# Decisions: docs/decisions/0292

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from moulin.errors import InvalidInput
from moulin.formats import deletion_vector
from moulin.formats.segment.reader import SegmentReader
from moulin.model.columns.arrays import Integers, distinct
from moulin.model.facts import LiveSegment
from moulin.model.layout.partition import PartitionTuple
from moulin.model.layout.partition_rows import split_by_partition
from moulin.model.rows.conversion import Misfit, Target, absent, check_required
from moulin.model.rows.rows import RowsOf
from moulin.model.schema.arrow import ROW_ID, arrow_schema, lineage_fields
from moulin.storage.segment_source import open_segment
from moulin.table.bulk.writer import NEW_REGION, BulkPlan, RegionRun, WorkerTools, duplicate_key, in_order
from moulin.table.edit.edits import CLAUSE, PLACE, POSITION, SEGMENT, Action, Clause, EditPlan
from moulin.table.find.locate import Tools, locate
from moulin.table.read.footers import open_reader
from moulin.table.runner import in_turn, side_by_side
from moulin.table.write.pieces import pieces
from moulin.table.write.segment_writer import NumberSource, bulk_level, write_ordered, write_sorted
from moulin.table.write.upsert import Positions, UpsertDraft, mark

_Drafts = dict[PartitionTuple, UpsertDraft]


def write_edits(plan: EditPlan, rows: Iterable[pa.RecordBatch], numbers: NumberSource) -> list[RegionRun]:
    """Write edits of `plan.source`. An event table is one region.

    Raises InvalidInput when two edits are about one row.
    """
    tools = WorkerTools.of(plan.store)
    drafts: _Drafts = {}
    for piece in pieces(rows, plan.source, plan.segment_bytes):
        _write_piece(plan, tools, drafts, piece, numbers)
        del piece
    return [RegionRun(value, draft) for value, draft in drafts.items()]


def _write_piece(plan: EditPlan, tools: Tools, drafts: _Drafts, piece: pa.Table, numbers: NumberSource) -> None:
    of_clause = piece.column(CLAUSE).to_numpy()
    made: list[pa.Table] = []
    for index, clause in enumerate(plan.clauses):
        chosen = np.flatnonzero(of_clause == index)
        if not len(chosen):
            continue
        part = piece if len(chosen) == piece.num_rows else piece.take(pa.array(chosen))
        if clause.action in (Action.INSERT, Action.UPSERT):
            made.append(_inserted(plan, clause, part))
            continue
        part = _in_place_order(part)
        _hide(plan, drafts, part, clause.action)
        if clause.action is Action.UPDATE:
            made.append(_updated(plan, clause, part))
    if not made:
        return
    rows = pa.concat_tables(made)
    if plan.bulk is None:
        _write_rows(plan, drafts.setdefault((), UpsertDraft()), rows, numbers)
    else:
        for value, part in plan.bulk.spec.split(rows):
            _write_keyed(plan, plan.bulk, tools, drafts.setdefault(value, UpsertDraft()), value, part, numbers)


def _in_place_order(part: pa.Table) -> pa.Table:
    """Edits in the order of segments and of rows in them."""
    segments, positions = part.column(SEGMENT).to_numpy(), part.column(POSITION).to_numpy()
    order = np.lexsort((positions, segments))
    return part if bool((np.diff(order) == 1).all()) else part.take(pa.array(order))


def _hide(plan: EditPlan, drafts: _Drafts, part: pa.Table, action: Action) -> None:
    """Note the positions of rows that go."""
    regions = {number: value for value, number in plan.bulk.regions.items()} if plan.bulk is not None else {}
    for segment, positions, _ in _by_segment(plan, part):
        number = segment.facts.number
        draft = drafts.setdefault(regions.get(segment.facts.region, ()), UpsertDraft())
        known, bitmap = draft.positions.get(number, BitMap64()), deletion_vector.from_positions(distinct(positions))
        if len(bitmap) < len(positions) or known & bitmap:
            raise matched_twice(plan, number)
        draft.positions[number] = known | bitmap
        if action is Action.UPDATE:
            draft.rows_updated += len(bitmap)
        else:
            draft.rows_deleted += len(bitmap)


def matched_twice(plan: EditPlan, segment: int) -> InvalidInput:
    """The error for a row that several edits are about."""
    return InvalidInput(
        f"More than one source row matches a row of {plan.table} (in segment {segment}): reduce the source to one "
        f"row for each row that it updates or deletes, for example with a window function that selects the newest."
    )


def _by_segment(plan: EditPlan, part: pa.Table) -> Iterator[tuple[LiveSegment, Integers, slice]]:
    """The segments of edits in place order, the positions in each, and which rows of `part` these are."""
    segments, positions = part.column(SEGMENT).to_numpy(), part.column(POSITION).to_numpy()
    starts = np.flatnonzero(np.diff(segments, prepend=-1))
    for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(segments)], strict=True):
        yield plan.segments[int(segments[start])], positions[start:stop], slice(start, stop)


def _inserted(plan: EditPlan, clause: Clause, part: pa.Table) -> pa.Table:
    """New rows, with null for their row ids."""
    columns = []
    for field in plan.layout.schema.fields:
        target = Target.of(field)
        try:
            if field.name in clause.columns:
                columns.append(_checked(part.column(field.name), target))
            else:
                columns.append(absent(target, part.num_rows))
        except Misfit as misfit:
            raise _refusal(plan, clause, part, misfit) from None
    return _with_lineage(plan, columns, pa.nulls(part.num_rows, pa.int64()))


def _updated(plan: EditPlan, clause: Clause, part: pa.Table) -> pa.Table:
    """The new form of rows, with the row ids that they had. REQUIRES: `part` is in place order."""
    fields = plan.layout.schema.fields
    kept = [field.name for field in fields if field.name not in clause.columns]
    old = _all_old_rows(plan, part, kept)
    columns = []
    for field in fields:
        if field.name in clause.columns:
            try:
                columns.append(_checked(part.column(field.name), Target.of(field)))
            except Misfit as misfit:
                raise _refusal(plan, clause, part, misfit) from None
        else:
            columns.append(old.column(field.name))
    return _with_lineage(plan, columns, old.column(ROW_ID))


def _refusal(plan: EditPlan, clause: Clause, part: pa.Table, misfit: Misfit) -> InvalidInput:
    """The error for a null in a required column, with the first row that has it, where it is in no struct or list."""
    name = misfit.path.partition(".")[0]
    at = 0
    if name in clause.columns:
        column = part.column(name)
        if not column.null_count and part.num_rows > 1:
            return InvalidInput(f"Column {misfit.path} of {plan.table}: {misfit.reason}")
        at = int(np.argmax(column.is_null().to_numpy())) if column.null_count else 0
    row = part.slice(at, 1)
    return RowsOf(plan.table, PLACE).refusal(misfit, clause.columns, lambda one: _value(row, one))


def _value(row: pa.Table, name: str) -> pa.Scalar | None:
    return row.column(name)[0] if name in row.column_names else None


def _checked(column: pa.ChunkedArray, target: Target) -> pa.Array:
    return check_required(column.combine_chunks(), target)


def _with_lineage(plan: EditPlan, columns: list[pa.Array], row_ids: pa.Array) -> pa.Table:
    rows = len(row_ids)
    schema = arrow_schema(plan.layout.schema)
    for field in lineage_fields():
        schema = schema.append(field)
    return pa.Table.from_arrays([*columns, row_ids, pa.nulls(rows, pa.int64())], schema=schema)


def _all_old_rows(plan: EditPlan, part: pa.Table, columns: list[str]) -> pa.Table:
    """Some columns of the rows that edits are about, and their row ids. A task, which has one core, reads in turn."""
    places = list(_by_segment(plan, part))

    def read(place: tuple[LiveSegment, Integers, slice]) -> pa.Table:
        return _old_rows(plan, place[0], place[1], columns)

    if len(places) == 1 or pa.cpu_count() == 1:
        return pa.concat_tables(map(read, places))
    with side_by_side("moulin-old-rows") as pool:
        return pa.concat_tables(in_turn(pool, read, places))


def _old_rows(plan: EditPlan, segment: LiveSegment, positions: Integers, columns: list[str]) -> pa.Table:
    """Some columns of rows of a segment, at ascending positions, and their row ids."""
    with open_reader(plan.store, segment.facts, plan.layout.schema, columns=columns) as reader:
        return reader.table(positions=positions, row_id=True, first_row_id=segment.first_row_id)


def _write_rows(plan: EditPlan, draft: UpsertDraft, rows: pa.Table, numbers: NumberSource) -> None:
    """Write rows of an event table, which have lineage columns."""
    layout = plan.layout
    lineage = rows.column(ROW_ID).null_count < rows.num_rows
    draft.rows_new += rows.column(ROW_ID).null_count
    if not lineage:
        rows = rows.select(range(len(layout.schema.fields)))
    for partition, part in split_by_partition(rows, layout.spec, layout.schema):
        level = bulk_level(part)
        draft.added += write_sorted(plan.store, layout, part, partition, numbers, level=level, lineage=lineage)


def _write_keyed(
    plan: EditPlan,
    bulk: BulkPlan,
    tools: Tools,
    draft: UpsertDraft,
    value: PartitionTuple,
    rows: pa.Table,
    numbers: NumberSource,
) -> None:
    """Write rows of one region of a keyed table, which have lineage columns.

    New ones must have new keys, or keys of rows that another edit deletes: `require_successors` sees to that.
    """
    region = bulk.regions.get(value, NEW_REGION)
    ordered, keys = in_order(bulk, rows)
    if len(own := draft.hide(tools, region, keys)):
        raise duplicate_key(bulk.key, ordered, int(own[0]))
    fresh = np.flatnonzero(ordered.column(ROW_ID).is_null().to_numpy())
    if len(fresh):
        segments = bulk.spec.searched(plan.segments.values(), region)
        found = locate(tools.indexes, tools.vectors, tools.store, segments, keys.take(pa.array(fresh)))
        if len(found.indexes):
            if any(clause.action is Action.UPSERT for clause in plan.clauses):
                mark(draft.positions, found)
                draft.rows_updated += len(found.indexes)
                ordered = _with_row_ids(ordered, fresh[found.indexes], found.row_ids)
            else:  # an edit of another task may delete the row that has the key
                mark(draft.succeeded, found)
    lineage = ordered.column(ROW_ID).null_count < ordered.num_rows
    draft.rows_new += ordered.column(ROW_ID).null_count
    if not lineage:
        ordered = ordered.select(range(len(plan.layout.schema.fields)))
    for partition, part in split_by_partition(ordered, plan.layout.spec, plan.layout.schema):
        level = bulk_level(part)
        draft.added += write_ordered(
            plan.store, plan.layout, part, partition, numbers, level=level, lineage=lineage, region=region
        )


def _with_row_ids(rows: pa.Table, indexes: Integers, row_ids: Integers) -> pa.Table:
    """The rows with these row ids at these indexes."""
    ids = rows.column(ROW_ID).fill_null(-1).to_numpy().copy()
    ids[indexes] = row_ids
    at = rows.column_names.index(ROW_ID)
    return rows.set_column(at, rows.schema.field(at), pa.array(ids, mask=ids < 0))


def require_successors(plan: EditPlan, bulk: BulkPlan, drafts: Iterable[UpsertDraft]) -> None:
    """Refuse a row that was inserted although the table has one of its key, and no edit of any task deletes that."""
    hidden: Positions = {}
    succeeded: Positions = {}
    for draft in drafts:
        for into, found in ((hidden, draft.positions), (succeeded, draft.succeeded)):
            for number, bitmap in found.items():
                into[number] = into[number] | bitmap if number in into else bitmap
    for number, bitmap in succeeded.items():
        if stays := bitmap - hidden.get(number, BitMap64()):
            raise _known_key(plan, bulk, plan.segments[number], stays[0])


def _known_key(plan: EditPlan, bulk: BulkPlan, segment: LiveSegment, position: int) -> InvalidInput:
    facts = segment.facts
    source = open_segment(plan.store, facts)
    with SegmentReader(source, plan.layout.schema, columns=bulk.key.names, facts=facts) as reader:
        value = bulk.key.values(reader.table(start=position, stop=position + 1))[0]
    return InvalidInput(
        f"Table {plan.table} has a row of the key {value!r}, which the statement would insert: match rows by the key, "
        "or use INSERT INTO, which replaces rows of the same key."
    )
