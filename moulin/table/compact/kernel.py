"""The compaction kernel: writes the live rows of several segments to new ones, in order, with lineage, and the journal
of new positions.
"""

# Decisions: docs/decisions/0232, docs/decisions/0237

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from moulin.formats import deletion_vector
from moulin.formats.journal import JournalEntry, encode_journal, pack
from moulin.formats.segment.reader import SegmentReader
from moulin.formats.segment.writer import nan_fields
from moulin.model.columns.arrays import Integers
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.model.ids import new_id
from moulin.model.layout.partition import PartitionTuple
from moulin.model.layout.partition_rows import partition_codes
from moulin.model.layout.sort_rows import sort_indices
from moulin.model.schema.arrow import arrow_schema, empty_table, leaves
from moulin.model.schema.schema import column_path
from moulin.storage import paths
from moulin.storage.store import Store
from moulin.table.commit.segment_rows import open_rows
from moulin.table.commit.vectors import read_vector
from moulin.table.compact.gather import Gatherer, RowCursor
from moulin.table.compact.inline_rows import read_inline
from moulin.table.write.clustering import clustered
from moulin.table.write.layout import Layout
from moulin.table.write.segment_writer import write_segment

MEMORY_BYTES = 256 << 20
"""What a slice holds of rows decoded, about, unless it is told otherwise."""

_TAKE_ROWS = 1 << 20
_PIECE_BYTES = 16 << 20
_LEAST_PIECE_BYTES = 64 << 10


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
    memory_bytes: int = MEMORY_BYTES
    repartition: bool = False


@dataclass(frozen=True, slots=True)
class CompactedSlice:
    """The segments written, and the path of their journal. `number` is that of the first one, even if there is none."""

    added: tuple[SegmentFacts, ...]
    journal: str
    number: int


def compact_slice(work: CompactionSlice) -> CompactedSlice:
    """Read the ranges, sort once, write. Runs in one thread.

    Rows of up to `memory_bytes` decoded are held whole, and once more in their order. Of more, only the columns that
    decide on the order are held whole, and the rows are gathered in pieces.
    """
    readers = [_Reading(work, piece) for piece in work.ranges]
    table = _read_whole(work, readers)
    if table is not None:
        plan = _plan(work, table, table.num_rows)
        added = _write(work, plan, lambda start, stop: _pieces(table, plan.order, start, stop))
    else:
        plan = _plan(work, _read_keys(work, readers), sum(reader.rows() for reader in readers))
        added = _write(work, plan, partial(_gatherer(work, readers).pieces, plan.order), _nan_fields(work, readers))
    kept = [reader.kept() for reader in readers]
    journal = _journal(work.ranges, kept, plan.order, plan.bounds, [facts.number for facts in added])
    path = paths.journal_path(work.layout.table_id, new_id())
    work.store.put(path, journal)
    return CompactedSlice(tuple(added), path, work.first_number)


@dataclass(frozen=True, slots=True)
class _Plan:
    """The order of the rows (None: as they are), and the partition and range of it that each output gets."""

    order: Integers | None
    outputs: Sequence[tuple[PartitionTuple, int, int]]
    spec_id: int

    @property
    def bounds(self) -> list[tuple[int, int]]:
        return [(start, stop) for _, start, stop in self.outputs]


def _plan(work: CompactionSlice, table: pa.Table, rows: int) -> _Plan:
    """`table` has at least the columns that decide on the order."""
    order = sort_indices(table, work.layout.sort_order, work.layout.schema)
    spec_id, parts = work.spec_id, [(work.partition, 0, rows)]
    if work.repartition and rows:
        by_partition, moved = _repartitioned(work, table, order, rows)
        if len(moved) <= work.numbers:
            order, spec_id, parts = by_partition, work.layout.spec.spec_id, moved
    outputs = [
        (partition, *bound) for partition, first, last in parts for bound in _cut(work, rows, first, last, len(parts))
    ]
    plan = _Plan(order, outputs, spec_id)
    if len(parts) > 1:
        return plan
    return replace(plan, order=clustered(table, order, plan.bounds, work.layout.cluster_by))


def _write(
    work: CompactionSlice,
    plan: _Plan,
    rows: Callable[[int, int], Iterable[pa.Table]],
    nans: Collection[int] | None = None,
) -> list[SegmentFacts]:
    return [
        write_segment(
            work.store,
            work.layout,
            rows(start, stop),
            partition,
            work.first_number + index,
            level=work.level,
            lineage=True,
            spec_id=plan.spec_id,
            region=work.region,
            nans=nans,
            group_bytes=work.memory_bytes // 2,
        )
        for index, (partition, start, stop) in enumerate(plan.outputs)
    ]


