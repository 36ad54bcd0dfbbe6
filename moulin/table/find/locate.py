"""Locates keys: the segment and position of the live row of each key."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moulin.errors import FailedPrecondition
from moulin.formats import deletion_vector
from moulin.formats.key_index import Block, KeyIndex, hash_keys, search_form
from moulin.model.columns.arrays import Integers
from moulin.model.facts import LiveSegment
from moulin.sized_cache import SizedCache
from moulin.storage.segment_source import key_index_of
from moulin.storage.store import Store
from moulin.table.commit.vectors import VectorCache

Expect = Callable[[LiveSegment, Integers], None]
"""Gets a segment, and ascending positions that are at most a block before those of rows that may be in it."""

_NEAR = 4  # blocks this close together are read in one request


class KeyIndexes:
    """The key indexes of a lake's segments, opened once and cached block by block."""

    def __init__(self, store: Store, limit: int) -> None:
        self._store = store
        self._open: SizedCache[str, KeyIndex] = SizedCache(limit, lambda index: index.nbytes)
        self._blocks: SizedCache[tuple[str, int], Block] = SizedCache(limit, lambda block: block.nbytes)

    @property
    def uses(self) -> tuple[int, int]:
        """How many blocks were found in memory, and how many were not."""
        return self._blocks.hits, self._blocks.misses

    def clear(self) -> None:
        """Clear the cache."""
        self._open.clear()
        self._blocks.clear()

    def index(self, segment: LiveSegment) -> KeyIndex:
        facts = segment.facts
        if not facts.index_size:
            raise FailedPrecondition(f"Segment {facts.number} has no key index: compact the table to create one.")

        def load() -> KeyIndex:
            path = key_index_of(facts)
            return KeyIndex(lambda start, length: self._store.get_range(path, start, length), facts.index_size, path)

        return self._open.get(facts.path, load)

    def block(self, segment: LiveSegment, index: KeyIndex, number: int) -> Block:
        return self._blocks.get((segment.facts.path, number), lambda: index.load(number))

    def blocks(self, segment: LiveSegment, index: KeyIndex, numbers: Sequence[int]) -> list[Block]:
        """Several blocks in ascending order; those that are not held and near one another are read together."""
        path = segment.facts.path
        found = {number: self._blocks.find((path, number)) for number in numbers}
        missing = [number for number, block in found.items() if block is None]
        start = 0
        while start < len(missing):
            stop = start + 1
            while stop < len(missing) and missing[stop] - missing[stop - 1] <= _NEAR:
                stop += 1
            first, last = missing[start], missing[stop - 1]
            for number, block in enumerate(index.load_all(first, last - first + 1), first):
                self._blocks.keep((path, number), block)
                if number in found:
                    found[number] = block
            start = stop
        return [block for block in found.values() if block is not None]

    def find_one(self, segment: LiveSegment, key: bytes) -> int | None:
        """The position of a key in a segment, live or not."""
        index = self.index(segment)
        if not index.may_hold_one(key):
            return None
        number = index.block_of(key)
        if number < 0:
            return None
        block = self.block(segment, index, number)
        at = block.find_one(key)
        return None if at is None else block.position(at)

    def span(self, segment: LiveSegment, low: bytes | None, high: bytes | None) -> tuple[int, int]:
        """The numbers of the keys from `low` on and before `high`; both may be the beginning of a key.

        They are the positions of their rows in a segment that is in order.
        """
        return self._before(segment, low) if low is not None else 0, (
            self._before(segment, high) if high is not None else segment.facts.rows
        )

    def entries(self, segment: LiveSegment, low: bytes | None, high: bytes | None) -> tuple[Any, Integers, Integers]:
        """The keys from `low` on and before `high`, in search form and ascending; their positions and row ids."""
        start, stop = self.span(segment, low, high)
        if start >= stop:
            return _NONE, _NONE, _NONE
        index = self.index(segment)
        first = 0 if low is None else max(0, index.block_of(low))
        last = index.blocks - 1 if high is None else index.block_of(high)
        blocks = index.load_all(first, last - first + 1)
        wanted = slice(start - blocks[0].start, stop - blocks[0].start)
        parts = [block.keys for block in blocks]
        keys = np.concatenate(parts) if isinstance(parts[0], np.ndarray) else pa.concat_arrays(parts)
        positions = [block.positions_at(np.arange(len(block.keys))) for block in blocks]
        ids = [np.full(len(b.keys), -1, np.int64) if b.row_ids is None else b.row_ids for b in blocks]
        return keys[wanted], np.concatenate(positions)[wanted], np.concatenate(ids)[wanted]

    def _before(self, segment: LiveSegment, key: bytes) -> int:
        facts = segment.facts
        if facts.key_min is not None and facts.key_max is not None:
            if key <= facts.key_min:
                return 0
            if key > facts.key_max:
                return facts.rows
        index = self.index(segment)
        number = index.block_of(key)
        if number < 0:
            return 0
        block = self.block(segment, index, number)
        return block.start + block.before(key)

    def find(
        self,
        segment: LiveSegment,
        keys: pa.Array,
        hashes: Any,
        *,
        with_ids: bool = True,
        expect: Expect | None = None,
    ) -> tuple[Integers, Integers, Integers]:
        """Which of the ascending `keys` are in a segment: their indexes in `keys`, positions and row ids.

        A row id is -1 if it follows from the position, and without `with_ids`. `expect` is told about where the rows
        will be found, before it is known.
        """
        index = self.index(segment)
        asked = np.flatnonzero(index.may_hold(hashes))
        if not len(asked):
            return _NONE, _NONE, _NONE
        form = search_form(keys.take(pa.array(asked)) if len(asked) < len(keys) else keys)
        numbers = index.blocks_of(form)
        edges = np.flatnonzero(np.diff(numbers, prepend=numbers[0] - 1))
        wanted = [int(number) for number in numbers[edges] if number >= 0]
        starts = [int(edge) for edge, number in zip(edges, numbers[edges], strict=True) if number >= 0]
        stops = [*starts[1:], len(numbers)]
        if expect is not None and segment.facts.is_in_order:
            expect(segment, index.starts_of(numbers[numbers >= 0]))
        found, at = np.zeros(len(asked), np.bool_), np.empty(len(asked), np.int64)
        row_ids = np.full(len(asked), -1, np.int64)
        for block, start, stop in zip(self.blocks(segment, index, wanted), starts, stops, strict=True):
            part = form[start:stop] if isinstance(form, np.ndarray) else form.slice(start, stop - start)
            found[start:stop], places = block.find(part)
            at[start:stop] = block.positions_at(places)
            if with_ids and (ids := block.row_ids) is not None:
                row_ids[start:stop] = ids[places]
        return asked[found], at[found], row_ids[found]


