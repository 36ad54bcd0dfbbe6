"""A keyed table in this process: writes by key, the regions it holds, flushes and merges in the background.

What can be read of it, and how readers come to see what was flushed, is in `keyed_reader`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any
from uuid import UUID

import pyarrow as pa

from moulin.errors import Closed, Conflict, Fenced, InvalidInput, MoulinError, NotFound, Unavailable
from moulin.model.arrow import arrow_schema
from moulin.model.operations import RegionUse
from moulin.model.rows import to_batches
from moulin.table.change import after_commit
from moulin.table.claim import claim_region
from moulin.table.compaction import compact
from moulin.table.context import Context
from moulin.table.keyed_reader import KeyedReader, View
from moulin.table.memtable import Memtable, to_schema
from moulin.table.region import RegionWriter
from moulin.table.stats import Counters, StallStats, WriterStats
from moulin.table.upsert import UpsertDraft, delete_keys, newest, put_rows
from moulin.table.writes import number_source

_RETRY = 0.2


class KeyedTable(KeyedReader):
    """One keyed table. Thread-safe; one per table and process, shared by all `Table` objects."""

    def __init__(self, context: Context, table_id: UUID) -> None:
        super().__init__(context, table_id)
        self._flushing = threading.RLock()  # one flush at a time; taken before `_lock`
        self._holding = threading.RLock()  # one change that is not a put at a time; taken before `_flushing`
        self._life = threading.RLock()  # held to open and to close for writing; taken first
        self._users = 0
        self._work = threading.Event()
        self._merge_due = threading.Event()
        self._ending = False
        self._thread: threading.Thread | None = None
        self._merger: threading.Thread | None = None

    # Writes

    def direct(self) -> KeyedTable | RegionWriter:
        """What takes rows one by one: the writer itself when there is one for all keys."""
        return self if self.spec.is_split else self._writer(())

    def put(self, row: Any) -> None:
        """Insert a row, or replace the one with its key."""
        self._writer_of_row(row).put(row)

    def put_batch(self, data: object) -> int:
        """Insert or replace rows: a list of dicts, or Arrow in any form. Each region takes its rows at once."""
        if not self.spec.is_split and isinstance(data, list | tuple):
            self._writer(()).put_rows(data)
            return len(data)
        if not self.spec.is_split:
            self._writer(())  # the writer knows the schema best
        schema = self._view_now().state.schema
        rows = pa.Table.from_batches(to_batches(data, schema), arrow_schema(schema))
        for value, part in self.spec.split(rows) if rows.num_rows else ():
            self._writer(value).put_batches(part.to_batches(), schema.schema_id)
        return int(rows.num_rows)

    def delete(self, key: Any) -> None:
        """Delete the row of a key, if there is one."""
        checked = self.key.check(key)
        self._writer(self.spec.value_of(checked)).delete([checked])

    def delete_batch(self, keys: Sequence[Any]) -> None:
        """Delete the rows of several keys."""
        grouped: dict[tuple[bytes | None, ...], list[Any]] = {}
        for key in [self.key.check(key) for key in keys]:
            grouped.setdefault(self.spec.value_of(key), []).append(key)
        for value, part in grouped.items():
            self._writer(value).delete(part)

    def _writer_of_row(self, row: Any) -> RegionWriter:
        if not self.spec.is_split:
            return self._writer(())
        if not isinstance(row, Mapping):
            raise InvalidInput(f"put takes a row as a dict, not {type(row).__name__}.")
        missing = [name for name in self.key.names if name not in row]
        if missing:
            raise InvalidInput(f"The row lacks the key column {missing[0]}.")
        names = self.key.names
        key = self.key.check(row[names[0]] if len(names) == 1 else tuple(row[name] for name in names))
        return self._writer(self.spec.value_of(key))

    # Regions

    def _writer(self, value: tuple[bytes | None, ...]) -> RegionWriter:
        """The writer of a region, claimed when it is first written."""
        writer = self._regions.get(value)
        return writer if writer is not None else self._open(value)

    def _open(self, value: tuple[bytes | None, ...]) -> RegionWriter:
        with self._lock:
            writer = self._regions.get(value)
            if writer is not None:
                return writer
            if self._ending:
                raise Closed("The table was closed; open it again with lake.table(...).")
            number = self._context.catalog.region_number(self.id, value)
            writer = self._claim(number)
            self._regions[value] = writer
            if not self.spec.is_split:
                self._sole = writer
            self._show(self._load())
            if self._thread is None:
                self._thread = threading.Thread(target=self._flush_loop, name="moulin-flush", daemon=True)
                self._thread.start()
            if self._merger is None and self.config.merge_background == "on":
                self._merger = threading.Thread(target=self._merge_loop, name="moulin-merge", daemon=True)
                self._merger.start()
            if writer.oldest() is not None:
                self._work.set()
            return writer

    def _claim(self, number: int) -> RegionWriter:
        return claim_region(
            self._context,
            self.id,
            number,
            self.config,
            wake=self._work.set,
            level0=lambda: sum(s.facts.level == 0 for s in self._view.of_region(number)),
            refresh=self.refresh,
        )

    # Flushes

    def flush(self) -> int:
        """Commit everything written so far; returns the newest version of the table."""
        for writer in list(self._regions.values()):
            writer.rotate()
        for writer in list(self._regions.values()):
            self._flush_all(writer)
        return self._view.state.head_version

    def _flush_all(self, writer: RegionWriter) -> None:
        while (memtable := writer.oldest()) is not None:
            with self._flushing:
                if writer.oldest() is memtable:
                    self._flush_one(writer, memtable)

    def _flush_one(self, writer: RegionWriter, memtable: Memtable) -> None:
        view = self.refresh()
        state, number = view.state, writer.region.number
        segments = view.of_region(number)
        rows, deleted = memtable.contents()
        rows = to_schema(rows, memtable.record.schema, state.schema)
        draft = UpsertDraft()
        numbers = number_source(self._context)
        put_rows(self._context, state, draft, segments, rows, numbers, region=number)
        if deleted:
            delete_keys(self._context, draft, segments, memtable.key, memtable.key.to_table(deleted))
        use = writer.use_for(memtable.reached)
        change = draft.change(state, [use])
        # An id of its own, so that a commit whose answer was lost is not done twice.
        request = f"flush:{self.id}:{number}:{use.epoch}:{use.reached}"
        version = self._context.committer.commit([change], request_id=request).version
        with self._lock:
            self._show(self._load())
            self._lookup.forget(memtable.rows)
            writer.flushed(memtable)
        # Should the catalog be lost, the log must still have what no manifest tells of.
        if self._context.catalog.published_version() >= version:
            writer.trim()
        self._merge_due.set()

    def _flush_loop(self) -> None:
        failures = 0
        tick = min(1.0, self.config.log_interval) if self.config.log_sync == "interval" else 1.0
        while not self._ending:
            self._work.wait(tick)
            self._work.clear()
            for writer in list(self._regions.values()):
                try:
                    self._flush_all(writer)
                    if self.config.log_sync == "interval":
                        writer.sync()
                    if writer.is_crowded:
                        self.refresh()  # another process may have merged
                    failures = 0
                except (Fenced, NotFound, Closed) as error:
                    writer.fail(error)
                except Exception as error:  # noqa: BLE001 - whatever it is: writers are told, and it is tried again
                    failures += 1
                    if failures >= 5:
                        writer.fail(error if isinstance(error, MoulinError) else _broken(error))
                    if not self._ending:
                        time.sleep(min(_RETRY * 2**failures, 5.0))
                        self._work.set()

    # Merges

    def _merge_loop(self) -> None:
        load = partial(self._context.catalog.table_by_id, self.id)
        while not self._ending:
            self._merge_due.wait(1.0)
            if not self._merge_due.is_set() or self._ending:
                continue
            self._merge_due.clear()
            try:
                if compact(self._context, load, due_only=True).merges:
                    self.refresh()
                    self._merge_due.set()
            except Conflict:
                continue  # it lost to an overwrite or restore: what there is now is looked at next time
            except MoulinError:
                time.sleep(_RETRY)

    # Everything that is not a put

    @contextmanager
    def held(
        self,
        values: Sequence[tuple[bytes | None, ...]] | None = None,
        *,
        also: Sequence[tuple[bytes | None, ...]] = (),
    ) -> Iterator[tuple[View, list[RegionUse]]]:
        """Hold regions, all known ones (and those in `also`) unless `values` says which: writes wait, all is flushed.

        Regions that this process did not write before are claimed, and given up afterwards.
        """
        known = [region.value for region in self._context.catalog.regions(self.id)]
        wanted = sorted(
            {*known, *also, *([()] if not self.spec.is_split else [])} if values is None else set(values), key=repr
        )
        with self._holding, ExitStack() as stack:
            self._ending = False  # claims for the time of a change are taken after a close too
            writers = []
            for value in wanted:
                borrowed = value not in self._regions
                writer = self._patiently(value)
                if borrowed:
                    stack.callback(self._give_up, value)
                writers.append(writer)
            for writer in writers:
                stack.enter_context(writer.paused())
            for writer in writers:
                writer.rotate()
                self._flush_all(writer)
            yield self.refresh(), [writer.use_for(writer.covered) for writer in writers]
            with after_commit():
                self.refresh()

    def _patiently(self, value: tuple[bytes | None, ...]) -> RegionWriter:
        """Claim a region, waiting a while for another process to let go of it."""
        deadline = time.monotonic() + self._context.config.lock_seconds
        while True:
            try:
                return self._writer(value)
            except Fenced:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def _give_up(self, value: tuple[bytes | None, ...]) -> None:
        with self._lock:
            if self._users:
                return
            writer = self._regions.pop(value, None)
            self._sole = None if not self.spec.is_split else self._sole
            if writer is not None:
                writer.close()  # before anybody else in this process can claim it

    def upsert(self, data: object, commit: Callable[[Any], int]) -> tuple[int, UpsertDraft]:
        """Insert or replace rows in one version, past the log. `commit` commits the change and gives its version."""
        schema = self.refresh().state.schema
        batches: Iterable[pa.RecordBatch] = to_batches(data, schema)
        draft = UpsertDraft()
        values: list[tuple[bytes | None, ...]] = [()]
        if self.spec.is_split:  # which regions to hold is known only when all rows were seen
            batches = list(batches)
            values = self.regions_of(batches)
        with self.held(values) as (view, uses):
            numbers = number_source(self._context)
            for run in runs(batches, self.config.append_segment_bytes):
                rows = to_schema(run, schema, view.state.schema)
                for value, part in self.spec.split(newest(self.key, rows)):
                    number = self._context.catalog.region_number(self.id, value)
                    put_rows(self._context, view.state, draft, view.of_region(number), part, numbers, region=number)
            if not draft.added:
                return view.state.head_version, draft
            version = commit(draft.change(view.state, uses))
        return version, draft

    def regions_of(self, batches: Iterable[pa.RecordBatch]) -> list[tuple[bytes | None, ...]]:
        """The regions that rows belong to."""
        return list({value for batch in batches for value, _ in self.spec.split(pa.Table.from_batches([batch]))})

    def counters(self) -> Counters:
        """What this process counted of the table."""
        writers = {}
        for writer in list(self._regions.values()):
            stalls, memtables = writer.stalls, writer.memtables
            writers[writer.region.number] = WriterStats(
                sum(memtable.size for memtable in memtables),
                max(memtable.reached for memtable in memtables),
                StallStats(stalls.slowed + stalls.stopped, stalls.seconds, stalls.longest),
            )
        return Counters(self.cache_use(), writers)

    # Ending

    def enter(self) -> None:
        """One more `Table` object writes rows one by one."""
        with self._life, self._lock:
            self._users += 1
            self._ending = False

    def leave(self) -> None:
        """One `Table` object that wrote rows is closed; the last one closes the writers."""
        with self._life:
            with self._lock:
                self._users -= 1
                last = self._users == 0
            if last:
                self.close()
                return
        self.flush()

    def close(self) -> None:
        """Flush, sync, and refuse further writes; reads go on. What cannot be flushed stays in the log."""
        with self._life, self._holding:
            self._close()

    def _close(self) -> None:
        with self._lock:
            writers = dict(self._regions)
        try:
            for writer in writers.values():
                writer.rotate()
            for writer in writers.values():
                self._flush_all(writer)
        except NotFound:
            pass  # the table was dropped; should it be brought back, its log is still there
        finally:
            self._ending = True
            self._work.set()
            self._merge_due.set()
            for thread in (self._thread, self._merger):
                if thread is not None and thread is not threading.current_thread():
                    thread.join()
            with self._lock:
                for writer in self._regions.values():
                    writer.close()
                self._regions.clear()
                self._sole = None
                self._thread = self._merger = None


def keyed_table(context: Context, table_id: UUID) -> KeyedTable | None:
    """The keyed table of this id that all of this process shares; None for an event table."""
    found = context.keyed.get(table_id)
    if found is None:
        if not context.catalog.table_by_id(table_id).schema.identifier_field_ids:
            return None
        found = context.keyed.setdefault(table_id, KeyedTable(context, table_id))
    return found


def _broken(error: Exception) -> MoulinError:
    return Unavailable(f"What was put cannot be flushed ({error}); it is in the log. Mend the cause, or reopen.")


def runs(batches: Iterable[pa.RecordBatch], limit: int) -> Iterator[pa.Table]:
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= limit:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if held:
        yield pa.Table.from_batches(held)
