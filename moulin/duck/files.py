"""Objects of a store as files that DuckDB reads: through Moulin, with its credentials and caches, in ranges."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fsspec.spec import AbstractFileSystem

from moulin.storage.store import Store

PROTOCOL = "moulin"


class LakeFiles(AbstractFileSystem):  # type: ignore[misc] # fsspec has no types
    """What DuckDB asks of a file system, for reading alone. Objects of a lake never change."""

    protocol = PROTOCOL
    cachable = False

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        return self._store.reader(_name(path))

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        found = self._store.head(_name(path))
        return {"name": path, "size": found.size, "type": "file"}

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(0, UTC)


def address(path: str) -> str:
    """The address of an object for DuckDB."""
    return f"{PROTOCOL}://{path}"


def _name(path: str) -> str:
    return path.removeprefix(f"{PROTOCOL}://")
