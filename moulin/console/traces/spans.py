"""Spans of a table of telemetry in one form, whichever layout the table has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np
import pyarrow as pa

from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers
from moulin.model.otel import EVENT_TIME, NANOS, REPORTED_TIME, SERVICE

NEEDED: Final = (
    EVENT_TIME,
    EVENT_TIME + NANOS,
    REPORTED_TIME + NANOS,
    "duration_ns",
    "trace_id",
    "span_id",
    "parent_span_id",
    SERVICE,
    "name",
    "kind",
    "status_code",
)
"""The columns that `outline` reads, in tables as they are made today."""
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
_LATEST, _LONGEST = 1 << 62, 1 << 61  # their sum is a number of 64 bits


def outline(found: pa.Table) -> pa.Table:
    """The spans in the columns of OUTLINE, row by row. Times are nanoseconds; an id that is missing is null.

    A span starts when its sender said, however wrong that clock is, and never ends before it starts.
    """
    start = pc.coalesce(found[REPORTED_TIME + NANOS], found[EVENT_TIME + NANOS], _nanos(found[EVENT_TIME]))
    start = pc.min_element_wise(pc.max_element_wise(start, -_LATEST), _LATEST)
    duration = pc.fill_null(found["duration_ns"], 0)
    columns = [
        *(_id(found[name]) for name in ("trace_id", "span_id", "parent_span_id")),
        *(pc.fill_null(found[name], "") for name in (SERVICE, "name", "kind")),
        pc.fill_null(pc.equal(found["status_code"], "error"), False),
        start,
        pc.add(start, pc.min_element_wise(pc.max_element_wise(duration, 0), _LONGEST)),
    ]
    return pa.table(columns, schema=OUTLINE)


def _nanos(times: pa.ChunkedArray) -> pa.ChunkedArray:
    return times.cast(pa.timestamp("ns", tz="UTC"), safe=False).cast(pa.int64())


def _id(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.equal(ids, ""), pa.scalar(None, pa.string()), ids)


def numbers(spans: pa.Table, name: str) -> Integers:
    """A column of 64-bit numbers without nulls."""
    found: Integers = spans[name].to_numpy()
    return found


def rows_once(spans: pa.Table, columns: Sequence[str] = OUTLINE.names) -> Integers:
    """The first rows with their values in these columns, ascending: a sender that got no answer sends its spans again."""
    numbered = spans.select(columns).append_column("row", pa.array(np.arange(spans.num_rows)))
    first = numbered.group_by(list(columns), use_threads=False).aggregate([("row", "min")])
    return np.sort(numbers(first, "row_min"))


__all__ = ["NEEDED", "OUTLINE", "numbers", "outline", "rows_once"]
