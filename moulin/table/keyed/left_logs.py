"""Abandoned logs: finds acknowledged rows that are in no segment.

A region that was claimed and not released has a writer that lives, or a log that was left. On a disk the lock of the
log tells which. A log in a store has none: there the process that the catalog names is looked for, and where that runs
on another machine nobody knows. Whoever may write claims a log that was left and flushes it; all others, and everybody
where its owner may live, read it into memory, which takes nothing from its owner.
"""

# Decisions: docs/decisions/0170

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from uuid import UUID

from moulin.config import Config
from moulin.errors import Corrupt, MoulinError
from moulin.model.entities import Region, TableState
from moulin.model.region_spec import RegionSpec
from moulin.storage import paths
from moulin.storage.store import Store
from moulin.table.context import Context
from moulin.table.keyed.claim import check_left, log_folder
from moulin.table.keyed.log import owner
from moulin.table.keyed.log.log_reader import LocalLogReader, LogReader, StoreLogReader
from moulin.table.keyed.memtable import Memtable, Moment
from moulin.table.keyed.replay import replay
from moulin.table.properties import effective

log = logging.getLogger(__name__)
_ATTEMPTS = 3  # to read a log that may be claimed or trimmed
_WHOLE = 1 << 62  # one memtable per schema is enough for readers


@dataclass(frozen=True, slots=True)
class LeftLog:
    """A log whose owner was not found alive; `is_dead` when that is beyond doubt.

    One that `is_changing` is in the hands of a process that flushes it, or just claims it.
    """

    region: Region
    reader: LogReader
    is_dead: bool
    is_changing: bool = False


def left_logs(
    context: Context, table_id: UUID, config: Config, regions: Sequence[Region], mine: Collection[int] = ()
) -> list[LeftLog]:
    """The abandoned logs of these regions, except those that are `mine`."""
    if not context.catalog.knows_claims:
        return list(_found(context, table_id, config, regions))
    claimed = [region for region in regions if region.owner and region.number not in mine]
    logs = (_left(context, table_id, config, region) for region in claimed)
    return [log for log in logs if log is not None]


def _left(context: Context, table_id: UUID, config: Config, region: Region) -> LeftLog | None:
    folder = log_folder(context, table_id, region.number, config)
    if folder is None:
        alive = owner.is_alive(region.owner)
        reader = StoreLogReader(context.store, table_id, region.number)
        if alive:
            return LeftLog(region, reader, False, True) if owner.is_flushing(region.owner) else None
        return LeftLog(region, reader, alive is False)
    log = LocalLogReader(folder, table_id, region.number)
    if log.is_open():
        changing = owner.is_flushing(region.owner) or owner.is_alive(region.owner) is False
        return LeftLog(region, log, False, True) if changing else None
    if not (log.firsts() or owner.is_of_this_host(region.owner)):
        return None  # on the disk of another machine, perhaps
    return LeftLog(region, log, True)


def _found(context: Context, table_id: UUID, config: Config, regions: Sequence[Region]) -> Iterator[LeftLog]:
    """The logs in a storage, by what lies there: manifests name a region only once something of it was flushed."""
    known = {region.number: region for region in regions}
    for number, reader in _readers(context.store, table_id, config):
        is_dead = isinstance(reader, LocalLogReader) and not reader.is_open()
        if is_dead or isinstance(reader, StoreLogReader):
            yield LeftLog(known.get(number, Region(number, (), 0, "", 0, 0)), reader, is_dead)


def _readers(store: Store, table_id: UUID, config: Config) -> Iterator[tuple[int, LogReader]]:
    """Every log of a table in the store or in the log folder, with its region number."""
    top = paths.logs_prefix(table_id)
    stored = {found[1] for info in store.list(top) if (found := paths.parse_log_object(info.path))}
    for number in sorted(stored):
        yield number, StoreLogReader(store, table_id, number)
    folder = Path(config.log_folder) / top if config.log_folder else store.local_path(top)
    names = os.listdir(folder) if folder is not None and folder.is_dir() else []
    for number in sorted(int(name) for name in names if name.isdecimal()):
        assert folder is not None
        reader = LocalLogReader(folder / str(number), table_id, number)
        if reader.firsts():
            yield number, reader


def regions_in_logs(store: Store, config: Config, state: TableState) -> list[Region]:
    """The regions of a keyed table by the logs that can be reached: for a recovery, as manifests know a region only
    once something of it was flushed. A log that holds nothing, or cannot be read, tells nothing."""
    spec = RegionSpec.of(state.schema, state.properties)
    found = []
    for number, reader in _readers(store, state.id, effective(config, state.properties)):
        if number <= spec.after:
            continue  # it was empty when the keys were divided otherwise
        firsts = reader.firsts()
        try:
            key = None if not spec.is_split else _first_key(reader, firsts, state)
        except (MoulinError, KeyError) as error:
            log.warning("a log was skipped: %s", error, extra={"table": str(state.id), "region": number})
            continue
        if spec.is_split is (key is not None) and (spec.sole == ()) is (number == 0):
            value = spec.value_of(key)
            found.append(Region(number, value, 0, "", firsts[0] - 1, 0))
    return found


def _first_key(reader: LogReader, firsts: Sequence[int], state: TableState) -> Any:
    """The first key that a log has a write of; None when it has none."""
    for entry in reader.entries(firsts, firsts[0] - 1):
        for memtable in replay([entry], state, 0, _WHOLE, 0):
            for key in memtable.rows:
                return key
    return None


class Tail:
    """An immutable in-memory copy of the rows in an abandoned log beyond the segments of a version."""

    def __init__(self, region: Region, entries: Sequence[tuple[int, bytes]], state: TableState) -> None:
        self.region, self._entries = region, entries
        self._memtables: tuple[Memtable, ...] = replay(entries, state, region.covered, _WHOLE, region.number)

    def __len__(self) -> int:
        return len(self._entries)

    def find(self, key: Any) -> tuple[Memtable, int] | None:
        """The memtable with the newest write of a key, and the number of that write."""
        for memtable in self._memtables:
            number = memtable.rows.get(key)
            if number is not None:
                return memtable, number
        return None

    def moments(self) -> list[Moment]:
        """What it holds, the newest first."""
        return [memtable.moment() for memtable in self._memtables if len(memtable)]

    def beyond(self, covered: int, state: TableState) -> Tail:
        """The part of it that is not in segments when those have all up to this position."""
        if covered <= self.region.covered:
            return self
        rest = [entry for entry in self._entries if entry[0] > covered]
        return Tail(replace(self.region, covered=covered), rest, state)


def read_tail(left: LeftLog, state: TableState) -> Tail | None:
    """The rows of an abandoned log that are in no segment of `state`; None if there are none, or it is unknown.

    REQUIRES: the region was looked up before `state`. A log that was trimmed beyond the region's position since, or
    that has rows of a later schema, belongs to a later version.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        firsts = left.reader.firsts()
        try:
            if owner.is_of_this_host(left.region.owner):
                check_left(left.reader, left.region, firsts)
            if not firsts or firsts[0] > left.region.covered + 1:
                return None
            tail = Tail(left.region, list(left.reader.entries(firsts, left.region.covered)), state)
            return tail if len(tail) else None
        except KeyError:
            return None
        except Corrupt:
            if attempt == _ATTEMPTS or left.reader.firsts() == firsts:
                raise
    return None
