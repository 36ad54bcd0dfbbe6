"""Rows of sorted inputs in a given order, with few of them decoded at a time.

A compaction whose rows do not fit into memory reads the sort columns, determines the order of all rows, and then
gathers them piece by piece. Inputs in the order of the table are read sequentially once for each output; others
repeatedly, which costs time but not memory.
"""

# Decisions: docs/decisions/0232

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from moulin.model.columns.arrays import Integers, distinct

_FIRST_ROWS = 4096  # of the first piece, when the width of rows is not known
_MOST_ROWS = 1 << 20


class RowCursor:
    """The live rows of one input, numbered from 0; `read` yields all of them in order, in pieces."""

    def __init__(self, read: Callable[[], Iterator[pa.Table]]) -> None:
        self._read = read
        self._pieces: Iterator[pa.Table] = iter(())
        self._piece: pa.Table | None = None
        self._first, self._next = 0, 0  # rows of the piece at hand: [first, next)

    def take(self, rows: Integers) -> list[pa.Table]:
        """Some of the rows, by their ascending numbers. Fast when calls go forwards."""
        found: list[pa.Table] = []
        if not len(rows):
            return found
        if self._piece is None or rows[0] < self._first:
            self._pieces, self._piece, self._first, self._next = self._read(), None, 0, 0
        at = 0
        while at < len(rows):
            if self._piece is None or rows[at] >= self._next:
                self._advance()
                continue
            until = int(np.searchsorted(rows, self._next))
            wanted = rows[at:until] - self._first
            if wanted[-1] - wanted[0] + 1 == len(wanted):
                found.append(self._piece.slice(int(wanted[0]), len(wanted)))
            else:
                found.append(self._piece.take(wanted))
            at = until
        return found

    def _advance(self) -> None:
        self._piece = None  # freed before the next is decoded
        self._piece = next(self._pieces)
        self._first, self._next = self._next, self._next + self._piece.num_rows


class Gatherer:
    """Rows of several inputs, numbered one input after the other, in pieces of about `piece_bytes`."""

    def __init__(self, cursors: Sequence[RowCursor], counts: Sequence[int], piece_bytes: int) -> None:
        self._cursors, self._piece_bytes = cursors, piece_bytes
        self._starts = np.concatenate([[0], np.cumsum(counts, dtype=np.int64)]).astype(np.int64)
        self._rows = _FIRST_ROWS

    def pieces(self, order: Integers | None, start: int, stop: int) -> Iterator[pa.Table]:
        """The rows `order[start:stop]`, or those numbers themselves without an order."""
        while start < stop:
            end = min(start + self._rows, stop)
            numbers = np.arange(start, end, dtype=np.int64) if order is None else order[start:end]
            piece = self._gather(numbers)
            yield piece
            width = max(piece.nbytes / piece.num_rows, 0.125)
            self._rows = int(max(1, min(_MOST_ROWS, self._piece_bytes / width, 4 * self._rows)))
            start = end

    def _gather(self, numbers: Integers) -> pa.Table:
        inputs = np.searchsorted(self._starts, numbers, side="right") - 1
        taken: list[pa.Table] = []
        places: list[Integers] = []  # where in the piece each taken row belongs
        for number in distinct(inputs).tolist():
            mine = np.flatnonzero(inputs == number)
            rows = numbers[mine] - self._starts[number]
            by_row = np.argsort(rows, kind="stable")
            taken += self._cursors[number].take(rows[by_row])
            places.append(mine[by_row])
        table, place = pa.concat_tables(taken), np.concatenate(places)
        if np.array_equal(place, np.arange(len(place))):
            return table
        back = np.empty(len(place), dtype=np.int64)
        back[place] = np.arange(len(place))
        return table.take(back)
