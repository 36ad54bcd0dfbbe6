"""Checks metadata files, and field ids in Avro schemas, against the specification."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from moulin.iceberg.format.json import Json
from moulin.model.schema.schema import MAX_FIELD_ID

_REQUIRED = {
    1: ("format-version", "location", "last-updated-ms", "last-column-id"),
    2: (
        "format-version", "table-uuid", "location", "last-sequence-number", "last-updated-ms", "last-column-id",
        "schemas", "current-schema-id", "partition-specs", "default-spec-id", "last-partition-id", "sort-orders",
        "default-sort-order-id",
    ),
}  # fmt: skip
_REQUIRED[3] = (*_REQUIRED[2], "next-row-id")
_V3_TYPES = ("timestamp_ns", "timestamptz_ns", "unknown", "variant", "geometry", "geography")
_CLOCK_SKEW_MS = 60_000


@dataclass(frozen=True, slots=True)
class Finding:
    """A violation of the specification."""

    rule: str
    where: str
    found: str


def check(document: Json, where: str) -> Iterator[Finding]:
    """Findings in the metadata alone."""
    version = document.get("format-version")
    if version not in _REQUIRED:
        yield Finding("the format version is 1, 2 or 3", where, repr(version))
        return
    for name in _REQUIRED[version]:
        if document.get(name) is None:
            yield Finding("required fields are present", where, f"{name} is missing")
    yield from _schemas(document, version, where)
    yield from _known(document, "partition-specs", "spec-id", "default-spec-id", where)
    yield from _known(document, "sort-orders", "order-id", "default-sort-order-id", where)
    ids = [f.get("field-id", 0) for spec in document.get("partition-specs", []) for f in spec.get("fields", [])]
    if ids and max(ids) > document.get("last-partition-id", 0):
        yield Finding("last-partition-id is the highest", where, f"{document.get('last-partition-id')} < {max(ids)}")
    yield from _snapshots(document, version, where)


def _schemas(document: Json, version: int, where: str) -> Iterator[Finding]:
    schemas = document.get("schemas") or []
    yield from _known(document, "schemas", "schema-id", "current-schema-id", where)
    highest = 0
    for schema in schemas:
        name = f"{where} schema {schema.get('schema-id')}"
        fields = list(_fields(schema))
        ids = [field["id"] for field in fields]
        highest = max([highest, *ids])
        if len(set(ids)) != len(ids):
            yield Finding("field ids are unique", name, str(sorted(i for i in set(ids) if ids.count(i) > 1)))
        if ids and max(ids) > MAX_FIELD_ID:
            yield Finding("field ids are not reserved ones", name, str(max(ids)))
        by_id = {field["id"]: field for field in fields}
        for number in schema.get("identifier-field-ids") or []:
            field = by_id.get(number)
            if field is None or not field["required"] or field["type"] in ("float", "double"):
                yield Finding("identifier fields are required and not floating", name, f"field {number}")
        for field in fields if version < 3 else ():
            if field["type"] in _V3_TYPES:
                yield Finding("types fit the format version", name, f"{field['name']} is {field['type']}")
            if "initial-default" in field or "write-default" in field:
                yield Finding("defaults exist from version 3 on", name, str(field["name"]))
    if highest > (document.get("last-column-id") or 0):
        yield Finding("last-column-id is the highest", where, f"{document.get('last-column-id')} < {highest}")


def _fields(kind: Any) -> Iterator[Json]:
    """Every field of a type, nested ones too, with `id`, `name`, `required` and `type` (text for primitive ones)."""
    if not isinstance(kind, dict):
        return
    match kind.get("type"):
        case "struct":
            for field in kind.get("fields", []):
                yield {**field, "type": field["type"] if isinstance(field["type"], str) else "nested"}
                yield from _fields(field["type"])
        case "list":
            yield {"id": kind["element-id"], "name": "element", "required": kind["element-required"], "type": "nested"}
            yield from _fields(kind["element"])
        case "map":
            yield {"id": kind["key-id"], "name": "key", "required": True, "type": "nested"}
            yield {"id": kind["value-id"], "name": "value", "required": kind["value-required"], "type": "nested"}
            yield from _fields(kind["key"])
            yield from _fields(kind["value"])


def _known(document: Json, items: str, key: str, current: str, where: str) -> Iterator[Finding]:
    ids = [item.get(key) for item in document.get(items) or []]
    if len(set(ids)) != len(ids):
        yield Finding(f"{key} is unique", where, str(ids))
    if ids and document.get(current) not in ids:
        yield Finding(f"{current} is one of {items}", where, f"{document.get(current)}, there are {ids}")


def _snapshots(document: Json, version: int, where: str) -> Iterator[Finding]:
    snapshots = {one.get("snapshot-id"): one for one in document.get("snapshots") or []}
    if len(snapshots) != len(document.get("snapshots") or []):
        yield Finding("snapshot ids are unique", where, f"{len(snapshots)} ids")
    current = document.get("current-snapshot-id")
    current = None if current == -1 else current
    if current is not None and current not in snapshots:
        yield Finding("the current snapshot is listed", where, str(current))
    refs = document.get("refs") or {}
    if version >= 2 and "main" in refs and refs["main"].get("snapshot-id") != current:
        yield Finding("current-snapshot-id is that of main", where, f"{current}, main is {refs['main']}")
    for name, ref in refs.items():
        if ref.get("snapshot-id") not in snapshots:
            yield Finding("a ref names a listed snapshot", where, f"{name}: {ref.get('snapshot-id')}")
    schema_ids = {schema.get("schema-id") for schema in document.get("schemas") or []}
    last, next_row = document.get("last-sequence-number") or 0, document.get("next-row-id") or 0
    numbers: dict[int, int] = {}
    for number, one in snapshots.items():
        name = f"{where} snapshot {number}"
        sequence = one.get("sequence-number") or 0
        if version >= 2 and sequence > last:
            yield Finding("no snapshot is past last-sequence-number", name, f"{sequence} > {last}")
        if sequence and sequence in numbers:
            yield Finding("sequence numbers are unique", name, f"{sequence}, as snapshot {numbers[sequence]}")
        numbers[sequence] = number
        if one.get("schema-id") is not None and one["schema-id"] not in schema_ids:
            yield Finding("a snapshot's schema is known", name, f"schema {one['schema-id']}")
        if version >= 2 and any(not isinstance(value, str) for value in (one.get("summary") or {}).values()):
            yield Finding("a summary's values are text", name, str(one.get("summary")))
        if version >= 3:
            first, added = one.get("first-row-id"), one.get("added-rows")
            if (first is None) != (added is None):
                yield Finding("a snapshot has both first-row-id and added-rows", name, f"{first} and {added}")
            elif first is not None and added is not None and first + added > next_row:
                yield Finding("a snapshot's rows are below next-row-id", name, f"{first} + {added} > {next_row}")
    log = document.get("snapshot-log") or []
    for one, two in pairwise(log):
        if one["timestamp-ms"] > two["timestamp-ms"] + _CLOCK_SKEW_MS:
            yield Finding("the snapshot log is in order", where, f"{one['timestamp-ms']} before {two['timestamp-ms']}")
    if log and current is not None and log[-1]["snapshot-id"] != current:
        yield Finding("the snapshot log ends with the current snapshot", where, str(log[-1]["snapshot-id"]))


_ENTRY_IDS = {
    "status": 0, "snapshot_id": 1, "sequence_number": 3, "file_sequence_number": 4, "data_file": 2, "content": 134,
    "file_path": 100, "file_format": 101, "partition": 102, "record_count": 103, "file_size_in_bytes": 104,
    "column_sizes": 108, "value_counts": 109, "null_value_counts": 110, "nan_value_counts": 137, "lower_bounds": 125,
    "upper_bounds": 128, "key_metadata": 131, "split_offsets": 132, "equality_ids": 135, "sort_order_id": 140,
    "first_row_id": 142, "referenced_data_file": 143, "content_offset": 144, "content_size_in_bytes": 145,
}  # fmt: skip


def avro_ids(schema: str, where: str) -> Iterator[Finding]:
    """Readers find the fields of a manifest by id: each must carry its own."""
    for field in json.loads(schema).get("fields", []):
        inner = field["type"]["fields"] if field["name"] == "data_file" and isinstance(field["type"], dict) else []
        for one in (field, *inner):
            if _ENTRY_IDS.get(one["name"], one.get("field-id")) != one.get("field-id"):
                yield Finding("manifest fields carry their ids", where, f"{one['name']}: {one.get('field-id')}")
