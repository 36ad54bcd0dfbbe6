"""Completion of a merge task by a worker that has only storage: its output is checked, then committed."""

# Decisions: docs/decisions/0011, docs/decisions/0083

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from moulin.catalog.commit.table_commit import CommitResult
from moulin.errors import FailedPrecondition, InvalidInput, NotFound
from moulin.formats.journal import Journal, JournalSet
from moulin.formats.segment.footer import check_level, read_footer
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.model.merge_task import ClaimedTask
from moulin.model.operations import Claim
from moulin.storage import paths
from moulin.storage.table_store import Lost
from moulin.table.commit.change import CompactionChange
from moulin.table.compact.job import commit_compaction, compact_group
from moulin.table.compact.picker import Group
from moulin.table.compact.worker import heartbeats
from moulin.table.context import Context
from moulin.table.properties import effective


def complete(context: Context, claim: Claim, outputs: Sequence[SegmentFacts], journals: Sequence[str]) -> CommitResult:
    """Commit the output of a worker in place of the inputs of its task. Idempotent for the same outputs.

    `outputs` hold the live rows of the inputs, each once, with their lineage; `journals` say where each went. Deletes
    committed since are mapped through the journals.
    """
    done = context.own_catalog().maintenance.finished_task(claim)
    if done is not None and {facts.path for facts in outputs} >= set(done[1]):
        return CommitResult(done[0], 0, replayed=True)
    claimed = context.own_catalog().maintenance.claimed_task(claim)
    inputs = _inputs(context, claimed)
    if any(segment.facts.files for segment in inputs):  # a worker with only storage read only one file of each
        return redo(context, claim, sum(facts.rows for facts in outputs))[0]
    added = [_checked(context, facts, claimed, inputs) for facts in outputs]
    if len({facts.number for facts in added}) != len(added):
        raise InvalidInput("Two outputs of the merge task have the same number.")
    rows, live = sum(facts.rows for facts in added), sum(segment.live_rows for segment in inputs)
    if rows != live:
        raise InvalidInput(f"The inputs of the merge task have {live} live rows, its outputs {rows}.")
    opened = [_journal(context, path, claimed) for path in journals]
    if opened:
        _check_coverage(JournalSet(opened), inputs, added)
    numbers = [journal.outputs[0] if journal.outputs else context.catalog.reserve_segments(1) for journal in opened]
    change = CompactionChange(
        claimed.table_id,
        claimed.read_version,
        {segment.facts.number: segment.vector for segment in inputs},
        tuple(added),
        tuple(journals),
        {"level": str(claimed.level)},
        tuple(numbers),
        claimed.claim,
    )
    return commit_compaction(context, change, own=False)


def redo(context: Context, claim: Claim, rows: int) -> tuple[CommitResult, Sequence[SegmentFacts]]:
    """Complete a task whose worker wrote `rows` rows without their lineage: the task is done here, once more.

    Row ids, sequence numbers and later deletes cannot be determined from such a file. Repeated, it does
    nothing.
    """
    catalog = context.own_catalog()
    done = catalog.maintenance.finished_task(claim)
    if done is not None:
        return CommitResult(done[0], 0, replayed=True), _outputs(context, claim, done)
    claimed = catalog.maintenance.claimed_task(claim)
    inputs = _inputs(context, claimed)
    live = sum(segment.live_rows for segment in inputs)
    if rows != live:
        raise InvalidInput(f"The inputs of the merge task have {live} live rows, its outputs {rows}.")
    state = catalog.table_by_id(claimed.table_id)
    size = effective(context.config, state.properties).merge_segment_bytes
    with heartbeats(catalog, claimed.claim, catalog.config.merge_poll_lease) as lost:
        group = Group(tuple(sorted(inputs, key=lambda segment: segment.facts.number)), claimed.level)
        change = compact_group(context, state, group, size, None, claimed.claim, lost.is_set)
        return commit_compaction(context, change), change.added


def _outputs(context: Context, claim: Claim, done: tuple[int, list[str]]) -> list[SegmentFacts]:
    """The outputs that a task was finished with."""
    catalog = context.own_catalog()
    table_id = catalog.maintenance.table_of_merge_task(claim.task_id)
    return [s.facts for s in catalog.segments(table_id, done[0], with_columns=False) if s.facts.path in set(done[1])]


