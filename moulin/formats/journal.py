"""The rewrite journal: the new position of each input row of a compaction. Layout: docs/formats/journal.md.

Every slice of a compaction writes one journal, which covers ranges [start, stop) of the input segments and gives for
each position its address in an output, or records that the row was dropped. `JournalSet` merges the journals of one
compaction, `follow` maps positions through successive compactions.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moulin.errors import Corrupt, InvalidInput, Unsupported
from moulin.model.columns.arrays import Integers

MAGIC = b"MJNL"
FORMAT = 1
CHUNK_ROWS = 65_536
POSITION_BITS = 40
MAX_OUTPUTS = 1 << 20
DROPPED = -1

_FIXED = struct.Struct("<4sIIIII")
_CRC = struct.Struct("<I")
_ENTRY = np.dtype([("segment", "<i8"), ("vector", "<i8"), ("start", "<i8"), ("count", "<i8")])
_CHUNK = np.dtype([("length", "<u4"), ("crc", "<u4")])
_LEVEL = 1


@dataclass(frozen=True, slots=True, eq=False)
class JournalEntry:
    """What became of the positions [start, start + len(addresses)) of one input segment.

    `vector_id` is the deletion vector the compaction read the segment with, 0 for none. `addresses` are int64, packed
    as `pack` does: index into the journal's outputs << 40 | position in that output, or -1 for a dropped row. No two
    kept rows of a compaction share an address.
    """

    segment: int
    vector_id: int
    start: int
    addresses: Integers


def pack(output: int | npt.NDArray[Any], positions: npt.NDArray[Any]) -> Integers:
    """Addresses of positions in the outputs of these indexes. Raises InvalidInput for a position outside [0, 2**40)."""
    indexes, rows = np.asarray(output, dtype=np.int64), np.asarray(positions, dtype=np.int64)
    if indexes.size and not 0 <= int(indexes.min()) <= int(indexes.max()) < MAX_OUTPUTS:
        raise InvalidInput(f"An output index lies outside [0, {MAX_OUTPUTS}).")
    if rows.size and not 0 <= int(rows.min()) <= int(rows.max()) < 1 << POSITION_BITS:
        raise InvalidInput(f"Output positions from {rows.min()} to {rows.max()} do not lie in [0, 2**{POSITION_BITS}).")
    return (indexes << POSITION_BITS) | rows


def encode_journal(outputs: Sequence[int], entries: Sequence[JournalEntry]) -> bytes:
    """The journal of one slice. Equal input gives equal bytes; entries without addresses are left out.

    Raises InvalidInput when outputs repeat, when slices of a segment overlap or differ in their vector, or when an
    address names no output.
    """
    ordered = sorted(
        (entry for entry in entries if len(entry.addresses)), key=lambda entry: (entry.segment, entry.start)
    )
    try:
        numbers = np.array(outputs, dtype="<i8")
        table = np.array([(e.segment, e.vector_id, e.start, len(e.addresses)) for e in ordered], dtype=_ENTRY)
    except OverflowError as error:
        raise InvalidInput("A segment number, vector id or start of the journal is 2**63 or more.") from error
    if problem := _find_problem(numbers, table):
        raise InvalidInput(f"The journal cannot be written: {problem}.")
    codec = pa.Codec("zstd", compression_level=_LEVEL)
    bodies = [
        codec.compress(_chunk_deltas(entry, first, len(numbers)), asbytes=True)
        for entry in ordered
        for first in range(0, len(entry.addresses), CHUNK_ROWS)
    ]
    chunks = np.array([(len(body), zlib.crc32(body)) for body in bodies], dtype=_CHUNK)
    tables = numbers.tobytes() + table.tobytes() + chunks.tobytes()
    size = _FIXED.size + len(tables) + _CRC.size
    header = _FIXED.pack(MAGIC, FORMAT, size, len(numbers), len(table), len(chunks)) + tables
    return b"".join([header, _CRC.pack(zlib.crc32(header)), *bodies])


class _Header(NamedTuple):
    """A valid header: output numbers, the tables of entries and chunks, and its length."""

    outputs: Integers
    entries: npt.NDArray[Any]
    chunks: npt.NDArray[Any]
    size: int


class _Coverage:
    """Slices of input segments, cut into chunks and sorted by (segment, start), and the search in them."""

    def __init__(self, segments: Integers, vectors: Integers, starts: Integers, stops: Integers) -> None:
        self._segments, self._vectors, self._starts, self._stops = segments, vectors, starts, stops

    def _addresses(self, chunk: int) -> tuple[Integers, Integers]:
        """The addresses of one chunk, and the output numbers they index, followed by -1."""
        raise NotImplementedError

    def segments(self) -> list[int]:
        """The input segments, ascending."""
        return list(dict.fromkeys(self._segments.tolist()))

    def vector_id(self, segment: int) -> int:
        """The deletion vector that the compaction read this input with, 0 for none."""
        return int(self._vectors[self._find(segment).start])

    def coverage(self, segment: int) -> list[tuple[int, int]]:
        """The ranges [start, stop) of this input's positions that are covered, ascending, as few as possible."""
        found = self._find(segment)
        starts, stops = self._starts[found], self._stops[found]
        joined = starts[1:] == stops[:-1]
        firsts, lasts = starts[np.append(True, ~joined)], stops[np.append(~joined, True)]
        return list(zip(firsts.tolist(), lasts.tolist(), strict=True))

    def lookup(self, segment: int, positions: npt.NDArray[Any]) -> tuple[Integers, Integers]:
        """Output segment and position of each of these positions, -1 and -1 for a dropped row; decodes no other chunk.

        Raises InvalidInput when the segment is no input or a position is not covered, Corrupt for a damaged chunk.
        """
        asked = _as_positions(positions)
        found = self._find(segment)
        chunk_of = np.searchsorted(self._starts[found], asked, side="right") - 1
        outside = (chunk_of < 0) | (asked >= self._stops[found][chunk_of])
        if outside.any():
            raise InvalidInput(
                f"Position {asked[outside.argmax()]} of segment {segment} is not covered by the journal, "
                f"which covers {self.coverage(segment)}: ask the journal of the task that read it."
            )
        segments, outputs = np.empty_like(asked), np.empty_like(asked)
        for chunk, rows in _groups(chunk_of):
            addresses, numbers = self._addresses(found.start + chunk)
            packed = addresses[asked[rows] - self._starts[found.start + chunk]]
            # A dropped row has index -1 too, and the last of the numbers is -1.
            segments[rows] = numbers[packed >> POSITION_BITS]
            outputs[rows] = np.where(packed < 0, DROPPED, packed & ((1 << POSITION_BITS) - 1))
        return segments, outputs

    def _find(self, segment: int) -> slice:
        first, last = (int(np.searchsorted(self._segments, segment, side=side)) for side in ("left", "right"))
        if first == last:
            raise InvalidInput(f"Segment {segment} is not an input of the compaction that wrote this journal.")
        return slice(first, last)


