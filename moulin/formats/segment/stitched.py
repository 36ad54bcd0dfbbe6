"""Presents a segment and its column files as one Parquet file: their bytes concatenated, with a common footer.

    base file | column file | column file ... | footer | length of the footer | "PAR1"

The bytes are not stored like that: `Stitched` reads each range from the file that has it. Column chunks of the base
file lie where its own footer says; those of a column file are moved behind what precedes it. So any Parquet reader can
read such a file, by row groups or by pages. All files have the same row groups.
"""

# Decisions: docs/decisions/0420

from __future__ import annotations

import io
import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa

from moulin.errors import Corrupt
from moulin.formats.segment import thrift
from moulin.formats.segment.footer import (
    CHECKSUM_KEY,
    NO_CHECKSUM,
    RESTORE,
    SCHEMA_KEY,
    read_footer,
    read_footer_bytes,
    sealed,
)
from moulin.formats.segment.index_checksums import BLOOM_KEY, PAGES_KEY
from moulin.model.schema.documents import schema_from_json
from moulin.model.schema.values import Schema

_MAGIC = b"PAR1"
_DIGITS = 8
_SCHEMA, _ROWS, _GROUPS, _ENTRIES, _ORDERS = 2, 3, 4, 5, 7  # fields of a footer
_CHUNKS, _GROUP_ROWS = 1, 3  # of a row group
_SIZES = (2, 6)  # its bytes, decoded and as stored
_META = 3  # of a column chunk
_MOVED = frozenset((2, 4, 6))  # addresses in a column chunk: of itself, its offset index, its column index
_INDEXES = frozenset((4, 5, 6, 7))
_META_MOVED = frozenset((9, 10, 11, 14))  # addresses in its metadata: of data, index, dictionary, bloom filter


def stored_name(field_id: int) -> str:
    """The name of a column in its file: columns are known by their ids, and a segment may have one of the same name."""
    return f"_moulin_column_{field_id}"


def stored_schema_of(source: pa.NativeFile, name: str) -> Schema:
    """The columns of a column file, as its footer says."""
    document = (read_footer(source, name).metadata or {}).get(SCHEMA_KEY.encode())
    if document is None:
        raise Corrupt(f"{name} does not say which columns it has. {RESTORE}")
    return schema_from_json(document)


class Part(NamedTuple):
    """One of the files: how many bytes it has, and how to open it."""

    name: str
    size: int
    open: Callable[[], pa.NativeFile]


class Stitched(io.RawIOBase):
    """The files as one. They are opened, and the footer is made, when they are first asked for. pyarrow locks it.

    Without `page_indexes` the footer does not name those of column files, whose addresses are those of their own file:
    this package knows what to make of them, other readers do not. `end_size` is how many bytes follow those of the
    files, if known, so that the footer needs no further request.
    """

    def __init__(self, parts: Sequence[Part], *, page_indexes: bool = True, end_size: int | None = None) -> None:
        self._parts, self._page_indexes, self._end_size = parts, page_indexes, end_size
        self._starts = [*accumulate((part.size for part in parts), initial=0)]
        self._files: dict[int, pa.NativeFile] = {}
        self._end: bytes | None = None
        self._position = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        if whence == os.SEEK_END:
            offset += self._starts[-1] + (len(self._footer()) if self._end_size is None else self._end_size)
        self._position = offset + (self._position if whence == os.SEEK_CUR else 0)
        return self._position

    def read(self, size: int | None = -1, /) -> bytes:
        start, stored = self._position, self._starts[-1]
        if size is None or size < 0:
            size = stored + len(self._footer()) - start
        at = bisect_right(self._starts, start) - 1
        if at < len(self._parts) and start + size <= self._starts[at + 1]:
            data: bytes = self._file(at).read_at(size, start - self._starts[at])
        else:
            data = b"".join(self._pieces(start, start + size))
        self._position = start + len(data)
        return data

    def _pieces(self, start: int, stop: int) -> Iterable[bytes]:
        for at in range(len(self._parts)):
            first, last = max(start, self._starts[at]), min(stop, self._starts[at + 1])
            if first < last:
                yield self._file(at).read_at(last - first, first - self._starts[at])
        if stop > (end := self._starts[-1]):
            yield self._footer()[max(start - end, 0) : stop - end]

    def _file(self, at: int) -> pa.NativeFile:
        if at not in self._files:
            self._files[at] = self._parts[at].open()
        return self._files[at]

    def _footer(self) -> bytes:
        """The bytes behind those of the files."""
        if self._end is None:
            footers = [read_footer_bytes(self._file(at), part.name)[0] for at, part in enumerate(self._parts)]
            moved = list(zip(footers, self._starts[:-1], strict=True))
            try:
                footer = stitched_footer(moved, page_indexes=self._page_indexes)
            except (IndexError, ValueError) as error:
                names = ", ".join(part.name for part in self._parts)
                raise Corrupt(f"{names} do not belong together: {error}. {RESTORE}") from error
            end = footer + len(footer).to_bytes(4, "little") + _MAGIC
            self._end = sealed(end) if CHECKSUM_KEY.encode() in footer else end
        return self._end

    def close(self) -> None:
        for file in self._files.values():
            file.close()
        super().close()


