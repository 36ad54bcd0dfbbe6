"""The metadata of a table for Iceberg engines, as JSON of the specification. See docs/formats/iceberg.md."""

# Decisions: docs/decisions/0063, docs/decisions/0515

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from pyiceberg.table.name_mapping import create_mapping_from_schema

from moulin.catalog.objects.projections import DataCommit
from moulin.errors import FailedPrecondition, InvalidInput
from moulin.iceberg.format.json import Json
from moulin.iceberg.format.pyiceberg_values import to_pyiceberg_schema
from moulin.model.entities import TableState
from moulin.model.layout.partition import FIRST_FIELD_ID
from moulin.model.layout.partition_spec import spec_document
from moulin.model.layout.sort_order import UNSORTED_SORT_ORDER, order_document
from moulin.model.operations import Kind
from moulin.model.schema.documents import plain_schema, schema_document
from moulin.model.schema.values import (
    IcebergType,
    ListType,
    MapType,
    Schema,
    StructType,
    TimestampNanoType,
    TimestamptzNanoType,
)
from moulin.model.tags import PARTITION_STATISTICS_PREFIX, STATISTICS_PREFIX, Ref, shown, statistics_of

FORMAT_PROPERTY = "format-version"
NAME_MAPPING = "schema.name-mapping.default"
VERSION_KEY = "moulin.version"
"""Key in a snapshot's summary: the version of the lake that it stands for."""

PREVIOUS_VERSIONS = "write.metadata.previous-versions-max"
LOG_ENTRIES = 100
SNAPSHOTS = 256
"""Earlier snapshots that metadata lists at most. Older versions that are kept can be projected by themselves."""

_MILLI = 1_000_000
_OPERATIONS = {
    Kind.APPEND: "append",
    Kind.DELETE: "delete",
    Kind.TRIM: "delete",
    Kind.COMPACT: "replace",
}


def format_version(state: TableState) -> int:
    """The Iceberg format that the table is projected in, refused when its columns do not fit in it.

    A table of format version 1 is shown as one until it gets its first rows, and is one of version 2 from then on.
    """
    text = state.properties.get(FORMAT_PROPERTY, "3")
    if text not in ("1", "2", "3"):
        raise InvalidInput(f"Property {FORMAT_PROPERTY!r} of {state.full_name} is 1, 2 or 3, not {text!r}.")
    if text == "1" and state.last_sequence:
        text = "2"
    if text != "3" and (reason := needs_v3(state.schema)):
        raise FailedPrecondition(
            f"{state.full_name} cannot be an Iceberg table of format version {text}: {reason}. "
            f"Set its property {FORMAT_PROPERTY!r} to 3."
        )
    return int(text)


def needs_v3(schema: Schema) -> str | None:
    for field_id in schema.field_ids:
        field = schema.find_field(field_id)
        if isinstance(field.field_type, TimestampNanoType | TimestamptzNanoType):
            return f"column {field.name} has the type {field.field_type}"
        if field.initial_default is not None:
            return f"column {field.name} has a default for rows that were there before it"
    return None


def snapshot(commit: DataCommit, manifest_list: str, summary: Mapping[str, str], version: int) -> Json:
    """The snapshot of a commit in format `version`."""
    made: Json = {
        "snapshot-id": commit.snapshot_id,
        "sequence-number": commit.sequence,
        "timestamp-ms": commit.timestamp_ns // _MILLI,
        "manifest-list": manifest_list,
        "summary": {
            **commit.properties,
            "operation": operation(commit.kinds) or "overwrite",
            **summary,
            VERSION_KEY: str(commit.version),
        },
        "schema-id": commit.schema_id,
    }
    if commit.parent_snapshot_id is not None:
        made["parent-snapshot-id"] = commit.parent_snapshot_id
    if version >= 3:
        made["first-row-id"] = commit.first_row_id
        made["added-rows"] = commit.added_rows
    return made


def operation(kinds: Iterable[str]) -> str | None:
    """The snapshot operation for a commit of these kinds; None for one that changed no rows and no files."""
    names = {_OPERATIONS.get(Kind(kind), "overwrite") for kind in kinds if kind in _DATA_KINDS}
    return names.pop() if len(names) == 1 else "overwrite" if names else None


_DATA_KINDS = {
    Kind.APPEND,
    Kind.DELETE,
    Kind.UPSERT,
    Kind.COMPACT,
    Kind.TRIM,
    Kind.OVERWRITE,
    Kind.RESTORE,
    Kind.ERASE,
}


