"""Scans of a keyed table: rows that are only in memtables are seen, and rows can come in the order of the key.

For an ordered scan, segments whose keys overlap form a group, and groups follow one another. A group of one is read as
it lies, unless it is an adopted file in another order. The keys of others are cut into windows: of each window every
segment gives one slice, found by its key index, and the slices are put together and sorted. So memory is bounded
however many segments overlap.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import Any, Self

import numpy as np
import pyarrow as pa
from pyroaring import BitMap64

from moulin.errors import InvalidInput
from moulin.model.facts import LiveSegment
from moulin.model.key.key import Key, successor
from moulin.model.predicate.evaluation import evaluate
from moulin.model.rows.numbers import int64_array
from moulin.model.schema.arrow import empty_table
from moulin.model.where import Where
from moulin.table.context import Context
from moulin.table.keyed.columns import key_order
from moulin.table.keyed.pending import Pending
from moulin.table.keyed.version import KeyedVersion
from moulin.table.read.order import OrderBy
from moulin.table.read.scan import Scan
from moulin.table.read.units import Unit, UnitReader, read_ahead

_WINDOW_ROWS = 1 << 18


@dataclass(slots=True)
class _Group:
    """Segments whose keys overlap, perhaps pending rows among them, and the last key of all."""

    segments: list[LiveSegment]
    pending: bool
    last: bytes


@dataclass(frozen=True, slots=True)
class _Window:
    """The keys of a group from `low` on and before `high`."""

    group: _Group
    low: bytes | None
    high: bytes | None
    size: int


class KeyScan(Scan):
    """Scans a keyed table, including pending rows; in key order with a range, `ordered` or `reverse`."""

    def __init__(
        self,
        context: Context,
        seen: KeyedVersion,
        pending: Pending | None,
        *,
        columns: Sequence[str] | None = None,
        where: Where = None,
        limit: int | None = None,
        order_by: OrderBy = None,
        start: Any = None,
        end: Any = None,
        prefix: Any = None,
        reverse: bool = False,
        ordered: bool = False,
    ) -> None:
        super().__init__(
            context.catalog,
            context.store,
            context.vectors,
            seen.state,
            columns=columns,
            where=where,
            limit=limit,
            order_by=order_by,
            indexes=context.secondary,
            pins=context.pins,
        )
        if order_by is not None and (ordered or reverse):
            raise InvalidInput("A scan can have either order_by, or ordered and reverse.")
        key = Key.of(seen.state.schema)
        if key is None:
            raise InvalidInput(f"Table {seen.state.full_name} has no primary key: start, end and reverse need one.")
        self._context, self._pending, self._key, self._reverse = context, pending, key, reverse
        if reverse:
            self._first = None  # the last rows of a unit come first
        self._low = None if start is None else key.encode_prefix(start)
        self._high = None if end is None else key.encode_prefix(end)
        if prefix is not None:
            if start is not None or end is not None:
                raise InvalidInput("A scan can have either prefix, or start and end.")
            if len(prefix) >= len(key.fields) if isinstance(prefix, tuple | list) else len(key.fields) == 1:
                raise InvalidInput(f"prefix must have the first columns of the key ({', '.join(key.names)}), not all.")
            self._low = key.encode_prefix(prefix)
            self._high = successor(self._low)
        self._ordered = ordered or reverse or self._low is not None or self._high is not None

    def count(self) -> int:
        if self._pending is None and not self._ordered:
            return super().count()
        rows: int = sum(table.num_rows for table in self._narrow()._held(self._hold()))
        return rows if self._limit is None else min(rows, self._limit)

    def _limited(self, limit: int) -> Self:
        limited = super()._limited(limit)
        if self._reverse:
            limited._first = None
        return limited

    def _narrow(self) -> KeyScan:
        """The same rows without columns."""
        seen = KeyedVersion(self._state, (), 0.0)
        narrow = KeyScan(self._context, seen, self._pending, columns=[], ordered=self._ordered)
        narrow._predicate, narrow._low, narrow._high = self._predicate, self._low, self._high
        narrow._hidden = replace(self._hidden, shown=())
        return narrow

    def _tables(self) -> Iterator[pa.Table]:
        if not self._ordered:
            yield from self._committed(self._superseded())
            if (rows := self._in_memory()) is not None:
                yield self._finish(rows)
            return
        for table in self._windows():
            yield self._finish(table)

    def _superseded(self) -> Mapping[int, BitMap64]:
        return self._pending.hidden if self._pending else {}

    def _in_memory(self) -> pa.Table | None:
        return None if self._pending is None else self._matching(self._pending.rows)

    def _in_parts(self) -> bool:
        return not self._ordered

    def _windows(self) -> Iterator[pa.Table]:
        planned = self._planned()
        segments = [segment for segment in planned.segments if self._overlaps(segment)]
        reader = self._reader(self._superseded(), planned.positions)
        limit = self._catalog.config.scan_ahead_bytes

        def units() -> Iterator[Unit | _Window]:
            for group in self._groups(segments):
                yield from self._units_of(group, reader, limit)

        def read(unit: Unit | _Window) -> pa.Table:
            table = reader(unit) if isinstance(unit, Unit) else self._window(unit, reader)
            return table.take(pa.array(np.arange(table.num_rows)[::-1])) if self._reverse else table

        for table in read_ahead(read, units(), limit, few=self._limit is not None):
            if table.num_rows:
                yield table

    def _groups(self, segments: Sequence[LiveSegment]) -> list[_Group]:
        """Segments whose keys overlap, and pending rows among them, together; groups in the order of the scan."""
        spans: list[tuple[bytes, bytes, LiveSegment | None]] = []
        for segment in segments:
            low, high = segment.facts.key_min, segment.facts.key_max
            if low is None or high is None:
                return [_Group(list(segments), self._pending is not None, b"")]
            spans.append((low, high, segment))
        if self._pending is not None and self._pending.rows.num_rows:
            spans.append((*self._pending.edges, None))
        groups: list[_Group] = []
        for low, high, member in sorted(spans, key=itemgetter(0)):
            if not groups or low > groups[-1].last:
                groups.append(_Group([], False, high))
            group = groups[-1]
            group.last = max(group.last, high)
            if member is None:
                group.pending = True
            else:
                group.segments.append(member)
        return groups[::-1] if self._reverse else groups

    def _units_of(self, group: _Group, reader: UnitReader, limit: int) -> Iterator[Unit | _Window]:
        if len(group.segments) == 1 and not group.pending and group.segments[0].facts.is_in_order:
            segment = group.segments[0]
            start, stop = self._context.indexes.span(segment, self._low, self._high)
            if start < stop:
                units = list(reader.cut(segment, start, stop, limit))
                yield from reversed(units) if self._reverse else units
            return
        spans = list(pairwise([self._low, *self._cuts(group.segments), self._high]))
        size = sum(segment.facts.size for segment in group.segments) // len(spans)
        for low, high in reversed(spans) if self._reverse else spans:
            yield _Window(group, low, high, size)

    def _overlaps(self, segment: LiveSegment) -> bool:
        first, last = segment.facts.key_min, segment.facts.key_max
        if first is None or last is None:
            return True
        return (self._high is None or first < self._high) and (self._low is None or last >= self._low)

    def _cuts(self, segments: Sequence[LiveSegment]) -> list[bytes]:
        """Keys that cut the range into windows of some rows each, taken from the directories of the key indexes."""
        firsts: list[tuple[bytes, int]] = []
        for segment in segments:
            firsts += self._context.indexes.index(segment).firsts()
        firsts.sort()
        cuts: list[bytes] = []
        rows = 0
        for key, count in firsts:
            inside = (self._low is None or key > self._low) and (self._high is None or key < self._high)
            if inside and rows >= _WINDOW_ROWS and (not cuts or key > cuts[-1]):
                cuts.append(key)
                rows = 0
            rows += count
        return cuts

    def _window(self, window: _Window, read: UnitReader) -> pa.Table:
        tables, in_order = [], True
        for segment in window.group.segments:
            if not segment.facts.is_in_order:
                _, positions, _ = self._context.indexes.entries(segment, window.low, window.high)
                tables += [read.rows_at(segment, np.sort(positions))] if len(positions) else []
                in_order = False
                continue
            start, stop = self._context.indexes.span(segment, window.low, window.high)
            if start < stop:
                tables.append(read.slice(segment, start, stop))
        if self._pending is not None and window.group.pending:
            rows = self._matching(self._pending.between(window.low, window.high))
            if rows.num_rows:
                tables.append(rows)
        if not tables:
            return empty_table(self._working_schema(read))
        schema = tables[0].schema
        table = pa.concat_tables([t if t.schema == schema else t.select(schema.names).cast(schema) for t in tables])
        return table if in_order and len(tables) == 1 else table.take(int64_array(key_order(self._key.encode(table))))

    def _reader(self, gone: Mapping[int, BitMap64], positions: Mapping[int, Any]) -> UnitReader:
        columns = self._columns
        if self._ordered and columns is not None:
            columns = [*columns, *(name for name in self._key.names if name not in columns)]
        return self._unit_reader(columns, gone, positions)

    def _working_schema(self, read: UnitReader) -> pa.Schema:
        return read.schema()

    def _matching(self, rows: pa.Table) -> pa.Table:
        """Pending rows that match the filter, with the reader's columns."""
        rows = self._hidden.absent(rows)
        if not self._predicate.is_true:
            rows = rows.filter(evaluate(self._predicate.expression, rows))
        return rows


__all__ = ["KeyScan"]
