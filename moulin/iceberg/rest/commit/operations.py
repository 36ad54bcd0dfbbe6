"""Converts the updates of a commit to the lake's operations on one table. Unsupported updates give 400."""

# Decisions: docs/decisions/0161, docs/decisions/0504, docs/decisions/0632

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from moulin.errors import InvalidInput, Unsupported
from moulin.iceberg.format import metadata as documents
from moulin.iceberg.format.json import Json
from moulin.iceberg.rest.commit import shapes
from moulin.iceberg.rest.commit.updates import Wanted
from moulin.model.alteration import altered
from moulin.model.entities import TableState
from moulin.model.layout.partition_spec import PartitionSpec
from moulin.model.layout.sort_order import UNSORTED_SORT_ORDER, SortOrder
from moulin.model.operations import AlterSchema, Operation, Overwrite, Restore, SetProperties, SetSortOrder
from moulin.model.schema.change import ReplaceColumns
from moulin.model.schema.evolution import lacks_fields
from moulin.model.schema.values import Schema, StructType
from moulin.model.tags import LOCATION, MAIN, REF_OPTIONS, REF_PREFIX, ExpiredSnapshots, Ref, is_internal


@dataclass(frozen=True, slots=True)
class CommitPlan:
    """Operations on settings, the table as they leave it, and the snapshot that becomes current, if any."""

    operations: tuple[Operation, ...]
    state: TableState
    snapshot: Json | None


def plan(state: TableState, wanted: Wanted, base: Json, asked: str | None) -> CommitPlan:
    """What the updates come to for an existing table, whose metadata is `base`.

    `asked` is the location that they ask for, None for the table's own folder.
    """
    if wanted.uuid not in (None, str(state.id)):
        raise InvalidInput(f"The UUID of {state.full_name} is {state.id}, and stays.")
    if wanted.replaces and wanted.schema is None and not wanted.snapshots:
        raise Unsupported(
            f"The branch {MAIN!r} of {state.full_name} stays: it goes only with a current schema, as REPLACE TABLE "
            "sends it, or with new rows. Delete the rows, or drop the table."
        )
    rolling_back = wanted.main is not None and not wanted.snapshots
    snapshot = None if rolling_back else current(wanted)
    empty = not base["refs"].get(MAIN) and not state.schema.identifier_field_ids
    after, operations = (_replaced if wanted.replaces or empty else _layout)(state, wanted)
    properties = dict(wanted.set)
    if wanted.format_version is not None:
        _check_upgrade(state, wanted.format_version)
        properties[documents.FORMAT_PROPERTY] = str(wanted.format_version)
    changed = {key: value for key, value in properties.items() if state.properties.get(key) != value}
    removed = tuple(key for key in wanted.removed if key in state.properties)
    if any(is_internal(key) for key in removed):
        raise InvalidInput("Branches, tags and statistics are removed by updates of their own, not as properties.")
    if wanted.location is not None and asked is None and LOCATION in state.properties:
        removed = (*removed, LOCATION)
    elif wanted.location is not None and asked is not None and asked != state.properties.get(LOCATION):
        changed[LOCATION] = asked
    named, unnamed = _settings(state, wanted, base)
    changed, removed = {**changed, **named}, (*removed, *unnamed)
    if changed or removed:
        operations.append(SetProperties(changed, removed))
        kept = {key: value for key, value in state.properties.items() if key not in removed}
        after = replace(after, properties={**kept, **changed})
    documents.format_version(after)
    if rolling_back and wanted.main is not None:
        operations += _rolled_back(state, wanted.main, base)
    if wanted.replaces and snapshot is None and base["refs"].get(MAIN):
        operations.append(Overwrite(everything=True))
    return CommitPlan(tuple(operations), after, snapshot)


