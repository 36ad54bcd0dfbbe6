"""The storage of a lake for tables: if a file of a version is missing, the error says why."""

# Decisions: docs/decisions/0172

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from moulin.errors import Corrupt, MoulinError, NotFound
from moulin.storage import paths
from moulin.storage.cache import is_immutable
from moulin.storage.interface import ObjectInfo, Store
from moulin.storage.sts import Sts

if TYPE_CHECKING:
    import pyarrow as pa


class Lost(Corrupt):
    """An immutable file of the catalog is missing: `path`."""

    def __init__(self, message: str, path: str = "") -> None:
        super().__init__(message)
        self.path = path


class TableStore(Store):
    """A store in which segments and what lies beside them are read by those who know them from the catalog.

    A missing one is Lost, not NotFound, which would read as "no such row". `head` and everything else are as they were.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store.uri)
        self._store = store

    def _missing(self, path: str) -> MoulinError:
        """The error for a file that a version names and that is not there."""
        named = path
        if paths.is_adopted(path):
            with suppress(MoulinError):
                named = f"{self._store.location(path)} ({path})"
        return Lost(
            f"{named} is gone: it was lost, or clean-up passed the version while it was read. Run `moulin check`, and "
            "restore the file from a copy.",
            path,
        )

    @contextmanager
    def _named(self, path: str) -> Iterator[None]:
        try:
            yield
        except NotFound as error:
            if not is_immutable(path) and not paths.is_adopted(path):
                raise
            raise self._missing(path) from error

    @property
    def is_local(self) -> bool:
        return self._store.is_local

    @property
    def service(self) -> tuple[str, str]:
        return self._store.service

    @property
    def sts(self) -> Sts | None:
        return self._store.sts

    def location(self, path: str) -> str:
        return self._store.location(path)

    def local_path(self, path: str) -> Path | None:
        return self._store.local_path(path)

    def get(self, path: str) -> bytes:
        with self._named(path):
            return self._store.get(path)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        with self._named(path):
            return self._store.get_range(path, start, length)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> tuple[bytes, ...]:
        with self._named(path):
            return self._store.get_ranges(path, ranges)

    def reader(self, path: str, size: int | None = None, etag: str = "") -> pa.NativeFile:
        with self._named(path):
            return self._store.reader(path, size, etag)

    def head(self, path: str) -> ObjectInfo:
        return self._store.head(path)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        return self._store.list(prefix, after)

    def put(self, path: str, data: bytes) -> None:
        self._store.put(path, data)

    def put_if_absent(self, path: str, data: bytes) -> None:
        self._store.put_if_absent(path, data)

    def put_derived(self, path: str, data: bytes) -> None:
        self._store.put_derived(path, data)

    def put_fresh(self, path: str, *parts: bytes) -> None:
        self._store.put_fresh(path, *parts)

    def writer(self, path: str) -> AbstractContextManager[BinaryIO]:
        return self._store.writer(path)

    def delete(self, objects: Iterable[str]) -> None:
        self._store.delete(objects)

    def remove_empty_folders(self, prefix: str = "") -> None:
        self._store.remove_empty_folders(prefix)


__all__ = ["Lost", "TableStore"]
