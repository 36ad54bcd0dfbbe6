"""Commits edits: plans, writes and commits them, and computes them again if rows that they read have changed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyroaring import BitMap64

from moulin.errors import Conflict
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.operations import Kind, RegionUse
from moulin.model.rows.rows import RowsOf, to_batches
from moulin.table.bulk.commit import plan_held
from moulin.table.bulk.drafts import Drafts
from moulin.table.bulk.writer import RegionRun
from moulin.table.commit.change import DataChange
from moulin.table.commit.retry import retry
from moulin.table.context import Context
from moulin.table.edit.edits import PLACE, EditPlan, Edits, EditSlices
from moulin.table.edit.slices import write_slices
from moulin.table.edit.writer import matched_twice, require_successors, write_edits
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.ports import is_frame
from moulin.table.properties import effective
from moulin.table.write.layout import Layout
from moulin.table.write.upsert import UpsertDraft
from moulin.table.write.writes import Outcome, number_source

Compute = Callable[[TableState], Edits]
"""The edits of a statement over the rows of one version of the table."""


def apply_edits(
    context: Context,
    newest: Callable[[], TableState],
    keyed: KeyedTable | None,
    compute: Compute,
    summary: Mapping[str, str],
) -> Outcome:
    """Commit what `compute` makes of the newest rows as one version; nothing when there is nothing to change.

    If rows change while it works, it computes again. A keyed table is held, so that its rows do not change.
    """

    def run() -> Outcome:
        if keyed is not None:
            return _apply_held(context, keyed, compute, summary)
        state = newest()
        with context.pins.hold(state.id, state.version):
            edits = compute(state)
            plan = _plan(context, state, edits)
            draft = _united(plan, _written(context, plan, edits))
        return _commit(context, state, draft, (), summary)

    return retry(context.config.commit_attempts, run)


def _apply_held(context: Context, keyed: KeyedTable, compute: Compute, summary: Mapping[str, str]) -> Outcome:
    with keyed.held() as (seen, uses):
        edits = compute(seen.state)
        plan = replace(_plan(context, seen.state, edits), bulk=plan_held(context, keyed, seen))
        assert plan.bulk is not None
        runs = _written(context, plan, edits)
        _refuse_common(plan, [run.draft for run in runs])
        require_successors(plan, plan.bulk, [run.draft for run in runs])
        drafts = Drafts.of(context, keyed, plan.bulk, runs)
        known = {use.number for use in uses}  # rows of regions of an earlier spec may go: they are in one that is held
        own = [value for value in drafts.values if plan.bulk.spec.owns(value)]
        fresh = [value for value in own if drafts.numbers[value] not in known]
        with keyed.held(fresh) as (now, more):  # regions that did not exist when the statement began
            if not plan.bulk.spec.is_as(now.spec):
                raise Conflict("The regions of the table changed during the write: retry.")
            whole = UpsertDraft()
            for number, draft in drafts.by_region.items():
                whole.unite(draft, number)
            return _commit(context, seen.state, whole, [*uses, *more], summary)


def _plan(context: Context, state: TableState, edits: Edits) -> EditPlan:
    segments: Sequence[LiveSegment] = context.catalog.segments(state.id, state.version, with_columns=False)
    size = effective(context.config, state.properties).append_segment_bytes
    by_number = {segment.facts.number: segment for segment in segments}
    return EditPlan(context.store, Layout.of(state), edits.clauses, by_number, size)


def _written(context: Context, plan: EditPlan, edits: Edits) -> Sequence[RegionRun]:
    rows: Any = edits.rows
    if isinstance(rows, EditSlices):
        return write_slices(context, plan, rows)
    if is_frame(rows):
        few = context.spark().few_rows(rows)
        if few is None:
            return context.spark().map_frame(write_edits, plan, rows)
        rows = to_batches(few, plan.source, RowsOf(plan.table, PLACE))
    return write_edits(plan, rows, number_source(context))


def _refuse_common(plan: EditPlan, drafts: Iterable[UpsertDraft]) -> None:
    """Refuse rows that edits of several tasks are about."""
    known: dict[int, BitMap64] = {}
    for draft in drafts:
        for number in draft.positions.keys() & plan.segments.keys():
            bitmap = draft.positions[number]
            if number in known and known[number] & bitmap:
                raise matched_twice(plan, number)
            known[number] = known[number] | bitmap if number in known else bitmap


def _united(plan: EditPlan, runs: Sequence[RegionRun]) -> UpsertDraft:
    _refuse_common(plan, [run.draft for run in runs])
    whole = UpsertDraft()
    for run in runs:
        whole.unite(run.draft, 0)
    return whole


def _commit(
    context: Context,
    state: TableState,
    draft: UpsertDraft,
    regions: Sequence[RegionUse],
    summary: Mapping[str, str],
) -> Outcome:
    change: DataChange = draft.change(state, regions)
    if not change.added and not change.positions:
        return Outcome(state.head_version)
    kind = change.kind if change.added else Kind.DELETE
    if not change.positions and not regions:
        kind = Kind.APPEND
    change = replace(change, kind=kind, exact=True, summary=dict(summary))
    version = context.committer.commit([change]).version
    return Outcome(version, draft.rows_new, draft.rows_deleted, draft.rows_updated)
