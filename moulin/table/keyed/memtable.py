"""The memtable: the newest writes of a region, by key, until they are flushed into a segment."""

# Decisions: docs/decisions/0330, docs/decisions/0400

from __future__ import annotations

import sys
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from io import BytesIO
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from moulin.formats.segment.reader import SegmentReader
from moulin.formats.segment.writer import SegmentWriter
from moulin.model.columns.arrays import Integers
from moulin.model.facts import LiveSegment
from moulin.model.key.key import Key
from moulin.model.rows.nano_datetime import SingleRows, to_rows
from moulin.model.rows.numbers import int64_array
from moulin.model.rows.record import RecordType
from moulin.model.schema.arrow import arrow_schema, empty_table
from moulin.model.schema.values import Schema
from moulin.table.keyed.columns import Columns, KeptColumns, Made

ENTRY_BYTES = 240  # what one write takes in memory beside the bytes of its row, with a few short values


@dataclass(frozen=True, slots=True)
class Hides:
    """The positions of segments that hold older rows of the keys of the first `writes` writes of a memtable."""

    segments: Sequence[LiveSegment]
    writes: int
    positions: Mapping[int, BitMap64]


@dataclass(frozen=True)
class _Together:
    """Writes that came together, from number `start` on: rows as Arrow, or keys that were deleted."""

    start: int
    rows: pa.RecordBatch | None
    keys: Sequence[Any]

    @cached_property
    def single(self) -> SingleRows:
        return SingleRows(self.rows)


_NOTHING_HIDDEN: Final = Hides((), 0, {})
_NOTHING: Final = _Together(0, None, ())


