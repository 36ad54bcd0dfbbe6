"""Lets DuckDB read objects of a store through Moulin, with its credentials and caches, in ranges."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from fsspec.spec import AbstractFileSystem

from moulin.model.facts import SegmentFacts
from moulin.storage.store import Store
from moulin.table.commit.adopted_bytes import AdoptedBytes

PROTOCOL = "moulin"


class LakeFiles(AbstractFileSystem):  # type: ignore[misc] # fsspec has no types
    """What DuckDB asks of a file system, for reading alone. Objects of a lake never change."""

    protocol = PROTOCOL
    cachable = False

    def __init__(self, store: Store) -> None:
        super().__init__()
        self._store = store
        self._adopted: dict[str, SegmentFacts] = {}

    def adopted(self, facts: SegmentFacts) -> str:
        """The address of an adopted file, which is read with the field ids of its table."""
        name = f"adopted/{facts.number}.parquet"
        self._adopted[name] = facts
        return address(name)

    def open(self, path: str, mode: str = "rb", **options: Any) -> Any:
        name = _name(path)
        facts = self._adopted.get(name)
        return self._store.reader(name) if facts is None else AdoptedBytes(self._store, facts)

    def info(self, path: str, **options: Any) -> dict[str, Any]:
        name = _name(path)
        if (facts := self._adopted.get(name)) is not None:
            with AdoptedBytes(self._store, facts) as file:
                return {"name": path, "size": file.size, "type": "file"}
        return {"name": path, "size": self._store.head(name).size, "type": "file"}

    def modified(self, path: str) -> datetime:
        return datetime.fromtimestamp(0, UTC)


def address(path: str) -> str:
    """The address of an object for DuckDB."""
    return f"{PROTOCOL}://{path}"


def _name(path: str) -> str:
    return path.removeprefix(f"{PROTOCOL}://")
