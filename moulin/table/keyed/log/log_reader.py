"""Reads the log of a region where it lies, and changes nothing: for its writer, and for those who only look."""

from __future__ import annotations

import fcntl
import os
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final, Protocol
from uuid import UUID

from moulin.errors import Corrupt, FailedPrecondition, NotFound, Unavailable
from moulin.formats.log_entry import is_fence
from moulin.formats.log_object import LogObject, decode_object
from moulin.formats.wal import WalContents, read_wal
from moulin.storage import paths
from moulin.storage.store import Store
from moulin.table.keyed.log.log import missing

LOCK_FILE: Final = "LOCK"
_READERS: Final = 8


class LogReader(Protocol):
    """A read-only view of a log."""

    @property
    def name(self) -> str:
        """Where it lies."""
        ...

    def firsts(self) -> list[int]:
        """The first positions of its files or objects, ascending; empty when there is no log."""
        ...

    def last(self, firsts: Sequence[int]) -> int:
        """The position of its last entry."""
        ...

    def entries(self, firsts: Sequence[int], after: int) -> Iterator[tuple[int, bytes]]:
        """Position and payload of every entry after this position; Corrupt when one is missing."""
        ...


class LocalLogReader:
    """The files of a log in a folder."""

    def __init__(self, folder: Path, table_id: UUID, region: int) -> None:
        self.folder, self._table_id, self._region = folder, table_id, region

    @property
    def name(self) -> str:
        return str(self.folder)

    def firsts(self) -> list[int]:
        try:
            names = os.listdir(self.folder)
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as error:
            raise Unavailable(f"The log {self.folder} cannot be read ({error.strerror}): check the disk.") from error
        return sorted(first for name in names if (first := paths.parse_local_log_file(name)) is not None)

    def is_open(self) -> bool:
        """Whether a running process has the log open. Probes its lock."""
        try:
            fd = os.open(self.folder / LOCK_FILE, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False

    def path(self, first: int) -> Path:
        return self.folder / paths.local_log_file(first)

    def last(self, firsts: Sequence[int]) -> int:
        return firsts[-1] + len(self.read(firsts[-1], final=True).entries) - 1

    def entries(self, firsts: Sequence[int], after: int) -> Iterator[tuple[int, bytes]]:
        start = bisect_right(firsts, after + 1) - 1
        if start < 0:
            raise missing(self.name, after + 1, firsts[0])
        for first, following in zip(firsts[start:], [*firsts[start + 1 :], None], strict=True):
            entries = self.read(first, final=following is None).entries
            if following is not None and first + len(entries) != following:
                raise missing(self.name, first + len(entries), following)
            for position, entry in enumerate(entries, first):
                if position > after:
                    yield position, entry

    def read(self, first: int, *, final: bool) -> WalContents:
        """A file of this log; only the last one may have a torn tail."""
        path = self.path(first)
        try:
            data = path.read_bytes()
        except FileNotFoundError as error:
            raise Corrupt(f"The log file {path} has disappeared: restore it from a copy.") from error
        except OSError as error:
            raise Unavailable(f"The log file {path} cannot be read ({error.strerror}): check the disk.") from error
        contents = read_wal(data, source=str(path), final=final)
        header = contents.header
        if (header.table_id, header.region, header.first) != (self._table_id, self._region, first):
            raise FailedPrecondition(
                f"The log file {path} belongs to region {header.region} of table {header.table_id}, from position "
                f"{header.first} on: it is in the wrong place. Move it away, or open that table."
            )
        return contents


class StoreLogReader:
    """The objects of a log in a store."""

    def __init__(self, store: Store, table_id: UUID, region: int) -> None:
        self._store, self._table_id, self._region = store, table_id, region

    @property
    def name(self) -> str:
        return f"{self._store.uri}/{self.prefix}"

    @property
    def prefix(self) -> str:
        return paths.log_prefix(self._table_id, self._region)

    def path(self, first: int) -> str:
        return paths.log_object(self._table_id, self._region, first)

    def name_of(self, first: int) -> str:
        return f"{self._store.uri}/{self.path(first)}"

    def firsts(self, known: Sequence[int] = ()) -> list[int]:
        """As `LogReader.firsts`; of a log that had the objects `known` before, which are not looked for again.

        Some of these may be gone by now. The last of them is there, or a later one is.
        """
        behind = self.path(known[-1]) if known else ""
        listed = (paths.parse_log_object(info.path) for info in self._store.list(self.prefix, behind))
        return [*known, *sorted(found[2] for found in listed if found is not None)]

    def last(self, firsts: Sequence[int]) -> int:
        return self.read(firsts[-1]).last

    def entries(self, firsts: Sequence[int], after: int) -> Iterator[tuple[int, bytes]]:
        """As `LogReader.entries`; fences are left out."""
        start = bisect_right(firsts, after + 1) - 1
        if start < 0:
            raise missing(self.name_of(after + 1), after + 1, firsts[0])
        expected, epoch = firsts[start], 0
        with ThreadPoolExecutor(_READERS) as readers:
            for at in range(start, len(firsts), _READERS):
                for found in readers.map(self.read, firsts[at : at + _READERS]):
                    if found.first != expected:
                        raise missing(self.name_of(found.first), expected, found.first)
                    expected = found.last + 1
                    if all(map(is_fence, found.entries)):  # of a claim; one that came too late may have an old epoch
                        continue
                    if found.epoch < epoch:
                        raise Corrupt(
                            f"{self.name_of(found.first)} was written under epoch {found.epoch}, after one of epoch "
                            f"{epoch}, so it was never acknowledged: restore the log from a copy."
                        )
                    epoch = found.epoch
                    for position, entry in enumerate(found.entries, found.first):
                        if position > after:
                            yield position, entry

    def read(self, first: int) -> LogObject:
        """An object of this log."""
        name = self.name_of(first)
        try:
            data = self._store.get(self.path(first))
        except NotFound as error:
            raise Corrupt(f"{name} has disappeared while the log was read: another writer may own it.") from error
        found = decode_object(data, source=name)
        if (found.table_id, found.region, found.first) != (self._table_id, self._region, first):
            raise Corrupt(
                f"{name} belongs to region {found.region} of table {found.table_id}, from position {found.first} on: "
                "it is in the wrong place. Move it away."
            )
        return found


__all__ = ["LOCK_FILE", "LocalLogReader", "LogReader", "StoreLogReader"]
