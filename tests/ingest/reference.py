"""OTLP decoded the slow and obvious way, with protobuf's own classes, to compare with; and strange requests."""

from __future__ import annotations

import base64
import json
import math
import random
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from moulin.ingest.otlp.attributes import plain
from moulin.model.otel import FORMER_SCHEMAS

LATEST = 2**63 - 1
KINDS = ["unspecified", "internal", "server", "client", "producer", "consumer"]


def rows(signal: str, data: bytes, ingest: int) -> list[dict[str, Any]]:
    """Each row as a dict of plain values; times in microseconds, maps as lists of pairs."""
    return [_current(row) for row in former_rows(signal, data, ingest)]


def _current(row: dict[str, Any]) -> dict[str, Any]:
    """Times in microseconds with their nanoseconds beside them, ids in hex."""
    found: dict[str, Any] = {}
    for name, value in row.items():
        if name == "ingest_time":
            found[name] = value // 1000
        elif name == "time" or name.endswith("_time"):
            found |= {name: None if value is None else value // 1000, f"{name}_unix_nano": value}
        elif isinstance(value, bytes):
            found[name] = value.hex()
        elif isinstance(value, list) and value and isinstance(value[0], dict):
            found[name] = [_current(one) for one in value]
        else:
            found[name] = value
    return found


def former_rows(signal: str, data: bytes, ingest: int) -> list[dict[str, Any]]:
    """Each row in the columns of tables that earlier versions made: times in nanoseconds, ids as bytes."""
    found: list[dict[str, Any]] = []
    if signal == "logs":
        for group in ExportLogsServiceRequest.FromString(data).resource_logs:
            for scope in group.scope_logs:
                found += [{**_log(r, ingest), **_origin(group, scope)} for r in scope.log_records]
    elif signal == "traces":
        for group in ExportTraceServiceRequest.FromString(data).resource_spans:
            for scope in group.scope_spans:
                found += [{**_span(r, ingest), **_origin(group, scope)} for r in scope.spans]
    else:
        for group in ExportMetricsServiceRequest.FromString(data).resource_metrics:
            for scope in group.scope_metrics:
                for metric in scope.metrics:
                    found += [{**row, **_origin(group, scope)} for row in _points(metric, ingest)]
    empty = dict.fromkeys(FORMER_SCHEMAS[signal].names)  # type: ignore[index]
    return [{**empty, **row} for row in found]


def _times(reported: int, happened: int, ingest: int) -> dict[str, Any]:
    reported, happened = min(reported, LATEST), min(happened, LATEST)
    event = min(happened, ingest) if happened else ingest
    return {"event_time": event, "ingest_time": ingest, "reported_time": reported or None}


def _log(r: Any, ingest: int) -> dict[str, Any]:
    text, typed = _value(r.body)
    return {
        **_times(r.time_unix_nano, r.time_unix_nano or r.observed_time_unix_nano, ingest),
        "observed_time": min(r.observed_time_unix_nano, LATEST) or None,
        "severity_number": r.severity_number,
        "severity_text": r.severity_text or None,
        "event_name": r.event_name or None,
        "body": text,
        "body_typed": typed if r.HasField("body") else None,
        "trace_id": _id(r.trace_id, 16),
        "span_id": _id(r.span_id, 8),
        "flags": r.flags,
        **_attributes("attributes", r.attributes),
        "dropped_attributes": r.dropped_attributes_count,
    }


def _span(r: Any, ingest: int) -> dict[str, Any]:
    begin, end = min(r.start_time_unix_nano, LATEST), min(r.end_time_unix_nano, LATEST)
    return {
        **_times(begin, begin, ingest),
        "end_time": end or None,
        "duration_ns": end - begin if begin and end else None,
        "trace_id": _id(r.trace_id, 16),
        "span_id": _id(r.span_id, 8),
        "parent_span_id": _id(r.parent_span_id, 8),
        "trace_state": r.trace_state or None,
        "flags": r.flags,
        "name": r.name or None,
        "kind": _name(KINDS, r.kind),
        "status_code": _name(["unset", "ok", "error"], r.status.code),
        "status_message": r.status.message or None,
        "events": [
            {
                "time": min(e.time_unix_nano, LATEST) or None,
                "name": e.name or None,
                **_attributes("attributes", e.attributes),
                "dropped_attributes": e.dropped_attributes_count,
            }
            for e in r.events
        ],
        "dropped_events": r.dropped_events_count,
        "links": [
            {
                "trace_id": _id(e.trace_id, 16),
                "span_id": _id(e.span_id, 8),
                "trace_state": e.trace_state or None,
                **_attributes("attributes", e.attributes),
                "dropped_attributes": e.dropped_attributes_count,
                "flags": e.flags,
            }
            for e in r.links
        ],
        "dropped_links": r.dropped_links_count,
        **_attributes("attributes", r.attributes),
        "dropped_attributes": r.dropped_attributes_count,
    }


def _points(metric: Any, ingest: int) -> list[dict[str, Any]]:
    kind = metric.WhichOneof("data")
    if kind is None:
        return []
    data = getattr(metric, kind)
    found = []
    for p in data.data_points:
        row = {
            **_times(p.time_unix_nano, p.time_unix_nano, ingest),
            "start_time": min(p.start_time_unix_nano, LATEST) or None,
            "name": metric.name or None,
            "description": metric.description or None,
            "unit": metric.unit or None,
            "kind": kind,
            **_attributes("metadata", metric.metadata),
            **_attributes("attributes", p.attributes),
            "flags": p.flags,
        }
        if kind in ("gauge", "sum"):
            row["value"] = p.as_double if p.WhichOneof("value") == "as_double" else None
            row["value_int"] = p.as_int if p.WhichOneof("value") == "as_int" else None
        else:
            row["count"] = min(p.count, LATEST) or None
            row["sum"] = p.sum if kind == "summary" or p.HasField("sum") else None
        if kind in ("histogram", "exponential_histogram"):
            row["min"] = p.min if p.HasField("min") else None
            row["max"] = p.max if p.HasField("max") else None
        if kind == "histogram":
            row["bucket_counts"] = [min(n, LATEST) for n in p.bucket_counts]
            row["explicit_bounds"] = list(p.explicit_bounds)
        if kind == "exponential_histogram":
            row["scale"] = p.scale
            row["zero_count"] = min(p.zero_count, LATEST) or None
            row["zero_threshold"] = p.zero_threshold or None
            for name, buckets in (("positive", p.positive), ("negative", p.negative)):
                row[f"{name}_offset"] = buckets.offset
                row[f"{name}_counts"] = [min(n, LATEST) for n in buckets.bucket_counts]
        if kind == "summary":
            row["quantiles"] = [{"quantile": q.quantile, "value": q.value} for q in p.quantile_values]
        else:
            row["exemplars"] = [
                {
                    "time": min(e.time_unix_nano, LATEST) or None,
                    "value": e.as_double if e.WhichOneof("value") == "as_double" else None,
                    "value_int": e.as_int if e.WhichOneof("value") == "as_int" else None,
                    "trace_id": _id(e.trace_id, 16),
                    "span_id": _id(e.span_id, 8),
                    **_attributes("attributes", e.filtered_attributes),
                }
                for e in p.exemplars
            ]
        if kind not in ("gauge", "summary"):
            row["temporality"] = _name(["unspecified", "delta", "cumulative"], data.aggregation_temporality)
        if kind == "sum":
            row["monotonic"] = data.is_monotonic
        found.append(row)
    return found


def _origin(group: Any, scope: Any) -> dict[str, Any]:
    service = [text for key, text in _attributes("a", group.resource.attributes)["a"] if key == "service.name"]
    return {
        "service_name": service[0] if service else None,
        **_attributes("resource", group.resource.attributes),
        "resource_schema_url": group.schema_url or None,
        "scope_name": scope.scope.name or None,
        "scope_version": scope.scope.version or None,
        **_attributes("scope_attributes", scope.scope.attributes),
        "scope_schema_url": scope.schema_url or None,
    }


def _attributes(name: str, pairs: Any) -> dict[str, Any]:
    last: dict[str, Any] = {}
    for pair in pairs:
        last.pop(pair.key, None)  # the last one counts, where it stands
        last[pair.key] = pair.value
    texts = [(key, _value(value)[0]) for key, value in last.items()]
    typed = [f"{json.dumps(k, ensure_ascii=False)}:{t}" for k, v in last.items() if (t := _value(v)[1]) is not None]
    return {name: texts, f"{name}_typed": "{" + ",".join(typed) + "}" if typed else None}


def _value(value: Any) -> tuple[str | None, str | None]:
    kind = value.WhichOneof("value")
    if kind is None:
        return None, "null"
    if kind == "string_value":
        return value.string_value, None
    if kind == "bytes_value":
        return base64.b64encode(value.bytes_value).decode(), _dumps(plain(value))
    if kind == "double_value" and not math.isfinite(value.double_value):
        return repr(value.double_value), _dumps(plain(value))
    text = _dumps(plain(value))
    return text, text


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _name(known: list[str], number: int) -> str:
    return known[number] if 0 <= number < len(known) else str(number)


def _id(value: bytes, size: int) -> bytes | None:
    return value if len(value) == size and any(value) else None


class Generator:
    """Random requests, small and strange: empty things, missing things, every kind of value, long numbers."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def request(self, signal: str) -> bytes:
        return getattr(self, f"_{signal}")().SerializeToString()  # type: ignore[no-any-return]

    def _logs(self) -> Any:
        request = ExportLogsServiceRequest()
        for _ in range(self._few()):
            group = request.resource_logs.add()
            self._around(group)
            for _ in range(self._few()):
                scope = group.scope_logs.add()
                self._scope(scope)
                for _ in range(self._count()):
                    r = scope.log_records.add()
                    r.time_unix_nano, r.observed_time_unix_nano = self._time(), self._time()
                    r.severity_number, r.severity_text = self.random.randrange(25), self._text()
                    r.event_name, r.flags = self._text(), self.random.choice((0, 1, 2**32 - 1))
                    r.trace_id, r.span_id = self._id(16), self._id(8)
                    r.dropped_attributes_count = self.random.choice((0, 3, 2**32 - 1))
                    self._attributes(r.attributes)
                    if self.random.random() < 0.8:
                        self._any(r.body)
        return request

    def _traces(self) -> Any:
        request = ExportTraceServiceRequest()
        for _ in range(self._few()):
            group = request.resource_spans.add()
            self._around(group)
            for _ in range(self._few()):
                scope = group.scope_spans.add()
                self._scope(scope)
                for _ in range(self._count()):
                    r = scope.spans.add()
                    r.start_time_unix_nano, r.end_time_unix_nano = self._time(), self._time()
                    r.trace_id, r.span_id, r.parent_span_id = self._id(16), self._id(8), self._id(8)
                    r.name, r.trace_state, r.kind = self._text(), self._text(), self.random.randrange(6)
                    r.flags, r.dropped_events_count = self.random.choice((0, 257)), self._few()
                    self._attributes(r.attributes)
                    for _ in range(self._few()):
                        e = r.events.add(time_unix_nano=self.random.randrange(10**18), name=self._text())
                        self._attributes(e.attributes)
                    for _ in range(self._few()):
                        link = r.links.add(trace_id=self._id(16), span_id=self._id(8), flags=self._few())
                        self._attributes(link.attributes)
                    if self.random.random() < 0.5:
                        r.status.code, r.status.message = self.random.randrange(3), self._text()
        return request

    def _metrics(self) -> Any:
        request = ExportMetricsServiceRequest()
        for _ in range(self._few()):
            group = request.resource_metrics.add()
            self._around(group)
            for _ in range(self._few()):
                scope = group.scope_metrics.add()
                self._scope(scope)
                for _ in range(self._count()):
                    metric = scope.metrics.add(name=self._text(), unit=self._text(), description=self._text())
                    self._attributes(metric.metadata)
                    kind = self.random.choice(("gauge", "sum", "histogram", "exponential_histogram", "summary", ""))
                    if kind:
                        getattr(metric, kind).SetInParent()
                        for _ in range(self._few()):
                            self._point(getattr(metric, kind), kind)
        return request

    def _point(self, data: Any, kind: str) -> None:
        p = data.data_points.add(start_time_unix_nano=self._time(), time_unix_nano=self._time(), flags=self._few())
        self._attributes(p.attributes)
        if kind in ("gauge", "sum"):
            self._number(p)
        else:
            p.count = self.random.randrange(1, 2**40)
        if kind == "sum":
            data.is_monotonic = self.random.random() < 0.5
        if kind not in ("gauge", "summary"):
            data.aggregation_temporality = self.random.randrange(3)
        if kind in ("histogram", "exponential_histogram") and self.random.random() < 0.5:
            p.sum, p.min, p.max = self._double(), self._double(), 0.0
        if kind == "histogram":
            p.bucket_counts.extend(self.random.randrange(2**62) for _ in range(self._few()))
            p.explicit_bounds.extend(self._double() for _ in range(self._few()))
        if kind == "exponential_histogram":
            p.scale, p.zero_count = self.random.randrange(-5, 20), self.random.randrange(1, 300)
            p.positive.offset = self.random.randrange(-1000, 1000)
            p.positive.bucket_counts.extend(self.random.choice((0, 1, 300, 2**60)) for _ in range(self._few()))
            if self.random.random() < 0.5:
                p.negative.bucket_counts.extend(self.random.choice((0, 1, 300, 2**60)) for _ in range(self._few()))
        if kind == "summary":
            p.sum = self.random.choice((0.0, 2.5))
            for _ in range(self._few()):
                p.quantile_values.add(quantile=self.random.choice((0.0, 0.5)), value=self._double())
        else:
            for _ in range(self._few()):
                e = p.exemplars.add(time_unix_nano=self._few(), trace_id=self._id(16), span_id=self._id(8))
                self._number(e)
                self._attributes(e.filtered_attributes)

    def _number(self, p: Any) -> None:
        choice = self.random.randrange(3)
        if choice == 0:
            p.as_int = self.random.choice((0, -1, 2**63 - 1, -(2**63)))
        elif choice == 1:
            p.as_double = self._double()

    def _around(self, group: Any) -> None:
        if self.random.random() < 0.8:
            self._attributes(group.resource.attributes)
            if self.random.random() < 0.5:
                group.resource.attributes.add(key="service.name").value.string_value = self._text()
        group.schema_url = self.random.choice(("", "https://opentelemetry.io/schemas/1.9.0"))

    def _scope(self, scope: Any) -> None:
        if self.random.random() < 0.8:
            scope.scope.name, scope.scope.version = self._text(), self._text()
            self._attributes(scope.scope.attributes)

    def _attributes(self, pairs: Any) -> None:
        for _ in range(self._few()):
            pair = pairs.add(key=self._text())
            if self.random.random() < 0.9:
                self._any(pair.value)

    def _any(self, value: Any, depth: int = 0) -> None:
        kind = self.random.randrange(9)
        if kind <= 2:
            value.string_value = self._text()
        elif kind == 3:
            value.bool_value = self.random.random() < 0.5
        elif kind == 4:
            value.int_value = self.random.choice((0, 1, 127, 128, 300, -1, 2**63 - 1, -(2**63), 2**35))
        elif kind == 5:
            value.double_value = self.random.choice((self._double(), math.nan, math.inf, -math.inf, 1.0))
        elif kind == 6 and depth < 3:
            value.array_value.SetInParent()
            for _ in range(self._few()):
                self._any(value.array_value.values.add(), depth + 1)
        elif kind == 7 and depth < 3:
            value.kvlist_value.SetInParent()
            for key in {self._text() for _ in range(self._few())}:
                self._any(value.kvlist_value.values.add(key=key).value, depth + 1)
        elif kind == 8:
            value.bytes_value = self.random.randbytes(self._few())

    def _text(self) -> str:
        return self.random.choice(("", "a", "service.name", "naïve ☃", 'quo"te\\', "$bytes", "line\nend", "x" * 200))

    def _double(self) -> float:
        return self.random.choice((0.0, -0.0, 1.5, 1e300, -2.0, self.random.random()))

    def _time(self) -> int:
        return self.random.choice((0, 1, 10**18, 2 * 10**18, 2**63 - 1, 2**64 - 1, self.random.randrange(10**18)))

    def _id(self, size: int) -> bytes:
        return self.random.choice((b"", b"\0" * size, b"bad", self.random.randbytes(size), self.random.randbytes(size)))

    def _few(self) -> int:
        return self.random.choice((0, 0, 1, 1, 2, 3))

    def _count(self) -> int:
        return self.random.choice((0, 1, 3, 8, 120))
