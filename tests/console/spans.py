"""Spans as a collector stores them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Sent:
    """A span as a test sends it; ids are numbers, times are nanoseconds."""

    trace: int
    id: int
    parent: int | None
    start: int
    end: int
    service: str = "cart"
    name: str = "GET /"
    failed: bool = False
    attributes: dict[str, Any] = field(default_factory=dict)
    events: tuple[tuple[int, str, dict[str, str]], ...] = ()
    links: tuple[tuple[int, int], ...] = ()
    kind: int = 2

    @property
    def trace_id(self) -> str:
        return f"{self.trace:032x}"

    @property
    def span_id(self) -> str:
        return f"{self.id:016x}"


def span_request(spans: Sequence[Sent]) -> bytes:
    """One request with the spans, by service."""
    made = ExportTraceServiceRequest()
    for service in dict.fromkeys(one.service for one in spans):
        group = made.resource_spans.add()
        _attribute(group.resource.attributes, "service.name", service)
        _attribute(group.resource.attributes, "host.name", "h1")
        scope = group.scope_spans.add()
        scope.scope.name, scope.scope.version = "http.server", "1.2"
        for one in (one for one in spans if one.service == service):
            span = scope.spans.add(name=one.name, kind=one.kind)
            span.trace_id, span.span_id = one.trace.to_bytes(16, "big"), one.id.to_bytes(8, "big")
            if one.parent is not None:
                span.parent_span_id = one.parent.to_bytes(8, "big")
            span.start_time_unix_nano, span.end_time_unix_nano = one.start, one.end
            span.status.code = 2 if one.failed else 0
            for key, value in one.attributes.items():
                _attribute(span.attributes, key, value)
            for at, name, attributes in one.events:
                event = span.events.add(time_unix_nano=at, name=name)
                for key, value in attributes.items():
                    _attribute(event.attributes, key, value)
            for trace, linked in one.links:
                span.links.add(trace_id=trace.to_bytes(16, "big"), span_id=linked.to_bytes(8, "big"))
    return made.SerializeToString()  # type: ignore[no-any-return]


def _attribute(attributes: Any, key: str, value: Any) -> None:
    found = attributes.add(key=key).value
    if isinstance(value, bool):
        found.bool_value = value
    elif isinstance(value, int):
        found.int_value = value
    elif isinstance(value, float):
        found.double_value = value
    elif isinstance(value, bytes):
        found.bytes_value = value
    else:
        found.string_value = value
