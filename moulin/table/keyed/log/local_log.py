"""A region's log in files on a local disk. Bytes: moulin/formats/wal.py.

```
<folder>/LOCK                       held by the one process that has the log open; names its pid
<folder>/<first position:020>.wal   entries from that position on; the newest file is being written
```

A file is never appended to by a later process: each one starts its own, named by the position that comes next. All but
the newest file were synced when the next was started, in every sync mode; so only the newest can have a torn tail.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from typing import Final
from uuid import UUID

from moulin.errors import FailedPrecondition, Fenced, InvalidInput, MoulinError, Unavailable
from moulin.formats.wal import (
    BLOCK_BYTES,
    HEADER_BYTES,
    MARK_BYTES,
    WalHeader,
    encode_header,
    frame,
    frame_mark,
    full_frame,
    room,
    seed_of,
)
from moulin.storage import modes, paths
from moulin.table.keyed.log.log import Death, SyncMode, check_committable, closed, failed, taken_over
from moulin.table.keyed.log.log_file import LogFile
from moulin.table.keyed.log.log_reader import LOCK_FILE, LocalLogReader

_LOCK_ATTEMPTS: Final = 6
_LASTING: Final = frozenset({errno.EROFS, errno.EACCES, errno.EPERM, errno.EEXIST, errno.ENOTDIR, errno.ENOENT})


class LocalLog:
    """The log of one region in `folder`, opened for writing by this process alone (else Fenced, naming the owner).

    `sync` says what `commit` waits for: "always" the disk; "interval" nothing, the disk follows within
    `interval_seconds`; "never" nothing, the operating system writes when it likes. In all modes an entry survives the
    death of this process once `append` returned, and only a power cut can take it. `covered` is the newest position
    that is in segments: where the log lacks it, it goes on from there. A file of more than `file_bytes` is followed by
    the next. `lock` is what `lock_folder` gave, for who must hold it before the epoch is known.
    """

    def __init__(
        self,
        folder: Path,
        table_id: UUID,
        region: int,
        epoch: int,
        *,
        sync: SyncMode = "always",
        interval_seconds: float = 1.0,
        file_bytes: int = 64 << 20,
        covered: int = 0,
        lock: int | None = None,
    ) -> None:
        if sync not in ("always", "interval", "never") or not interval_seconds > 0:
            raise InvalidInput(f"A log syncs 'always', 'interval' (above 0 seconds) or 'never', not {sync!r}.")
        self.last = covered
        self._offset, self._room = 0, -1  # where the file ends, and what `append` may still put into its block
        self._folder, self._table_id, self._region, self._epoch = folder, table_id, region, epoch
        self._reader = LocalLogReader(folder, table_id, region)
        self._always = sync == "always"
        self._file_bytes = max(file_bytes, BLOCK_BYTES)
        self._lock = threading.Lock()  # held to write; `_sync_lock` is always taken first
        self._sync_lock = threading.Lock()  # held while syncing
        self._trim_lock = threading.Lock()  # held to remove files; taken before `_lock`
        self._sync_ended = threading.Condition()  # told when `_sync_lock` was released
        self._death: Death | None = None
        self._file: LogFile | None = None
        self._lock_fd = lock_folder(folder) if lock is None else lock
        try:
            with _at_open(folder):
                self._firsts = self._recover(covered)
                self._start_file()
        except BaseException:
            self._release()
            raise
        self._synced = self.last
        self._stop = threading.Event()
        self._syncer: threading.Thread | None = None
        if sync == "interval":
            self._syncer = threading.Thread(
                target=self._sync_every, args=(interval_seconds,), name=f"moulin log {region}", daemon=True
            )
            self._syncer.start()

    def append(self, payload: bytes) -> int:
        with self._lock:
            if 0 < len(payload) <= self._room and self._death is None:
                try:
                    data = full_frame(self._seed, payload)
                    self._put(data)
                    self._room -= len(data)
                    self._offset += len(data)
                    self.last = last = self.last + 1
                    return last
                except BaseException as error:
                    self._fail("written", error)
                    raise
        return self.append_many((payload,))

    def append_many(self, payloads: Iterable[bytes]) -> int:
        payloads = tuple(payloads)
        while True:
            with self._lock:
                if self._death is not None:
                    raise self._death.error()
                if self._offset < self._file_bytes:
                    return self._write_entries(payloads)
            self._rotate()

    def commit(self, position: int) -> None:
        if position <= self._synced:
            return
        check_committable(position, self.last)
        if self._always:
            self._sync_through(position)
        elif self._death is not None:
            raise self._death.error()

    def replay(self, after: int) -> Iterator[tuple[int, bytes]]:
        with self._lock:
            firsts, last = self._firsts, self.last
        if after >= last:
            return
        for position, entry in self._reader.entries(firsts, after):
            if position <= last:
                yield position, entry

    def trim(self, through: int) -> None:
        with self._trim_lock:  # files are deleted oldest first, so a crash leaves no gap
            with self._lock:
                doomed = [first for first, following in pairwise(self._firsts) if following - 1 <= through]
                self._firsts = self._firsts[len(doomed) :]
            for first in doomed:
                self._remove(first)

    def _remove(self, first: int) -> None:
        try:
            os.unlink(self._reader.path(first))
        except FileNotFoundError:
            return
        except OSError as error:
            raise Unavailable(
                f"The log file {self._reader.path(first)} cannot be removed ({error.strerror}): check its folder."
            ) from error

    def shed(self) -> None:
        with self._syncing(), self._lock:
            if self._death is not None:
                raise self._death.error()
            if self._offset > HEADER_BYTES:
                with self._fatal("continued in a new file"):
                    self._current.finish(self._offset)
                    self._start_file()
                    self._synced = self.last

    def close(self) -> None:
        if self._syncer is not None:
            self._stop.set()
            self._syncer.join()
        with self._syncing():
            with self._lock:
                healthy = self._death is None
                self._death = closed()
            try:
                if healthy:
                    self._current.finish(self._offset)
            except OSError as error:
                raise failed(str(self._folder), "synced", error.strerror).error() from error
            finally:
                self._release()

    def _recover(self, covered: int) -> list[int]:
        """The first positions of the files to keep. Cuts a torn tail, and sets `last`."""
        for name in filter(paths.is_temporary, os.listdir(self._folder)):
            os.unlink(self._folder / name)
        firsts = self._reader.firsts()
        if not firsts:
            return []
        newest = self._reader.read(firsts[-1], final=True)
        if newest.header.epoch > self._epoch:
            raise taken_over(str(self._folder), self._epoch, f"epoch {newest.header.epoch}").error()
        if newest.torn:
            _cut(self._reader.path(firsts[-1]), newest.end)
        last = newest.header.first + len(newest.entries) - 1
        if last >= covered:
            self.last = last
            return firsts
        for first in firsts:  # a gap follows, and all that they hold is in segments
            os.unlink(self._reader.path(first))
        _sync_folder(self._folder)
        return []

    def _start_file(self) -> None:
        """Makes the file for the entries after `last`, in one step: a crash leaves it whole or not there at all."""
        first = self.last + 1
        header = encode_header(WalHeader(self._table_id, self._region, self._epoch, first))
        path = self._reader.path(first)
        temporary = self._folder / paths.temporary(path.name, secrets.token_hex(8))
        fd = modes.open_private(temporary, os.O_RDWR | os.O_EXCL)
        file = LogFile(fd, ahead=not self._always)
        try:
            file.append(header)
            os.fsync(fd)
            os.replace(temporary, path)  # replaces the file of a process that wrote no entry
            _sync_folder(self._folder)
        except BaseException:
            file.close()
            raise
        if self._file is not None:
            self._file.close()
        self._file, self._seed, self._offset = file, seed_of(header), HEADER_BYTES
        self._put, self._room = file.append, -1 if file.is_ahead else room(HEADER_BYTES)
        self._mark = 0  # bytes of this file known to be on disk, and not yet told in it
        self._firsts = [*(known for known in self._firsts if known != first), first]

    def _write_entries(self, payloads: Sequence[bytes]) -> int:
        """REQUIRES: `_lock` is held."""
        offset, parts = self._offset, list[bytes]()
        marked = bool(self._mark) and room(offset) >= MARK_BYTES
        if marked:
            parts.append(frame_mark(self._seed, self._mark))
            offset += len(parts[0])
        for payload in payloads:
            data = frame(self._seed, offset, payload)
            parts.append(data)
            offset += len(data)
        if payloads:
            with self._fatal("written"):
                self._current.write(self._offset, parts)
                self._put = self._current.append
                self._mark = 0 if marked else self._mark
                self._offset = offset
                self._room = -1 if self._mark or offset >= self._file_bytes else room(offset)
                self.last += len(payloads)
        return self.last

    def _rotate(self) -> None:
        with self._syncing(), self._lock:
            if self._death is None and self._offset >= self._file_bytes:
                with self._fatal("continued in a new file"):
                    self._current.finish(self._offset)
                    self._start_file()
                    self._synced = self.last

    def _sync_through(self, position: int) -> None:
        """Returns when a sync that started after this entry was written has ended, by any thread."""
        while self._synced < position:
            if self._sync_lock.acquire(blocking=False):
                with self._syncing(held=True):
                    if self._synced < position:
                        self._sync_now()
            else:
                with self._sync_ended:
                    self._sync_ended.wait_for(lambda: self._synced >= position or not self._sync_lock.locked())

    def _sync_now(self) -> None:
        """REQUIRES: `_sync_lock` is held."""
        with self._lock:
            if self._death is not None:
                raise self._death.error()
            last, offset = self.last, self._offset
        with self._fatal("synced"):
            self._current.sync()
        with self._lock:
            self._synced, self._mark = last, offset
            self._room = -1  # the next append tells what was synced

    @contextmanager
    def _syncing(self, *, held: bool = False) -> Iterator[None]:
        """Holds `_sync_lock`, and wakes who waits for the end of a sync."""
        if not held:
            self._sync_lock.acquire()
        try:
            yield
        finally:
            with self._sync_ended:
                self._sync_lock.release()
                self._sync_ended.notify_all()

    def _sync_every(self, seconds: float) -> None:
        while not self._stop.wait(seconds):
            with suppress(MoulinError):  # it killed the log: the next append or commit says so
                self._sync_through(self.last)

    @contextmanager
    def _fatal(self, what: str) -> Iterator[None]:
        """Wraps operations that leave the file in an unknown state on failure or interruption: then the log is dead."""
        try:
            yield
        except BaseException as error:
            self._fail(what, error)
            raise

    def _fail(self, what: str, error: BaseException) -> None:
        """Marks the log as dead, and converts an OSError. The caller re-raises other errors."""
        self._death = failed(str(self._folder), what, getattr(error, "strerror", None) or type(error).__name__)
        if isinstance(error, OSError):
            raise self._death.error() from error

    @property
    def _current(self) -> LogFile:
        assert self._file is not None
        return self._file

    def _release(self) -> None:
        if self._file is not None:
            self._file.close()
        if self._lock_fd >= 0:
            os.close(self._lock_fd)
        self._lock_fd = -1


def begin_local_log(folder: Path, table_id: UUID, region: int, epoch: int, covered: int) -> None:
    """Makes a first file without entries, so that there is a log before anybody claims it. REQUIRES: lock is held."""
    path = LocalLogReader(folder, table_id, region).path(covered + 1)
    temporary = folder / paths.temporary(path.name, secrets.token_hex(8))
    with _at_open(folder):
        with open(modes.open_private(temporary, os.O_WRONLY | os.O_EXCL), "wb") as file:
            file.write(encode_header(WalHeader(table_id, region, epoch, covered + 1)))
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
        _sync_folder(folder)


def lock_folder(folder: Path) -> int:
    """A descriptor that holds the lock on `folder`, which is made if it is missing; Fenced when another has it."""
    with _at_open(folder):
        return _lock(folder)


def _lock(folder: Path) -> int:
    _make_folder(folder)
    fd = modes.open_private(folder / LOCK_FILE, os.O_RDWR)
    try:
        if not _locked(fd):
            holder = os.pread(fd, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise Fenced(
                f"The log {folder} is open in process {holder}: close it there, or stop that process, then retry."
            )
        os.ftruncate(fd, 0)
        os.pwrite(fd, b"%d\n" % os.getpid(), 0)
    except BaseException:
        os.close(fd)
        raise
    return fd


def _locked(fd: int) -> bool:
    """Takes the lock, with a few attempts, because another process may be probing it."""
    for _ in range(_LOCK_ATTEMPTS):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except BlockingIOError:
            time.sleep(0.005)
    return False


def _make_folder(folder: Path) -> None:
    if not folder.is_dir():
        _make_folder(folder.parent)
        modes.make_folder(folder)
        _sync_folder(folder.parent)


@contextmanager
def _at_open(folder: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        what = f"The log {folder} cannot be opened ({error.strerror})"
        if error.errno in _LASTING:
            raise FailedPrecondition(f"{what}: make its folder writable, or choose another.") from error
        raise Unavailable(f"{what}: free space or repair the disk, then open the table again.") from error


def _cut(path: Path, size: int) -> None:
    fd = os.open(path, os.O_WRONLY | os.O_CLOEXEC)
    try:
        os.ftruncate(fd, size)
        os.fsync(fd)
    finally:
        os.close(fd)


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


__all__ = ["LOCK_FILE", "LocalLog", "begin_local_log", "lock_folder"]
