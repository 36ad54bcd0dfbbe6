"""Addresses of objects of the lake, as Iceberg engines spell them."""

from __future__ import annotations

from collections.abc import Callable

from moulin.storage.store import Store


def location(store: Store, path: str) -> str:
    """The address of an object as engines spell it."""
    return store.location(path)


def locator(store: Store) -> Callable[[str], str]:
    """`location` of paths that the catalog knows, for many of them."""
    prefix = location(store, "x").removesuffix("x")
    return lambda path: prefix + path