def _replaced(state: TableState, wanted: Wanted) -> tuple[TableState, list[Operation]]:
    """Like `_layout`, for a replaced table: its rows are removed, so its columns can be arbitrary."""
    if state.schema.identifier_field_ids:
        raise Unsupported(f"{state.full_name} has a primary key: drop it and make another in its place.")
    operations: list[Operation] = []
    for schema in _schemas(state, wanted):
        if shapes.same_fields(schema, state.schema):
            continue
        if schema.identifier_field_ids:
            raise Unsupported("A table gets its key when it is made: drop it, and make one with identifier fields.")
        changes = (ReplaceColumns(StructType(*schema.fields)),)
        operations.append(AlterSchema(changes))
        state = altered(state, changes)
    if (spec := _changed_spec(state, wanted)) is not None:
        operation, state = shapes.changed_spec(state, spec)
        operations.append(operation)
    if (order := _changed_order(state, wanted)) is not None:
        operations.append(SetSortOrder(shapes.sort_texts(order, state.schema)))
    return state, operations


def _schemas(state: TableState, wanted: Wanted) -> list[Schema]:
    """The schemas that become current one after the other: a transaction may change columns several times.

    No table is without columns, so a step that drops all of them is taken together with the next.
    """
    if not isinstance(wanted.schema, int):
        return [*(one for one in wanted.steps[:-1] if not lacks_fields(one.as_struct())), *wanted.steps[-1:]]
    if wanted.schema not in state.schemas:
        raise InvalidInput(f"{state.full_name} has no schema {wanted.schema}.")
    return [*wanted.steps, state.schemas[wanted.schema]]


def _layout(state: TableState, wanted: Wanted) -> tuple[TableState, list[Operation]]:
    """What leads to the schema, spec and order that are asked for, and the table as that leaves it.

    A spec or order that rests on columns of before comes first: then columns that it no longer rests on can go.
    """
    schemas = _schemas(state, wanted)
    operations: list[Operation] = []
    known = set(state.schema.field_ids)
    ordered = False
    for after_schema in (False, True):
        for schema in schemas if after_schema else ():
            if not shapes.same_fields(schema, state.schema):
                changes, state = shapes.schema_changes(state, schema)
                operations.append(AlterSchema(changes))
        spec = _changed_spec(state, wanted)
        if spec is not None and (after_schema or {one.source_id for one in spec.fields} <= known):
            operation, state = shapes.changed_spec(state, spec)
            operations.append(operation)
        order = None if ordered else _changed_order(state, wanted)
        if order is not None and (after_schema or {one.source_id for one in order.fields} <= known):
            operations.append(SetSortOrder(shapes.sort_texts(order, state.schema)))
            ordered = True
    return state, operations


def current(wanted: Wanted) -> Json | None:
    """The added snapshot that becomes the current one."""
    written = {ref["snapshot-id"]: name for name, ref in wanted.refs.items() if ref is not None}
    for one in wanted.snapshots:
        if (name := written.get(one["snapshot-id"])) is not None:
            raise Unsupported(
                f"{name!r} cannot name a snapshot of the same commit: rows are written to the branch {MAIN!r} alone, "
                "and a branch or tag is set to a snapshot that is there. To write beside main, make a branch of the "
                "lake (moulin branch create NAME) and connect with warehouse=lake@NAME."
            )
    if wanted.main is None:
        if wanted.snapshots:
            raise Unsupported(f"A snapshot is added to the branch {MAIN!r}: staged snapshots are not kept.")
        return None
    found = next((one for one in wanted.snapshots if one["snapshot-id"] == wanted.main), None)
    if found is None:
        raise InvalidInput(f"The branch {MAIN!r} is set to snapshot {wanted.main}, and the commit adds other ones.")
    return found


def _rolled_back(state: TableState, snapshot_id: int, base: Json) -> list[Operation]:
    """An earlier snapshot made current is a restore: a new version, whose snapshot has an id of its own."""
    if snapshot_id == base.get("current-snapshot-id"):
        return []
    if state.schema.identifier_field_ids:
        raise Unsupported(f"{state.full_name} has a primary key: roll it back with table.restore(version).")
    return [Restore(_version_of(snapshot_id, base))]


