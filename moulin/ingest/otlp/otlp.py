"""OTLP requests as Arrow tables: the rows of a signal, with the times and the route of each.

Requests are decoded together: the more, the faster. A request that cannot be decoded is set aside with the reason, and
the others continue. Pure functions of bytes and times; the nursery and the fresh lane both call them, so both see the
same rows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import pyarrow as pa
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from moulin.ingest.otlp.columns import named_times
from moulin.ingest.otlp.envelope import Envelope, Rows, open_requests
from moulin.ingest.otlp.logs import log_rows
from moulin.ingest.otlp.points import point_rows
from moulin.ingest.otlp.spans import span_rows
from moulin.ingest.otlp.wire import Odd
from moulin.model.columns.arrays import Integers
from moulin.model.columns.batching import packed
from moulin.model.otel import EVENT_TIME, INGEST_TIME, NANOS, REPORTED_TIME, SCHEMAS, SIGNALS, TIME, Signal

REQUESTS: Final[Mapping[Signal, Any]] = MappingProxyType(
    {"logs": ExportLogsServiceRequest, "traces": ExportTraceServiceRequest, "metrics": ExportMetricsServiceRequest}
)
_READERS: Final[Mapping[Signal, Callable[[Envelope], list[Rows]]]] = MappingProxyType(
    {"logs": log_rows, "traces": span_rows, "metrics": point_rows}
)
_SECOND: Final = 1_000_000_000
_CHUNK_BYTES: Final = 6_000_000  # decoded together: enough to pay for each step, and little enough to stay in caches


@dataclass(frozen=True, slots=True)
class Decoded:
    """Rows in the schema of their signal. `request` is the index of the request that each came in, `route` the table
    that its resource names, or null. `poison` says of each request that gave no rows why not. `repeated_keys` counts
    attributes that another of the same key, later in the same set, replaced."""

    rows: pa.Table
    request: Integers
    route: pa.StringArray
    poison: Mapping[int, str]
    repeated_keys: int = 0


_NOTHING: Final[Mapping[Signal, Decoded]] = MappingProxyType(
    {s: Decoded(SCHEMAS[s].empty_table(), np.empty(0, np.int64), pa.array([], pa.string()), {}) for s in SIGNALS}
)


def ingest_time(modified: datetime) -> int:
    """When records count as ingested, in nanoseconds: the end of the second of their object's time.

    A whole second counts as begun, not as ended: object stores cut their times to seconds, and a record must not seem
    older than what was known before it came.
    """
    return (int(modified.timestamp() // 1) + 1) * _SECOND


def decode(signal: Signal, requests: Sequence[bytes], ingested: Sequence[int]) -> Decoded:
    """The rows of requests of one signal; `ingested` is the ingest time of each, in nanoseconds."""
    times = np.asarray(ingested, np.int64)
    parts = [(low, _decode_some(signal, requests[low:high], times[low:high])) for low, high in _chunks(requests)]
    if not parts:
        return _NOTHING[signal]
    return Decoded(
        pa.concat_tables([part.rows for _, part in parts]),
        np.concatenate([part.request + low for low, part in parts]),
        pa.concat_arrays([part.route for _, part in parts]),
        {low + index: reason for low, part in parts for index, reason in part.poison.items()},
        sum(part.repeated_keys for _, part in parts),
    )


def _chunks(requests: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Ranges of requests that are decoded together."""
    for chunk in packed(range(len(requests)), lambda index: len(requests[index]), _CHUNK_BYTES):
        yield chunk[0], chunk[-1] + 1


def _decode_some(signal: Signal, requests: Sequence[bytes], ingested: Integers) -> Decoded:
    try:
        return _decode(signal, requests, ingested, {})
    except Odd:
        pass
    poison: dict[int, str] = {}
    given = [_rewritten(signal, request, index, poison) for index, request in enumerate(requests)]
    try:
        return _decode(signal, given, ingested, poison)
    except Odd:
        for index, request in enumerate(given):
            try:
                _decode(signal, [request], ingested[:1], {})
            except Odd as reason:
                poison[index] = f"It cannot be read: {reason}."
                given[index] = b""
        return _decode(signal, given, ingested, poison)


def _rewritten(signal: Signal, request: bytes, index: int, poison: dict[int, str]) -> bytes:
    """The request as protobuf writes it, in which nothing is odd; empty, and poison, if protobuf cannot read it."""
    try:
        message = REQUESTS[signal].FromString(request)
    except DecodeError:
        poison[index] = f"It is not an OTLP request of {signal}."
        return b""
    message.DiscardUnknownFields()
    written: bytes = message.SerializeToString()
    return written


def _decode(signal: Signal, requests: Sequence[bytes], ingested: Integers, poison: Mapping[int, str]) -> Decoded:
    envelope = open_requests(requests)
    parts = [_table(signal, rows, envelope, ingested) for rows in _READERS[signal](envelope)]
    if not parts:
        return dataclasses.replace(_NOTHING[signal], poison=poison)
    scope = np.concatenate([indexes for _, indexes in parts])
    table = pa.concat_tables([table for table, _ in parts])
    origin = envelope.origin
    route = origin.route.take(pa.array(scope))
    return Decoded(table, origin.request[scope], route, poison, envelope.buffer.repeated_keys)


def _table(signal: Signal, rows: Rows, envelope: Envelope, ingested: Integers) -> tuple[pa.Table, Integers]:
    """Rows with times and origin, in the schema of the signal."""
    count = len(rows.scope)
    indexes = pa.array(rows.scope)
    arrived = ingested[envelope.origin.request[rows.scope]]
    event = np.where(rows.happened == 0, arrived, np.minimum(rows.happened, arrived))
    columns = dict(rows.columns)
    columns |= {name: column.take(indexes) for name, column in envelope.origin.columns.items()}
    columns |= {EVENT_TIME: pa.array(event // 1000).view(TIME), EVENT_TIME + NANOS: pa.array(event)}
    columns[INGEST_TIME] = pa.array(arrived // 1000).view(TIME)
    columns |= named_times(REPORTED_TIME, rows.reported)
    schema = SCHEMAS[signal]
    arrays = [columns.get(field.name, None) for field in schema]
    filled = [
        pa.nulls(count, field.type)
        if column is None
        else pa.array(column)
        if isinstance(column, np.ndarray)
        else column
        for field, column in zip(schema, arrays, strict=True)
    ]
    return pa.Table.from_arrays(filled, schema=schema), rows.scope
