"""Slices of edits: cut by segments, computed and written by a kernel, here or in Spark's tasks.

A slice with few edits returns them instead, and the driver writes those of all slices together: a small change creates
few segments, whatever the number of segments of its rows.
"""

# Decisions: docs/decisions/0269

from __future__ import annotations

import os
from collections.abc import Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

import pyarrow as pa

from moulin.errors import FailedPrecondition
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.predicate import Predicate
from moulin.table.bulk.writer import RegionRun
from moulin.table.context import Context
from moulin.table.edit.edits import EditPlan, EditSlice, EditSlices
from moulin.table.edit.writer import write_edits
from moulin.table.find.index_search import narrow
from moulin.table.read.scan import plan_segments
from moulin.table.runner import LocalRunner
from moulin.table.write.segment_writer import NumberSource
from moulin.table.write.writes import balanced, number_source

_NUMBERS = 1 << 16  # segment numbers for one slice
_SLICE_BYTES = 8 << 20  # segments of fewer bytes are one slice
_HELD_BYTES = 1 << 20  # edits that a slice hands over at most


@dataclass(frozen=True, slots=True)
class _Work:
    """A slice, the plan of the statement and the first of the numbers for the segments it writes. Sent to a task."""

    plan: EditPlan
    part: EditSlice
    first: int


@dataclass(frozen=True, slots=True)
class _Done:
    """What a slice wrote, or the edits that it handed over; and its report."""

    runs: Sequence[RegionRun]
    held: Sequence[pa.RecordBatch]
    report: Any


def segments_for(context: Context, state: TableState, predicate: Predicate) -> list[LiveSegment]:
    """The segments that may have rows which match, after pruning by facts and by secondary indexes."""
    planned = plan_segments(context.catalog, state, predicate)
    if predicate.is_true:
        return planned
    return narrow(context.catalog, context.secondary, state, predicate, planned).segments


def cut(segments: Sequence[LiveSegment]) -> list[dict[int, LiveSegment]]:
    """Segments dealt out to slices, by number."""
    size = sum(segment.facts.size for segment in segments)
    parts = min(2 * (os.cpu_count() or 1), -(-size // _SLICE_BYTES))
    return [{segment.facts.number: segment for segment in share} for share in balanced(segments, max(parts, 1))]


def write_slices(context: Context, plan: EditPlan, edits: EditSlices) -> list[RegionRun]:
    """Compute and write the edits of slices; nothing is committed."""
    first = context.catalog.reserve_segments(_NUMBERS * len(edits.slices)) if edits.slices else 0
    bulk = None if plan.bulk is None else replace(plan.bulk, segments=())
    work = [
        _Work(replace(plan, segments=part.segments, bulk=bulk), part, first + number * _NUMBERS)
        for number, part in enumerate(edits.slices)
    ]
    runner = LocalRunner() if edits.here else context.runner(edits.size)
    done = list(runner.map(_write_slice, work)) if work else []
    runs = [run for one in done for run in one.runs]
    held = (batch for one in done for batch in one.held)
    rest = edits.rest(plan.source, [one.report for one in done])
    return [*runs, *write_edits(plan, chain(held, rest), number_source(context))]


def _write_slice(work: _Work) -> _Done:
    rows = _Reporting(work.part.edits(work.plan.source))
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        held.append(batch)
        size += batch.nbytes
        if size > _HELD_BYTES:
            written = write_edits(work.plan, chain(held, rows), _numbers(work))
            return _Done(written, (), rows.report)
    return _Done((), held, rows.report)


def _numbers(work: _Work) -> NumberSource:
    """The segment numbers of a slice. One that runs again uses the same numbers, but other file names."""
    numbers = iter(range(work.first, work.first + _NUMBERS))

    def following() -> int:
        number = next(numbers, None)
        if number is None:
            raise FailedPrecondition(
                f"A slice would write more than {_NUMBERS} segments to {work.plan.table}: partition the table more "
                "coarsely, or change fewer rows at a time."
            )
        return number

    return following


class _Reporting:
    """The batches of a generator, which keeps what the generator returns at its end."""

    def __init__(self, batches: Generator[pa.RecordBatch, None, Any]) -> None:
        self._batches = self._through(batches)
        self.report: Any = None

    def _through(self, batches: Generator[pa.RecordBatch, None, Any]) -> Iterator[pa.RecordBatch]:
        self.report = yield from batches

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return self._batches