def table_metadata(
    state: TableState,
    version: int,
    location: str,
    changed_ns: int,
    snapshots: Sequence[Json],
    metadata_log: Sequence[Json],
    refs: Mapping[str, Json] | None = None,
) -> Json:
    """The metadata of a table whose last snapshot is the current one. `changed_ns` is when it was last changed.

    `refs` are branches and tags other than `main`, as the specification has them; their snapshots are among the others.
    """
    named = {ref["snapshot-id"] for ref in (refs or {}).values()}
    ordered = sorted(snapshots, key=lambda one: one["sequence-number"])
    ordered = [*(one for one in ordered[:-SNAPSHOTS] if one["snapshot-id"] in named), *ordered[-SNAPSHOTS:]]
    current = ordered[-1]["snapshot-id"] if ordered else None
    listed = {one["snapshot-id"] for one in ordered}
    main = {} if current is None else {"main": {"snapshot-id": current, "type": "branch"}}
    metadata: Json = {
        "format-version": version,
        "table-uuid": str(state.id),
        "location": location,
        "last-sequence-number": state.last_sequence,
        "last-updated-ms": changed_ns // _MILLI,
        "last-column-id": state.last_column_id,
        "current-schema-id": state.schema_id,
        "schemas": [schema_json(state.schemas[number], version) for number in sorted(state.schemas)],
        "default-spec-id": state.spec_id,
        "partition-specs": [spec_document(state.specs[n]) for n in sorted(state.specs)],
        "last-partition-id": max(state.last_partition_id, FIRST_FIELD_ID - 1),
        "default-sort-order-id": state.sort_order_id,
        "sort-orders": _sort_orders(state),
        "properties": properties(state),
        "refs": {**main, **{name: ref for name, ref in (refs or {}).items() if ref["snapshot-id"] in listed}},
        "snapshots": ordered,
        "statistics": _statistics(state, STATISTICS_PREFIX, listed),
        "partition-statistics": _statistics(state, PARTITION_STATISTICS_PREFIX, listed),
        "snapshot-log": [{"snapshot-id": one["snapshot-id"], "timestamp-ms": one["timestamp-ms"]} for one in ordered],
        "metadata-log": list(metadata_log)[-log_entries(state) :],
    }
    if version == 1:
        metadata |= _first_format(metadata)
    if current is not None:
        metadata["current-snapshot-id"] = current
    elif version < 3:
        metadata["current-snapshot-id"] = -1
    if version >= 3:
        metadata["next-row-id"] = state.next_row_id
    return metadata


def log_entries(state: TableState) -> int:
    """The number of earlier metadata files to list."""
    text = state.properties.get(PREVIOUS_VERSIONS, "")
    return max(1, min(LOG_ENTRIES, int(text))) if text.isdecimal() else LOG_ENTRIES


def _first_format(metadata: Json) -> Json:
    """What format version 1 has besides: the schema and the fields of the partition spec that are current."""
    schemas = {one["schema-id"]: one for one in metadata["schemas"]}
    specs = {one["spec-id"]: one for one in metadata["partition-specs"]}
    spec = specs[metadata["default-spec-id"]]
    return {"schema": schemas[metadata["current-schema-id"]], "partition-spec": spec["fields"]}


def _statistics(state: TableState, prefix: str, snapshots: Collection[int]) -> list[Json]:
    return [one for key, one in statistics_of(state.properties, prefix).items() if key in snapshots]


def ref_json(ref: Ref, snapshot_id: int) -> Json:
    """A tag in metadata form."""
    return {"snapshot-id": snapshot_id, "type": ref.kind, **ref.options}


def schema_json(schema: Schema, version: int) -> Json:
    """A schema in Iceberg's form. Nanosecond timestamps and defaults exist from format version 3 on."""
    document: Json = schema_document(_before_v3(plain_schema(schema)) if version < 3 else plain_schema(schema))
    return document


def _before_v3(schema: Schema) -> Schema:
    """The schema without what no format before version 3 has: only earlier schemas of a table can have had it."""
    fitting = _fitting(schema.as_struct())
    fields = fitting.fields if isinstance(fitting, StructType) else ()
    kept = Schema(*fields, schema_id=schema.schema_id)
    key = [number for number in schema.identifier_field_ids if number in kept.field_ids]
    return Schema(*fields, schema_id=schema.schema_id, identifier_field_ids=key)


def _fitting(kind: IcebergType) -> IcebergType | None:
    """A type without what no format before version 3 has; None if it is nothing without that."""
    match kind:
        case TimestampNanoType() | TimestamptzNanoType():
            return None
        case StructType():
            pairs = [(field, _fitting(field.field_type)) for field in kind.fields]
            fields = [
                replace(field, field_type=inner, initial_default=None, write_default=None)
                for field, inner in pairs
                if inner is not None
            ]
            return StructType(*fields) if fields or not pairs else None
        case ListType():
            element = _fitting(kind.element_type)
            return None if element is None else replace(kind, element_type=element)
        case MapType():
            key, value = _fitting(kind.key_type), _fitting(kind.value_type)
            return None if key is None or value is None else replace(kind, key_type=key, value_type=value)
    return kind


def properties(state: TableState) -> dict[str, str]:
    """The table's own, and what engines must know: they may not clean up files that only the catalog knows of."""
    mapping = name_mapping(state)
    own = {key: value for key, value in shown(state.properties).items() if key != FORMAT_PROPERTY}
    return {NAME_MAPPING: mapping, "write.delete.mode": "merge-on-read", **own, "gc.enabled": "false"}


def name_mapping(state: TableState) -> str:
    """The names by which files without field ids are read: those of now, and for a column that was renamed, older ones.

    An older name that another column has or had is left out.
    """
    mapping = json.loads(create_mapping_from_schema(to_pyiceberg_schema(state.schema)).model_dump_json())
    owners: dict[str, set[int]] = {}
    for schema in state.schemas.values():
        for column in schema.fields:
            owners.setdefault(column.name, set()).add(column.field_id)
    for one in mapping:
        number = one.get("field-id")
        older = [name for name, numbers in owners.items() if numbers == {number} and name not in one["names"]]
        one["names"] = [*one["names"], *sorted(older)]
    return json.dumps(mapping)


def _sort_orders(state: TableState) -> list[Json]:
    orders = {UNSORTED_SORT_ORDER.order_id: UNSORTED_SORT_ORDER, **state.sort_orders}
    return [order_document(orders[number]) for number in sorted(orders)]
