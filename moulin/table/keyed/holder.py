"""The regions of a keyed table that this process holds: claimed, flushed and released."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from functools import partial
from uuid import UUID

from moulin.errors import Closed, Fenced, InvalidInput, MoulinError
from moulin.model.entities import Region
from moulin.table.commit.retry import retry
from moulin.table.context import Context
from moulin.table.keyed.background import Background
from moulin.table.keyed.claim import claim_region
from moulin.table.keyed.counters import Counters, StallStats, WriterStats
from moulin.table.keyed.divided import Divided
from moulin.table.keyed.flush_lock import FlushLock
from moulin.table.keyed.memtable import Memtable, to_schema
from moulin.table.keyed.reader import KeyedReader
from moulin.table.keyed.region import RegionWriter
from moulin.table.write.upsert import UpsertDraft, delete_keys, put_rows
from moulin.table.write.writes import number_source


class RegionHolder(KeyedReader):
    """A keyed table with the regions that this process writes. Thread-safe."""

    def __init__(self, context: Context, table_id: UUID) -> None:
        super().__init__(context, table_id)
        self._flushing = FlushLock()  # one flush of a region at a time; taken before `_lock`
        self._users = 0
        self._may_claim = threading.Event()  # cleared while regions are released for another process
        self._may_claim.set()
        self._background = Background(lambda: list(self._regions.values()), self._flush_ready, self._compact)

    def _writer(self, value: tuple[bytes | None, ...]) -> RegionWriter:
        """The writer of a region, claimed when it is first written."""
        writer = self._regions.get(value)
        return writer if writer is not None else self._open(value)

    def _open(self, value: tuple[bytes | None, ...]) -> RegionWriter:
        self._may_claim.wait()
        with self._lock:
            writer = self._regions.get(value)
            if writer is not None:
                return writer
            if self._background.ending:
                raise Closed("The table was closed; open it again with lake.table(...).")
            self.refresh()
            if not self.spec.owns(value):
                raise self._divided()
            region = None
            try:
                region = self._context.catalog.region(self.id, value)
                writer = self._claim(region)
            except (Fenced, InvalidInput) as error:
                self.refresh()
                if not self.spec.owns(value) or self._is_another(region, value):
                    raise self._divided() from error
                raise
            self._regions[value] = writer
            if not self.spec.is_split:
                self._sole = writer
            self._tails = tuple(tail for tail in self._tails if tail.region.number != writer.region.number)
            self._show(self._load())
            writer.look_for_room()
            if writer.is_crowded:
                self._background.compact_soon()
            tick = min(1.0, self.config.log_interval) if self.config.log_sync == "interval" else 1.0
            compacts = self.config.merge_background == "on"
            self._background.start(tick, compacts=compacts, threads=self.config.flush_threads)
            if writer.oldest() is not None:
                self._background.wake()
            return writer

    def _is_another(self, region: Region | None, value: tuple[bytes | None, ...]) -> bool:
        """Whether keys have another region than before: an erase made a region without rows lose its value."""
        return region is not None and self._context.catalog.region(self.id, value).number != region.number

    def _divided(self) -> Divided:
        return Divided(f"The regions of {self._seen.state.full_name} changed during the write: retry.")

    def _claim(self, region: Region, *, flushing: bool = False) -> RegionWriter:
        return claim_region(
            self._context,
            self.id,
            region,
            self.config,
            wake=self._background.wake,
            level0=lambda: self._level0(region.number),
            refresh=self.refresh,
            flushing=flushing,
        )

    def _level0(self, number: int) -> int:
        """Level-0 segments of a region. Adopted files do not count."""
        mine = (s.facts for s in self._seen.segments if s.facts.region == number)
        return sum(facts.level == 0 and facts.adopted is None for facts in mine)

    def _end(self, writer: RegionWriter) -> None:
        """Close a writer. If its log is empty, release the region, so that its log is not read."""
        writer.close()
        if writer.is_empty:
            with suppress(MoulinError):  # the next process detects that
                self._context.catalog.release_region(self.id, writer.region.number, writer.region.epoch)

    def _patiently(self, value: tuple[bytes | None, ...]) -> RegionWriter:
        """Claim a region, waiting a while for another process to release it."""
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

    # Flushes

    def flush_own(self) -> int:
        """Flush all writes of this process; returns the newest version of the table."""
        for writer in list(self._regions.values()):
            writer.rotate()
        self._background.each(self._flush_all, list(self._regions.values()), self.config.flush_threads)
        return self._seen.state.head_version

    def _flush_all(self, writer: RegionWriter) -> None:
        while (memtable := writer.oldest()) is not None:
            with self._flushing.of(writer.region.number):
                if writer.oldest() is memtable:
                    self._flush_one(writer, memtable)

    def _flush_one(self, writer: RegionWriter, memtable: Memtable) -> None:
        # Segments that it read may be removed: trimmed, or emptied by a process that claimed the region. Computed
        # again, the first succeeds and the second is fenced.
        version = retry(self._context.config.commit_attempts, lambda: self._commit_memtable(writer, memtable))
        with self._lock:
            self._show(self._load())
            self._lookup.forget(memtable.rows)
            writer.flushed(memtable)
        # If the catalog is lost, the log must still have rows that are in no manifest.
        if self._context.catalog.published_version() >= version:
            writer.trim()
        self._background.compact_soon()

    def _commit_memtable(self, writer: RegionWriter, memtable: Memtable) -> int:
        seen = self.refresh()
        state, number = seen.state, writer.region.number
        segments = seen.of_region(number)
        rows, deleted = memtable.contents()
        rows = to_schema(rows, memtable.record.schema, state.schema)
        draft = UpsertDraft()
        numbers = number_source(self._context)
        put_rows(self._context, state, draft, segments, rows, numbers, region=number, level=0)
        if deleted:
            delete_keys(self._context, draft, segments, memtable.key, memtable.key.to_table(deleted))
        writer.make_durable(memtable.reached)
        use = writer.use_for(memtable.reached)
        change = draft.change(state, [use])
        # A request id, so that a commit with a lost response is not repeated.
        request = f"flush:{self.id}:{number}:{use.epoch}:{use.reached}"
        return self._context.committer.commit([change], request_id=request).version

    def _flush_ready(self, writer: RegionWriter) -> None:
        """Background work for a region: flush, and sync its log if due."""
        self._flush_all(writer)
        if self.config.log_sync == "interval":
            writer.sync()
        if writer.is_crowded:
            self.refresh()  # another process may have compacted

    def _compact(self) -> bool:
        """Run due compactions; returns whether there were any."""
        from moulin.table.compact.compaction import compact

        load = partial(self._context.catalog.table_by_id, self.id)
        done = compact(self._context, load, due_only=True, stopped=lambda: self._background.ending)
        if done.merges:
            self.refresh()
        return done.merges > 0

    def counters(self) -> Counters:
        """The counters of this process for the table."""
        writers = {}
        for writer in list(self._regions.values()):
            stalls, memtables = writer.stalls, writer.memtables
            writers[writer.region.number] = WriterStats(
                sum(memtable.size for memtable in memtables),
                max(memtable.reached for memtable in memtables),
                StallStats(stalls.slowed + stalls.stopped, stalls.seconds, stalls.longest),
            )
        return Counters(self.cache_use(), writers)
