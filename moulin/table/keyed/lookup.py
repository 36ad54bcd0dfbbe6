"""Look-ups of rows by key in segments: row cache, then key indexes, then one row group."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from copy import deepcopy
from typing import Any

import numpy as np
import pyarrow as pa

from moulin.errors import NotFound
from moulin.formats.segment.reader import SegmentReader
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import distinct
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.key.key import Key
from moulin.model.rows.nano_datetime import to_rows
from moulin.model.rows.numbers import int64_array
from moulin.sized_cache import SizedCache
from moulin.storage.table_store import Lost
from moulin.table.context import Context
from moulin.table.find.locate import locate
from moulin.table.keyed.version import KeyedVersion
from moulin.table.read.blob import Blob, stored_blob
from moulin.table.read.footers import open_reader

_Group = tuple[str, int, int]  # path of the segment, row group or part of it, schema id
_NEAR_ROWS = 1 << 14
_MOST_ASKED = 1 << 16


class _OnceOpen:
    """A reader of a segment, opened when it is first asked for."""

    def __init__(self, open_reader: Callable[[], SegmentReader]) -> None:
        self._open = open_reader
        self._reader: SegmentReader | None = None

    def __call__(self) -> SegmentReader:
        if self._reader is None:
            self._reader = self._open()
        return self._reader


class Lookup:
    """Rows of one keyed table by key. Thread-safe."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._limit = context.config.row_cache_rows
        self._rows: dict[Any, dict[str, Any]] = {}
        self._lock = threading.Lock()  # held to change `_rows`
        self._age = 0  # counts what was forgotten: a row that was read before is not kept after
        self._nested = False  # whether rows may hold lists or dicts, which a copy must not share
        self._groups: SizedCache[_Group, pa.Table] = SizedCache(
            context.config.group_cache_bytes, lambda table: int(table.nbytes)
        )
        self._starts: dict[str, tuple[int, ...]] = {}
        self._asked: set[_Group] = set()
        self.hits = 0
        self.misses = 0

    def get(self, seen: Callable[[], KeyedVersion], key: Key, value: Any) -> dict[str, Any] | None:
        """The row of a key at a version, looked up again when files of it were cleaned up meanwhile."""
        age = self._age
        shown = seen()
        row = self._rows.get(value)
        if row is not None:
            self.hits += 1
            return self.copy(row)
        self.misses += 1
        try:
            row = self._find(shown, key, value)
        except Lost:
            age = self._age
            row = self._find(seen(), key, value)
        if row is None:
            return None
        self._keep([(value, row)], age)
        return self.copy(row)

    def copy(self, row: dict[str, Any]) -> dict[str, Any]:
        """A row to hand out: whoever gets it may change it."""
        return deepcopy(row) if self._nested else row.copy()

    def _find(self, seen: KeyedVersion, key: Key, value: Any) -> dict[str, Any] | None:
        found = self.address(seen, key, value)
        return None if found is None else self._read(seen, found[0], np.asarray([found[1]]))[0]

    def address(self, seen: KeyedVersion, key: Key, value: Any) -> tuple[LiveSegment, int] | None:
        """The segment and the position in it of the row of a key; None when there is none."""
        encoded = key.encode_one(value)
        context = self._context
        for segment in seen.segments:
            facts = segment.facts
            if facts.key_min is not None and not (facts.key_min <= encoded <= (facts.key_max or b"")):
                continue
            found = context.indexes.find_one(segment, encoded)
            if found is None:
                continue
            position = found[0]
            if segment.vector and position in context.vectors.get(context.store, segment.vector, facts.rows):
                continue
            return segment, position
        return None

    def get_many(self, seen: KeyedVersion, key: Key, values: Sequence[Any], age: int) -> dict[Any, dict[str, Any]]:
        """The rows of those keys that are there. The caller hands out `copy` of them.

        `age` is what `age()` was before `seen` was looked up.
        """
        rows: dict[Any, dict[str, Any]] = {}
        asked = []
        for value in values:
            row = self._rows.get(value)
            if row is None:
                asked.append(value)
            else:
                rows[value] = row
        self.hits += len(rows)
        self.misses += len(asked)
        if not asked:
            return rows
        encoded = key.encode(key.to_table(asked))
        order = pc.sort_indices(encoded)
        indexes = np.asarray(order)
        context = self._context
        located = locate(context.indexes, context.vectors, context.store, seen.segments, encoded.take(order))
        for number in distinct(located.segments).tolist():
            mine = located.segments == number
            segment = next(s for s in seen.segments if s.facts.number == number)
            found = self._read(seen, segment, located.positions[mine])
            for index, row in zip(indexes[located.indexes[mine]].tolist(), found, strict=True):
                rows[asked[index]] = row
        self._keep([(value, rows[value]) for value in asked if value in rows], age)
        return rows

    def age(self) -> int:
        """To be asked for before the version that rows are read at."""
        return self._age

    def _read(self, seen: KeyedVersion, segment: LiveSegment, positions: Any) -> list[dict[str, Any]]:
        """The rows at these positions of a segment."""
        tables, offsets, total = [], {}, 0
        with ExitStack() as stack:
            reader = _OnceOpen(lambda: stack.enter_context(self._open(seen, segment)))
            if len(positions) == 1 and self._is_new(segment, int(positions[0]) // _NEAR_ROWS, seen.state.schema_id):
                return to_rows(reader().table(positions=positions))
            starts = self._starts.get(segment.facts.path)
            if starts is None:
                starts = self._starts[segment.facts.path] = reader().group_starts
            groups = np.searchsorted(starts, positions, side="right") - 1
            for group in sorted(set(groups.tolist())):
                table = self._group(reader, segment, seen.state.schema_id, group)
                tables.append(table)
                offsets[group] = total - starts[group]
                total += table.num_rows
        shift = np.asarray([offsets[group] for group in groups.tolist()])
        whole = tables[0] if len(tables) == 1 else pa.concat_tables(tables)
        places = positions + shift
        # The slice of one row is quicker than to take it, and leaves pyarrow.compute alone, which takes long to load.
        found = whole.slice(places[0], 1) if len(places) == 1 else whole.take(int64_array(places))
        return to_rows(found)

    def _is_new(self, segment: LiveSegment, near: int, schema_id: int) -> bool:
        """Whether no row near this one was asked for: then its pages are read, and its row group if another one is."""
        key = (segment.facts.path, near, schema_id)
        if key in self._asked:
            return False
        if len(self._asked) >= _MOST_ASKED:
            self._asked.clear()
        self._asked.add(key)
        return True

    def _group(self, reader: _OnceOpen, segment: LiveSegment, schema_id: int, group: int) -> pa.Table:
        name = (segment.facts.path, group, schema_id)
        return self._groups.get(name, lambda: reader().table(row_groups=[group]))

    def _open(self, seen: KeyedVersion, segment: LiveSegment) -> SegmentReader:
        facts = segment.facts
        self._nested = self._nested or not all(f.field_type.is_primitive for f in seen.state.schema.fields)
        return open_reader(self._context.store, facts, seen.state.schema)

    def _keep(self, found: Sequence[tuple[Any, dict[str, Any]]], age: int) -> None:
        with self._lock:
            if age != self._age:
                return  # a newer version came meanwhile: these rows may be old
            rows = self._rows
            for value, row in found:
                if len(rows) >= self._limit:
                    for old in list(rows)[: self._limit // 8 + 1]:
                        del rows[old]
                rows[value] = row

    def forget(self, values: Iterable[Any]) -> None:
        """Drop the cached rows of keys that were written. Called once readers are at the version that has them."""
        with self._lock:
            self._age += 1
            if self._rows:
                for value in values:
                    self._rows.pop(value, None)

    def clear(self) -> None:
        """Drop everything that was read."""
        self._rows.clear()
        self._groups.clear()
        self._starts.clear()
        self._asked.clear()

    def forget_rows(self) -> None:
        """Drop all cached rows: another process may have changed them. Called once readers are at the newer version."""
        with self._lock:
            self._age += 1
            self._rows.clear()


def located_blob(context: Context, lookup: Lookup, seen: KeyedVersion, key: Key, value: Any, column: str) -> Blob:
    """A value of the row of a key, as a file."""
    found = lookup.address(seen, key, key.check(value))
    if found is None:
        raise no_row(seen.state, value)
    return stored_blob(context, seen.state, *found, column)


def no_row(state: TableState, key: Any) -> NotFound:
    return NotFound(f"Table {state.full_name} has no row with key {key!r}.")
