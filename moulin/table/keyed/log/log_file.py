"""The file of a local log that is being written: bytes go behind one another, and survive the death of this process.

A file that is synced with every entry is written call by call. Others are written `ahead`: room is allocated before it
is needed and mapped into memory, so that an entry is one copy into pages that the operating system owns. Until the file
is finished, zeros follow its last entry; a reader takes them for a torn tail. A copy may store its bytes in any order,
and a process may be killed within it, so each fragment is copied by itself: what follows a torn fragment is unwritten.
"""

# Decisions: docs/decisions/0130

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from moulin.formats.wal import BLOCK_BYTES

_AHEAD_BYTES: Final = 1 << 20
_GRAIN: Final = max(BLOCK_BYTES, mmap.ALLOCATIONGRANULARITY)
_write: Final = os.write
_sync: Final = getattr(os, "fdatasync", os.fsync)


class LogFile:
    """A file open for reading and writing, with its position at its end. Not thread-safe, but for `sync`."""

    def __init__(self, fd: int, *, ahead: bool) -> None:
        self.fd = fd
        self.is_ahead = ahead and hasattr(os, "posix_fallocate")
        self._map: mmap.mmap | None = None
        # Writes bytes that end in the block in which the last `write` ended.
        self.append: Callable[[bytes], object] = self._write_all

    def write(self, offset: int, frames: Sequence[bytes]) -> None:
        """Write frames to the end of the file, which is at `offset`, in their order."""
        size = sum(map(len, frames))
        if self._map is not None and self._map.tell() + size <= len(self._map):
            for data in frames:
                self._copy(self._map, data)
            return
        if self._map is not None:
            self._unmap()
            os.lseek(self.fd, offset, os.SEEK_SET)
        self._write_all(b"".join(frames))
        if self.is_ahead:
            with suppress(OSError):  # the disk is nearly full: writes use the rest of it, and say when it is
                self._allocate(offset + size)

    def sync(self) -> None:
        """Return when what was written before is on disk."""
        _sync(self.fd)

    def finish(self, offset: int) -> None:
        """End the file at `offset`, and sync it."""
        if self.is_ahead:
            self._unmap()
            os.ftruncate(self.fd, offset)
            os.fsync(self.fd)  # its length, too
        else:
            _sync(self.fd)

    def close(self) -> None:
        if self.fd >= 0:
            self._unmap()
            os.close(self.fd)
            self.fd = -1

    @staticmethod
    def _copy(target: mmap.mmap, data: bytes) -> None:
        """Copy a frame, the fragment of one block after that of another."""
        left = BLOCK_BYTES - target.tell() % BLOCK_BYTES
        if len(data) <= left:
            target.write(data)
            return
        rest = memoryview(data)
        while rest:
            target.write(rest[:left])
            rest, left = rest[left:], BLOCK_BYTES

    def _allocate(self, end: int) -> None:
        start = end - end % _GRAIN
        os.posix_fallocate(self.fd, start, _AHEAD_BYTES)  # or a full disk would end the process, not a call
        self._map = mmap.mmap(self.fd, _AHEAD_BYTES, offset=start)
        self._map.seek(end - start)
        self.append = self._map.write

    def _unmap(self) -> None:
        self.append = self._write_all
        if self._map is not None:
            self._map.close()
            self._map = None

    def _write_all(self, data: bytes) -> None:
        while data:
            data = data[_write(self.fd, data) :]


__all__ = ["LogFile"]
