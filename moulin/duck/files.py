"""Objects of a store as files that DuckDB reads: through Moulin, with its credentials and caches, in ranges."""

from __future__ import annotations

import io
import os
from datetime import UTC, datetime
from typing import Any

from fsspec.spec import AbstractFileSystem

from moulin.formats.segment.footer import read_footer_bytes
from moulin.formats.segment.opened import read_segment_footer
from moulin.model.facts import SegmentFacts
from moulin.storage.segment_source import open_segment
from moulin.storage.store import Store

PROTOCOL = "moulin"
_TAIL, _MAGIC = 8, b"PAR1"


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


class AdoptedBytes(io.RawIOBase):
    """An adopted file with the footer that its segment is read by in place of its own."""

    def __init__(self, store: Store, facts: SegmentFacts) -> None:
        self._source = open_segment(store, facts)
        own, _ = read_footer_bytes(self._source, facts.path)
        told, _ = read_segment_footer(self._source, facts.path, facts)
        self._start = facts.size - len(own) - _TAIL
        self._end = told + len(told).to_bytes(4, "little") + _MAGIC
        self.size = self._start + len(self._end)
        self._at = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}[whence]
        return self._at

    def read(self, size: int | None = -1, /) -> bytes:
        left = max(0, self.size - self._at)
        stop = self._at + (left if size is None or size < 0 else min(size, left))
        start, self._at = self._at, stop
        body = self._source.read_at(min(stop, self._start) - start, start) if start < self._start else b""
        return bytes(body) + self._end[max(start - self._start, 0) : max(stop - self._start, 0)]

    def close(self) -> None:
        self._source.close()
        super().close()


def address(path: str) -> str:
    """The address of an object for DuckDB."""
    return f"{PROTOCOL}://{path}"


def _name(path: str) -> str:
    return path.removeprefix(f"{PROTOCOL}://")
