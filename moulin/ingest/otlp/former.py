"""Converts rows for tables created by earlier versions: times in nanoseconds, ids as bytes.

The conversion is lossless: `<time>_unix_nano` has every nanosecond, and hex every bit of an id.
"""

# Decisions: docs/decisions/0226

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moulin.model.otel import FORMER_SCHEMAS, FORMER_TIME, INGEST_TIME, NANOS, Signal

_VALUES = np.zeros(256, np.uint8)
_VALUES[list(b"0123456789abcdef")] = np.arange(16, dtype=np.uint8)


def former_rows(signal: Signal, rows: pa.Table) -> pa.Table:
    """The rows of a signal in `FORMER_SCHEMAS`."""
    schema = FORMER_SCHEMAS[signal]
    batches = [_batch(batch, schema) for batch in rows.to_batches()]
    return pa.Table.from_batches(batches, schema)


def _batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return pa.RecordBatch.from_arrays([_column(columns, field) for field in schema], schema=schema)


def _column(columns: dict[str, pa.Array], field: pa.Field) -> pa.Array:
    """A column or a member of a struct, from those that are there now."""
    array = columns[field.name]
    if array.type == field.type:
        return array
    if field.type == FORMER_TIME:
        return array.cast(FORMER_TIME) if field.name == INGEST_TIME else columns[field.name + NANOS].view(FORMER_TIME)
    if pa.types.is_fixed_size_binary(field.type):
        return _bytes(array, field.type)
    return _list(array, field.type)


def _list(array: pa.ListArray, type: pa.ListType) -> pa.ListArray:
    inner = array.flatten()
    members = {f.name: values for f, values in zip(inner.type, inner.flatten(), strict=True)}
    fields = list(type.value_type)
    structs = pa.StructArray.from_arrays([_column(members, f) for f in fields], fields=fields)
    sizes = np.asarray(array.value_lengths().fill_null(0))
    edges = pa.array(np.concatenate(([0], np.cumsum(sizes))).astype(np.int32))
    mask = array.is_null() if array.null_count else None
    return pa.ListArray.from_arrays(edges, structs, mask=mask)


def _bytes(texts: pa.StringArray, type: pa.FixedSizeBinaryType) -> pa.FixedSizeBinaryArray:
    width = type.byte_width
    values = np.zeros((len(texts), width), np.uint8)
    valid = np.asarray(texts.is_valid())
    values[valid] = _unhex(texts.drop_null(), width)
    return pa.FixedSizeBinaryArray.from_buffers(
        type, len(texts), [pa.py_buffer(np.packbits(valid, bitorder="little")), pa.py_buffer(values)]
    )


def _unhex(texts: pa.StringArray, width: int) -> NDArray[np.uint8]:
    """REQUIRES: every text is `2 * width` digits."""
    data = texts.buffers()[2]
    if data is None:
        return np.zeros((0, width), np.uint8)
    first = int(np.frombuffer(texts.buffers()[1], np.int32)[texts.offset])
    digits = _VALUES[np.frombuffer(data, np.uint8, 2 * width * len(texts), first)].reshape(-1, width, 2)
    return digits[:, :, 0] * np.uint8(16) + digits[:, :, 1]
