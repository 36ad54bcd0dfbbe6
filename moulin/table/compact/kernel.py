"""The compaction kernel: live rows of several segments into new ones, in order, with their lineage, and the journal of
what went where.
"""

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
    """Ranges to compact into new segments of one partition; `numbers` are reserved for the outputs."""

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
    bounds = _cut(work, table)
    order = clustered(table, order, bounds, work.layout.cluster_by)
    added: list[SegmentFacts] = []
    for index, (start, stop) in enumerate(bounds):
        added.append(
            write_segment(
                work.store,
                work.layout,
                _pieces(table, order, start, stop),
                work.partition,
                work.first_number + index,
                level=work.level,
                lineage=True,
                spec_id=work.spec_id,
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


def _cut(work: CompactionSlice, table: pa.Table) -> list[tuple[int, int]]:
    """Row ranges of the outputs: as many as their size on disk asks for, and no more than there are numbers."""
    if table.num_rows == 0:
        return []
    share = sum((p.stop - p.start) / max(p.segment.facts.rows, 1) * p.segment.facts.size for p in work.ranges)
    parts = int(min(work.numbers, max(1, share // work.segment_bytes)))
    step = -(-table.num_rows // parts)
    return [(start, min(start + step, table.num_rows)) for start in range(0, table.num_rows, step)]


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
