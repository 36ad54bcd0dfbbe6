"""Runs into a version: bulk upserts, overwrites and merges of a keyed table, planned and committed by the driver.

Runs of an upsert are written while puts go on, and locate their keys in the version of the plan. The commit holds the
regions they touch; where rows of these changed meanwhile, it locates the keys of the runs again. A merge computes from
the rows that are there, so it holds the table from its beginning.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyroaring import BitMap64

from moulin.catalog.commit.commit import Stale
from moulin.errors import Conflict, InvalidInput
from moulin.formats import deletion_vector
from moulin.formats.segment.reader import SegmentReader
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.model.layout.partition import PartitionTuple
from moulin.model.layout.region import RegionSpec
from moulin.model.merge_rules import MergeRules
from moulin.model.operations import Kind, RegionUse, Verdict
from moulin.model.rows.rows import to_batches
from moulin.model.where import Where
from moulin.table.bulk.runs import DuplicateSlice, RelocateSlice, find_duplicates, relocate
from moulin.table.bulk.writer import OnDuplicate, RegionRun, RunPlan, duplicate_key, write_run_rows, write_runs
from moulin.table.commit.change import DataChange, retried
from moulin.table.context import Context
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.keyed.reader import View
from moulin.table.ports import is_frame
from moulin.table.write.layout import Layout
from moulin.table.write.upsert import UpsertDraft
from moulin.table.write.writes import Outcome, number_source, prepare_delete

_CHECKED_ROWS = 4 << 20  # keys that one slice looks through for duplicates


def plan_runs(
    context: Context, keyed: KeyedTable, *, duplicates: OnDuplicate = "error", replaces_all: bool = False
) -> RunPlan:
    """The plan of an upsert into the newest version, or of rows that replace all others."""
    keyed.flush()
    return _plan(context, keyed, keyed.refresh(), duplicates=duplicates, replaces_all=replaces_all)


def _plan(
    context: Context,
    keyed: KeyedTable,
    view: View,
    *,
    rules: MergeRules | None = None,
    duplicates: OnDuplicate = "error",
    replaces_all: bool = False,
) -> RunPlan:
    regions = {region.value: region.number for region in context.catalog.regions(keyed.id)}
    if not keyed.spec.is_split:
        regions[()] = 0
    return RunPlan(
        context.store,
        Layout.of(view.state),
        view.state.schema if rules is None else rules.source,
        keyed.spec,
        regions,
        () if replaces_all else view.segments,
        keyed.config.append_segment_bytes,
        duplicates,
        rules,
    )


def upsert_frame(context: Context, keyed: KeyedTable, frame: Any, request_id: str | None) -> Outcome:
    """Insert or replace the rows of a DataFrame, which has each key once, in one version."""
    plan = plan_runs(context, keyed)
    runs = context.spark().map_frame(write_run_rows, plan, frame)
    return commit_upsert(context, keyed, plan, runs, request_id=request_id)


def overwrite_frame(context: Context, keyed: KeyedTable, frame: Any, where: Where) -> Outcome:
    """Replace all rows, or those that match, with the rows of a DataFrame; those of its keys are replaced anyway."""
    plan = plan_runs(context, keyed, replaces_all=where is None)
    return commit_overwrite(context, keyed, plan, context.spark().map_frame(write_run_rows, plan, frame), where)


def commit_upsert(
    context: Context,
    keyed: KeyedTable,
    plan: RunPlan,
    runs: Iterable[RegionRun],
    *,
    request_id: str | None = None,
    digest: bytes | None = None,
    summary: Mapping[str, str] | None = None,
) -> Outcome:
    """One version of the runs of a plan. A request id that was committed before does nothing."""
    drafts = _Drafts.of(context, keyed, plan, runs)
    if not drafts.by_region:
        return Outcome(keyed.refresh().state.head_version)
    with keyed.held(drafts.values) as (view, uses):
        drafts.settle(context, plan, view)
        change = replace(drafts.change(view.state, uses), summary=dict(summary or {}))
        version = context.committer.commit([change], request_id=request_id, digest=digest).version
    return drafts.outcome(version)


def commit_overwrite(
    context: Context, keyed: KeyedTable, plan: RunPlan, runs: Iterable[RegionRun], where: Where = None
) -> Outcome:
    """One version in which the runs of a plan stand in place of all rows, or of those that match."""
    drafts = _Drafts.of(context, keyed, plan, runs)
    known = [region.value for region in context.catalog.regions(keyed.id)]
    values = {*known, *drafts.values, *([] if keyed.spec.is_split else [()])}

    def run() -> Outcome:
        with keyed.held(sorted(values, key=repr)) as (view, uses):
            if where is None:
                gone = context.catalog.table_entry(keyed.id).rows
                change = replace(drafts.change(view.state, uses), kind=Kind.OVERWRITE, everything=True)
            else:
                drafts.settle(context, plan, view)
                matched, gone = prepare_delete(context, view.state, where, kind=Kind.OVERWRITE)
                change = united(drafts.change(view.state, uses), matched)
            return replace(drafts.outcome(context.committer.commit([change]).version), rows_deleted=gone)

    return retried(context.config.commit_attempts, run)


def merge(context: Context, keyed: KeyedTable, source: Any, rules: MergeRules) -> Outcome:
    """Apply the rules to the rows of `source`, a DataFrame or Arrow batches, in one version."""
    batches = None if is_frame(source) else list(to_batches(source, rules.source))

    def run() -> Outcome:
        with keyed.held() as (view, uses):
            if view.state.schema_id != rules.schema.schema_id:
                raise Conflict("The schema of the table changed while the merge began; try again.")
            plan = _plan(context, keyed, view, rules=rules)
            runs: Sequence[RegionRun]
            if batches is None:
                runs = context.spark().map_frame(write_run_rows, plan, source)
            else:
                runs = write_runs(plan, context, batches, number_source(context))
            drafts = _Drafts.of(context, keyed, plan, runs)
            if not drafts.has_effect:
                return Outcome(view.state.head_version)
            held = {use.number for use in uses}
            fresh = [value for value in drafts.values if drafts.numbers[value] not in held]
            with keyed.held(fresh) as (now, more):  # regions that did not exist when the merge began
                drafts.settle(context, plan, now)
                change = drafts.change(now.state, [*uses, *more])
                return drafts.outcome(context.committer.commit([change]).version)

    return retried(context.config.commit_attempts, run)


def united(upsert: DataChange, delete: DataChange) -> DataChange:
    """An upsert and a delete of the same version as one overwrite."""
    positions = {n: places for n, places in upsert.positions.items() if n not in delete.whole}
    for number, places in delete.positions.items():
        positions[number] = positions[number] | places if number in positions else places
    return replace(upsert, kind=Kind.OVERWRITE, positions=positions, whole=delete.whole, summary=delete.summary)


def source_schema(source: Any) -> tuple[Any, pa.Schema]:
    """Rows handed in that are no DataFrame, in a form that can be read more than once, and their Arrow schema."""
    if isinstance(source, Mapping):
        source = pa.table(dict(source))
    elif isinstance(source, list | tuple) and all(isinstance(row, Mapping) for row in source):
        source = pa.Table.from_pylist([dict(row) for row in source])
    elif hasattr(source, "__arrow_c_stream__") and not isinstance(source, pa.Table):
        source = pa.RecordBatchReader.from_stream(source).read_all()
    elif hasattr(source, "__arrow_c_array__"):
        source = pa.Table.from_batches([pa.record_batch(source)])
    if not isinstance(source, pa.Table):
        raise InvalidInput(
            f"merge cannot read rows from {type(source).__name__}: give a Spark DataFrame, Arrow data, a list of "
            "dicts, or a pandas, polars or DuckDB object."
        )
    return source, source.schema


@dataclass(slots=True)
class _Drafts:
    """The runs of all tasks by region, until they are committed."""

    numbers: dict[PartitionTuple, int] = field(default_factory=dict)
    by_region: dict[int, UpsertDraft] = field(default_factory=dict)

    @classmethod
    def of(cls, context: Context, keyed: KeyedTable, plan: RunPlan, runs: Iterable[RegionRun]) -> _Drafts:
        """United in the order of the tasks; keys that several tasks wrote are refused or dropped, as the plan says."""
        made = cls()
        for run in runs:
            if run.value not in made.numbers:
                made.numbers[run.value] = context.catalog.region(keyed.id, run.value).number
            number = made.numbers[run.value]
            draft = made.by_region.setdefault(number, UpsertDraft())
            if plan.duplicates == "error":
                _refuse_common(context, plan, draft, run.draft)
            _unite(draft, run.draft, number)
        for draft in made.by_region.values():
            _drop_duplicates(context, plan, draft)
        return made

    @property
    def values(self) -> list[PartitionTuple]:
        return list(self.numbers)

    @property
    def has_effect(self) -> bool:
        return any(draft.added or draft.positions for draft in self.by_region.values())

    def settle(self, context: Context, plan: RunPlan, view: View) -> None:
        """Locate keys again in regions whose rows are not as planned. REQUIRES: the regions are held."""
        if plan.spec.spec != RegionSpec.of(view.state.schema, view.state.properties).spec:
            raise Conflict("How the table is divided into regions changed meanwhile; try again.")
        for number, draft in self.by_region.items():
            segments = view.of_region(number)
            if _content(segments) == _content(s for s in plan.segments if s.facts.region == number):
                continue
            if plan.rules is not None:
                raise Stale("Rows that the merge read changed meanwhile; try again.", Verdict.RETRY)
            self.by_region[number] = _relocated(context, plan, draft, segments)

    def change(self, state: TableState, uses: Sequence[RegionUse]) -> DataChange:
        whole = UpsertDraft()
        for number, draft in self.by_region.items():
            _unite(whole, draft, number)
        change = whole.change(state, uses)
        return change if change.added else replace(change, kind=Kind.DELETE)

    def outcome(self, version: int) -> Outcome:
        drafts = self.by_region.values()
        return Outcome(
            version,
            sum(draft.rows_new for draft in drafts),
            sum(draft.rows_deleted for draft in drafts),
            sum(draft.rows_updated for draft in drafts),
        )


def _unite(whole: UpsertDraft, part: UpsertDraft, region: int) -> None:
    whole.added += [replace(facts, region=region) for facts in part.added]
    for number, places in part.positions.items():
        whole.positions[number] = whole.positions[number] | places if number in whole.positions else places
    whole.rows_new += part.rows_new
    whole.rows_updated += part.rows_updated
    whole.rows_deleted += part.rows_deleted


def _refuse_common(context: Context, plan: RunPlan, one: UpsertDraft, other: UpsertDraft) -> None:
    """Rows that two tasks replace or delete are rows of a key that came twice, whether it was written or not."""
    for number, places in other.positions.items():
        common = one.positions.get(number, BitMap64()) & places
        if common:
            facts = next(segment.facts for segment in plan.segments if segment.facts.number == number)
            raise _repeated(context, plan, facts, common[0])


def _content(segments: Iterable[LiveSegment]) -> dict[int, int]:
    return {segment.facts.number: segment.vector.id if segment.vector else 0 for segment in segments}


def _drop_duplicates(context: Context, plan: RunPlan, draft: UpsertDraft) -> None:
    """Of rows of one key, which different tasks wrote, only the last counts; or InvalidInput, as the plan says."""
    added = draft.added
    if not _overlap(added):
        return
    store = context.store
    cuts: list[bytes | None] = [None, *_cuts(context, added), None]
    slices = [DuplicateSlice(store, tuple(added), low, high) for low, high in pairwise(cuts)]
    for result in context.runner(sum(facts.size for facts in added)).map(find_duplicates, slices):
        for number, blob in result.positions:
            places = deletion_vector.decode(blob)
            known = draft.positions.get(number, BitMap64())
            if plan.duplicates == "error":
                facts = next(facts for facts in added if facts.number == number)
                raise _repeated(context, plan, facts, places[0])
            draft.rows_new -= len(places - known)
            draft.positions[number] = known | places
        draft.rows_new += result.updated
        draft.rows_updated -= result.updated


def _overlap(added: Sequence[SegmentFacts]) -> bool:
    spans = sorted((facts.key_min or b"", facts.key_max or b"") for facts in added)
    return any(high >= low for (_, high), (low, _) in pairwise(spans))


def _cuts(context: Context, added: Sequence[SegmentFacts]) -> list[bytes]:
    """Keys that divide the runs into parts of some rows each."""
    if sum(facts.rows for facts in added) <= _CHECKED_ROWS:
        return []
    firsts = sorted(entry for facts in added for entry in context.indexes.index(LiveSegment(facts, 0, 0, 0)).firsts())
    found, rows = [], 0
    for first, count in firsts:
        if rows >= _CHECKED_ROWS:
            found.append(first)
            rows = 0
        rows += count
    return found


def _repeated(context: Context, plan: RunPlan, facts: SegmentFacts, position: int) -> InvalidInput:
    source = context.store.reader(facts.path, facts.size)
    with SegmentReader(source, plan.layout.schema, columns=plan.key.names, name=facts.path) as reader:
        return duplicate_key(plan.key, reader.table(start=position, stop=position + 1), 0)


def _relocated(context: Context, plan: RunPlan, draft: UpsertDraft, segments: Sequence[LiveSegment]) -> UpsertDraft:
    """The same rows over the segments of another version."""
    numbers = number_source(context)
    own = {facts.number: draft.positions.get(facts.number) for facts in draft.added}
    slices = [
        RelocateSlice(
            context.store,
            plan.layout,
            facts,
            tuple(segments),
            numbers(),
            None if (dropped := own[facts.number]) is None else deletion_vector.encode(dropped),
        )
        for facts in draft.added
    ]
    made = UpsertDraft()
    results = context.runner(sum(facts.size for facts in draft.added)).map(relocate, slices)
    for facts, result in zip(draft.added, results, strict=True):
        dropped = own[facts.number]
        made.added.append(result.run)
        if dropped is not None:
            made.positions[result.run.number] = dropped
        for number, blob in result.positions:
            made.positions[number] = made.positions.get(number, BitMap64()) | deletion_vector.decode(blob)
        made.rows_updated += result.updated
        made.rows_new += facts.rows - len(dropped or ()) - result.updated
    return made
