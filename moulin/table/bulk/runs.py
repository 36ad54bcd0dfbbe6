"""Handles runs between writing and commit: duplicate keys, and rows that have moved.

Kernels: both read key indexes, and rows only where a run must be written again.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from moulin.formats import deletion_vector
from moulin.formats.segment.reader import SegmentReader
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.storage.store import Store
from moulin.table.bulk.writer import WorkerTools
from moulin.table.find.locate import Located, locate
from moulin.table.write.key_index import in_key_order
from moulin.table.write.layout import Layout
from moulin.table.write.segment_writer import write_segment
from moulin.table.write.upsert import Positions, mark, with_lineage


@dataclass(frozen=True, slots=True)
class DuplicateSlice:
    """Keys from `low` on and before `high`, to look for in several segments; the order of segments counts."""

    store: Store
    segments: tuple[SegmentFacts, ...]
    low: bytes | None = None
    high: bytes | None = None


@dataclass(frozen=True, slots=True)
class Duplicates:
    """Positions by segment, as deletion-vector blobs, of all rows of repeated keys but the last; and how many of them
    have a row id of an older row.
    """

    positions: tuple[tuple[int, bytes], ...]
    updated: int


@dataclass(frozen=True, slots=True)
class RelocateSlice:
    """A run whose keys are to be located once more, in `segments`; written again as `number` if its row ids were wrong.

    `dropped` are rows of the run that do not count, as a deletion-vector blob.
    """

    store: Store
    layout: Layout
    run: SegmentFacts
    segments: tuple[LiveSegment, ...]
    number: int
    dropped: bytes | None = None


@dataclass(frozen=True, slots=True)
class Relocated:
    """The run as it is now, the positions that it replaces, and how many of its rows that count replace one."""

    run: SegmentFacts
    positions: tuple[tuple[int, bytes], ...]
    updated: int


def find_duplicates(work: DuplicateSlice) -> Duplicates:
    """Sort the keys of all segments together, and look at neighbours."""
    indexes = WorkerTools.of(work.store).indexes
    keys, where, numbers, ids = [], [], [], []
    for facts in work.segments:
        found, positions, row_ids = indexes.entries(LiveSegment(facts, 0, 0, 0), work.low, work.high)
        if len(found):
            keys.append(found)
            where.append(positions)
            numbers.append(np.full(len(found), facts.number))
            ids.append(row_ids)
    if len(keys) < 2:
        return Duplicates((), 0)
    whole = np.concatenate(keys) if isinstance(keys[0], np.ndarray) else pa.concat_arrays(keys)
    order, same = in_key_order(whole)
    dropped = order[:-1][same]
    segments, at = np.concatenate(numbers)[dropped], np.concatenate(where)[dropped]
    updated = int(np.count_nonzero(np.concatenate(ids)[dropped] >= 0))
    marked: Positions = {}
    mark(marked, Located(dropped, segments, at, dropped))
    return Duplicates(_encoded(marked), updated)


def relocate(work: RelocateSlice) -> Relocated:
    """The keys of a run in the segments of another version than the one it was written for.

    An adopted file stays as it is: its rows have ids of their own, whatever they replace.
    """
    tools, run = WorkerTools.of(work.store), work.run
    form, positions, stored = tools.indexes.entries(LiveSegment(run, 0, 0, 0), None, None)
    located = locate(tools.indexes, tools.vectors, work.store, work.segments, _encoded_keys(form))
    row_ids = np.full(len(stored), -1, np.int64)
    row_ids[located.indexes] = located.row_ids
    if run.adopted is None and not np.array_equal(row_ids, stored):
        with SegmentReader(work.store.reader(run.path, run.size), work.layout.schema, name=run.path) as reader:
            rows = reader.table(use_threads=False)
        lineage = bool(len(located.indexes))
        run = write_segment(
            work.store,
            work.layout,
            [with_lineage(rows, located.indexes, located.row_ids) if lineage else rows],
            run.partition,
            work.number,
            level=run.level,
            lineage=lineage,
            spec_id=run.spec_id,
            region=run.region,
        )
    marked: Positions = {}
    mark(marked, located)
    counted = positions[located.indexes]
    if work.dropped is not None:
        counted = np.setdiff1d(counted, deletion_vector.to_array(deletion_vector.decode(work.dropped)))
    return Relocated(run, _encoded(marked), len(counted))


def _encoded_keys(form: Any) -> pa.Array:
    """Keys in search form as they were encoded."""
    if not isinstance(form, np.ndarray):
        return form
    data = form.astype(">u8") if form.dtype == np.uint64 else form
    return pa.Array.from_buffers(pa.binary(data.dtype.itemsize), len(data), [None, pa.py_buffer(data.tobytes())])


def _encoded(marked: Positions) -> tuple[tuple[int, bytes], ...]:
    return tuple((number, deletion_vector.encode(bitmap)) for number, bitmap in marked.items())
