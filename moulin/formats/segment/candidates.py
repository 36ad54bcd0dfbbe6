"""The rows of some ranges of a segment that may match a condition, as far as page indexes and bloom filters say."""

# Decisions: docs/decisions/0370, docs/decisions/0371

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence

from moulin.formats.segment.filter_reader import FilterReader
from moulin.formats.segment.opened import OpenedFile
from moulin.formats.segment.options import Range
from moulin.formats.segment.page_bounds import Bounds, parse_bounds
from moulin.formats.segment.page_filter import Stretches, may_match, within
from moulin.formats.segment.page_index import Chunk, parse_pages, read_spans
from moulin.model.columns.arrays import Integers
from moulin.model.predicate.condition import Column, Condition
from moulin.model.schema.values import IcebergType, Schema

_FEW = 8  # rows of a row group for each one that may match


class Candidates:
    """`read(start, length)` reads bytes of the file; it is called once for parts at most `near` bytes apart.

    What lacks a checksum, or has a wrong one, is not used: all rows may match then.
    """

    def __init__(self, opened: OpenedFile, read: Callable[[int, int], bytes], near: int, *, trust: bool) -> None:
        self._opened, self._read, self._near = opened, read, near
        self._filters = FilterReader(opened, read, trust=trust)

    def of(
        self, condition: Condition, schema: Schema, ranges: Sequence[Range]
    ) -> tuple[Sequence[Range], Integers | None]:
        """The ranges with rows that may match; and the positions of these rows, if they are few, else None: more are
        faster to decode with all others."""
        checksums = self._opened.checksums
        if not ranges or not checksums.has_pages:
            return ranges, None
        # Where values lie as they come, bounds of other row groups would tell nothing, too.
        ends = [ranges[0], ranges[-1]]
        found = None
        if len(ranges) <= 2 or self._may_match(condition, schema, ends) is not None:
            found = self._may_match(condition, schema, ranges)
        if found is not None:
            ranges = _touched(ranges, found)
        if checksums.has_filters:
            ranges = [one for one in ranges if self._filters.may_match(condition, schema, one.group)]
            found = None if found is None else within(found, [(one.start, one.stop) for one in ranges])
        few = found is not None and _FEW * found.rows < sum(self._opened.group_rows[one.group] for one in ranges)
        return ranges, found.positions() if found is not None and few else None

    def _may_match(self, condition: Condition, schema: Schema, ranges: Sequence[Range]) -> Stretches | None:
        """The rows of the ranges that may match; None if these are all of them."""
        starts, rows = self._opened.group_starts, self._opened.group_rows
        groups = [one.group for one in ranges]
        spans = [(starts[group], starts[group] + rows[group]) for group in groups]
        found = may_match(condition, spans, lambda column: self._bounds(column, schema, groups))
        if found is None:
            return None
        found = within(found, [(one.start, one.stop) for one in ranges])
        return found if found.rows < sum(one.stop - one.start for one in ranges) else None

    def _bounds(self, column: Column, schema: Schema, groups: Sequence[int]) -> Sequence[Bounds | None]:
        stored = self._opened.columns(schema).get(column.field_id)
        if stored is None or stored.bounds is None:
            return [None] * len(groups)
        leaf, known = stored.index, self._opened.bounds
        if missing := [group for group in groups if (group, leaf, column.type) not in known]:
            self._load(missing, leaf, column.type)
        return [known[group, leaf, column.type] for group in groups]

    def _load(self, groups: Sequence[int], leaf: int, kind: IcebergType) -> None:
        chunks = {group: self._opened.map.chunk(group, leaf) for group in groups}
        spans = sorted(span for chunk in chunks.values() for span in (chunk.bounds, chunk.index) if span.size)
        data = dict(zip(spans, read_spans(self._read, spans, self._near), strict=True))
        for group, chunk in chunks.items():
            bounds, index = (bytes(data.get(span, b"")) for span in (chunk.bounds, chunk.index))
            self._opened.bounds[group, leaf, kind] = self._parsed(group, leaf, chunk, bounds, index, kind)

    def _parsed(
        self, group: int, leaf: int, chunk: Chunk, bounds: bytes, index: bytes, kind: IcebergType
    ) -> Bounds | None:
        if not bounds or zlib.crc32(index, zlib.crc32(bounds)) != self._opened.checksums.pages(group, leaf):
            return None
        pages = parse_pages(chunk, self._opened.group_rows[group], index)
        if pages is None:
            return None
        return parse_bounds(bounds, pages.first_rows, self._opened.metadata.schema.column(leaf), kind)


def _touched(ranges: Sequence[Range], found: Stretches) -> list[Range]:
    """The ranges in which some rows are."""
    first = found.stops.searchsorted([one.start for one in ranges], "right")
    last = found.starts.searchsorted([one.stop for one in ranges], "left")
    return [one for one, kept in zip(ranges, (first < last).tolist(), strict=True) if kept]


__all__ = ["Candidates"]
