"""Resolves the arguments of `moulin.connect` to catalog address, storage and configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from moulin.config import Config, load_config
from moulin.errors import InvalidInput
from moulin.storage import paths
from moulin.storage.cache import open_cached, with_cache
from moulin.storage.read_only import ReadOnlyStore
from moulin.storage.store import Store, open_store


def locate(
    uri: str, storage: str | None, options: Mapping[str, str] | None, settings: Mapping[str, Any] | None
) -> tuple[str, Store, Config]:
    """Resolves the arguments of `moulin.connect` to catalog address, storage and configuration."""
    if uri.startswith(("postgresql://", "postgres://", "postgresql+psycopg://")):
        if storage is None:
            raise InvalidInput("A lake on PostgreSQL needs storage=, a folder or an object store for its files.")
        config = load_config(**settings or {})
        return uri.replace("postgres://", "postgresql://", 1), open_cached(storage, options, config), config
    if "://" in uri and not uri.startswith("file://"):
        raise InvalidInput(
            f"{uri.split('://')[0]}:// is not a valid address of a lake: use a folder, or postgresql:// with storage=."
        )
    folder = open_store(uri)
    catalog_file = folder.local_path(paths.catalog_file())
    assert catalog_file is not None
    config = load_config(catalog_file.parent, **settings or {})
    return f"sqlite:///{catalog_file}", open_cached(storage, options, config) if storage else folder, config


def locate_replica(
    uri: str, options: Mapping[str, str] | None, settings: Mapping[str, Any] | None
) -> tuple[Store, Config]:
    """Read-only storage and configuration of a lake that is read from its manifests."""
    if uri.startswith(("postgresql://", "postgres://", "postgresql+psycopg://", "grpc://")):
        raise InvalidInput(
            "Open a read-only lake by the address of its storage. If you can reach its catalog, open the lake, "
            "then use table(name, read_only=True)."
        )
    remote = "://" in uri and not uri.startswith("file://")
    marker = None if remote else open_store(uri, options, create=False).local_path(paths.marker())
    config = load_config(marker.parent if marker else None, **settings or {})
    return with_cache(ReadOnlyStore(open_store(uri, options, create=False)), config), config


__all__ = ["locate", "locate_replica"]
