"""OTLP requests as Arrow tables: the rows of a signal, with the times and the route of each.

Requests are decoded together, as many as there are: the more, the faster. A request that cannot be decoded is set aside
with the reason, and the others go on. Pure functions of bytes and times; the nursery and the fresh lane both call them,
so both see the same rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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

from moulin.ingest.envelope import Envelope, Rows, open_requests
from moulin.ingest.logs import log_rows
from moulin.ingest.points import point_rows
from moulin.ingest.spans import span_rows
from moulin.ingest.tables import EVENT_TIME, INGEST_TIME, REPORTED_TIME, SCHEMAS, TIME, Signal
from moulin.ingest.wire import Ints, Odd

REQUESTS: Final[Mapping[Signal, Any]] = MappingProxyType(
    {"logs": ExportLogsServiceRequest, "traces": ExportTraceServiceRequest, "metrics": ExportMetricsServiceRequest}
)
_READERS: Final[Mapping[Signal, Callable[[Envelope], list[Rows]]]] = MappingProxyType(
    {"logs": log_rows, "traces": span_rows, "metrics": point_rows}
)
_SECOND: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Decoded:
    """Rows in the schema of their signal. `request` is the place of the request that each came in, `route` the table
    that its resource names, or null. `poison` says of each request that gave no rows why not."""

    rows: pa.Table
    request: Ints
    route: pa.StringArray
    poison: Mapping[int, str]


def ingest_time(modified: datetime) -> int:
    """When records count as ingested, in nanoseconds: their object's time, rounded up to the second."""
    whole = int(modified.timestamp() // 1)
    micros = modified.microsecond
    return (whole + (1 if micros else 0)) * _SECOND


def decode(signal: Signal, requests: Sequence[bytes], ingested: Sequence[int]) -> Decoded:
    """The rows of requests of one signal; `ingested` is the ingest time of each, in nanoseconds."""
    given = list(requests)
    times = np.asarray(ingested, np.int64)
    try:
        return _decode(signal, given, times, {})
    except Odd:
        pass
    poison: dict[int, str] = {}
    for index, request in enumerate(given):
        given[index] = _rewritten(signal, request, index, poison)
    try:
        return _decode(signal, given, times, poison)
    except Odd:
        for index in range(len(given)):
            if given[index]:
                try:
                    _decode(signal, [given[index]], times[:1], {})
                except Odd as reason:
                    poison[index] = f"It cannot be read: {reason}."
                    given[index] = b""
        return _decode(signal, given, times, poison)


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


def _decode(signal: Signal, requests: Sequence[bytes], ingested: Ints, poison: Mapping[int, str]) -> Decoded:
    envelope = open_requests(requests)
    parts = [_table(signal, rows, envelope, ingested) for rows in _READERS[signal](envelope)]
    schema = SCHEMAS[signal]
    if not parts:
        return Decoded(schema.empty_table(), np.empty(0, np.int64), pa.array([], pa.string()), poison)
    scope = np.concatenate([places for _, places in parts])
    table = pa.concat_tables([table for table, _ in parts])
    origin = envelope.origin
    return Decoded(table, origin.request[scope], origin.route.take(pa.array(scope)), poison)


def _table(signal: Signal, rows: Rows, envelope: Envelope, ingested: Ints) -> tuple[pa.Table, Ints]:
    """Rows with times and origin, in the schema of the signal."""
    count = len(rows.scope)
    places = pa.array(rows.scope)
    arrived = ingested[envelope.origin.request[rows.scope]]
    event = np.where(rows.happened == 0, arrived, np.minimum(rows.happened, arrived))
    columns = dict(rows.columns)
    columns |= {name: column.take(places) for name, column in envelope.origin.columns.items()}
    columns[EVENT_TIME] = pa.array(event).view(TIME)
    columns[INGEST_TIME] = pa.array(arrived).view(TIME)
    columns[REPORTED_TIME] = pa.array(rows.reported, mask=rows.reported == 0).view(TIME)
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
