"""Locates the pages of a segment: from its footer, which has a checksum, to the offset index of a column chunk.

The offset index has no checksum of its own. It is used only if it fits the footer (pages follow one another from the
first byte of the column chunk to its last), and the rows of each page that is read are compared with the page's
header. Bounds of pages are used if the footer has a checksum of them: `page_bounds.py`.
"""

# Decisions: docs/decisions/0310

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from threading import Lock
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from moulin.formats.segment import thrift
from moulin.model.columns.arrays import Integers

_LOCATION = np.asarray([0x16, 0x15, 0x16, 0])  # what stands around the three numbers of a page's location
_DATA_PAGE = 0
_VALUES = 0x16  # field 5, a number, behind field 4


class Span(NamedTuple):
    """Bytes of a file; none if there is no such part."""

    start: int
    size: int


@dataclass(frozen=True, slots=True)
class Chunk:
    """A column chunk: `head` is its type, encodings, path and codec as they are written in a footer."""

    head: bytes
    values: int
    start: int  # of the first byte, that of the dictionary if there is one
    data_start: int
    size: int
    index: Span  # its offset index
    bounds: Span  # its column index
    bloom: Span


@dataclass(frozen=True, slots=True)
class Pages:
    """The data pages of a column chunk: where each lies, how many bytes it has with its header, and its first row.

    `first_rows` has one number more, the rows of the row group. `checked` says which pages were found to have as many
    rows as that.
    """

    offsets: Integers
    sizes: Integers
    first_rows: Integers
    checked: npt.NDArray[np.bool_]


class FooterMap:
    """Column chunks of a Parquet footer, and its schema, by where they lie in the bytes of the footer.

    `start` is all up to the end of the schema, as it is written; `rows` and `groups` are how many rows and row groups
    the file has. A footer that starts as that of `like`, a file of the same columns, is walked faster.
    """

    def __init__(self, footer: bytes, like: FooterMap | None = None) -> None:
        self._footer, self._walking = footer, Lock()
        self._schema_at = self._next_group = self.rows = self.groups = 0
        self._groups: list[list[Chunk]] = []
        self._group_rows: list[int] = []
        self._heads: Sequence[bytes] = ()
        self.start = b""
        walk = thrift.Walk(footer, 0)
        if like is not None and like.start and footer.startswith(like.start):
            self._schema_at, self.start, walk.at, walk.number = like._schema_at, like.start, len(like.start), 2
            if like.groups:
                like._walk_to(0)
                self._heads = [chunk.head for chunk in like._groups[0]]
        while walk.next():
            if walk.number == 2:
                self._schema_at = walk.at
                walk.skip()
                self.start = footer[: walk.at]
            elif walk.number == 3:
                self.rows = walk.integer()
            elif walk.number == 4:
                self.groups, _, self._next_group = thrift.elements(footer, walk.at)
                break
            else:
                walk.skip()

    def chunk(self, group: int, leaf: int) -> Chunk:
        """A column chunk."""
        self._walk_to(group)
        return self._groups[group][leaf]

    def group_rows(self, group: int) -> int:
        """How many rows a row group has."""
        self._walk_to(group)
        return self._group_rows[group]

    def _walk_to(self, group: int) -> None:
        """The footer is walked up to each row group once."""
        if group >= len(self._groups):
            with self._walking:
                while len(self._groups) <= group < self.groups:
                    self._walk_group()

    @cached_property
    def columns(self) -> list[tuple[bytes, ...]]:
        """The elements of each top-level column in the schema, as they are written."""
        count, _, at = thrift.elements(self._footer, self._schema_at)
        spans: list[tuple[bytes, int]] = []
        for _ in range(count):
            start, children, walk = at, 0, thrift.Walk(self._footer, at)
            while walk.next():
                if walk.number == 5:
                    children = walk.integer()
                else:
                    walk.skip()
            at = walk.at
            spans.append((self._footer[start:at], children))
        found = []
        index = 1
        while index < count:
            left, first = 1, index
            while left:
                left += spans[index][1] - 1
                index += 1
            found.append(tuple(span for span, _ in spans[first:index]))
        return found

    def _walk_group(self) -> None:
        footer, chunks, rows = self._footer, [], 0
        walk = thrift.Walk(footer, self._next_group)
        while walk.next():
            if walk.number == 1:
                count, _, walk.at = thrift.elements(footer, walk.at)
                for index in range(count):
                    chunks.append(self._walk_chunk(walk, self._heads[index] if index < len(self._heads) else b""))
            elif walk.number == 3:
                rows = walk.integer()
            else:
                walk.skip()
        self._next_group = walk.at
        self._group_rows.append(rows)
        self._groups.append(chunks)

    def _head(self, start: int, guess: bytes) -> tuple[bytes, int]:
        """What the metadata of a column chunk at `start` has before its number of values, and where that is."""
        footer, end = self._footer, start + len(guess)
        if guess and footer.startswith(guess, start) and footer[end] == _VALUES:
            return guess, end
        walk = thrift.Walk(footer, start)
        while walk.next() and walk.number < 5:
            walk.skip()
        if walk.number != 5 or footer[walk.at - 1] != _VALUES:
            raise ValueError("a column chunk does not have its number of values behind its codec")
        return footer[start : walk.at - 1], walk.at - 1

    def _walk_chunk(self, group: thrift.Walk, guess: bytes) -> Chunk:
        """The column chunk at which `group` stands; `guess` is its head, if it is that of most."""
        footer, walk = self._footer, thrift.Walk(self._footer, group.at)
        places = {4: 0, 5: 0, 6: 0, 7: 0}
        head, numbers = b"", {5: 0, 7: 0, 9: 0, 11: 0, 14: 0, 15: 0}
        while walk.next():
            if walk.number == 3:
                start = walk.at
                head, at = self._head(start, guess)
                walk.at = thrift.integers(footer, at, 4, numbers)
            elif walk.number in places:
                places[walk.number] = walk.integer()
            else:
                walk.skip()
        group.at = walk.at
        data_start, dictionary = numbers[9], numbers[11]
        start = min(dictionary, data_start) if dictionary else data_start
        return Chunk(
            head,
            numbers[5],
            start,
            data_start,
            numbers[7],
            Span(places[4], places[5]),
            Span(places[6], places[7]),
            Span(numbers[14], numbers[15]),
        )


