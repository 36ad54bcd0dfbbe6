"""Commits that change a table's settings: schema, properties, partitioning, sort order.

Applied to the current state.
"""

from __future__ import annotations

import json

import sqlalchemy as sa

from moulin.catalog.commit import fills, indexes, regions, required
from moulin.catalog.commit.table_change import TableChange
from moulin.catalog.objects import tables
from moulin.catalog.sql import schema as s
from moulin.errors import Conflict, FailedPrecondition, InvalidInput, MoulinError, NotFound
from moulin.model.alteration import altered
from moulin.model.conflicts import Verdict, verdict
from moulin.model.layout.partition import adopt_spec, parse_spec
from moulin.model.layout.partition_spec import spec_to_json
from moulin.model.layout.sort import parse_sort
from moulin.model.layout.sort_order import sort_to_json
from moulin.model.operations import AlterSchema, Kind, Operation, SetPartitioning, SetProperties, SetSortOrder
from moulin.model.region_spec import HISTORY, RegionSpec
from moulin.model.region_spec import PROPERTY as REGIONS
from moulin.model.schema.change import SetRequired
from moulin.model.schema.values import Schema
from moulin.model.tags import REF_PREFIX, read_ref


def apply_setting(change: TableChange, operation: Operation) -> None:
    """Apply a settings operation; raises Conflict if a commit in between prevents it."""
    try:
        match operation:
            case AlterSchema():
                _refuse_after_restore(change)
                _alter_schema(change, operation)
            case SetPartitioning():
                _refuse_after_restore(change)
                _refuse_second(change, Kind.SET_PARTITIONING, "the partitioning")
                _set_partitioning(change, operation)
            case SetSortOrder():
                _refuse_after_restore(change)
                _refuse_second(change, Kind.SET_SORT_ORDER, "the sort order")
                _set_sort_order(change, operation)
            case SetProperties():
                _set_properties(change, operation)
    except Conflict:
        raise
    except MoulinError as error:
        if any(verdict(operation.kind, Kind(row.kind)) is Verdict.CONFLICT for row in change.since()):
            raise change.stale(f"the {operation.kind.value}", "applicable", f"refused ({error.message})") from error
        raise


def _alter_schema(change: TableChange, operation: AlterSchema) -> None:
    before = tables.load(change.connection, change.row)
    state = altered(before, operation.changes)
    changed = state.schema
    _keep_regions(change, changed)
    if any(isinstance(one, SetRequired) for one in operation.changes):
        required.require_filled(change, before, changed)
    fills.alter(change, before, state, operation.changes)
    tables.store_schema(change.draft, change.table_id, changed)
    change.updates.update(schema_id=changed.schema_id, last_column_id=state.last_column_id)
    indexes.drop_without_column(change, changed)
    change.summary["changes"] = "; ".join(f"{c.action} {c.name}" for c in operation.changes)


def require_schema_as_read(change: TableChange) -> None:
    """For a commit that alters the schema and adds rows in it: its planned field ids must not be used otherwise."""
    moved = {row.version for row in change.since() if row.kind in (Kind.ALTER_SCHEMA, Kind.RESTORE)}
    if moved or change.past_is_forgotten:
        raise change.stale("the schema", "as read", "changed", moved)


def require_sources(change: TableChange) -> None:
    """After columns were replaced: the columns of partitioning, sort order and event time must exist."""
    state = tables.load(change.connection, tables.find_by_id(change.connection, change.table_id))
    sources = {one.source_id for one in state.spec.fields} | {one.source_id for one in state.sort_order.fields}
    if state.event_time is not None:
        sources.add(state.event_time)
    if lost := sources - set(state.schema.field_ids):
        before = next(one for one in state.schemas.values() if min(lost) in one.field_ids)
        raise FailedPrecondition(
            f"Column {before.find_column_name(min(lost))} of {change.name} cannot be dropped: partitioning, sort "
            f"order or event time use it. Replace these in the same commit, or drop the table and create a new one."
        )


def _keep_regions(change: TableChange, changed: Schema) -> None:
    """The region spec contains names of key columns, which therefore cannot be renamed."""
    try:
        RegionSpec.of(changed, change.row.properties)
    except (InvalidInput, NotFound) as error:
        raise FailedPrecondition(
            f"The column cannot be renamed: {REGIONS} of {change.name} uses it ({error.message})"
        ) from error


