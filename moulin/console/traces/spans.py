"""Spans of a table of telemetry in one form, whichever layout the table has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from moulin.ingest.otlp.columns import hex_texts
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers
from moulin.model.otel import EVENT_TIME, NANOS, REPORTED_TIME, SERVICE

OUTLINE: Final = pa.schema(
    [
        ("trace_id", pa.string()),
        ("span_id", pa.string()),
        ("parent", pa.string()),
        ("service", pa.string()),
        ("name", pa.string()),
        ("kind", pa.string()),
        ("error", pa.bool_()),
        ("start", pa.int64()),
        ("end", pa.int64()),
    ]
)
IDS: Final = ("trace_id", "span_id", "parent_span_id")
_TEXTS: Final = (SERVICE, "name", "kind")
_LATEST, _LONGEST = 1 << 62, 1 << 61  # their sum is a number of 64 bits


def needed(table: Sequence[str]) -> list[str]:
    """Those of a table's columns that `outline` reads."""
    times = [EVENT_TIME, EVENT_TIME + NANOS, REPORTED_TIME, REPORTED_TIME + NANOS]
    return [name for name in [*times, "duration_ns", *IDS, *_TEXTS, "status_code"] if name in table]


def outline(found: pa.Table) -> pa.Table:
    """The spans in the columns of OUTLINE, row by row. Times are nanoseconds; an id that is missing is null.

    A span starts when its sender said, however wrong that clock is, and never ends before it starts.
    """
    start = np.asarray(pc.coalesce(nanos_of(found, REPORTED_TIME), nanos_of(found, EVENT_TIME)))
    start = np.clip(start, -_LATEST, _LATEST)
    duration = np.clip(np.asarray(pc.fill_null(found["duration_ns"], 0)), 0, _LONGEST)
    columns = [
        *(id_texts(found[name].combine_chunks()) for name in IDS),
        *(pc.fill_null(found[name], "") for name in _TEXTS),
        pc.fill_null(pc.equal(found["status_code"], "error"), False),
        pa.array(start),
        pa.array(start + duration),
    ]
    return pa.table(columns, schema=OUTLINE)


def nanos_of(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """A time of each row in Unix nanoseconds, null where there is none."""
    found = rows[name]
    if found.type.unit == "ns":
        return found.cast(pa.int64())
    return pc.coalesce(rows[name + NANOS], pc.multiply(found.cast(pa.int64()), 1000))


def id_texts(ids: pa.Array) -> pa.StringArray:
    """Ids in hex; null where there is none. Tables that earlier versions made have bytes."""
    if pa.types.is_fixed_size_binary(ids.type):
        width = ids.type.byte_width
        rows = np.frombuffer(ids.buffers()[1], np.uint8).reshape(-1, width)[ids.offset : ids.offset + len(ids)]
        at = np.flatnonzero(ids.is_valid())
        return hex_texts(rows[at], at, len(ids))
    return pc.if_else(pc.equal(ids, ""), pa.scalar(None, pa.string()), ids)


def numbers(spans: pa.Table, name: str) -> Integers:
    """A column of 64-bit numbers without nulls."""
    found: Integers = spans[name].to_numpy()
    return found


def rows_once(spans: pa.Table, columns: Sequence[str] = tuple(OUTLINE.names)) -> Integers:
    """The first rows with their values in these columns, ascending: senders that got no answer send spans again."""
    numbered = spans.select(list(columns)).append_column("row", pa.array(np.arange(spans.num_rows)))
    first = numbered.group_by(list(columns), use_threads=False).aggregate([("row", "min")])
    return np.sort(numbers(first, "row_min"))


__all__ = ["IDS", "OUTLINE", "id_texts", "nanos_of", "needed", "numbers", "outline", "rows_once"]
