"""Checksums of page indexes and bloom filters, which Parquet has none for. They lie in the footer, which has its own.

Without them a damaged bound or a damaged filter would hide rows. Layout: docs/formats/segment.md.
"""

# Decisions: docs/decisions/0370

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping

from moulin.formats.segment import thrift
from moulin.formats.segment.page_index import Chunk, FooterMap

PAGES_KEY = "moulin.page_index_crc32"
"""Footer key: for each column chunk the CRC32 of its column index followed by its offset index."""

BLOOM_KEY = "moulin.bloom_filter_crc32"
"""Footer key, where columns have bloom filters: for each column chunk the CRC32 of its filter, zero if it has none."""

_DIGITS = 8
_TAIL = 8  # the length of the footer, and Parquet's mark


def placeholders(chunks: int, *, filters: bool) -> dict[str, str]:
    """Entries of a footer for so many column chunks, some of them with bloom filters or not: zeros."""
    return dict.fromkeys((PAGES_KEY, BLOOM_KEY) if filters else (PAGES_KEY,), "0" * _DIGITS * chunks)


def with_checksums(end: bytes, base: int, groups: int, leaves: int, *, filters: bool) -> bytes:
    """The last bytes of a Parquet file, from byte `base` on, with checksums in the place of `placeholders`.

    Page indexes, bloom filters and the whole footer lie in `end`.
    """
    start = len(end) - _TAIL - int.from_bytes(end[-_TAIL:-4], "little")
    map_ = FooterMap(end[start:-_TAIL])
    chunks = [map_.chunk(group, leaf) for group in range(groups) for leaf in range(leaves)]

    def read(first: int, size: int) -> bytes:
        return end[first - base : first - base + size]

    pages = [pages_checksum(chunk, read) for chunk in chunks]
    end = _filled(end, start, PAGES_KEY, pages)
    if not filters:
        return end
    return _filled(end, start, BLOOM_KEY, [zlib.crc32(read(*chunk.bloom)) for chunk in chunks])


def pages_checksum(chunk: Chunk, read: Callable[[int, int], bytes]) -> int:
    """The checksum of the page indexes of a column chunk, of which there may be none."""
    return zlib.crc32(read(*chunk.index), zlib.crc32(read(*chunk.bounds)))


class IndexChecksums:
    """The checksums that a footer has, by row group and leaf. Entries that do not fit the file count as absent."""

    def __init__(self, entries: Mapping[bytes, bytes], groups: int, leaves: int) -> None:
        self._leaves = leaves
        self._pages, self._bloom = (
            _numbers(entries.get(key.encode(), b""), groups * leaves) for key in (PAGES_KEY, BLOOM_KEY)
        )

    @property
    def has_pages(self) -> bool:
        return bool(self._pages)

    @property
    def has_filters(self) -> bool:
        return bool(self._bloom)

    def pages(self, group: int, leaf: int) -> int:
        """That of the column index and the offset index of a column chunk, if `has_pages`."""
        return self._pages[group * self._leaves + leaf]

    def bloom(self, group: int, leaf: int) -> int:
        """That of the bloom filter of a column chunk, if `has_filters`."""
        return self._bloom[group * self._leaves + leaf]


def _filled(end: bytes, start: int, key: str, checksums: list[int]) -> bytes:
    length = _DIGITS * len(checksums)
    mark = key.encode() + b"\x18" + thrift.write_unsigned(length)
    at = end.rindex(mark, start) + len(mark)
    return end[:at] + b"".join(b"%08x" % checksum for checksum in checksums) + end[at + length :]


def _numbers(text: bytes, count: int) -> list[int]:
    """Empty if these are not `count` numbers."""
    if len(text) != _DIGITS * count:
        return []
    try:
        return [int(text[at : at + _DIGITS], 16) for at in range(0, len(text), _DIGITS)]
    except ValueError:
        return []


__all__ = ["BLOOM_KEY", "PAGES_KEY", "IndexChecksums", "pages_checksum", "placeholders", "with_checksums"]
