"""Files of secondary indexes: where in segments the values of a column are. Bytes: docs/formats/secondary_index.md.

A sorted file (`btree`) holds (value, segment, position) in the order of the values, in chunks with a directory. A
`bitmap` file holds (value, segment, positions) in the same order, and a `label_list` file the same of the elements of
lists. A `bloom` file holds for each segment a Bloom filter, which searches read, and the hash of each row, from which
the filters of compacted segments are made. Nulls have no entry.
"""

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import pairwise
from typing import Final

import google_crc32c
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moulin.errors import Corrupt, InvalidInput, Unsupported
from moulin.formats.index_bitmaps import body_bounds, decode_positions, group
from moulin.formats.key_index import Fetch, checked_footer, filter_holds, key_bytes, make_filter, read_tail
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Hashes, Integers

# DO NOT CHANGE THESE: they are in files.
_MAGIC: Final = b"MSIX"
_FORMAT: Final = 1
_FOOTER: Final = struct.Struct("<QQIIIHBBII4s")
_END: Final = _FOOTER.size + 4
_SEGMENT: Final = 24
_CHUNK: Final = 32
_FILTER_BLOCK: Final = 64

_CHUNK_ROWS: Final = 4096
_CHUNK_BYTES: Final = 64 << 10
_LIMIT: Final = 1 << 31

Span = tuple[bytes | None, bytes | None]
"""Values from the first to the second, both among them; None is open."""


class IndexKind(IntEnum):
    """What a file holds."""

    BTREE = 1
    BLOOM = 2
    BITMAP = 3
    LABEL_LIST = 4


@dataclass(frozen=True, slots=True)
class CoveredSegment:
    """A segment that a file covers: its number and all its rows, also those without an entry."""

    number: int
    rows: int


@dataclass(frozen=True, slots=True, eq=False)
class SegmentHashes:
    """The hashes of the values of a segment, by ascending position."""

    positions: Integers
    hashes: Hashes


def encode_sorted(
    encoding: int, segments: Sequence[CoveredSegment], values: pa.Array, indexes: Integers, positions: Integers
) -> bytes:
    """The file of encoded values, in any order. `indexes` says for each in which of `segments` it is."""
    width = values.type.byte_width if pa.types.is_fixed_size_binary(values.type) else 0
    by_segment = np.lexsort((positions, indexes))
    values = values.take(pa.array(by_segment))
    ranks = _order(values, width)
    order, values = by_segment[ranks], values.take(pa.array(ranks))
    indexes, positions = indexes[order].astype("<u4"), positions[order].astype("<i8")
    starts = _cuts(values, width)
    chunks = []
    for start, stop in pairwise([*starts, len(values)]):
        body = key_bytes(values.slice(start, stop - start), width)
        chunks.append((start, body + indexes[start:stop].tobytes() + positions[start:stop].tobytes()))
    counts = np.bincount(indexes, minlength=len(segments))
    firsts = key_bytes(values.take(pa.array(starts, pa.int64())), width)
    return _assemble(IndexKind.BTREE, encoding, width, segments, counts.tolist(), chunks, firsts)


def encode_bitmaps(
    kind: IndexKind,
    encoding: int,
    segments: Sequence[CoveredSegment],
    values: pa.Array,
    indexes: Integers,
    positions: Integers,
) -> bytes:
    """The bitmap or label-list file of encoded values, in any order; what is there twice counts once."""
    width = values.type.byte_width if pa.types.is_fixed_size_binary(values.type) else 0
    by_segment = np.lexsort((positions, indexes))
    values = values.take(pa.array(by_segment))
    ranks = _order(values, width)
    order, values = by_segment[ranks], values.take(pa.array(ranks))
    rows = np.asarray([segment.rows for segment in segments], np.int64)
    entries = group(values, indexes[order], positions[order], rows)
    chunks = list(entries.chunks(width))
    counts = np.bincount(entries.indexes, minlength=len(segments))
    firsts = key_bytes(entries.values.take(pa.array([start for start, _ in chunks], pa.int64())), width)
    return _assemble(kind, encoding, width, segments, counts.tolist(), chunks, firsts)