def _version_of(snapshot_id: int, base: Json) -> int:
    found = next((one for one in base["snapshots"] if one["snapshot-id"] == snapshot_id), None)
    if found is None:
        raise InvalidInput(f"The table has no snapshot {snapshot_id}, or no longer.")
    return int(found["summary"][documents.VERSION_KEY])


def _settings(state: TableState, wanted: Wanted, base: Json) -> tuple[dict[str, str], tuple[str, ...]]:
    """Branches, tags and statistics as the properties that hold them: those set, and those removed."""
    changed: dict[str, str] = {}
    removed: list[str] = []
    for name, given in wanted.refs.items():
        if given is None:
            removed.append(REF_PREFIX + name)
            continue
        options = {key: value for key, value in given.items() if key in REF_OPTIONS}
        ref = Ref(name, _version_of(given["snapshot-id"], base), given["type"], options)
        changed[ref.key] = ref.to_json()
    known = {one["snapshot-id"] for one in base["snapshots"]}
    for key, statistics in wanted.statistics.items():
        if statistics is None:
            removed.append(key)
        elif (snapshot_id := statistics["snapshot-id"]) not in known:
            raise InvalidInput(f"The table has no snapshot {snapshot_id}, or no longer: it cannot get statistics.")
        else:
            changed[key] = json.dumps(statistics, sort_keys=True)
    changed |= _expired(state, wanted, base)
    stored = state.properties
    return (
        {key: value for key, value in changed.items() if stored.get(key) != value},
        tuple(key for key in removed if key in stored),
    )


def _expired(state: TableState, wanted: Wanted, base: Json) -> dict[str, str]:
    """What is noted of snapshots that go: versions before the oldest that stays, and which of the later ones.

    Ids that the table does not have are passed over: they went before.
    """
    listed = {one["snapshot-id"]: int(one["summary"][documents.VERSION_KEY]) for one in base["snapshots"]}
    gone = listed.keys() & set(wanted.expired)
    if not gone:
        return {}
    refs = {name: ref["snapshot-id"] for name, ref in base["refs"].items() if wanted.refs.get(name, ref) is not None}
    refs |= {name: ref["snapshot-id"] for name, ref in wanted.refs.items() if ref is not None}
    if held := sorted(name for name, snapshot_id in refs.items() if snapshot_id in gone):
        raise InvalidInput(f"Snapshot {refs[held[0]]} is named {held[0]!r}, and stays: remove or move that ref first.")
    before = ExpiredSnapshots.of(state.properties)
    named = {snapshot_id for name, snapshot_id in refs.items() if name != MAIN}
    staying = [version for one, version in listed.items() if one not in gone and one not in named]
    oldest = max(before.before, min(staying, default=state.head_version))
    later = {one for one in gone | (before.ids & listed.keys()) if listed[one] >= oldest}
    return ExpiredSnapshots(oldest, frozenset(later)).properties()


def _changed_spec(state: TableState, wanted: Wanted) -> PartitionSpec | None:
    """The new partition spec of the table; None if unchanged."""
    spec = state.specs.get(wanted.spec) if isinstance(wanted.spec, int) else wanted.spec
    if isinstance(wanted.spec, int) and spec is None:
        raise InvalidInput(f"{state.full_name} has no partition spec {wanted.spec}.")
    return None if spec is None or spec.fields == state.spec.fields else spec


def _changed_order(state: TableState, wanted: Wanted) -> SortOrder | None:
    """The new sort order of the table; None if unchanged."""
    order = wanted.order
    if isinstance(order, int):
        known = {UNSORTED_SORT_ORDER.order_id: UNSORTED_SORT_ORDER, **state.sort_orders}
        if order not in known:
            raise InvalidInput(f"{state.full_name} has no sort order {order}.")
        order = known[order]
    return None if order is None or list(order.fields) == list(state.sort_order.fields) else order


def _check_upgrade(state: TableState, wanted: int) -> None:
    now = documents.format_version(state)
    if wanted not in (1, 2, 3) or wanted < now:
        raise InvalidInput(
            f"Format version {now} of {state.full_name} can become 2 or 3, and never less; not {wanted}."
        )
