"""Compaction: plan merge tasks, run them, commit each once. A worker of the meta service runs the same tasks."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from uuid import UUID

from moulin.catalog.commit.table_commit import CommitResult, Stale
from moulin.catalog.tasks.merge_tasks import PlannedTask
from moulin.errors import Corrupt, FailedPrecondition, MoulinError
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.filling import fillings_of
from moulin.model.ids import new_id
from moulin.model.merge_task import MergeTask, TaskState
from moulin.model.operations import Claim
from moulin.model.region_spec import RegionSpec
from moulin.model.table_settings import MERGE_SPAN, RETENTION, merge_span_ns
from moulin.table.commit.change import CompactionChange
from moulin.table.compact.job import commit_compaction, compact_group
from moulin.table.compact.picker import Bounds, Group, pick, pick_levels, rewrite_each
from moulin.table.compact.worker import CompactionWorker, heartbeats
from moulin.table.context import Context
from moulin.table.properties import effective
from moulin.table.read.quarantine import proven, refuse_quarantined
from moulin.table.runner import Stopped, TaskRunner, in_turn, never, side_by_side

_SMALL = 64 << 20
_CHUNK = 8 << 20


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
    stopped: Callable[[], bool] = never,
) -> Compaction:
    """Compact segments that need it. Reads, writes and deletes continue; none of them is lost.

    Waiting tasks are run first; with `due_only` only those with an expired lease. Tasks of other workers are skipped,
    so several compactions of one table share the work. `progress(done, all)` counts input bytes. Once `stopped()` is
    true, no compaction is started, and Stopped is raised. Tasks that failed before and wait keep their segments: after
    the others are done, FailedPrecondition names them, unless `due_only`.
    """
    state = load()
    if not due_only:
        refuse_quarantined(context.catalog, state)
    owner = f"compact {new_id()}"
    result = Compaction(state.head_version)
    waiting = context.catalog.maintenance.merge_tasks(state.id)
    if any(map(_has_lapsed, waiting)) if due_only else waiting:
        worker = CompactionWorker(context, owner, runner=runner, stopped=stopped)
        for done_task in worker.run_all(state.id):
            result = _sum(result, done_task.version, done_task.group, done_task.change)
        state = load()
    groups = plan(context, state, everything=everything, due_only=due_only)
    total = sum(group.size for group in groups)
    result = _Groups(context, state, owner, runner, progress, stopped, total, result).run(groups)
    if not due_only:
        _require_none_failed(context, state)
    return result


def _require_none_failed(context: Context, state: TableState) -> None:
    waits = (TaskState.WAITING, TaskState.QUARANTINED)
    tasks = context.catalog.maintenance.merge_tasks(state.id)
    failed = [task for task in tasks if task.failures and task.state in waits]
    if failed:
        task = failed[0]
        raise FailedPrecondition(
            f"{sum(one.segments for one in failed)} segments of {state.full_name} were not compacted: merge task "
            f"{task.id} holds {task.segments} of them and failed {task.failures} times, last with: {task.last_error} "
            "Fix that, then retry it with `moulin task release`, or free its segments with `moulin task "
            "delete`. The other segments were compacted."
        )


def compact_segments(context: Context, state: TableState, segments: Sequence[LiveSegment]) -> Compaction:
    """Compact some of the live segments. Segments of other workers are skipped."""
    groups = plan(context, state, everything=True, segments=segments)
    total, nothing = sum(group.size for group in groups), Compaction(state.head_version)
    return _Groups(context, state, f"compact {new_id()}", None, None, never, total, nothing).run(groups)


def rewrite_at(
    context: Context,
    state: TableState,
    segments: Sequence[LiveSegment],
    place: str,
    progress: Callable[[int, int], None] | None = None,
) -> Compaction:
    """Write each of these segments anew below `place`, by itself, verify it and commit it.

    What another worker has is left to it. A task that this process leaves behind is done by a worker, in the lake's own
    storage: no row is lost, and the segment can be written anew again.
    """
    held = context.catalog.maintenance.merge_inputs_held([segment.facts.number for segment in segments])
    free = proven(context.catalog, state, segments)
    groups = rewrite_each([segment for segment in free if segment.facts.number not in held])
    total, nothing = sum(group.size for group in groups), Compaction(state.head_version)
    return _Groups(context, state, f"move {new_id()}", None, progress, never, total, nothing, place).run(groups)


def _verify(context: Context, change: CompactionChange) -> None:
    """Read what was written, and compare it with what was to be written: the inputs go when it is committed."""
    for facts in change.added:
        digest = hashlib.sha256()
        with context.store.reader(facts.path, facts.size) as source:
            while piece := source.read(_CHUNK):
                digest.update(piece)
        if digest.digest() != facts.sha256:
            raise Corrupt(f"{facts.path} differs from what was written: nothing was moved. Check the base path.")


def fold(context: Context, state: TableState) -> Compaction:
    """Rewrite segments with column files as one file each. Segments of running workers are skipped.

    Segments with columns that are not complete stay as they are: their values would be computed again.
    """
    owner, done = f"fold {new_id()}", Compaction(state.head_version)
    if any(map(_has_lapsed, context.catalog.maintenance.merge_tasks(state.id))):
        for one in CompactionWorker(context, owner).run_all(state.id):
            done = _sum(done, one.version, one.group, one.change)
        state = context.catalog.table_by_id(state.id)
    live = proven(context.catalog, state, context.catalog.segments(state.id, state.version, with_columns=False))
    pending = _pending(state)
    beside = [segment for segment in live if segment.facts.files and not _is_filled(segment, pending)]
    held = context.catalog.maintenance.merge_inputs_held([segment.facts.number for segment in beside])
    groups = rewrite_each([segment for segment in beside if segment.facts.number not in held])
    return _Groups(context, state, owner, None, None, never, sum(group.size for group in groups), done).run(groups)


@dataclass(slots=True)
class _Groups:
    """Compact groups under separate tasks, several at a time."""

    context: Context
    state: TableState
    owner: str
    runner: TaskRunner | None
    progress: Callable[[int, int], None] | None
    stopped: Callable[[], bool]
    total: int
    result: Compaction
    place: str = ""
    _done: int = 0
    _held: set[Claim] = field(default_factory=set)
    _claiming: threading.Lock = field(default_factory=threading.Lock)
    _counting: threading.Lock = field(default_factory=threading.Lock)
    _interrupted: threading.Event = field(default_factory=threading.Event)

    def run(self, groups: Sequence[Group]) -> Compaction:
        try:
            _run_all(self._run, groups)
        except (KeyboardInterrupt, SystemExit):
            self._interrupted.set()
            with self._claiming:  # includes tasks being created; finished ones are skipped
                mine = list(self._held)
            for claim in mine:
                _forget(self.context, claim)
            raise
        return self.result

    def _is_over(self) -> bool:
        return self._interrupted.is_set() or self.stopped()

    def _run(self, group: Group) -> None:
        claim = self._claim(group)
        if claim is not None:
            run = partial(_run_claimed, self.context, self.state, group, claim, self.runner, self._is_over)
            try:
                change, committed = run(self.place)
            except Stale:
                if self._all_live(group):
                    raise
                claim = None  # segments of the group were replaced before it was claimed
        with self._counting:
            if claim is not None:
                self.result = _sum(self.result, committed.version, group, change)
            self._done += group.size
            if self.progress:
                self.progress(self._done, self.total)

    def _all_live(self, group: Group) -> bool:
        numbers = [segment.facts.number for segment in group.segments]
        catalog = self.context.catalog
        newest = catalog.table_by_id(self.state.id).version
        return len(catalog.segments_by_number(self.state.id, numbers, newest)) == len(numbers)

    def _claim(self, group: Group) -> Claim | None:
        """Claim a task for the group; None if another worker has segments of it."""
        tasks, plans = self.context.catalog.maintenance, [planned(self.state.id, group)]
        with self._claiming:
            if self._is_over():
                raise Stopped
            claim = tasks.create_merge_tasks(plans, worker=self.owner, read_version=self.state.version)[0]
            if claim is not None:
                self._held.add(claim)
            return claim


def plan(
    context: Context,
    state: TableState,
    *,
    everything: bool = False,
    due_only: bool = False,
    bounds: Bounds | None = None,
    segments: Iterable[LiveSegment] | None = None,
) -> list[Group]:
    """The needed compactions of segments without a task: of all live segments, or of those in `segments`."""
    config = effective(context.config, state.properties)
    if segments is None:
        segments = context.catalog.segments(state.id, state.version, with_columns=False)
    live = proven(context.catalog, state, segments)
    held = context.catalog.maintenance.merge_inputs_held([segment.facts.number for segment in live])
    pending = _pending(state)
    free = [
        segment
        for segment in live
        if segment.facts.number not in held
        # Level 0 of a keyed table does not wait for a fill, which may be abandoned, because writers would wait too.
        and (not _is_filled(segment, pending) or (due_only and segment.facts.level == 0))
    ]
    if state.schema.identifier_field_ids:
        regions = RegionSpec.of(state.schema, state.properties)
        options = {"due_only": due_only, "everything": everything}
        return pick_levels(free, config, **options, lost_specs=state.lost_specs, regions=regions)
    span = merge_span_ns(state.properties, config.merge_span)
    own = MERGE_SPAN in state.properties or RETENTION in state.properties
    # A manual compaction should leave few segments: only a span set for the table applies.
    limits = replace(bounds or Bounds(), span_ns=span if own or bounds is not None else None)
    return pick(
        free,
        config,
        segment_bytes=config.merge_segment_bytes,
        everything=everything,
        bounds=limits,
        lost_specs=state.lost_specs,
    )


def _is_filled(segment: LiveSegment, pending: AbstractSet[int]) -> bool:
    """Whether a segment has values of a column that is not complete: a compaction would have to compute them again.

    Values of a column that a publish or a restore has dropped are left out by it.
    """
    return any(not pending.isdisjoint(file.fields) for file in segment.facts.files)


def _pending(state: TableState) -> AbstractSet[int]:
    return {one.number for one in fillings_of(state.properties, state.schema).values()}


def planned(table_id: UUID, group: Group) -> PlannedTask:
    """A group as a plan for the catalog."""
    inputs = {s.facts.number: s.vector.id if s.vector else 0 for s in group.segments}
    return PlannedTask(table_id, inputs, group.level)


def _run_claimed(
    context: Context,
    state: TableState,
    group: Group,
    claim: Claim,
    runner: TaskRunner | None,
    stopped: Callable[[], bool],
    place: str,
) -> tuple[CompactionChange, CommitResult]:
    """Run and commit one task; on any error, its inputs are free again.

    A task that was taken over belongs to its new worker, and is kept.
    """
    segment_bytes = effective(context.config, state.properties).merge_segment_bytes
    try:
        with heartbeats(context.catalog, claim) as lost:
            over = lambda: lost.is_set() or stopped()  # noqa: E731
            change = compact_group(context, state, group, segment_bytes, runner, claim, over, place)
            if place:
                _verify(context, change)
            return change, commit_compaction(context, change)
    except BaseException:
        _forget(context, claim)
        raise


def _forget(context: Context, claim: Claim) -> None:
    with suppress(MoulinError):  # then its lease expires; the first error counts
        context.catalog.maintenance.delete_merge_task(claim.task_id, claim.attempt)


def _run_all(run: Callable[[Group], None], groups: Sequence[Group]) -> None:
    """Groups share no segments, so small ones run concurrently; a large one uses all cores alone."""
    small = [group for group in groups if group.size < _SMALL]
    if len(groups) == 1:
        run(groups[0])
        return
    with side_by_side("moulin-compact") as pool:
        for _ in in_turn(pool, run, small):
            pass
    for group in groups:
        if group.size >= _SMALL:
            run(group)


def _has_lapsed(task: MergeTask) -> bool:
    """Whether the lease of a task has expired by this machine's clock; the claim decides."""
    return task.state is TaskState.CLAIMED and task.available_at <= time.time_ns()


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
