"""Look-ups of rows by key in segments: row cache, then key indexes, then row groups or pages of them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
import pyarrow as pa

from moulin.errors import NotFound
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import distinct
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.key.key import Key
from moulin.model.rows.nano_datetime import to_rows
from moulin.model.schema.values import Schema
from moulin.storage.table_store import Lost
from moulin.table.context import Context
from moulin.table.find.locate import locate
from moulin.table.keyed.groups import RowGroups
from moulin.table.keyed.version import KeyedVersion
from moulin.table.read.blob import Blob, stored_blob


class Lookup:
    """Rows of one keyed table by key. Thread-safe."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._limit = context.config.row_cache_rows
        self._rows: dict[Any, dict[str, Any]] = {}
        self._lock = threading.Lock()  # held to change `_rows`
        self._age = 0  # counts what was forgotten: a row that was read before is not kept after
        self._nested = False  # whether rows may hold lists or dicts, which a copy must not share
        self._groups = RowGroups(context)
        self.hits = 0
        self.misses = 0

    def get(self, seen: Callable[[], KeyedVersion], key: Key, value: Any) -> dict[str, Any] | None:
        """The row of a key at a version, looked up again if its files were cleaned up."""
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
        """A copy of a row for the caller, who may change it."""
        return deepcopy(row) if self._nested else row.copy()

    def _find(self, seen: KeyedVersion, key: Key, value: Any) -> dict[str, Any] | None:
        found = self.address(seen, key, value)
        if found is None:
            return None
        with self._groups.reading(seen.state.schema) as reading:
            return self._rows_of(reading.rows(found[0], np.asarray([found[1]])), seen.state.schema)[0]

    def address(self, seen: KeyedVersion, key: Key, value: Any) -> tuple[LiveSegment, int] | None:
        """The segment and the position in it of the row of a key; None when there is none."""
        encoded = key.encode_one(value)
        context = self._context
        for segment in seen.segments:
            facts = segment.facts
            if facts.key_min is not None and not (facts.key_min <= encoded <= (facts.key_max or b"")):
                continue
            position = context.indexes.find_one(segment, encoded)
            if position is None:
                continue
            if segment.vector and position in context.vectors.get(context.store, segment.vector, facts.rows):
                continue
            return segment, position
        return None

    def get_many(self, seen: KeyedVersion, key: Key, values: Sequence[Any], age: int) -> dict[Any, dict[str, Any]]:
        """The rows of existing keys. The caller must return `copy` of them.

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
        sorted_keys, schema = encoded.take(order), seen.state.schema
        with self._groups.reading(schema) as reading:
            located = locate(
                context.indexes,
                context.vectors,
                context.store,
                seen.segments,
                sorted_keys,
                with_ids=False,
                expect=reading.expect,
            )
            for number in distinct(located.segments).tolist():
                mine = located.segments == number
                segment = next(s for s in seen.segments if s.facts.number == number)
                found = self._rows_of(reading.rows(segment, located.positions[mine]), schema)
                for index, row in zip(indexes[located.indexes[mine]].tolist(), found, strict=True):
                    rows[asked[index]] = row
        self._keep([(value, rows[value]) for value in asked if value in rows], age)
        return rows

    def age(self) -> int:
        """To be asked for before the version that rows are read at."""
        return self._age

    def _rows_of(self, table: pa.Table, schema: Schema) -> list[dict[str, Any]]:
        self._nested = self._nested or not all(field.field_type.is_primitive for field in schema.fields)
        return to_rows(table)

    def _keep(self, found: Sequence[tuple[Any, dict[str, Any]]], age: int) -> None:
        with self._lock:
            if age != self._age:
                return  # there is a newer version: these rows may be old
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
