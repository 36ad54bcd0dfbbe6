"""Updates of a commit, as the lake's own operations on one table. Unknown ones, and what no operation does: 400."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from pyiceberg.partitioning import PartitionSpec
from pyiceberg.schema import Schema
from pyiceberg.table.sorting import SortOrder

from moulin.errors import InvalidInput, Unsupported
from moulin.iceberg import metadata as documents
from moulin.iceberg.avro import Json
from moulin.iceberg.rest import shapes
from moulin.iceberg.rest.requests import field as member
from moulin.iceberg.rest.requests import texts, words
from moulin.model.entities import TableState
from moulin.model.operations import AlterSchema, Operation, SetPartitioning, SetProperties
from moulin.table.properties import check_properties

MAIN: Final = "main"
# What the catalog says of a table by itself, and engines send back.
_DERIVED: Final = (documents.NAME_MAPPING, "gc.enabled")
_PLACES: Final = ("write.data.path", "write.metadata.path", "write.object-storage.path", "write.folder-storage.path")
_NOT_KEPT: Final = (
    "set-statistics",
    "remove-statistics",
    "set-partition-statistics",
    "remove-partition-statistics",
    "remove-partition-specs",
    "remove-schemas",
    "add-encryption-key",
    "remove-encryption-key",
)


@dataclass(slots=True)
class Wanted:
    """What the updates of a commit ask for, in one place. Ids of schemas, specs and orders are the engine's."""

    uuid: str | None = None
    location: str | None = None
    format_version: int | None = None
    schemas: list[Schema] = field(default_factory=list)
    schema: Schema | int | None = None
    specs: list[PartitionSpec] = field(default_factory=list)
    spec: PartitionSpec | int | None = None
    orders: list[SortOrder] = field(default_factory=list)
    order: SortOrder | int | None = None
    set: dict[str, str] = field(default_factory=dict)
    removed: list[str] = field(default_factory=list)
    snapshots: list[Json] = field(default_factory=list)
    main: int | None = None


def read_updates(updates: Sequence[Any]) -> Wanted:
    """The updates of a commit, in order."""
    wanted = Wanted()
    for update in updates:
        if not isinstance(update, dict):
            raise InvalidInput("An update is a JSON object.")
        action = update.get("action")
        if action in _NOT_KEPT:
            raise Unsupported(f"Update {action!r} is not taken: this catalog keeps no such thing for engines.")
        if action not in _READERS:
            raise InvalidInput(f"{action!r} is no update of a table that this catalog knows.")
        _READERS[action](wanted, update)
    wanted.set = _properties(wanted.set)
    wanted.removed = [key for key in wanted.removed if key not in _DERIVED]
    return wanted


def _add_schema(wanted: Wanted, update: Json) -> None:
    wanted.schemas.append(shapes.read_schema(member(update, "schema", dict)))


def _set_schema(wanted: Wanted, update: Json) -> None:
    number = member(update, "schema-id", int)
    known = {schema.schema_id: schema for schema in wanted.schemas}
    wanted.schema = shapes.last_added(wanted.schemas, "schema") if number == -1 else known.get(number, number)


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
    for name, kind in (("snapshot-id", int), ("manifest-list", str), ("sequence-number", int)):
        member(snapshot, name, kind)
    if not 0 < snapshot["snapshot-id"] < 1 << 63:
        raise InvalidInput(f"A snapshot id is a positive number of 63 bits, not {snapshot['snapshot-id']}.")
    wanted.snapshots.append(snapshot)


def _set_ref(wanted: Wanted, update: Json) -> None:
    name, kind = member(update, "ref-name", str), member(update, "type", str, "branch")
    if name != MAIN or kind != "branch":
        raise Unsupported(f"{kind} {name!r} cannot be set: a table has the branch {MAIN!r} alone.")
    wanted.main = member(update, "snapshot-id", int)


def _remove_ref(wanted: Wanted, update: Json) -> None:
    if member(update, "ref-name", str) == MAIN:
        raise Unsupported(f"The branch {MAIN!r} stays: delete the rows, or drop the table.")


def _uuid(wanted: Wanted, update: Json) -> None:
    wanted.uuid = member(update, "uuid", str).lower()


def _location(wanted: Wanted, update: Json) -> None:
    wanted.location = member(update, "location", str)


def _format(wanted: Wanted, update: Json) -> None:
    wanted.format_version = member(update, "format-version", int)


