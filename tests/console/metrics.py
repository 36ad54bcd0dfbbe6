"""Points of metrics as a collector stores them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest


@dataclass(frozen=True)
class Point:
    """A point as a test sends it. `value` is that of a gauge or a sum; `counts` with `bounds`, or with `scale` and
    `offset`, are those of a histogram. An exemplar is (time, value, trace id, span id)."""

    time: int
    value: float = 0.0
    attributes: dict[str, str] = field(default_factory=dict)
    start: int = 0
    counts: Sequence[int] = ()
    bounds: Sequence[float] = ()
    total: float = 0.0
    scale: int = 0
    offset: int = 0
    zero: int = 0
    negative: Sequence[int] = ()
    exemplars: Sequence[tuple[int, float, int, int]] = ()
    flags: int = 0


def metric_request(
    name: str,
    kind: str,
    points: Sequence[Point],
    *,
    service: str = "cart",
    unit: str = "",
    temporality: int = 2,
    monotonic: bool = True,
    description: str = "",
    resource: dict[str, str] | None = None,
) -> bytes:
    """One request with the points of one metric. `kind` is gauge, sum, histogram or exponential_histogram."""
    made = ExportMetricsServiceRequest()
    group = made.resource_metrics.add()
    for key, text in {"service.name": service, **(resource or {})}.items():
        group.resource.attributes.add(key=key).value.string_value = text
    scope = group.scope_metrics.add()
    metric = scope.metrics.add(name=name, unit=unit, description=description)
    data = getattr(metric, kind)
    if kind != "gauge":
        data.aggregation_temporality = temporality
    if kind == "sum":
        data.is_monotonic = monotonic
    for one in points:
        _fill(data.data_points.add(time_unix_nano=one.time, start_time_unix_nano=one.start, flags=one.flags), kind, one)
    return made.SerializeToString()  # type: ignore[no-any-return]


def _fill(point: Any, kind: str, one: Point) -> None:
    for key, text in one.attributes.items():
        point.attributes.add(key=key).value.string_value = text
    for time, value, trace, span in one.exemplars:
        point.exemplars.add(
            time_unix_nano=time, as_double=value, trace_id=trace.to_bytes(16, "big"), span_id=span.to_bytes(8, "big")
        )
    if kind in ("gauge", "sum"):
        if isinstance(one.value, int):
            point.as_int = one.value
        else:
            point.as_double = one.value
        return
    point.sum = one.total
    if kind == "histogram":
        point.count = sum(one.counts)
        point.bucket_counts.extend(one.counts)
        point.explicit_bounds.extend(one.bounds)
        return
    point.count = sum(one.counts) + one.zero + sum(one.negative)
    point.scale, point.zero_count = one.scale, one.zero
    point.positive.offset = one.offset
    point.positive.bucket_counts.extend(one.counts)
    if one.negative:
        point.negative.offset = one.offset
        point.negative.bucket_counts.extend(one.negative)
