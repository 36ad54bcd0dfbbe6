"""Finds the pages of a column of text that have some bytes in them, without decoding any.

The bytes of a text lie side by side in a page of plain values, so a page that does not have them once it is
decompressed holds no text that has them. A page whose checksum is wrong, or which cannot be decompressed, counts as a
match: decoding it raises the error.
"""

# Decisions: docs/decisions/0360

from __future__ import annotations

from collections.abc import Callable, Iterator
from zlib import crc32

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moulin.formats.segment import thrift
from moulin.formats.segment.opened import OpenedFile
from moulin.formats.segment.page_index import Pages, read_pages
from moulin.model.columns.arrays import Integers

_PLAIN = frozenset(("PLAIN", "RLE", "BIT_PACKED"))  # the last two are encodings of levels
_CODECS = {"ZSTD": "zstd", "SNAPPY": "snappy", "UNCOMPRESSED": None}
_STRETCH = 1 << 20  # bytes to read at once
_HEADER_BYTES = 256
_SHARE, _FIRST = 4, 8  # a search over pages is given up when more than a share of them, and of the first few, have it
_DATA_PAGE = 0


class PageSearch:
    """Searches column chunks of a segment. It belongs to one thread. `read(start, length)` reads bytes of the file."""

    def __init__(self, opened: OpenedFile, read: Callable[[int, int], bytes], *, verify: bool, trust: bool) -> None:
        self._opened, self._read, self._verify, self._trust = opened, read, verify, trust

    def can_search(self, group: int, leaf: int) -> bool:
        """Whether all values of a column chunk are stored as they are, and by a codec that is known here."""
        chunk = self._opened.metadata.row_group(group).column(leaf)
        return not chunk.has_dictionary_page and _PLAIN.issuperset(chunk.encodings) and chunk.compression in _CODECS

    def rows(self, group: int, leaf: int, text: bytes) -> Integers | None:
        """The rows of the pages that have `text` in them, counted from the first of the row group.

        None if these are many, or if the offset index does not fit the pages. REQUIRES: `can_search`.
        """
        opened, key = self._opened, (group, leaf)
        if key not in opened.pages:
            opened.pages[key] = read_pages(opened.map.chunk(group, leaf), opened.group_rows[group], self._read)
        pages = opened.pages[key]
        if pages is None:
            return None
        known = self._trust and key in opened.verified
        bodies = opened.bodies.get(key) if self._trust else None
        codec = _CODECS[opened.metadata.row_group(group).column(leaf).compression]
        finder = _Finder(text, None if codec is None else pa.Codec(codec), verify=self._verify and not known)
        hits, found = np.zeros(len(pages.sizes), np.bool_), []
        for first, data in self._stretches(pages):
            part = _bodies(data, pages, first) if bodies is None else bodies[first : first + len(data)]
            if part is None:
                return None
            found.append(part)
            for index, (page, body) in enumerate(zip(data, part.tolist(), strict=True), first):
                hits[index] = finder.has(page, *body)
            if _SHARE * int(hits.sum()) > first + len(data) + _FIRST:
                return None
        opened.bodies[key] = np.concatenate(found) if bodies is None else bodies
        if finder.all_right:
            opened.verified.add(key)
        return _rows_of(pages, hits)

    def _stretches(self, pages: Pages) -> Iterator[tuple[int, list[memoryview]]]:
        """Pages that are read at once, with the number of the first one."""
        offsets, sizes = pages.offsets.tolist(), pages.sizes.tolist()
        first = 0
        while first < len(sizes):
            last, end = first, offsets[first] + _STRETCH
            while last + 1 < len(sizes) and offsets[last + 1] + sizes[last + 1] <= end:
                last += 1
            start = offsets[first]
            data = memoryview(self._read(start, offsets[last] + sizes[last] - start))
            spans = zip(offsets[first : last + 1], sizes[first : last + 1], strict=True)
            yield first, [data[offset - start : offset - start + size] for offset, size in spans]
            first = last + 1


class _Finder:
    """Looks for a text in pages, and at their checksums with `verify`."""

    def __init__(self, text: bytes, codec: pa.Codec | None, *, verify: bool) -> None:
        self._text, self._codec, self._verify = text, codec, verify
        self.all_right = verify

    def has(self, page: memoryview, start: int, size: int, checksum: int) -> bool:
        stored = page[start:]
        if self._verify and crc32(stored) != checksum:
            self.all_right = False
            return True
        if self._codec is None:
            return self._text in bytes(stored)
        try:
            plain: bytes = self._codec.decompress(stored, size, asbytes=True)
        except (pa.ArrowException, OSError, ValueError):
            self.all_right = False
            return True
        return self._text in plain


def _bodies(data: list[memoryview], pages: Pages, first: int) -> Integers | None:
    """Where the bytes of each page begin, how many they become, and their checksum. None when the header of a page does
    not say what the offset index does."""
    found = []
    rows = np.diff(pages.first_rows)[first : first + len(data)].tolist()
    for page, count in zip(data, rows, strict=True):
        try:
            body = _body(page, count)
        except (IndexError, ValueError):
            body = None
        if body is None:
            return None
        found.append(body)
    pages.checked[first : first + len(data)] = True
    return np.asarray(found, np.int64).reshape(len(found), 3)


def _body(page: memoryview, rows: int) -> tuple[int, int, int] | None:
    """None unless this is a data page of version 1 of so many values, with a checksum."""
    header = bytes(page[:_HEADER_BYTES])
    numbers = {1: -1, 2: -1, 3: -1, 4: -1, 5: -1}
    walk, has_checksum = thrift.Walk(header, 0), False
    while walk.next():
        if walk.number == 5 and header[walk.at] == 0x15:
            numbers[5], _ = thrift.signed(header, walk.at + 1)
            walk.skip()
        elif walk.number < 5:
            numbers[walk.number] = walk.integer()
            has_checksum |= walk.number == 4
        else:
            walk.skip()
    kind, size, stored, checksum, values = numbers.values()
    if kind != _DATA_PAGE or stored + walk.at != len(page) or values != rows or not has_checksum or size < 0:
        return None
    return walk.at, size, checksum & 0xFFFFFFFF


def _rows_of(pages: Pages, hits: npt.NDArray[np.bool_]) -> Integers:
    """The rows of some pages."""
    edges = pages.first_rows
    spans = [np.arange(edges[page], edges[page + 1], dtype=np.int64) for page in np.flatnonzero(hits)]
    return np.concatenate([np.empty(0, np.int64), *spans])


__all__ = ["PageSearch"]
