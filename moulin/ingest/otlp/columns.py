"""Arrow columns from the fields of OTLP messages."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moulin.ingest.otlp import wire
from moulin.ingest.otlp.wire import Fields
from moulin.model.columns.arrays import Integers
from moulin.model.otel import NANOS, TIME

_LATEST = np.iinfo(np.int64).max
_DIGITS = np.frombuffer(b"0123456789abcdef", np.uint8)
_TRACE_BYTES, _SPAN_BYTES = 16, 8


def moments(fields: Fields, number: int) -> Integers:
    """A time of each message in nanoseconds, 0 where there is none; past the year 2262 it is the last that fits."""
    values, _ = fields.fixed64(number)
    return np.where(values < 0, _LATEST, values)


def times(values: Integers) -> list[pa.Array]:
    """Columns of times, null where 0: cut to microseconds, and the exact nanoseconds."""
    absent = values == 0
    return [pa.array(values // 1000, mask=absent).view(TIME), pa.array(values, mask=absent)]


def named_times(name: str, values: Integers) -> dict[str, pa.Array]:
    """`times` under their names in a table."""
    return dict(zip((name, name + NANOS), times(values), strict=True))


def ids(fields: Fields, number: int, width: int) -> pa.StringArray:
    """A column of trace or span ids in hex. One of another length, or of zeros only, is no id: null."""
    start, size, present = fields.find(number, wire.BYTES)
    good = np.flatnonzero(present & (size == width))
    values = fields.buffer.bytes[start[good][:, None] + np.arange(width)]
    filled = values.any(axis=1)
    return hex_texts(values[filled], good[filled], fields.messages)


def hex_texts(values: NDArray[np.uint8], at: Integers, count: int) -> pa.StringArray:
    """A column of `count` texts: rows of bytes in hex at the ascending indexes `at`, null elsewhere."""
    edges = np.zeros(count + 1, np.int32)
    edges[at + 1] = 2 * values.shape[1]
    valid = np.zeros(count, np.bool_)
    valid[at] = True
    digits = np.stack([_DIGITS[values >> 4], _DIGITS[values & 15]], axis=-1)
    buffers = [np.packbits(valid, bitorder="little"), np.cumsum(edges, dtype=np.int32), np.ascontiguousarray(digits)]
    return pa.StringArray.from_buffers(
        count, pa.py_buffer(buffers[1]), pa.py_buffer(buffers[2]), pa.py_buffer(buffers[0])
    )


def trace_ids(fields: Fields, number: int) -> pa.StringArray:
    return ids(fields, number, _TRACE_BYTES)


def span_ids(fields: Fields, number: int) -> pa.StringArray:
    return ids(fields, number, _SPAN_BYTES)


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
