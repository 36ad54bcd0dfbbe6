"""What rows of a result take: their bytes, and what the values inside of lists and maps become in the server.

A list of booleans has a bit for each, and an object of Python once it is shown. So every value inside of others counts
for more than its bytes.
"""

# Decisions: docs/decisions/0740

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from moulin.errors import InvalidInput

_INNER_BYTES: Final = 16
SCHEMA_BYTES: Final = 1 << 20
"""What the names and types of columns may take."""


def require_few_columns(schema: pa.Schema) -> None:
    """Raise InvalidInput for columns whose names and types take more than SCHEMA_BYTES."""
    if schema.serialize().size > SCHEMA_BYTES:
        raise InvalidInput("The result has too many columns, or too long names for them: name fewer columns.")


def size(batch: pa.RecordBatch) -> int:
    return int(batch.nbytes) + _INNER_BYTES * sum(_inner(column) for column in batch.columns)


def that_fits(batch: pa.RecordBatch, room: int) -> pa.RecordBatch:
    """The first rows of a batch that take no more than this."""
    low, high = 0, batch.num_rows
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if size(batch.slice(0, middle)) <= room else (low, middle - 1)
    return batch.slice(0, low)


def _inner(values: pa.Array) -> int:
    """How many values lie inside of others."""
    kind = values.type
    if pt.is_struct(kind):
        return sum(len(field) + _inner(field) for field in values.flatten())
    if pt.is_map(kind):
        first, end = (values.offsets[0].as_py(), values.offsets[len(values)].as_py()) if len(values) else (0, 0)
        parts = [part.slice(first, end - first) for part in (values.keys, values.items)]
        return sum(len(part) + _inner(part) for part in parts)
    if pt.is_list(kind) or pt.is_large_list(kind) or pt.is_fixed_size_list(kind):
        elements = values.flatten()
        return len(elements) + _inner(elements)
    return 0


__all__ = ["SCHEMA_BYTES", "require_few_columns", "size", "that_fits"]
