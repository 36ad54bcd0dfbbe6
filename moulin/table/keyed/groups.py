"""Rows at positions of segments. Row groups that were decoded for some rows are kept for the next ones near them.

Of a row group in which few rows are wanted, and none before, only the pages of these rows are read. Row groups are read
side by side, by the threads of scans.
"""

# Decisions: docs/decisions/0601

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from moulin.formats.segment.page_reader import taken
from moulin.formats.segment.reader import SegmentReader
from moulin.model.columns.arrays import Integers
from moulin.model.facts import LiveSegment
from moulin.model.rows.numbers import int64_array
from moulin.model.schema.values import Schema
from moulin.sized_cache import SizedCache
from moulin.table.context import Context
from moulin.table.read.footers import open_reader
from moulin.table.read.units import read_ahead, scan_threads

_Group = tuple[str, int, int]  # path of the segment, row group or part of it, schema id
_NEAR_ROWS = 1 << 14
_FEW = 8  # rows of a row group; for more, to decode all of it takes less time than to find their pages
_MOST_ASKED = 1 << 16


@dataclass(frozen=True, slots=True)
class Part:
    """What to read of one row group: the rows at `positions` of the segment, which ascend."""

    segment: LiveSegment
    group: int
    start: int
    positions: Integers
    size: int


class RowGroups:
    """A cache of row groups of one table. Thread-safe. Reads use about `ahead` bytes of files at a time."""

    def __init__(self, context: Context) -> None:
        self._store, self.ahead = context.store, context.config.scan_ahead_bytes
        self._held: SizedCache[_Group, pa.Table] = SizedCache(
            context.config.group_cache_bytes, lambda table: int(table.nbytes)
        )
        self._starts: dict[str, tuple[int, ...]] = {}
        self._asked: set[_Group] = set()

    @contextmanager
    def reading(self, schema: Schema) -> Iterator[Reading]:
        """Reads rows as they have `schema`, until the end of the block."""
        reading = Reading(self, schema)
        try:
            yield reading
        finally:
            for future in reading.begun.values():
                future.cancel()

    def parts(self, segment: LiveSegment, positions: Integers, schema: Schema) -> Iterator[Part]:
        """The row groups that have these positions, which ascend."""
        path = segment.facts.path
        starts = self._starts.get(path)
        if starts is None:
            with self._open(segment, schema) as reader:
                starts = self._starts[path] = reader.group_starts
        edges = np.searchsorted(positions, [*starts, segment.facts.rows])
        size = segment.facts.size // max(1, len(starts))
        for group in np.flatnonzero(np.diff(edges)).tolist():
            yield Part(segment, group, starts[group], positions[edges[group] : edges[group + 1]], size)

    def held(self, part: Part, schema: Schema) -> pa.Table | None:
        """All rows of a row group, if they are in memory."""
        return self._held.find(_name(part, schema))

    def load(self, part: Part, schema: Schema, *, use_threads: bool = False) -> pa.Table:
        """All rows of a row group, which are kept."""
        with self._open(part.segment, schema) as reader:
            group = reader.table(row_groups=[part.group], use_threads=use_threads)
        self._held.keep(_name(part, schema), group)
        return group

    def few(self, segment: LiveSegment, positions: Integers, schema: Schema) -> pa.Table | None:
        """Rows read by their pages; None if there are many, or if nearby rows were read before."""
        if len(positions) > _FEW or not self._are_new(segment, positions, schema):
            return None
        with self._open(segment, schema) as reader:
            return reader.table(positions=positions, use_threads=False)

    def clear(self) -> None:
        """Clear the cache."""
        self._held.clear()
        self._starts.clear()
        self._asked.clear()

    def _are_new(self, segment: LiveSegment, positions: Integers, schema: Schema) -> bool:
        """Whether no nearby rows were read before: then only their pages are read, and later the row group."""
        near = {(segment.facts.path, place, schema.schema_id) for place in (positions // _NEAR_ROWS).tolist()}
        if not near.isdisjoint(self._asked):
            return False
        if len(self._asked) >= _MOST_ASKED:
            self._asked.clear()
        self._asked |= near
        return True

    def _open(self, segment: LiveSegment, schema: Schema) -> SegmentReader:
        return open_reader(self._store, segment.facts, schema)


class Reading:
    """Reads rows for one look-up. It belongs to one thread."""

    def __init__(self, groups: RowGroups, schema: Schema) -> None:
        self._groups, self._schema = groups, schema
        self.begun: dict[tuple[str, int], Future[pa.Table]] = {}

    def expect(self, segment: LiveSegment, positions: Integers) -> None:
        """Begin to read the row groups with many of these positions, near which rows will be asked for."""
        room = self._groups.ahead
        for part in self._groups.parts(segment, positions, self._schema):
            room -= part.size
            if room >= 0 and len(part.positions) > _FEW and self._groups.held(part, self._schema) is None:
                name = (segment.facts.path, part.group)
                self.begun[name] = scan_threads().submit(self._groups.load, part, self._schema)

    def rows(self, segment: LiveSegment, positions: Integers) -> pa.Table:
        """The rows at these positions of a segment, in their order."""
        if (np.diff(positions) < 0).any():  # the file was adopted: its rows are in no order of keys
            order = np.argsort(positions)
            return self._ascending(segment, positions[order]).take(int64_array(np.argsort(order)))
        return self._ascending(segment, positions)

    def _ascending(self, segment: LiveSegment, positions: Integers) -> pa.Table:
        if len(positions) == 1 and (found := self._groups.few(segment, positions, self._schema)) is not None:
            return found
        parts = list(self._groups.parts(segment, positions, self._schema))
        if len(parts) == 1:
            return self._read(parts[0], use_threads=True)
        return pa.concat_tables(read_ahead(self._read, parts, self._groups.ahead))

    def _read(self, part: Part, *, use_threads: bool = False) -> pa.Table:
        begun = self.begun.get((part.segment.facts.path, part.group))
        # One that still waits for a thread may wait for this one.
        running = begun is not None and not begun.cancel()
        group = begun.result() if running and begun else self._groups.held(part, self._schema)
        if group is None:
            found = self._groups.few(part.segment, part.positions, self._schema)
            if found is not None:
                return found
            group = self._groups.load(part, self._schema, use_threads=use_threads)
        return taken(group, part.positions - part.start)


def _name(part: Part, schema: Schema) -> _Group:
    return part.segment.facts.path, part.group, schema.schema_id


__all__ = ["RowGroups"]
