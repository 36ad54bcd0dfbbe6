"""What tables of one lake share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol
from uuid import UUID

import pyarrow as pa

from moulin.catalog.backend import CatalogBackend
from moulin.catalog.catalog import Catalog
from moulin.config import Config
from moulin.errors import FailedPrecondition, MoulinError
from moulin.model.entities import TableState
from moulin.model.facts import SegmentFacts
from moulin.storage.store import Store
from moulin.storage.table_store import TableStore
from moulin.table.commit.change import Committer
from moulin.table.commit.vectors import VectorCache
from moulin.table.find.locate import KeyIndexes
from moulin.table.find.search import SecondaryIndexes
from moulin.table.pins import Pins
from moulin.table.runner import LocalRunner, TaskRunner

if TYPE_CHECKING:
    from moulin.table.bulk.writer import RegionRun, RunPlan
    from moulin.table.keyed.keyed import KeyedTable


def _no_spark(state: TableState, frame: Any) -> Sequence[SegmentFacts]:
    raise _without_spark()


def _no_frames() -> Frames:
    raise _without_spark()


def _without_spark() -> FailedPrecondition:
    return FailedPrecondition("This lake was opened without Spark; to write DataFrames open it with moulin.connect.")


class Frames(Protocol):
    """Spark DataFrames, as keyed tables see them. `moulin.pipeline` fills this in."""

    def frame_schema(self, frame: Any) -> pa.Schema:
        """The schema in which the rows of a frame come to tasks."""

    def write_runs(self, plan: RunPlan, frame: Any) -> Sequence[RegionRun]:
        """Write the rows of a frame in tasks; what they return, in the order of the tasks. Nothing is committed."""

    def backfill(self, table_id: UUID, path: str, **options: Any) -> Any:
        """Load the files of a folder; see `Table.backfill`."""


def _no_export(context: Context, table_id: UUID, directory: str, **options: Any) -> Any:
    raise FailedPrecondition("This lake was opened without Iceberg; to export tables open it with moulin.connect.")


@dataclass(slots=True)
class Context:
    """Catalog, storage and caches of a lake.

    `spark_runner` gives a runner when a Spark session is at hand, else None. `write_frame` writes the rows of a Spark
    DataFrame as segments; `frames` is for those of keyed tables. `export_iceberg` writes a table as an Iceberg table of
    its own, see `moulin.iceberg.projection.export`.
    """

    catalog: CatalogBackend
    store: Store
    spark_runner: Callable[[], TaskRunner | None] = lambda: None
    write_frame: Callable[[TableState, Any], Sequence[SegmentFacts]] = _no_spark
    frames: Callable[[], Frames] = _no_frames
    export_iceberg: Callable[..., Any] = _no_export
    vectors: VectorCache = field(default_factory=VectorCache)
    keyed: dict[UUID, KeyedTable] = field(default_factory=dict)
    look_at: dict[UUID, float] = field(default_factory=dict)  # when to look at the logs of a table not in `keyed`
    committer: Committer = field(init=False)
    indexes: KeyIndexes = field(init=False)
    secondary: SecondaryIndexes = field(init=False)
    pins: Pins = field(init=False)

    def __post_init__(self) -> None:
        self.pins = Pins(self.catalog)
        self.store = TableStore(self.store)
        self.committer = Committer(self.catalog, self.store, self.vectors)
        self.indexes = KeyIndexes(self.store, self.config.key_cache_bytes)
        self.secondary = SecondaryIndexes(self.store, self.config.key_cache_bytes)

    def own_catalog(self) -> Catalog:
        """The catalog itself, for what must be done where it is: clean-up, checks, mirrors, serving."""
        if not isinstance(self.catalog, Catalog):
            raise FailedPrecondition(
                "This works on the catalog itself, not through a server: open the lake by its folder or database."
            )
        return self.catalog

    @property
    def config(self) -> Config:
        return self.catalog.config

    def flush(self) -> None:
        """Commit what is only in memtables of this process and in logs that were left, so that other engines see it."""
        from moulin.table.keyed.keyed import flush_keyed

        flush_keyed(self)

    def close(self) -> None:
        """Flush and give up what this process writes: all tables, whatever becomes of one; then the first error."""
        failures: list[MoulinError] = []
        for table in list(self.keyed.values()):
            try:
                table.close()
            except MoulinError as error:
                failures.append(error)
        self.pins.close()
        if failures:
            raise failures[0]

    def runner(self, size: int) -> TaskRunner:
        """Spark for work of some size when it is at hand, else this process."""
        runner = self.spark_runner() if size >= self.config.merge_local_bytes else None
        return runner or LocalRunner()
