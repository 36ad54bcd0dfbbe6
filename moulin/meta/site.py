"""The shared state of servicers."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from moulin.catalog.catalog import Catalog
from moulin.config import Config
from moulin.lake import Lake
from moulin.meta.config import ServeConfig
from moulin.model.ids import new_id
from moulin.storage.store import Store


@dataclass(frozen=True, slots=True)
class Site:
    """The lake being served, and by whom. `boot_id` is another one each time a server starts."""

    lake: Lake
    serve: ServeConfig = field(default_factory=ServeConfig)
    storage_options: Mapping[str, str] = field(default_factory=dict, repr=False)
    boot_id: UUID = field(default_factory=new_id)

    @property
    def catalog(self) -> Catalog:
        return self.lake.own_catalog()

    @property
    def store(self) -> Store:
        return self.lake.store

    @property
    def config(self) -> Config:
        return self.lake.config

    def now(self) -> int:
        """The catalog's clock, Unix nanoseconds: the injected one, or that of its database."""
        pool = self.catalog.pool
        if pool.clock is not None:
            return pool.clock()
        if pool.is_sqlite:
            return time.time_ns()
        with pool.read() as connection:
            return pool.now(connection)
