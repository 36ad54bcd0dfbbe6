"""Points of metrics as columns, one row for each point, a kind of metric at a time."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from moulin.ingest.otlp.attributes import Attributes, attributes
from moulin.ingest.otlp.columns import (
    count_lists,
    counts,
    lists,
    moments,
    named_times,
    names,
    number_lists,
    optional,
    small,
    span_ids,
    times,
    trace_ids,
)
from moulin.ingest.otlp.envelope import Envelope, Rows
from moulin.ingest.otlp.wire import FIXED64, VARINT, Fields, packed, packed_varints, scan, zigzag
from moulin.model.otel import EXEMPLAR, QUANTILE

Columns = dict[str, pa.Array]

# DO NOT CHANGE THE NUMBERS IN THIS MODULE: they are those of opentelemetry.proto.metrics.v1.
_NAME, _DESCRIPTION, _UNIT, _METADATA = 1, 2, 3, 12
_POINTS, _TEMPORALITY, _MONOTONIC = 1, 2, 3
_START, _TIME = 2, 3

TEMPORALITIES = ("unspecified", "delta", "cumulative")


def point_rows(envelope: Envelope) -> list[Rows]:
    metrics = scan(envelope.buffer, envelope.start, envelope.end)
    described = {"name": metrics.text(_NAME), "description": metrics.text(_DESCRIPTION), "unit": metrics.text(_UNIT)}
    metadata = attributes(metrics, _METADATA)
    return [
        _rows(envelope, metrics, described, metadata, number, kind, read)
        for number, (kind, read) in _KINDS.items()
        if metrics.has(number)
    ]


def _rows(
    envelope: Envelope,
    metrics: Fields,
    described: Columns,
    metadata: Attributes,
    number: int,
    kind: str,
    read: Callable[[Fields], Columns],
) -> Rows:
    data = scan(envelope.buffer, *metrics.one(number))
    owner, start, end = data.many(_POINTS)
    points = scan(envelope.buffer, start, end)
    reported = moments(points, _TIME)
    indexes = pa.array(owner)
    about = metadata.take(owner)
    columns = {
        **{name: column.take(indexes) for name, column in described.items()},
        "kind": pa.repeat(kind, len(owner)),
        **named_times("start_time", moments(points, _START)),
        "metadata": about.text,
        "metadata_typed": about.typed,
        **read(points),
    }
    if kind not in ("gauge", "summary"):
        columns["temporality"] = names(data.varints(_TEMPORALITY)[owner], TEMPORALITIES)
    if kind == "sum":
        columns["monotonic"] = pa.array(data.varints(_MONOTONIC)[owner] != 0)
    return Rows(columns, envelope.scope[owner], reported, reported)


def _number(points: Fields) -> Columns:
    whole, is_whole = points.fixed64(6)
    return {
        "value": points.double(4),
        "value_int": optional(whole, is_whole),
        **_attributes(points, 7),
        "exemplars": _exemplars(points, 5),
        "flags": pa.array(points.varints(8)),
    }


def _histogram(points: Fields) -> Columns:
    edges, bounds = packed(points.buffer, *points.ranges(7, FIXED64), points.messages)
    return {
        "count": counts(points, 4),
        "sum": points.double(5),
        "min": points.double(11),
        "max": points.double(12),
        "bucket_counts": count_lists(*packed(points.buffer, *points.ranges(6, FIXED64), points.messages)),
        "explicit_bounds": number_lists(edges, bounds.view(np.float64)),
        **_attributes(points, 9),
        "exemplars": _exemplars(points, 8),
        "flags": pa.array(points.varints(10)),
    }


def _exponential(points: Fields) -> Columns:
    columns: Columns = {
        "count": counts(points, 4),
        "sum": points.double(5),
        "min": points.double(12),
        "max": points.double(13),
        "scale": small(zigzag(points.varints(6))),
        "zero_count": counts(points, 7),
        "zero_threshold": points.double(14),
        **_attributes(points, 1),
        "exemplars": _exemplars(points, 11),
        "flags": pa.array(points.varints(10)),
    }
    for name, number in (("positive", 8), ("negative", 9)):
        buckets = scan(points.buffer, *points.one(number))
        columns[f"{name}_offset"] = small(zigzag(buckets.varints(1)))
        columns[f"{name}_counts"] = count_lists(
            *packed_varints(points.buffer, *buckets.ranges(2, VARINT), points.messages)
        )
    return columns


def _summary(points: Fields) -> Columns:
    owner, start, end = points.many(6)
    quantiles = scan(points.buffer, start, end)
    # Here protobuf leaves out what is 0, so an absent number is 0.
    values = [pa.array(quantiles.fixed64(number)[0].view(np.float64)) for number in (1, 2)]
    return {
        "count": counts(points, 4),
        "sum": pa.array(points.fixed64(5)[0].view(np.float64)),
        "quantiles": lists(owner, points.messages, values, QUANTILE),
        **_attributes(points, 7),
        "flags": pa.array(points.varints(8)),
    }


def _attributes(points: Fields, number: int) -> Columns:
    given = attributes(points, number)
    return {"attributes": given.text, "attributes_typed": given.typed}


def _exemplars(points: Fields, number: int) -> pa.ListArray:
    owner, start, end = points.many(number)
    fields = scan(points.buffer, start, end)
    given = attributes(fields, 7)
    whole, is_whole = fields.fixed64(6)
    columns = [
        *times(moments(fields, 2)),
        fields.double(3),
        optional(whole, is_whole),
        trace_ids(fields, 5),
        span_ids(fields, 4),
        given.text,
        given.typed,
    ]
    return lists(owner, points.messages, columns, EXEMPLAR)


_KINDS: dict[int, tuple[str, Callable[[Fields], Columns]]] = {
    5: ("gauge", _number),
    7: ("sum", _number),
    9: ("histogram", _histogram),
    10: ("exponential_histogram", _exponential),
    11: ("summary", _summary),
}
