"""Chooses segments to compact, and splits the work into slices."""

# Decisions: docs/decisions/0455

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from moulin.config import Config
from moulin.formats.segment.reader import SegmentReader
from moulin.model.columns import compute as pc
from moulin.model.facts import LiveSegment
from moulin.model.layout.partition_spec import IdentityTransform
from moulin.model.layout.size_tier import size_tier
from moulin.model.layout.sort_order import NullOrder, SortDirection
from moulin.model.region_spec import RegionSpec
from moulin.model.schema.arrow import arrow_schema
from moulin.storage.paths import parse_moved
from moulin.storage.store import Store
from moulin.table.commit.segment_rows import open_rows
from moulin.table.compact.kernel import MEMORY_BYTES, CompactionSlice, InputRange
from moulin.table.write import clustering
from moulin.table.write.layout import Layout

_MANY_DELETED = 0.1  # a segment with this share of deleted rows is rewritten even if it is large and alone
_SLICE_BYTES = 32 << 20  # smaller work is not split
_SAMPLES = 1000
_KEY_BYTES = 16 << 20  # of the first sort column, decoded at a time


@dataclass(frozen=True, slots=True)
class Group:
    """Segments of one partition that one compaction takes, and the level it writes."""

    segments: tuple[LiveSegment, ...]
    level: int

    @property
    def size(self) -> int:
        return sum(segment.facts.size for segment in self.segments)


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one compaction of an event table may take: time it may span, inputs at least and at most.

    A segment that is fresh or worn is rewritten alone only when `min_inputs` is 1. `tiered` keeps segments of very
    different size apart, so that a row is rewritten a few times and not with every compaction.
    """

    span_ns: int | None = None
    min_inputs: int = 1
    max_inputs: int | None = None
    tiered: bool = False


def pick(
    segments: Sequence[LiveSegment],
    config: Config,
    *,
    segment_bytes: int,
    everything: bool,
    bounds: Bounds = Bounds(),  # noqa: B008 - it never changes
    lost_specs: Collection[int] = (),
) -> list[Group]:
    """The groups worth compacting. `everything` takes all segments of a partition that are not perfect already.

    One whose partitioning is of `lost_specs` never is.
    """
    shelves: dict[tuple[int, tuple[bytes | None, ...], int], list[LiveSegment]] = defaultdict(list)
    for segment in segments:
        if everything or _needs_compaction(segment, segment_bytes):
            facts = segment.facts
            shelves[facts.spec_id, facts.partition, size_tier(facts.size) if bounds.tiered else 0].append(segment)
    groups = []
    for (spec_id, *_), worth in shelves.items():
        lost = everything and spec_id in lost_specs
        worth.sort(key=lambda s: (s.facts.time_min or 0, s.facts.number))
        for stretch in _stretches(worth, config.merge_max_bytes, bounds):
            alone = bounds.min_inputs == 1 and any(_is_worn(s) or _is_fresh(s) for s in stretch)
            if len(stretch) >= max(bounds.min_inputs, 2) or alone or lost:
                size = sum(s.facts.size for s in stretch)
                deepest = max(s.facts.level for s in stretch)
                groups.append(Group(tuple(stretch), max(deepest, 2 if size >= segment_bytes // 2 else 1)))
    return groups


def rewrite_each(segments: Sequence[LiveSegment]) -> list[Group]:
    """Every segment alone, rewritten at its level; new ones at level 1."""
    return [Group((segment,), max(segment.facts.level, 1)) for segment in segments]


def pick_levels(
    segments: Sequence[LiveSegment],
    config: Config,
    *,
    due_only: bool,
    everything: bool,
    lost_specs: Collection[int] = (),
    regions: RegionSpec | None = None,
) -> list[Group]:
    """The groups of a keyed table worth compacting, level 0 first: 0 -> 1 with what it overlaps there, then 1 -> 2, and
    so on to the deepest level.

    Groups share no segment, so they may run at once: 0 -> 1 beside 2 -> 3. `due_only` leaves alone what is not due yet;
    `everything` takes all segments of a region and partition into the deepest level, but for one that is there already,
    unless its partitioning is one of `lost_specs`. Segments of regions of earlier specs are looked into by all regions
    of `regions`, so they are compacted together; and with all others while there is one region.
    """
    shards: dict[tuple[int, int, tuple[bytes | None, ...]], list[LiveSegment]] = defaultdict(list)
    for segment in segments:
        region = segment.facts.region if regions is None else regions.shared(segment.facts.region)
        shards[region, segment.facts.spec_id, segment.facts.partition].append(segment)
    groups = []
    for members in shards.values():
        if everything:
            group = Group(tuple(sorted(members, key=_key_min)), config.deepest_level)
            first = members[0]
            lost = first.facts.spec_id in lost_specs
            marked = first.vector is not None or bool(first.facts.files)
            if len(members) > 1 or first.facts.level < config.deepest_level or marked or lost:
                groups.append(group)
            continue
        due = _due_levels([s for s in members if not _lies_well(s, config)], members, config, due_only=due_only)
        groups += due
        if not due and not due_only and (worn := [s for s in members if _is_worn(s)]):
            level = max(1, *(s.facts.level for s in worn))
            groups.append(_with_overlap(worn, members, level, config.merge_max_bytes))
    return sorted(groups, key=lambda group: group.level)


def _lies_well(segment: LiveSegment, config: Config) -> bool:
    """Whether it is an adopted file that stays where it lies, as those of event tables do: neither small nor worn."""
    is_large = segment.facts.size >= config.merge_segment_bytes // 2
    return segment.facts.adopted is not None and is_large and not _is_worn(segment)


def _due_levels(
    chosen: Sequence[LiveSegment], members: Sequence[LiveSegment], config: Config, *, due_only: bool
) -> list[Group]:
    """The due groups among segments of one region and partition, each from a level into the next; no two use the same
    level.
    """
    groups: list[Group] = []
    level = 0
    while level < config.deepest_level:
        mine = [s for s in chosen if s.facts.level == level]
        if level == 0:
            is_due = len(mine) >= (config.level0_trigger if due_only else 1)
        else:
            mine.sort(key=_key_min)
            is_due = sum(s.facts.size for s in mine) > config.level1_bytes * config.level_growth ** (level - 1)
        if is_due:
            first = _first_bytes(mine, config.merge_max_bytes)
            groups.append(_with_overlap(first, members, level + 1, config.merge_max_bytes))
        level += 2 if is_due else 1
    return groups


def _key_min(segment: LiveSegment) -> bytes:
    return segment.facts.key_min or b""


def _first_bytes(segments: Sequence[LiveSegment], limit: int) -> list[LiveSegment]:
    """As many of the segments, from the first on, as the limit allows; one at least."""
    return _capped(segments, limit)[0]


def _with_overlap(chosen: Sequence[LiveSegment], members: Sequence[LiveSegment], level: int, limit: int) -> Group:
    """Segments, with the overlapping ones of the target level, so that this level stays disjoint."""
    low = min(_key_min(s) for s in chosen)
    high = max(s.facts.key_max or b"" for s in chosen)
    taken = list(chosen)
    size = sum(s.facts.size for s in chosen)
    for segment in sorted(members, key=_key_min):
        facts = segment.facts
        if (
            facts.level == level
            and segment not in chosen
            and _key_min(segment) <= high
            and (facts.key_max or b"") >= low
        ):
            if size + facts.size > limit and len(taken) > 1:
                break  # the rest is kept: a small overlap of levels only costs look-ups
            taken.append(segment)
            size += facts.size
    return Group(tuple(taken), level)


def _needs_compaction(segment: LiveSegment, segment_bytes: int) -> bool:
    """Whether it is new, small or has many deleted rows. A segment in a base path is kept: an adopted one unless it is
    small or has many deleted rows, a moved one unless it has many deleted rows.
    """
    facts = segment.facts
    if facts.adopted is None and parse_moved(facts.path) is not None:
        return _is_worn(segment)
    return _is_fresh(segment) or facts.size < segment_bytes // 2 or _is_worn(segment)


def _is_fresh(segment: LiveSegment) -> bool:
    return segment.facts.level == 0 and segment.facts.adopted is None


def _is_worn(segment: LiveSegment) -> bool:
    """Whether a segment should be rewritten alone: it has many deleted rows, or column files."""
    if segment.facts.files:
        return True
    return segment.vector is not None and segment.vector.cardinality >= _MANY_DELETED * segment.facts.rows


def _capped(segments: Sequence[LiveSegment], limit: int) -> list[list[LiveSegment]]:
    return _stretches(segments, limit, Bounds())


def _stretches(segments: Sequence[LiveSegment], limit: int, bounds: Bounds) -> list[list[LiveSegment]]:
    """Segments, in order of time where time counts, cut where a stretch would hold or span too much.

    One that spans too much all by itself is a stretch of its own, and interrupts none.
    """
    stretches: list[list[LiveSegment]] = []
    alone: list[list[LiveSegment]] = []
    size, start, end = 0, 0, 0
    for segment in segments:
        low, high = _times(segment)
        if bounds.span_ns is not None and high - low > bounds.span_ns:
            alone.append([segment])
            continue
        full = not stretches or size + segment.facts.size > limit or len(stretches[-1]) == bounds.max_inputs
        if full or (bounds.span_ns is not None and max(end, high) - min(start, low) > bounds.span_ns):
            stretches.append([])
            size, start, end = 0, low, high
        stretches[-1].append(segment)
        size, start, end = size + segment.facts.size, min(start, low), max(end, high)
    return stretches + alone


def _times(segment: LiveSegment) -> tuple[int, int]:
    return segment.facts.time_min or 0, segment.facts.time_max or 0


def cut(
    store: Store,
    layout: Layout,
    group: Group,
    *,
    segment_bytes: int,
    cores: int,
    numbers: Sequence[int],
    memory_bytes: int = MEMORY_BYTES,
    repartition: bool = False,
) -> list[CompactionSlice]:
    """Slices by ranges of the sort key, about as many as there are cores or outputs; they share the free `numbers`."""
    outputs = group.size // segment_bytes
    parts = int(max(1, min(max(cores, outputs), group.size // _SLICE_BYTES)))
    if layout.cluster_by and outputs > 1:
        parts = int(max(1, min(parts, outputs // clustering.OUTPUTS)))
    slices = _cut_inputs(store, layout, group.segments, parts)
    share = len(numbers) // len(slices)
    facts = group.segments[0].facts
    return [
        CompactionSlice(
            store,
            layout,
            ranges,
            facts.partition,
            facts.spec_id,
            group.level,
            numbers[0] + index * share,
            share,
            segment_bytes,
            facts.region,
            memory_bytes,
            repartition,
        )
        for index, ranges in enumerate(slices)
    ]


def _cut_inputs(
    store: Store, layout: Layout, segments: Sequence[LiveSegment], parts: int
) -> list[tuple[InputRange, ...]]:
    """The ranges of each slice: what all segments have between two cuts of the first sort column."""
    whole = [tuple(InputRange(s, 0, s.facts.rows) for s in segments)]
    if parts == 1 or not layout.sort_order.fields:
        return whole
    if not isinstance(layout.sort_order.fields[0].transform, IdentityTransform):
        return whole  # values are compared as they are stored
    if any(s.facts.sort_order_id != layout.sort_order.order_id for s in segments):
        return whole  # an input in another order cannot be cut by key
    first = layout.sort_order.fields[0]
    field = layout.schema.find_field(first.source_id)
    if field.name not in layout.schema.column_names:
        return whole
    descending = first.direction == SortDirection.DESC
    if descending and pa.types.is_floating(arrow_schema(layout.schema).field(field.name).type):
        return whole  # NaN comes first, where comparisons cannot see it
    sample = pa.chunked_array([_sample(store, layout, s, field.name) for s in segments]).drop_null()
    if len(sample) < parts:
        return whole
    order = pc.sort_indices(sample, sort_keys=[("", "descending" if descending else "ascending")])
    cuts = [sample[order[len(sample) * n // parts].as_py()] for n in range(1, parts)]
    before = pc.greater if descending else pc.less
    edges = np.zeros((parts + 1, len(segments)), dtype=np.int64)
    edges[parts] = [segment.facts.rows for segment in segments]
    for column, segment in enumerate(segments):
        for key in _key(store, layout, segment, field.name):
            nulls = key.null_count if first.null_order == NullOrder.NULLS_FIRST else 0
            for row, value in enumerate(cuts, start=1):
                edges[row, column] += nulls + (pc.sum(before(key, value)).as_py() or 0)
    slices = []
    for n in range(parts):
        spans = zip(segments, edges[n].tolist(), edges[n + 1].tolist(), strict=True)
        ranges = tuple(InputRange(s, start, stop) for s, start, stop in spans if stop > start)
        if ranges:
            slices.append(ranges)
    return slices


def _key(store: Store, layout: Layout, segment: LiveSegment, name: str) -> Iterator[pa.ChunkedArray]:
    """The first sort column of a segment, all positions, in pieces, in the storage type that can be compared."""
    source = open_rows(store, segment.facts)
    with SegmentReader(source, layout.schema, columns=[name], facts=segment.facts) as reader:
        for piece in reader.pieces(_KEY_BYTES):
            key = piece.column(0)
            yield key.cast(pa.binary(16)) if key.type == pa.uuid() else key


def _sample(store: Store, layout: Layout, segment: LiveSegment, name: str) -> pa.Array:
    """Values of the first sort column, spread evenly over a segment."""
    rows = segment.facts.rows
    wanted = np.unique(np.linspace(0, rows - 1, min(rows, _SAMPLES)).astype(np.int64))
    found, at = [], 0
    for key in _key(store, layout, segment, name):
        mine = wanted[(wanted >= at) & (wanted < at + len(key))] - at
        found.append(key.take(pa.array(mine)))
        at += len(key)
    return pa.concat_arrays([chunk for part in found for chunk in part.chunks])
