"""The compaction kernel: live rows of several segments into new ones, in order, with their lineage, and the journal of
what went where.
"""

# Decisions: docs/decisions/0237

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from moulin.formats import deletion_vector
from moulin.formats.journal import JournalEntry, encode_journal, pack
from moulin.formats.segment.reader import SegmentReader
from moulin.model.columns.arrays import Integers
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.model.ids import new_id
from moulin.model.layout.partition import PartitionTuple
from moulin.model.layout.partition_rows import partition_codes
from moulin.model.layout.sort_rows import sort_indices
from moulin.model.schema.arrow import arrow_schema, empty_table
from moulin.storage import paths
from moulin.storage.store import Store
from moulin.table.commit.vectors import read_vector
from moulin.table.write.clustering import clustered
from moulin.table.write.layout import Layout
from moulin.table.write.segment_writer import write_segment

_TAKE_ROWS = 1 << 20


@dataclass(frozen=True, slots=True)
class InputRange:
    """Positions [start, stop) of an input of a compaction."""

    segment: LiveSegment
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class CompactionSlice:
    """Ranges to compact into new segments of one partition; `numbers` are reserved for the outputs.

    With `repartition` the outputs are of the table's partitioning of now, one or more for each partition.
    """

    store: Store
    layout: Layout
    ranges: tuple[InputRange, ...]
    partition: tuple[bytes | None, ...]
    spec_id: int
    level: int
    first_number: int
    numbers: int
    segment_bytes: int
    region: int = 0
    repartition: bool = False


@dataclass(frozen=True, slots=True)
class CompactedSlice:
    """The segments written, and the path of their journal. `number` is that of the first one, even if there is none."""

    added: tuple[SegmentFacts, ...]
    journal: str
    number: int


def compact_slice(work: CompactionSlice) -> CompactedSlice:
    """Read the ranges, sort once, write. Runs in one thread; memory is about twice the rows of the ranges."""
    tables, kept = _read(work)
    table = pa.concat_tables(tables)
    order = sort_indices(table, work.layout.sort_order, work.layout.schema)
    spec_id, parts = work.spec_id, [(work.partition, 0, table.num_rows)]
    if work.repartition and table.num_rows:
        by_partition, moved = _repartitioned(work, table, order)
        if len(moved) <= work.numbers:
            order, spec_id, parts = by_partition, work.layout.spec.spec_id, moved
    outputs = [
        (partition, *bound) for partition, first, last in parts for bound in _cut(work, table, first, last, len(parts))
    ]
    bounds = [(start, stop) for _, start, stop in outputs]
    if len(parts) == 1:
        order = clustered(table, order, bounds, work.layout.cluster_by)
    added: list[SegmentFacts] = []
    for index, (partition, start, stop) in enumerate(outputs):
        added.append(
            write_segment(
                work.store,
                work.layout,
                _pieces(table, order, start, stop),
                partition,
                work.first_number + index,
                level=work.level,
                lineage=True,
                spec_id=spec_id,
                region=work.region,
            )
        )
    journal = _journal(work.ranges, kept, order, bounds, [facts.number for facts in added])
    path = paths.journal_path(work.layout.table_id, new_id())
    work.store.put(path, journal)
    return CompactedSlice(tuple(added), path, work.first_number)


def _read(work: CompactionSlice) -> tuple[list[pa.Table], list[npt.NDArray[np.bool_] | None]]:
    """The live rows of each range with lineage, and which rows of the range they are (None: all)."""
    tables, kept = [empty_table(arrow_schema(work.layout.schema, lineage=True))], []
    for piece in work.ranges:
        segment = piece.segment
        deleted: BitMap64 | None = None
        if segment.vector is not None:
            deleted = read_vector(work.store, segment.vector, segment.facts.rows)
        reader = SegmentReader(
            work.store.reader(segment.facts.path, segment.facts.size), work.layout.schema, name=segment.facts.path
        )
        tables.append(
            reader.table(
                deleted=deleted,
                start=piece.start,
                stop=piece.stop,
                row_id=True,
                first_row_id=segment.first_row_id,
                sequence=True,
                sequence_number=segment.sequence,
            )
        )
        rows = piece.stop - piece.start
        kept.append(None if deleted is None else deletion_vector.keep_mask(deleted, piece.start, rows))
    return tables, kept


def _repartitioned(
    work: CompactionSlice, table: pa.Table, order: Integers | None
) -> tuple[Integers, list[tuple[PartitionTuple, int, int]]]:
    """The order of the rows, put together by the partitioning of now, and the range of rows of each partition."""
    codes, tuples = partition_codes(table, work.layout.spec, work.layout.schema)
    order = np.arange(table.num_rows, dtype=np.int64) if order is None else order
    order = order[np.argsort(codes[order], kind="stable")]
    ends = np.cumsum(np.bincount(codes, minlength=len(tuples))).tolist()
    return order, [(partition, start, end) for partition, start, end in zip(tuples, [0, *ends], ends, strict=False)]


def _cut(work: CompactionSlice, table: pa.Table, first: int, last: int, partitions: int) -> list[tuple[int, int]]:
    """Ranges of the rows from `first` to `last`, one of so many partitions, for outputs.

    They are as many as their size on disk asks for, and of all partitions no more than there are numbers.
    """
    if first == last:
        return []
    share = sum((p.stop - p.start) / max(p.segment.facts.rows, 1) * p.segment.facts.size for p in work.ranges)
    share *= (last - first) / table.num_rows
    parts = int(min(work.numbers // partitions, max(1, share // work.segment_bytes)))
    step = -(-(last - first) // parts)
    return [(start, min(start + step, last)) for start in range(first, last, step)]


def _pieces(table: pa.Table, order: Integers | None, start: int, stop: int) -> list[pa.Table]:
    if order is None:
        return [table.slice(start, stop - start)]
    return [table.take(order[at : min(at + _TAKE_ROWS, stop)]) for at in range(start, stop, _TAKE_ROWS)]


def _journal(
    ranges: Sequence[InputRange],
    kept: Sequence[npt.NDArray[np.bool_] | None],
    order: Integers | None,
    bounds: Sequence[tuple[int, int]],
    numbers: Sequence[int],
) -> bytes:
    """Old position -> new position of every row of the ranges."""
    total = bounds[-1][1] if bounds else 0
    ranks = np.arange(total, dtype=np.int64)
    if order is not None:
        ranks = np.empty(total, dtype=np.int64)
        ranks[order] = np.arange(total, dtype=np.int64)
    starts = np.asarray([start for start, _ in bounds], dtype=np.int64)
    entries, at = [], 0
    for piece, keep in zip(ranges, kept, strict=True):
        rows = piece.stop - piece.start
        live = rows if keep is None else int(np.count_nonzero(keep))
        rank = ranks[at : at + live]
        output = np.searchsorted(starts, rank, side="right") - 1 if bounds else rank
        packed = pack(output, rank - starts[output]) if live else rank
        at += live
        if keep is None:
            addresses = packed
        else:
            addresses = np.full(rows, -1, dtype=np.int64)
            addresses[keep] = packed
        vector_id = piece.segment.vector.id if piece.segment.vector else 0
        entries.append(JournalEntry(piece.segment.facts.number, vector_id, piece.start, addresses))
    return encode_journal(numbers, entries)
