"""The entries of bitmap and label-list indexes: for a value and a segment, the positions that have it.

An entry holds its positions as numbers of 4 bytes, or as one bit for each row of its segment where that is shorter.
Bytes: docs/formats/secondary_index.md.
"""

# Decisions: docs/decisions/0451

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.formats.key_index import key_bytes
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers

_CHUNK_ENTRIES: Final = 4096
_CHUNK_BYTES: Final = 256 << 10


@dataclass(frozen=True, slots=True, eq=False)
class BitmapEntries:
    """Entries in the order of their values, then of their segments, with the positions of all of them in a row."""

    values: pa.Array
    indexes: Integers
    counts: Integers
    starts: Integers
    positions: npt.NDArray[np.uint32]
    rows: Integers

    def chunks(self, width: int) -> Iterator[tuple[int, bytes]]:
        """The contents of chunks, each with the number of its first entry."""
        sizes = _sizes(self.counts, self.rows)
        ends = np.cumsum(sizes)
        start = 0
        while start < len(sizes):
            before = int(ends[start - 1]) if start else 0
            stop = int(np.searchsorted(ends, before + _CHUNK_BYTES, side="right"))
            stop = min(max(stop, start + 1), start + _CHUNK_ENTRIES)
            yield start, self._body(start, stop, width)
            start = stop

    def _body(self, start: int, stop: int, width: int) -> bytes:
        parts = [key_bytes(self.values.slice(start, stop - start), width)]
        parts += [self.indexes[start:stop].astype("<u4").tobytes(), self.counts[start:stop].astype("<u4").tobytes()]
        dense = start + np.flatnonzero(_is_dense(self.counts[start:stop], self.rows[start:stop]))
        for first, entry in pairwise([start - 1, *dense.tolist(), stop]):
            parts.append(self._numbers(first + 1, entry))
            if entry < stop:
                bits = np.zeros(int(self.rows[entry]), np.bool_)
                bits[self._positions(entry, entry + 1)] = True
                parts.append(np.packbits(bits, bitorder="little").tobytes())
        return b"".join(parts)

    def _numbers(self, start: int, stop: int) -> bytes:
        return self._positions(start, stop).astype("<u4").tobytes()

    def _positions(self, start: int, stop: int) -> npt.NDArray[np.uint32]:
        if start >= stop:
            return self.positions[:0]
        return self.positions[int(self.starts[start]) : int(self.starts[stop - 1] + self.counts[stop - 1])]


def group(values: pa.Array, indexes: Integers, positions: Integers, rows: Integers) -> BitmapEntries:
    """Sorted (value, segment, position), some of them perhaps twice, as entries. `rows` are those of each segment."""
    if len(rows) and int(rows.max()) >= 1 << 32:
        raise InvalidInput("A segment of 2^32 rows or more cannot have a bitmap index.")
    codes = np.asarray(pc.dictionary_encode(values).indices).astype(np.int64)
    new = np.ones(len(codes), np.bool_)
    new[1:] = (codes[1:] != codes[:-1]) | (indexes[1:] != indexes[:-1])
    kept = new.copy()
    kept[1:] |= positions[1:] != positions[:-1]
    starts = np.flatnonzero(new[kept])
    firsts = np.flatnonzero(new)
    counts = np.diff(starts, append=int(kept.sum()))
    owners = indexes[firsts]
    return BitmapEntries(
        values.take(pa.array(firsts)), owners, counts, starts, positions[kept].astype(np.uint32), rows[owners]
    )


def body_bounds(counts: Integers, rows: Integers) -> Integers:
    """Where the positions of each entry begin in the bytes of all of them, and where the last end."""
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(_sizes(counts, rows))])


def decode_positions(body: bytes, count: int, rows: int) -> Integers | None:
    """The positions of one entry, ascending; None when the bytes are not those of `count` positions below `rows`."""
    if _is_dense(np.asarray([count]), np.asarray([rows]))[0]:
        bits = np.unpackbits(np.frombuffer(body, np.uint8), bitorder="little")
        found = np.flatnonzero(bits)
    else:
        found = np.frombuffer(body, "<u4").astype(np.int64)
    if len(found) != count or (count and int(found[-1]) >= rows) or bool((np.diff(found) <= 0).any()):
        return None
    return found.astype(np.int64)


def _is_dense(counts: Integers, rows: Integers) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = (rows + 7) // 8 < 4 * counts
    return found


def _sizes(counts: Integers, rows: Integers) -> Integers:
    found: Integers = np.minimum((rows + 7) // 8, 4 * counts)
    return found


__all__ = ["BitmapEntries", "body_bounds", "decode_positions", "group"]
