"""A keyed table in this process: writes by key, the regions it holds, flushes and merges in the background.

What can be read of it, and how readers come to see what was flushed, is in `keyed_reader`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from typing import Any
from uuid import UUID

import pyarrow as pa

from moulin.errors import (
    Closed,
    Conflict,
    Corrupt,
    FailedPrecondition,
    Fenced,
    InvalidInput,
    MoulinError,
    NotFound,
    Unavailable,
)
from moulin.model.entities import Region
from moulin.model.operations import RegionUse
from moulin.model.rows.rows import to_batches
from moulin.model.schema.arrow import arrow_schema
from moulin.table.commit.change import after_commit
from moulin.table.compact.compaction import compact
from moulin.table.context import Context
from moulin.table.keyed.claim import check_left, claim_region
from moulin.table.keyed.counters import Counters, StallStats, WriterStats
from moulin.table.keyed.left_logs import LeftLog, left_logs, read_tail
from moulin.table.keyed.memtable import Memtable, to_schema
from moulin.table.keyed.reader import KeyedReader, View
from moulin.table.keyed.region import RegionWriter
from moulin.table.properties import effective
from moulin.table.write.upsert import UpsertDraft, delete_keys, newest, put_rows
from moulin.table.write.writes import number_source

_RETRY = 0.2
LOOK_SECONDS = 30.0  # how often a process that goes on reading looks for logs that were left since


class KeyedTable(KeyedReader):
    """One keyed table. Thread-safe; one per table and process, shared by all `Table` objects."""

    def __init__(self, context: Context, table_id: UUID) -> None:
        super().__init__(context, table_id)
        self._flushing = threading.RLock()  # one flush at a time; taken before `_lock`
        self._holding = threading.RLock()  # one change that is not a put at a time; taken before `_flushing`
        self._life = threading.RLock()  # held to open and to close for writing; taken first
        self._users = 0
        self._look_at = 0.0  # when to look for logs that were left
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
            writer = self._claim(self._context.catalog.region(self.id, value))
            self._regions[value] = writer
            if not self.spec.is_split:
                self._sole = writer
            self._tails = tuple(tail for tail in self._tails if tail.region.number != writer.region.number)
            self._show(self._load())
            writer.look_for_room()
            if writer.is_crowded:
                self._merge_due.set()
            if self._thread is None:
                self._thread = threading.Thread(target=self._flush_loop, name="moulin-flush", daemon=True)
                self._thread.start()
            if self._merger is None and self.config.merge_background == "on":
                self._merger = threading.Thread(target=self._merge_loop, name="moulin-merge", daemon=True)
                self._merger.start()
            if writer.oldest() is not None:
                self._work.set()
            return writer

    def _claim(self, region: Region, *, flushing: bool = False) -> RegionWriter:
        return claim_region(
            self._context,
            self.id,
            region,
            self.config,
            wake=self._work.set,
            level0=lambda: sum(s.facts.level == 0 for s in self._view.of_region(region.number)),
            refresh=self.refresh,
            flushing=flushing,
        )

    def _end(self, writer: RegionWriter) -> None:
        """Close a writer. One that leaves nothing in its log says so, and nobody need look at it."""
        writer.close()
        if writer.is_empty:
            with suppress(MoulinError):  # whoever comes next finds that out
                self._context.catalog.release_region(self.id, writer.region.number, writer.region.epoch)

    # Logs that were left

    def ready(self) -> None:
        """Before the first read, and now and then: flush what others left in their logs, or read it."""
        if time.monotonic() < self._look_at:
            return
        if self._holding.acquire(blocking=self._look_at == 0.0):  # later looks do not wait for a change under way
            try:
                if time.monotonic() >= self._look_at:
                    self.settle()
            finally:
                self._holding.release()

    def settle(self, *, take_over: bool = False) -> None:
        """Claim and flush every log without a living owner; read those whose owner may live, or claim them too."""
        with self._holding:
            mine = {writer.region.number for writer in list(self._regions.values())}
            deadline = time.monotonic() + self._context.config.lock_seconds
            again = True
            while again:  # while others settle the same logs
                again, left = False, self._left(mine, deadline)
                if left or self._tails:
                    with self._flushing, self._lock:
                        again = self._settle(left, take_over=take_over) and time.monotonic() < deadline
            self._look_at = time.monotonic() + LOOK_SECONDS

    def _left(self, mine: Collection[int], deadline: float) -> list[LeftLog]:
        """The logs that were left; waits for another process that is flushing one, until the deadline."""
        while True:
            regions = self._context.catalog.regions(self.id)
            left = left_logs(self._context, self.id, self.config, regions, mine)
            if time.monotonic() > deadline or not any(log.is_changing for log in left):
                return [log for log in left if not log.is_changing]
            time.sleep(0.02)

    def _settle(self, left: Sequence[LeftLog], *, take_over: bool) -> bool:
        """Flush or read these logs; whether another process took one of them, so that they must be looked at again.

        REQUIRES: `_holding`, `_flushing` and `_lock` are held, so that nobody here claims one.
        """
        may_write, unread, taken = self._context.catalog.may_write, [], False
        for log in left:
            try:
                if not (may_write and (log.is_dead or take_over) and self._flush_left(log.region)):
                    unread.append(log)
            except Fenced:
                taken = True
        known = {tail.region.number: tail for tail in self._tails}
        view = self._load()
        self._show(view)
        self._lookup.forget_rows()
        tails = []
        for log in unread:
            tail = known.get(log.region.number)
            if tail is not None and tail.region.epoch == log.region.epoch:
                tails.append(tail.beyond(log.region.covered, view.state))  # its owner lives, if it went on
            elif (tail := read_tail(log, view.state)) is not None:
                tails.append(tail)
        self._tails = tuple(tail for tail in tails if len(tail))
        return taken

    def _flush_left(self, region: Region) -> bool:
        """Claim and flush a log that was left; False when it can only be read, for want of a folder to write to.

        Raises Fenced when another process was faster.
        """
        try:
            writer = self._claim(region, flushing=True)
        except FailedPrecondition:
            return False
        try:
            writer.rotate()
            while (memtable := writer.oldest()) is not None:
                self._flush_one(writer, memtable)
        finally:
            self._end(writer)
        return True

    def forget_lost_logs(self) -> list[int]:
        """Give up what only logs had that are gone or cut short; returns the numbers of their regions."""
        catalog, lost = self._context.catalog, []
        for region in catalog.regions(self.id):
            for log in left_logs(self._context, self.id, self.config, [region]):
                try:
                    check_left(log.reader, region)
                except Corrupt:
                    claimed = catalog.claim_region(self.id, region.number, "")
                    lost.append(claimed.number)
        return lost

    # Flushes

    def flush(self, *, take_over: bool = False) -> int:
        """Commit everything written so far, and what others left in their logs; returns the newest version.

        With `take_over` also logs in a store whose owners may live on another machine: those are fenced.
        """
        self.settle(take_over=take_over)
        return self.flush_own()

    def flush_own(self) -> int:
        """Commit everything that this process wrote so far; returns the newest version of the table."""
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
        writer.make_durable(memtable.reached)
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
                except (Fenced, NotFound, Corrupt, Closed) as error:
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
                self._end(writer)  # before anybody else in this process can claim it

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
                    number = self._context.catalog.region(self.id, value).number
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
        self.flush_own()

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
                    self._end(writer)
                self._regions.clear()
                self._sole = None
                self._thread = self._merger = None


def keyed_table(context: Context, table_id: UUID) -> KeyedTable | None:
    """The keyed table of this id that all of this process shares; None for an event table."""
    found = open_keyed(context, table_id)
    if found is None:
        if not context.catalog.table_by_id(table_id).schema.identifier_field_ids:
            return None
        context.keyed.setdefault(table_id, KeyedTable(context, table_id))
        found = open_keyed(context, table_id)
    return found


def open_keyed(context: Context, table_id: UUID) -> KeyedTable | None:
    """The keyed table of this id, if this process has used it before."""
    found = context.keyed.get(table_id)
    assert found is None or isinstance(found, KeyedTable)
    return found


def flush_keyed(context: Context) -> None:
    """Commit what this process put, and what others left in the logs of any table, so that other engines see it."""
    if context.catalog.may_write:
        for table_id in context.catalog.claimed_tables():
            if (keyed := open_keyed(context, table_id)) is not None:
                keyed.ready()
            elif time.monotonic() >= context.look_at.get(table_id, 0.0):
                _settle_table(context, table_id)
    for table_id in list(context.keyed):
        if (keyed := open_keyed(context, table_id)) is not None:
            keyed.flush_own()


def _settle_table(context: Context, table_id: UUID) -> None:
    """Flush what was left of a table that this process does not use yet; its segments are looked up only then."""
    try:
        properties = context.catalog.table_by_id(table_id).properties
        regions = context.catalog.regions(table_id)
        if left_logs(context, table_id, effective(context.config, properties), regions):
            keyed = keyed_table(context, table_id)
            assert keyed is not None
            keyed.ready()
    except NotFound:
        return  # dropped meanwhile
    context.look_at[table_id] = time.monotonic() + LOOK_SECONDS


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
