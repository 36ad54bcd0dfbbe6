"""Casts of columns: rewrites every segment in a schema with a new column of the same name."""

# Decisions: docs/decisions/0261

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from moulin.catalog.commit.table_commit import TableCommit
from moulin.formats.segment.reader import SegmentReader
from moulin.model.alteration import altered
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.model.operations import AlterSchema, Expected, Overwrite, RegionUse
from moulin.model.rows.casting import cast_column, cast_default, require_castable
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.change import CastColumn, SchemaChange, WidenColumn
from moulin.model.schema.evolution import is_wider
from moulin.model.schema.schema import find_column
from moulin.model.schema.values import IcebergType, PrimitiveType, Schema
from moulin.storage.store import Store
from moulin.table.commit.retry import retry
from moulin.table.commit.segment_rows import open_rows
from moulin.table.commit.vectors import read_vector
from moulin.table.context import Context
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.write.layout import Layout
from moulin.table.write.segment_writer import write_segment
from moulin.table.write.writes import Outcome, balanced

_PIECE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class CastSlice:
    """Segments to write again, each with the number of its successor; `schema` is the one that they are read in."""

    store: Store
    schema: Schema
    layout: Layout
    column: str
    kind: IcebergType
    segments: tuple[tuple[LiveSegment, int], ...]


def cast(
    context: Context,
    load: Callable[[], TableState],
    keyed: KeyedTable | None,
    name: str,
    kind: IcebergType,
    alter: Callable[[SchemaChange], Outcome],
) -> Outcome:
    """Change the type of a column, in one version. `alter` commits only a schema change."""
    old = find_column(load().schema, name).field_type
    if old == kind:
        return Outcome(load().head_version)
    if is_wider(old, kind):
        return alter(WidenColumn(name, kind))

    def run() -> Outcome:
        if keyed is None:
            return _cast(context, load(), name, kind, ())
        with keyed.held() as (seen, uses):
            return _cast(context, seen.state, name, kind, tuple(uses))

    return retry(context.config.commit_attempts, run)


def _cast(context: Context, state: TableState, name: str, kind: IcebergType, uses: tuple[RegionUse, ...]) -> Outcome:
    field = find_column(state.schema, name)
    if isinstance(field.field_type, PrimitiveType) and isinstance(kind, PrimitiveType):
        require_castable(field.field_type, kind, name)
    change = CastColumn(name, kind, cast_default(field, kind))
    foreseen = altered(state, [change])
    segments = context.catalog.segments(state.id, state.version, with_columns=False)
    written = _rewrite(context, state, foreseen, name, kind, segments)
    commits = [TableCommit(state.id, state.version, AlterSchema((change,)), regions=uses)]
    if segments:
        removed = tuple(Expected(s.facts.number, s.vector.id if s.vector else 0) for s in segments)
        commits.append(TableCommit(state.id, state.version, Overwrite(added=tuple(written), removed=removed), {}, uses))
    with context.catalog.writing():
        return Outcome(context.catalog.commit(commits).version)


def _rewrite(
    context: Context,
    state: TableState,
    foreseen: TableState,
    name: str,
    kind: IcebergType,
    segments: Sequence[LiveSegment],
) -> list[SegmentFacts]:
    if not segments:
        return []
    first = context.catalog.reserve_segments(len(segments))
    numbers = {segment.facts.number: first + index for index, segment in enumerate(segments)}
    layout = Layout.of(foreseen)
    slices = [
        CastSlice(context.store, state.schema, layout, name, kind, tuple((s, numbers[s.facts.number]) for s in part))
        for part in balanced(segments, 2 * (os.cpu_count() or 1))
    ]
    size = sum(segment.facts.size for segment in segments)
    return [facts for part in context.runner(size).map(cast_segments, slices) for facts in part]


def cast_segments(work: CastSlice) -> list[SegmentFacts]:
    """Rewrite the live rows of segments, in order and with their row ids, with one column cast."""
    return [_cast_segment(work, segment, number) for segment, number in work.segments if segment.live_rows]


def _cast_segment(work: CastSlice, segment: LiveSegment, number: int) -> SegmentFacts:
    facts = segment.facts
    written = write_segment(
        work.store,
        work.layout,
        _cast_pieces(work, segment),
        facts.partition,
        number,
        level=facts.level,
        lineage=True,
        spec_id=facts.spec_id,
        region=facts.region,
    )
    return replace(written, sort_order_id=facts.sort_order_id)


def _cast_pieces(work: CastSlice, segment: LiveSegment) -> Iterator[pa.Table]:
    facts = segment.facts
    deleted = read_vector(work.store, segment.vector, facts.rows) if segment.vector else None
    wanted = arrow_schema(work.layout.schema, lineage=True)
    with SegmentReader(open_rows(work.store, facts), work.schema, facts=facts) as reader:
        for rows in reader.pieces(
            _PIECE_BYTES,
            deleted=deleted,
            row_id=True,
            first_row_id=segment.first_row_id,
            sequence=True,
            sequence_number=segment.sequence,
        ):
            if rows.num_rows:
                made = cast_column(rows, work.column, work.kind)
                yield pa.Table.from_arrays(made.columns, schema=wanted)
