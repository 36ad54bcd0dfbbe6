"""Claims of regions: the log where it lies, its lock and epoch, and the writer that has them."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path
from uuid import UUID

from moulin.config import Config
from moulin.errors import InvalidInput
from moulin.storage import paths
from moulin.table.context import Context
from moulin.table.local_log import LocalLog, lock_folder
from moulin.table.log import Log
from moulin.table.region import RegionWriter
from moulin.table.store_log import StoreLog

_SYNC = ("always", "interval", "never")


def claim_region(
    context: Context,
    table_id: UUID,
    number: int,
    config: Config,
    *,
    wake: Callable[[], None],
    level0: Callable[[], int],
    refresh: Callable[[], object],
) -> RegionWriter:
    """The writer of a region, with what its log holds. Raises its epoch; Fenced where another process has the log.

    `wake`, `level0` and `refresh` are those of the writer.
    """
    if config.log_sync not in _SYNC:
        raise InvalidInput(f"log_sync is one of {', '.join(_SYNC)}, not {config.log_sync!r}.")
    catalog = context.catalog
    owner = f"process {os.getpid()} on {socket.gethostname()}"
    folder = _log_folder(context, table_id, number, config)
    log: Log
    if folder is None:
        region = catalog.claim_region(table_id, number, owner)
        log = StoreLog(
            context.store,
            table_id,
            number,
            region.epoch,
            lambda: catalog.region_epoch(table_id, number),
            covered=region.covered,
        )
    else:
        lock = lock_folder(folder)
        try:
            region = catalog.claim_region(table_id, number, owner)
        except BaseException:
            os.close(lock)
            raise
        log = LocalLog(
            folder,
            table_id,
            number,
            region.epoch,
            sync=config.log_sync,  # type: ignore[arg-type]
            interval_seconds=config.log_interval,
            file_bytes=config.log_file_bytes,
            covered=region.covered,
            lock=lock,
        )
    try:
        state = catalog.table_by_id(table_id)
        return RegionWriter(region, state, log, config, sync=config.log_sync, wake=wake, level0=level0, refresh=refresh)
    except BaseException:
        log.close()
        raise


def _log_folder(context: Context, table_id: UUID, number: int, config: Config) -> Path | None:
    """Where the log of a region lies on this machine; None when it lies in the store."""
    prefix = paths.log_prefix(table_id, number)
    if config.log_folder == "store":
        return None
    if config.log_folder:
        return Path(config.log_folder) / prefix
    return context.store.local_path(prefix)
