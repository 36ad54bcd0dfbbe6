"""What the living processes of this machine use of a lake whose catalog is a file.

Each process that reads or writes such a lake keeps one small file in the folder `living` beside the catalog, locked for
as long as the process lives. It holds the oldest version that the process reads of each table, the lowest segment
number that it has reserved and not committed, and whether it has other files to commit. The operating system drops the
lock when the process dies, so that no clock decides what a living process may keep.

The order of steps makes it safe. A reader writes its pin first and then asks the catalog whether the version is kept;
clean-up first ends the promise of a version in the catalog and then looks for pins on it (`survey`), before anything is
forgotten. A writer reserves numbers before it writes files and commits before it gives numbers up; clean-up lists
files, then surveys, then asks the catalog which of them are named.
"""

from __future__ import annotations

import fcntl
import json
import os
import secrets
import threading
import time
import weakref
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID

from moulin.errors import FailedPrecondition, MoulinError, Unavailable
from moulin.storage import modes, paths

_READS = 100  # of a file that its process is changing right now
_MOST = 256  # reservations that a file lists
_BOOT = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def seconds_since_boot() -> float:
    """A monotonic clock that continues during sleep, if the system has one."""
    return time.clock_gettime(_BOOT)


@dataclass(slots=True)
class InUse:
    """State of running processes: the oldest version of each table they read, and uncommitted files."""

    pins: dict[UUID, int] = field(default_factory=dict)
    first_number: int | None = None
    is_writing: bool = False
    is_filling: bool = False  # writers of column files set this; they reserve no numbers

    def may_be_committed(self, path: str) -> bool:
        """Whether the unreferenced file at `path` may be committed by a running process."""
        if paths.parse_column_file_path(path) is not None:
            return self.is_filling
        number = paths.segment_number(path)
        if number is None:
            return self.is_writing
        return self.first_number is not None and number >= self.first_number

    def oldest_pin(self) -> int | None:
        """The oldest version that is read, of all tables."""
        return min(self.pins.values(), default=None)

    def add(self, other: dict[str, Any]) -> None:
        """Record the state of one process. Numbers that it has had for too long are ignored: their write has failed."""
        for table, version in other["pins"].items():
            table_id = UUID(table)
            self.pins[table_id] = min(version, self.pins.get(table_id, version))
        now = seconds_since_boot()
        numbers = [first for first, until in other["numbers"] if until > now]
        self.first_number = min((n for n in (self.first_number, *numbers) if n is not None), default=None)
        self.is_filling = self.is_filling or other["is_writing"]
        self.is_writing = self.is_writing or other["is_writing"] or bool(numbers)


