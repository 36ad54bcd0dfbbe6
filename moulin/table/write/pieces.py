"""Batches into pieces of bounded size, each of which is written at once."""

# Decisions: docs/decisions/0392

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from moulin.model.columns.batching import packed
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import Schema


def pieces(batches: Iterable[pa.RecordBatch], schema: Schema, limit: int) -> Iterator[pa.Table]:
    """The rows of batches of `schema`, in their order, as tables of about `limit` bytes each; none is empty.

    One piece is in memory at a time if the caller lets go of it (`del`) before it asks for the next.
    """
    whole = arrow_schema(schema)
    filled = (part for batch in batches if batch.num_rows for part in _cut(batch, limit))
    for held in packed(filled, lambda batch: int(batch.nbytes), limit):
        yield _taken(held, whole)


def _taken(held: list[pa.RecordBatch], schema: pa.Schema) -> pa.Table:
    """The batches as a table, and no longer in the list."""
    table = pa.Table.from_batches(held, schema)
    held.clear()
    return table


def _cut(batch: pa.RecordBatch, limit: int) -> Iterator[pa.RecordBatch]:
    """A batch in equal parts of at least `limit` bytes, unless it has fewer."""
    parts = max(1, batch.nbytes // limit)
    step = -(-batch.num_rows // parts)
    return (batch.slice(start, step) for start in range(0, batch.num_rows, step))