class Journal(_Coverage):
    """One decoded journal. The header was checked when it was made; a chunk is checked when it is needed."""

    def __init__(self, data: bytes, source: str, header: _Header) -> None:
        entries, chunks = header.entries, header.chunks
        per_entry = -(-entries["count"] // CHUNK_ROWS)
        entry_of = np.repeat(np.arange(len(entries)), per_entry)
        ordinals = np.arange(len(chunks)) - np.repeat(np.cumsum(per_entry) - per_entry, per_entry)
        starts = entries["start"][entry_of] + ordinals * CHUNK_ROWS
        stops = np.minimum(starts + CHUNK_ROWS, (entries["start"] + entries["count"])[entry_of])
        super().__init__(entries["segment"][entry_of], entries["vector"][entry_of], starts, stops)
        self._data, self._source, self._chunks = data, source, chunks
        self._ends = header.size + np.cumsum(chunks["length"], dtype=np.int64)
        self._numbers = np.append(header.outputs, DROPPED)

    @classmethod
    def decode(cls, data: bytes, *, source: str = "The journal") -> Journal:
        """A journal from all its bytes; `source` names it in messages.

        Raises Corrupt unless header and length are valid as docs/formats/journal.md defines it, Unsupported for a newer
        format.
        """
        return cls(data, source, _read_header(data, source))

    @property
    def outputs(self) -> tuple[int, ...]:
        return tuple(self._numbers[:-1].tolist())

    def verify(self) -> None:
        """Check every chunk. Raises Corrupt, naming the first that is damaged."""
        for chunk in range(len(self._chunks)):
            self._addresses(chunk)

    def _addresses(self, chunk: int) -> tuple[Integers, Integers]:
        length, crc = (int(value) for value in self._chunks[chunk])
        rows, end = int(self._stops[chunk] - self._starts[chunk]), int(self._ends[chunk])
        body = memoryview(self._data)[end - length : end]
        where = f"chunk {chunk} at offset {end - length}"
        if (found := zlib.crc32(body)) != crc:
            raise _damaged(self._source, f"{where} has CRC32 {found:08x} where {crc:08x} is stored")
        try:
            planes = np.frombuffer(pa.Codec("zstd").decompress(body, 8 * rows), dtype=np.uint8)
        except (OSError, ValueError) as error:
            raise _damaged(self._source, f"{where} is not {8 * rows} bytes of zstd ({error})") from error
        deltas = _join_planes(planes.reshape(8, rows))
        addresses = np.cumsum(deltas, dtype=np.int64) - 1
        kept = deltas != 0
        if ((addresses < 0) & kept).any() or int(addresses.max()) >> POSITION_BITS >= len(self._numbers) - 1:
            raise _damaged(self._source, f"{where} has an address in none of the {len(self._numbers) - 1} outputs")
        return np.where(kept, addresses, DROPPED), self._numbers


class JournalSet(_Coverage):
    """The journals of all slices of one compaction, asked as one.

    Raises InvalidInput when two of them cover the same position, or name different vectors for one input.
    """

    def __init__(self, journals: Sequence[Journal]) -> None:
        none = np.empty(0, dtype=np.int64)
        segments = np.concatenate([none, *(journal._segments for journal in journals)])
        starts = np.concatenate([none, *(journal._starts for journal in journals)])
        stops = np.concatenate([none, *(journal._stops for journal in journals)])
        vectors = np.concatenate([none, *(journal._vectors for journal in journals)])
        order = np.lexsort((starts, segments))
        super().__init__(segments[order], vectors[order], starts[order], stops[order])
        if problem := _find_overlap(self._segments, self._vectors, self._starts, self._stops):
            raise InvalidInput(f"These journals are not of one compaction: {problem}.")
        sizes = [len(journal._segments) for journal in journals]
        self._journals = tuple(journals)
        self._owners = np.repeat(np.arange(len(sizes)), sizes)[order]
        self._chunks = (np.arange(sum(sizes)) - np.repeat(np.cumsum([0, *sizes])[:-1], sizes))[order]

    @property
    def outputs(self) -> tuple[int, ...]:
        """The outputs of all tasks, in the order of the journals."""
        return tuple(number for journal in self._journals for number in journal.outputs)

    def _addresses(self, chunk: int) -> tuple[Integers, Integers]:
        return self._journals[int(self._owners[chunk])]._addresses(int(self._chunks[chunk]))


def follow(
    chain: Sequence[Journal | JournalSet], segment: int, positions: npt.NDArray[Any]
) -> tuple[Integers, Integers]:
    """Where these positions of a segment are after the compactions of `chain`, oldest first; -1 and -1 where dropped.

    A segment that a compaction did not take as input stays where it is. Raises as `lookup` does.
    """
    asked = _as_positions(positions).copy()
    segments = np.full(len(asked), segment, dtype=np.int64)
    for journals in chain:
        inputs = set(journals.segments())
        for current, rows in list(_groups(segments)):
            if current in inputs:
                segments[rows], asked[rows] = journals.lookup(current, asked[rows])
    return segments, asked


def _groups(values: Integers) -> Iterator[tuple[int, slice | npt.NDArray[np.intp]]]:
    """Each distinct value, ascending, and where it stands: a slice if the values ascend already, else the indexes."""
    ascending = bool((values[1:] >= values[:-1]).all())
    order = np.arange(0) if ascending else np.argsort(values, kind="stable")
    ordered = values if ascending else values[order]
    cuts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    for first, last in pairwise([0, *cuts.tolist(), len(values)]):
        if first < last:
            yield int(ordered[first]), slice(first, last) if ascending else order[first:last]


def _as_positions(positions: npt.NDArray[Any]) -> Integers:
    found = np.asarray(positions)
    if found.ndim != 1 or (found.dtype.kind not in "iu" and found.size):
        raise InvalidInput(f"Positions must be one array of integers, not {found.dtype} of {found.ndim} dimensions.")
    return found.astype(np.int64, copy=False)


def _chunk_deltas(entry: JournalEntry, first: int, outputs: int) -> bytes:
    """The deltas of one chunk, as eight planes: first the lowest byte of each, then the next."""
    addresses = entry.addresses[first : first + CHUNK_ROWS]
    if addresses.dtype != np.int64 or addresses.ndim != 1:
        raise InvalidInput(
            f"The addresses of segment {entry.segment} are {addresses.dtype}: they must be one int64 array."
        )
    kept = addresses != DROPPED
    values = addresses[kept]
    steps = np.diff(values, prepend=DROPPED)
    if values.size and (int(values.min()) < 0 or int(values.max()) >> POSITION_BITS >= outputs):
        raise InvalidInput(
            f"An address of segment {entry.segment} lies in none of the {outputs} outputs of its journal."
        )
    if not steps.all():
        raise InvalidInput(f"Two rows of segment {entry.segment} have the same address in the journal.")
    deltas = np.zeros(len(addresses), dtype="<i8")
    deltas[kept] = steps
    return np.ascontiguousarray(deltas.view(np.uint8).reshape(-1, 8).T).tobytes()


def _join_planes(planes: npt.NDArray[np.uint8]) -> Integers:
    """The 64-bit integers of eight byte planes, in a way that costs little for planes of zeros, which most are."""
    joined: Integers = planes[0].astype(np.int64)
    for number, plane in enumerate(planes[1:], start=1):
        if plane.any():
            joined |= plane.astype(np.int64) << 8 * number
    return joined


def _read_header(data: bytes, source: str) -> _Header:
    if len(data) < _FIXED.size + _CRC.size:
        raise _damaged(source, f"it has {len(data)} bytes, and no journal has less than {_FIXED.size + _CRC.size}")
    magic, version, size, outputs, entries, chunks = _FIXED.unpack_from(data, 0)
    if magic != MAGIC:
        raise _damaged(source, f"it starts with {magic.hex()} and not with {MAGIC.hex()}")
    if not _FIXED.size + _CRC.size <= size <= len(data):
        raise _damaged(source, f"a header of {size} bytes does not fit into {len(data)} bytes")
    (expected,) = _CRC.unpack_from(data, size - _CRC.size)
    if (found := zlib.crc32(memoryview(data)[: size - _CRC.size])) != expected:
        raise _damaged(source, f"the header has CRC32 {found:08x} where {expected:08x} is stored")
    if version != FORMAT:
        raise Unsupported(f"{source} has format {version}, but this release reads format {FORMAT}: upgrade Moulin.")
    at = _FIXED.size
    if size != at + 8 * outputs + _ENTRY.itemsize * entries + _CHUNK.itemsize * chunks + _CRC.size:
        raise _damaged(source, f"{outputs} outputs, {entries} entries and {chunks} chunks do not make {size} bytes")
    numbers = np.frombuffer(data, "<i8", outputs, at).astype(np.int64)
    table = np.frombuffer(data, _ENTRY, entries, at + 8 * outputs)
    index = np.frombuffer(data, _CHUNK, chunks, size - _CRC.size - _CHUNK.itemsize * chunks)
    if problem := _find_problem(numbers, table):
        raise _damaged(source, problem)
    if int((-(-table["count"] // CHUNK_ROWS)).sum()) != chunks:
        raise _damaged(source, f"its entries do not make {chunks} chunks")
    if size + int(index["length"].sum(dtype=np.int64)) != len(data):
        raise _damaged(source, f"header and chunks do not make the {len(data)} bytes it has")
    return _Header(numbers, table, index, size)


def _find_problem(outputs: Integers, entries: npt.NDArray[Any]) -> str | None:
    """Why these tables make no journal, or None."""
    if len(outputs) > MAX_OUTPUTS or (outputs < 0).any() or not np.diff(np.sort(outputs)).all():
        return f"its {len(outputs)} outputs repeat, are negative or are more than {MAX_OUTPUTS}"
    starts, counts, limit = entries["start"], entries["count"], 1 << POSITION_BITS
    if (entries["segment"] < 0).any() or (entries["vector"] < 0).any():
        return "a segment number or vector id is negative"
    if (starts < 0).any() or (starts >= limit).any() or (counts < 1).any() or (counts > limit - starts).any():
        return f"an entry covers nothing, or positions outside [0, 2**{POSITION_BITS})"
    order = np.lexsort((starts, entries["segment"]))
    if not np.array_equal(order, np.arange(len(entries))):
        return "its entries are not sorted by segment and start"
    return _find_overlap(entries["segment"], entries["vector"], starts, starts + counts)


def _find_overlap(segments: Integers, vectors: Integers, starts: Integers, stops: Integers) -> str | None:
    same = segments[1:] == segments[:-1]
    overlap = same & (starts[1:] < stops[:-1])
    if overlap.any():
        i = int(overlap.argmax()) + 1
        return f"position {starts[i]} of segment {segments[i]} is covered twice"
    mixed = same & (vectors[1:] != vectors[:-1])
    if mixed.any():
        i = int(mixed.argmax()) + 1
        return f"segment {segments[i]} was read with deletion vectors {vectors[i - 1]} and {vectors[i]}"
    return None


def _damaged(source: str, what: str) -> Corrupt:
    return Corrupt(f"{source} is damaged: {what}. Restore the file from a copy; `moulin check` lists damaged files.")
