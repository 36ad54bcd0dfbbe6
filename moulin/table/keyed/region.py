"""The writer of one region of a keyed table: log, memtables, and the order of what goes in.

A write is appended to the log and put into the memtable under one lock, so the memtables hold what the log does, in its
order. A full memtable becomes immutable and waits for its flush.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa

from moulin.errors import Closed, Conflict, FailedPrecondition, InvalidInput, MoulinError, Unavailable
from moulin.formats import log_entry
from moulin.model.entities import Region, TableState
from moulin.model.filling import unwritable
from moulin.model.key.key import Key
from moulin.model.operations import RegionUse
from moulin.model.rows.record import NATIVE, RecordType
from moulin.model.rows.rows import to_batches
from moulin.table.keyed.log.log import Log
from moulin.table.keyed.memtable import ENTRY_BYTES, Memtable, Moment
from moulin.table.keyed.replay import replay

if TYPE_CHECKING:
    from moulin.config import Config

_encode = msgspec.msgpack.Encoder(uuid_format="bytes").encode
_SLOWED = 0.1  # seconds that a writer waits, at most, while it is not stopped
_CLOSED = "The table was closed; open it again with lake.table(...)."
_LOOK_CLOSER = (msgspec.MsgspecError, TypeError, ValueError, OverflowError)


class Stalls:
    """How long writers were held up, and why."""

    def __init__(self) -> None:
        self.slowed = 0
        self.stopped = 0
        self.seconds = 0.0
        self.longest = 0.0

    def note(self, seconds: float, *, stopped: bool) -> None:
        self.seconds += seconds
        self.longest = max(self.longest, seconds)
        if stopped:
            self.stopped += 1
        else:
            self.slowed += 1


class RegionWriter:
    """Writes of one region, by the one process that holds its claim. Thread-safe.

    `wake` is called when a memtable waits for its flush; `level0` tells how many level-0 segments the region has;
    `refresh` looks for a newer schema, and calls `use` if there is one.
    """

    def __init__(
        self,
        region: Region,
        state: TableState,
        log: Log,
        config: Config,
        *,
        sync: str,
        wake: Callable[[], None],
        level0: Callable[[], int],
        refresh: Callable[[], object],
    ) -> None:
        self.region = region
        self.covered = region.covered
        self.stalls = Stalls()
        self.lock = threading.RLock()
        self._room = threading.Condition(self.lock)
        self._log, self._config, self._wake, self._level0, self._refresh = log, config, wake, level0, refresh
        self._always = sync == "always"
        self._limit = config.memtable_bytes
        self._keeps = config.memtable_columns == "on"
        self._failure: MoulinError | None = None
        self._closed = False
        self._paused = 0
        self._pauser = 0  # the thread that paused writes last
        self._crowded = False  # flushes or compactions do not keep up: the next writer waits
        self._blocked = False  # closed, failed, paused or stalled: checked before every write
        entries = log.replay(self.covered)
        # The newest first, which is the one being written.
        self.memtables: tuple[Memtable, ...] = replay(entries, state, self.covered, self._limit, region.number)
        self._use(state)

    # State

    def use(self, state: TableState) -> None:
        """Take rows of this schema from now on."""
        with self.lock:
            if state.schema_id != self._schema_id:
                self._use(state)

    def _use(self, state: TableState) -> None:
        key = Key.of(state.schema)
        assert key is not None
        self._schema_id, self._key = state.schema_id, key
        self._record = RecordType(state.schema)
        self._key_of = itemgetter(*(self._record.names.index(name) for name in key.names))
        self._start()
        self._filling = tuple(unwritable(state.properties, state.schema))
        fast = self._record.is_fast and not self._filling
        self.put: Callable[[Any], None] = self._make_put() if fast else self._put_slowly

    def _start(self) -> None:
        """Begin a new memtable; an empty one gives way to it."""
        older = tuple(table for table in self.memtables if len(table))
        self._active = Memtable(self._record, self._key, self.memtables[0].reached, self._limit)
        self.memtables = (self._active, *older)
        for memtable in self.memtables:
            memtable.columns.keeps = self._keeps

    # Writes

    def _make_put(self) -> Callable[[Any], None]:
        """`put` for rows of the present schema, with everything it needs at hand: it is called for every single row."""
        record, key_of, always = self._record, self._key_of, self._always
        head = log_entry.row_head(self._schema_id, self.region.epoch)
        lock, append, commit = self.lock, self._log.append, self._log.commit
        struct, convert, astuple = record.struct, msgspec.convert, msgspec.structs.astuple
        finish = None if record.is_simple else record.finish

        def put(row: Any) -> None:
            try:
                values = astuple(convert(row, struct, builtin_types=NATIVE))
                if finish is not None:
                    values = finish(values)
                body = _encode(values)
            except _LOOK_CLOSER:
                found = _checked(record, row)
                if found is None:
                    self._put_slowly(row)
                    return
                values, body = found
            with lock:
                if self._blocked:
                    self._wait()
                active = self._active
                if active.record is record:
                    position = active.reached = append(head + body)
                    number, key = len(active.written), key_of(values)
                    active.written.append(values)
                    before = active.rows.setdefault(key, number)
                    if before != number:
                        active.replaced.append(before)
                        active.rows[key] = number
                    active.size += len(body) + ENTRY_BYTES
            if active.record is not record:  # the schema has changed
                self.put(row)
                return
            if always:
                commit(position)
            if active.size > active.room:
                self._make_room()

        return put

    def _put_slowly(self, row: Any) -> None:
        if not isinstance(row, dict):
            try:
                row = dict(row)
            except (TypeError, ValueError):
                raise InvalidInput(f"put needs a row as a dict, not {type(row).__name__}.") from None
        self.put_rows([row], look_closer=True)

    def put_rows(self, rows: Sequence[Any], *, look_closer: bool = False) -> None:
        """Several rows, all or none."""
        record = self._record
        fast = record.is_simple and not look_closer and not self._filling
        checked = record.check_all(rows) if fast else None
        if checked is None:
            try:
                batches = list(to_batches(rows, record.schema))
            except InvalidInput:
                self._refresh()  # another process may have changed the schema
                if self._closed:
                    raise Closed(_CLOSED) from None  # and the schema that this writer knows may be an earlier one
                if self._record is record:
                    raise
                self.put_rows(rows, look_closer=look_closer)
                return
            self.put_batches(batches, record.schema.schema_id)
        elif checked:
            payload = log_entry.encode_rows(record.schema.schema_id, checked, self.region.epoch)
            with self.lock:
                position = self._append([payload], record)
                if position:
                    self._active.put_rows(list(map(self._key_of, checked)), checked, len(payload))
            if not position:
                self.put_rows(rows)
                return
            self._acknowledge(position)

    def put_batches(self, batches: Sequence[pa.RecordBatch], schema_id: int) -> None:
        """Rows of Arrow batches in the schema of this id, all or none: one entry of the log."""
        whole = pa.Table.from_batches(batches).combine_chunks().to_batches() if len(batches) > 1 else list(batches)
        parts = [b.slice(at, log_entry.MAX_ROWS) for b in whole for at in range(0, b.num_rows, log_entry.MAX_ROWS)]
        if not parts:
            return
        self._refuse_filling(parts)
        record, key = self._record, self._key
        position = 0
        if record.schema.schema_id == schema_id:
            payloads = [log_entry.encode_row_batch(schema_id, part, self.region.epoch) for part in parts]
            keys = [key.values(part) for part in parts]
            with self.lock:
                position = self._append(payloads, record)
                if position:
                    for part, values in zip(parts, keys, strict=True):
                        self._active.put_batch(values, part)
        if not position:
            raise Conflict("The schema of the table changed during the put: retry.")
        self._acknowledge(position)

    def _refuse_filling(self, parts: Sequence[pa.RecordBatch]) -> None:
        """Reject writes to a column that is being filled."""
        for name in self._filling:
            if any(part.column(name).null_count < part.num_rows for part in parts if name in part.schema.names):
                raise FailedPrecondition(
                    f"Column {name} is being filled and cannot be written yet: omit it, or wait until it is complete."
                )

    def delete(self, keys: Sequence[Any]) -> None:
        """Keys, as `Key.check` gives them."""
        if not keys:
            return
        record, key = self._record, self._key
        tuples = [(value,) for value in keys] if len(key.fields) == 1 else list(keys)
        payload = log_entry.encode_keys(record.schema.schema_id, tuples, self.region.epoch)
        with self.lock:
            position = self._append([payload], record)
            if position:
                self._active.delete(keys)
        if not position:
            self.delete(keys)
            return
        self._acknowledge(position)

    def _append(self, payloads: Sequence[bytes], record: RecordType) -> int:
        """The position of the last entry; 0 when the schema changed, and nothing was done. REQUIRES: lock is held."""
        if self._blocked:
            self._wait()
        if self._active.record is not record:
            return 0
        position = self._log.append(payloads[0]) if len(payloads) == 1 else self._log.append_many(payloads)
        self._active.reached = position
        return position

    def _acknowledge(self, position: int) -> None:
        self._log.commit(position)
        if self._active.size > self._active.room:
            self._make_room()

    @property
    def is_empty(self) -> bool:
        """Whether everything that was written is in segments."""
        return not any(map(len, self.memtables))

    @property
    def is_crowded(self) -> bool:
        """Whether writers wait for flushes or compactions."""
        return self._crowded

    # Reads

    def find(self, key: Any) -> tuple[Memtable, int] | None:
        """The memtable with the newest write of a key that is not in segments, and the number of that write."""
        for memtable in self.memtables:
            number = memtable.rows.get(key)
            if number is not None:
                return memtable, number
        return None

    def moments(self) -> list[Moment]:
        """The memtables not yet in segments, newest first. REQUIRES: lock is held."""
        return [memtable.moment() for memtable in self.memtables if len(memtable)]

    # Flushing

    def rotate(self) -> None:
        """Queue the current memtable for its flush."""
        with self._room:
            if len(self._active):
                self._start()
                self.look_for_room()

    def look_for_room(self) -> None:
        """Make the next writer wait if flushes or compactions do not keep up. Called when a memtable is started."""
        with self._room:
            self._crowded = self._pressure() > 0
            self._change()

    def oldest(self) -> Memtable | None:
        """What is to be flushed next."""
        with self.lock:
            waiting = [memtable for memtable in self.memtables[1:] if len(memtable)]
            return waiting[-1] if waiting else None

    def use_for(self, reached: int) -> RegionUse:
        """The region's part of a commit."""
        return RegionUse(self.region.number, self.region.epoch, self.covered, reached)

    def flushed(self, memtable: Memtable) -> None:
        """What `memtable` holds is in segments. Called while readers are being moved to them."""
        with self._room:
            self.covered = memtable.reached
            self.memtables = tuple(table for table in self.memtables if table is not memtable)
            self._failure = None
            self._change()

    def make_durable(self, position: int) -> None:
        """Sync the log up to the position about to be in segments.

        Not needed for a log with other sync modes, or a dead one.
        """
        if self._always:
            with suppress(MoulinError):
                self._log.commit(position)

    def trim(self) -> None:
        self._log.trim(self.covered)

    def shed(self) -> None:
        """Delete every log entry, all of which are in segments. REQUIRES: writes are paused."""
        self._log.shed()
        self._log.trim(self.covered)

    def sync(self) -> None:
        """Make what was written so far as durable as the log can, without waiting for its flush."""
        self._log.commit(self._log.last)

    def fail(self, error: MoulinError) -> None:
        """A flush failed permanently, or writers have waited for it too long."""
        with self._room:
            self._failure = error
            self._change()

    def close(self) -> None:
        """Reject further writes and close the log. Written rows stay readable."""
        with self._room:
            if self._closed:
                return
            self._closed = True
            self._change()
        self._log.close()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Writes wait until the block ends."""
        with self._room:
            self._paused += 1
            self._pauser = threading.get_ident()
            self._change()
        try:
            yield
        finally:
            with self._room:
                self._paused -= 1
                self._change()

    def _change(self) -> None:
        """REQUIRES: lock is held."""
        self._blocked = self._closed or self._failure is not None or self._paused > 0 or self._crowded
        self._room.notify_all()

    def _wait(self) -> None:
        """Wait while writes are paused; raise if they are rejected. REQUIRES: lock is held."""
        while self._blocked:
            if self._closed:
                raise Closed(_CLOSED)
            if self._failure is not None:
                raise self._failure
            if self._paused:
                if self._pauser == threading.get_ident():
                    raise FailedPrecondition(
                        "The table is being changed by this thread, in a transaction or in a call that reads from "
                        "this generator: put rows through tx.table(...).append, or afterwards."
                    )
                self._room.wait()
            else:
                self._hold_up()

    def _make_room(self) -> None:
        """Start a new memtable. The next writer waits when flushes or compactions do not keep pace."""
        with self._room:
            if self._active.size <= self._active.room:
                return
            self._start()
            self.look_for_room()
        self._wake()

    def _pressure(self) -> float:
        """How far flushes and compactions are behind: above 0 writers wait a little, from 1 on until it is less.

        A memtable that waits counts as the level-0 segment that it will be.
        """
        config, waiting = self._config, len(self.memtables) - 1
        return max(
            _share(waiting, config.memtable_slowdown, config.memtable_stop),
            _share(waiting + self._level0(), config.level0_slowdown, config.level0_stop),
        )

    def _hold_up(self) -> None:
        """Wait as long as the queue and level 0 ask for: a little at first, then until there is room.

        Nothing of the write was done yet, so an error means that it did not happen. REQUIRES: lock is held.
        """
        begun, stopped = time.monotonic(), False
        try:
            while self._crowded and not self._closed and self._failure is None and not self._paused:
                pressure = self._pressure()
                if pressure < 1:
                    self._crowded = False
                    self._change()
                    if pressure > 0 and not stopped:
                        self._room.wait(pressure * _SLOWED)
                    return
                stopped = True
                if time.monotonic() - begun > self._config.stall_seconds:
                    raise Unavailable(
                        f"The table cannot keep up: {len(self.memtables) - 1} memtables are waiting and level 0 has "
                        f"{self._level0()} segments; nothing was written. Write more slowly, run compact(), or raise "
                        "memtable_stop and level0_stop."
                    )
                self._room.wait(0.05)
        finally:
            self.stalls.note(time.monotonic() - begun, stopped=stopped)


def _checked(record: RecordType, row: Any) -> tuple[tuple[Any, ...], bytes] | None:
    """The values of a row, and their bytes; None when it must be looked at more closely."""
    values = record.check(row)
    with suppress(*_LOOK_CLOSER):
        return None if values is None else (values, _encode(values))
    return None


def _share(number: int, slowdown: int, stop: int) -> float:
    """How far a number is on its way from where it slows writers down to where it stops them."""
    return 1.0 if number >= stop else (number - slowdown + 1) / (stop - slowdown + 1) if number >= slowdown else 0.0
