"""Claims of regions: the log where it lies, its lock and epoch, and the writer that has them."""

# Decisions: docs/decisions/0171

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from uuid import UUID

from moulin.config import Config
from moulin.errors import Corrupt, InvalidInput
from moulin.model.entities import Region
from moulin.storage import paths
from moulin.table.context import Context
from moulin.table.keyed.log import owner
from moulin.table.keyed.log.local_log import LocalLog, begin_local_log, lock_folder
from moulin.table.keyed.log.log import Log
from moulin.table.keyed.log.log_reader import LocalLogReader, LogReader, StoreLogReader
from moulin.table.keyed.log.store_log import StoreLog, begin_store_log
from moulin.table.keyed.region import RegionWriter

_SYNC = ("always", "interval", "never")


def claim_region(
    context: Context,
    table_id: UUID,
    found: Region,
    config: Config,
    *,
    wake: Callable[[], None],
    level0: Callable[[], int],
    refresh: Callable[[], object],
    flushing: bool = False,
) -> RegionWriter:
    """Claim a region and return its writer, with the rows of its log. Increments the epoch; raises Fenced if another
    process has the log.

    `found` is the region as it was before. A log that must be there and is not is Corrupt, and nothing is claimed; one
    that may be missing is begun before the claim, so that a claimed region always has one. `wake`, `level0` and
    `refresh` are those of the writer; one that is `flushing` gives the region up at once.
    """
    if config.log_sync not in _SYNC:
        raise InvalidInput(f"log_sync must be one of {', '.join(_SYNC)}, not {config.log_sync!r}.")
    name = owner.this_process(config.log_sync, flushing=flushing)
    folder = log_folder(context, table_id, found.number, config)
    if folder is None:
        region, log = _claim_in_store(context, table_id, found, name)
    else:
        region, log = _claim_on_disk(context, table_id, found, name, config, folder)
    try:
        state = context.catalog.table_by_id(table_id)
        return RegionWriter(region, state, log, config, sync=config.log_sync, wake=wake, level0=level0, refresh=refresh)
    except BaseException:
        log.close()
        raise


def _claim_in_store(context: Context, table_id: UUID, found: Region, name: str) -> tuple[Region, Log]:
    catalog, number = context.catalog, found.number
    reader = StoreLogReader(context.store, table_id, number)
    firsts = reader.firsts()
    check_left(reader, found, firsts)
    if not owner.is_named(found.owner) and not firsts:
        begin_store_log(context.store, table_id, number, found.epoch, found.covered)
    region = catalog.claim_region(table_id, number, name)
    epoch = lambda: catalog.region_epoch(table_id, number)  # noqa: E731
    return region, StoreLog(context.store, table_id, number, region.epoch, epoch, covered=region.covered, known=firsts)


def _claim_on_disk(
    context: Context, table_id: UUID, found: Region, name: str, config: Config, folder: Path
) -> tuple[Region, Log]:
    lock = lock_folder(folder)
    try:
        reader = LocalLogReader(folder, table_id, found.number)
        firsts = reader.firsts()
        check_left(reader, found, firsts)
        if not owner.is_named(found.owner) and not firsts:
            begin_local_log(folder, table_id, found.number, found.epoch, found.covered)
        region = context.catalog.claim_region(table_id, found.number, name)
    except BaseException:
        os.close(lock)
        raise
    return region, LocalLog(
        folder,
        table_id,
        found.number,
        region.epoch,
        sync=config.log_sync,  # type: ignore[arg-type]
        interval_seconds=config.log_interval,
        file_bytes=config.log_file_bytes,
        covered=region.covered,
        lock=lock,
    )


def check_left(reader: LogReader, found: Region, firsts: Sequence[int]) -> None:
    """Check that the log of a claimed region exists, and reaches the covered position.

    A log that does not sync with every write may end before, after a power cut. `firsts` are those of the reader.
    """
    if not owner.is_named(found.owner):
        return
    if not firsts:
        raise Corrupt(
            f"The log {reader.name} is missing, but {found.owner} did not flush all its puts: restore its files from "
            f"a copy, or set log_folder to their folder. Table.forget_lost_logs() discards those rows."
        )
    if owner.syncs_always(found.owner) and (last := reader.last(firsts)) < found.covered:
        raise Corrupt(
            f"The log {reader.name} ends at position {last}, but segments have rows up to {found.covered}: it was "
            "truncated. Restore its files from a copy, or discard the missing rows with Table.forget_lost_logs()."
        )


def log_folder(context: Context, table_id: UUID, number: int, config: Config) -> Path | None:
    """The folder of a region's log on this machine; None if it is in the store."""
    prefix = paths.log_prefix(table_id, number)
    if config.log_folder == "store":
        return None
    if config.log_folder:
        return Path(config.log_folder) / prefix
    return context.store.local_path(prefix)