def _inputs(context: Context, claimed: ClaimedTask) -> list[LiveSegment]:
    """The inputs with the deletion vectors that the claim gave out, whatever became of them since."""
    found = context.own_catalog().maintenance.segments_with_vectors(claimed.table_id, claimed.inputs)
    if len(found) < len(claimed.inputs):
        raise FailedPrecondition(
            "Inputs of the merge task no longer exist: discard the output and request another task."
        )
    live = context.catalog.segments_by_number(claimed.table_id, claimed.inputs, context.catalog.version())
    return [_with_columns(segment, live.get(segment.facts.number)) for segment in found]


def _with_columns(segment: LiveSegment, now: LiveSegment | None) -> LiveSegment:
    """A segment with the column files that it has now: they are for all of its rows, whichever are deleted."""
    if now is None or now.columns_id == segment.columns_id:
        return segment
    return replace(segment, facts=now.facts, columns_id=now.columns_id)


def _checked(
    context: Context, facts: SegmentFacts, claimed: ClaimedTask, inputs: Sequence[LiveSegment]
) -> SegmentFacts:
    """The facts of an output, if it can stand for rows of the inputs."""
    if not 0 <= facts.number - claimed.first_number < claimed.numbers:
        raise InvalidInput(f"Segment number {facts.number} was not allocated for the merge task.")
    if not facts.has_lineage:
        raise InvalidInput(f"{facts.path} lacks the row ids and sequence numbers that a compaction keeps.")
    times = [(s.facts.time_min, s.facts.time_max) for s in inputs if s.facts.time_min is not None]
    if facts.time_min is not None and facts.time_max is not None and len(times) == len(inputs):
        low, high = min(t[0] or 0 for t in times), max(t[1] or 0 for t in times)
        if not low <= facts.time_min <= facts.time_max <= high:
            raise InvalidInput(f"{facts.path} has times outside of the range of the inputs.")
    first = inputs[0].facts
    state = context.catalog.table_by_id(claimed.table_id)
    moved = first.spec_id in state.lost_specs and facts.spec_id == state.spec_id
    if (facts.spec_id, facts.partition) != (first.spec_id, first.partition) and not moved:
        raise InvalidInput(f"{facts.path} is in another partition than the inputs.")
    try:
        size = context.store.head(facts.path).size
        if size != facts.size:
            raise InvalidInput(f"{facts.path} has {size} bytes, not {facts.size}.")
        with context.store.reader(facts.path, size) as source:
            check_level(read_footer(source, facts.path), claimed.level, facts.path)
    except NotFound:
        raise FailedPrecondition(f"{facts.path} is not in storage: write it before completing the task.") from None
    return replace(facts, level=claimed.level, region=first.region)


def _journal(context: Context, path: str, claimed: ClaimedTask) -> Journal:
    parsed = paths.parse_journal_path(path)
    if parsed is None or parsed[0] != claimed.table_id:
        raise InvalidInput(f"{path!r} is not the path of a journal of this table: use journals/<32 hex>.journal.")
    try:
        return Journal.decode(context.store.get(path), source=f"Journal {path}")
    except Lost:
        raise FailedPrecondition(f"{path} is not in storage: write it before completing the task.") from None


def _check_coverage(journals: JournalSet, inputs: Sequence[LiveSegment], added: Sequence[SegmentFacts]) -> None:
    for segment in inputs:
        number, rows = segment.facts.number, segment.facts.rows
        covered = sum(stop - start for start, stop in journals.coverage(number)) if rows else 0
        if covered != rows:
            raise InvalidInput(f"The journals cover {covered} of the {rows} rows of segment {number}.")
        if journals.vector_id(number) != (segment.vector.id if segment.vector else 0):
            raise InvalidInput(f"The journals read segment {number} with another deletion vector than the task gave.")
    unknown = set(journals.outputs) - {facts.number for facts in added}
    if unknown:
        raise InvalidInput(f"The journals name output {min(unknown)}, which is not registered.")
