"""Logs that other processes left: flushed by the first reader, or read where they cannot be claimed."""

# Decisions: docs/decisions/0293

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Sequence
from uuid import UUID

from moulin.errors import Corrupt, FailedPrecondition, Fenced, Unavailable
from moulin.model.entities import Region
from moulin.table.context import Context
from moulin.table.keyed.claim import check_left
from moulin.table.keyed.holder import RegionHolder
from moulin.table.keyed.left_logs import LeftLog, left_logs, read_tail

LOOK_SECONDS = 30.0  # how often a reading process looks for newly abandoned logs


class _Patience:
    """Timeout for other processes: until their regions have not changed for some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._known: Sequence[Region] = ()
        self._until = time.monotonic() + seconds

    def look(self, regions: Sequence[Region]) -> None:
        """Note how the regions are now."""
        if regions != self._known:
            self._known, self._until = regions, time.monotonic() + self._seconds

    @property
    def is_over(self) -> bool:
        return time.monotonic() > self._until


class LogSettler(RegionHolder):
    """A keyed table that settles abandoned logs before it is read. Thread-safe."""

    def __init__(self, context: Context, table_id: UUID) -> None:
        super().__init__(context, table_id)
        self._holding = threading.RLock()  # one change that is not a put at a time; taken before `_flushing`
        self._look_at = 0.0  # when to look for abandoned logs
        self._held_up: dict[int, Region] = {}  # regions whose logs others hold without progress

    def ready(self) -> None:
        """Before the first read, and regularly: flush abandoned logs, or read them."""
        if time.monotonic() < self._look_at:
            return
        if self._holding.acquire(blocking=self._look_at == 0.0):  # later looks do not wait for a change under way
            try:
                if time.monotonic() >= self._look_at:
                    self.settle()
            finally:
                self._holding.release()

    def committed(self) -> None:
        """Before a read of versions alone: as `ready`, but what was left must be in a version.

        Unavailable while another process holds a log that was left, and flushes nothing of it.
        """
        looked = self._look_at
        self.ready()
        if self._missed() and self._look_at == looked:  # known from an earlier look
            self.settle()
        for region in self._missed():
            raise Unavailable(
                f"Rows of {self._seen.state.full_name} are in no version yet: {region.owner} has taken over the log of "
                f"region {region.number} and flushes nothing of it since {self._context.config.lock_seconds:g} s "
                "(lock_seconds). Wait for that process or stop it; get and scan show the rows."
            )

    def _missed(self) -> list[Region]:
        """Regions that are held up and whose rows are in no version yet."""
        if not self._held_up:
            return []
        self.refresh()
        waiting = {tail.region.number for tail in self._tails}
        return [region for number, region in sorted(self._held_up.items()) if number in waiting]

    def settle(self, *, take_over: bool = False) -> None:
        """Claim and flush every log without a running owner; read those whose owner may be running, or claim them
        too.
        """
        with self._holding:
            mine = {writer.region.number for writer in list(self._regions.values())}
            patience, again = _Patience(self._context.config.lock_seconds), True
            while again:  # while others settle the same logs
                again, left = False, self._left(mine, patience)
                if left or self._tails:
                    with self._flushing, self._lock:
                        again = self._settle(left, take_over=take_over, late=patience.is_over)
            self._look_at = time.monotonic() + LOOK_SECONDS

    def _left(self, mine: Collection[int], patience: _Patience) -> list[LeftLog]:
        """The logs that were left; waits while another process flushes one, as long as something comes of it."""
        while True:
            regions = self._context.catalog.regions(self.id)
            left = left_logs(self._context, self.id, self.config, regions, mine)
            changing = [log.region for log in left if log.is_changing]
            patience.look(changing)
            if patience.is_over or not changing:
                return left
            time.sleep(0.02)

    def _settle(self, left: Sequence[LeftLog], *, take_over: bool, late: bool) -> bool:
        """Flush or read these logs; whether another process took one of them, so that they must be looked at again.

        When it is `late` for that, logs in the hands of others are read: no row may be missing.
        REQUIRES: `_holding`, `_flushing` and `_lock` are held, so that nobody here claims one.
        """
        may_write, unread, taken = self._context.catalog.may_write, [], False
        held_up = {log.region.number: log.region for log in left if log.is_changing}
        for log in left:
            free = may_write and not log.is_changing and (log.is_dead or take_over)
            try:
                if not (free and self._flush_left(log.region)):
                    unread.append(log)
            except Fenced:
                taken = not late
                if late:
                    unread.append(log)
                    held_up[log.region.number] = log.region
        known = {tail.region.number: tail for tail in self._tails}
        seen = self._load()
        self._show(seen)
        self._lookup.forget_rows()
        tails = []
        for log in unread:
            tail = known.get(log.region.number)
            if tail is not None and tail.region.epoch == log.region.epoch:
                tails.append(tail.beyond(log.region.covered, seen.state))  # its owner lives, if it went on
            elif (tail := read_tail(log, seen.state)) is not None:
                tails.append(tail)
        self._tails = tuple(tail for tail in tails if len(tail))
        self._held_up = held_up if may_write else {}
        return taken

    def _flush_left(self, region: Region) -> bool:
        """Claim and flush a log that was left; False when it can only be read, for want of a folder to write to.

        Raises Fenced when another process was faster.
        """
        # do not interfere with that process
        if self._context.catalog.region_epoch(self.id, region.number) != region.epoch:
            raise Fenced(f"Another process has claimed region {region.number} of the table: check again.")
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
        """Discard the rows of missing or truncated logs; returns the numbers of their regions."""
        catalog, lost = self._context.catalog, []
        for region in catalog.regions(self.id):
            for log in left_logs(self._context, self.id, self.config, [region]):
                try:
                    check_left(log.reader, region, log.reader.firsts())
                except Corrupt:
                    claimed = catalog.claim_region(self.id, region.number, "")
                    lost.append(claimed.number)
        return lost

    def flush(self, *, take_over: bool = False) -> int:
        """Commit everything written so far, and what others left in their logs; returns the newest version.

        With `take_over` also logs in a store whose owners may live on another machine: those are fenced.
        """
        self.settle(take_over=take_over)
        return self.flush_own()
