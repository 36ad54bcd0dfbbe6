"""What tables of one lake share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from uuid import UUID

from moulin.catalog.backend import CatalogBackend
from moulin.config import Config
from moulin.errors import FailedPrecondition
from moulin.model.entities import TableState
from moulin.model.facts import SegmentFacts
from moulin.storage.store import Store
from moulin.table.change import Committer
from moulin.table.locate import KeyIndexes
from moulin.table.tasks import LocalRunner, TaskRunner
from moulin.table.vectors import VectorCache

if TYPE_CHECKING:
    from moulin.table.keyed import KeyedTable


def _no_spark(state: TableState, frame: Any) -> Sequence[SegmentFacts]:
    raise FailedPrecondition("This lake was opened without Spark; to write DataFrames open it with moulin.connect.")


@dataclass(slots=True)
class Context:
    """Catalog, storage and caches of a lake.

    `spark_runner` gives a runner when a Spark session is at hand, else None. `write_frame` writes the rows of a Spark
    DataFrame as segments.
    """

    catalog: CatalogBackend
    store: Store
    spark_runner: Callable[[], TaskRunner | None] = lambda: None
    write_frame: Callable[[TableState, Any], Sequence[SegmentFacts]] = _no_spark
    vectors: VectorCache = field(default_factory=VectorCache)
    keyed: dict[UUID, KeyedTable] = field(default_factory=dict)
    committer: Committer = field(init=False)
    indexes: KeyIndexes = field(init=False)

    def __post_init__(self) -> None:
        self.committer = Committer(self.catalog, self.store, self.vectors)
        self.indexes = KeyIndexes(self.store, self.config.key_cache_bytes)

    @property
    def config(self) -> Config:
        return self.catalog.config

    def flush(self) -> None:
        """Commit what is only in memtables of this process, so that other engines see it."""
        for table in list(self.keyed.values()):
            table.flush()

    def close(self) -> None:
        """Flush and give up what this process writes."""
        for table in list(self.keyed.values()):
            table.close()

    def runner(self, size: int) -> TaskRunner:
        """Spark for work of some size when it is at hand, else this process."""
        runner = self.spark_runner() if size >= self.config.merge_local_bytes else None
        return runner or LocalRunner()
