"""Planned tasks: table-sized work cut into pieces that need nothing but storage.

The driver plans from the catalog's facts, a runner runs the tasks (in this process, or on Spark), and the driver
commits what they return, once. A task that fails or runs twice leaves files that no commit names.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

import numpy as np
from pyroaring import BitMap64

from moulin.formats import deletion_vector
from moulin.formats.segment.reader import SegmentReader
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.model.operations import IndexFile
from moulin.model.schema.arrow import POSITION
from moulin.model.schema.values import Schema
from moulin.model.where import Where, parse_where
from moulin.storage.store import Store
from moulin.table.commit.vectors import read_vector
from moulin.table.write.layout import Layout


@dataclass(frozen=True, slots=True)
class Slice:
    """Positions [start, stop) of an input of a merge."""

    segment: LiveSegment
    start: int
    stop: int


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Merge slices into new segments of one partition; `numbers` are reserved for the outputs."""

    store: Store
    layout: Layout
    slices: tuple[Slice, ...]
    partition: tuple[bytes | None, ...]
    spec_id: int
    level: int
    first_number: int
    numbers: int
    segment_bytes: int
    region: int = 0


@dataclass(frozen=True, slots=True)
class MergeResult:
    """The segments written, and where their journal lies. `number` is that of the first one, even if there is none."""

    added: tuple[SegmentFacts, ...]
    journal: str
    number: int


@dataclass(frozen=True, slots=True)
class MatchTask:
    """Find the rows of segments that a filter matches."""

    store: Store
    schema: Schema
    where: Where
    segments: tuple[LiveSegment, ...]


@dataclass(frozen=True, slots=True)
class MatchResult:
    """Matching positions by segment, as deletion-vector blobs; segments without a match are left out."""

    positions: tuple[tuple[int, bytes], ...]


@dataclass(frozen=True, slots=True)
class CoveringFile:
    """A file of an index, and those of the segments at hand that it covers."""

    path: str
    size: int
    segments: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IndexTask:
    """Make a file of a secondary index that covers segments, from their data."""

    store: Store
    table_id: UUID
    schema: Schema
    field_id: int
    kind: str
    segments: tuple[LiveSegment, ...]


@dataclass(frozen=True, slots=True)
class CarryTask:
    """Make a file that covers the outputs of one task of a merge: what files have of the inputs is carried over.

    Of inputs that none of `files` covers, the data is read. `outputs` are the segments written, with their rows.
    """

    store: Store
    table_id: UUID
    schema: Schema
    field_id: int
    kind: str
    journal: str
    inputs: tuple[LiveSegment, ...]
    files: tuple[CoveringFile, ...]
    outputs: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class IndexResult:
    """The file that was written."""

    file: IndexFile


@dataclass(frozen=True, slots=True)
class DuplicateTask:
    """Find keys from `low` on and before `high` that several of these segments hold; the order of segments counts."""

    store: Store
    segments: tuple[SegmentFacts, ...]
    low: bytes | None = None
    high: bytes | None = None


@dataclass(frozen=True, slots=True)
class DuplicateResult:
    """Positions by segment, as deletion-vector blobs, of all rows of such keys but the last; and how many of them have
    a row id of an older row.
    """

    positions: tuple[tuple[int, bytes], ...]
    updated: int


@dataclass(frozen=True, slots=True)
class RelocateTask:
    """Locate the keys of a run once more, in `segments`; write it again as `number` when its row ids were wrong.

    `dropped` are rows of the run that do not count, as a deletion-vector blob.
    """

    store: Store
    layout: Layout
    run: SegmentFacts
    segments: tuple[LiveSegment, ...]
    number: int
    dropped: bytes | None = None


@dataclass(frozen=True, slots=True)
class RelocateResult:
    """The run as it is now, the positions that it replaces, and how many of its rows that count replace one."""

    run: SegmentFacts
    positions: tuple[tuple[int, bytes], ...]
    updated: int


Task = MergeTask | MatchTask | IndexTask | CarryTask | DuplicateTask | RelocateTask
Result = MergeResult | MatchResult | IndexResult | DuplicateResult | RelocateResult


class TaskRunner(Protocol):
    """Runs planned tasks somewhere; results come in the order of the tasks."""

    def run(self, tasks: Sequence[Task]) -> Iterable[Result]: ...


class LocalRunner:
    """Runs tasks in this process, as many at a time as there are cores."""

    def run(self, tasks: Sequence[Task]) -> Iterator[Result]:
        if len(tasks) == 1:
            yield run_task(tasks[0])
            return
        with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="moulin-task") as pool:
            yield from pool.map(run_task, tasks)


def run_task(task: Task) -> Result:
    """Run one task; the same function here and on Spark."""
    if isinstance(task, MergeTask):
        from moulin.table.compact.kernel import run_merge

        return run_merge(task)
    if isinstance(task, IndexTask | CarryTask):
        from moulin.table.index.build import run_index

        return run_index(task)
    if isinstance(task, DuplicateTask | RelocateTask):
        from moulin.table.bulk.runs import find_duplicates, relocate

        return find_duplicates(task) if isinstance(task, DuplicateTask) else relocate(task)
    return run_match(task)


def run_match(task: MatchTask) -> MatchResult:
    """The kernel of deletes: read the columns that the filter names, keep the positions that match and are live."""
    found = []
    for segment in task.segments:
        deleted = None
        if segment.vector is not None:
            deleted = read_vector(task.store, segment.vector, segment.facts.rows)
        positions = match_positions(task.store, task.schema, task.where, segment, deleted)
        if positions:
            found.append((segment.facts.number, deletion_vector.encode(positions)))
    return MatchResult(tuple(found))


def match_positions(
    store: Store, schema: Schema, where: Where, segment: LiveSegment, deleted: BitMap64 | None
) -> BitMap64:
    """Live positions of a segment that match."""
    predicate = parse_where(where, schema)
    reader = SegmentReader(
        store.reader(segment.facts.path, segment.facts.size), schema, columns=[], name=segment.facts.path
    )
    batches = reader.batches(
        deleted=deleted,
        expression=predicate.expression,
        extra_columns=predicate.columns,
        keep_group=predicate.may_match,
        position=True,
    )
    places = [batch.column(POSITION).to_numpy() for batch in batches]
    return deletion_vector.from_positions(np.concatenate(places)) if places else BitMap64()
