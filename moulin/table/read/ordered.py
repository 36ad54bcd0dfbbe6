"""The first rows of a scan in an order: parts that may hold the first rows are read first, until no other part may hold
a better row.

A part is a segment, or a row group of a large one; catalog and footers have the bounds of its values. Columns
that are not in the order are read at the end, only for the result.
"""

# Decisions: docs/decisions/0313

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from moulin.formats.segment.reader import SegmentReader
from moulin.model.columns.arrays import Integers
from moulin.model.facts import LiveSegment
from moulin.table.read.hidden import SEGMENT, SHOWN_POSITION
from moulin.table.read.order import Order, Rank
from moulin.table.read.units import Unit, UnitReader, read_ahead

_WHOLE_BYTES = 1 << 20  # a segment up to this size is one part

Found: TypeAlias = dict[int, Integers]
"""Positions of rows, ascending, by the number of their segment."""


@dataclass(frozen=True, slots=True)
class _Part:
    """Rows [start, stop) of a segment; `best` is a lower bound of their ranks."""

    best: Rank
    segment: LiveSegment
    start: int
    stop: int
    cut: bool  # whether it cannot be split into row groups any more

    @property
    def unit(self) -> Unit:
        facts = self.segment.facts
        return Unit(self.segment, self.start, self.stop, facts.size * (self.stop - self.start) // max(facts.rows, 1))


class FirstRows:
    """The first `limit` rows of `segments` in an order. `read` returns at least the columns of the order."""

    def __init__(
        self,
        order: Order,
        limit: int,
        segments: Sequence[tuple[LiveSegment, Rank]],
        read: UnitReader,
        open_segment: Callable[[LiveSegment], SegmentReader],
        ahead: int,
    ) -> None:
        self._order, self._limit, self._read, self._open, self._ahead = order, limit, read, open_segment, ahead
        self._number = count()
        self._heap: list[_Entry] = []
        self._worst: Rank | None = None  # of the collected rows, once there are enough
        for segment, best in segments:
            small = segment.facts.size <= _WHOLE_BYTES
            self._push(_Part(best, segment, 0, segment.facts.rows, small))

    def find(self, watched: Callable[[Iterator[Unit]], Iterator[Unit]]) -> pa.Table | None:
        """The rows, in order; None if there are no segments. `watched` is called before each part is read."""
        held: pa.Table | None = None
        for table in read_ahead(self._read, watched(self._units()), self._ahead, few=True):
            held = table if held is None else pa.concat_tables([held, table])
            held = self._order.sorted(held, self._limit)
            if held.num_rows == self._limit:
                self._worst = self._order.rank(held.column(self._order.first.name)[self._limit - 1])
        return held

    def _push(self, part: _Part) -> None:
        heapq.heappush(self._heap, _Entry(self._order, part, next(self._number)))

    def _units(self) -> Iterator[Unit]:
        while self._heap:
            part = heapq.heappop(self._heap).part
            if self._worst is not None and not self._order.may_beat(part.best, self._worst):
                return
            if part.cut:
                yield part.unit
            else:
                self._cut(part)

    def _cut(self, part: _Part) -> None:
        with self._open(part.segment) as reader:
            for start, rows, facts in reader.groups():
                self._push(_Part(self._order.best(facts, rows), part.segment, start, start + rows, True))


class _Entry:
    """A part in a heap: the best part is the smallest, and of equal parts the first."""

    __slots__ = ("_number", "_order", "part")

    def __init__(self, order: Order, part: _Part, number: int) -> None:
        self._order, self.part, self._number = order, part, number

    def __lt__(self, other: _Entry) -> bool:
        if self.part.best == other.part.best:
            return self._number < other._number
        return self._order.before(self.part.best, other.part.best)


def positions_by_segment(rows: pa.Table) -> Found:
    """The positions of rows that were read with the hidden columns `_segment` and `_position`."""
    numbers, positions = (np.asarray(rows.column(name)) for name in (SEGMENT, SHOWN_POSITION))
    order = np.lexsort((positions, numbers))
    numbers, positions = numbers[order], positions[order]
    edges = np.flatnonzero(np.diff(numbers)) + 1
    return {
        int(numbers[start]): part
        for start, part in zip([0, *edges.tolist()], np.split(positions, edges), strict=True)
        if len(part)
    }


def read_positions(read: UnitReader, segments: Sequence[LiveSegment], found: Mapping[int, Integers]) -> list[pa.Table]:
    """The rows at these positions, read segment by segment with `read`."""
    chosen = [segment for segment in segments if segment.facts.number in found]
    return [read(Unit(segment, 0, segment.facts.rows, segment.facts.size)) for segment in chosen]


__all__ = ["FirstRows", "positions_by_segment", "read_positions"]
