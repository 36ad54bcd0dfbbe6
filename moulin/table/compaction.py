"""Compaction: pick groups, reserve their inputs, run merge tasks, commit each group once."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from moulin.catalog.commit import CommitResult, Stale
from moulin.errors import NotFound
from moulin.model.entities import TableState
from moulin.model.ids import new_id
from moulin.table.change import MergeChange, SettingChange
from moulin.table.context import Context
from moulin.table.index import carry_indexes
from moulin.table.layout import Layout
from moulin.table.merge_planner import Group, cut, pick, pick_levels
from moulin.table.properties import effective
from moulin.table.tasks import MergeResult, TaskRunner

_SMALL = 64 << 20
_NUMBERS = 4096  # segment numbers reserved for one merge: far more than it can need


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction did: segments and bytes before and after, in the groups it merged."""

    version: int
    merges: int = 0
    segments_in: int = 0
    segments_out: int = 0
    bytes_in: int = 0
    bytes_out: int = 0
    rows: int = 0


def compact(
    context: Context,
    load: Callable[[], TableState],
    *,
    everything: bool = False,
    due_only: bool = False,
    runner: TaskRunner | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Compaction:
    """Merge what is worth merging. Reads, writes and deletes go on meanwhile; none of them is lost.

    Inputs are reserved, so several compactions of one table share the work. `progress(done, all)` counts input bytes.
    """
    state = load()
    config = effective(context.config, state.properties)
    owner = str(new_id())
    segments = context.catalog.segments(state.id, state.version, with_columns=False)
    if state.schema.identifier_field_ids:
        groups = pick_levels(segments, config, due_only=due_only, everything=everything)
    else:
        groups = pick(segments, config, segment_bytes=config.merge_segment_bytes, everything=everything)
    total = sum(group.size for group in groups)
    result = Compaction(state.head_version)
    lock = threading.Lock()
    done = 0

    def run(group: Group) -> None:
        nonlocal result, done
        wanted = [segment.facts.number for segment in group.segments]
        granted = context.catalog.reserve_inputs(owner, wanted)
        change = None
        if len(granted) == len(wanted):
            change, indexes = _merge_group(context, state, group, config.merge_segment_bytes, runner)
            committed = commit_merge(context, change, indexes)
        with lock:
            if change is not None:
                result = _sum(result, committed.version, group, change)
            done += group.size
            if progress:
                progress(done, total)

    try:
        _run_all(run, groups)
    finally:
        context.catalog.release_inputs(owner)
    return result


def _run_all(run: Callable[[Group], None], groups: Sequence[Group]) -> None:
    """Groups share no segment, so small ones run at once; a large one keeps all cores busy by itself."""
    small = [group for group in groups if group.size < _SMALL]
    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="moulin-merge") as pool:
        for _ in pool.map(run, small):
            pass
    for group in groups:
        if group.size >= _SMALL:
            run(group)


def _sum(so_far: Compaction, version: int, group: Group, change: MergeChange) -> Compaction:
    return Compaction(
        max(version, so_far.version),
        so_far.merges + 1,
        so_far.segments_in + len(group.segments),
        so_far.segments_out + len(change.added),
        so_far.bytes_in + group.size,
        so_far.bytes_out + sum(facts.size for facts in change.added),
        so_far.rows + sum(facts.rows for facts in change.added),
    )


def run_group(
    context: Context, state: TableState, group: Group, segment_bytes: int, runner: TaskRunner | None = None
) -> MergeChange:
    """Run the tasks of one merge; the change still has to be committed."""
    return _merge_group(context, state, group, segment_bytes, runner)[0]


def _merge_group(
    context: Context, state: TableState, group: Group, segment_bytes: int, runner: TaskRunner | None
) -> tuple[MergeChange, list[SettingChange]]:
    """The merge, and the files of secondary indexes that cover what it wrote."""
    first = context.catalog.reserve_segments(_NUMBERS)
    tasks = cut(
        context.store,
        Layout.of(state),
        group,
        segment_bytes=segment_bytes,
        cores=os.cpu_count() or 1,
        numbers=range(first, first + _NUMBERS),
    )
    runner = runner or context.runner(group.size)
    results = []
    for result in runner.run(tasks):
        assert isinstance(result, MergeResult)
        results.append(result)
    change = MergeChange(
        state.id,
        state.version,
        {segment.facts.number: segment.vector for segment in group.segments},
        tuple(facts for result in results for facts in result.added),
        tuple(result.journal for result in results),
        {"level": str(group.level)},
    )
    outputs = [(result.journal, [(facts.number, facts.rows) for facts in result.added]) for result in results]
    return change, carry_indexes(context, state, change, group.segments, outputs, runner)


def commit_merge(context: Context, change: MergeChange, indexes: Sequence[SettingChange] = ()) -> CommitResult:
    """Commit a merge; deletes that landed while it ran are carried over to its outputs.

    An index that was dropped meanwhile does not stop it: then the merge is committed by itself.
    """
    try:
        return context.committer.commit([change, *indexes])
    except (Stale, NotFound):
        if not indexes:
            raise
    return context.committer.commit([change])
