"""One compaction, from a group of segments to its commit. `compact` and the workers both run it."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from moulin.catalog.commit.table_commit import CommitResult, Stale
from moulin.errors import MoulinError, NotFound
from moulin.model.entities import TableState
from moulin.model.operations import Claim, UpdateIndex
from moulin.storage import paths
from moulin.table.commit.change import CompactionChange
from moulin.table.compact.kernel import compact_slice
from moulin.table.compact.picker import Group, cut
from moulin.table.context import Context
from moulin.table.index.index import carry_indexes
from moulin.table.runner import Stopped, TaskRunner, never
from moulin.table.write.layout import Layout

_NUMBERS = 4096  # segment numbers reserved for one compaction: far more than it can need


def compact_group(
    context: Context,
    state: TableState,
    group: Group,
    segment_bytes: int,
    runner: TaskRunner | None = None,
    claim: Claim | None = None,
    stopped: Callable[[], bool] = never,
    place: str = "",
) -> CompactionChange:
    """Run the slices of one compaction; the change still has to be committed. Raises Stopped once `stopped()`.

    Outputs are written below `place`, a folder of the lake below a base path, or in the lake's own storage.
    """
    first = context.catalog.reserve_segments(_NUMBERS)
    slices = cut(
        context.store,
        replace(Layout.of(state), place=place),
        group,
        segment_bytes=segment_bytes,
        cores=os.cpu_count() or 1,
        numbers=range(first, first + _NUMBERS),
        memory_bytes=context.config.merge_memory_bytes,
        repartition=group.segments[0].facts.spec_id in state.lost_specs,
    )
    runner = runner or context.runner(group.size)
    results = list(runner.map(compact_slice, slices, stopped=stopped))
    if stopped():
        raise Stopped
    change = CompactionChange(
        state.id,
        state.version,
        {segment.facts.number: segment.vector for segment in group.segments},
        tuple(facts for result in results for facts in result.added),
        tuple(result.journal for result in results),
        {"level": str(group.level)},
        tuple(result.number for result in results),
        claim,
    )
    outputs = [(result.journal, [(facts.number, facts.rows) for facts in result.added]) for result in results]
    return replace(change, indexes=tuple(carry_indexes(context, state, change, group.segments, outputs, runner)))


def commit_compaction(context: Context, change: CompactionChange, *, own: bool = True) -> CommitResult:
    """Commit a compaction; deletes that landed while it ran are carried over to its outputs.

    If an index was dropped, the compaction is committed without it. Files of one that
    lost against another change are deleted if they are this process's `own`: they may hold rows that were erased.
    """
    try:
        try:
            return context.committer.commit([change, *change.indexes])
        except (Stale, NotFound):
            if not change.indexes:
                raise
        return context.committer.commit([change])
    except Stale:
        if own:
            _take_back(context, change)
        raise


def _take_back(context: Context, change: CompactionChange) -> None:
    """Delete the output of a failed compaction; clean-up finds the rest."""
    files = [facts.path for facts in change.added]
    files += [paths.key_index_path(facts.path) for facts in change.added if facts.index_size]
    for index in change.indexes:
        if isinstance(index.operation, UpdateIndex):
            files += [file.path for file in index.operation.files]
    with suppress(MoulinError):
        context.store.delete(files)
