"""The tables of telemetry: their columns, and how `moulin init --otel` lays them out.

Every row has `event_time` (never after `ingest_time`), `ingest_time` (whole seconds) and `reported_time`, the moment
the sender gave, null when it gave none. A time is a `timestamptz` of microseconds, which every engine reads, and the
column `<time>_unix_nano` beside it has its exact nanoseconds; `ingest_time` needs none. Trace and span ids are
lower-case hex. Attributes come as a map of texts and a JSON text of the others, see `moulin.ingest.otlp.attributes`.

Tables made by earlier versions have `timestamptz_ns` and bytes instead. They keep their columns: `FORMER_SCHEMAS`.
"""

# Decisions: docs/decisions/0074, docs/decisions/0226

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Final, Literal

import pyarrow as pa

from moulin.model.table_settings import ShardingField

Signal = Literal["logs", "traces", "metrics"]
SIGNALS: Final[tuple[Signal, ...]] = ("logs", "traces", "metrics")

DATABASE: Final = "otel"
EVENT_TIME, INGEST_TIME, REPORTED_TIME = "event_time", "ingest_time", "reported_time"
SERVICE: Final = "service_name"

TIME: Final = pa.timestamp("us", tz="UTC")
NANOS: Final = "_unix_nano"
"""What the column of exact nanoseconds is called after its time."""
ID: Final = pa.string()
TEXTS: Final = pa.map_(pa.string(), pa.string())
FORMER_TIME: Final = pa.timestamp("ns", tz="UTC")
FORMER_IDS: Final = MappingProxyType(
    {"trace_id": pa.binary(16), "span_id": pa.binary(8), "parent_span_id": pa.binary(8)}
)


def _time(name: str, *, required: bool = False) -> list[pa.Field]:
    return [pa.field(name, TIME, not required), pa.field(name + NANOS, pa.int64())]


EVENT: Final = pa.struct(
    [
        *_time("time"),
        ("name", pa.string()),
        ("attributes", TEXTS),
        ("attributes_typed", pa.string()),
        ("dropped_attributes", pa.int64()),
    ]
)
LINK: Final = pa.struct(
    [
        ("trace_id", ID),
        ("span_id", ID),
        ("trace_state", pa.string()),
        ("attributes", TEXTS),
        ("attributes_typed", pa.string()),
        ("dropped_attributes", pa.int64()),
        ("flags", pa.int64()),
    ]
)
QUANTILE: Final = pa.struct([("quantile", pa.float64()), ("value", pa.float64())])
EXEMPLAR: Final = pa.struct(
    [
        *_time("time"),
        ("value", pa.float64()),
        ("value_int", pa.int64()),
        ("trace_id", ID),
        ("span_id", ID),
        ("attributes", TEXTS),
        ("attributes_typed", pa.string()),
    ]
)

_TIMES: Final = [
    *_time(EVENT_TIME, required=True),
    pa.field(INGEST_TIME, TIME, nullable=False),
    *_time(REPORTED_TIME),
    pa.field(SERVICE, pa.string()),
]
_ORIGIN: Final = [
    pa.field("attributes", TEXTS),
    pa.field("attributes_typed", pa.string()),
    pa.field("dropped_attributes", pa.int64()),
    pa.field("resource", TEXTS),
    pa.field("resource_typed", pa.string()),
    pa.field("resource_schema_url", pa.string()),
    pa.field("scope_name", pa.string()),
    pa.field("scope_version", pa.string()),
    pa.field("scope_attributes", TEXTS),
    pa.field("scope_attributes_typed", pa.string()),
    pa.field("scope_schema_url", pa.string()),
]