def open_stitched(parts: Sequence[Part], *, page_indexes: bool = True, end_size: int | None = None) -> pa.NativeFile:
    """The files as one file to read."""
    return pa.PythonFile(Stitched(parts, page_indexes=page_indexes, end_size=end_size), mode="r")


def stitched_footer(files: Sequence[tuple[bytes, int]], *, page_indexes: bool = True) -> bytes:
    """A footer for files with these footers, each with the address of its first byte; entries are those of the first.

    The checksum of the footer, if it has one, is still to be filled in. ValueError when the files do not fit together.
    """
    base = files[0][0]
    others = [_Columns(footer, start, page_indexes) for footer, start in files[1:]]
    leaves = [_leaves(base), *(one.leaves for one in others)]
    out, walk = bytearray(), thrift.Walk(base, 0)
    while True:
        header = walk.at
        if not walk.next():
            break
        value = walk.at
        walk.skip()
        out += base[header:value]
        match walk.number:
            case 2:
                out += _schema(base, value, others)
            case 4:
                out += _row_groups(base, value, others)
            case 5:
                out += _entries(base, value, [one.entries for one in others], leaves)
            case 7:
                out += _appended(base, value, walk.at, [one.orders for one in others])
            case _:
                out += base[value : walk.at]
    return bytes(out) + b"\0"


class _Columns:
    """What the footer of a column file adds: elements of the schema, and chunks of each row group, moved by `start`."""

    def __init__(self, footer: bytes, start: int, page_indexes: bool) -> None:
        self.elements: list[bytes] = []
        self.children = 0
        self.chunks: list[list[bytes]] = []
        self.rows: list[int] = []
        self.sizes: list[dict[int, int]] = []
        self.entries: dict[bytes, bytes] = {}
        self.orders: list[bytes] = []
        walk = thrift.Walk(footer, 0)
        while walk.next():
            at = walk.at
            walk.skip()
            if walk.number == _SCHEMA:
                root, *self.elements = _list(footer, at)
                self.children = _children(root)
            elif walk.number == _GROUPS:
                for group in _list(footer, at):
                    self._add_group(group, start, page_indexes)
            elif walk.number == _ENTRIES:
                self.entries = dict(map(_entry, _list(footer, at)))
            elif walk.number == _ORDERS:
                self.orders = _list(footer, at)
        self.leaves = _leaves(footer)

    def _add_group(self, group: bytes, start: int, page_indexes: bool) -> None:
        walk, chunks, rows, sizes = thrift.Walk(group, 0), [], 0, {}
        while walk.next():
            at = walk.at
            if walk.number == _CHUNKS:
                chunks = [_moved_chunk(chunk, start, page_indexes) for chunk in _list(group, at)]
                walk.skip()
            elif walk.number == _GROUP_ROWS:
                rows = walk.integer()
            elif walk.number in _SIZES:
                sizes[walk.number] = walk.integer()
            else:
                walk.skip()
        self.chunks.append(chunks)
        self.rows.append(rows)
        self.sizes.append(sizes)


def _list(data: bytes, at: int) -> list[bytes]:
    """The structs of the list at `at`, as they are written."""
    count, kind, at = thrift.elements(data, at)
    if kind != thrift.STRUCT:
        raise ValueError("a footer has a list that is not of structs")
    found = []
    for _ in range(count):
        end = thrift.skip(data, at, kind)
        found.append(data[at:end])
        at = end
    return found


def _appended(data: bytes, at: int, end: int, more: Sequence[Sequence[bytes]]) -> bytes:
    """The list of structs from `at` to `end`, with more at its end."""
    count, _, first = thrift.elements(data, at)
    count += sum(map(len, more))
    head = bytes([count << 4 | thrift.STRUCT]) if count < 15 else b"\xfc" + thrift.write_unsigned(count)
    return head + data[first:end] + b"".join(one for some in more for one in some)


def _leaves(footer: bytes) -> int:
    """How many leaf columns a file has."""
    walk = thrift.Walk(footer, 0)
    while walk.next():
        if walk.number == _SCHEMA:
            return sum(not _children(element) for element in _list(footer, walk.at))
        walk.skip()
    return 0


def _children(element: bytes) -> int:
    walk = thrift.Walk(element, 0)
    while walk.next():
        if walk.number == 5:
            return walk.integer()
        walk.skip()
    return 0


def _schema(base: bytes, at: int, others: Sequence[_Columns]) -> bytes:
    root, *elements = _list(base, at)
    children = _children(root) + sum(one.children for one in others)
    new = _edited(root, {5: lambda _: children})
    return thrift.write_list(thrift.STRUCT, [new, *elements, *(one for some in others for one in some.elements)])


