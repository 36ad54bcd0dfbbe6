"""Rows of Arrow batches for printing, a few at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from moulin.model.rows.nano_datetime import to_rows

_SLICE = 1_000


def rows_of(batches: Iterable[pa.RecordBatch]) -> Iterator[dict[str, Any]]:
    """The rows of a stream; only a slice of a batch is converted to Python values at a time."""
    for batch in batches:
        for start in range(0, batch.num_rows, _SLICE):
            yield from to_rows(batch.slice(start, _SLICE))
