"""Compaction: plan merge tasks, run them, commit each once. A worker of the meta service runs the same tasks."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from uuid import UUID

from moulin.catalog.commit.table_commit import CommitResult
from moulin.catalog.tasks.merge_tasks import PlannedTask
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.ids import new_id
from moulin.model.operations import Claim
from moulin.model.table_settings import MERGE_SPAN, RETENTION, merge_span_ns
from moulin.table.commit.change import CompactionChange
from moulin.table.compact.job import commit_compaction, compact_group
from moulin.table.compact.picker import Bounds, Group, pick, pick_levels
from moulin.table.compact.worker import CompactionWorker, heartbeats
from moulin.table.context import Context
from moulin.table.properties import effective
from moulin.table.runner import TaskRunner

_SMALL = 64 << 20


@dataclass(frozen=True, slots=True)
class Compaction:
    """What a compaction did: segments and bytes before and after, in the groups it rewrote."""

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
    """Compact what is worth compacting. Reads, writes and deletes go on meanwhile; none of them is lost.

    Tasks that wait for a worker are done first. What another worker has is left to it, so several compactions of one
    table share the work. `progress(done, all)` counts input bytes.
    """
    state = load()
    owner = f"compact {new_id()}"
    result = Compaction(state.head_version)
    if not due_only and context.catalog.maintenance.merge_tasks(state.id):
        worker = CompactionWorker(context, owner, runner=runner)
        for done_task in worker.run_all(state.id):
            result = _sum(result, done_task.version, done_task.group, done_task.change)
        state = load()
    config = effective(context.config, state.properties)
    groups = plan(context, state, everything=everything, due_only=due_only)
    total = sum(group.size for group in groups)
    tasks = context.catalog.maintenance
    lock = threading.Lock()
    done = 0

    def run(group: Group) -> None:
        nonlocal result, done
        plan_of_it = [planned(state.id, group)]
        claim = tasks.create_merge_tasks(plan_of_it, worker=owner, read_version=state.version)[0]
        if claim is not None:
            change, committed = _run_claimed(context, state, group, claim, config.merge_segment_bytes, runner)
        with lock:
            if claim is not None:
                result = _sum(result, committed.version, group, change)
            done += group.size
            if progress:
                progress(done, total)

    _run_all(run, groups)
    return result


def plan(
    context: Context,
    state: TableState,
    *,
    everything: bool = False,
    due_only: bool = False,
    bounds: Bounds | None = None,
    segments: Iterable[LiveSegment] | None = None,
) -> list[Group]:
    """The compactions worth doing, of segments that no task has: of all that are live, or of `segments` among them."""
    config = effective(context.config, state.properties)
    if segments is None:
        segments = context.catalog.segments(state.id, state.version, with_columns=False)
    live = list(segments)
    held = context.catalog.maintenance.merge_inputs_held([segment.facts.number for segment in live])
    free = [segment for segment in live if segment.facts.number not in held]
    if state.schema.identifier_field_ids:
        return pick_levels(free, config, due_only=due_only, everything=everything, lost_specs=state.lost_specs)
    span = merge_span_ns(state.properties, config.merge_span)
    own = MERGE_SPAN in state.properties or RETENTION in state.properties
    # Whoever compacts by hand wants few segments: only a span that the table was given holds then.
    limits = replace(bounds or Bounds(), span_ns=span if own or bounds is not None else None)
    return pick(
        free,
        config,
        segment_bytes=config.merge_segment_bytes,
        everything=everything,
        bounds=limits,
        lost_specs=state.lost_specs,
    )


def planned(table_id: UUID, group: Group) -> PlannedTask:
    """A group as the catalog keeps it."""
    inputs = {s.facts.number: s.vector.id if s.vector else 0 for s in group.segments}
    return PlannedTask(table_id, inputs, group.level)


def _run_claimed(
    context: Context, state: TableState, group: Group, claim: Claim, segment_bytes: int, runner: TaskRunner | None
) -> tuple[CompactionChange, CommitResult]:
    """Run and commit one task; whatever goes wrong, its inputs are free again for whoever calls next."""
    try:
        with heartbeats(context.catalog, claim):
            change = compact_group(context, state, group, segment_bytes, runner, claim)
        return change, commit_compaction(context, change)
    except BaseException:
        context.catalog.maintenance.delete_merge_task(claim.task_id)
        raise


def _run_all(run: Callable[[Group], None], groups: Sequence[Group]) -> None:
    """Groups share no segment, so small ones run at once; a large one keeps all cores busy by itself."""
    small = [group for group in groups if group.size < _SMALL]
    with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="moulin-compact") as pool:
        for _ in pool.map(run, small):
            pass
    for group in groups:
        if group.size >= _SMALL:
            run(group)


def _sum(so_far: Compaction, version: int, group: Group, change: CompactionChange) -> Compaction:
    return Compaction(
        max(version, so_far.version),
        so_far.merges + 1,
        so_far.segments_in + len(group.segments),
        so_far.segments_out + len(change.added),
        so_far.bytes_in + group.size,
        so_far.bytes_out + sum(facts.size for facts in change.added),
        so_far.rows + sum(facts.rows for facts in change.added),
    )
