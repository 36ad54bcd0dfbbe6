"""The kernels of secondary indexes: build a file from segments, or map one through a compaction's journal."""

# Decisions: docs/decisions/0054

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import numpy as np
import pyarrow as pa

from moulin.errors import Corrupt, NotFound
from moulin.formats.journal import Journal
from moulin.formats.key_index import hash_keys
from moulin.formats.secondary_index import (
    CoveredSegment,
    IndexFile,
    IndexKind,
    SegmentHashes,
    count_entries,
    encode_bitmaps,
    encode_bloom,
    encode_sorted,
)
from moulin.formats.segment.reader import SegmentReader
from moulin.model import operations
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers, distinct
from moulin.model.facts import LiveSegment
from moulin.model.ids import new_id
from moulin.model.key.index_value import cut, encode_values, encoding_of, width_of
from moulin.model.schema.arrow import POSITION
from moulin.model.schema.values import IcebergType, Schema
from moulin.storage import paths
from moulin.storage.store import Store
from moulin.table.commit.segment_rows import open_rows
from moulin.table.find.index_files import KINDS, indexed_type, open_index

_NONE: Integers = np.empty(0, np.int64)


@dataclass(frozen=True, slots=True)
class CoveringFile:
    """A file of an index, and those of the segments at hand that it covers."""

    path: str
    size: int
    segments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IndexSlice:
    """Segments that one new file of a secondary index is to cover, made from their data."""

    store: Store
    table_id: UUID
    schema: Schema
    field_id: int
    kind: str
    segments: tuple[LiveSegment, ...]


@dataclass(frozen=True, slots=True)
class CarrySlice:
    """Outputs of one slice of a compaction that one new file is to cover: the entries of the inputs are carried over.

    Of inputs that none of `files` covers, the data is read. `outputs` are the segments written, with their rows.
    """

    store: Store
    table_id: UUID
    schema: Schema
    field_id: int
    kind: str
    journal: str
    inputs: tuple[LiveSegment, ...]
    files: tuple[CoveringFile, ...]
    outputs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, eq=False)
class _Entries:
    """Entries of one segment: positions, and what stands there. `payload` is encoded values, or hashes."""

    positions: Integers
    payload: pa.Array


def build_index(work: IndexSlice) -> operations.IndexFile:
    """Make one file from rows. Runs in one thread; memory is a few times the entries of the file."""
    covered = [CoveredSegment(s.facts.number, s.facts.rows) for s in work.segments]
    return _write(work, covered, {s.facts.number: [_read(work, s)] for s in work.segments})


def carry_index(work: CarrySlice) -> operations.IndexFile:
    """Make one file from the entries of a compaction's inputs. Runs in one thread; memory as for `build_index`."""
    covered = [CoveredSegment(number, rows) for number, rows in work.outputs]
    return _write(work, covered, _carry(work))


def _write(
    work: IndexSlice | CarrySlice, covered: Sequence[CoveredSegment], found: Mapping[int, Sequence[_Entries]]
) -> operations.IndexFile:
    data = _encode(work, covered, found)
    path = paths.index_path(work.table_id, new_id())
    work.store.put(path, data)
    return operations.IndexFile(path, len(data), count_entries(data), tuple(s.number for s in covered))


def _encode(
    work: IndexSlice | CarrySlice, covered: Sequence[CoveredSegment], found: Mapping[int, Sequence[_Entries]]
) -> bytes:
    kind = _values_type(work)
    encoding = encoding_of(kind)
    assert encoding is not None
    if KINDS[work.kind] is IndexKind.BLOOM:
        entries = []
        for segment in covered:
            parts = found.get(segment.number, ())
            positions = np.concatenate([_NONE, *(part.positions for part in parts)])
            hashes = pa.concat_arrays([pa.array([], pa.uint32()), *(part.payload for part in parts)])
            order = np.argsort(positions, kind="stable")
            entries.append(SegmentHashes(positions[order], np.asarray(hashes)[order]))
        return encode_bloom(encoding, covered, entries)
    width = width_of(kind)
    empty = pa.array([], pa.binary(width) if width else pa.binary())
    every = [(index, part) for index, s in enumerate(covered) for part in found.get(s.number, ())]
    values = pa.concat_arrays([empty, *(part.payload for _, part in every)])
    indexes = np.concatenate([_NONE, *(np.full(len(part.positions), index) for index, part in every)])
    positions = np.concatenate([_NONE, *(part.positions for _, part in every)])
    if KINDS[work.kind] is IndexKind.BTREE:
        return encode_sorted(encoding, covered, values, indexes, positions)
    return encode_bitmaps(KINDS[work.kind], encoding, covered, values, indexes, positions)


def _values_type(work: IndexSlice | CarrySlice) -> IcebergType:
    """REQUIRES: the column can have an index of this kind."""
    found = indexed_type(work.schema.find_field(work.field_id).field_type, work.kind)
    assert found is not None
    return found


