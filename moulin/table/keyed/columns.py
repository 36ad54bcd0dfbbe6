"""What a memtable holds, as Arrow: made for the first scan, kept, and extended by what came since.

The writes of a memtable are numbered as they come. A moment is two counts: how many writes there were, and how many of
them another write of the same key had replaced. Whatever moment a scan asks for, older or newer than the kept one, is
made from the kept columns: rows that are not in it are left out, those that lack are made.
"""

# Decisions: docs/decisions/0330, docs/decisions/0400

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers
from moulin.model.key.key import Key
from moulin.model.rows.numbers import int64_array

_CHUNKS: Final = 16  # of a kept table; more are put together


@dataclass(frozen=True, slots=True)
class Made:
    """Some writes as Arrow. `numbers` has the write of each row, `deleted` those that deleted a key.

    `own` counts the bytes that nothing else holds.
    """

    rows: pa.Table
    numbers: Integers
    deleted: Integers
    own: int


@dataclass(frozen=True)
class Columns:
    """A memtable after `writes` writes, of which others had replaced the first `replaced` ones of its list.

    Each key comes once: as a row, or in `deleted`. Rows are in the order of the key if `in_order`.
    """

    key: Key
    made: Made
    writes: int
    replaced: int
    in_order: bool = False

    @property
    def rows(self) -> pa.Table:
        return self.made.rows

    @cached_property
    def keys(self) -> pa.Array:
        """The encoded keys of the rows."""
        return self.key.encode(self.rows.select(list(self.key.names)))


class KeptColumns:
    """The newest columns of one memtable that a scan asked for. Thread-safe.

    `make` converts writes by their numbers, which ascend; `replaced` lists the writes that were replaced, and grows.
    `note` is called with the bytes that are kept. Unless it `keeps` them, columns are made again each time.
    """

    def __init__(
        self,
        key: Key,
        make: Callable[[Integers], Made],
        replaced: Sequence[int],
        note: Callable[[int], None] = lambda size: None,
    ) -> None:
        self.keeps = True
        self._make, self._replaced, self._note, self._lock = make, replaced, note, threading.Lock()
        self._kept = Columns(key, make(np.empty(0, np.int64)), 0, 0, in_order=True)

    def at(self, writes: int, replaced: int, *, ordered: bool) -> Columns:
        """The columns of a moment, in the order of the key if `ordered`."""
        with self._lock:
            kept = self._kept
            if (kept.writes, kept.replaced) == (writes, replaced) and (kept.in_order or not ordered):
                return kept
            columns = self._changed(kept, writes, replaced, ordered)
            if self.keeps and columns.writes >= kept.writes:
                self._kept = columns
                self._note(columns.made.own)
            return columns

    def _changed(self, kept: Columns, writes: int, replaced: int, ordered: bool) -> Columns:
        there = np.zeros(max(writes, kept.writes), np.bool_)
        there[:writes] = True
        there[self._replaced[kept.replaced : replaced]] = False
        again = np.sort(np.asarray(self._replaced[replaced : kept.replaced], np.int64))
        fresh = np.flatnonzero(there[kept.writes :]) + kept.writes
        added = self._make(np.concatenate([again[again < writes], fresh]))
        deleted = np.concatenate([kept.made.deleted[there[kept.made.deleted]], added.deleted])
        numbers = np.concatenate([kept.made.numbers, added.numbers])
        live = np.append(there[kept.made.numbers], np.ones(len(added.numbers), np.bool_))
        rows = pa.concat_tables([kept.rows, added.rows]) if added.rows.num_rows else kept.rows
        made = Made(rows, numbers, deleted, kept.made.own + added.own)
        if not ordered:
            return Columns(kept.key, _live(made, live), writes, replaced)
        return self._in_order(kept, made, live, writes, replaced)

    def _in_order(self, kept: Columns, made: Made, live: np.ndarray, writes: int, replaced: int) -> Columns:
        """The live rows of `made`, which begins with those of `kept`, in the order of the key.

        Rows are kept in this order, so the next time only those that came since are left to sort.
        """
        key, names = kept.key, list(kept.key.names)
        encoded = [kept.keys, key.encode(made.rows.slice(kept.rows.num_rows).select(names))]
        keys = pa.concat_arrays([part for part in encoded if len(part)] or encoded[:1])
        chosen = np.flatnonzero(live)
        order = chosen[key_order(keys if len(chosen) == len(keys) else keys.take(int64_array(chosen)))]
        index = int64_array(order)
        rows = made.rows.take(index)
        ordered = Made(rows, made.numbers[order], made.deleted, rows.nbytes)
        columns = Columns(key, ordered, writes, replaced, in_order=True)
        columns.__dict__["keys"] = keys.take(index)
        return columns


def key_order(keys: pa.Array) -> Integers:
    """Sorts encoded keys. Keys of eight bytes are sorted as numbers; nearly sorted ones are very fast."""
    if pa.types.is_fixed_size_binary(keys.type) and keys.type.byte_width == 8:
        numbers = np.frombuffer(keys.buffers()[1], ">u8", len(keys), keys.offset * 8).astype(np.uint64)
        return np.argsort(numbers, kind="stable")
    order: Integers = np.asarray(pc.sort_indices(keys)).astype(np.int64)
    return order


def _live(made: Made, live: np.ndarray) -> Made:
    """Those rows alone, in few chunks."""
    rows, numbers, own = made.rows, made.numbers, made.own
    if not live.all():
        rows, numbers = rows.filter(pa.array(live)), numbers[live]
        own = rows.nbytes
    if rows.num_columns and rows.column(0).num_chunks > _CHUNKS:
        rows = rows.combine_chunks()
        own = rows.nbytes
    return Made(rows, numbers, made.deleted, own)


__all__ = ["Columns", "KeptColumns", "Made", "key_order"]
