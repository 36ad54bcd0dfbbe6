"""What is done with runs between their writing and their commit: keys that several hold, and rows that moved meanwhile.

Planned tasks: both read key indexes, and rows only where a run must be written again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from moulin.formats import deletion_vector
from moulin.formats.segment.reader import SegmentReader
from moulin.model.arrays import Integers
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.table.bulk.writer import WorkerTools, in_key_order
from moulin.table.find.locate import KeyIndexes, Located, locate
from moulin.table.runner import DuplicateResult, DuplicateTask, RelocateResult, RelocateTask
from moulin.table.write.segment_writer import write_segment
from moulin.table.write.upsert import Positions, mark, with_lineage


def find_duplicates(task: DuplicateTask) -> DuplicateResult:
    """Sort the keys of all segments together, and look at neighbours."""
    indexes = WorkerTools.of(task.store).indexes
    keys, places, numbers, ids = [], [], [], []
    for facts in task.segments:
        start, found, row_ids = _entries(indexes, facts, task.low, task.high)
        if len(found):
            keys.append(found)
            places.append(np.arange(start, start + len(found)))
            numbers.append(np.full(len(found), facts.number))
            ids.append(row_ids)
    if len(keys) < 2:
        return DuplicateResult((), 0)
    whole = np.concatenate(keys) if isinstance(keys[0], np.ndarray) else pa.concat_arrays(keys)
    order, same = in_key_order(whole)
    dropped = order[:-1][same]
    segments, positions = np.concatenate(numbers)[dropped], np.concatenate(places)[dropped]
    updated = int(np.count_nonzero(np.concatenate(ids)[dropped] >= 0))
    marked: Positions = {}
    mark(marked, Located(dropped, segments, positions, dropped))
    return DuplicateResult(_encoded(marked), updated)


def relocate(task: RelocateTask) -> RelocateResult:
    """The keys of a run in the segments of another version than the one it was written for."""
    tools, run = WorkerTools.of(task.store), task.run
    _, form, stored = _entries(tools.indexes, run, None, None)
    located = locate(tools.indexes, tools.vectors, task.store, task.segments, _encoded_keys(form))
    row_ids = np.full(run.rows, -1, np.int64)
    row_ids[located.places] = located.row_ids
    if not np.array_equal(row_ids, stored):
        with SegmentReader(task.store.reader(run.path, run.size), task.layout.schema, name=run.path) as reader:
            rows = reader.table(use_threads=False)
        lineage = bool(len(located.places))
        run = write_segment(
            task.store,
            task.layout,
            [with_lineage(rows, located.places, located.row_ids) if lineage else rows],
            run.partition,
            task.number,
            level=run.level,
            lineage=lineage,
            spec_id=run.spec_id,
            region=run.region,
        )
    marked: Positions = {}
    mark(marked, located)
    counted = located.places
    if task.dropped is not None:
        counted = np.setdiff1d(counted, deletion_vector.to_array(deletion_vector.decode(task.dropped)))
    return RelocateResult(run, _encoded(marked), len(counted))


def _entries(
    indexes: KeyIndexes, facts: SegmentFacts, low: bytes | None, high: bytes | None
) -> tuple[int, Any, Integers]:
    """The keys of a segment from `low` on and before `high` in search form: where they begin, and their row ids."""
    segment = LiveSegment(facts, 0, 0, 0)
    start, stop = indexes.span(segment, low, high)
    index = indexes.index(segment)
    first = 0 if low is None else max(0, index.block_of(low))
    last = index.blocks - 1 if high is None else index.block_of(high)
    if start >= stop:
        return start, np.empty(0, np.int64), np.empty(0, np.int64)
    blocks = index.load_all(first, last - first + 1)
    base = blocks[0].start
    parts = [block.keys for block in blocks]
    keys = np.concatenate(parts) if isinstance(parts[0], np.ndarray) else pa.concat_arrays(parts)
    ids = [np.full(len(b.keys), -1, np.int64) if b.row_ids is None else b.row_ids for b in blocks]
    return start, keys[start - base : stop - base], np.concatenate(ids)[start - base : stop - base]


def _encoded_keys(form: Any) -> pa.Array:
    """Keys in search form as they were encoded."""
    if not isinstance(form, np.ndarray):
        return form
    data = form.astype(">u8") if form.dtype == np.uint64 else form
    return pa.Array.from_buffers(pa.binary(data.dtype.itemsize), len(data), [None, pa.py_buffer(data.tobytes())])


def _encoded(marked: Positions) -> tuple[tuple[int, bytes], ...]:
    return tuple((number, deletion_vector.encode(places)) for number, places in marked.items())
