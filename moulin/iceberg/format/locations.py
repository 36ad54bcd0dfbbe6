"""Addresses of objects of the lake, in the form that Iceberg engines use."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from uuid import UUID

from moulin.model.entities import TableState
from moulin.model.facts import SegmentFacts
from moulin.model.tags import LOCATION
from moulin.storage import paths
from moulin.storage.store import Store


def location(store: Store, path: str) -> str:
    """The address of an object in the form of engines."""
    return store.location(path)


def table_location(store: Store, state: TableState) -> str:
    """The location of a table in its metadata: chosen by an engine, or its own folder."""
    return state.properties.get(LOCATION) or location(store, paths.table_prefix(state.id))


def locator(store: Store) -> Callable[[str], str]:
    """`location` of paths that the catalog knows, for many of them."""
    prefix, elsewhere = location(store, "x").removesuffix("x"), f"{paths.bases_prefix()}/"
    return lambda path: location(store, path) if path.startswith(elsewhere) else prefix + path


def address(locate: Callable[[str], str], facts: SegmentFacts) -> str:
    """The address of a segment for engines: as written by the engine that wrote the file, or from its path."""
    spelled = "" if facts.adopted is None else facts.adopted.location
    return spelled or locate(facts.path)


def is_here(store: Store, path: str, where: str) -> bool:
    """Whether `where` is the address of an object of this lake, with any form of its scheme."""
    return _plain(where) == _plain(location(store, path))


def made_here(store: Store, table_id: UUID, metadata: Mapping[str, Any]) -> bool:
    """Whether metadata of a table names files at this address of the lake, not at one where it was before."""
    prefix, where = paths.table_prefix(table_id), str(metadata["location"])
    if where.endswith(prefix):
        return is_here(store, prefix, where)
    lists = [str(one["manifest-list"]).rpartition("/")[0] for one in metadata["snapshots"][-1:]]
    return all(is_here(store, paths.metadata_prefix(table_id), one) for one in lists)


def path_in_table(table_id: UUID, where: str) -> str | None:
    """The path of a file of a table, from an address that it had here or where the lake was before.

    None for a file that does not lie in the table's own folder.
    """
    prefix = paths.table_prefix(table_id) + "/"
    return where[where.rindex(prefix) :] if prefix in where else None


def _plain(where: str) -> str:
    return where.replace("s3a://", "s3://", 1)
