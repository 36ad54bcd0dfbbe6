"""LakeHandle: holds the catalog and the storage of a lake until `close`."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Self
from uuid import UUID

from moulin.catalog.backend import CatalogBackend, TokenBackend
from moulin.catalog.catalog import Catalog, own_catalog
from moulin.config import Config
from moulin.errors import Closed, FailedPrecondition
from moulin.model.names import parse_table_name
from moulin.storage.address import with_branch
from moulin.storage.bases import BasesStore
from moulin.storage.store import Store

if TYPE_CHECKING:
    from moulin.table.context import Context
    from moulin.table.ports import Duck, Exporter, Spark
    from moulin.table.trial import Expectations


class LakeHandle:
    """The base class of all parts of `Lake`."""

    def __init__(
        self,
        catalog: CatalogBackend,
        store: Store,
        uri: str,
        make_spark: Callable[[Any], Spark] | None = None,
        make_exporter: Callable[[Any], Exporter] | None = None,
        make_duck: Callable[[Any], Duck] | None = None,
    ) -> None:
        self.uri = uri
        self.on_branch: str | None = None
        self.read_only = catalog.is_replica
        self.store = store
        self.catalog = catalog
        self._make_spark = make_spark
        self._make_exporter = make_exporter
        self._make_duck = make_duck
        self._duck: Duck | None = None
        self._closed = False
        self._branches: dict[str, Self] = {}
        self._opened_by: Self | None = None
        self._expected: Expectations | None = None
        self._context: Context | None = None
        self._lines: list[Context] = []  # of main and its branches, as far as they were made
        self._lock = threading.Lock()  # for `_closed` and `_context`

    def refresh(self) -> int:
        """Move to the newest version, and return it. Only replicas need this: other lakes always show the newest
        version.

        >>> lake.refresh() == lake.version
        True
        """
        return self._open_catalog().refresh()

    def write_manifests(self, *tables: str) -> int:
        """Write full manifests of tables, or of every table and of the lake; return their version.

        Recovery and replicas start from the newest full manifests, so they read fewer deltas afterwards. The lake
        writes them automatically when there are many deltas, so you do not need to call this.

        >>> lake.write_manifests("shop.orders") == lake.version
        True
        """
        return self._open_catalog().write_manifests([self._resolve(name) for name in tables])

    def own_catalog(self) -> Catalog:
        """The catalog itself, for clean-up, checks, mirrors and servers, which need direct access."""
        return own_catalog(self._open_catalog())

    @property
    def context(self) -> Context:
        """The shared context of this lake's tables, created with the first table."""
        return self._context or self._make_context()

    @property
    def config(self) -> Config:
        return self.catalog.config

    @property
    def version(self) -> int:
        """The newest version of the lake.

        >>> before = lake.version
        >>> _ = lake.create_database("crm")
        >>> lake.version - before
        1
        """
        return self._open_catalog().version()

    @property
    def tokens(self) -> TokenBackend:
        """Ingest tokens.

        >>> [token.name for token in lake.tokens.tokens("shop")]
        []
        """
        return self._open_catalog().ingest

    def flush(self) -> None:
        """Commit put rows of keyed tables, and rows in logs of dead writers, so that other engines see them.

        All tables are flushed, even if one fails; then the first error is raised.

        >>> users = lake.create_table("shop.users", [("name", "string", False), ("age", "int")], primary_key=["name"])
        >>> users.put({"name": "ann", "age": 41})
        >>> lake.flush()
        >>> users.at(version=lake.version).get("ann")
        {'name': 'ann', 'age': 41}
        """
        for error in self._flush().values():
            raise error

    def _flush(self) -> Mapping[UUID, Exception]:
        catalog = self._open_catalog()
        if self._context is None and not (catalog.may_write and catalog.claimed_tables()):
            return {}  # nothing to flush
        from moulin.table.keyed.tables import flush_keyed

        return flush_keyed(self.context)

    def close(self) -> None:
        """Flush keyed tables, write waiting manifests and close the catalog. A Spark session stays open.

        >>> lake.close()
        >>> lake.version
        Traceback (most recent call last):
        moulin.errors.Closed: The lake was closed; connect again.
        """
        with self._lock:
            if self._closed:
                return
            self._closed = True
        try:
            for branch in list(self._branches.values()):
                branch.close()
            if self._duck is not None:
                self._duck.close()
            if self._context is not None:
                self._context.close()
                if isinstance(self.store, BasesStore) and self.on_branch is None:
                    self.store.known()  # Spark tasks may still be created from it
        finally:
            self.catalog.close()
            if self._opened_by is not None:
                self._opened_by.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Lake({self.store.uri if self.on_branch is None else with_branch(self.store.uri, self.on_branch)!r})"

    def _open_catalog(self) -> CatalogBackend:
        if self._closed:
            raise Closed("The lake was closed; connect again.")
        return self.catalog

    def _main_catalog(self) -> CatalogBackend:
        """The catalog, for operations that are only possible on main."""
        if self.on_branch is not None:
            raise FailedPrecondition(
                f"This lake is the branch {self.on_branch!r}: create, open and drop branches on the main lake."
            )
        return self._open_catalog()

    def _make_context(self) -> Context:
        from moulin.table.context import Context

        with self._lock:
            if self._context is None:
                self._context = Context(
                    self._open_catalog(),
                    self.store,
                    None if self._make_spark is None else partial(self._make_spark, self),
                    None if self._make_exporter is None else self._make_exporter(self),
                    lines=self._lines,
                )
            return self._context

    def _resolve(self, name: str) -> UUID:
        return self._open_catalog().table(*parse_table_name(name)).id


__all__ = ["LakeHandle"]
