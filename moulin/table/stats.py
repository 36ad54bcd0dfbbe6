"""Statistics of a table: levels, amplification, caches, stalls, regions and indexes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moulin.model.entities import Region, TableState
from moulin.model.facts import LiveSegment
from moulin.model.layout.partition import call_text
from moulin.table.context import Context
from moulin.table.index.index import IndexInfo, list_indexes
from moulin.table.keyed.counters import CacheUse, Counters, StallStats, WriterStats
from moulin.table.keyed.tables import open_keyed


@dataclass(frozen=True, slots=True)
class LevelStats:
    """The segments of one level. `rows` are stored, `live` of them count, `deleted` no longer do."""

    level: int
    files: int
    bytes: int
    rows: int
    live: int
    deleted: int


@dataclass(frozen=True, slots=True)
class RegionStats:
    """A region of a keyed table: its claim, and how far its log is in segments.

    `log_position` and `memtable_bytes` are known to the process that writes it, else None.
    """

    number: int
    epoch: int
    owner: str
    covered: int
    generation: int
    files: int
    log_position: int | None = None
    memtable_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class TableStats:
    """What a table is made of now.

    `write_amplification` is how many bytes were written for each byte at level 0, over the kept versions; None when
    none was. `read_amplification` is in how many segments one key may be (one moment of event time, in a table without
    a key; any row, in one with neither). Cache use and stalls are of this process; `log_position` is the newest of a
    table with one region, the sum over regions otherwise.
    """

    name: str
    version: int
    rows: int
    segments: int
    bytes: int
    deleted_rows: int
    levels: tuple[LevelStats, ...]
    partitioning: str
    write_amplification: float | None = None
    read_amplification: int = 0
    key_index: CacheUse = field(default_factory=CacheUse)
    row_cache: CacheUse = field(default_factory=CacheUse)
    stalls: StallStats = field(default_factory=StallStats)
    memtable_bytes: int = 0
    log_position: int = 0
    regions: tuple[RegionStats, ...] = ()
    indexes: tuple[IndexInfo, ...] = ()


def table_stats(context: Context, state: TableState) -> TableStats:
    """The statistics of a table at `state`. Reads the catalog and counters, no file."""
    catalog = context.catalog
    segments = catalog.segments(state.id, state.version, with_columns=False)
    keyed = open_keyed(context, state.id)
    counters = keyed.counters() if keyed is not None else Counters()
    writers = counters.writers.values()
    regions = tuple(_region(r, segments, counters.writers.get(r.number)) for r in catalog.regions(state.id))
    return TableStats(
        state.full_name,
        state.head_version,
        sum(segment.live_rows for segment in segments),
        len(segments),
        sum(segment.facts.size for segment in segments),
        sum(segment.facts.rows - segment.live_rows for segment in segments),
        _levels(segments),
        _partitioning(state),
        _write_amplification(catalog.written_bytes(state.id, state.oldest_version)),
        _read_amplification(state, segments),
        CacheUse(*context.indexes.uses),
        counters.rows,
        StallStats(
            sum(writer.stalls.count for writer in writers),
            sum(writer.stalls.seconds for writer in writers),
            max((writer.stalls.longest for writer in writers), default=0.0),
        ),
        sum(writer.memtable_bytes for writer in writers),
        sum(region.covered if region.log_position is None else region.log_position for region in regions),
        regions,
        tuple(list_indexes(context, state)),
    )


def _levels(segments: Sequence[LiveSegment]) -> tuple[LevelStats, ...]:
    found: dict[int, list[LiveSegment]] = {}
    for segment in segments:
        found.setdefault(segment.facts.level, []).append(segment)
    levels = []
    for level, mine in sorted(found.items()):
        rows, live = sum(s.facts.rows for s in mine), sum(s.live_rows for s in mine)
        levels.append(LevelStats(level, len(mine), sum(s.facts.size for s in mine), rows, live, rows - live))
    return tuple(levels)


def _region(region: Region, segments: Sequence[LiveSegment], writer: WriterStats | None) -> RegionStats:
    files = sum(segment.facts.region == region.number for segment in segments)
    here = (None, None) if writer is None else (writer.log_position, writer.memtable_bytes)
    return RegionStats(
        region.number, region.epoch, region.owner, region.covered, region.generation, files, here[0], here[1]
    )


def _write_amplification(written: Mapping[int, int]) -> float | None:
    return sum(written.values()) / written[0] if written.get(0) else None


def _read_amplification(state: TableState, segments: Sequence[LiveSegment]) -> int:
    """The most segments whose ranges of keys, or of event time, have a value in common."""
    spans: list[tuple[Any, Any]]
    if state.schema.identifier_field_ids:
        spans = [(s.facts.key_min, s.facts.key_max) for s in segments]
    elif state.event_time is not None:
        spans = [(s.facts.time_min, s.facts.time_max) for s in segments]
    else:
        return len(segments)
    known = [(low, high) for low, high in spans if low is not None and high is not None]
    lows, highs = sorted(low for low, _ in known), sorted(high for _, high in known)
    deepest = max((index + 1 - bisect_left(highs, low) for index, low in enumerate(lows)), default=0)
    return deepest + len(spans) - len(known)


def sorting(state: TableState) -> str:
    """The columns that rows are sorted by, such as "region asc, ts desc"; empty for none."""
    return ", ".join(
        f"{call_text(field.transform, state.schema.find_column_name(field.source_id) or '?')} "
        f"{field.direction.name.lower()}"
        for field in state.sort_order.fields
    )


def _partitioning(state: TableState) -> str:
    return ", ".join(
        f"{field.transform}({state.schema.find_column_name(field.source_id)})" for field in state.spec.fields
    )
