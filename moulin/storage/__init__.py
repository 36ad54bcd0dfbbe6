"""Where a lake's bytes live: object stores and folders behind one `Store`, and every file name in `paths`."""

from __future__ import annotations

from moulin.storage.store import ObjectInfo, Store, open_store

__all__ = ["ObjectInfo", "Store", "open_store"]