_NONE: Integers = np.empty(0, np.int64)


class Tools(Protocol):
    """What reads keys and rows of segments; `Context` is one."""

    @property
    def store(self) -> Store: ...
    @property
    def indexes(self) -> KeyIndexes: ...
    @property
    def vectors(self) -> VectorCache: ...


@dataclass(frozen=True, slots=True)
class Located:
    """Live rows: for each, the index of its key among those asked for, its segment, position and row id."""

    indexes: Integers
    segments: Integers
    positions: Integers
    row_ids: Integers


def locate(
    indexes: KeyIndexes,
    vectors: VectorCache,
    store: Store,
    segments: Iterable[LiveSegment],
    keys: pa.Array,
    *,
    with_ids: bool = True,
    expect: Expect | None = None,
) -> Located:
    """The live rows of encoded keys, which ascend and are distinct. `segments` are those of one version.

    Row ids are only right `with_ids`: to decode them takes as long as to find the keys.
    """
    found: list[tuple[Integers, int, Integers, Integers]] = []
    left = len(keys)
    hashes = hash_keys(keys)
    bounds = _Bounds(keys)
    for segment in segments:
        if not left:
            break
        start, stop = bounds.within(segment)
        if start == stop:
            continue
        part = keys.slice(start, stop - start)
        hits, positions, row_ids = indexes.find(segment, part, hashes[start:stop], with_ids=with_ids, expect=expect)
        live = live_mask(vectors, store, segment, positions)
        if live is not None:
            hits, positions, row_ids = hits[live], positions[live], row_ids[live]
        if len(hits):
            row_ids = np.where(row_ids < 0, segment.first_row_id + positions, row_ids)
            found.append((hits + start, segment.facts.number, positions, row_ids))
            left -= len(hits)
    return Located(
        np.concatenate([_NONE, *(part[0] for part in found)]),
        np.concatenate([_NONE, *(np.full(len(part[0]), part[1], np.int64) for part in found)]),
        np.concatenate([_NONE, *(part[2] for part in found)]),
        np.concatenate([_NONE, *(part[3] for part in found)]),
    )


def live_mask(
    vectors: VectorCache, store: Store, segment: LiveSegment, positions: Integers
) -> npt.NDArray[np.bool_] | None:
    """True for positions that are not deleted; None for all."""
    if segment.vector is None or not len(positions):
        return None
    deleted = vectors.get(store, segment.vector, segment.facts.rows)
    hit = deleted & deletion_vector.from_positions(np.sort(positions))
    return None if not hit else ~np.isin(positions, deletion_vector.to_array(hit))


class _Bounds:
    """Finds the part of ascending keys that a segment's range covers."""

    def __init__(self, keys: pa.Array) -> None:
        self._keys = keys

    def within(self, segment: LiveSegment) -> tuple[int, int]:
        low, high = segment.facts.key_min, segment.facts.key_max
        if low is None or high is None:
            return 0, len(self._keys)
        span = range(len(self._keys))
        start = bisect_left(span, low, key=lambda at: self._keys[at].as_py())
        return start, bisect_right(span, high, lo=start, key=lambda at: self._keys[at].as_py())
