"""All fields of one span, and its log records."""

from __future__ import annotations

import time
from typing import Any, Final

import pyarrow as pa

from moulin.console.api.shapes import LONGEST_TEXT, Int64, Shape
from moulin.console.telemetry import GoOn, Moment, nanos
from moulin.console.traces.attributes import attributes_of, event_time, in_hex
from moulin.console.traces.search import spans_of
from moulin.console.traces.spans import id_texts, outline
from moulin.model.columns import compute as pc
from moulin.model.rows.nano_datetime import to_rows

_MOST_SPANS: Final = 10
_MOST_ITEMS: Final = 500
CARRIED: Final = (
    "status_code",
    "status_message",
    "trace_state",
    "attributes",
    "attributes_typed",
    "dropped_attributes",
    "events",
    "dropped_events",
    "links",
    "dropped_links",
    "resource",
    "resource_typed",
    "scope_name",
    "scope_version",
    "scope_attributes",
    "scope_attributes_typed",
)
"""Columns of spans that say more than `outline` does."""


class AttributeShape(Shape):
    """`kind`: string, bool, int64, float64, binary or json. A value that is longer than 2,000 characters is cut."""

    key: str
    kind: str
    value: str


class EventShape(Shape):
    time: Int64 | None
    name: str
    attributes: list[AttributeShape]


class LinkShape(Shape):
    trace_id: str | None
    span_id: str | None
    attributes: list[AttributeShape]


class SpanDetail(Shape):
    """A span. Of events and links, the first 500 are shown."""

    span_id: str | None
    parent_span_id: str | None
    service: str
    name: str
    kind: str
    status_code: str
    status_message: str
    trace_state: str
    start: Int64
    duration: Int64
    scope_name: str
    scope_version: str
    attributes: list[AttributeShape]
    resource: list[AttributeShape]
    scope_attributes: list[AttributeShape]
    events: list[EventShape]
    links: list[LinkShape]
    dropped_attributes: int
    dropped_events: int
    dropped_links: int


class LogLine(Shape):
    """A log record: `severity` is the sender's text, `severity_number` that of OpenTelemetry."""

    time: Int64
    severity: str
    severity_number: int
    service: str
    span_id: str | None
    body: str


def span_details(moment: Moment, trace_id: str, span_id: str, go_on: GoOn, *, at: int | None) -> list[SpanDetail]:
    """The spans of a trace with an id, at most ten: more than one where senders repeated it."""
    found = spans_of(moment, trace_id, CARRIED, go_on, at=at, now=time.time_ns(), span_id=span_id)
    rows = to_rows(found.select(CARRIED), pairs=True)
    details = [_detail(line, row) for line, row in zip(outline(found).to_pylist(), rows, strict=True)]
    return list({repr(one): one for one in details}.values())[:_MOST_SPANS]


def _detail(line: dict[str, Any], row: dict[str, Any]) -> SpanDetail:
    return SpanDetail(
        span_id=line["span_id"],
        parent_span_id=line["parent"],
        service=line["service"],
        name=_cut(line["name"]),
        kind=line["kind"],
        status_code=row["status_code"] or "unset",
        status_message=_cut(row["status_message"] or ""),
        trace_state=_cut(row["trace_state"] or ""),
        start=line["start"],
        duration=line["end"] - line["start"],
        scope_name=_cut(row["scope_name"] or ""),
        scope_version=_cut(row["scope_version"] or ""),
        attributes=_attributes(row, ""),
        resource=_pairs(row["resource"], row["resource_typed"]),
        scope_attributes=_attributes(row, "scope_"),
        events=[
            EventShape(time=event_time(one), name=_cut(one["name"] or ""), attributes=_attributes(one, ""))
            for one in (row["events"] or ())[:_MOST_ITEMS]
        ],
        links=[
            LinkShape(trace_id=in_hex(one["trace_id"]), span_id=in_hex(one["span_id"]), attributes=_attributes(one, ""))
            for one in (row["links"] or ())[:_MOST_ITEMS]
        ],
        dropped_attributes=row["dropped_attributes"] or 0,
        dropped_events=row["dropped_events"] or 0,
        dropped_links=row["dropped_links"] or 0,
    )


def _attributes(row: dict[str, Any], prefix: str) -> list[AttributeShape]:
    return _pairs(row[prefix + "attributes"], row[prefix + "attributes_typed"])


def _pairs(texts: Any, typed: str | None) -> list[AttributeShape]:
    found = attributes_of(texts, typed)[:_MOST_ITEMS]
    return [AttributeShape(key=_cut(one.key), kind=one.kind, value=_cut(one.value)) for one in found]


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else text[:LONGEST_TEXT] + "…"


def log_lines(rows: pa.Table) -> list[LogLine]:
    """Log records in the order in which they are."""
    columns = (
        nanos(rows).tolist(),
        pc.fill_null(rows["severity_text"], "").to_pylist(),
        pc.fill_null(rows["severity_number"], 0).to_pylist(),
        pc.fill_null(rows["service_name"], "").to_pylist(),
        id_texts(rows["span_id"].combine_chunks()).to_pylist(),
        pc.fill_null(rows["body"], "").to_pylist(),
    )
    return [
        LogLine(time=at, severity=text, severity_number=number, service=service, span_id=span, body=_cut(body))
        for at, text, number, service, span, body in zip(*columns, strict=True)
    ]


__all__ = ["CARRIED", "LogLine", "SpanDetail", "log_lines", "span_details"]
