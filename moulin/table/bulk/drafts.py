"""Drafts: the runs of all tasks by region, merged and checked until they are committed.

Keys written by several tasks are rejected, or only their last rows count. If rows of a region changed since the plan,
the keys of its runs are located again.
"""

# Decisions: docs/decisions/0461

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from pyroaring import BitMap64

from moulin.catalog.commit.table_commit import Stale
from moulin.errors import Conflict, InvalidInput
from moulin.formats import deletion_vector
from moulin.formats.segment.reader import SegmentReader
from moulin.model.conflicts import Verdict
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.model.layout.partition import PartitionTuple
from moulin.model.operations import Kind, RegionUse
from moulin.table.bulk.runs import DuplicateSlice, RelocateSlice, find_duplicates, relocate
from moulin.table.bulk.writer import BulkPlan, RegionRun, duplicate_key
from moulin.table.commit.change import DataChange
from moulin.table.commit.segment_rows import open_rows
from moulin.table.context import Context
from moulin.table.keyed.keyed import KeyedTable
from moulin.table.keyed.version import KeyedVersion
from moulin.table.write.upsert import UpsertDraft
from moulin.table.write.writes import Outcome, number_source

_CHECKED_BYTES = 96  # that a slice has in memory for each key that it looks through for duplicates
_LEAST_CHECKED = 1 << 18


@dataclass(slots=True)
class Drafts:
    """The runs of all tasks by region, until they are committed."""

    numbers: dict[PartitionTuple, int] = field(default_factory=dict)
    by_region: dict[int, UpsertDraft] = field(default_factory=dict)

    @classmethod
    def of(cls, context: Context, keyed: KeyedTable, plan: BulkPlan, runs: Iterable[RegionRun]) -> Drafts:
        """United in the order of the tasks; keys that several tasks wrote are refused or dropped, as the plan says."""
        return cls.numbered(context, plan, runs, lambda value: context.catalog.region(keyed.id, value).number)

    @classmethod
    def numbered(
        cls, context: Context, plan: BulkPlan, runs: Iterable[RegionRun], number_of: Callable[[PartitionTuple], int]
    ) -> Drafts:
        """As `of`; `number_of` gives the numbers of regions."""
        made = cls()
        for run in runs:
            if run.value not in made.numbers:
                made.numbers[run.value] = number_of(run.value)
            number = made.numbers[run.value]
            draft = made.by_region.setdefault(number, UpsertDraft())
            if plan.duplicates == "error":
                _refuse_common(context, plan, draft, run.draft)
            draft.unite(run.draft, number)
        for draft in made.by_region.values():
            _drop_duplicates(context, plan, draft)
        return made

    @property
    def values(self) -> list[PartitionTuple]:
        return list(self.numbers)

    @property
    def has_effect(self) -> bool:
        return any(draft.added or draft.positions for draft in self.by_region.values())

    def locate(self, context: Context, plan: BulkPlan) -> None:
        """Find the rows of the plan that runs replace which were not written by the plan, as adopted files were not."""
        for number, draft in self.by_region.items():
            segments = plan.spec.searched(plan.segments, number)
            if segments:
                self.by_region[number] = _relocated(context, plan, draft, segments)

    def settle(self, context: Context, plan: BulkPlan, seen: KeyedVersion) -> None:
        """Locate keys again in regions whose rows are not as planned. REQUIRES: the regions are held."""
        if not plan.spec.is_as(seen.spec):
            raise Conflict("The regions of the table changed during the write: retry.")
        for number, draft in self.by_region.items():
            segments = seen.of_region(number)
            if _content(segments) == _content(plan.spec.searched(plan.segments, number)):
                continue
            if plan.rules is not None:
                raise Stale("Rows that the merge read have changed: retry.", Verdict.RETRY)
            self.by_region[number] = _relocated(context, plan, draft, segments)

    def change(self, state: TableState, uses: Sequence[RegionUse]) -> DataChange:
        whole = UpsertDraft()
        for number, draft in self.by_region.items():
            whole.unite(draft, number)
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


def _refuse_common(context: Context, plan: BulkPlan, one: UpsertDraft, other: UpsertDraft) -> None:
    """Rows that two tasks replace or delete are rows of a key that came twice, whether it was written or not."""
    for number, bitmap in other.positions.items():
        common = one.positions.get(number, BitMap64()) & bitmap
        if common:
            facts = next(segment.facts for segment in plan.segments if segment.facts.number == number)
            raise _repeated(context, plan, facts, common[0])


def _content(segments: Iterable[LiveSegment]) -> dict[int, int]:
    return {segment.facts.number: segment.vector.id if segment.vector else 0 for segment in segments}


def _drop_duplicates(context: Context, plan: BulkPlan, draft: UpsertDraft) -> None:
    """Of rows of one key, which different tasks wrote, only the last counts; or InvalidInput, as the plan says."""
    added = draft.added
    if not _overlap(added):
        return
    store = context.store
    cuts: list[bytes | None] = [None, *_cuts(context, added), None]
    slices = [DuplicateSlice(store, tuple(added), low, high) for low, high in pairwise(cuts)]
    for result in context.runner(sum(facts.size for facts in added)).map(find_duplicates, slices):
        for number, blob in result.positions:
            bitmap = deletion_vector.decode(blob)
            known = draft.positions.get(number, BitMap64())
            if plan.duplicates == "error":
                facts = next(facts for facts in added if facts.number == number)
                raise _repeated(context, plan, facts, bitmap[0])
            draft.rows_new -= len(bitmap - known)
            draft.positions[number] = known | bitmap
        draft.rows_new += result.updated
        draft.rows_updated -= result.updated


def _overlap(added: Sequence[SegmentFacts]) -> bool:
    spans = sorted((facts.key_min or b"", facts.key_max or b"") for facts in added)
    return any(high >= low for (_, high), (low, _) in pairwise(spans))


def _cuts(context: Context, added: Sequence[SegmentFacts]) -> list[bytes]:
    """Keys that divide the runs into parts of some rows each."""
    most = max(_LEAST_CHECKED, context.config.merge_memory_bytes // _CHECKED_BYTES)
    if sum(facts.rows for facts in added) <= most:
        return []
    firsts = sorted(entry for facts in added for entry in context.indexes.index(LiveSegment(facts, 0, 0, 0)).firsts())
    found, rows = [], 0
    for first, count in firsts:
        if rows >= most:
            found.append(first)
            rows = 0
        rows += count
    return found


def _repeated(context: Context, plan: BulkPlan, facts: SegmentFacts, position: int) -> InvalidInput:
    source = open_rows(context.store, facts)
    with SegmentReader(source, plan.layout.schema, columns=plan.key.names, facts=facts) as reader:
        row = reader.table(start=position, stop=position + 1)
    if facts.adopted is None:
        return duplicate_key(plan.key, row, 0)
    return InvalidInput(
        f"The key {plan.key.values(row)[0]!r} of {facts.path} is also in another of these files: adopt files with "
        f"unique keys, or load them with append, which keeps the last row of a key."
    )


def _relocated(context: Context, plan: BulkPlan, draft: UpsertDraft, segments: Sequence[LiveSegment]) -> UpsertDraft:
    """The same rows over the segments of another version."""
    written = [facts for facts in draft.added if facts.adopted is None]
    numbers = number_source(context) if written else lambda: 0  # an adopted file keeps its number
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
