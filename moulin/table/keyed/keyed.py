"""A keyed table in this process: writes by key, and changes for which its regions are held.

It is put together from its parts: reader.py reads, holder.py holds and flushes regions, settler.py takes care of logs
that others left.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from functools import partial
from typing import Any, TypeVar
from uuid import UUID

import pyarrow as pa

from moulin.errors import Closed, Conflict, FailedPrecondition, InvalidInput, NotFound, Unavailable
from moulin.model.entities import TableState
from moulin.model.key.key import Key
from moulin.model.operations import RegionUse, SetProperties
from moulin.model.region_spec import PROPERTY as REGIONS
from moulin.model.rows.rows import to_batches
from moulin.model.schema.arrow import arrow_schema
from moulin.model.schema.values import Schema
from moulin.table.commit.change import SettingChange, after_commit
from moulin.table.commit.retry import retry
from moulin.table.context import Context
from moulin.table.keyed.divided import Divided
from moulin.table.keyed.memtable import to_schema
from moulin.table.keyed.region import RegionWriter
from moulin.table.keyed.settler import LogSettler
from moulin.table.keyed.version import KeyedVersion
from moulin.table.write.pieces import pieces
from moulin.table.write.upsert import UpsertDraft, newest, put_rows
from moulin.table.write.writes import number_source

_T = TypeVar("_T")
_DIVIDED = 100  # retries of a write of rows after changes of the regions


class KeyedTable(LogSettler):
    """One keyed table. Thread-safe; one per table and process, shared by all `Table` objects."""

    def __init__(self, context: Context, table_id: UUID) -> None:
        super().__init__(context, table_id)
        self._life = threading.RLock()  # held to open and to close for writing; taken first
        self._reserved = 0  # how often the thread that has `_holding` holds regions for a transaction

    # Writes

    def direct(self) -> KeyedTable | RegionWriter:
        """The object that writes single rows: the region writer itself if there is only one."""
        return self._as_divided(lambda: self if self.spec.sole is None else self._writer(self.spec.sole))

    def put(self, row: Any) -> None:
        """Insert a row, or replace the row with its key."""
        self._as_divided(lambda: self._write(self._value_of_row(row), lambda writer: writer.put(row)))

    def put_batch(self, data: object) -> int:
        """Insert or replace rows: a list of dicts, or Arrow in any form. Each region takes its rows at once."""
        if isinstance(data, list | tuple):
            return self._as_divided(lambda: self._put_batch(data))
        self._as_divided(lambda: self.spec.sole is None or self._writer(self.spec.sole))  # it has the newest schema
        schema = self._seen_now().state.schema
        rows = pa.Table.from_batches(to_batches(data, schema), arrow_schema(schema))
        return self._as_divided(lambda: self._put_rows(rows, schema))

    def _put_batch(self, data: Sequence[Any]) -> int:
        sole = self.spec.sole
        if sole is not None:
            self._write(sole, lambda writer: writer.put_rows(data))
            return len(data)
        schema = self._seen_now().state.schema
        return self._put_rows(pa.Table.from_batches(to_batches(data, schema), arrow_schema(schema)), schema)

    def _put_rows(self, rows: pa.Table, schema: Schema) -> int:
        for value, part in self.spec.split(rows) if rows.num_rows else ():
            batches, schema_id = part.to_batches(), schema.schema_id
            self._write(value, partial(RegionWriter.put_batches, batches=batches, schema_id=schema_id))
        return int(rows.num_rows)

    def delete(self, key: Any) -> None:
        """Delete the row of a key, if there is one."""
        checked = self.key.check(key)
        self._as_divided(lambda: self._delete([checked]))

    def delete_batch(self, keys: Sequence[Any]) -> None:
        """Delete the rows of several keys."""
        checked = [self.key.check(key) for key in keys]
        self._as_divided(lambda: self._delete(checked))

    def _delete(self, keys: Sequence[Any]) -> None:
        grouped: dict[tuple[bytes | None, ...], list[Any]] = {}
        for key in keys:
            grouped.setdefault(self.spec.value_of(key), []).append(key)
        for value, part in grouped.items():
            self._write(value, partial(RegionWriter.delete, keys=part))

    def _as_divided(self, write: Callable[[], _T]) -> _T:
        """Write, and retry while the regions change; rows that were already written count once."""
        for _ in range(_DIVIDED):
            with suppress(Divided):
                return write()
        return write()

    def _write(self, value: tuple[bytes | None, ...], change: Callable[[RegionWriter], object]) -> None:
        """Let the writer of a region apply a change; wait for a region that is temporarily released."""
        for _ in range(_DIVIDED):
            writer = self._writer(value)  # once the table is closed, this raises Closed
            try:
                change(writer)
                return
            except Closed:
                if self._regions.get(value) is writer:
                    raise
        change(self._writer(value))

    def _value_of_row(self, row: Any) -> tuple[bytes | None, ...]:
        sole = self.spec.sole
        if sole is not None:
            return sole
        if not isinstance(row, Mapping):
            raise InvalidInput(f"put needs a row as a dict, not {type(row).__name__}.")
        missing = [name for name in self.key.names if name not in row]
        if missing:
            raise InvalidInput(f"The row lacks the key column {missing[0]}.")
        names = self.key.names
        key = self.key.check(row[names[0]] if len(names) == 1 else tuple(row[name] for name in names))
        return self.spec.value_of(key)

    # Everything that is not a put

    @contextmanager
    def held(
        self,
        values: Sequence[tuple[bytes | None, ...]] | None = None,
        *,
        also: Callable[[], Iterable[tuple[bytes | None, ...]]] = tuple,
        reserved: bool = False,
        may_go: bool = False,
    ) -> Iterator[tuple[KeyedVersion, list[RegionUse]]]:
        """Hold regions, all known ones unless `values` says which: writes wait, all is flushed.

        To all known ones come those that `also` gives. Regions that this process did not write before are claimed, and
        given up afterwards. One that is `reserved` is held while others may call: a change that another one holds up
        for `lock_seconds` is a Conflict, and other changes from this thread are refused until it ends. The change may
        drop the table if it `may_go`.
        """
        with self._alone(reserved), ExitStack() as stack:
            if values is None:
                writers = self._as_divided(lambda: self._hold(self._known(also), stack))
            else:
                writers = self._hold(values, stack)
            for writer in writers:
                stack.enter_context(writer.paused())
            for writer in writers:
                writer.rotate()
                self._flush_all(writer)
            yield self.refresh(), [writer.use_for(writer.covered) for writer in writers]
            with after_commit(), suppress(NotFound) if may_go else nullcontext():
                self.refresh()

    def _known(self, also: Callable[[], Iterable[tuple[bytes | None, ...]]]) -> set[tuple[bytes | None, ...]]:
        """The regions that the table has, and those that `also` gives, as its keys are divided now."""
        self.refresh()
        known = {region.value for region in self._context.catalog.regions(self.id)}
        sole = set() if self.spec.sole is None else {self.spec.sole}
        return {value for value in {*known, *also()} if self.spec.owns(value)} | sole

    def _hold(self, values: Iterable[tuple[bytes | None, ...]], stack: ExitStack) -> list[RegionWriter]:
        """The writers of regions. Those that this process did not write before are given up when `stack` ends."""
        self.refresh()
        self._background.ending = False  # temporary claims are possible after a close too
        writers = []
        for value in sorted(set(values), key=repr):
            borrowed = value not in self._regions
            writers.append(self._patiently(value))
            if borrowed:
                stack.callback(self._give_up, value)
        return writers

    @contextmanager
    def emptied_logs(self) -> Iterator[Sequence[RegionUse]]:
        """Hold all regions: everything is flushed, their logs hold nothing that is in segments, and rows are not kept
        in memory. Fenced when another process has the table open for puts. Afterwards no region is held.
        """
        with self.held() as (_, uses):
            self._context.own_catalog().publisher.publish()  # if the catalog is lost, manifests have the rows
            for writer in list(self._regions.values()):
                writer.shed()
            try:
                yield uses
            finally:  # a region may have lost its value, so the next write asks the catalog
                self._end_held({use.number for use in uses})
        self._lookup.forget_rows()

    @contextmanager
    def given_up(self) -> Iterator[None]:
        """Release all regions for another process: everything is flushed, and puts and changes wait."""
        with self._alone(reserved=False), ExitStack() as stack:
            self._may_claim.clear()
            stack.callback(self._may_claim.set)
            stack.callback(setattr, self._background, "ending", self._background.ending)
            writers = dict(self._regions)
            for writer in writers.values():
                stack.enter_context(writer.paused())
            for writer in writers.values():
                writer.rotate()
                self._flush_all(writer)
                writer.shed()
            self._background.end()
            with self._lock:
                for writer in writers.values():
                    self._end(writer)
                self._regions.clear()
                self._sole = None
            yield
            self._lookup.forget_rows()
            with suppress(NotFound):
                self.refresh()

    def divide(self, fields: str) -> int:
        """Divide the keys by other fields from now on; returns the version. Fenced when another process has the table
        open for puts.

        Logs are emptied before: nobody reads those of earlier regions again. Their writers end while puts wait; what
        waited goes to the new regions. Those are claimed once the manifest of the change is in storage, since their
        logs would mean something else without it.
        """
        attempts = self._context.config.commit_attempts  # a region may have been created since they were listed
        return retry(attempts, lambda: self._divide(fields), again=lambda error: isinstance(error, Conflict))

    def _divide(self, fields: str) -> int:
        with self.held() as (seen, uses):
            held = {use.number for use in uses}
            self._require_published(seen.state.head_version)
            for writer in list(self._regions.values()):
                if writer.region.number in held:
                    writer.shed()
            operation = SetProperties({REGIONS: fields} if fields else {}, () if fields else (REGIONS,))
            change = SettingChange(self.id, seen.state.version, operation, regions=tuple(uses))
            try:
                return self._context.committer.commit([change]).version
            except FailedPrecondition as error:
                if uses:
                    raise
                raise Conflict(f"Table {seen.state.full_name} was first written just now: retry.") from error
            finally:  # in any case, the next write of a region checks the catalog
                self._end_held(held)

    def _end_held(self, numbers: Collection[int]) -> None:
        """Close the writers of regions that are held. Others, which came since, have rows that no segment has."""
        with self._lock:
            ended = {value: one for value, one in self._regions.items() if one.region.number in numbers}
            self._regions = {value: one for value, one in self._regions.items() if value not in ended}
            if self._sole is not None and self._sole.region.number in numbers:
                self._sole = None
            for writer in ended.values():
                self._end(writer)

    def _require_published(self, version: int) -> None:
        """Wait until manifests have all up to a version: should the catalog be lost, logs need not have it."""
        catalog, deadline = self._context.catalog, time.monotonic() + self._context.config.lock_seconds
        while catalog.published_version() < version:
            if time.monotonic() > deadline:
                raise Unavailable(f"The manifest of version {version} is not in storage yet: retry in a moment.")
            with suppress(FailedPrecondition):  # a server does this itself
                self._context.own_catalog().publisher.publish()
            time.sleep(0.02)

    @contextmanager
    def _alone(self, reserved: bool) -> Iterator[None]:
        """Excludes other bulk changes of all threads in the block."""
        seconds = self._context.config.lock_seconds
        if not self._holding.acquire(timeout=seconds if reserved else -1):
            raise Conflict(
                f"Table {self._seen_now().state.full_name} is being changed by another thread, which did not finish "
                f"within {seconds:g} s (lock_seconds). Nothing was changed: retry."
            )
        try:
            if self._reserved and not reserved:
                raise FailedPrecondition(
                    f"Table {self._seen_now().state.full_name} is being changed by a transaction of this thread: "
                    "change it through tx.table(...), or after the transaction."
                )
            self._reserved += reserved
            try:
                yield
            finally:
                self._reserved -= reserved
        finally:
            self._holding.release()

    def upsert(
        self, data: object, commit: Callable[[Any], int], foreseen: TableState | None = None
    ) -> tuple[int, UpsertDraft]:
        """Insert or replace rows in one version, past the log. `commit` commits the change and gives its version.

        Rows are written in the schema of `foreseen`, if given: the state that the same commit makes of the newest one.
        """
        schema = (foreseen or self.refresh().state).schema
        batches: Iterable[pa.RecordBatch] = to_batches(data, schema)
        draft = UpsertDraft()

        def hold() -> tuple[KeyedVersion, list[RegionUse]]:
            nonlocal batches
            if (sole := self.spec.sole) is not None:
                return stack.enter_context(self.held([sole]))
            batches = list(batches)  # which regions to hold is known only when all rows were seen
            return stack.enter_context(self.held(self.regions_of(batches)))

        with ExitStack() as stack:
            seen, uses = self._as_divided(hold)
            numbers, state = number_source(self._context), foreseen or seen.state
            for piece in pieces(batches, schema, self.config.append_segment_bytes):
                rows = to_schema(piece, schema, state.schema)
                for value, part in self.spec.split(newest(Key.of(state.schema) or self.key, rows)):
                    number = self._context.catalog.region(self.id, value).number
                    put_rows(self._context, state, draft, seen.of_region(number), part, numbers, region=number)
                    del part
                del piece, rows
            if not draft.added:
                return seen.state.head_version, draft
            version = commit(draft.change(seen.state, uses))
        return version, draft

    def regions_of(self, batches: Iterable[pa.RecordBatch]) -> list[tuple[bytes | None, ...]]:
        """The regions that rows belong to."""
        return list({value for batch in batches for value, _ in self.spec.split(pa.Table.from_batches([batch]))})

    # Ending

    def enter(self) -> None:
        """Register a `Table` object that writes single rows."""
        with self._life, self._lock:
            self._users += 1
            self._background.ending = False

    def leave(self) -> None:
        """Unregister a `Table` object that wrote rows; the last one closes the writers."""
        with self._life:
            with self._lock:
                self._users -= 1
                last = self._users == 0
            if last:
                self.close()
                return
        self.flush_own()

    def close(self) -> None:
        """Flush, sync, and reject further writes; reads still work. Rows that cannot be flushed stay in the log."""
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
            pass  # the table was dropped; its log is kept in case it is resurrected
        finally:
            self._background.end()
            with self._lock:
                for writer in self._regions.values():
                    self._end(writer)
                self._regions.clear()
                self._sole = None
