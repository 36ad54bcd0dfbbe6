"""Lake: opened by the address of its folder, its database or its storage."""

# Decisions: docs/decisions/0208

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from moulin.catalog.catalog import Catalog
from moulin.catalog.sql.clock import Clock
from moulin.lake.address import locate, locate_replica
from moulin.lake.views import LakeViews
from moulin.model.names import full_name
from moulin.storage.bases import BasesStore, Options

if TYPE_CHECKING:
    from moulin.table.ports import Duck, Exporter, Spark


class Lake(LakeViews):
    """A lake: one catalog and one storage root. Thread-safe; several processes may open the same lake.

    Opening a lake loads only the catalog. The first table loads Arrow and the rest.
    """

    @classmethod
    def open(
        cls,
        uri: str | Path,
        *,
        storage: str | None = None,
        storage_options: Mapping[str, str] | None = None,
        base_options: Options | None = None,
        settings: Mapping[str, Any] | None = None,
        clock: Clock | None = None,
        make_spark: Callable[[Lake], Spark] | None = None,
        make_exporter: Callable[[Lake], Exporter] | None = None,
        make_duck: Callable[[Lake], Duck] | None = None,
    ) -> Lake:
        """Open a lake; see `moulin.connect`."""
        catalog_uri, own, config = locate(str(uri), storage, storage_options, settings)
        store = BasesStore(own, config, base_options)
        catalog = Catalog.open(catalog_uri, store, config, clock=clock)
        store.follow(catalog.bases)
        return cls(catalog, store, str(uri), make_spark, make_exporter, make_duck)

    @classmethod
    def open_replica(
        cls,
        uri: str | Path,
        *,
        storage_options: Mapping[str, str] | None = None,
        base_options: Options | None = None,
        settings: Mapping[str, Any] | None = None,
        make_spark: Callable[[Lake], Spark] | None = None,
        make_exporter: Callable[[Lake], Exporter] | None = None,
        make_duck: Callable[[Lake], Duck] | None = None,
    ) -> Lake:
        """Open a read-only lake from the manifests in storage; see `moulin.connect`."""
        from moulin.catalog.replica import ReplicaCatalog

        own, config = locate_replica(str(uri), storage_options, settings)
        store = BasesStore(own, config, base_options)
        catalog = ReplicaCatalog.from_manifests(store, config)
        store.follow(catalog.bases)
        return cls(catalog, store, str(uri), make_spark, make_exporter, make_duck)

    def _repr_html_(self) -> str:
        """Its tables, for notebooks."""
        from moulin.notebook import MOST_ROWS, html_table

        if self._closed:
            return html_table(f"{self!r}, closed", ["table"], [])
        tables = self.tables()
        rows = [(full_name(one.database, one.name), one.rows, one.segments, one.bytes) for one in tables[:MOST_ROWS]]
        caption = f"{self!r} at version {self.version}"
        return html_table(caption, ["table", "rows", "segments", "bytes"], rows, more=len(tables) - len(rows))


__all__ = ["Lake"]