def _edited(struct: bytes, edits: dict[int, Callable[[int], int]], dropped: frozenset[int] = frozenset()) -> bytes:
    """A struct with some of its numbers changed and fields left out; fields are renumbered as they are written."""
    out, walk, last = bytearray(), thrift.Walk(struct, 0), 0
    while walk.next():
        number, kind, at = walk.number, walk.kind, walk.at
        walk.skip()
        if number in dropped:
            continue
        delta = number - last
        out += bytes([delta << 4 | kind]) if 0 < delta < 16 else bytes([kind]) + thrift.write_signed(number)
        if number in edits:
            out += thrift.write_signed(edits[number](thrift.signed(struct, at)[0]))
        else:
            out += struct[at : walk.at]
        last = number
    return bytes(out) + b"\0"


def _moved_chunk(chunk: bytes, start: int, page_indexes: bool) -> bytes:
    """A column chunk whose addresses are `start` higher."""

    def move(address: int) -> int:
        return address + start

    out = _edited(chunk, dict.fromkeys(_MOVED, move), frozenset() if page_indexes else _INDEXES)
    walk = thrift.Walk(out, 0)
    while walk.next():
        at = walk.at
        walk.skip()
        if walk.number == _META:
            dropped = frozenset() if page_indexes else frozenset((14, 15))
            return out[:at] + _edited(out[at : walk.at], dict.fromkeys(_META_MOVED, move), dropped) + out[walk.at :]
    raise ValueError("a column chunk has no metadata")


def _row_groups(base: bytes, at: int, others: Sequence[_Columns]) -> bytes:
    groups = _list(base, at)
    if any(len(one.chunks) != len(groups) for one in others):
        raise ValueError("they have different numbers of row groups")
    return thrift.write_list(thrift.STRUCT, [_row_group(group, index, others) for index, group in enumerate(groups)])


def _row_group(group: bytes, index: int, others: Sequence[_Columns]) -> bytes:
    out, walk = bytearray(), thrift.Walk(group, 0)
    while True:
        header = walk.at
        if not walk.next():
            return bytes(out) + b"\0"
        value = walk.at
        walk.skip()
        out += group[header:value]
        if walk.number == _CHUNKS:
            out += _appended(group, value, walk.at, [one.chunks[index] for one in others])
        elif walk.number in _SIZES:
            more = sum(one.sizes[index].get(walk.number, 0) for one in others)
            out += thrift.write_signed(thrift.signed(group, value)[0] + more)
        else:
            if walk.number == _GROUP_ROWS:
                rows = thrift.signed(group, value)[0]
                if any(one.rows[index] != rows for one in others):
                    raise ValueError(f"row group {index} does not have the same rows in each")
            out += group[value : walk.at]


def _entry(struct: bytes) -> tuple[bytes, bytes]:
    """Key and value of an entry of a footer."""
    texts, walk = {1: b"", 2: b""}, thrift.Walk(struct, 0)
    while walk.next():
        length, at = thrift.unsigned(struct, walk.at)
        texts[walk.number] = struct[at : at + length]
        walk.skip()
    return texts[1], texts[2]


def _entries(base: bytes, at: int, others: Sequence[dict[bytes, bytes]], leaves: Sequence[int]) -> bytes:
    """The entries of the base file, with checksums for the chunks of all files, and room for that of the footer."""
    found = dict(map(_entry, _list(base, at)))
    for key in (PAGES_KEY.encode(), BLOOM_KEY.encode()):
        if key in found:
            found[key] = _interleaved([found[key], *(one.get(key, b"") for one in others)], leaves)
    checksum = CHECKSUM_KEY.encode()
    if checksum in found:
        del found[checksum]
        found[checksum] = NO_CHECKSUM.encode()  # the last entry
    written = [
        b"\x18" + thrift.write_unsigned(len(k)) + k + b"\x18" + thrift.write_unsigned(len(v)) + v + b"\0"
        for k, v in found.items()
    ]
    return thrift.write_list(thrift.STRUCT, written)


def _interleaved(texts: Sequence[bytes], leaves: Sequence[int]) -> bytes:
    """Checksums of the chunks of several files, those of a row group side by side; zeros for a file without any."""
    groups = len(texts[0]) // (_DIGITS * leaves[0]) if leaves[0] else 0
    full = [
        text if len(text) == _DIGITS * count * groups else b"0" * (_DIGITS * count * groups)
        for text, count in zip(texts, leaves, strict=True)
    ]
    return b"".join(
        text[_DIGITS * count * group : _DIGITS * count * (group + 1)]
        for group in range(groups)
        for text, count in zip(full, leaves, strict=True)
    )


__all__ = ["Part", "Stitched", "open_stitched", "stitched_footer", "stored_name", "stored_schema_of"]
