"""An object of a store as a file that is read in ranges."""

from __future__ import annotations

import io
import os
from typing import Final

from moulin.storage.interface import Store

READ_AHEAD_BYTES: Final = 1 << 20
"""What is asked for at least, of an object that is larger."""


class RangeFile(io.RawIOBase):
    """An object read in ranges. Keeps its tail (a Parquet footer) and the last stretch read ahead. pyarrow locks it."""

    def __init__(self, store: Store, path: str, size: int, tail: bytes) -> None:
        self._store, self._path, self._size = store, path, size
        self._position = 0
        self._kept = [(size - len(tail), tail), (0, b"")]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        self._position = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._position, os.SEEK_END: self._size}[whence]
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        start = self._position
        left = max(0, self._size - start)
        length = left if size is None or size < 0 else min(size, left)
        self._position = start + length
        for first, data in self._kept:
            if first <= start and start + length <= first + len(data):
                return data[start - first : start - first + length]
        if length >= READ_AHEAD_BYTES:
            return self._store.get_range(self._path, start, length)
        ahead = self._store.get_range(self._path, start, min(left, READ_AHEAD_BYTES))
        self._kept[1] = (start, ahead)
        return ahead[:length]


__all__ = ["READ_AHEAD_BYTES", "RangeFile"]
