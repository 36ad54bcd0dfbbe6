"""Log records as a collector stores them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

from tests.pipeline.nursery.test_nursery import Writer as Writer


def request(records: Sequence[tuple[Any, ...]], *, service: str = "cart", severity: int = 9) -> bytes:
    """Records, each (time, body), perhaps with attributes and a severity."""
    made = ExportLogsServiceRequest()
    group = made.resource_logs.add()
    group.resource.attributes.add(key="service.name").value.string_value = service
    scope = group.scope_logs.add()
    for at, body, *rest in records:
        record = scope.log_records.add(time_unix_nano=at, severity_number=rest[1] if len(rest) > 1 else severity)
        record.body.string_value = body
        for key, value in (rest[0] if rest else {}).items():
            record.attributes.add(key=key).value.string_value = value
    return made.SerializeToString()  # type: ignore[no-any-return]
