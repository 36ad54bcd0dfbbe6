"""Prepare changes: rows become segments, filters become positions. Nothing here commits."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from pyroaring import BitMap64

from moulin.errors import InvalidInput
from moulin.formats import deletion_vector
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.model.operations import Kind
from moulin.model.predicate import Predicate
from moulin.model.rows.rows import to_batches
from moulin.model.where import Where, parse_where
from moulin.table.commit.change import DataChange
from moulin.table.context import Context
from moulin.table.find.index_search import narrow
from moulin.table.ports import is_frame
from moulin.table.read.scan import facts_by_field, plan_segments
from moulin.table.write.append import AppendPlan, append_rows
from moulin.table.write.match import MatchSlice, match
from moulin.table.write.segment_writer import NumberSource

_BLOCK = 16  # segment numbers reserved at a time


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a write did, and the version it is; unchanged tables keep their version."""

    version: int
    rows_added: int = 0
    rows_deleted: int = 0
    rows_updated: int = 0


def prepare_append(context: Context, state: TableState, data: object, *, kind: Kind = Kind.APPEND) -> DataChange:
    """Write the rows of `data` as segments."""
    plan = AppendPlan.of(context, state)
    added: Sequence[SegmentFacts]
    if is_frame(data):
        added = context.spark().map_frame(append_rows, plan, data)
    else:
        added = append_rows(plan, to_batches(data, state.schema), number_source(context))
    return DataChange(state.id, state.version, kind, tuple(added))


def number_source(context: Context) -> NumberSource:
    """Segment numbers, reserved a few at a time."""
    block: list[int] = []

    def following() -> int:
        if not block:
            first = context.catalog.reserve_segments(_BLOCK)
            block.extend(range(first, first + _BLOCK))
        return block.pop(0)

    return following


def prepare_delete(
    context: Context, state: TableState, where: Where, *, kind: Kind = Kind.DELETE
) -> tuple[DataChange, int]:
    """The live rows that match, as positions and whole segments; and how many they are."""
    if where is None:
        raise InvalidInput(
            "delete_where needs a condition; to remove all rows use overwrite with none, or where='true'."
        )
    predicate = parse_where(where, state.schema)
    whole: dict[int, int] = {}
    open_question: list[LiveSegment] = []
    rows = 0
    planned = plan_segments(context.catalog, state, predicate)
    for segment in narrow(context.catalog, context.secondary, state, predicate, planned).segments:
        if _surely_all(predicate, state, segment):
            whole[segment.facts.number] = segment.vector.id if segment.vector else 0
            rows += segment.live_rows
        else:
            open_question.append(segment)
    positions = _match(context, state, predicate, open_question)
    rows += sum(len(bitmap) for bitmap in positions.values())
    summary = {"where": predicate.describe()[:200]}
    return DataChange(state.id, state.version, kind, (), positions, whole, summary=summary), rows


def prepare_overwrite(
    context: Context, state: TableState, added: Sequence[SegmentFacts], where: Where
) -> tuple[DataChange, int]:
    """New segments in place of the rows that match, or of all rows; and how many those are."""
    if where is None:
        rows = context.catalog.table_entry(state.id).rows
        return DataChange(state.id, state.version, Kind.OVERWRITE, tuple(added), everything=True), rows
    change, rows = prepare_delete(context, state, where, kind=Kind.OVERWRITE)
    replaced = DataChange(
        change.table_id,
        change.read_version,
        Kind.OVERWRITE,
        tuple(added),
        change.positions,
        change.whole,
        summary=change.summary,
    )
    return replaced, rows


def _surely_all(predicate: Predicate, state: TableState, segment: LiveSegment) -> bool:
    facts = segment.facts
    return predicate.must_match(facts_by_field(segment), facts.rows) or predicate.must_match_partition(
        state.specs[facts.spec_id], state.schema, facts.partition
    )


def _match(
    context: Context, state: TableState, predicate: Predicate, segments: Sequence[LiveSegment]
) -> Mapping[int, BitMap64]:
    size = sum(segment.facts.size for segment in segments)
    slices = [
        MatchSlice(context.store, state.schema, predicate, tuple(part))
        for part in balanced(segments, 2 * (os.cpu_count() or 1))
    ]
    found: dict[int, BitMap64] = {}
    for matches in context.runner(size).map(match, slices) if slices else ():
        found.update({number: deletion_vector.decode(blob) for number, blob in matches})
    return found


def balanced(segments: Sequence[LiveSegment], parts: int) -> list[list[LiveSegment]]:
    """Segments dealt out by size, the largest first, so that slices take about equally long."""
    shares: list[list[LiveSegment]] = [[] for _ in range(min(parts, len(segments)))]
    sizes = [0] * len(shares)
    for segment in sorted(segments, key=lambda s: -s.facts.size):
        lightest = sizes.index(min(sizes))
        shares[lightest].append(segment)
        sizes[lightest] += segment.facts.size
    return shares
