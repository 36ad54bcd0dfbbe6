"""Units: what a scan reads at once, one after the other in order, some of them ahead of what was asked for.

A scan with a limit begins with few rows, and reads more at a time and further ahead the longer it finds too few.
All scans of a process share one pool of threads.
"""

# Decisions: docs/decisions/0311, docs/decisions/0314

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from moulin.errors import MoulinError
from moulin.formats.deletion_vector import keep_mask
from moulin.formats.segment.joined import SmallFile, can_join, read_joined
from moulin.formats.segment.reader import SegmentReader
from moulin.model.columns.arrays import Integers
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.model.predicate import Predicate
from moulin.model.predicate.evaluation import evaluate
from moulin.model.schema.arrow import LAST_UPDATED_VERSION, arrow_schema
from moulin.storage.store import Store
from moulin.table.commit.vectors import VectorCache
from moulin.table.read.footers import open_reader, open_small
from moulin.table.read.hidden import SHOWN_POSITION, HiddenColumns
from moulin.table.read.inline_cache import INLINE_ROWS, inline_key
from moulin.table.read.turns import TURNS

_UNITS_AHEAD = 8  # units a scan holds at most: read, or being read
_CORES = os.cpu_count() or 1
_FIRST_ROWS = 1 << 11  # of a scan with a limit
_GROWTH = 4
_LEAST_SHARE = 8 << 20
_TOGETHER_BYTES = 4 << 20  # small segments are read together up to this size
_TOGETHER = 64
_SMALL_BYTES = 128 << 10
_THREAD_ROWS = 1 << 15  # fewer are decoded by one thread


class Sized(Protocol):
    """Something to read, and about how many bytes of storage it takes."""

    @property
    def size(self) -> int: ...


_S = TypeVar("_S", bound=Sized)


@dataclass(frozen=True, slots=True)
class Unit:
    """Rows [start, stop) of a segment: what one thread reads at once."""

    segment: LiveSegment
    start: int
    stop: int
    size: int


@dataclass(frozen=True, slots=True)
class UnitGroup:
    """Small units that one thread reads one after the other."""

    units: tuple[Unit, ...]
    size: int