SCHEMAS: Final[Mapping[Signal, pa.Schema]] = MappingProxyType(
    {
        "logs": pa.schema(
            [
                *_TIMES,
                *_time("observed_time"),
                pa.field("severity_number", pa.int32()),
                pa.field("severity_text", pa.string()),
                pa.field("event_name", pa.string()),
                pa.field("body", pa.string()),
                pa.field("body_typed", pa.string()),
                pa.field("trace_id", ID),
                pa.field("span_id", ID),
                pa.field("flags", pa.int64()),
                *_ORIGIN,
            ]
        ),
        "traces": pa.schema(
            [
                *_TIMES,
                *_time("end_time"),
                pa.field("duration_ns", pa.int64()),
                pa.field("trace_id", ID),
                pa.field("span_id", ID),
                pa.field("parent_span_id", ID),
                pa.field("trace_state", pa.string()),
                pa.field("flags", pa.int64()),
                pa.field("name", pa.string()),
                pa.field("kind", pa.string()),
                pa.field("status_code", pa.string()),
                pa.field("status_message", pa.string()),
                pa.field("events", pa.list_(EVENT)),
                pa.field("dropped_events", pa.int64()),
                pa.field("links", pa.list_(LINK)),
                pa.field("dropped_links", pa.int64()),
                *_ORIGIN,
            ]
        ),
        "metrics": pa.schema(
            [
                *_TIMES,
                *_time("start_time"),
                pa.field("name", pa.string()),
                pa.field("description", pa.string()),
                pa.field("unit", pa.string()),
                pa.field("kind", pa.string()),
                pa.field("temporality", pa.string()),
                pa.field("monotonic", pa.bool_()),
                pa.field("value", pa.float64()),
                pa.field("value_int", pa.int64()),
                pa.field("count", pa.int64()),
                pa.field("sum", pa.float64()),
                pa.field("min", pa.float64()),
                pa.field("max", pa.float64()),
                pa.field("bucket_counts", pa.list_(pa.int64())),
                pa.field("explicit_bounds", pa.list_(pa.float64())),
                pa.field("scale", pa.int32()),
                pa.field("zero_count", pa.int64()),
                pa.field("zero_threshold", pa.float64()),
                pa.field("positive_offset", pa.int32()),
                pa.field("positive_counts", pa.list_(pa.int64())),
                pa.field("negative_offset", pa.int32()),
                pa.field("negative_counts", pa.list_(pa.int64())),
                pa.field("quantiles", pa.list_(QUANTILE)),
                pa.field("exemplars", pa.list_(EXEMPLAR)),
                pa.field("metadata", TEXTS),
                pa.field("metadata_typed", pa.string()),
                pa.field("flags", pa.int64()),
                *_ORIGIN,
            ]
        ),
    }
)


def _former_field(field: pa.Field) -> pa.Field:
    if pa.types.is_timestamp(field.type):
        return field.with_type(FORMER_TIME)
    if pa.types.is_list(field.type) and pa.types.is_struct(field.type.value_type):
        return field.with_type(pa.list_(pa.struct(_former_fields(field.type.value_type))))
    return field.with_type(FORMER_IDS.get(field.name, field.type))


def _former_fields(fields: Iterable[pa.Field]) -> list[pa.Field]:
    return [_former_field(field) for field in fields if not field.name.endswith(NANOS)]


FORMER_SCHEMAS: Final[Mapping[Signal, pa.Schema]] = MappingProxyType(
    {signal: pa.schema(_former_fields(schema)) for signal, schema in SCHEMAS.items()}
)
"""The columns of tables that were made up to version 0.1."""

SEGMENT_BYTES: Final = 64 << 20
"""Size of compacted segments: a compaction of 256 MiB then has four to deal rows out to."""
PARTITION_BY: Final = (f"day({EVENT_TIME})",)
SORT_BY: Final = (EVENT_TIME,)
# By what compactions cluster: queries ask for a service, or a metric.
SHARD_BY: Final[Mapping[Signal, tuple[ShardingField, ...]]] = MappingProxyType(
    {
        "logs": (ShardingField(SERVICE, 10.0), ShardingField("severity_text", 1.0)),
        "traces": (ShardingField(SERVICE, 10.0), ShardingField("name", 2.0)),
        "metrics": (ShardingField("name", 10.0), ShardingField(SERVICE, 10.0)),
    }
)


def superset() -> pa.Schema:
    """One schema that takes rows of every signal, for a table that was made without one."""
    fields: dict[str, pa.Field] = {}
    for schema in SCHEMAS.values():
        for field in schema:
            fields.setdefault(field.name, field)
    return pa.schema(list(fields.values()))


def is_former(schema: pa.Schema) -> bool:
    """Whether a table has times in nanoseconds and ids in bytes, as earlier versions made it."""
    return EVENT_TIME in schema.names and schema.field(EVENT_TIME).type == FORMER_TIME


def takes(schema: pa.Schema, signal: Signal) -> bool:
    """Whether a table of this schema can hold every column of a signal's rows."""
    wanted = (FORMER_SCHEMAS if is_former(schema) else SCHEMAS)[signal]
    return all(field.name in schema.names and schema.field(field.name).type == field.type for field in wanted)
