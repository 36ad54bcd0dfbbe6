"""The memtable: the newest writes of a region, by key, until they are flushed into a segment."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from io import BytesIO
from typing import Any, Final

import numpy as np
import pyarrow as pa

from moulin.formats.segment.reader import SegmentReader
from moulin.formats.segment.writer import SegmentWriter
from moulin.model.key.key import Key
from moulin.model.rows.nano_datetime import to_rows
from moulin.model.rows.record import RecordType
from moulin.model.schema.arrow import arrow_schema, empty_table
from moulin.model.schema.values import Schema

DELETED: Final = None
MISSING: Final = object()

ENTRY_BYTES = 200  # what one entry of the dict takes, with a short row


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
        self._deletes = False
        self._starts: list[int] = [0]

    def __len__(self) -> int:
        return len(self.rows)

    def put(self, key: Any, row: tuple[Any, ...], size: int) -> None:
        self.rows[key] = row
        self.size += size + ENTRY_BYTES

    def put_rows(self, keys: Iterable[Any], rows: Sequence[tuple[Any, ...]], size: int) -> None:
        self.rows.update(zip(keys, rows, strict=True))
        self.size += size + ENTRY_BYTES * len(rows)

    def put_batch(self, keys: Sequence[Any], batch: pa.RecordBatch) -> None:
        start = self._starts[-1]
        self._batches.append(batch)
        self._starts.append(start + batch.num_rows)
        self.rows.update(zip(keys, range(start, start + batch.num_rows), strict=True))
        self.size += batch.nbytes + ENTRY_BYTES * batch.num_rows

    def delete(self, keys: Sequence[Any]) -> None:
        self.rows.update(dict.fromkeys(keys, DELETED))
        self._deletes = True
        self.size += ENTRY_BYTES * len(keys)

    def row(self, found: Any, schema: Schema) -> dict[str, Any] | None:
        """What `rows` holds for a key, as a row of `schema`."""
        if found is DELETED:
            return None
        if schema.schema_id != self.record.schema.schema_id:
            rows, _ = self.contents({MISSING: found})
            return to_rows(to_schema(rows, self.record.schema, schema))[0]
        if type(found) is tuple:
            return self.record.to_dict(found)
        return to_rows(self.take([found]))[0]

    def take(self, numbers: Sequence[int]) -> pa.Table:
        """Rows of the batches."""
        schema = arrow_schema(self.record.schema)
        if not numbers:
            return empty_table(schema)
        if len(numbers) == 1:
            index = int(np.searchsorted(self._starts, numbers[0], side="right")) - 1
            return pa.Table.from_batches([self._batches[index].slice(numbers[0] - self._starts[index], 1)])
        return pa.Table.from_batches(self._batches, schema).take(pa.array(numbers, pa.int64()))

    def contents(self, entries: dict[Any, Any] | None = None) -> tuple[pa.Table, list[Any]]:
        """All rows, in no order, and the keys that are deleted; of all entries, or of some."""
        if entries is None and not self._batches and not self._deletes:
            return self.record.to_arrow(list(self.rows.values())), []
        tuples: list[tuple[Any, ...]] = []
        numbers: list[int] = []
        deleted: list[Any] = []
        for key, found in (self.rows if entries is None else entries).items():
            if found is DELETED:
                deleted.append(key)
            elif type(found) is tuple:
                tuples.append(found)
            else:
                numbers.append(found)
        parts = [self.take(numbers)]
        if tuples:
            parts.append(self.record.to_arrow(tuples))
        return pa.concat_tables(parts), deleted


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
