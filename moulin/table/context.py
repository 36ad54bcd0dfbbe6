"""The shared context of the tables of one lake."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol
from uuid import UUID

from moulin.catalog.backend import CatalogBackend
from moulin.catalog.catalog import Catalog, own_catalog
from moulin.config import Config
from moulin.errors import Closed, FailedPrecondition
from moulin.storage.bases import BasesStore
from moulin.storage.store import Store
from moulin.storage.table_store import TableStore
from moulin.table.commit.committer import Committer
from moulin.table.commit.vectors import VectorCache
from moulin.table.find.index_files import SecondaryIndexes
from moulin.table.find.locate import KeyIndexes
from moulin.table.pins import Pins
from moulin.table.ports import Exporter, Spark
from moulin.table.runner import LocalRunner, TaskRunner, WatchedRunner


class OpenTable(Protocol):
    """A keyed table that this process has open; `moulin.table.keyed` has the class."""

    def close(self) -> None:
        """Flush, and refuse further writes."""


@dataclass(slots=True)
class InlineAppends:
    """Numbers of inline segments that this process appended and did not compact; `waits`: its last attempt failed."""

    numbers: list[int] = field(default_factory=list)
    waits: bool = False


@dataclass(slots=True)
class Context:
    """Catalog, storage and caches of a lake, and its ports to Spark and Iceberg, if it was given any.

    `make_spark` is called when Spark is first needed. With `starts_spark`, large work starts a session; without it,
    large work runs on Spark only if a session exists. `keyed` and `look_at` belong to `moulin.table.keyed.tables`.
    `lines` has those of main and of its branches that are open here, this one among them.
    """

    catalog: CatalogBackend
    store: Store
    make_spark: Callable[[], Spark] | None = None
    exporter: Exporter | None = None
    starts_spark: bool = False
    vectors: VectorCache = field(default_factory=VectorCache)
    keyed: dict[UUID, OpenTable] = field(default_factory=dict)
    look_at: dict[UUID, float] = field(default_factory=dict)  # when to look at the logs of a table not in `keyed`
    inline: dict[UUID, InlineAppends] = field(default_factory=dict)  # see `moulin.table.compact.inline`
    lines: list[Context] = field(default_factory=list)
    committer: Committer = field(init=False)
    indexes: KeyIndexes = field(init=False)
    secondary: SecondaryIndexes = field(init=False)
    pins: Pins = field(init=False)
    _bases: BasesStore | None = field(default=None, init=False)
    _spark: Spark | None = field(default=None, init=False)
    on_slice: Callable[[int, int], None] | None = field(default=None, init=False)
    _closed: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self.lines.append(self)
        self.pins = Pins(self.catalog)
        self._bases = self.store if isinstance(self.store, BasesStore) else None
        self.store = TableStore(self.store)
        self.committer = Committer(self.catalog, self.store, self.vectors)
        self.indexes = KeyIndexes(self.store, self.config.key_cache_bytes)
        self.secondary = SecondaryIndexes(self.store, self.config.key_cache_bytes)

    def own_catalog(self) -> Catalog:
        """The catalog itself, for clean-up, checks, mirrors and servers, which need direct access."""
        return own_catalog(self.catalog)

    @property
    def bases(self) -> BasesStore:
        """The storage of the lake with its base paths."""
        if self._bases is None:
            raise FailedPrecondition("This lake was opened without base paths; open it with moulin.connect.")
        return self._bases

    @property
    def config(self) -> Config:
        return self.catalog.config

    def spark(self) -> Spark:
        """Spark; FailedPrecondition when the lake was opened without it."""
        if self._closed:
            raise Closed("The lake was closed; connect again.")
        if self._spark is None:
            if self.make_spark is None:
                raise FailedPrecondition("This lake was opened without Spark; open it with moulin.connect.")
            self._spark = self.make_spark()
        return self._spark

    def spark_at_hand(self) -> Spark | None:
        """Spark, if its session has started, or if the lake was opened to start it when there is work."""
        if self.starts_spark:
            return self.spark()
        return None if self._spark is None or self._spark.runner() is None else self._spark

    def runner(self, size: int) -> TaskRunner:
        """Spark for large work if available, else this process. `on_slice` is called for each slice."""
        found = self._runner(size)
        return found if self.on_slice is None else WatchedRunner(found, self.on_slice)

    def _runner(self, size: int) -> TaskRunner:
        if size < self.config.merge_local_bytes:
            return LocalRunner()
        if self.starts_spark:
            self.spark().session()
        return (None if self._spark is None else self._spark.runner()) or LocalRunner()

    def close(self) -> None:
        """Flush and release all tables of this process; then raise the first error."""
        self._closed = True
        failures: list[Exception] = []
        try:
            for table in list(self.keyed.values()):
                try:
                    table.close()
                except Exception as error:  # noqa: BLE001 - whatever it is, the other tables are closed too
                    failures.append(error)
            self.pins.close()
        finally:
            self.lines[:] = [one for one in self.lines if one is not self]
            if self._spark is not None:
                self._spark.close()
        if failures:
            raise failures[0]
