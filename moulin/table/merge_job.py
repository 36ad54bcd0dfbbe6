"""One merge, from a group of segments to its commit. Compaction and merge workers both run it."""

from __future__ import annotations

import os

from moulin.catalog.commit import CommitResult
from moulin.model.entities import TableState
from moulin.model.operations import Claim
from moulin.table.change import MergeChange
from moulin.table.context import Context
from moulin.table.layout import Layout
from moulin.table.merge_planner import Group, cut
from moulin.table.tasks import MergeResult, TaskRunner

_NUMBERS = 4096  # segment numbers reserved for one merge: far more than it can need


def run_group(
    context: Context,
    state: TableState,
    group: Group,
    segment_bytes: int,
    runner: TaskRunner | None = None,
    claim: Claim | None = None,
) -> MergeChange:
    """Run the tasks of one merge; the change still has to be committed."""
    first = context.catalog.reserve_segments(_NUMBERS)
    tasks = cut(
        context.store,
        Layout.of(state),
        group,
        segment_bytes=segment_bytes,
        cores=os.cpu_count() or 1,
        numbers=range(first, first + _NUMBERS),
    )
    results = []
    for result in (runner or context.runner(group.size)).run(tasks):
        assert isinstance(result, MergeResult)
        results.append(result)
    return MergeChange(
        state.id,
        state.version,
        {segment.facts.number: segment.vector for segment in group.segments},
        tuple(facts for result in results for facts in result.added),
        tuple(result.journal for result in results),
        {"level": str(group.level)},
        tuple(result.number for result in results),
        claim,
    )


def commit_merge(context: Context, change: MergeChange) -> CommitResult:
    """Commit a merge; deletes that landed while it ran are carried over to its outputs."""
    return context.committer.commit([change])
