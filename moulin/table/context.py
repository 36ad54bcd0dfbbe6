"""What tables of one lake share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from moulin.catalog.catalog import Catalog
from moulin.config import Config
from moulin.storage.store import Store
from moulin.table.change import Committer
from moulin.table.tasks import LocalRunner, TaskRunner
from moulin.table.vectors import VectorCache


@dataclass(slots=True)
class Context:
    """Catalog, storage and caches of a lake. `spark_runner` gives a runner when a Spark session is at hand, else None."""

    catalog: Catalog
    store: Store
    spark_runner: Callable[[], TaskRunner | None] = lambda: None
    vectors: VectorCache = field(default_factory=VectorCache)
    committer: Committer = field(init=False)

    def __post_init__(self) -> None:
        self.committer = Committer(self.catalog, self.store, self.vectors)

    @property
    def config(self) -> Config:
        return self.catalog.config

    def runner(self, size: int) -> TaskRunner:
        """Spark for work of some size when it is at hand, else this process."""
        runner = self.spark_runner() if size >= self.config.merge_local_bytes else None
        return runner or LocalRunner()