def encode_bloom(encoding: int, segments: Sequence[CoveredSegment], entries: Sequence[SegmentHashes]) -> bytes:
    """The file of the hashes of each of `segments`."""
    chunks, at = [], 0
    for segment, found in zip(segments, entries, strict=True):
        body = b""
        if len(found.positions) < segment.rows:
            present = np.zeros(segment.rows, np.bool_)
            present[found.positions] = True
            body = np.packbits(present, bitorder="little").tobytes()
        chunks += [(at, make_filter(found.hashes)), (at, body + found.hashes.astype("<u4").tobytes())]
        at += len(found.positions)
    counts = [len(found.positions) for found in entries]
    return _assemble(IndexKind.BLOOM, encoding, 0, segments, counts, chunks, b"")


def count_entries(data: bytes) -> int:
    """The entries of a file that one of the functions above made."""
    return int(_FOOTER.unpack_from(data, len(data) - _END)[1])


def _order(values: pa.Array, width: int) -> Integers:
    """Ascending; equal values stay as they are."""
    if width == 8:
        return np.argsort(np.frombuffer(key_bytes(values, width), ">u8").astype(np.uint64), kind="stable")
    found: Integers = np.asarray(pc.sort_indices(values)).astype(np.int64)
    return found


def _cuts(values: pa.Array, width: int) -> list[int]:
    average = width or (max(1, values.nbytes // len(values)) if len(values) else 1)
    return list(range(0, len(values), max(64, min(_CHUNK_ROWS, _CHUNK_BYTES // average))))


def _assemble(
    kind: IndexKind,
    encoding: int,
    width: int,
    segments: Sequence[CoveredSegment],
    counts: Sequence[int],
    bodies: Sequence[tuple[int, bytes]],
    firsts: bytes,
) -> bytes:
    if len({segment.number for segment in segments}) != len(segments):
        raise InvalidInput("An index file covers a segment once.")
    parts, table, at = [], [], 0
    for start, body in bodies:
        chunk = struct.pack("<I", len(body)) + pa.compress(body, codec="zstd", asbytes=True)
        table.append((at, len(chunk), start, google_crc32c.value(chunk)))
        parts.append(chunk)
        at += len(chunk)
    covered = [(s.number, s.rows, count) for s, count in zip(segments, counts, strict=True)]
    directory = np.asarray(covered, "<i8").tobytes() + np.asarray(table, "<u8").tobytes() + firsts
    footer = _FOOTER.pack(
        at, sum(counts), len(directory), len(covered), len(table), width, kind, encoding, _FORMAT,
        google_crc32c.value(directory), _MAGIC,
    )  # fmt: skip
    return b"".join([*parts, directory, footer, struct.pack("<I", google_crc32c.value(footer))])


@dataclass(frozen=True, slots=True, eq=False)
class _Values:
    """The sorted values of some consecutive entries."""

    values: pa.Array
    _numbers: npt.NDArray[np.uint64] | None

    def rows(self, span: Span) -> slice:
        """The entries whose values lie in a span."""
        low, high = span
        if self._numbers is not None:
            first = 0 if low is None else int(np.searchsorted(self._numbers, _number(low), side="left"))
            last = len(self._numbers) if high is None else int(np.searchsorted(self._numbers, _number(high), "right"))
            return slice(first, last)
        every, value = range(len(self.values)), self._value
        first = 0 if low is None else bisect_left(every, low, key=value)
        return slice(first, len(every) if high is None else bisect_right(every, high, key=value))

    def _value(self, index: int) -> bytes:
        found: bytes = self.values[index].as_py()
        return found


@dataclass(frozen=True, slots=True, eq=False)
class SortedChunk(_Values):
    """Some consecutive entries: value, index of its segment in the file's list, position."""

    indexes: Integers
    positions: Integers
    nbytes: int


@dataclass(frozen=True, slots=True, eq=False)
class BitmapChunk(_Values):
    """Some consecutive entries: value, index of its segment, and how many positions it has, which are unpacked late."""

    indexes: Integers
    counts: Integers
    nbytes: int
    _rows: Integers
    _bounds: Integers
    _body: bytes
    _name: str

    def positions(self, entry: int) -> Integers:
        """The positions of an entry, ascending."""
        body = self._body[int(self._bounds[entry]) : int(self._bounds[entry + 1])]
        found = decode_positions(body, int(self.counts[entry]), int(self._rows[entry]))
        if found is None:
            raise _damage(self._name, "has an entry whose positions contradict each other")
        return found


class IndexFile:
    """A file opened: the directory is held, chunks are read when asked for.

    `fetch(start, length)` reads the file of `size` bytes; `name` stands for it in messages. Safe to use from several
    threads when `fetch` is.
    """

    def __init__(self, fetch: Fetch, size: int, name: str) -> None:
        self._fetch, self._name = fetch, name
        if size < _END:
            raise self._damaged("is too short")
        tail_start, tail = read_tail(fetch, size)
        footer = checked_footer(tail, _END, _MAGIC)
        if footer is None:
            raise self._damaged("has a footer that fails its checksum")
        (at, self.entries, directory_size, segments, chunks, self.width, kind, self.encoding, version, directory_crc,
         _) = _FOOTER.unpack(footer)  # fmt: skip
        if version != _FORMAT or kind not in tuple(IndexKind):
            raise Unsupported(f"Index file {name} has format {version}, kind {kind}: use a newer version of Moulin.")
        self.kind = IndexKind(kind)
        if at + directory_size + _END != size or segments * _SEGMENT + chunks * _CHUNK > directory_size:
            raise self._damaged("has a footer that contradicts its length")
        directory = tail[at - tail_start : -_END] if at >= tail_start else fetch(at, directory_size)
        if google_crc32c.value(directory) != directory_crc:
            raise self._damaged("has a directory that fails its checksum")
        self._read_directory(directory, segments, chunks, at)
        self.nbytes = len(directory)

    def _read_directory(self, directory: bytes, segments: int, chunks: int, end: int) -> None:
        covered = np.frombuffer(directory, "<i8", segments * 3).reshape(-1, 3).astype(np.int64)
        self.numbers, self.rows, self.counts = (covered[:, column] for column in range(3))
        self.index_of = {number: index for index, number in enumerate(self.numbers.tolist())}
        table = np.frombuffer(directory, "<u8", chunks * 4, segments * _SEGMENT).reshape(-1, 4)
        if (table >= 1 << 62).any():
            raise self._damaged("has a directory that names impossible positions")
        self._offsets, self._lengths, self._starts, self._crcs = (table[:, n].astype(np.int64) for n in range(4))
        ends = np.cumsum(self._lengths)
        gaps = not np.array_equal(self._offsets, ends - self._lengths) or (int(ends[-1]) if chunks else 0) != end
        counts = self.counts < 0
        if self.kind is not IndexKind.LABEL_LIST:
            counts |= self.counts > self.rows
        if gaps or counts.any() or int(self.counts.sum()) != self.entries or len(self.index_of) != segments:
            raise self._damaged("has a directory that contradicts itself")
        rest = directory[segments * _SEGMENT + chunks * _CHUNK :]
        self._firsts: list[bytes] = []
        self.chunks = chunks
        if self.kind is IndexKind.BLOOM:
            if chunks != 2 * segments or rest:
                raise self._damaged("has a directory that contradicts itself")
            return
        steps = np.diff(self._starts, append=self.entries)
        if (steps <= 0).any() or (chunks and self._starts[0] != 0) or (self.entries and not chunks):
            raise self._damaged("has chunks that do not follow each other")
        self._firsts = self._decode_values(rest, chunks).to_pylist()

    # Sorted files

    def chunks_of(self, spans: Sequence[Span]) -> dict[int, list[Span]]:
        """The chunks that may hold values of these spans, each with those spans."""
        self._require(IndexKind.BTREE, IndexKind.BITMAP, IndexKind.LABEL_LIST)
        found: dict[int, list[Span]] = {}
        for low, high in spans:
            first = 0 if low is None else max(0, bisect_left(self._firsts, low) - 1)
            for chunk in range(first, self.chunks if high is None else bisect_right(self._firsts, high)):
                found.setdefault(chunk, []).append((low, high))
        return found

    def entries_of(self, chunk: int) -> int:
        """How many entries a chunk has."""
        return int(self._starts[chunk + 1] if chunk + 1 < self.chunks else self.entries) - int(self._starts[chunk])

    def load_sorted(self, chunk: int) -> SortedChunk:
        """Read one chunk of a sorted file."""
        self._require(IndexKind.BTREE)
        rows, body = self.entries_of(chunk), self._load(chunk)
        fixed = len(body) - 12 * rows
        if fixed < 0:
            raise self._damaged(f"has a chunk at byte {int(self._offsets[chunk])} that is cut short")
        values = self._decode_values(body[:fixed], rows)
        indexes = np.frombuffer(body, "<u4", rows, fixed).astype(np.int64)
        positions = np.frombuffer(body, "<i8", rows, fixed + 4 * rows).astype(np.int64)
        known = indexes < len(self.numbers)
        if not known.all() or (positions < 0).any() or (positions >= self.rows[indexes]).any():
            raise self._damaged(f"has a chunk at byte {int(self._offsets[chunk])} that names rows that are not there")
        return SortedChunk(values, self._numbers(body, rows), indexes, positions, len(body))

    def load_bitmaps(self, chunk: int) -> BitmapChunk:
        """Read one chunk of a bitmap or label-list file."""
        self._require(IndexKind.BITMAP, IndexKind.LABEL_LIST)
        entries, body = self.entries_of(chunk), self._load(chunk)
        head = self._values_size(body, entries)
        if head + 8 * entries > len(body):
            raise self._damaged(f"has a chunk at byte {int(self._offsets[chunk])} that is cut short")
        values = self._decode_values(body[:head], entries)
        indexes, counts = (np.frombuffer(body, "<u4", entries, head + n * entries).astype(np.int64) for n in (0, 4))
        if (indexes >= len(self.numbers)).any() or (counts == 0).any() or (counts > self.rows[indexes]).any():
            raise self._damaged(f"has a chunk at byte {int(self._offsets[chunk])} that names rows that are not there")
        rows = self.rows[indexes]
        bounds = head + 8 * entries + body_bounds(counts, rows)
        if int(bounds[-1]) != len(body):
            raise self._damaged(f"has a chunk at byte {int(self._offsets[chunk])} of the wrong length")
        numbers = self._numbers(body, entries)
        return BitmapChunk(values, numbers, indexes, counts, len(body), rows, bounds, body, self._name)

    def _numbers(self, body: bytes, entries: int) -> npt.NDArray[np.uint64] | None:
        return np.frombuffer(body, ">u8", entries).astype(np.uint64) if self.width == 8 else None

    def _values_size(self, body: bytes, entries: int) -> int:
        """How many bytes at the beginning of a chunk are values."""
        if self.width:
            return int(self.width) * entries
        head = 4 * (entries + 1)
        return head + (int(struct.unpack_from("<I", body, head - 4)[0]) if len(body) >= head else 0)

    # Bloom files

    def load_filter(self, segment: int) -> npt.NDArray[np.uint8]:
        """The Bloom filter of a segment, for `filter_holds`."""
        self._require(IndexKind.BLOOM)
        body = self._load(2 * self.index_of[segment])
        if not body or len(body) % _FILTER_BLOCK:
            raise self._damaged(f"has a filter of {len(body)} bytes for segment {segment}")
        return np.frombuffer(body, np.uint8)

    def load_hashes(self, segment: int) -> SegmentHashes:
        """The hashes of a segment."""
        self._require(IndexKind.BLOOM)
        index = self.index_of[segment]
        body, count, rows = self._load(2 * index + 1), int(self.counts[index]), int(self.rows[index])
        bitmap = 0 if count == rows else (rows + 7) // 8
        if len(body) != bitmap + 4 * count:
            raise self._damaged(f"has {len(body)} bytes of hashes for segment {segment}")
        positions = np.arange(rows, dtype=np.int64)
        if bitmap:
            bits = np.unpackbits(np.frombuffer(body, np.uint8, bitmap), count=rows, bitorder="little")
            positions = np.flatnonzero(bits)
        if len(positions) != count:
            raise self._damaged(f"has {len(positions)} positions for {count} hashes of segment {segment}")
        return SegmentHashes(positions, np.frombuffer(body, "<u4", count, bitmap).astype(np.uint32))

    def verify(self) -> None:
        """Read everything. Raises Corrupt, naming the first chunk that is damaged."""
        if self.kind is IndexKind.BLOOM:
            for number in self.index_of:
                self.load_filter(number)
                self.load_hashes(number)
            return
        counts = np.zeros(len(self.numbers), np.int64)
        last = b""
        for chunk in self.every() if self.kind is IndexKind.BTREE else self.every_bitmap():
            if isinstance(chunk, BitmapChunk):
                for entry in range(len(chunk.counts)):
                    chunk.positions(entry)
            counts += np.bincount(chunk.indexes, minlength=len(counts))
            values = chunk.values.to_pylist()
            if values != sorted(values) or values[0] < last:
                raise self._damaged("has values that are not in order")
            last = values[-1]
        if not np.array_equal(counts, self.counts):
            raise self._damaged("has other entries than its directory says")

    def every(self) -> Iterator[SortedChunk]:
        """All chunks of a sorted file, one after the other."""
        for chunk in range(self.chunks):
            yield self.load_sorted(chunk)

    def every_bitmap(self) -> Iterator[BitmapChunk]:
        """All chunks of a bitmap or label-list file, one after the other."""
        for chunk in range(self.chunks):
            yield self.load_bitmaps(chunk)

    def _require(self, *kinds: IndexKind) -> None:
        if self.kind not in kinds:
            raise InvalidInput(f"Index file {self._name} is of kind {self.kind.name.lower()}.")

    def _load(self, chunk: int) -> bytes:
        at = int(self._offsets[chunk])
        data = self._fetch(at, int(self._lengths[chunk]))
        if len(data) < 4 or google_crc32c.value(data) != int(self._crcs[chunk]):
            raise self._damaged(f"has a chunk at byte {at} that fails its checksum")
        size = struct.unpack_from("<I", data)[0]
        if size > _LIMIT:
            raise self._damaged(f"has a chunk at byte {at} of impossible size")
        try:
            body: bytes = pa.decompress(data[4:], decompressed_size=size, codec="zstd", asbytes=True)
        except (pa.ArrowException, OSError) as error:
            raise self._damaged(f"has a chunk at byte {at} that cannot be decoded ({error})") from error
        return body

    def _decode_values(self, data: bytes, rows: int) -> pa.Array:
        if self.width:
            if len(data) != rows * self.width:
                raise self._damaged("has values of the wrong length")
            return pa.Array.from_buffers(pa.binary(self.width), rows, [None, pa.py_buffer(data)])
        head = 4 * (rows + 1)
        if len(data) < head:
            raise self._damaged("has values that are cut short")
        ends = np.frombuffer(data, "<u4", rows + 1)
        if ends[0] != 0 or int(ends[-1]) != len(data) - head or bool((ends[1:] < ends[:-1]).any()):
            raise self._damaged("has values whose ends contradict each other")
        buffers = [None, pa.py_buffer(data[:head]), pa.py_buffer(data[head:])]
        return pa.Array.from_buffers(pa.binary(), rows, buffers)

    def _damaged(self, what: str) -> Corrupt:
        return _damage(self._name, what)


def _damage(name: str, what: str) -> Corrupt:
    return Corrupt(f"Index file {name} {what}. Drop the index and make it again.")


def _number(value: bytes) -> np.uint64:
    return np.uint64(int.from_bytes(value, "big"))


__all__ = [
    "BitmapChunk",
    "CoveredSegment",
    "IndexFile",
    "IndexKind",
    "SegmentHashes",
    "SortedChunk",
    "Span",
    "count_entries",
    "encode_bitmaps",
    "encode_bloom",
    "encode_sorted",
    "filter_holds",
]
