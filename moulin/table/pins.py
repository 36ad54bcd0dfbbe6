"""Pins of the readers of one lake in this process: a reader holds its version, and clean-up keeps it.

If the catalog is a file, holds are in the state file of this process (`moulin.catalog.sql.living`): they need no
transaction and end with the process. Otherwise they share rows of the catalog: a pin on a version also keeps all later
ones, so one row per table, on the oldest version being read, is enough. It stays for some seconds after its last
reader. One thread renews the rows while they are held, advances them when the oldest readers are done, and removes them
without readers.
"""

# Decisions: docs/decisions/0175

from __future__ import annotations

import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Any
from uuid import UUID

from moulin.catalog.backend import CatalogBackend
from moulin.catalog.catalog import local_catalog
from moulin.catalog.sql.living import Living, seconds_since_boot
from moulin.errors import MoulinError, NotFound

_IDLE = 5.0  # seconds for which a row stays after its last reader
_RENEWALS = 8  # how often a row is renewed in `pin_seconds`


@dataclass(slots=True, eq=False)
class _Row:
    """A pin in the catalog: its version, last renewal, readers, and since when it has none."""

    table_id: UUID
    id: UUID
    version: int
    renewed: float
    readers: Counter[int] = field(default_factory=Counter)
    idle_since: float | None = None
    lost: str | None = None


class Hold:
    """A hold on a version of a table. Ends with its block, with `release`, or when it is garbage collected."""

    def __init__(self, check: Callable[[bool], None], release: Callable[..., None], *arguments: Any) -> None:
        self._check = check
        self._end = weakref.finalize(self, release, *arguments)
        self._end.atexit = False

    def check(self, *, ask: bool = False) -> None:
        """Raise NotFound when the pin was lost, because this process did not run for too long.

        The catalog is asked with `ask`, or when the pin may have run out by now.
        """
        self._check(ask)

    def release(self) -> None:
        self._end()

    def detach(self) -> Callable[[], None] | None:
        """A function that releases it; None if it is already released."""
        found = self._end.detach()
        return None if found is None else lambda: found[1](*found[2])

    def __enter__(self) -> Hold:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


