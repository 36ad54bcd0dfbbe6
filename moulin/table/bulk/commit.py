"""Commits runs: bulk upserts, overwrites and merges of a keyed table, planned and committed by the driver.

Runs of an upsert are written while puts continue, and locate their keys in the version of the plan. The commit holds
the regions they touch; if rows of these have changed, it locates the keys of the runs again. A merge computes from
existing rows, so it holds the table from its start.
"""

# Decisions: docs/decisions/0053, 0292

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa

from moulin.errors import Conflict, InvalidInput
from moulin.model.entities import TableState
from moulin.model.merge_rules import MergeRules
from moulin.model.operations import Kind
from moulin.model.rows.rows import to_batches
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import Schema
from moulin.model.where import Where
from moulin.table.bulk.drafts import Drafts
from moulin.table.bulk.writer import BulkPlan, OnDuplicate, RegionRun, write_bulk, write_runs
from moulin.table.commit.change import Change, DataChange
from moulin.table.commit.retry import retry
from moulin.table.context import Context
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.keyed.version import KeyedVersion
from moulin.table.ports import is_frame
from moulin.table.write.layout import Layout
from moulin.table.write.writes import Outcome, number_source, prepare_delete


def plan_bulk(
    context: Context,
    keyed: KeyedTable,
    *,
    duplicates: OnDuplicate = "error",
    replaces_all: bool = False,
    foreseen: TableState | None = None,
) -> BulkPlan:
    """The plan of an upsert into the newest version, or of rows that replace all others.

    Runs are in the schema of `foreseen`, if given: the state that the same commit makes of the newest one.
    """
    keyed.flush()
    seen = keyed.refresh()
    if foreseen is not None:
        seen = replace(seen, state=foreseen)
    return plan_held(context, keyed, seen, duplicates=duplicates, replaces_all=replaces_all)


def plan_held(
    context: Context,
    keyed: KeyedTable,
    seen: KeyedVersion,
    *,
    rules: MergeRules | None = None,
    duplicates: OnDuplicate = "error",
    replaces_all: bool = False,
) -> BulkPlan:
    """The plan of a change of the version that was seen."""
    spec = seen.spec
    regions = {region.value: region.number for region in context.catalog.regions(keyed.id)}
    if spec.sole is not None:
        regions[spec.sole] = context.catalog.region(keyed.id, spec.sole).number
    return BulkPlan(
        context.store,
        Layout.of(seen.state),
        seen.state.schema if rules is None else rules.source,
        spec,
        regions,
        () if replaces_all else seen.segments,
        keyed.config.append_segment_bytes,
        duplicates,
        rules,
    )


def upsert_frame(
    context: Context,
    keyed: KeyedTable,
    frame: Any,
    request_id: str | None,
    foreseen: TableState | None = None,
    before: Sequence[Change] = (),
) -> Outcome:
    """Insert or replace the rows of a DataFrame, which has each key once, in one version.

    `before` are changes of the same commit that make the state `foreseen`.
    """
    plan = plan_bulk(context, keyed, foreseen=foreseen)
    runs = context.spark().map_frame(write_bulk, plan, frame)
    return commit_upsert(context, keyed, plan, runs, request_id=request_id, before=before)


def overwrite_frame(context: Context, keyed: KeyedTable, frame: Any, where: Where) -> Outcome:
    """Replace all rows, or those that match, with the rows of a DataFrame; those of its keys are replaced anyway."""
    plan = plan_bulk(context, keyed, replaces_all=where is None)
    return commit_overwrite(context, keyed, plan, context.spark().map_frame(write_bulk, plan, frame), where)


def commit_upsert(
    context: Context,
    keyed: KeyedTable,
    plan: BulkPlan,
    runs: Iterable[RegionRun],
    *,
    request_id: str | None = None,
    digest: bytes | None = None,
    summary: Mapping[str, str] | None = None,
    before: Sequence[Change] = (),
) -> Outcome:
    """One version of the runs of a plan, and the changes `before` it. A request id committed before does nothing."""
    drafts = Drafts.of(context, keyed, plan, runs)
    if not drafts.by_region and not before:
        return Outcome(keyed.refresh().state.head_version)
    return commit_drafts(
        context, keyed, plan, drafts, request_id=request_id, digest=digest, summary=summary, before=before
    )