def read_pages(chunk: Chunk, rows: int, read: Callable[[int, int], bytes]) -> Pages | None:
    """The pages of a chunk of `rows` rows; None when its offset index is missing or does not fit the footer."""
    return parse_pages(chunk, rows, read(*chunk.index)) if chunk.index.size else None


def read_spans(read: Callable[[int, int], bytes], spans: Sequence[tuple[int, int]], near: int) -> Iterator[memoryview]:
    """The bytes of each span, which ascend; those that are at most `near` bytes apart are read at once."""
    at = 0
    while at < len(spans):
        start, end = spans[at][0], sum(spans[at])
        stop = at + 1
        while stop < len(spans) and spans[stop][0] - end <= near:
            end = sum(spans[stop])
            stop += 1
        data = memoryview(read(start, end - start))
        for first, size in spans[at:stop]:
            yield data[first - start : first - start + size]
        at = stop


def parse_pages(chunk: Chunk, rows: int, data: bytes) -> Pages | None:
    """The same of an offset index that was read already."""
    try:
        if data[0] != 0x10 | thrift.LIST:
            return None
        count, kind, at = thrift.elements(data, 1)
        if kind != thrift.STRUCT or not count:
            return None
        tokens = thrift.unsigned_array(data, at, 7 * count).reshape(count, 7)
    except (ValueError, IndexError):
        return None
    if (tokens[:, ::2] != _LOCATION).any():
        return None
    offsets, sizes, first_rows = (tokens[:, index] >> 1 ^ -(tokens[:, index] & 1) for index in (1, 3, 5))
    offsets = offsets + (chunk.data_start - offsets[0])  # of a column file, they count from its own first byte
    ends, first_rows = offsets + sizes, np.append(first_rows, rows)
    fits = (
        ends[-1] == chunk.start + chunk.size
        and (ends[:-1] == offsets[1:]).all()
        and first_rows[0] == 0
        and (np.diff(first_rows) > 0).all()
    )
    return Pages(offsets, sizes, first_rows, np.zeros(count, np.bool_)) if fits else None


def values_of(header: bytes, size: int) -> int:
    """How many values a data page of version 1 has, whose bytes, `size` with the header, begin with `header`; -1 if it
    is another kind of page, or if its header says that it has another size."""
    kind = body = values = -1
    walk = thrift.Walk(header, 0)
    while walk.next():
        if walk.number == 1:
            kind = walk.integer()
        elif walk.number == 3:
            body = walk.integer()
        elif walk.number == 5 and header[walk.at] == 0x15:
            values, _ = thrift.signed(header, walk.at + 1)
            walk.skip()
        else:
            walk.skip()
    return values if kind == _DATA_PAGE and body + walk.at == size else -1


__all__ = ["Chunk", "FooterMap", "Pages", "Span", "parse_pages", "read_pages", "read_spans", "values_of"]
