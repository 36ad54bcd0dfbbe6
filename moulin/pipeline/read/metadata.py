"""Metadata tables such as `shop.orders.history` in `lake.sql`.

Names and types of columns are guaranteed (docs/semantics.md). New columns go to the end.
"""

# Decisions: docs/decisions/0251

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import pyarrow as pa

from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.layout.partition import PartitionTuple, format_partition
from moulin.model.tags import refs_of
from moulin.storage.segment_source import key_index_of
from moulin.table.index.index import list_indexes

_TIME = pa.timestamp("us", tz="UTC")
_SCHEMAS: Mapping[str, pa.Schema] = MappingProxyType(
    {
        "history": pa.schema(
            {
                "version": pa.int64(),
                "ordinal": pa.int32(),
                "timestamp": _TIME,
                "operation": pa.string(),
                "added_rows": pa.int64(),
                "schema_id": pa.int32(),
                "spec_id": pa.int32(),
                "sequence": pa.int64(),
                "snapshot_id": pa.int64(),
                "summary": pa.map_(pa.string(), pa.string()),
            }
        ),
        "segments": pa.schema(
            {
                "segment": pa.int64(),
                "partition": pa.string(),
                "level": pa.int32(),
                "rows": pa.int64(),
                "deleted_rows": pa.int64(),
                "bytes": pa.int64(),
                "time_min": _TIME,
                "time_max": _TIME,
                "added_version": pa.int64(),
                "first_row_id": pa.int64(),
                "sequence": pa.int64(),
                "schema_id": pa.int32(),
                "spec_id": pa.int32(),
                "sort_order_id": pa.int32(),
                "region": pa.int32(),
            }
        ),
        "partitions": pa.schema(
            {
                "partition": pa.string(),
                "spec_id": pa.int32(),
                "segments": pa.int64(),
                "rows": pa.int64(),
                "bytes": pa.int64(),
                "time_min": _TIME,
                "time_max": _TIME,
                "newest_version": pa.int64(),
            }
        ),
        "tags": pa.schema({"name": pa.string(), "version": pa.int64(), "kind": pa.string()}),
        "indexes": pa.schema(
            {
                "name": pa.string(),
                "column": pa.string(),
                "kind": pa.string(),
                "covered_segments": pa.int64(),
                "segments": pa.int64(),
                "files": pa.int64(),
                "bytes": pa.int64(),
                "created_version": pa.int64(),
                "created_at": _TIME,
            }
        ),
        "files": pa.schema(
            {
                "segment": pa.int64(),
                "content": pa.string(),
                "address": pa.string(),
                "offset": pa.int64(),
                "bytes": pa.int64(),
                "records": pa.int64(),
                "sha256": pa.string(),
            }
        ),
    }
)

METADATA = frozenset(_SCHEMAS)
"""The last parts of names that mean metadata."""

WITH_ADDRESSES = frozenset({"files"})
"""Those that show where files are."""


def metadata_of(lake: Lake, state: TableState, kind: str) -> pa.Table:
    """The metadata of a table at the version of `state`; its indexes as they are now."""
    return _MAKERS[kind](lake, state)


def _history(lake: Lake, state: TableState) -> pa.Table:
    found = (info for info in lake.catalog.history(state.id) if info.version <= state.version)
    return _table(
        "history",
        (
            (
                info.version,
                info.ordinal,
                _micros(info.timestamp_ns),
                str(info.kind),
                info.added_rows,
                info.schema_id,
                info.spec_id,
                info.sequence,
                info.snapshot_id,
                list(info.summary.items()),
            )
            for info in found
        ),
    )


def _segments(lake: Lake, state: TableState) -> pa.Table:
    partition = _Partitions(state)
    return _table(
        "segments",
        (
            (
                segment.facts.number,
                partition(segment),
                segment.facts.level,
                segment.live_rows,
                segment.facts.rows - segment.live_rows,
                segment.facts.size,
                _micros(segment.facts.time_min),
                _micros(segment.facts.time_max),
                segment.added_version,
                segment.first_row_id,
                segment.sequence,
                segment.facts.schema_id,
                segment.facts.spec_id,
                segment.facts.sort_order_id,
                segment.facts.region,
            )
            for segment in _live(lake, state)
        ),
    )


def _partitions(lake: Lake, state: TableState) -> pa.Table:
    grouped = _segments(lake, state).group_by(["partition", "spec_id"], use_threads=False)
    summed = grouped.aggregate(
        [
            ("segment", "count"),
            ("rows", "sum"),
            ("bytes", "sum"),
            ("time_min", "min"),
            ("time_max", "max"),
            ("added_version", "max"),
        ]
    )
    schema = _SCHEMAS["partitions"]
    return (
        summed.rename_columns(schema.names).cast(schema).sort_by([("spec_id", "ascending"), ("partition", "ascending")])
    )


def _files(lake: Lake, state: TableState) -> pa.Table:
    root = lake.store.uri.rstrip("/")
    rows: list[tuple[Any, ...]] = []
    for segment in _live(lake, state):
        facts, vector = segment.facts, segment.vector
        digest = facts.sha256.hex() or None
        rows.append((facts.number, "data", f"{root}/{facts.path}", 0, facts.size, facts.rows, digest))
        for file in facts.files:
            where = f"{root}/{file.path}"
            rows.append((facts.number, "columns", where, 0, file.size, facts.rows, file.sha256.hex()))
        if facts.index_size:
            address = f"{root}/{key_index_of(facts)}"
            rows.append((facts.number, "key_index", address, 0, facts.index_size, facts.rows, None))
        if vector is not None:
            placed = (f"{root}/{vector.path}", vector.offset, vector.length, vector.cardinality, None)
            rows.append((facts.number, "deletion_vector", *placed))
    return _table("files", rows)


def _tags(lake: Lake, state: TableState) -> pa.Table:
    return _table("tags", ((ref.name, ref.version, ref.kind) for ref in refs_of(state.properties).values()))


def _indexes(lake: Lake, state: TableState) -> pa.Table:
    return _table(
        "indexes",
        (
            (
                one.name,
                one.column,
                one.kind,
                one.covered,
                one.segments,
                one.files,
                one.bytes,
                one.created_version,
                _micros(one.created_at),
            )
            for one in list_indexes(lake.context, state)
        ),
    )


_MAKERS: Mapping[str, Callable[[Lake, TableState], pa.Table]] = MappingProxyType(
    {
        "history": _history,
        "segments": _segments,
        "partitions": _partitions,
        "files": _files,
        "tags": _tags,
        "indexes": _indexes,
    }
)


class _Partitions:
    """The partitions of segments as people read them; each is spelled once."""

    def __init__(self, state: TableState) -> None:
        self._state = state
        self._spelled: dict[tuple[int, PartitionTuple], str] = {}

    def __call__(self, segment: LiveSegment) -> str:
        key = segment.facts.spec_id, segment.facts.partition
        if key not in self._spelled:
            self._spelled[key] = format_partition(self._state.specs[key[0]], self._state.schema, key[1])
        return self._spelled[key]


def _live(lake: Lake, state: TableState) -> list[LiveSegment]:
    return lake.catalog.segments(state.id, state.version, with_columns=False)


def _micros(nanos: int | None) -> int | None:
    return None if nanos is None else nanos // 1000


def _table(kind: str, rows: Iterable[Sequence[Any]]) -> pa.Table:
    schema = _SCHEMAS[kind]
    columns = list(zip(*rows, strict=True)) or [()] * len(schema)
    return pa.table(
        [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema=schema
    )


__all__ = ["METADATA", "WITH_ADDRESSES", "metadata_of"]
