"""A local folder of blocks of remote objects, with a byte limit and LRU eviction.

The folder is the index: a block is a file whose name follows from the object and the block, and whose times say when it
was last used. So several processes share one folder without communication, and a killed one leaves at most a temporary
file. A file contains a header and the block:

    "MCB1" | CRC-32 of name, object size and block, u32 | object size, u64 | block length, u64 | block

all little-endian. A file that does not match its checksum is removed and counts as missing. Nothing is synced, because
every file is checked when it is read. If the folder is full or not writable, callers continue without the cache: one
warning is logged, and writing is retried after a while.
"""

from __future__ import annotations

import hashlib
import logging
import os
import secrets
import struct
import threading
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

log = logging.getLogger(__name__)

_HEADER: Final = struct.Struct("<4sIQQ")
_MAGIC: Final = b"MCB1"
_DISK_BLOCK: Final = 4096  # what even a small file takes
_KEPT_AFTER_EVICTION: Final = 0.9  # of the limit, so that eviction is rare
_LOOKS_PER_LIMIT: Final = 16  # the folder is listed after so large a part of the limit was written: others write too
_PAUSE_SECONDS: Final = 60.0  # without writing, after a write failed
_STALE_SECONDS: Final = 3600.0  # after this, a temporary file was left by a killed process
_TEMPORARY: Final = ".tmp"


class Block(NamedTuple):
    """Some bytes of an object, and how many the whole object has."""

    object_size: int
    data: memoryview


class _File(NamedTuple):
    used: int
    size: int
    path: str


class BlockFolder:
    """Blocks by object name and number. Thread-safe, and safe with other processes on the same folder."""

    def __init__(self, folder: str, limit: int) -> None:
        self.folder = os.path.abspath(os.path.expanduser(folder))
        self.limit = limit
        self.evicted = 0
        self.damaged = 0
        self._lock = threading.Lock()
        self._evicting = threading.Lock()
        self._used: int | None = None  # bytes in the folder when last listed, plus what was written since
        self._written = 0  # since it was last listed
        self._paused_until = 0.0
        self._warned = False

    def read(self, name: str, number: int) -> Block | None:
        """A block, marked as used; None when it is not there or not as it was written."""
        path = self._path(name, number)
        try:
            with open(path, "rb", buffering=0) as file:
                content = file.read()
                with suppress(OSError):  # a folder that may only be read still serves
                    os.utime(path)
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(error)
            return None
        block = _decode(content or b"", name, number)
        if block is None:
            self.damaged += 1
            with suppress(OSError):
                os.unlink(path)
        return block

    def write(self, name: str, number: int, object_size: int, data: bytes | memoryview) -> None:
        """Keep a block, and make room for it. Never fails: at worst nothing is kept."""
        size = _on_disk(_HEADER.size + len(data))
        if size > self.limit or time.monotonic() < self._paused_until:
            return
        path = self._path(name, number)
        temporary = f"{path}.{secrets.token_hex(8)}{_TEMPORARY}"
        header = _HEADER.pack(_MAGIC, _checksum(name, number, object_size, data), object_size, len(data))
        try:
            self._make_room(size)
            os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
            try:
                with open(temporary, "xb") as file:
                    file.write(header)
                    file.write(data)
                os.replace(temporary, path)
            except BaseException:
                with suppress(OSError):
                    os.unlink(temporary)
                raise
        except OSError as error:
            self._paused_until = time.monotonic() + _PAUSE_SECONDS
            self._warn(error)

    def forget(self, name: str) -> None:
        """Drop every block of an object."""
        first = self._path(name, 0)
        prefix = os.path.basename(first)[:-1]
        with suppress(OSError), os.scandir(os.path.dirname(first)) as entries:
            for entry in entries:
                if entry.name.startswith(prefix):
                    with suppress(OSError):
                        os.unlink(entry.path)

    def trim(self) -> None:
        """Bring the folder below its limit, which may have been higher when it was filled."""
        try:
            with self._evicting:
                self._evict(0)
        except OSError as error:
            self._warn(error)

    def used_bytes(self) -> int:
        """What the folder holds now."""
        return sum(file.size for file in self._files())

    def _path(self, name: str, number: int) -> str:
        digest = hashlib.blake2b(name.encode(), digest_size=20).hexdigest()
        return f"{self.folder}/{digest[:2]}/{digest}.{number}"

    def _make_room(self, size: int) -> None:
        with self._lock:
            self._written += size
            if self._used is not None:
                self._used += size
            fits = self._used is not None and self._used <= self.limit
            if fits and self._written <= self.limit // _LOOKS_PER_LIMIT:
                return
        with self._evicting:
            self._evict(size)

    def _evict(self, room: int) -> None:
        """List the folder and, when it is over the limit, remove the files used longest ago."""
        files = [*self._files()]
        used = room + sum(file.size for file in files)
        if used > self.limit:
            target = max(0, int(self.limit * _KEPT_AFTER_EVICTION))
            for file in sorted(files):
                if used <= target:
                    break
                with suppress(FileNotFoundError):  # another process evicts as well
                    os.unlink(file.path)
                used -= file.size
                self.evicted += 1
        with self._lock:
            self._used, self._written = used, 0

    def _files(self) -> Iterator[_File]:
        """Every block; removes stale temporary files."""
        stale = time.time() - _STALE_SECONDS
        with suppress(FileNotFoundError), os.scandir(self.folder) as folders:
            for folder in folders:
                with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder.path) as entries:
                    for entry in entries:
                        with suppress(FileNotFoundError):
                            status = entry.stat(follow_symlinks=False)
                            if not entry.name.endswith(_TEMPORARY):
                                yield _File(status.st_mtime_ns, _on_disk(status.st_size), entry.path)
                            elif status.st_mtime < stale:
                                os.unlink(entry.path)

    def _warn(self, error: OSError) -> None:
        if not self._warned:
            self._warned = True
            log.warning("The cache in %s does not work (%s); reads continue without it.", self.folder, error.strerror)


def _checksum(name: str, number: int, object_size: int, data: bytes | memoryview) -> int:
    return zlib.crc32(data, zlib.crc32(f"{name}\0{number}\0{object_size}".encode()))


def _decode(content: bytes, name: str, number: int) -> Block | None:
    if len(content) < _HEADER.size:
        return None
    magic, checksum, object_size, length = _HEADER.unpack_from(content)
    data = memoryview(content)[_HEADER.size :]
    if magic != _MAGIC or len(data) != length or checksum != _checksum(name, number, object_size, data):
        return None
    return Block(object_size, data)


def _on_disk(size: int) -> int:
    return -(-size // _DISK_BLOCK) * _DISK_BLOCK