class Pins:
    """Holds of one lake. Thread-safe. A forked child has none of its parent's."""

    def __init__(self, catalog: CatalogBackend) -> None:
        self._catalog, self._seconds = catalog, catalog.config.pin_seconds
        self._binds = not catalog.is_replica
        local = local_catalog(catalog)
        self._living: Living | None = None if local is None else local.pool.living
        self._rows: dict[UUID, _Row] = {}
        self._later: list[tuple[float, Callable[[], None]]] = []
        self._forget()
        _ALL.add(self)
        if local is not None:
            local.idle_pins.append(partial(_release_idle, weakref.ref(self)))

    def _forget(self) -> None:
        # A generator that holds a version may be finalized in the middle of a change here, by the same thread.
        self._lock = threading.RLock()
        self._changed = threading.Event()  # the thread has something to see to
        self._rows.clear()
        self._later.clear()
        self._thread: threading.Thread | None = None

    def hold(self, table_id: UUID, version: int, *, check: bool = True) -> Hold:
        """Keep a version of a table from clean-up, as long as the hold lives; NotFound when it is not kept any more.

        A caller that asks the catalog for the segments afterwards gets that error then, and need not `check`.
        """
        if not self._binds:
            return Hold(_nothing, _nothing)
        if self._living is not None:
            self._living.pin(table_id, version)
            hold = Hold(_nothing, self._living.unpin, table_id, version)
            if check:
                self._catalog.table_by_id(table_id, version)
            return hold
        with self._lock:
            row = self._row(table_id, version)
            row.readers[version] += 1
            row.idle_since = None
        return Hold(lambda ask: self._check(row, ask), self._release, row, version)

    def release_later(self, hold: Hold) -> None:
        """Release a hold `pin_seconds` from now: readers that this process does not know of may still need it."""
        release = hold.detach()
        if release is not None:
            with self._lock:
                self._later.append((seconds_since_boot() + self._seconds, release))
                self._wake()

    def close(self) -> None:
        """Remove the rows; what is still held is no longer kept."""
        with self._lock:
            rows = list(self._rows.values())
            self._rows.clear()
            self._later.clear()
            thread, self._thread = self._thread, None
            self._changed.set()
        for row in rows:
            self._unpin(row.id)
        if thread is not None and thread is not threading.current_thread():
            thread.join()

    def _row(self, table_id: UUID, version: int) -> _Row:
        """The row of a table, on that version or an older one. REQUIRES: lock is held."""
        row = self._rows.get(table_id)
        if row is not None and not self._is_sure(row):
            self._renew(row)
            row = self._rows.get(table_id)
        if row is None:
            now = seconds_since_boot()
            row = self._rows[table_id] = _Row(table_id, self._catalog.pin(table_id, version), version, now)
            self._wake()
        elif row.version > version:
            self._move(row, version)
        return row

    def _move(self, row: _Row, version: int) -> None:
        now, before = seconds_since_boot(), row.id
        row.id, row.version, row.renewed = self._catalog.pin(row.table_id, version), version, now
        self._unpin(before)

    def _is_sure(self, row: _Row) -> bool:
        """Whether a row cannot have run out yet, with time to spare."""
        return seconds_since_boot() - row.renewed < self._seconds / 2

    def _check(self, row: _Row, ask: bool) -> None:
        if row.lost is None and (ask or not self._is_sure(row)):
            with self._lock:
                self._renew(row)
        if row.lost is not None:
            raise NotFound(f"What was being read has been cleaned up: {row.lost} Read it again.")

    def _renew(self, row: _Row) -> None:
        """Renew a row, or note that it is lost. REQUIRES: lock is held."""
        now = seconds_since_boot()
        try:
            self._catalog.renew_pin(row.id)
            row.renewed = now
        except NotFound as error:
            row.lost = error.message
            if self._rows.get(row.table_id) is row:
                del self._rows[row.table_id]

    def _release(self, row: _Row, version: int) -> None:
        with self._lock:
            row.readers[version] -= 1
            if not row.readers[version]:
                del row.readers[version]
            if not row.readers:
                row.idle_since = seconds_since_boot()

    def _release_idle(self) -> None:
        """Remove the rows that nobody reads by."""
        for row in list(self._rows.values()):
            self._remove(row)

    def _remove(self, row: _Row) -> None:
        """Remove a row, unless somebody reads by it."""
        with self._lock:
            if row.idle_since is None or self._rows.get(row.table_id) is not row:
                return
            del self._rows[row.table_id]
        self._unpin(row.id)

    def _unpin(self, pin_id: UUID) -> None:
        with suppress(MoulinError):  # otherwise it expires
            self._catalog.unpin(pin_id)

    def _wake(self) -> None:
        """Wake the thread. REQUIRES: lock is held."""
        if self._thread is None or not self._thread.is_alive():
            self._thread = threading.Thread(target=_tend, args=(weakref.ref(self),), name="moulin-pins", daemon=True)
            self._thread.start()
        self._changed.set()

    def _step(self) -> float | None:
        """Do what is due; returns for how long to wait, None when nothing is left to do."""
        with self._lock:
            now = seconds_since_boot()
            due = [release for at, release in self._later if at <= now]
            self._later = [one for one in self._later if one[0] > now]
            idle = [row for row in self._rows.values() if row.idle_since is not None and row.idle_since + _IDLE <= now]
        for release in due:
            release()
        for row in idle:
            self._remove(row)
        for row in list(self._rows.values()):
            with self._lock, suppress(MoulinError):  # retried soon; `check` reports lasting errors
                self._keep(row)
        with self._lock:
            if self._thread is not threading.current_thread():
                return None  # closed
            if not self._rows and not self._later:
                self._thread = None
                return None
            until_later = [max(self._later[0][0] - seconds_since_boot(), 0.01)] if self._later else []
            return min([*until_later, *([_IDLE, self._seconds / _RENEWALS] if self._rows else [])])

    def _keep(self, row: _Row) -> None:
        """Renew a row whose time has come, on the oldest version that is still read. REQUIRES: lock is held."""
        if row.lost is not None or not row.readers or seconds_since_boot() - row.renewed < self._seconds / _RENEWALS:
            return
        oldest = min(row.readers)
        if oldest > row.version:
            self._move(row, oldest)
        else:
            self._renew(row)


_ALL: weakref.WeakSet[Pins] = weakref.WeakSet()


def _nothing(*_: object) -> None:
    """For catalogs on which pins have no effect."""


def _release_idle(reference: weakref.ref[Pins]) -> None:
    pins = reference()
    if pins is not None:
        pins._release_idle()


def _tend(reference: weakref.ref[Pins]) -> None:
    """The thread: ends when there is nothing to keep, or when the lake is garbage collected."""
    while (pins := reference()) is not None and pins._thread is threading.current_thread():
        changed = pins._changed
        changed.clear()  # before the step: what changes during it ends the wait
        pause = pins._step()
        del pins
        if pause is None:
            return
        changed.wait(pause)


def _after_fork() -> None:
    for pins in list(_ALL):
        pins._forget()


os.register_at_fork(after_in_child=_after_fork)
