"""Arrow columns from the fields of OTLP messages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moulin.ingest.otlp import wire
from moulin.ingest.otlp.wire import Fields
from moulin.model.columns.arrays import Integers
from moulin.model.otel import SPAN_ID, TIME, TRACE_ID

_LATEST = np.iinfo(np.int64).max


def moments(fields: Fields, number: int) -> Integers:
    """A time of each message in nanoseconds, 0 where there is none; past the year 2262 it is the last that fits."""
    values, _ = fields.fixed64(number)
    return np.where(values < 0, _LATEST, values)


def times(values: Integers) -> pa.TimestampArray:
    """A column of times, null where 0."""
    return pa.array(values, mask=values == 0).view(TIME)


def ids(fields: Fields, number: int, type: pa.DataType) -> pa.FixedSizeBinaryArray:
    """A column of trace or span ids. One of another length, or of zeros only, is no id: null."""
    start, size, present = fields.find(number, wire.BYTES)
    width = type.byte_width
    values = np.zeros((fields.messages, width), np.uint8)
    good = np.flatnonzero(present & (size == width))
    values[good] = fields.buffer.bytes[start[good][:, None] + np.arange(width)]
    valid = np.packbits(values.any(axis=1), bitorder="little")
    return pa.FixedSizeBinaryArray.from_buffers(type, fields.messages, [pa.py_buffer(valid), pa.py_buffer(values)])


def trace_ids(fields: Fields, number: int) -> pa.FixedSizeBinaryArray:
    return ids(fields, number, TRACE_ID)


def span_ids(fields: Fields, number: int) -> pa.FixedSizeBinaryArray:
    return ids(fields, number, SPAN_ID)


def names(values: Integers, known: Sequence[str]) -> pa.StringArray:
    """The names of an enum's numbers; an unknown number is its own name."""
    if len(values) and not (values.min() >= 0 and values.max() < len(known)):
        return pa.array([known[v] if 0 <= v < len(known) else str(v) for v in values.tolist()], pa.string())
    return pa.array(known, pa.string()).take(pa.array(values))


def optional(values: Integers, present: NDArray[np.bool_]) -> pa.Int64Array:
    return pa.array(values, mask=~present)


def counts(fields: Fields, number: int) -> pa.Int64Array:
    """An unsigned number of eight bytes, null where there is none; above 2**63 - 1 it is the largest that fits."""
    values, present = fields.fixed64(number)
    return optional(np.where(values < 0, _LATEST, values), present)


def small(values: Integers) -> pa.Int32Array:
    """32-bit numbers, as protobuf truncates them."""
    return pa.array(values.astype(np.int32))


def lists(owner: Integers, count: int, columns: Sequence[pa.Array], type: pa.StructType) -> pa.ListArray:
    """For each of `count` rows the list of its structs, whose columns are given in the order of the type."""
    structs = pa.StructArray.from_arrays(list(columns), fields=list(type))
    return pa.ListArray.from_arrays(pa.array(wire.offsets(owner, count)), structs)


def number_lists(edges: NDArray[np.int32], values: NDArray[np.int64] | NDArray[np.float64]) -> pa.ListArray:
    return pa.ListArray.from_arrays(pa.array(edges), pa.array(values))


def count_lists(edges: NDArray[np.int32], values: Integers) -> pa.ListArray:
    """Lists of unsigned numbers; above 2**63 - 1 each is the largest that fits."""
    return number_lists(edges, np.where(values < 0, _LATEST, values))
