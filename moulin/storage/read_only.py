"""A store that is only read: whatever would change it is refused before it is asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa

from moulin.errors import FailedPrecondition, NotFound
from moulin.storage.cache import is_immutable
from moulin.storage.interface import ObjectInfo, Store


class ReadOnlyStore(Store):
    """The storage of a lake that somebody else writes and cleans up.

    A data file that is gone was named by the version that is being read: clean-up has passed that version, and the
    error says so.
    """

    def __init__(self, store: Store) -> None:
        super().__init__(store.uri)
        self._store = store

    @property
    def is_local(self) -> bool:
        return self._store.is_local

    @property
    def service(self) -> tuple[str, str]:
        return self._store.service

    def local_path(self, path: str) -> Path | None:
        return self._store.local_path(path)

    def get(self, path: str) -> bytes:
        with _kept(path):
            return self._store.get(path)

    def get_range(self, path: str, start: int, length: int) -> bytes:
        with _kept(path):
            return self._store.get_range(path, start, length)

    def get_ranges(self, path: str, ranges: Sequence[tuple[int, int]]) -> tuple[bytes, ...]:
        with _kept(path):
            return self._store.get_ranges(path, ranges)

    def head(self, path: str) -> ObjectInfo:
        return self._store.head(path)

    def reader(self, path: str, size: int | None = None) -> pa.NativeFile:
        with _kept(path):
            return self._store.reader(path, size)

    def list(self, prefix: str = "", after: str = "") -> Iterator[ObjectInfo]:
        return self._store.list(prefix, after)

    def put(self, path: str, data: bytes) -> None:
        raise self._refused(path)

    def put_if_absent(self, path: str, data: bytes) -> None:
        raise self._refused(path)

    def writer(self, path: str) -> AbstractContextManager[BinaryIO]:
        raise self._refused(path)

    def delete(self, objects: Iterable[str]) -> None:
        for path in objects:
            raise self._refused(path)

    def remove_empty_folders(self, prefix: str = "") -> None:
        raise self._refused(prefix)

    def _refused(self, path: str) -> FailedPrecondition:
        return FailedPrecondition(f"{self.uri} was opened read-only, so {path} cannot be changed: write elsewhere.")


@contextmanager
def _kept(path: str) -> Iterator[None]:
    try:
        yield
    except NotFound as error:
        if not is_immutable(path):
            raise
        raise FailedPrecondition(
            f"{path} was cleaned up since this replica last looked: call refresh() and read the newer version."
        ) from error
