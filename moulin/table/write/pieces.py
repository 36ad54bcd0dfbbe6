"""Batches into pieces of bounded size, each of which is written at once."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa

from moulin.model.columns.batching import packed
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import Schema


def pieces(batches: Iterable[pa.RecordBatch], schema: Schema, limit: int) -> Iterator[pa.Table]:
    """The rows of batches of `schema`, in their order, as tables of about `limit` bytes each; none is empty."""
    whole = arrow_schema(schema)
    filled = (batch for batch in batches if batch.num_rows)
    for held in packed(filled, lambda batch: int(batch.nbytes), limit):
        yield pa.Table.from_batches(held, whole)
