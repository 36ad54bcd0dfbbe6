"""Rewrites a segment without the values of some rows: same number, same rows at the same positions, a new file.

An erased row keeps its lineage. Its columns are null; in required columns, and in sort and partition columns, it gets
the value of a remaining neighbour. So the order of the file, its bounds and its types stay valid, and it has only
values of other rows. Deletion vectors hide it in every version. The column files of the segment are rewritten too, with
the new row groups.
"""

# Decisions: docs/decisions/0440, docs/decisions/0470

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from uuid import UUID

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from moulin.formats import deletion_vector
from moulin.formats.puffin import DeletionVectorBlob, write_puffin
from moulin.formats.segment.options import ReadOptions
from moulin.formats.segment.reader import SegmentReader
from moulin.formats.segment.stitched import stored_schema_of
from moulin.formats.segment.writer import SegmentWriter
from moulin.model.columns import compute as pc
from moulin.model.entities import TableState
from moulin.model.facts import ColumnFile, SegmentFacts, VectorFacts
from moulin.model.ids import new_id
from moulin.model.layout.sort_order import UNSORTED_SORT_ORDER
from moulin.model.schema.arrow import LAST_UPDATED_SEQUENCE, ROW_ID
from moulin.storage import paths
from moulin.storage.segment_source import key_index_of
from moulin.storage.store import Store
from moulin.table.commit.segment_rows import open_rows
from moulin.table.commit.vectors import read_vector
from moulin.table.erase.find import Found
from moulin.table.write.layout import Layout
from moulin.table.write.segment_writer import write_segment

_PIECE_BYTES = 32 << 20
_NOT_STORED = -(1 << 62)  # row ids and sequence numbers below zero are not in the file
_LINEAGE = (ROW_ID, LAST_UPDATED_SEQUENCE)

Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class ScrubSlice:
    """One segment of the table of `layout`, and the positions to erase, as a deletion-vector blob.

    REQUIRES: `layout` has the schema, partitioning and order that the segment was written with, and a row stays.
    """

    store: Store
    layout: Layout
    facts: SegmentFacts
    positions: bytes
    files: tuple[tuple[UUID, ColumnFile], ...] = ()  # its column files, each with the table in whose folder it lies


@dataclass(frozen=True, slots=True)
class Scrubbed:
    """A segment that was written again, and its column files by the paths that they had."""

    facts: SegmentFacts
    files: tuple[tuple[str, ColumnFile], ...]

    @property
    def paths(self) -> tuple[str, ...]:
        """The files that were written."""
        keys = [key_index_of(self.facts)] if self.facts.index_size else []
        return (self.facts.path, *keys, *(file.path for _, file in self.files))


def layout_of(state: TableState, facts: SegmentFacts) -> Layout:
    """How a segment of a table was written."""
    layout = Layout.of(state)
    return replace(
        layout,
        schema=state.schemas[facts.schema_id],
        spec=state.specs[facts.spec_id],
        sort_order=state.sort_orders.get(
            facts.sort_order_id, UNSORTED_SORT_ORDER
        ),  # engines and adoptions sort nothing
    )


def scrub_slice(work: ScrubSlice) -> Scrubbed:
    """Write the segment and its column files again."""
    erased = deletion_vector.decode(work.positions)
    facts = _scrub_segment(work, erased)
    if not work.files:
        return Scrubbed(facts, ())
    with SegmentReader(open_rows(work.store, facts), work.layout.schema, columns=[], facts=facts) as reader:
        groups = [range(start, start + n) for start, n in zip(reader.group_starts, reader.group_rows, strict=True)]
    return Scrubbed(facts, tuple((file.path, _scrub_file(work, one, file, groups, erased)) for one, file in work.files))


def _scrub_file(
    work: ScrubSlice, owner: UUID, file: ColumnFile, groups: Sequence[range], erased: BitMap64
) -> ColumnFile:
    """Write a column file again in these row groups, with null at erased rows."""
    path = paths.column_file_path(owner, new_id())
    source = work.store.reader(file.path, file.size)
    schema = stored_schema_of(source, file.path)
    nans = {column.field_id for column in file.columns if column.nans != 0}
    with SegmentReader(source, schema, name=file.path) as reader, work.store.writer(path) as sink:
        writer = SegmentWriter(
            sink,
            schema=schema,
            level=work.facts.level,
            nan_fields=nans,
            settings=work.layout.files,
            positions=False,
        )
        for group in groups:
            rows = reader.table(start=group.start, stop=group.stop)
            keep = deletion_vector.keep_mask(erased, group.start, len(group))
            if keep is not None:
                at = pa.array(np.arange(len(group)), mask=~keep)
                rows = pa.Table.from_arrays([column.take(at) for column in rows.columns], schema=rows.schema)
            writer.write_group(rows)
        written = writer.finish()
    return ColumnFile(file.segment, path, written.size, written.sha256, file.fields, written.columns)


