"""Reads some pages of flat columns: pyarrow decodes whole row groups, so the pages become a small file of their own.

The file has the pages and dictionaries as they are stored, checksums included, and a footer that names no others. So
pyarrow decodes and checks them as it does those of the segment.
"""

# Decisions: docs/decisions/0310, docs/decisions/0314, docs/decisions/0600

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from moulin.formats.segment import thrift
from moulin.formats.segment.opened import OpenedFile
from moulin.formats.segment.page_index import Chunk, Pages, read_pages, read_spans, values_of
from moulin.formats.segment.wide_texts import is_text, narrowed, open_parquet
from moulin.model.columns.arrays import Integers
from moulin.model.rows.numbers import int64_array

_Values = TypeVar("_Values", pa.ChunkedArray, pa.Table)

Rows = Mapping[int, Integers]
"""Rows to read: by row group, in the order of the file, ascending numbers within it."""

_MAGIC = b"PAR1"
_WIDE_ROWS = 1 << 13  # texts of fewer are read with the other columns
_HEADER_BYTES = 256  # a page's header with its statistics is mostly smaller


@dataclass(frozen=True, slots=True)
class _Part:
    """Pages of one column chunk, and where the wanted rows are among the rows of these pages.

    `needed` are the rows up to the last wanted one, if no other part follows, else all: pyarrow may leave the rest of
    the last page alone.
    """

    chunk: Chunk
    pages: Pages
    touched: Integers
    rows: int
    needed: int
    places: Integers


class PageReader:
    """Pages of a segment. A reader belongs to one thread.

    `read(start, length)` reads bytes of the file; it is called once for pages that lie at most `near` bytes apart.
    """

    def __init__(
        self, opened: OpenedFile, read: Callable[[int, int], bytes], *, near: int, verify: bool, trust: bool = False
    ) -> None:
        self._map, self._group_rows, self._pages = opened.map, opened.group_rows, opened.pages
        self._names, self._types = opened.arrow.names, opened.arrow.types
        self._read, self._near, self._verify, self._trust = read, near, verify, trust

    def columns(
        self, rows: Rows, wanted: Sequence[tuple[int, int]], coded: Collection[int] = ()
    ) -> dict[int, pa.ChunkedArray]:
        """The values at `rows` of those columns of which these are on few pages, on less than three quarters of all.

        `wanted` are pairs of a column and its leaf. Columns that are not flat are left out. Those in `coded`, which are
        texts stored with a dictionary, are not made into texts before the wanted rows are chosen.
        """
        parts = {column: found for column, leaf in wanted if (found := self._plan(rows, column, leaf)) is not None}
        return self._columns(parts, coded) if parts else {}

    def _plan(self, rows: Rows, column: int, leaf: int) -> list[_Part] | None:
        if len(self._map.columns[column]) != 1:
            return None
        parts, chosen, whole = [], 0, 0
        for group, local in rows.items():
            key = (group, leaf)
            chunk = self._map.chunk(group, leaf)
            if key not in self._pages:
                self._pages[key] = read_pages(chunk, self._group_rows[group], self._read)
            pages = self._pages[key]
            if pages is None:
                return None
            part = _part(chunk, pages, local)
            parts.append(part)
            chosen += int(pages.sizes[part.touched].sum())
            whole += chunk.size - (chunk.data_start - chunk.start)
        if 4 * chosen >= 3 * whole:
            return None
        return [*parts[:-1], replace(parts[-1], needed=int(parts[-1].places[-1]) + 1)]

    def _columns(self, parts: Mapping[int, list[_Part]], coded: Collection[int]) -> dict[int, pa.ChunkedArray]:
        body, groups = _Body(), []
        usable = dict(parts)
        written: dict[int, list[bytes]] = {}
        for column, chunks in parts.items():
            pieces = [self._append(body, part) for part in chunks]
            if any(piece is None for piece in pieces):
                del usable[column]  # its offset index is wrong: the caller reads all of it
            else:
                written[column] = [piece for piece in pieces if piece is not None]
        if not usable:
            return {}
        for at in range(len(next(iter(usable.values())))):
            chunks_of = [written[column][at] for column in usable]
            rows = max(chunks[at].needed for chunks in usable.values())
            groups.append(write_group(chunks_of, rows))
        body.add([write_footer([self._map.columns[column][0] for column in usable], len(usable), groups)])
        files = _Files(body, [self._names[column] for column in usable if column in coded], verify=self._verify)
        found = {}
        for index, (column, chunks) in enumerate(usable.items()):
            many = sum(part.rows for part in chunks) >= _WIDE_ROWS
            wide = many and column not in coded and is_text(self._types[column])
            values = narrowed(_chosen(files.read(index, wide=True), chunks)) if wide else None
            found[column] = values if values is not None else _chosen(files.read(index, wide=False), chunks)
        return found

    def _append(self, body: _Body, part: _Part) -> bytes | None:
        """Add the pages of a part to a file; returns its column chunk for the footer. None when a page does not have
        the rows that the offset index says."""
        chunk, pages, touched = part.chunk, part.pages, part.touched
        spans = [(chunk.start, chunk.data_start - chunk.start)] if chunk.start < chunk.data_start else []
        spans += zip(pages.offsets[touched].tolist(), pages.sizes[touched].tolist(), strict=True)
        found = list(read_spans(self._read, spans, self._near))
        if not (self._trust and pages.checked[touched].all()):
            counts = np.diff(pages.first_rows)[touched].tolist()
            if any(_values(page) != count for page, count in zip(found[-len(counts) :], counts, strict=True)):
                return None
            pages.checked[touched] = True
        start = body.size
        body.add(found)
        dictionary = chunk.data_start - chunk.start
        return write_chunk(chunk, part.needed, body.size - start, start + dictionary, start)


