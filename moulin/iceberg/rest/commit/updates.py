"""Parses the updates of a commit and groups them. Unknown ones give 400."""

# Decisions: docs/decisions/0067

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from moulin.errors import InvalidInput, Unsupported
from moulin.iceberg.format import metadata as documents
from moulin.iceberg.format.json import Json
from moulin.iceberg.rest.commit import shapes
from moulin.iceberg.rest.requests import field as member
from moulin.iceberg.rest.requests import texts, words
from moulin.model.layout.partition_spec import PartitionSpec
from moulin.model.layout.sort_order import SortOrder
from moulin.model.schema.values import Schema
from moulin.model.tags import (
    BRANCH,
    EXPIRE_PREFIX,
    MAIN,
    MAX_REF_AGE,
    PARTITION_STATISTICS_PREFIX,
    REF_OPTIONS,
    STATISTICS_PREFIX,
    TAG,
    check_ref_name,
)
from moulin.table.properties import check_properties

# What the catalog says of a table by itself, and engines send back.
_DERIVED: Final = (documents.NAME_MAPPING, "gc.enabled")
_PATHS: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
_COUNTED: Final = re.compile(r"operation$|moulin\.|(added|deleted|removed|changed|total|manifests|entries|replaced)-")
_LONGEST: Final = 16 << 10
VERIFY: Final = "moulin.verify"
_STAYS: Final = "versions that are kept, branches and clones are read by them."
_NO_KEYS: Final = "this catalog keeps no encryption keys. Let the storage encrypt the files."
_NOT_TAKEN: Final = {
    "remove-partition-specs": f"partition specs stay: {_STAYS}",
    "remove-schemas": f"schemas stay: {_STAYS}",
    "add-encryption-key": _NO_KEYS,
    "remove-encryption-key": _NO_KEYS,
}
_ENCRYPTED: Final = "encryption.key-id"


@dataclass(slots=True)
class Wanted:
    """What the updates of a commit ask for, in one place. Ids of schemas, specs and orders are the engine's."""

    uuid: str | None = None
    location: str | None = None
    format_version: int | None = None
    schemas: list[Schema] = field(default_factory=list)
    schema: Schema | int | None = None
    steps: list[Schema] = field(default_factory=list)  # of the added ones those that were made current, in order
    specs: list[PartitionSpec] = field(default_factory=list)
    spec: PartitionSpec | int | None = None
    orders: list[SortOrder] = field(default_factory=list)
    order: SortOrder | int | None = None
    set: dict[str, str] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    snapshots: list[Json] = field(default_factory=list)
    main: int | None = None
    replaces: bool = False  # main's rows are removed: the table is replaced, keeping its name and history
    refs: dict[str, Json | None] = field(default_factory=dict)  # other branches and tags; None removes one
    expired: list[int] = field(default_factory=list)  # ids of snapshots
    statistics: dict[str, Json | None] = field(default_factory=dict)  # by the property that keeps them; None removes it


def snapshot_properties(snapshots: Sequence[Json]) -> dict[str, str]:
    """What summaries say besides the operation and figures, which are the catalog's to count; the last word counts."""
    every = {key: value for one in snapshots for key, value in texts(one, "summary").items()}
    kept = {key: value for key, value in every.items() if not _COUNTED.match(key)}
    if (size := sum(len(key) + len(value) for key, value in kept.items())) > _LONGEST:
        raise InvalidInput(f"Properties of a snapshot have at most {_LONGEST:,} characters, not {size:,}.")
    return kept


def read_updates(updates: Sequence[Any]) -> Wanted:
    """The updates of a commit, in order."""
    wanted = Wanted()
    for update in updates:
        if not isinstance(update, dict):
            raise InvalidInput("An update is a JSON object.")
        action = member(update, "action", str)
        if (why := _NOT_TAKEN.get(action)) is not None:
            raise Unsupported(f"Update {action!r} is not taken: {why}")
        if action not in _READERS:
            raise InvalidInput(f"{action!r} is not an update of tables that this catalog knows.")
        _READERS[action](wanted, update)
    wanted.set = checked_properties(wanted.set)
    wanted.removed = [key for key in wanted.removed if key not in _DERIVED]
    return wanted


def _add_schema(wanted: Wanted, update: Json) -> None:
    wanted.schemas.append(shapes.read_schema(member(update, "schema", dict)))


def _set_schema(wanted: Wanted, update: Json) -> None:
    number = member(update, "schema-id", int)
    known = {schema.schema_id: schema for schema in wanted.schemas}
    wanted.schema = shapes.last_added(wanted.schemas, "schema") if number == -1 else known.get(number, number)
    if isinstance(wanted.schema, Schema):
        wanted.steps.append(wanted.schema)


def _add_spec(wanted: Wanted, update: Json) -> None:
    wanted.specs.append(shapes.read_spec(member(update, "spec", dict)))


def _set_spec(wanted: Wanted, update: Json) -> None:
    number = member(update, "spec-id", int)
    known = {spec.spec_id: spec for spec in wanted.specs}
    wanted.spec = shapes.last_added(wanted.specs, "spec") if number == -1 else known.get(number, number)


def _add_order(wanted: Wanted, update: Json) -> None:
    wanted.orders.append(shapes.read_order(member(update, "sort-order", dict)))


def _set_order(wanted: Wanted, update: Json) -> None:
    number = member(update, "sort-order-id", int)
    wanted.order = wanted.orders[-1] if wanted.orders and number != 0 else number
    if number == -1:
        wanted.order = shapes.last_added(wanted.orders, "sort order")


def _set_properties(wanted: Wanted, update: Json) -> None:
    wanted.set.update(texts(update, "updates"))


def _remove_properties(wanted: Wanted, update: Json) -> None:
    wanted.removed += words(update, "removals")


