"""The memtable: the newest writes of a region, by key, until they are flushed into a segment."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
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
from moulin.model.rows.nano_datetime import to_rows
from moulin.model.rows.numbers import int64_array
from moulin.model.rows.record import RecordType
from moulin.model.schema.arrow import arrow_schema, empty_table
from moulin.model.schema.values import Schema
from moulin.table.keyed.columns import Columns, KeptColumns

DELETED: Final = None
MISSING: Final = object()

ENTRY_BYTES = 200  # what one entry of the dict takes, with a short row


@dataclass(frozen=True, slots=True)
class Hides:
    """The positions of segments that hold older rows of the first `keys` keys of a memtable."""

    segments: Sequence[LiveSegment]
    keys: int
    positions: Mapping[int, BitMap64]


NOTHING_HIDDEN: Final = Hides((), 0, {})


class Memtable:
    """Rows by key: a tuple of values in the schema's order, the number of a row of `batches`, or DELETED.

    Changed by one thread at a time, read by any. It holds log positions up to `reached`. All rows have one schema.
    """

    def __init__(self, record: RecordType, key: Key, reached: int) -> None:
        self.record, self.key = record, key
        self.rows: dict[Any, Any] = {}
        self.reached = reached
        self.size = 0
        self._batches: list[pa.RecordBatch] = []
        self._starts: list[int] = [0]
        self._more = -reached  # writes, less positions of the log
        self.columns = KeptColumns(empty_table(arrow_schema(record.schema)), self._make)
        self.hides = NOTHING_HIDDEN

    def __len__(self) -> int:
        return len(self.rows)

    def put_rows(self, keys: Iterable[Any], rows: Sequence[tuple[Any, ...]], size: int) -> None:
        self.rows.update(zip(keys, rows, strict=True))
        self.size += size + ENTRY_BYTES * len(rows)
        self._more += len(rows) - 1

    def put_batch(self, keys: Sequence[Any], batch: pa.RecordBatch) -> None:
        start = self._starts[-1]
        self._batches.append(batch)
        self._starts.append(start + batch.num_rows)
        self.rows.update(zip(keys, range(start, start + batch.num_rows), strict=True))
        self.size += batch.nbytes + ENTRY_BYTES * batch.num_rows
        self._more += batch.num_rows - 1

    def delete(self, keys: Sequence[Any]) -> None:
        self.rows.update(dict.fromkeys(keys, DELETED))
        self.size += ENTRY_BYTES * len(keys)
        self._more += len(keys) - 1

    def moment(self) -> Moment:
        """What it holds now. REQUIRES: it is not being changed."""
        writes = self.reached + self._more
        columns = self.columns.found(writes)
        return Moment(self, [] if columns else list(self.rows.values()), writes, columns)

    def row(self, found: Any, schema: Schema) -> dict[str, Any] | None:
        """What `rows` holds for a key, as a row of `schema`."""
        if found is DELETED:
            return None
        if schema.schema_id != self.record.schema.schema_id:
            rows, _ = self._make([found])
            return to_rows(to_schema(rows, self.record.schema, schema))[0]
        if type(found) is tuple:
            return self.record.to_dict(found)
        return to_rows(self._take([found]))[0]

    def contents(self) -> tuple[pa.Table, list[Any]]:
        """All rows, in no order, and the keys that are deleted. REQUIRES: it is not being changed."""
        columns = self.moment().columns()
        return columns.rows, self.keys_at(columns.deleted)

    def keys_at(self, positions: Sequence[int]) -> list[Any]:
        """The keys at these positions."""
        return list(map(list(self.rows).__getitem__, positions)) if positions else []

    def _make(self, values: Sequence[Any]) -> tuple[pa.Table, Integers]:
        """Rows of what `rows` holds for some keys, and which of them each one is; -1 for DELETED."""
        kinds = list(map(type, values))
        if kinds.count(tuple) == len(kinds):
            return self.record.to_arrow(values), np.arange(len(values))
        if kinds.count(int) == len(kinds):
            return self._take(values), np.arange(len(values))
        tuples = [number for number, kind in enumerate(kinds) if kind is tuple]
        numbers = [number for number, kind in enumerate(kinds) if kind is int]
        parts = [
            self._take([values[number] for number in numbers]),
            self.record.to_arrow([values[number] for number in tuples]),
        ]
        index = np.full(len(values), -1, np.int64)
        index[numbers], index[tuples] = np.arange(len(numbers)), np.arange(len(tuples)) + len(numbers)
        return pa.concat_tables(parts), index

    def _take(self, numbers: Sequence[int]) -> pa.Table:
        """Rows of the batches: a part of them as it is, without a copy."""
        schema = arrow_schema(self.record.schema)
        if not numbers:
            return empty_table(schema)
        if len(numbers) == 1:
            index = int(np.searchsorted(self._starts, numbers[0], side="right")) - 1
            return pa.Table.from_batches([self._batches[index].slice(numbers[0] - self._starts[index], 1)])
        whole, wanted = pa.Table.from_batches(self._batches, schema), np.asarray(numbers, np.int64)
        if (np.diff(wanted) == 1).all():
            return whole.slice(numbers[0], len(numbers))
        return whole.take(int64_array(wanted))


@dataclass(frozen=True, slots=True)
class Moment:
    """What a memtable held after a number of writes. Nothing of it changes when the memtable does."""

    memtable: Memtable
    _values: Sequence[Any]
    _writes: int
    _columns: Columns | None

    def columns(self) -> Columns:
        """To be called without the locks that the moment was taken under: the first scan takes a while."""
        return self._columns or self.memtable.columns.at(self._values, self._writes)


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
