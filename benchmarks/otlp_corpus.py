"""OTLP requests as a fleet of services sends them: the same bytes for the same seed.

Each request is one batch of an SDK: one resource, one or two scopes, 512 records. Attributes follow the semantic
conventions for HTTP, databases, messaging, Kubernetes and runtimes; most are texts, some are numbers or booleans.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

BEGIN = 1_767_225_600_000_000_000  # 2026-01-01
RECORDS = 512
_SERVICES = [f"{team}-{part}" for team in ("cart", "pay", "ship", "user", "ad", "search") for part in ("api", "worker")]
_ROUTES = [f"/api/v1/{noun}/{{id}}{rest}" for noun in ("orders", "users", "items", "carts") for rest in ("", "/events")]
_WORDS = [
    "request",
    "completed",
    "handled",
    "failed",
    "timeout",
    "upstream",
    "connection",
    "retry",
    "cache",
    "miss",
    "hit",
    "order",
    "user",
    "payment",
    "accepted",
    "rejected",
    "queue",
    "message",
    "consumed",
    "produced",
    "latency",
    "budget",
    "exceeded",
    "shard",
    "replica",
    "leader",
    "election",
    "started",
    "stopped",
]
_LEVELS = ((9, "INFO"), (9, "INFO"), (9, "INFO"), (5, "DEBUG"), (13, "WARN"), (17, "ERROR"))


class Corpus:
    """A stream of requests. `corpus.logs()` and the others give one request each, as bytes."""

    def __init__(self, seed: int = 7) -> None:
        self._random = random.Random(seed)
        self._now = BEGIN
        # Users come back, orders are looked at more than once, and a trace has several log records.
        self._users = [f"{self._random.getrandbits(64):016x}" for _ in range(5_000)]
        self._orders = [self._random.randrange(10**9) for _ in range(50_000)]
        self._clients = [f"10.{self._random.randrange(256)}.{self._random.randrange(256)}.7" for _ in range(2_000)]

    def requests(self, size: int) -> Iterator[tuple[str, bytes]]:
        """(signal, request) until they hold `size` bytes: half logs, a third traces, the rest metrics."""
        total = 0
        while total < size:
            signal = self._random.choices(("logs", "traces", "metrics"), (3, 2, 1))[0]
            request: bytes = getattr(self, signal)()
            total += len(request)
            yield signal, request

    def logs(self, records: int = RECORDS) -> bytes:
        request = ExportLogsServiceRequest()
        group = request.resource_logs.add()
        self._resource(group.resource.attributes)
        scope = group.scope_logs.add()
        scope.scope.name, scope.scope.version = "com.example.http.server", "1.4.2"
        trace, span = b"", b""
        for index in range(records):
            if index % 4 == 0:
                trace, span = self._random.randbytes(16), self._random.randbytes(8)
            record = scope.log_records.add()
            self._now += self._random.randrange(2_000_000)
            record.time_unix_nano = self._now
            record.observed_time_unix_nano = self._now + 1_000
            record.severity_number, record.severity_text = self._random.choice(_LEVELS)
            record.body.string_value = " ".join(self._random.choices(_WORDS, k=self._random.randrange(6, 18)))
            if self._random.random() < 0.8:
                record.trace_id, record.span_id = trace, span
                record.flags = 1
            self._request_attributes(record.attributes)
            _set(record.attributes, "code.function.name", f"handle_{self._random.choice(_WORDS)}")
            _set(record.attributes, "thread.id", self._random.randrange(64))
        return request.SerializeToString()

    def traces(self, records: int = RECORDS) -> bytes:
        request = ExportTraceServiceRequest()
        group = request.resource_spans.add()
        self._resource(group.resource.attributes)
        scope = group.scope_spans.add()
        scope.scope.name, scope.scope.version = "io.opentelemetry.http", "2.1.0"
        trace = self._random.randbytes(16)
        for index in range(records):
            span = scope.spans.add()
            if index % 8 == 0:
                trace = self._random.randbytes(16)
            self._now += self._random.randrange(2_000_000)
            span.trace_id, span.span_id = trace, self._random.randbytes(8)
            if index % 8:
                span.parent_span_id = scope.spans[index - 1 - self._random.randrange(index % 8)].span_id
            span.name = f"{self._random.choice(('GET', 'POST'))} {self._random.choice(_ROUTES)}"
            span.kind = self._random.choice((2, 3, 1))
            span.start_time_unix_nano = self._now
            span.end_time_unix_nano = self._now + int(self._random.expovariate(1 / 20_000_000))
            span.flags = 257
            self._request_attributes(span.attributes)
            if self._random.random() < 0.1:
                event = span.events.add()
                event.time_unix_nano, event.name = self._now + 500, "exception"
                _set(event.attributes, "exception.type", "TimeoutError")
                _set(event.attributes, "exception.message", " ".join(self._random.choices(_WORDS, k=8)))
                span.status.code, span.status.message = 2, "upstream timed out"
            if self._random.random() < 0.02:
                link = span.links.add()
                link.trace_id, link.span_id = self._random.randbytes(16), self._random.randbytes(8)
        return request.SerializeToString()

    def metrics(self, records: int = RECORDS) -> bytes:
        request = ExportMetricsServiceRequest()
        group = request.resource_metrics.add()
        self._resource(group.resource.attributes)
        scope = group.scope_metrics.add()
        scope.scope.name = "io.opentelemetry.runtime"
        self._now += 1_000_000
        points = 0
        while points < records:
            metric = scope.metrics.add()
            kind = self._random.choices(
                ("gauge", "sum", "histogram", "exponential_histogram", "summary"), (5, 8, 4, 1, 1)
            )
            metric.name = f"{self._random.choice(_WORDS)}.{kind[0]}.{self._random.choice(_WORDS)}"
            metric.unit, metric.description = "ms", "How long it took, as the server saw it."
            for _ in range(self._random.randrange(4, 16)):
                self._point(metric, kind[0])
                points += 1
        return request.SerializeToString()

    def _point(self, metric: Any, kind: str) -> None:
        data = getattr(metric, kind)
        point = data.data_points.add()
        point.start_time_unix_nano, point.time_unix_nano = BEGIN, self._now
        _set(point.attributes, "http.request.method", self._random.choice(("GET", "POST", "PUT")))
        _set(point.attributes, "http.route", self._random.choice(_ROUTES))
        _set(point.attributes, "http.response.status_code", self._random.choice((200, 200, 404, 500)))
        if kind in ("gauge", "sum"):
            if self._random.random() < 0.5:
                point.as_int = self._random.randrange(1_000_000)
            else:
                point.as_double = self._random.random() * 1000
        else:
            point.count, point.sum = 100, self._random.random() * 1e4
        if kind not in ("gauge", "summary"):
            data.aggregation_temporality = 2
        if kind == "sum":
            data.is_monotonic = True
        if kind == "histogram":
            point.explicit_bounds.extend([0, 5, 10, 25, 50, 75, 100, 250, 500, 750, 1000, 2500, 5000, 7500, 10000])
            point.bucket_counts.extend(self._random.randrange(20) for _ in range(16))
        if kind == "exponential_histogram":
            point.scale, point.zero_count, point.positive.offset = 4, 2, -3
            point.positive.bucket_counts.extend(self._random.randrange(300) for _ in range(40))
        if kind == "summary":
            for quantile in (0.5, 0.9, 0.99):
                point.quantile_values.add(quantile=quantile, value=self._random.random() * 100)

    def _resource(self, attributes: Any) -> None:
        service = self._random.choice(_SERVICES)
        _set(attributes, "service.name", service)
        _set(attributes, "service.version", "3.12.0")
        _set(attributes, "service.instance.id", f"{service}-{self._random.randrange(20)}")
        _set(attributes, "deployment.environment.name", "production")
        _set(attributes, "k8s.namespace.name", "shop")
        _set(attributes, "k8s.pod.name", f"{service}-7d9f{self._random.randrange(1 << 16):04x}")
        _set(attributes, "host.name", f"node-{self._random.randrange(40)}.eu-west.internal")
        _set(attributes, "process.pid", self._random.randrange(1, 40_000))
        _set(attributes, "telemetry.sdk.language", "python")

    def _request_attributes(self, attributes: Any) -> None:
        _set(attributes, "http.request.method", self._random.choice(("GET", "POST", "PUT")))
        _set(attributes, "http.route", self._random.choice(_ROUTES))
        _set(attributes, "url.path", f"/api/v1/orders/{self._random.choice(self._orders)}/events")
        _set(attributes, "http.response.status_code", self._random.choice((200, 200, 200, 201, 404, 500)))
        _set(attributes, "client.address", self._random.choice(self._clients))
        _set(attributes, "user.id", self._random.choice(self._users))
        if self._random.random() < 0.2:
            _set(attributes, "retry", True)
            _set(attributes, "elapsed", self._random.random())


def _set(attributes: Any, key: str, value: str | float | bool) -> None:
    pair = attributes.add()
    pair.key = key
    if isinstance(value, str):
        pair.value.string_value = value
    elif isinstance(value, bool):
        pair.value.bool_value = value
    elif isinstance(value, int):
        pair.value.int_value = value
    else:
        pair.value.double_value = value
