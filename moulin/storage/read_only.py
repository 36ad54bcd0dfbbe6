"""A read-only store: rejects every change."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager
from typing import BinaryIO

from moulin.errors import FailedPrecondition, MoulinError
from moulin.storage.table_store import TableStore


class ReadOnlyStore(TableStore):
    """The storage of a lake that other processes write and clean up.

    A data file that is gone was named by the version that is being read: clean-up has passed that version, and the
    error says so.
    """

    def _missing(self, path: str) -> MoulinError:
        return FailedPrecondition(
            f"{path} was cleaned up since the last refresh: call refresh() and read the newer version."
        )

    def put(self, path: str, data: bytes) -> None:
        raise self._refused(path)

    def put_if_absent(self, path: str, data: bytes) -> None:
        raise self._refused(path)

    def put_derived(self, path: str, data: bytes) -> None:
        raise self._refused(path)

    def put_fresh(self, path: str, *parts: bytes) -> None:
        raise self._refused(path)

    def writer(self, path: str) -> AbstractContextManager[BinaryIO]:
        raise self._refused(path)

    def delete(self, objects: Iterable[str]) -> None:
        for path in objects:
            raise self._refused(path)

    def remove_empty_folders(self, prefix: str = "") -> None:
        raise self._refused(prefix)

    def _refused(self, path: str) -> FailedPrecondition:
        return FailedPrecondition(f"{self.uri} was opened read-only, so {path} cannot be changed.")