def _nothing(wanted: Wanted, update: Json) -> None:
    """Snapshots that an engine expires: what is kept, and for how long, is the lake's to say."""
    member(update, "snapshot-ids", list)


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
    "remove-snapshots": _nothing,
    "remove-snapshot-ref": _remove_ref,
    "set-location": _location,
    "set-properties": _set_properties,
    "remove-properties": _remove_properties,
}


def _properties(given: dict[str, str]) -> dict[str, str]:
    if places := sorted(set(given) & set(_PLACES)):
        raise Unsupported(f"Property {places[0]!r} is not taken: files lie below the table's own location.")
    return check_properties({key: value for key, value in given.items() if key not in _DERIVED})


def new_properties(given: dict[str, str]) -> dict[str, str]:
    """The properties of a new table. Without a format version it gets Iceberg's default for engines, 2."""
    return {documents.FORMAT_PROPERTY: "2", **_properties(given)}


@dataclass(frozen=True, slots=True)
class Plan:
    """Operations on settings, the table as they leave it, and the snapshot that becomes current, if any."""

    operations: tuple[Operation, ...]
    state: TableState
    snapshot: Json | None


def plan(state: TableState, wanted: Wanted, location: str) -> Plan:
    """What the updates come to for an existing table."""
    if wanted.uuid not in (None, str(state.id)):
        raise InvalidInput(f"The UUID of {state.full_name} is {state.id}, and stays.")
    if wanted.location is not None and wanted.location.rstrip("/") != location:
        raise Unsupported(f"{state.full_name} lies in {location}, and stays there.")
    operations: list[Operation] = []
    after = state
    schema = state.schemas.get(wanted.schema) if isinstance(wanted.schema, int) else wanted.schema
    if isinstance(wanted.schema, int) and schema is None:
        raise InvalidInput(f"{state.full_name} has no schema {wanted.schema}.")
    if schema is not None and not shapes.same_fields(schema, state.schema):
        changes, made = shapes.schema_changes(state, schema)
        operations.append(AlterSchema(changes))
        after = replace(after, schemas={**after.schemas, made.schema_id: made}, schema_id=made.schema_id)
    spec = state.specs.get(wanted.spec) if isinstance(wanted.spec, int) else wanted.spec
    if isinstance(wanted.spec, int) and spec is None:
        raise InvalidInput(f"{state.full_name} has no partition spec {wanted.spec}.")
    if spec is not None and not _same_spec(spec, state.spec):
        fields, partitioned = shapes.changed_spec(after, after.schema, spec)
        operations.append(SetPartitioning(fields))
        after = replace(after, specs={**after.specs, partitioned.spec_id: partitioned}, spec_id=partitioned.spec_id)
    _refuse_order(state, wanted)
    properties = dict(wanted.set)
    if wanted.format_version is not None:
        _check_upgrade(state, wanted.format_version)
        properties[documents.FORMAT_PROPERTY] = str(wanted.format_version)
    changed = {key: value for key, value in properties.items() if state.properties.get(key) != value}
    removed = tuple(key for key in wanted.removed if key in state.properties)
    if changed or removed:
        operations.append(SetProperties(changed, removed))
        kept = {key: value for key, value in state.properties.items() if key not in removed}
        after = replace(after, properties={**kept, **changed})
    documents.format_version(after)
    return Plan(tuple(operations), after, current(wanted))


def current(wanted: Wanted) -> Json | None:
    """The added snapshot that becomes the current one."""
    if wanted.main is None:
        if wanted.snapshots:
            raise Unsupported(f"A snapshot is added to the branch {MAIN!r}: staged snapshots are not kept.")
        return None
    found = next((one for one in wanted.snapshots if one["snapshot-id"] == wanted.main), None)
    if found is None:
        raise Unsupported("A branch cannot be set to an earlier snapshot here: restore the version with the lake.")
    return found


def _same_spec(one: PartitionSpec, other: PartitionSpec) -> bool:
    return [(f.source_id, f.transform) for f in one.fields] == [(f.source_id, f.transform) for f in other.fields]


def _refuse_order(state: TableState, wanted: Wanted) -> None:
    if wanted.order is None:
        return
    same = wanted.order == state.sort_order_id
    if isinstance(wanted.order, SortOrder):
        same = list(wanted.order.fields) == list(state.sort_order.fields)
    if not same:
        raise Unsupported(f"The sort order of {state.full_name} is given when the table is made, and stays.")


def _check_upgrade(state: TableState, wanted: int) -> None:
    now = documents.format_version(state)
    if wanted not in (2, 3) or wanted < now:
        raise InvalidInput(
            f"Format version {now} of {state.full_name} can become 2 or 3, and never less; not {wanted}."
        )
