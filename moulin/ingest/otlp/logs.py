"""Log records as columns."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from moulin.ingest.otlp.attributes import attributes, values
from moulin.ingest.otlp.columns import moments, named_times, small, span_ids, trace_ids
from moulin.ingest.otlp.envelope import Envelope, Rows
from moulin.ingest.otlp.wire import BYTES, scan

# DO NOT CHANGE THESE NUMBERS: they are those of opentelemetry.proto.logs.v1.LogRecord.
_TIME, _SEVERITY, _SEVERITY_TEXT, _BODY, _ATTRIBUTES, _DROPPED, _FLAGS = 1, 2, 3, 5, 6, 7, 8
_TRACE_ID, _SPAN_ID, _OBSERVED, _EVENT_NAME = 9, 10, 11, 12


def log_rows(envelope: Envelope) -> list[Rows]:
    fields = scan(envelope.buffer, envelope.start, envelope.end)
    reported, observed = moments(fields, _TIME), moments(fields, _OBSERVED)
    body = values(envelope.buffer, *fields.one(_BODY))
    has_body = fields.find(_BODY, BYTES)[2]
    given = attributes(fields, _ATTRIBUTES)
    columns = {
        **named_times("observed_time", observed),
        "severity_number": small(fields.varints(_SEVERITY)),
        "severity_text": fields.text(_SEVERITY_TEXT),
        "event_name": fields.text(_EVENT_NAME),
        "body": body.text,
        "body_typed": pc.if_else(pa.array(has_body), body.typed, pa.scalar(None, pa.string())),
        "trace_id": trace_ids(fields, _TRACE_ID),
        "span_id": span_ids(fields, _SPAN_ID),
        "flags": fields.fixed32(_FLAGS),
        "attributes": given.text,
        "attributes_typed": given.typed,
        "dropped_attributes": fields.varints(_DROPPED),
    }
    # A record without a time of its own happened, as far as anyone knows, when it was observed.
    return [Rows(columns, envelope.scope, reported, np.where(reported == 0, observed, reported))]
