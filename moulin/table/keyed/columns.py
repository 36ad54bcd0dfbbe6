"""What a memtable holds, as Arrow: made for the first scan, kept, and extended by what came since.

Keys come into a memtable and never go, a deleted one neither. So each has a position that stays: the first key that
came is at 0. What changed since the columns were made is found by comparing what each position held then with what it
holds now: every write puts an object of its own there. Whatever moment a scan asks for, older or newer than the kept
one, is made from it by replacing the rows of the positions that differ.
"""

# Decisions: docs/decisions/0330

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice
from operator import is_not
from typing import Any, Final

import numpy as np
import pyarrow as pa

from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers
from moulin.model.key.key import Key
from moulin.model.rows.numbers import int64_array

_COMPARED: Final = 1 << 14  # positions at a time: other threads get their turn in between
_CHUNKS: Final = 16  # of a kept table; more are put together


@dataclass(frozen=True)
class Columns:
    """A memtable at one moment: its rows, each key once, in the order of the key if `in_order`.

    `values` is what each position held, and `index` which of the rows that is: -1 where the key is deleted. `writes`
    counts those that came until then.
    """

    rows: pa.Table
    index: Integers
    values: Sequence[Any]
    writes: int
    in_order: bool = False

    @cached_property
    def deleted(self) -> list[int]:
        """The positions of deleted keys."""
        found: list[int] = np.flatnonzero(self.index < 0).tolist()
        return found


class KeptColumns:
    """The newest columns of one memtable that a scan asked for. Thread-safe.

    `make` gives rows of a list of what positions hold, and which of them each one is, -1 for none. Unless it `keeps`
    them, columns are made again each time.
    """

    def __init__(self, empty: pa.Table, make: Callable[[Sequence[Any]], tuple[pa.Table, Integers]]) -> None:
        self.keeps = True
        self._make, self._lock = make, threading.Lock()
        self._kept = Columns(empty, np.empty(0, np.int64), (), 0)

    def found(self, writes: int) -> Columns | None:
        """The columns after that many writes, if they are there."""
        return self._kept if self._kept.writes == writes else None

    def at(self, values: Sequence[Any], writes: int) -> Columns:
        """The columns after that many writes, when these values are what positions hold."""
        with self._lock:
            kept = self._kept
            if kept.writes == writes:
                return kept
            columns = self._changed(kept, values, writes)
            self._keep(columns)
            return columns

    def in_order(self, columns: Columns, key: Key) -> Columns:
        """The same rows in the order of the key. They are kept in this order, which leaves little to sort next time."""
        if columns.in_order:
            return columns
        order = key_order(key.encode(columns.rows))
        turned = np.empty(len(order) + 1, np.int64)
        turned[order], turned[-1] = np.arange(len(order)), -1
        rows = columns.rows.take(int64_array(order))
        ordered = replace(columns, rows=rows, index=turned[columns.index], in_order=True)
        with self._lock:
            self._keep(ordered)
        return ordered

    def _keep(self, columns: Columns) -> None:
        """REQUIRES: lock is held."""
        if self.keeps and columns.writes >= self._kept.writes:
            self._kept = columns

    def _changed(self, kept: Columns, values: Sequence[Any], writes: int) -> Columns:
        known = min(len(kept.values), len(values))
        again = writes - kept.writes - (len(values) - len(kept.values))  # writes of keys that were there
        changed = differing(kept.values, values) if again else []
        fresh = [*map(values.__getitem__, changed), *values[known:]]
        added, places = self._make(fresh)
        index = np.concatenate([kept.index[:known], places[len(changed) :]])
        index[known:][index[known:] >= 0] += kept.rows.num_rows
        index[changed] = np.where(places[: len(changed)] < 0, -1, places[: len(changed)] + kept.rows.num_rows)
        rows = pa.concat_tables([kept.rows, added]) if added.num_rows else kept.rows
        rows, index = _live(rows, index)
        if rows.num_columns and rows.column(0).num_chunks > _CHUNKS:
            rows = rows.combine_chunks()
        return Columns(rows, index, values, writes)


def differing(before: Sequence[Any], now: Sequence[Any]) -> list[int]:
    """The positions of both at which not the same object is. Equal rows may differ: 0.0 equals -0.0."""
    found: list[int] = []
    compared = map(is_not, before, now)
    start = 0
    while flags := bytes(islice(compared, _COMPARED)):
        at = flags.find(1)
        while at >= 0:
            found.append(start + at)
            at = flags.find(1, at + 1)
        start += len(flags)
    return found


def key_order(keys: pa.Array) -> Integers:
    """What sorts encoded keys. Those of eight bytes are numbers, and nearly sorted ones take next to no time."""
    if pa.types.is_fixed_size_binary(keys.type) and keys.type.byte_width == 8:
        numbers = np.frombuffer(keys.buffers()[1], ">u8", len(keys), keys.offset * 8).astype(np.uint64)
        return np.argsort(numbers, kind="stable")
    order: Integers = np.asarray(pc.sort_indices(keys)).astype(np.int64)
    return order


def _live(rows: pa.Table, index: Integers) -> tuple[pa.Table, Integers]:
    """The rows that a position has, and the index for those."""
    held = index[index >= 0]
    if len(held) == rows.num_rows:
        return rows, index
    mask = np.zeros(rows.num_rows, np.bool_)
    mask[held] = True
    turned = np.append(np.cumsum(mask) - 1, -1)
    return rows.filter(pa.array(mask)), turned[index]


__all__ = ["Columns", "KeptColumns", "key_order"]
