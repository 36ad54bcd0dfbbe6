"""Spans as columns."""

from __future__ import annotations

import pyarrow as pa

from moulin.ingest.otlp.attributes import attributes
from moulin.ingest.otlp.columns import lists, moments, named_times, names, span_ids, times, trace_ids
from moulin.ingest.otlp.envelope import Envelope, Rows
from moulin.ingest.otlp.wire import Fields, scan
from moulin.model.otel import EVENT, LINK

# DO NOT CHANGE THESE NUMBERS: they are those of opentelemetry.proto.trace.v1.Span.
_TRACE_ID, _SPAN_ID, _TRACE_STATE, _PARENT, _NAME, _KIND, _START, _END = 1, 2, 3, 4, 5, 6, 7, 8
_ATTRIBUTES, _DROPPED, _EVENTS, _DROPPED_EVENTS, _LINKS, _DROPPED_LINKS, _STATUS, _FLAGS = 9, 10, 11, 12, 13, 14, 15, 16

KINDS = ("unspecified", "internal", "server", "client", "producer", "consumer")
STATUS_CODES = ("unset", "ok", "error")


def span_rows(envelope: Envelope) -> list[Rows]:
    fields = scan(envelope.buffer, envelope.start, envelope.end)
    begin, end = moments(fields, _START), moments(fields, _END)
    status = scan(envelope.buffer, *fields.one(_STATUS))
    given = attributes(fields, _ATTRIBUTES)
    columns = {
        **named_times("end_time", end),
        "duration_ns": pa.array(end - begin, mask=(begin == 0) | (end == 0)),
        "trace_id": trace_ids(fields, _TRACE_ID),
        "span_id": span_ids(fields, _SPAN_ID),
        "parent_span_id": span_ids(fields, _PARENT),
        "trace_state": fields.text(_TRACE_STATE),
        "flags": fields.fixed32(_FLAGS),
        "name": fields.text(_NAME),
        "kind": names(fields.varints(_KIND), KINDS),
        "status_code": names(status.varints(3), STATUS_CODES),
        "status_message": status.text(2),
        "events": _events(fields),
        "dropped_events": fields.varints(_DROPPED_EVENTS),
        "links": _links(fields),
        "dropped_links": fields.varints(_DROPPED_LINKS),
        "attributes": given.text,
        "attributes_typed": given.typed,
        "dropped_attributes": fields.varints(_DROPPED),
    }
    return [Rows(columns, envelope.scope, begin, begin)]


def _events(spans: Fields) -> pa.ListArray:
    owner, start, end = spans.many(_EVENTS)
    fields = scan(spans.buffer, start, end)
    given = attributes(fields, 3)
    columns = [*times(moments(fields, 1)), fields.text(2), given.text, given.typed, pa.array(fields.varints(4))]
    return lists(owner, spans.messages, columns, EVENT)


def _links(spans: Fields) -> pa.ListArray:
    owner, start, end = spans.many(_LINKS)
    fields = scan(spans.buffer, start, end)
    given = attributes(fields, 4)
    columns = [
        trace_ids(fields, 1),
        span_ids(fields, 2),
        fields.text(3),
        given.text,
        given.typed,
        pa.array(fields.varints(5)),
        pa.array(fields.fixed32(6)),
    ]
    return lists(owner, spans.messages, columns, LINK)
