"""The newest projection of each table against the Iceberg specification."""

from __future__ import annotations

from collections.abc import Iterator

from moulin.catalog.catalog import Catalog
from moulin.catalog.objects import projections
from moulin.catalog.upkeep.check import Finding
from moulin.iceberg.check.checker import check
from moulin.iceberg.check.metadata_files import Files


def check_projections(catalog: Catalog) -> Iterator[Finding]:
    """Metadata, manifest list and manifests are read. `moulin.catalog.upkeep.check` looks for the other files in use.

    Snapshots before the current one may be listed although clean-up has removed their files.
    """
    files = Files(catalog.store)
    for path in projections.newest(catalog.pool):
        for found in check(catalog.store.location(path), files, data=False):
            yield Finding(found.rule, found.where, found.found)
