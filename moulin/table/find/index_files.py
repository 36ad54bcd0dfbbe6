"""The files of secondary indexes: their kinds, and those that a lake has open."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from moulin.formats.secondary_index import BitmapChunk, IndexFile, IndexKind, SortedChunk
from moulin.model.key.index_value import encoding_of
from moulin.model.schema.values import IcebergType, ListType
from moulin.sized_cache import SizedCache
from moulin.storage.store import Store

KINDS: Mapping[str, IndexKind] = {
    "btree": IndexKind.BTREE,
    "bloom": IndexKind.BLOOM,
    "bitmap": IndexKind.BITMAP,
    "label_list": IndexKind.LABEL_LIST,
}
"""The kinds of index by the names that users and the catalog have for them."""


def indexed_type(column: IcebergType, kind: str) -> IcebergType | None:
    """The type of the values that an index of this kind has of a column; None when it has none."""
    if kind == "label_list":
        if not isinstance(column, ListType):
            return None
        column = column.element_type
    return None if encoding_of(column) is None else column


def open_index(store: Store, path: str, size: int) -> IndexFile:
    """Open a file of an index in storage."""
    return IndexFile(lambda start, length: store.get_range(path, start, length), size, path)


class SecondaryIndexes:
    """The index files of a lake, opened once and cached chunk by chunk. Thread-safe."""

    def __init__(self, store: Store, limit: int) -> None:
        self._store = store
        self._open: SizedCache[str, IndexFile] = SizedCache(limit, lambda file: file.nbytes)
        self._chunks: SizedCache[tuple[str, int], SortedChunk] = SizedCache(limit, lambda chunk: chunk.nbytes)
        self._bitmaps: SizedCache[tuple[str, int], BitmapChunk] = SizedCache(limit, lambda chunk: chunk.nbytes)
        self._filters: SizedCache[tuple[str, int], npt.NDArray[np.uint8]] = SizedCache(limit, lambda data: data.nbytes)

    def clear(self) -> None:
        """Clear the cache."""
        for cache in (self._open, self._chunks, self._bitmaps, self._filters):
            cache.clear()

    def file(self, path: str, size: int) -> IndexFile:
        return self._open.get(path, lambda: open_index(self._store, path, size))

    def chunk(self, path: str, file: IndexFile, number: int) -> SortedChunk:
        return self._chunks.get((path, number), lambda: file.load_sorted(number))

    def bitmaps(self, path: str, file: IndexFile, number: int) -> BitmapChunk:
        return self._bitmaps.get((path, number), lambda: file.load_bitmaps(number))

    def filter(self, path: str, file: IndexFile, segment: int) -> npt.NDArray[np.uint8]:
        return self._filters.get((path, segment), lambda: file.load_filter(segment))