class Living:
    """The part of one open lake in this process. Thread-safe; a forked child starts with nothing of its own.

    A reserved number that is not committed within `grace` seconds is given up: its write has failed.
    """

    def __init__(self, catalog_file: Path, grace: float) -> None:
        self._folder = catalog_file.parent / paths.living_folder()
        self._name = f"{catalog_file.name}-{secrets.token_hex(8)}"
        self._grace = grace
        # A generator that holds a pin may be finalized in the middle of a change here, by the same thread.
        self._lock = threading.RLock()
        self._fd: int | None = None
        self._pins: dict[UUID, Counter[int]] = {}
        self._numbers: dict[int, tuple[int, float]] = {}  # first -> count, and until when they may be committed
        self._writes = 0
        self._written: dict[str, Any] = _NOTHING
        _ALL.add(self)

    def pin(self, table_id: UUID, version: int) -> None:
        with self._lock:
            self._pins.setdefault(table_id, Counter())[version] += 1
            try:
                self._write()
            except MoulinError:
                self.unpin(table_id, version)
                raise

    def unpin(self, table_id: UUID, version: int) -> None:
        with self._lock:
            versions = self._pins.get(table_id)
            if versions is None or version not in versions:
                return  # a fork, or the lake was closed
            versions[version] -= 1
            if not versions[version]:
                del versions[version]
            if not versions:
                del self._pins[table_id]
            self._write_less()

    def reserve(self, first: int, count: int) -> None:
        """Record numbers that this process may use for files."""
        with self._lock:
            now = seconds_since_boot()
            self._numbers[first] = (count, now + self._grace)
            for old in [n for n, (_, until) in self._numbers.items() if until <= now]:
                del self._numbers[old]
            if len(self._numbers) > _MOST:  # many writes failed: the oldest two become one
                lowest, other = sorted(self._numbers)[:2]
                count, until = self._numbers.pop(other)
                self._numbers[lowest] = (other + count - lowest, max(until, self._numbers[lowest][1]))
            self._write()

    def settle(self, numbers: Iterable[int]) -> None:
        """Segments of these numbers were committed; others that were reserved together with them will not be."""
        with self._lock:
            for number in numbers:
                for first, (count, _) in self._numbers.items():
                    if first <= number < first + count:
                        del self._numbers[first]
                        break
            self._write_less()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """While it is open, clean-up keeps unreferenced files without a segment number."""
        with self._lock:
            self._writes += 1
        try:
            with self._lock:
                self._write()
            yield
        finally:
            with self._lock:
                self._writes -= 1
                self._write_less()

    def close(self) -> None:
        """Release everything."""
        with self._lock:
            self._pins.clear()
            self._numbers.clear()
            self._written = _NOTHING
            if self._fd is not None:
                with suppress(OSError):
                    os.unlink(self._folder / self._name)
                os.close(self._fd)
                self._fd = None

    def __del__(self) -> None:
        self.close()

    def _write_less(self) -> None:
        """Note that less is in use. What is noted too much does no harm, and nothing may fail that is done already."""
        with suppress(MoulinError):
            self._write()

    def _write(self) -> None:
        while (content := self._content()) != self._written:
            if self._fd is None:
                self._fd = self._open()
            data = json.dumps(content).encode()
            data = b"%08x%s" % (zlib.crc32(data), data)
            self._written = content
            try:
                os.pwrite(self._fd, data, 0)
                os.ftruncate(self._fd, len(data))
            except OSError as error:
                self._written = {}
                raise Unavailable(
                    f"{self._folder} cannot be written ({error.strerror}): free space or repair the disk, then retry."
                ) from error

    def _content(self) -> dict[str, Any]:
        return {
            "pins": {str(table_id): min(versions) for table_id, versions in self._pins.items()},
            "numbers": [[first, until] for first, (_, until) in self._numbers.items()],
            "is_writing": self._writes > 0,
        }

    def _open(self) -> int:
        """The file gets its name once it is locked: under that name it is never unlocked while its process lives."""
        temporary = self._folder / f".{self._name}.tmp"
        try:
            modes.make_folder(self._folder)
            fd = modes.open_private(temporary, os.O_RDWR)
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            os.rename(temporary, self._folder / self._name)
        except OSError as error:
            raise FailedPrecondition(
                f"{self._folder} cannot be written ({error.strerror}); every process that opens the lake records "
                f"there what it uses: make the folder writable."
            ) from error
        return fd

    def _forget(self) -> None:
        """In a forked child: the parent goes on using what is its own."""
        self._lock = threading.RLock()
        self._name = f"{self._name.rpartition('-')[0]}-{secrets.token_hex(8)}"
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None
        self._pins, self._numbers, self._writes, self._written = {}, {}, 0, _NOTHING


_NOTHING: dict[str, Any] = {"pins": {}, "numbers": [], "is_writing": False}
_ALL: weakref.WeakSet[Living] = weakref.WeakSet()


def _after_fork() -> None:
    for living in list(_ALL):
        living._forget()


os.register_at_fork(after_in_child=_after_fork)


def survey(catalog_file: Path) -> InUse:
    """The state of all running processes for this catalog. Files of dead ones are removed."""
    found = InUse()
    folder = catalog_file.parent / paths.living_folder()
    with suppress(FileNotFoundError), os.scandir(folder) as entries:
        for entry in entries:
            if entry.name.startswith(f"{catalog_file.name}-"):
                with suppress(FileNotFoundError):
                    _add(found, entry.path)
    return found


def _add(found: InUse, path: str) -> None:
    try:
        fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except PermissionError:
        raise FailedPrecondition(
            f"{path} cannot be read, so the files used by a process of another user are unknown: clean up as that "
            f"user, or as a user who may read it."
        ) from None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        found.add(_read(fd, path))
    else:
        with suppress(PermissionError):  # its user will remove it
            os.unlink(path)
    finally:
        os.close(fd)


def _read(fd: int, path: str) -> dict[str, Any]:
    """The content, which its process may be changing: the checksum shows when it is whole."""
    for attempt in range(_READS):
        data = os.pread(fd, os.fstat(fd).st_size, 0)
        if not data:
            return _NOTHING  # new, and nothing is used yet
        if data[:8] == b"%08x" % zlib.crc32(data[8:]):
            content: dict[str, Any] = json.loads(data[8:])
            return content
        time.sleep(0.001 * attempt)
    raise FailedPrecondition(f"{path} is damaged: stop the process that has it open, then clean up again.")