def _read(work: IndexSlice | CarrySlice, segment: LiveSegment) -> _Entries:
    """The entries of a segment from its data, also of deleted rows: older versions still see them."""
    field, kind = work.schema.find_field(work.field_id), _values_type(work)
    facts = segment.facts
    positions, payload = [_NONE], []
    with SegmentReader(open_rows(work.store, facts), work.schema, columns=[field.name], facts=facts) as reader:
        for batch in reader.batches(position=True):
            column = batch.column(field.name)
            rows = batch.column(POSITION).to_numpy()
            rows, column = _without_nulls(rows, column)
            if KINDS[work.kind] is IndexKind.LABEL_LIST:
                rows = np.repeat(rows, np.asarray(pc.list_value_length(column)))
                rows, column = _without_nulls(rows, column.flatten())
            positions.append(rows)
            payload.append(_payload(work, encode_values(column, kind)))
    whole = pa.concat_arrays(payload) if payload else _payload(work, _no_values(width_of(kind)))
    return _Entries(np.concatenate(positions), whole)


def _without_nulls(rows: Integers, column: pa.Array) -> tuple[Integers, pa.Array]:
    column = column.storage if isinstance(column, pa.ExtensionArray) else column
    if not column.null_count:
        return rows, column
    valid = column.is_valid()
    return rows[np.asarray(valid)], column.filter(valid)


def _no_values(width: int) -> pa.Array:
    return pa.array([], pa.binary(width) if width else pa.binary())


def _payload(work: IndexSlice | CarrySlice, values: pa.Array) -> pa.Array:
    return pa.array(hash_keys(values)) if KINDS[work.kind] is IndexKind.BLOOM else cut(values)


def _carry(work: CarrySlice) -> dict[int, list[_Entries]]:
    """The entries of the inputs, at the positions that the journal gives for their rows."""
    journal = Journal.decode(work.store.get(work.journal), source=f"Journal {work.journal}")
    wanted = set(journal.segments())
    found: dict[int, list[_Entries]] = {}
    seen: set[int] = set()
    for file in work.files:
        mine = [number for number in file.segments if number in wanted and number not in seen]
        try:
            for number, entries in _stored(work, file, mine):
                _move(journal, number, entries, found)
                seen.add(number)
        except (NotFound, Corrupt):
            continue  # a lost index must not stop a compaction: the rows give the same result
    for segment in work.inputs:
        if segment.facts.number in wanted - seen:
            _move(journal, segment.facts.number, _read(work, segment), found)
    return found


def _stored(work: CarrySlice, file: CoveringFile, numbers: Sequence[int]) -> Iterator[tuple[int, _Entries]]:
    """What a file has of some segments; nothing when it was made when the column was of another type."""
    if not numbers:
        return
    index = open_index(work.store, file.path, file.size)
    if index.encoding != encoding_of(_values_type(work)):
        return
    if index.kind is IndexKind.BLOOM:
        for number in numbers:
            hashes = index.load_hashes(number)
            yield number, _Entries(hashes.positions, pa.array(hashes.hashes))
        return
    indexes = np.asarray([index.index_of[number] for number in numbers])
    owners, positions, values = _taken(index, indexes)
    order = np.argsort(owners, kind="stable")
    edges = np.searchsorted(owners[order], np.stack([indexes, indexes + 1]))
    for number, start, stop in zip(numbers, *edges.tolist(), strict=True):
        rows = order[start:stop]
        yield number, _Entries(positions[rows], values.take(pa.array(rows)))


def _taken(index: IndexFile, indexes: Integers) -> tuple[Integers, Integers, pa.Array]:
    """What a file has of some segments, one by one: index of the segment, position, value."""
    taken: list[tuple[Integers, Integers, pa.Array]] = [(_NONE, _NONE, _no_values(index.width))]
    if index.kind is IndexKind.BTREE:
        for chunk in index.every():
            mask = np.isin(chunk.indexes, indexes)
            if mask.any():
                taken.append((chunk.indexes[mask], chunk.positions[mask], chunk.values.filter(pa.array(mask))))
    else:
        for bitmaps in index.every_bitmap():
            mine = np.flatnonzero(np.isin(bitmaps.indexes, indexes))
            if len(mine):
                owners, counts = bitmaps.indexes[mine], bitmaps.counts[mine]
                found = np.concatenate([bitmaps.positions(entry) for entry in mine.tolist()])
                taken.append((np.repeat(owners, counts), found, bitmaps.values.take(pa.array(np.repeat(mine, counts)))))
    owners, positions = (np.concatenate([part[side] for part in taken]) for side in (0, 1))
    return owners, positions, pa.concat_arrays([part[2] for part in taken])


def _move(journal: Journal, segment: int, entries: _Entries, found: dict[int, list[_Entries]]) -> None:
    covered = np.zeros(len(entries.positions), np.bool_)
    for start, stop in journal.coverage(segment):
        covered |= (entries.positions >= start) & (entries.positions < stop)
    rows = np.flatnonzero(covered)
    targets, moved = journal.lookup(segment, entries.positions[rows])
    for target in distinct(targets[targets >= 0]).tolist():
        mine = targets == target
        part = _Entries(moved[mine], entries.payload.take(pa.array(rows[mine])))
        found.setdefault(target, []).append(part)