def commit_drafts(
    context: Context,
    keyed: KeyedTable,
    plan: BulkPlan,
    drafts: Drafts,
    *,
    request_id: str | None = None,
    digest: bytes | None = None,
    summary: Mapping[str, str] | None = None,
    before: Sequence[Change] = (),
) -> Outcome:
    """One version of what was drafted by a plan, and the changes `before` it."""
    with keyed.held(drafts.values) as (seen, uses):
        drafts.settle(context, plan, seen)
        change = replace(drafts.change(seen.state, uses), summary=dict(summary or {}))
        changes = [*before, change] if drafts.has_effect or not before else before
        version = context.committer.commit(changes, request_id=request_id, digest=digest).version
    return drafts.outcome(version)


def commit_overwrite(
    context: Context, keyed: KeyedTable, plan: BulkPlan, runs: Iterable[RegionRun], where: Where = None
) -> Outcome:
    """One version in which the runs of a plan stand in place of all rows, or of those that match."""
    drafts = Drafts.of(context, keyed, plan, runs)

    def run() -> Outcome:
        with keyed.held(also=lambda: drafts.values) as (seen, uses):
            if where is None:
                gone = context.catalog.table_entry(keyed.id).rows
                change = replace(drafts.change(seen.state, uses), kind=Kind.OVERWRITE, everything=True)
            else:
                drafts.settle(context, plan, seen)
                matched, gone = prepare_delete(context, seen.state, where, kind=Kind.OVERWRITE)
                change = united(drafts.change(seen.state, uses), matched)
            return replace(drafts.outcome(context.committer.commit([change]).version), rows_deleted=gone)

    return retry(context.config.commit_attempts, run)


def merge(context: Context, keyed: KeyedTable, source: Any, rules: MergeRules) -> Outcome:
    """Apply the rules to the rows of `source`, a DataFrame or Arrow batches, in one version."""
    batches = None if is_frame(source) else list(to_batches(source, rules.source))

    def run() -> Outcome:
        with keyed.held() as (seen, uses):
            if seen.state.schema_id != rules.schema.schema_id:
                raise Conflict("The schema of the table changed when the merge started: retry.")
            plan = plan_held(context, keyed, seen, rules=rules)
            runs: Sequence[RegionRun]
            if batches is None:
                runs = context.spark().map_frame(write_bulk, plan, source)
            else:
                runs = write_runs(plan, context, batches, number_source(context))
            drafts = Drafts.of(context, keyed, plan, runs)
            if not drafts.has_effect:
                return Outcome(seen.state.head_version)
            held = {use.number for use in uses}
            fresh = [value for value in drafts.values if drafts.numbers[value] not in held]
            with keyed.held(fresh) as (now, more):  # regions that did not exist when the merge began
                drafts.settle(context, plan, now)
                change = drafts.change(now.state, [*uses, *more])
                return drafts.outcome(context.committer.commit([change]).version)

    return retry(context.config.commit_attempts, run)


def united(upsert: DataChange, delete: DataChange) -> DataChange:
    """An upsert and a delete of the same version as one overwrite."""
    positions = {n: bitmap for n, bitmap in upsert.positions.items() if n not in delete.whole}
    for number, bitmap in delete.positions.items():
        positions[number] = positions[number] | bitmap if number in positions else bitmap
    return replace(upsert, kind=Kind.OVERWRITE, positions=positions, whole=delete.whole, summary=delete.summary)


def source_schema(source: Any, schema: Schema) -> tuple[Any, pa.Schema]:
    """Rows handed in that are no DataFrame, in a form that can be read more than once, and their Arrow schema.

    Python values of a column of the table's `schema` are of its type, as in an append; other columns are of the type
    that their values suggest.
    """
    if isinstance(source, Mapping):
        return source, _python_schema(source, schema)
    if isinstance(source, list | tuple) and all(isinstance(row, Mapping) for row in source):
        names = dict.fromkeys(name for row in source for name in row)
        return source, _python_schema({name: [row.get(name) for row in source] for name in names}, schema)
    if hasattr(source, "__arrow_c_stream__") and not isinstance(source, pa.Table):
        source = pa.RecordBatchReader.from_stream(source).read_all()
    elif hasattr(source, "__arrow_c_array__"):
        source = pa.Table.from_batches([pa.record_batch(source)])
    if not isinstance(source, pa.Table):
        raise InvalidInput(
            f"merge cannot read rows from {type(source).__name__}: use a Spark DataFrame, Arrow data, a list of "
            "dicts, or a pandas, polars or DuckDB object."
        )
    return source, source.schema


def _python_schema(columns: Mapping[str, Any], schema: Schema) -> pa.Schema:
    table = arrow_schema(schema)
    fields = []
    for name, values in columns.items():
        try:
            kind = table.field(name).type if name in table.names else pa.array(values).type
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InvalidInput(f"Column {name} of the source has values without a common type ({error}).") from None
        fields.append(pa.field(name, kind))
    return pa.schema(fields)