def _refuse_after_restore(change: TableChange) -> None:
    """A restore that changed schema or partitioning invalidates changes prepared before it."""
    restores = {row.version for row in change.since() if row.kind == Kind.RESTORE}
    if change.past_is_forgotten:
        prepared = f"as at version {change.commit.read_version}"
        raise change.stale("the table", prepared, "one whose changes since then were cleaned up", restores)
    if not restores:
        return
    c = s.table_commits
    query = (
        sa.select(c.c.schema_id, c.c.spec_id)
        .where(c.c.table_id == change.table_id, c.c.version <= change.commit.read_version)
        .order_by(c.c.version.desc(), c.c.ordinal.desc())
        .limit(1)
    )
    read, found = change.connection.execute(query).one(), (change.row.schema_id, change.row.spec_id)
    if tuple(read) != found:
        raise change.stale(
            "schema and partitioning", f"{read[0]} and {read[1]}", f"{found[0]} and {found[1]}", restores
        )


def _set_partitioning(change: TableChange, operation: SetPartitioning) -> None:
    state = tables.load(change.connection, change.row)
    previous, last = list(state.specs.values()), state.last_partition_id
    if operation.spec is None:
        spec, last_partition_id = parse_spec(operation.fields, state.schema, previous=previous, last_partition_id=last)
    else:
        spec, last_partition_id = adopt_spec(
            operation.spec, operation.fields, state.schema, previous=previous, last_partition_id=last
        )
    if spec.spec_id not in state.specs:
        tables.store_setting(change.draft, s.table_specs, change.table_id, spec.spec_id, spec_to_json(spec))
    change.updates.update(spec_id=spec.spec_id, last_partition_id=last_partition_id)
    change.summary["partition-by"] = ", ".join(operation.fields)


def _set_sort_order(change: TableChange, operation: SetSortOrder) -> None:
    state = tables.load(change.connection, change.row)
    if state.schema.identifier_field_ids:
        raise FailedPrecondition(f"{change.name} is always sorted by its primary key.")
    wanted = parse_sort(operation.fields, state.schema, order_id=max([0, *state.sort_orders]) + 1)
    known = {tuple(order.fields): order for order in state.sort_orders.values()}
    order = known.get(tuple(wanted.fields), wanted)
    if order.order_id not in state.sort_orders:
        tables.store_setting(change.draft, s.table_sort_orders, change.table_id, order.order_id, sort_to_json(order))
    change.updates.update(sort_order_id=order.order_id)
    change.summary["sort-by"] = ", ".join(operation.fields)


def _refuse_second(change: TableChange, kind: Kind, what: str) -> None:
    if changed := {row.version for row in change.since() if row.kind == kind}:
        raise change.stale(what, "as read", "changed", changed)


def _check_refs(change: TableChange, operation: SetProperties) -> None:
    """A tagged version must exist and not be cleaned up; clean-up waits for this lock, or has already decided."""
    for key, text in operation.updates.items():
        if key.startswith(REF_PREFIX):
            tables.require_kept(change.row, read_ref(key, text).version)


def _divided(change: TableChange, properties: dict[str, str]) -> dict[str, str]:
    """The properties of a table with a new division of keys."""
    if not change.commit.regions and regions.of_now(change):
        raise FailedPrecondition(
            f"{REGIONS} divides the keys of {change.name} among writers: change it with set_regions, which waits for "
            f"them."
        )
    if _is_on_branch(change):
        raise FailedPrecondition(f"{change.name} is on a branch, which uses the regions of main: change them on main.")
    required.require_held(change, "the change of its regions")
    RegionSpec.of(tables.load(change.connection, change.row).schema, properties)
    text = properties.pop(REGIONS, "")
    return regions.divide(change, properties, text)


def _is_on_branch(change: TableChange) -> bool:
    d = s.databases
    branch = sa.select(d.c.branch_id).where(d.c.id == change.row.database_id)
    return change.connection.execute(branch).scalar() is not None


def _set_properties(change: TableChange, operation: SetProperties) -> None:
    keys = {*operation.updates, *operation.removals}
    for row in change.since():
        if row.kind == Kind.SET_PROPERTIES and (both := keys & set(json.loads(row.summary.get("keys", "[]")))):
            raise change.stale(f"property {min(both)!r}", "as read", "changed", {row.version})
    properties = {key: value for key, value in change.row.properties.items() if key not in operation.removals}
    properties.update(operation.updates)
    _check_refs(change, operation)
    if HISTORY in keys:
        raise InvalidInput(
            f"{HISTORY} is maintained by the catalog: change the regions of {change.name} with set_regions."
        )
    if properties.get(REGIONS) != change.row.properties.get(REGIONS):
        properties = _divided(change, properties)
    change.updates["properties"] = properties
    change.summary["keys"] = json.dumps(sorted(keys))
