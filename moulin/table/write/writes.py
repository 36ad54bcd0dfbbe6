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
from moulin.table.properties import effective
from moulin.table.read.scan import facts_by_field, plan_segments
from moulin.table.write.append import AppendPlan, append_rows
from moulin.table.write.match import MatchSlice, match
from moulin.table.write.segment_writer import Inline, NumberSource

_BLOCK = 16  # segment numbers reserved at a time
_CROWDED = 4  # so many times more inline segments than there should be: their compaction fails, so no more are made


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a write, and its version; unchanged tables keep their version."""

    version: int
    rows_added: int = 0
    rows_deleted: int = 0
    rows_updated: int = 0


def prepare_append(context: Context, state: TableState, data: object, *, inline: bool = False) -> DataChange:
    """Write the rows of `data` as segments; with `inline`, few rows as inline ones, where the table takes them."""
    plan = AppendPlan.of(context, state)
    added: Sequence[SegmentFacts]
    if is_frame(data):
        added = context.spark().map_frame(append_rows, plan, data)
    else:
        small = _inline(context, state) if inline else None
        added = append_rows(plan, to_batches(data, state.schema), number_source(context), small)
    return DataChange(state.id, state.version, Kind.APPEND, tuple(added))


def _inline(context: Context, state: TableState) -> Inline | None:
    """Which appends are inline; None for keyed tables, and where inline segments were not compacted."""
    config = effective(context.config, state.properties)
    if state.schema.identifier_field_ids or state.inline >= _CROWDED * config.inline_segments:
        return None
    return Inline(config.inline_bytes, lambda: context.catalog.reserve_segments(1, inline=True))


def number_source(context: Context) -> NumberSource:
    """Segment numbers, reserved a few at a time."""
    block: list[int] = []

    def following() -> int:
        if not block:
            first = context.catalog.reserve_segments(_BLOCK)
            block.extend(range(first, first + _BLOCK))
        return block.pop(0)

    return following


@dataclass(frozen=True, slots=True)
class Matches:
    """Live rows that match: segments of which all do, and positions in others."""

    whole: tuple[LiveSegment, ...]
    positions: Mapping[int, BitMap64]

    @property
    def rows(self) -> int:
        return sum(segment.live_rows for segment in self.whole) + sum(map(len, self.positions.values()))


def prepare_delete(
    context: Context, state: TableState, where: Where, *, kind: Kind = Kind.DELETE
) -> tuple[DataChange, int]:
    """The live rows that match, as positions and whole segments; and how many they are."""
    predicate = parse_delete(where, state)
    found = find_matches(context, state, predicate)
    whole = {segment.facts.number: segment.vector.id if segment.vector else 0 for segment in found.whole}
    summary = {"where": predicate.outline()}
    return DataChange(state.id, state.version, kind, (), found.positions, whole, summary=summary), found.rows


def parse_delete(where: Where, state: TableState) -> Predicate:
    """The condition of a delete, which must be given."""
    if where is None:
        raise InvalidInput("delete_where needs a condition: to delete all rows, use where='true'.")
    return parse_where(where, state.schema)


def find_matches(context: Context, state: TableState, predicate: Predicate) -> Matches:
    """The live rows of a version that match."""
    planned = plan_segments(context.catalog, state, predicate)
    return match_in(
        context, state, predicate, narrow(context.catalog, context.secondary, state, predicate, planned).segments
    )


def match_in(context: Context, state: TableState, predicate: Predicate, segments: Sequence[LiveSegment]) -> Matches:
    """The live rows of `segments` that match."""
    surely = [segment for segment in segments if _surely_all(predicate, state, segment)]
    numbers = {segment.facts.number for segment in surely}
    open_question = [segment for segment in segments if segment.facts.number not in numbers]
    return Matches(tuple(surely), _match(context, state, predicate, open_question))


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
    """Distributes segments by size, the largest first, so that slices take about equally long."""
    shares: list[list[LiveSegment]] = [[] for _ in range(min(parts, len(segments)))]
    sizes = [0] * len(shares)
    for segment in sorted(segments, key=lambda s: -s.facts.size):
        lightest = sizes.index(min(sizes))
        shares[lightest].append(segment)
        sizes[lightest] += segment.facts.size
    return shares