class Memtable:
    """The writes of a region in the order in which they came, and by key the number of the newest one.

    `written` has for each write a tuple of values in the schema's order, or the `_Together` that it is part of.
    `replaced` has the numbers of writes that another one of the same key followed, in the order of those others.
    Neither shrinks: a moment of the memtable is the lengths of both. A write is in `written` before it is in `rows`.

    Changed by one thread at a time, read by any. It holds log positions up to `reached`. All rows have one schema. It
    is full when its `size` is above its `room`: what is left of `limit` beside the columns that scans made.
    """

    def __init__(self, record: RecordType, key: Key, reached: int, limit: int = sys.maxsize) -> None:
        self.record, self.key = record, key
        self.rows: dict[Any, int] = {}
        self.written: list[Any] = []
        self.replaced: list[int] = []
        self.reached = reached
        self.size = 0
        self.room = self._limit = limit
        self._together, self._starts = [_NOTHING], [0]
        self.columns = KeptColumns(key, self._make, self.replaced, self._leave_room)
        self.hides = _NOTHING_HIDDEN

    def __len__(self) -> int:
        return len(self.rows)

    def _leave_room(self, taken: int) -> None:
        self.room = self._limit - taken

    def put_rows(self, keys: Sequence[Any], rows: Sequence[tuple[Any, ...]], size: int) -> None:
        self.written += rows
        self._number(keys)
        self.size += size + ENTRY_BYTES * len(rows)

    def put_batch(self, keys: Sequence[Any], batch: pa.RecordBatch) -> None:
        self._write_together(_Together(len(self.written), batch, keys))
        self.size += batch.nbytes + ENTRY_BYTES * batch.num_rows

    def delete(self, keys: Sequence[Any]) -> None:
        self._write_together(_Together(len(self.written), None, keys))
        self.size += ENTRY_BYTES * len(keys)

    def _write_together(self, writes: _Together) -> None:
        self._together.append(writes)
        self._starts.append(writes.start)
        self.written += [writes] * len(writes.keys)
        self._number(writes.keys)

    def _number(self, keys: Sequence[Any]) -> None:
        """Note the newest writes by their keys, of which one may come twice."""
        rows, stop, before = self.rows, len(self.written), len(self.rows)
        numbers = range(stop - len(keys), stop)
        known = () if rows.keys().isdisjoint(keys) else {rows[key] for key in keys if key in rows}
        rows.update(zip(keys, numbers, strict=True))
        self.replaced += known
        if len(rows) - before + len(known) < len(keys):
            self.replaced += [number for number, key in zip(numbers, keys, strict=True) if rows[key] != number]

    def moment(self) -> Moment:
        """What it holds now. REQUIRES: it is not being changed."""
        return Moment(self, len(self.written), len(self.replaced))

    def row(self, number: int, schema: Schema) -> dict[str, Any] | None:
        """What a write put, as a row of `schema`; None if it deleted a key."""
        written = self.written[number]
        if schema.schema_id == self.record.schema.schema_id:
            if type(written) is tuple:
                return self.record.to_dict(written)
            return None if written.rows is None else written.single.row(number - written.start)
        rows = self._make(np.asarray([number])).rows
        return to_rows(to_schema(rows, self.record.schema, schema))[0] if rows.num_rows else None

    def contents(self) -> tuple[pa.Table, list[Any]]:
        """All rows, in no order, and the keys that are deleted. REQUIRES: it is not being changed."""
        made = self.moment().columns().made
        return made.rows, self.deleted_keys(made.deleted)

    def deleted_keys(self, numbers: Integers) -> list[Any]:
        """The keys that these writes deleted."""
        found = ((number, self.written[number]) for number in numbers.tolist())
        return [writes.keys[number - writes.start] for number, writes in found]

    def _make(self, numbers: Integers) -> Made:
        """Writes as Arrow. REQUIRES: numbers ascend."""
        first, last = (numbers[0], numbers[-1]) if len(numbers) else (0, 0)
        low, high = max(bisect_right(self._starts, first) - 1, 0), bisect_right(self._starts, last)
        together, starts = self._together[low:high], np.asarray(self._starts[low:high])
        if together == [_NOTHING]:
            made = self._to_arrow(numbers)
            return Made(made, numbers, numbers[:0], made.nbytes)
        sizes = np.asarray([len(writes.keys) for writes in together])
        has_rows = np.asarray([writes.rows is not None for writes in together])
        among = np.searchsorted(starts, numbers, side="right") - 1
        offsets = numbers - starts[among]
        inside = offsets < sizes[among]
        single, in_batch = numbers[~inside], inside & has_rows[among]
        batches = [writes.rows for writes in together if writes.rows is not None]
        rows_before = np.cumsum(sizes * has_rows) - sizes * has_rows
        taken, own = _take(batches, (offsets + rows_before[among])[in_batch], arrow_schema(self.record.schema))
        made = self._to_arrow(single)
        rows = pa.concat_tables([taken, made]) if taken.num_rows else made
        kept = np.concatenate([numbers[in_batch], single])
        return Made(rows, kept, numbers[inside & ~has_rows[among]], own + made.nbytes)

    def _to_arrow(self, numbers: Integers) -> pa.Table:
        """The rows of writes that came one by one."""
        if len(numbers) and numbers[-1] - numbers[0] == len(numbers) - 1:
            return self.record.to_arrow(self.written, int(numbers[0]), int(numbers[-1]) + 1)
        return self.record.to_arrow(list(map(self.written.__getitem__, numbers.tolist())))


@dataclass(frozen=True, slots=True)
class Moment:
    """What a memtable held after a number of writes. Nothing of it changes when the memtable does."""

    memtable: Memtable
    _writes: int
    _replaced: int

    def columns(self, *, ordered: bool = False) -> Columns:
        """To be called without the locks that the moment was taken under: the first scan takes a while."""
        return self.memtable.columns.at(self._writes, self._replaced, ordered=ordered)


def _take(batches: Sequence[pa.RecordBatch], numbers: Integers, schema: pa.Schema) -> tuple[pa.Table, int]:
    """Rows of batches, and the bytes that were copied: none for rows that follow one another."""
    if not len(numbers):
        return empty_table(schema), 0
    whole = pa.Table.from_batches(batches, schema)
    if numbers[-1] - numbers[0] == len(numbers) - 1:
        return whole.slice(numbers[0], len(numbers)), 0
    rows = whole.take(int64_array(numbers))
    return rows, rows.nbytes


def to_schema(rows: pa.Table, written: Schema, wanted: Schema) -> pa.Table:
    """Rows of one schema of a table in another, exactly as if they were read from a segment that was written before."""
    if written.schema_id == wanted.schema_id:
        return rows
    if not rows.num_rows:
        return empty_table(arrow_schema(wanted))
    held = BytesIO()
    writer = SegmentWriter(held, schema=written, level=0)
    writer.write(rows)
    writer.finish()
    with SegmentReader(pa.BufferReader(held.getvalue()), wanted, name="the memtable") as reader:
        return reader.table()