@dataclass(slots=True)
class _Reading:
    """The live rows of one range."""

    work: CompactionSlice
    range: InputRange
    _deleted: BitMap64 | None = None

    def __post_init__(self) -> None:
        vector = self.range.segment.vector
        if vector is not None:
            self._deleted = read_vector(self.work.store, vector, self.range.segment.facts.rows)

    @property
    def is_inline(self) -> bool:
        """Whether it is all rows of a new inline segment."""
        facts, whole = self.range.segment.facts, self.range.start == 0
        whole = whole and self.range.stop == facts.rows and self._deleted is None
        return whole and facts.inline is not None and not facts.has_lineage and not facts.files

    def pieces(self, piece_bytes: int) -> Iterator[pa.Table]:
        """The rows with their lineage, in pieces of about `piece_bytes` decoded."""
        segment = self.range.segment
        with self._open() as reader:
            yield from reader.pieces(
                piece_bytes,
                deleted=self._deleted,
                start=self.range.start,
                stop=self.range.stop,
                row_id=True,
                first_row_id=segment.first_row_id,
                sequence=True,
                sequence_number=segment.sequence,
            )

    def columns(self, names: Sequence[str], piece_bytes: int) -> Iterator[pa.Table]:
        """Some columns of the rows, in pieces."""
        with self._open(names) as reader:
            yield from reader.pieces(piece_bytes, deleted=self._deleted, start=self.range.start, stop=self.range.stop)

    def kept(self) -> npt.NDArray[np.bool_] | None:
        """Which rows of the range are live (None: all)."""
        rows = self.range.stop - self.range.start
        return None if self._deleted is None else deletion_vector.keep_mask(self._deleted, self.range.start, rows)

    def rows(self) -> int:
        """How many rows are live."""
        kept = self.kept()
        return self.range.stop - self.range.start if kept is None else int(np.count_nonzero(kept))

    def _open(self, columns: Sequence[str] | None = None) -> SegmentReader:
        facts, store = self.range.segment.facts, self.work.store
        source = open_rows(store, facts)
        return SegmentReader(source, self.work.layout.schema, columns=columns, facts=facts)


def _read_whole(work: CompactionSlice, readers: Sequence[_Reading]) -> pa.Table | None:
    """All rows with lineage; None as soon as they exceed the given memory."""
    tables, size = [empty_table(arrow_schema(work.layout.schema, lineage=True))], 0
    for piece in _all_pieces(work, readers):
        size += piece.nbytes
        if size > work.memory_bytes:
            return None
        tables.append(piece)
    return pa.concat_tables(tables)


def _all_pieces(work: CompactionSlice, readers: Sequence[_Reading]) -> Iterator[pa.Table]:
    """The rows with lineage, in the order of the readers; inline segments that follow each other at once."""
    for inline, group in groupby(readers, key=lambda reader: reader.is_inline):
        some = list(group)
        segments = [reader.range.segment for reader in some]
        small = inline and sum(segment.facts.size for segment in segments) <= work.memory_bytes // 4
        joined = read_inline(work.layout.schema, segments) if small and len(some) > 1 else None
        if joined is not None:
            yield joined
            continue
        for reader in some:
            yield from reader.pieces(min(_PIECE_BYTES, work.memory_bytes))


def _read_keys(work: CompactionSlice, readers: Sequence[_Reading]) -> pa.Table:
    """The columns that determine the order of the rows."""
    layout = work.layout
    ids = [field.source_id for field in layout.sort_order.fields]
    ids += [field.source_id for field in layout.spec.fields] if work.repartition else []
    sources = [column_path(layout.schema, source_id) for source_id in ids]
    names = list(dict.fromkeys([path[0] for path in sources if path is not None] + list(layout.cluster_by)))
    empty = empty_table(arrow_schema(layout.schema)).select(names)
    size = min(_PIECE_BYTES, work.memory_bytes)
    return pa.concat_tables([empty, *(piece for reader in readers for piece in reader.columns(names, size))])


def _nan_fields(work: CompactionSlice, readers: Sequence[_Reading]) -> frozenset[int]:
    """The ids of the columns that hold NaN. Reads those that may."""
    schema = arrow_schema(work.layout.schema)
    names = sorted({schema.names[leaf.column] for leaf in leaves(schema) if pa.types.is_floating(leaf.type)})
    found: set[int] = set()
    for reader in readers if names else ():
        for piece in reader.columns(names, min(_PIECE_BYTES, work.memory_bytes)):
            found |= nan_fields(piece)
    return frozenset(found)


def _gatherer(work: CompactionSlice, readers: Sequence[_Reading]) -> Gatherer:
    share = max(_LEAST_PIECE_BYTES, work.memory_bytes // (4 * len(readers)))
    cursors = [RowCursor(partial(reader.pieces, share)) for reader in readers]
    return Gatherer(cursors, [reader.rows() for reader in readers], work.memory_bytes // 4)


def _repartitioned(
    work: CompactionSlice, table: pa.Table, order: Integers | None, rows: int
) -> tuple[Integers | None, list[tuple[PartitionTuple, int, int]]]:
    """The order of the rows, put together by the partitioning of now, and the range of rows of each partition."""
    if not work.layout.spec.fields:
        return order, [((), 0, rows)]
    codes, tuples = partition_codes(table, work.layout.spec, work.layout.schema)
    order = np.arange(rows, dtype=np.int64) if order is None else order
    order = order[np.argsort(codes[order], kind="stable")]
    ends = np.cumsum(np.bincount(codes, minlength=len(tuples))).tolist()
    return order, [(partition, start, end) for partition, start, end in zip(tuples, [0, *ends], ends, strict=False)]


def _cut(work: CompactionSlice, rows: int, first: int, last: int, partitions: int) -> list[tuple[int, int]]:
    """Ranges of the rows from `first` to `last`, one of so many partitions, for outputs.

    They are as many as their size on disk asks for, and of all partitions no more than there are numbers.
    """
    if first == last:
        return []
    share = sum((p.stop - p.start) / max(p.segment.facts.rows, 1) * p.segment.facts.size for p in work.ranges)
    share *= (last - first) / rows
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