def _scrub_segment(work: ScrubSlice, erased: BitMap64) -> SegmentFacts:
    facts = work.facts
    first = next(position for position in range(facts.rows) if position not in erased)
    with SegmentReader(open_rows(work.store, facts), work.layout.schema, facts=facts) as reader:
        return write_segment(
            work.store,
            work.layout,
            _scrubbed(work, reader, erased, first),
            facts.partition,
            facts.number,
            level=facts.level,
            lineage=facts.has_lineage,
            spec_id=facts.spec_id,
            region=facts.region,
            nans={column.field_id for column in facts.columns if column.nans != 0},
            erased=erased if facts.index_size else None,
        )


def _scrubbed(work: ScrubSlice, reader: SegmentReader, erased: BitMap64, first: int) -> Iterator[pa.Table]:
    """The rows in pieces; `first` is the first that stays."""
    lineage = work.facts.has_lineage
    options = ReadOptions(row_id=lineage, first_row_id=_NOT_STORED, sequence=lineage, sequence_number=_NOT_STORED)
    one_row = options.copy()
    one_row["start"], one_row["stop"] = first, first + 1
    beside = reader.table(**one_row)
    at, kept = 0, _kept_columns(work.layout)
    for piece in reader.pieces(_PIECE_BYTES, **options):
        if not piece.num_rows:
            continue
        keep = deletion_vector.keep_mask(erased, at, piece.num_rows)
        at += piece.num_rows
        filled = piece if keep is None else _fill(pa.concat_tables([beside, piece]), keep, kept)
        if keep is None or keep.any():
            last = piece.num_rows - 1 if keep is None else int(np.flatnonzero(keep)[-1])
            beside = piece.slice(last, 1)
        yield _as_stored(filled) if lineage else filled


def _fill(rows: pa.Table, keep: Mask, kept: frozenset[str]) -> pa.Table:
    """The rows but the first one, which stands for those before them; erased ones without values."""
    positions = np.where(keep, np.arange(1, len(keep) + 1), 0)
    nearest = pa.array(np.maximum.accumulate(positions))
    mask = pa.array(keep)
    columns = []
    for field, column in zip(rows.schema, rows.columns, strict=True):
        if field.name in _LINEAGE:
            columns.append(column.slice(1))
        elif field.name in kept or not field.nullable:
            columns.append(column.take(nearest))
        else:
            columns.append(column.take(pc.if_else(mask, nearest, pa.scalar(None, nearest.type))))
    return pa.Table.from_arrays(columns, schema=rows.schema)


def _as_stored(rows: pa.Table) -> pa.Table:
    """Lineage as the file has it: null where it follows from the commit."""
    for name in _LINEAGE:
        index = rows.schema.get_field_index(name)
        column = rows.column(index)
        stored = pc.if_else(pc.less(column, 0), pa.scalar(None, column.type), column)
        rows = rows.set_column(index, rows.schema.field(index), stored)
    return rows


def _kept_columns(layout: Layout) -> frozenset[str]:
    """Top-level columns that the order, the key, the partition and the event time of a file rest on."""
    ids = {field.source_id for field in layout.sort_order.fields}
    ids |= {field.source_id for field in layout.spec.fields}
    ids |= {*layout.schema.identifier_field_ids, *(() if layout.event_time is None else (layout.event_time,))}
    names = {layout.schema.find_column_name(one) for one in ids}
    return frozenset(name.split(".")[0] for name in names if name is not None)


def write_erased_vectors(
    store: Store, found: Sequence[Found], facts: Mapping[int, SegmentFacts]
) -> tuple[dict[tuple[int, int], VectorFacts], dict[tuple[int, int], UUID]]:
    """For each vector that a span of a scrubbed segment has (0: none), one that hides the erased rows as well.

    They lie with the table whose vector it was; the second result says whose.
    """
    # A file has one vector of a segment at most: the first of each go into one, the second ones into another.
    targets: dict[tuple[UUID, int], list[tuple[tuple[int, int], BitMap64]]] = defaultdict(list)
    for one in found:
        for file, (vector_id, (vector, owner)) in enumerate(sorted(one.shared.vectors.items())):
            rows = one.shared.segment.facts.rows
            union = one.positions if vector is None else one.positions | read_vector(store, vector, rows)
            targets[owner, file].append(((one.number, vector_id), union))
    vectors: dict[tuple[int, int], VectorFacts] = {}
    owners: dict[tuple[int, int], UUID] = {}
    for (owner, _), some in targets.items():
        path = paths.vector_path(owner, new_id())
        some.sort(key=lambda target: (facts[target[0][0]].spec_id, target[0]))
        blobs = [DeletionVectorBlob(store.location(facts[pair[0]].path), bitmap) for pair, bitmap in some]
        data, extents = write_puffin(blobs)
        store.put(path, data)
        for (pair, _), extent in zip(some, extents, strict=True):
            vectors[pair] = VectorFacts(0, pair[0], path, extent.offset, extent.length, extent.cardinality)
            owners[pair] = owner
    return vectors, owners
