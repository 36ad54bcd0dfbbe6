"""Converts spans to Jaeger's JSON by OpenTelemetry's rules."""

from __future__ import annotations

import math
from typing import Any

import pyarrow as pa

from moulin.console.traces.attributes import Attribute, attributes_of, event_time, in_hex
from moulin.console.traces.spans import outline, rows_once
from moulin.model.rows.nano_datetime import to_rows

COLUMNS = (
    "status_message",
    "trace_state",
    "flags",
    "attributes",
    "attributes_typed",
    "events",
    "links",
    "resource",
    "resource_typed",
    "scope_name",
    "scope_version",
)
"""Columns of spans that traces are made of, besides those of `outline`."""
_RESOURCE_SERVICE = "service.name"
_SAFE = 1 << 53  # what JavaScript counts exactly; Jaeger sends larger numbers as text
Document = dict[str, Any]


def traces_of(found: pa.Table, warnings: list[str]) -> dict[str, Document]:
    """The traces of spans by their ids, each once, with its spans by start."""
    spans = outline(found)
    once = rows_once(spans)
    spans, rows = spans.take(once), to_rows(found.take(once).select(COLUMNS), pairs=True)
    traces: dict[str, Document] = {}
    processes: dict[tuple[str, ...], str] = {}
    lines = spans.to_pylist()
    for index in sorted(range(len(lines)), key=lambda at: (lines[at]["start"], at)):
        line, row = lines[index], rows[index]
        if (trace_id := line["trace_id"]) is None:
            continue
        trace = traces.setdefault(
            trace_id, {"traceID": trace_id, "spans": [], "processes": {}, "warnings": warnings or None}
        )
        key = (trace_id, line["service"], repr(row["resource"]), row["resource_typed"] or "")
        if key not in processes:
            processes[key] = f"p{len(trace['processes']) + 1}"
            trace["processes"][processes[key]] = _process(line["service"], row)
        trace["spans"].append(_span(line, row, processes[key]))
    return traces


def _process(service: str, row: Document) -> Document:
    carried = attributes_of(row["resource"], row["resource_typed"])
    return {
        "serviceName": service or "OTLPResourceNoServiceName",
        "tags": [_tag(one) for one in carried if one.key != _RESOURCE_SERVICE],
    }


def _span(line: Document, row: Document, process: str) -> Document:
    references = [] if line["parent"] is None else [_reference("CHILD_OF", line["trace_id"], line["parent"])]
    for link in row["links"] or ():
        trace_id, span_id = in_hex(link["trace_id"]), in_hex(link["span_id"])
        if trace_id is not None and span_id is not None:
            references.append(_reference("FOLLOWS_FROM", trace_id, span_id))
    tags = [_tag(one) for one in attributes_of(row["attributes"], row["attributes_typed"])]
    told = [
        ("otel.scope.name", row["scope_name"]),
        ("otel.scope.version", row["scope_version"]),
        ("span.kind", line["kind"] if line["kind"] != "unspecified" else None),
        ("otel.status_code", "ERROR" if line["error"] else None),
        ("otel.status_description", row["status_message"]),
        ("w3c.tracestate", row["trace_state"]),
    ]
    tags += [{"key": key, "type": "string", "value": value} for key, value in told if value]
    if line["error"]:
        tags.append({"key": "error", "type": "bool", "value": True})
    return {
        "traceID": line["trace_id"],
        "spanID": line["span_id"] or "0" * 16,
        "flags": (row["flags"] or 0) & 0xFF,
        "operationName": line["name"],
        "references": references,
        "startTime": max(0, line["start"] // 1000),
        "duration": (line["end"] - line["start"]) // 1000,
        "tags": tags,
        "logs": [_log(event) for event in row["events"] or ()],
        "processID": process,
        "warnings": None,
    }


def _reference(kind: str, trace_id: str, span_id: str) -> Document:
    return {"refType": kind, "traceID": trace_id, "spanID": span_id}


def _log(event: Document) -> Document:
    fields = [{"key": "event", "type": "string", "value": event["name"]}] if event["name"] else []
    fields += [_tag(one) for one in attributes_of(event["attributes"], event["attributes_typed"])]
    return {"timestamp": max(0, event_time(event) or 0) // 1000, "fields": fields}


def _tag(one: Attribute) -> Document:
    """A tag of the type that it was sent with; what Jaeger has no type for is text."""
    kind, value = one.kind, _value(one)
    if value is None:
        kind, value = "string", one.value
    return {"key": one.key, "type": kind, "value": value}


def _value(one: Attribute) -> Any:
    """The value in its own type; None where JSON or Jaeger have none."""
    try:
        if one.kind == "bool":
            return one.value == "true"
        if one.kind == "int64":
            return number if -_SAFE < (number := int(one.value)) < _SAFE else one.value
        if one.kind == "float64":
            return real if math.isfinite(real := float(one.value)) else None
    except ValueError:
        return None
    return one.value if one.kind == "binary" else None


__all__ = ["COLUMNS", "Document", "traces_of"]