class _Body:
    """The bytes of a file, copied once, when all are known."""

    def __init__(self) -> None:
        self.size, self._parts = len(_MAGIC), [memoryview(_MAGIC)]

    def add(self, parts: Iterable[bytes | memoryview]) -> None:
        for part in parts:
            self._parts.append(memoryview(part))
            self.size += len(part)

    @cached_property
    def whole(self) -> pa.Buffer:
        return pa.py_buffer(b"".join(self._parts))


class _Files:
    """A body as pyarrow opens it: with some columns as codes, or with wide texts."""

    def __init__(self, body: _Body, dictionaries: Sequence[str], *, verify: bool) -> None:
        self._body, self._dictionaries, self._verify = body, dictionaries, verify
        self._open: dict[bool, pq.ParquetFile] = {}

    def read(self, column: int, *, wide: bool) -> pa.ChunkedArray:
        if wide not in self._open:
            source, dictionaries = pa.BufferReader(self._body.whole), () if wide else self._dictionaries
            self._open[wide] = open_parquet(source, verify=self._verify, dictionaries=dictionaries, wide=wide)
        return self._open[wide].reader.read_column(column)


def _part(chunk: Chunk, pages: Pages, local: Integers) -> _Part:
    of_row = np.searchsorted(pages.first_rows, local, side="right") - 1
    touched = of_row[np.flatnonzero(np.diff(of_row, prepend=-1))]
    rows = np.diff(pages.first_rows)[touched]
    before = np.cumsum(rows) - rows
    places = before[np.searchsorted(touched, of_row)] + local - pages.first_rows[of_row]
    total = int(rows.sum())
    return _Part(chunk, pages, touched, total, total, places)


def _chosen(values: pa.ChunkedArray, parts: Sequence[_Part]) -> pa.ChunkedArray:
    """The wanted rows out of those of all pages that were read."""
    total = sum(part.rows for part in parts)
    if not sum(part.needed for part in parts) <= len(values) <= total:
        raise ValueError(f"pages hold {len(values)} rows where the offset index says {total}")
    starts = np.cumsum([0, *(part.rows for part in parts)])
    places = np.concatenate([part.places + start for part, start in zip(parts, starts, strict=False)])
    return taken(values, places)


def taken(values: _Values, places: Integers) -> _Values:
    """The rows at ascending places. A row, or rows side by side, need nothing of Arrow's kernels, which load slowly."""
    if len(places) and places[-1] - places[0] + 1 == len(places):
        return values.slice(int(places[0]), len(places))
    return values.take(int64_array(places))


def _values(page: memoryview) -> int:
    for header in (page[:_HEADER_BYTES], page):
        with suppress(IndexError, ValueError):
            return values_of(bytes(header), len(page))
    return -1


def write_chunk(chunk: Chunk, values: int, size: int, data_start: int, start: int) -> bytes:
    """A column chunk like `chunk` for a footer, whose bytes lie elsewhere. `start` is that of a dictionary, or of the
    data if there is none."""
    numbers = _number(1, values) + _number(1, size) + _number(1, size) + _number(2, data_start)
    numbers += _number(2, start) if start < data_start else b""
    return _number(2, 0) + b"\x1c" + chunk.head + numbers + b"\0\0"


def write_group(chunks: list[bytes], rows: int) -> bytes:
    """A row group for a footer."""
    return b"\x19" + thrift.write_list(thrift.STRUCT, chunks) + _number(1, 0) + _number(1, rows) + b"\0"


def write_footer(elements: Sequence[bytes], columns: int, groups: list[bytes]) -> bytes:
    """The end of a Parquet file of so many top-level columns, whose schema has these elements."""
    root = b"\x48\x06schema" + b"\x15" + thrift.write_signed(columns) + b"\0"
    footer = b"\x15\x04\x19" + thrift.write_list(thrift.STRUCT, [root, *elements]) + _number(1, 0)
    footer += b"\x19" + thrift.write_list(thrift.STRUCT, groups) + b"\0"
    return footer + len(footer).to_bytes(4, "little") + _MAGIC


def _number(delta: int, value: int) -> bytes:
    """A field with a number, `delta` after the field before."""
    return bytes([delta << 4 | 6]) + thrift.write_signed(value)


__all__ = ["PageReader", "Rows", "write_chunk", "write_footer", "write_group"]