class UnitReader:
    """Reads units of one scan; called from several threads.

    `gone` are positions that do not count. Of a segment in `positions`, only rows at these are read. A scan that wants
    no more than `most` rows begins with few.
    """

    def __init__(
        self,
        store: Store,
        vectors: VectorCache,
        state: TableState,
        predicate: Predicate,
        columns: list[str] | None,
        hidden: HiddenColumns,
        gone: Mapping[int, BitMap64],
        positions: Mapping[int, Integers] | None = None,
        *,
        most: int | None = None,
        by_pages: bool = True,
    ) -> None:
        self._store, self._vectors, self._state = store, vectors, state
        self._positions = positions or {}
        self._predicate, self._columns, self._hidden, self._gone = predicate, columns, hidden, gone
        self._most, self._by_pages = most, by_pages

    def units(self, segments: Sequence[LiveSegment], limit: int) -> Iterator[Unit | UnitGroup]:
        """Cut large segments at row groups, so that several units fit into `limit` bytes, and join small ones."""
        if self._most is not None:
            yield from _growing(unit for s in segments for unit in self.cut(s, 0, s.facts.rows, limit))
            return
        share = sum(segment.facts.size for segment in segments) // (2 * _CORES)
        held: list[Unit] = []
        size, most = 0, min(_TOGETHER_BYTES, limit // _UNITS_AHEAD)
        for segment in segments:
            for unit in self.cut(segment, 0, segment.facts.rows, limit, share):
                full = size + unit.size > most or len(held) == _TOGETHER
                if held and (full or not _are_alike(held[-1], unit)):
                    yield UnitGroup(tuple(held), size)
                    held, size = [], 0
                held.append(unit)
                size += unit.size
        if held:
            yield UnitGroup(tuple(held), size)

    def cut(self, segment: LiveSegment, start: int, stop: int, limit: int, share: int | None = None) -> Iterator[Unit]:
        """Rows [start, stop) of a segment as units. Those of a filter are larger, for it decodes less of them, but not
        much larger than `share`, so that every core has some."""
        rows, size = max(segment.facts.rows, 1), segment.facts.size
        filtered = not self._predicate.is_true
        largest = limit // (max(2, min(_UNITS_AHEAD, _CORES)) if filtered else _UNITS_AHEAD)
        pieces = -(-size // max(largest, 1))
        if filtered and share is not None:
            pieces = max(pieces, round(size / max(share, _LEAST_SHARE)))
        if pieces <= 1:
            yield Unit(segment, start, stop, size * (stop - start) // rows)
            return
        with self._open(segment) as reader:
            groups = reader.may_match(self._predicate)
        groups = [(max(first, start), min(last, stop)) for first, last in groups if first < stop and last > start]
        for first, last in _even(groups, pieces):
            yield Unit(segment, first, last, size * (last - first) // rows)

    def __call__(self, unit: Unit | UnitGroup) -> pa.Table:
        if isinstance(unit, Unit):
            return self.slice(unit.segment, unit.start, unit.stop)
        if (joined := self._joined(unit)) is not None:
            return joined
        tables = [self.slice(one.segment, one.start, one.stop) for one in unit.units]
        return tables[0] if len(tables) == 1 else concat(tables)

    def _joined(self, group: UnitGroup) -> pa.Table | None:
        """Small segments decoded at once; None when they have to be read one by one, which also says what is wrong."""
        units = group.units
        plain = self._by_pages and not self._hidden.names and not self._positions
        if not plain or len(units) == 1 or not all(map(_is_small, units)):
            return None
        if any(unit.segment.facts.files for unit in units):
            return None
        columns = self._schema_columns if self._columns is None else self._columns
        names = (*columns, *(name for name in self._predicate.columns if name not in columns))
        facts = [unit.segment.facts for unit in units]
        key = inline_key(self._state, facts, names)
        try:
            table = None if key is None else INLINE_ROWS.find(key)
            if table is None:
                table = self._decoded(facts, names)
            if table is None:
                return None
            if key is not None:
                INLINE_ROWS.keep(key, table)
            return self._matching(table, units).select(list(columns))
        except (MoulinError, pa.ArrowException, ValueError, LookupError, OSError):
            return None

    def _decoded(self, facts: Sequence[SegmentFacts], names: tuple[str, ...]) -> pa.Table | None:
        """All rows of small segments; None when these do not have the same columns."""
        known: list[SmallFile] = []
        for one in facts:
            file = open_small(self._store, one, known[0][1] if known else None)
            if file is None:
                return None
            known.append(file)
        if not can_join(known):
            return None
        mapping = known[0][1].mapping(self._state.schema, names)
        return read_joined(known, mapping, trust=self._store.is_local)

    def _matching(self, table: pa.Table, units: Sequence[Unit]) -> pa.Table:
        """The rows of whole segments that are not deleted and match."""
        live = [self._live_mask(unit) for unit in units]
        if any(mask is not None for mask in live):
            masks = [np.ones(u.stop, np.bool_) if m is None else m for u, m in zip(units, live, strict=True)]
            table = table.filter(pa.array(np.concatenate(masks)))
        return table if self._predicate.is_true else self.tested(table)

    def _live_mask(self, unit: Unit) -> npt.NDArray[np.bool_] | None:
        deleted = self._deleted(unit.segment)
        return None if deleted is None else keep_mask(deleted, 0, unit.stop)

    def _deleted(self, segment: LiveSegment) -> BitMap64 | None:
        """Positions that do not count."""
        deleted = self._vectors.get(self._store, segment.vector, segment.facts.rows) if segment.vector else None
        if gone := self._gone.get(segment.facts.number):
            deleted = gone if deleted is None else deleted | gone
        return deleted

    def rows_at(self, segment: LiveSegment, positions: Integers) -> pa.Table:
        """The rows of a segment at some positions, which ascend."""
        wanted = self._positions.get(segment.facts.number)
        some = positions if wanted is None else np.intersect1d(positions, wanted, assume_unique=True)
        return self._read(segment, 0, segment.facts.rows, some)

    def slice(self, segment: LiveSegment, start: int, stop: int) -> pa.Table:
        """Rows [start, stop) of a segment."""
        return self._read(segment, start, stop, self._positions.get(segment.facts.number))

    def _read(self, segment: LiveSegment, start: int, stop: int, positions: Integers | None) -> pa.Table:
        filtered, hidden = not self._predicate.is_true, self._hidden
        own = [name for name in self._predicate.columns if name not in hidden.tested] if filtered else []
        extra = [name for name in own if name not in self._read_columns] if hidden.tested else []
        table = self._open(segment, extra).table(
            positions=positions,
            deleted=self._deleted(segment),
            predicate=self._predicate if filtered and not hidden.tested else None,
            keep_group=self._predicate.may_match if filtered else None,
            start=start,
            stop=stop,
            position=hidden.needs(SHOWN_POSITION),
            row_id=hidden.needs_row_id,
            first_row_id=segment.first_row_id,
            sequence=hidden.needs(LAST_UPDATED_VERSION),
            sequence_number=segment.sequence,
            most=None if hidden.tested else self._most,
            by_pages=self._by_pages,
            use_threads=stop - start > _THREAD_ROWS,
        )
        table = hidden.complete(table, segment.facts.number)
        return self.tested(table).drop_columns(extra) if hidden.tested else table

    def tested(self, table: pa.Table) -> pa.Table:
        """The rows that match; `table` has the columns that the where names."""
        return table.filter(evaluate(self._predicate.expression, table))

    @cached_property
    def _read_columns(self) -> frozenset[str]:
        return frozenset(self._schema_columns if self._columns is None else self._columns)

    @cached_property
    def _schema_columns(self) -> list[str]:
        return [field.name for field in self._state.schema.fields]

    def schema(self) -> pa.Schema:
        """The columns that slices have."""
        full = arrow_schema(self._state.schema)
        names = full.names if self._columns is None else self._columns
        return pa.schema([*(full.field(name) for name in names), *self._hidden.fields])

    def _open(self, segment: LiveSegment, extra: Sequence[str] = ()) -> SegmentReader:
        columns = self._columns if self._columns is None else [*self._columns, *extra]
        also = self._predicate.columns
        return open_reader(self._store, segment.facts, self._state.schema, columns=columns, also=also)


def _are_alike(one: Unit, other: Unit) -> bool:
    """Whether it is worth while to read these at once."""
    inline = (one.segment.facts.inline is None) == (other.segment.facts.inline is None)
    return inline and _is_small(one) == _is_small(other)


def _is_small(unit: Unit) -> bool:
    return unit.segment.facts.size <= _SMALL_BYTES


def concat(tables: Sequence[pa.Table]) -> pa.Table:
    """Tables of the same columns as one; they may have none."""
    if tables[0].num_columns:
        return pa.concat_tables(tables)
    return pa.table({"": pa.nulls(sum(table.num_rows for table in tables))}).select([])


def _even(groups: Sequence[tuple[int, int]], pieces: int) -> Iterator[tuple[int, int]]:
    """Row groups, each by its first row and the one behind its last, as at most so many stretches of about as many."""
    step = max(1, -(-len(groups) // pieces))
    for at in range(0, len(groups), step):
        yield groups[at][0], groups[min(at + step, len(groups)) - 1][1]


def _growing(units: Iterable[Unit]) -> Iterator[Unit]:
    """Units cut into smaller ones, the first of few rows, each larger than the one before."""
    rows = _FIRST_ROWS
    for unit in units:
        start = unit.start
        while start < unit.stop:
            stop = min(start + rows, unit.stop)
            yield Unit(unit.segment, start, stop, unit.size * (stop - start) // max(unit.stop - unit.start, 1))
            start, rows = stop, _GROWTH * rows


def read_ahead(
    read: Callable[[_S], pa.Table], units: Iterable[_S], limit: int, *, few: bool = False
) -> Iterator[pa.Table]:
    """Read units in order, some of them ahead of what was asked for, within `limit` bytes.

    With `few`, the first one is read alone by the caller's own thread, then two at a time, and so on.
    """
    running: deque[tuple[Future[pa.Table], int]] = deque()
    held, ahead = 0, 1 if few else _UNITS_AHEAD
    try:
        for unit in units:
            if few and ahead == 1:
                with TURNS:
                    table = read(unit)
                yield table
                ahead = 2
                continue
            while running and (held + unit.size > limit or len(running) >= ahead):
                future, size = running.popleft()
                yield _result(future)
                held -= size
                ahead = min(2 * ahead, _UNITS_AHEAD)
            running.append((scan_threads().submit(read, unit), unit.size))
            held += unit.size
        while running:
            yield _result(running.popleft()[0])
    finally:
        for future, _ in running:
            future.cancel()


def _result(future: Future[pa.Table]) -> pa.Table:
    with TURNS:
        return future.result()


_pools: list[ThreadPoolExecutor] = []


def scan_threads() -> ThreadPoolExecutor:
    """The threads that all reads of this process share."""
    if not _pools:
        _pools.append(ThreadPoolExecutor(_CORES, thread_name_prefix="moulin-scan"))
    return _pools[0]


os.register_at_fork(after_in_child=_pools.clear)  # a child has none of the threads


__all__ = ["Sized", "Unit", "UnitGroup", "UnitReader", "concat", "read_ahead", "scan_threads"]
