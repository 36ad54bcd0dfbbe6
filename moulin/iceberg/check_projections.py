"""The newest projection of each table against the Iceberg specification, with all snapshots that it lists."""

from __future__ import annotations

from collections.abc import Iterator

from moulin.catalog import projections
from moulin.catalog.catalog import Catalog
from moulin.catalog.check import Finding
from moulin.iceberg.checker import check
from moulin.iceberg.files import Files


def check_projections(catalog: Catalog) -> Iterator[Finding]:
    """Metadata, manifest lists and manifests are read; `moulin.catalog.check` reads the data files."""
    files = Files(catalog.store)
    for path in projections.newest(catalog.engine):
        for found in check(catalog.store.location(path), files, data=False, every_snapshot=True):
            yield Finding(found.rule, found.where, found.found)
