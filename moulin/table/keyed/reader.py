"""A keyed table as readers of this process see it: look-ups and moments, over segments and what is not in them yet.

What they see is one value, `KeyedVersion`, replaced as a whole: the segments of a version. Beside it are the memtables
of the regions that this process writes, and the tails of logs that were left and that it does not flush. A process that
holds a region's claim need not ask the catalog before a read, since nobody else changes its rows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from uuid import UUID

from moulin.model.entities import Region, TableState
from moulin.model.key.key import Key
from moulin.model.region_spec import RegionSpec
from moulin.table.context import Context
from moulin.table.keyed.counters import CacheUse
from moulin.table.keyed.left_logs import Tail, left_logs, read_tail
from moulin.table.keyed.lookup import Lookup, located_blob, no_row
from moulin.table.keyed.memtable import Memtable, Moment
from moulin.table.keyed.region import RegionWriter
from moulin.table.keyed.version import KeyedVersion
from moulin.table.properties import effective
from moulin.table.read.blob import Blob, check_blob_column
from moulin.table.read.turns import TURNS

_FRESH = 1.0  # seconds for which a reader trusts what it saw, when it holds the claim anyway


class KeyedReader:
    """What can be read of one keyed table. Thread-safe. `KeyedTable` adds what changes it."""

    def __init__(self, context: Context, table_id: UUID, seen: KeyedVersion | None = None) -> None:
        self._context, self.id = context, table_id
        self._lock = threading.RLock()  # regions, tails and the version seen
        self._regions: dict[tuple[bytes | None, ...], RegionWriter] = {}
        self._sole: RegionWriter | None = None  # the writer of all keys, when the table is not split
        self._tails: tuple[Tail, ...] = ()
        self._seen = self._load() if seen is None else seen
        self._use(self._seen.state)
        self._lookup = Lookup(context)

    def _use(self, state: TableState) -> None:
        key = Key.of(state.schema)
        assert key is not None
        self.key = key
        self.config = effective(self._context.config, state.properties)
        self.spec = RegionSpec.of(state.schema, state.properties)

    def _load(self) -> KeyedVersion:
        catalog = self._context.catalog
        state = catalog.table_by_id(self.id)
        return KeyedVersion(
            state, tuple(catalog.segments(self.id, state.version, with_columns=False)), time.monotonic()
        )

    def _seen_now(self) -> KeyedVersion:
        """The newest version: as the catalog has it, or as this process left it while it alone can change rows."""
        seen = self._seen
        if self._sole is not None and time.monotonic() - seen.at < _FRESH:
            return seen
        return self.refresh()

    def refresh(self) -> KeyedVersion:
        """Look into the catalog."""
        with self._lock:
            seen = self._seen
            if self._context.catalog.head_version(self.id) != seen.state.head_version:
                regions = self._context.catalog.regions(self.id) if self._tails else []
                seen = self._load()
                self._show(seen)
                self._lookup.forget_rows()
                if self._tails:
                    self._cut_tails({region.number: region.covered for region in regions}, seen.state)
            else:
                seen = self._seen = KeyedVersion(seen.state, seen.segments, time.monotonic())
            return seen

    def _show(self, seen: KeyedVersion) -> None:
        """Move readers to a newer version, and everybody to its schema. REQUIRES: lock is held."""
        before, self._seen = self._seen.state, seen
        if seen.state.schema_id != before.schema_id or seen.state.properties != before.properties:
            self._use(seen.state)
            for writer in self._regions.values():
                writer.use(seen.state)

    def _cut_tails(self, covered: Mapping[int, int], state: TableState) -> None:
        """Forget what is in segments by now; `covered` was looked up before the version. REQUIRES: lock is held."""
        tails = (tail.beyond(covered.get(tail.region.number, 0), state) for tail in self._tails)
        self._tails = tuple(tail for tail in tails if len(tail))

    def ready(self) -> None:
        """To be called before a read: what logs hold that were left is seen by it."""

    def get(self, key: Any) -> dict[str, Any] | None:
        """The row of a key, or None."""
        if TURNS.scans:
            TURNS.give_way()
        checked = self.key.check(key)
        writer = self._regions.get(self.spec.value_of(checked)) if self.spec.is_split else self._sole
        if writer is not None:
            found = writer.find(checked)
            if found is not None:
                return found[0].row(found[1], self._seen.state.schema)
        else:
            self.ready()
            if self._tails:
                seen = self._seen_now()
                for tail in self._tails:
                    found = tail.find(checked)
                    if found is not None:
                        return found[0].row(found[1], seen.state.schema)
        return self._lookup.get(self._seen_now, self.key, checked)

    def blob(self, key: Any, column: str) -> Blob:
        """A value of the row of a key as a file; NotFound when there is no such row."""
        checked = self.key.check(key)
        self.ready()
        with self._moment() as (seen, unflushed):
            check_blob_column(seen.state, column)
            pending = next((found for source in unflushed if (found := source.find(checked)) is not None), None)
        if pending is not None:
            row = pending[0].row(pending[1], seen.state.schema)
            if row is not None:
                value = row[column]
                return Blob(f"{seen.state.full_name}.{column}", lambda: value)
            raise no_row(seen.state, key)
        return located_blob(self._context, self._lookup, seen, self.key, key, column)

    def get_many(self, keys: Sequence[Any]) -> list[dict[str, Any] | None]:
        """Return the row of each key, or None, in the order of the keys."""
        checked = [self.key.check(key) for key in keys]
        rows: list[dict[str, Any] | None] = [None] * len(checked)
        asked: dict[Any, list[int]] = {}
        pending: list[tuple[int, Memtable, Any]] = []
        self.ready()
        age = self._lookup.age()
        with self._moment() as (seen, unflushed):
            for index, key in enumerate(checked):
                for source in unflushed:
                    found = source.find(key)
                    if found is not None:
                        pending.append((index, *found))
                        break
                else:
                    asked.setdefault(key, []).append(index)
        for index, memtable, at in pending:
            rows[index] = memtable.row(at, seen.state.schema)
        if asked:
            for key, row in self._lookup.get_many(seen, self.key, list(asked), age).items():
                for index in asked[key]:
                    rows[index] = self._lookup.copy(row)
        return rows

    @contextmanager
    def _moment(self) -> Iterator[tuple[KeyedVersion, list[RegionWriter | Tail]]]:
        """A version, and memtables and tails that stand still beside it: no write and no flush comes between."""
        with self._lock, ExitStack() as stack:
            seen = self._seen_now()
            writers = list(self._regions.values())
            for writer in writers:
                stack.enter_context(writer.lock)
            yield seen, [*self._tails, *writers]

    def pending(self) -> tuple[KeyedVersion, list[list[Moment]]]:
        """One moment of the table: a version, and the memtables of each region that are not in it, the newest first."""
        self.ready()
        with self._moment() as (seen, unflushed):
            return seen, [moments for source in unflushed if (moments := source.moments())]

    def cache_use(self) -> CacheUse:
        """How often the row cache had what was asked for."""
        return CacheUse(self._lookup.hits, self._lookup.misses)


class FixedReader(KeyedReader):
    """A keyed table at one version, and on top of it the logs that were left, as they are when it is first read.

    `regions` were looked up before `seen`. A log that is flushed before it is read is in a later version.
    """

    def __init__(self, context: Context, seen: KeyedVersion, regions: Sequence[Region]) -> None:
        super().__init__(context, seen.state.id, seen)
        self._left: Sequence[Region] | None = regions

    def ready(self) -> None:
        with self._lock:
            if self._left is not None:
                left = left_logs(self._context, self.id, self.config, self._left)
                tails = (read_tail(log, self._seen.state) for log in left)
                self._tails = tuple(tail for tail in tails if tail is not None)
                self._left = None

    def _seen_now(self) -> KeyedVersion:
        return self._seen