def _add_snapshot(wanted: Wanted, update: Json) -> None:
    snapshot = member(update, "snapshot", dict)
    snapshot = {"sequence-number": 0, **snapshot}  # there is none in format version 1
    for name, kind in (("snapshot-id", int), ("manifest-list", str), ("sequence-number", int)):
        member(snapshot, name, kind)
    if not 0 < snapshot["snapshot-id"] < 1 << 63:
        raise InvalidInput(f"A snapshot id is a positive number of 63 bits, not {snapshot['snapshot-id']}.")
    texts(snapshot, "summary")
    wanted.snapshots.append(snapshot)


def _set_ref(wanted: Wanted, update: Json) -> None:
    name, kind = member(update, "ref-name", str), member(update, "type", str, BRANCH)
    options = {option: member(update, option, int, None) for option in REF_OPTIONS}
    kept = {option: value for option, value in options.items() if value is not None}
    if wrong := next((option for option, value in kept.items() if value <= 0), None):
        raise InvalidInput(f"{wrong} of {name!r:.100} must be positive, not {kept[wrong]}.")
    if kind not in (BRANCH, TAG):
        raise InvalidInput(f"A ref is a branch or a tag, not {kind!r}.")
    if name == MAIN:
        if kind != BRANCH:
            raise InvalidInput(f"{MAIN!r} is a branch, and no tag.")
        wanted.main = member(update, "snapshot-id", int)
        kept.pop(MAX_REF_AGE, None)  # main stays
        wanted.set.update({EXPIRE_PREFIX + option: str(value) for option, value in kept.items()})
        return
    wanted.refs[check_ref_name(name)] = {"type": kind, "snapshot-id": member(update, "snapshot-id", int), **kept}


def _remove_ref(wanted: Wanted, update: Json) -> None:
    name = member(update, "ref-name", str)
    if name == MAIN:
        wanted.replaces, wanted.main, wanted.snapshots = True, None, []
    else:
        wanted.refs[name] = None


def _set_statistics(wanted: Wanted, update: Json) -> None:
    given = member(update, "statistics", dict)
    snapshot_id = member(given, "snapshot-id", int)
    if member(update, "snapshot-id", int, snapshot_id) != snapshot_id:
        raise InvalidInput("set-statistics names two snapshots.")
    for name, kind in (
        ("statistics-path", str),
        ("file-size-in-bytes", int),
        ("file-footer-size-in-bytes", int),
        ("blob-metadata", list),
    ):
        member(given, name, kind)
    wanted.statistics[f"{STATISTICS_PREFIX}{snapshot_id}"] = given


def _remove_statistics(wanted: Wanted, update: Json) -> None:
    wanted.statistics[f"{STATISTICS_PREFIX}{member(update, 'snapshot-id', int)}"] = None


def _set_partition_statistics(wanted: Wanted, update: Json) -> None:
    given = member(update, "partition-statistics", dict)
    for name, kind in (("snapshot-id", int), ("statistics-path", str), ("file-size-in-bytes", int)):
        member(given, name, kind)
    wanted.statistics[f"{PARTITION_STATISTICS_PREFIX}{given['snapshot-id']}"] = given


def _remove_partition_statistics(wanted: Wanted, update: Json) -> None:
    wanted.statistics[f"{PARTITION_STATISTICS_PREFIX}{member(update, 'snapshot-id', int)}"] = None


def _uuid(wanted: Wanted, update: Json) -> None:
    wanted.uuid = member(update, "uuid", str).lower()


def _location(wanted: Wanted, update: Json) -> None:
    wanted.location = member(update, "location", str)


def _format(wanted: Wanted, update: Json) -> None:
    wanted.format_version = member(update, "format-version", int)


def _remove_snapshots(wanted: Wanted, update: Json) -> None:
    ids = member(update, "snapshot-ids", list)
    if not all(isinstance(one, int) and not isinstance(one, bool) for one in ids):
        raise InvalidInput("'snapshot-ids' is an array of numbers.")
    wanted.expired += ids


_READERS: Final[dict[object, Callable[[Wanted, Json], None]]] = {
    "assign-uuid": _uuid,
    "upgrade-format-version": _format,
    "add-schema": _add_schema,
    "set-current-schema": _set_schema,
    "add-spec": _add_spec,
    "set-default-spec": _set_spec,
    "add-sort-order": _add_order,
    "set-default-sort-order": _set_order,
    "add-snapshot": _add_snapshot,
    "set-snapshot-ref": _set_ref,
    "remove-snapshots": _remove_snapshots,
    "remove-snapshot-ref": _remove_ref,
    "set-location": _location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
    "set-statistics": _set_statistics,
    "remove-statistics": _remove_statistics,
    "set-partition-statistics": _set_partition_statistics,
    "remove-partition-statistics": _remove_partition_statistics,
}


def checked_properties(given: Mapping[str, str]) -> dict[str, str]:
    """Properties of an engine that a table may get, without those that the catalog says by itself."""
    if paths := sorted(set(given) & set(_PATHS)):
        raise Unsupported(f"Property {paths[0]!r} is not taken: files lie below the table's own location.")
    if _ENCRYPTED in given:
        raise Unsupported(f"Property {_ENCRYPTED!r} is not taken: {_NO_KEYS}")
    if VERIFY in given:
        raise Unsupported(f"Property {VERIFY!r} is the lake's to set (Table.set_properties), not an engine's.")
    return check_properties({key: value for key, value in given.items() if key not in _DERIVED})


def new_properties(given: dict[str, str]) -> dict[str, str]:
    """The properties of a new table. Without a format version it gets Iceberg's default for engines, 2."""
    return {documents.FORMAT_PROPERTY: "2", **checked_properties(given)}
