"""Generated telemetry of a fleet of services for the tour; deterministic for a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from moulin.model.otel import Signal

SERVICES = ("cart", "checkout", "payment", "search", "shipping")
_ROUTES = ("/items", "/items/{id}", "/orders", "/orders/{id}")
_ERROR, _UNSET = 2, 0


def fleet(requests: int, now: int, *, records: int = 400, seed: int = 3) -> Iterator[tuple[Signal, bytes]]:
    """Alternating requests of traces and logs, each from one service; `now` is in nanoseconds. Payment fails often."""
    dice = random.Random(seed)
    for number in range(requests):
        service = SERVICES[number // 2 % len(SERVICES)]
        yield (
            ("traces", _spans(dice, service, now, records))
            if number % 2
            else (
                "logs",
                _logs(dice, service, now, records),
            )
        )


def _spans(dice: random.Random, service: str, now: int, records: int) -> bytes:
    made = ExportTraceServiceRequest()
    group = made.resource_spans.add()
    group.resource.attributes.add(key="service.name").value.string_value = service
    scope = group.scope_spans.add()
    scope.scope.name = "http.server"
    for _ in range(records):
        route = dice.choice(_ROUTES)
        span = scope.spans.add(name=f"GET {route}", kind=2, trace_id=dice.randbytes(16), span_id=dice.randbytes(8))
        taken = int(dice.lognormvariate(16.5, 0.8))
        span.end_time_unix_nano = now - dice.randrange(10**10)
        span.start_time_unix_nano = span.end_time_unix_nano - taken
        failed = dice.random() < (0.08 if service == "payment" else 0.01)
        span.status.code = _ERROR if failed else _UNSET
        span.attributes.add(key="http.route").value.string_value = route
        span.attributes.add(key="http.response.status_code").value.int_value = 500 if failed else 200
    return made.SerializeToString()  # type: ignore[no-any-return]


def _logs(dice: random.Random, service: str, now: int, records: int) -> bytes:
    made = ExportLogsServiceRequest()
    group = made.resource_logs.add()
    group.resource.attributes.add(key="service.name").value.string_value = service
    scope = group.scope_logs.add()
    for _ in range(records):
        failed = dice.random() < 0.02
        record = scope.log_records.add(time_unix_nano=now - dice.randrange(10**10), severity_number=17 if failed else 9)
        record.severity_text = "ERROR" if failed else "INFO"
        record.body.string_value = f"{'timed out' if failed else 'served'} {dice.choice(_ROUTES)}"
        record.attributes.add(key="user.id").value.string_value = f"u{dice.randrange(5000)}"
    return made.SerializeToString()  # type: ignore[no-any-return]
