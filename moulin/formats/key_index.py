"""The key index of a segment: its keys in order, in blocks, with row ids and a Bloom filter.

Bytes: docs/formats/key_index.md. A segment of a keyed table is sorted by key, so the position of a key in the index is
the position of its row. The index of a segment in another order, such as an adopted file, holds the positions.
"""

# Decisions: docs/decisions/0341, docs/decisions/0610

from __future__ import annotations

import struct
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import google_crc32c
import mmh3
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from moulin.errors import Corrupt, Unsupported
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Hashes, Integers
from moulin.model.columns.planes import from_planes, integers_from_planes, to_planes
from moulin.model.layout.murmur3 import hash_bytes, hash_longs

# DO NOT CHANGE THESE: they are in files.
_MAGIC: Final = b"MKIX"
_PLAIN_FORMAT: Final = 1
_FORMAT: Final = 2
_PLACED_FORMAT: Final = 3
_ROW_IDS: Final = 1  # flags of a block
_PLANES: Final = 2
_POSITIONS: Final = 4
_FLAGS: Final = {_PLAIN_FORMAT: 0, _FORMAT: _PLANES, _PLACED_FORMAT: _PLANES | _POSITIONS}  # of every block of a format
_FOOTER: Final = struct.Struct("<QQQIIIHHBBHI4s")
_INHERITED: Final = -1
_FILTER_BLOCK: Final = 512
_FILTER_PROBES: Final = 6
_FILTER_BITS: Final = 10

_BLOCK_ROWS: Final = 4096
_BLOCK_BYTES: Final = 64 << 10
_TAIL: Final = 64 << 10  # read first: the footer, and of small indexes all the rest
_LIMIT: Final = 1 << 31
_PROBED: Final = 1 << 16  # hashes whose bits are computed at once: all of a large segment's would take 80 bytes a row

_ZSTD: Final = pa.Codec("zstd")

Fetch = Callable[[int, int], bytes]


def hash_keys(keys: pa.Array) -> Hashes:
    """The hash that filters use, of encoded keys."""
    if pa.types.is_fixed_size_binary(keys.type):
        width = keys.type.byte_width
        data = np.frombuffer(keys.buffers()[1] or b"", np.uint8)[
            keys.offset * width : (keys.offset + len(keys)) * width
        ]
        if width == 8:
            return hash_longs(data.view("<i8"))
        return hash_bytes(data, np.arange(len(keys), dtype=np.int64) * width, np.full(len(keys), width, np.int64))
    _, offsets, buffer = keys.buffers()
    ends = np.frombuffer(offsets or bytes(4), np.int32)[keys.offset : keys.offset + len(keys) + 1].astype(np.int64)
    return hash_bytes(np.frombuffer(buffer or b"", np.uint8), ends[:-1], np.diff(ends))


def encode_key_index(keys: pa.Array, row_ids: Integers | None, positions: Integers | None = None) -> bytes:
    """The index of keys, one at least, in ascending order. A row id of -1 follows from the position.

    `positions` are those of their rows, which need not be all of the segment's; None: 0, 1, 2, and so on. Then a key
    may come more than once, after rows of a segment were erased: all but the first are of erased rows.
    """
    rows = len(keys)
    version = _FORMAT if positions is None else _PLACED_FORMAT
    width = keys.type.byte_width if pa.types.is_fixed_size_binary(keys.type) else 0
    if row_ids is not None and bool((row_ids == _INHERITED).all()):
        row_ids = None
    parts: list[bytes] = [_MAGIC + bytes([version, 0, 0, 0])]
    at, entries = len(parts[0]), []
    starts = _cuts(keys, width)
    for start, stop in zip(starts, [*starts[1:], rows], strict=True):
        ids, places = (None if some is None else some[start:stop] for some in (row_ids, positions))
        block = _pack_block(keys.slice(start, stop - start), width, ids, places)
        entries.append((at, len(block), start, google_crc32c.value(block)))
        parts.append(block)
        at += len(block)
    bloom = make_filter(hash_keys(keys))
    directory = _pack_directory(entries, keys.take(pa.array(starts, pa.int64())), width)
    footer = _FOOTER.pack(
        at, at + len(bloom), rows, len(bloom), len(directory), len(entries), width, 0, _FILTER_PROBES, version, 0,
        google_crc32c.value(bloom + directory), _MAGIC,
    )  # fmt: skip
    return b"".join([*parts, bloom, directory, footer, struct.pack("<I", google_crc32c.value(footer))])


_HEAD: Final = 8
_END: Final = _FOOTER.size + 4


def _cuts(keys: pa.Array, width: int) -> list[int]:
    rows = len(keys)
    per_block = _BLOCK_ROWS
    if not width and rows:
        average = max(1, keys.nbytes // rows)
        per_block = max(64, min(_BLOCK_ROWS, _BLOCK_BYTES // average))
    starts = range(0, rows, per_block)
    return [start for start in starts if start == 0 or keys[start] != keys[start - 1]]  # the first of equals is found


def _pack_block(keys: pa.Array, width: int, row_ids: Integers | None, positions: Integers | None) -> bytes:
    rows = len(keys)
    flags = _PLANES | (0 if positions is None else _POSITIONS) | (0 if row_ids is None else _ROW_IDS)
    body = struct.pack("<II", rows, flags) + _key_planes(keys, width)
    for numbers in (positions, row_ids):
        if numbers is not None:
            body += to_planes(numbers.astype("<i8").view(np.uint8), 8, order="<")
    packed: bytes = pa.compress(body, codec="zstd", asbytes=True)
    return struct.pack("<I", len(body)) + packed


def _key_planes(keys: pa.Array, width: int) -> bytes:
    """Encoded keys as blocks hold them: in planes, or their ends in planes and then their bytes."""
    plain = key_bytes(keys, width)
    if width:
        return to_planes(np.frombuffer(plain, np.uint8), width, order=">")
    head = 4 * (len(keys) + 1)
    return to_planes(np.frombuffer(plain[:head], np.uint8), 4, order="<") + plain[head:]


def key_bytes(keys: pa.Array, width: int) -> bytes:
    """Encoded keys one after the other, with their ends before them when widths differ."""
    if width:
        data: npt.NDArray[np.uint8] = np.frombuffer(keys.buffers()[1] or b"", np.uint8)
        return bytes(data[keys.offset * width : (keys.offset + len(keys)) * width])
    _, offsets, buffer = keys.buffers()
    ends = np.frombuffer(offsets or bytes(4), np.int32)[keys.offset : keys.offset + len(keys) + 1]
    data = np.frombuffer(buffer or b"", np.uint8)[ends[0] : ends[-1]]
    return bytes((ends - ends[0]).astype("<u4").tobytes() + data.tobytes())


def _pack_directory(entries: Sequence[tuple[int, int, int, int]], firsts: pa.Array, width: int) -> bytes:
    table = np.asarray(entries, dtype="<u8").reshape(-1, 4)
    return table.tobytes() + key_bytes(firsts, width)


def make_filter(hashes: Hashes) -> bytes:
    """A Bloom filter of these hashes, in blocks of 64 bytes."""
    blocks = max(1, -(-len(hashes) * _FILTER_BITS // _FILTER_BLOCK))
    bits = np.zeros(blocks * _FILTER_BLOCK, np.bool_)
    for start in range(0, len(hashes), _PROBED):
        for position in _probes(hashes[start : start + _PROBED], blocks):
            bits[position] = True
    return np.packbits(bits, bitorder="little").tobytes()


def _probes(hashes: Hashes, blocks: int) -> list[Integers]:
    """The bits of each key: all in one block of 512, which the hash chooses; nine bits of a mixed hash for each."""
    wide = hashes.astype(np.uint64)
    base = ((wide * np.uint64(blocks)) >> np.uint64(32)) * np.uint64(_FILTER_BLOCK)
    mixed = (wide + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    mixed ^= mixed >> np.uint64(29)
    return [
        (base + ((mixed >> np.uint64(9 * probe)) & np.uint64(_FILTER_BLOCK - 1))).astype(np.int64)
        for probe in range(_FILTER_PROBES)
    ]


def filter_holds(bloom: npt.NDArray[np.uint8], hashes: Hashes) -> npt.NDArray[np.bool_]:
    """False for hashes that a filter surely was not made of."""
    found = np.ones(len(hashes), np.bool_)
    for start in range(0, len(hashes), _PROBED):
        part = found[start : start + _PROBED]
        for position in _probes(hashes[start : start + _PROBED], len(bloom) * 8 // _FILTER_BLOCK):
            part &= (bloom[position >> 3] >> (position & 7).astype(np.uint8)) & 1 == 1
    return found


@dataclass(frozen=True, slots=True)
class Block:
    """Some consecutive entries. `keys` is a NumPy array of fixed-width keys, or an Arrow binary array.

    `positions` are those of their rows; None: they are the numbers of the keys, from `start` on.
    """

    start: int
    keys: Any
    packed: bytes  # the block as the file has it, if it has row ids: most look-ups want none
    flags: int
    nbytes: int
    positions: Integers | None = None

    def position(self, at: int) -> int:
        """The position of the row of an entry of the block."""
        return self.start + at if self.positions is None else int(self.positions[at])

    def positions_at(self, at: Integers) -> Integers:
        """`position` for several entries."""
        return at + self.start if self.positions is None else self.positions[at]

    @property
    def row_ids(self) -> Integers | None:
        """The row id of each entry, -1 where it follows from the position; None if all do. They are decoded here."""
        if not self.packed:
            return None
        body = memoryview(_ZSTD.decompress(self.packed[4:], struct.unpack_from("<I", self.packed)[0]))
        stored = body[len(body) - 8 * len(self.keys) :]
        return integers_from_planes(stored) if self.flags else np.frombuffer(stored, "<i8")

    def find_one(self, key: bytes) -> int | None:
        """The number of a key in the block."""
        if isinstance(self.keys, np.ndarray):
            value = _numpy_keys(key, len(key))[0]
            position = int(np.searchsorted(self.keys, value))
            return position if position < len(self.keys) and self.keys[position] == value else None
        keys = self.keys
        position = bisect_left(range(len(keys)), key, key=lambda at: keys[at].as_py())
        return position if position < len(keys) and keys[position].as_py() == key else None

    def before(self, key: bytes) -> int:
        """How many keys of the block are less than `key`, which may be a part of one."""
        if not isinstance(self.keys, np.ndarray):
            return bisect_left(range(len(self.keys)), key, key=lambda at: self.keys[at].as_py())
        width = 8 if self.keys.dtype == np.uint64 else self.keys.dtype.itemsize
        return int(np.searchsorted(self.keys, _numpy_keys(key[:width].ljust(width, b"\0"), width)[0]))

    def find(self, keys: Any) -> tuple[npt.NDArray[np.bool_], Integers]:
        """Which of `keys` (in the form of the block's) are there, and as which entries of the block."""
        if isinstance(self.keys, np.ndarray):
            positions = np.searchsorted(self.keys, keys)
            positions[positions == len(self.keys)] = 0
            return self.keys[positions] == keys, positions
        found = pc.index_in(keys, value_set=self.keys)
        return np.asarray(found.is_valid()), np.asarray(found.fill_null(0)).astype(np.int64)


def _numpy_keys(data: bytes | memoryview | npt.NDArray[np.uint8], width: int) -> npt.NDArray[Any]:
    """Fixed-width keys as numbers or byte strings that compare as their bytes do."""
    if width == 8:
        return np.frombuffer(data, ">u8").astype(np.uint64)
    return np.frombuffer(data, f"S{width}")


def search_form(keys: pa.Array) -> Any:
    """Encoded keys in the form in which blocks are searched."""
    if pa.types.is_fixed_size_binary(keys.type):
        return _numpy_keys(np.frombuffer(key_bytes(keys, keys.type.byte_width), np.uint8), keys.type.byte_width)
    return keys


def read_tail(fetch: Fetch, size: int) -> tuple[int, bytes]:
    """The last bytes of an index file of `size` bytes, and where they start."""
    start = max(0, size - _TAIL)
    return start, fetch(start, size - start)


def checked_footer(tail: bytes, length: int, magic: bytes) -> bytes | None:
    """The footer in the last `length` bytes of an index file, without its checksum; None when that fails."""
    footer, crc = tail[-length:-4], struct.unpack("<I", tail[-4:])[0]
    return footer if footer[-4:] == magic and google_crc32c.value(footer) == crc else None


class KeyIndex:
    """An index opened: footer, directory and filter are held, blocks are read when asked for.

    `fetch(start, length)` reads the file of `size` bytes; `name` stands for it in messages. Safe to use from several
    threads when `fetch` is.
    """

    def __init__(self, fetch: Fetch, size: int, name: str) -> None:
        self._fetch, self._name = fetch, name
        if size < _END + _HEAD:
            raise self._damaged("is too short")
        tail_start, tail = read_tail(fetch, size)
        footer = checked_footer(tail, _END, _MAGIC)
        if footer is None:
            raise self._damaged("has a footer that fails its checksum")
        (filter_at, directory_at, self.rows, filter_size, directory_size, self.blocks, self.width, _, probes,
         version, _, body_crc, _) = _FOOTER.unpack(footer)  # fmt: skip
        self._flags = _FLAGS.get(version, 0)
        if version not in _FLAGS:
            raise Unsupported(f"Key index {name} has format {version}, which is unknown: upgrade Moulin.")
        if directory_at != filter_at + filter_size or directory_at + directory_size + _END != size:
            raise self._damaged("has a footer that contradicts its length")
        if probes != _FILTER_PROBES or not filter_size or filter_size % (_FILTER_BLOCK // 8):
            raise self._damaged("has a filter of impossible size")
        if filter_at >= tail_start:
            body = tail[filter_at - tail_start : -_END]
        else:
            body = fetch(filter_at, tail_start - filter_at) + tail[:-_END]
        if google_crc32c.value(body) != body_crc:
            raise self._damaged("has a directory that fails its checksum")
        self._bloom = np.frombuffer(body[:filter_size], np.uint8)
        table_size = self.blocks * 32
        if table_size > directory_size:
            raise self._damaged("has a directory that is cut short")
        table = np.frombuffer(body[filter_size : filter_size + table_size], "<u8").reshape(-1, 4).astype(np.int64)
        self._offsets, self._lengths, self._starts, self._crcs = (table[:, column] for column in range(4))
        self._check_directory(filter_at)
        self._firsts = self._decode_keys(body[filter_size + table_size :], self.blocks)
        self.nbytes = len(body)

    def _check_directory(self, end: int) -> None:
        """Blocks lie one after the other between the head and the filter, and hold all entries in order."""
        edges, starts = np.append(self._offsets, end), np.append(self._starts, self.rows)
        whole = (
            edges[0] == _HEAD
            and starts[0] == 0
            and (edges[:-1] + self._lengths == edges[1:]).all()
            and (np.diff(edges) > 0).all()
            and (np.diff(starts) > 0).all()
        )
        if not self.blocks or not whole:
            raise self._damaged("has a directory that contradicts itself")

    @cached_property
    def _first_list(self) -> list[Any]:
        firsts: list[Any] = self._firsts.tolist() if self.width else self._firsts.to_pylist()
        return firsts

    def may_hold(self, hashes: Hashes) -> npt.NDArray[np.bool_]:
        """False for keys that are surely not in the segment."""
        return filter_holds(self._bloom, hashes)

    def may_hold_one(self, key: bytes) -> bool:
        hashed = mmh3.hash(key, 0, signed=False)
        blocks = len(self._bloom) * 8 // _FILTER_BLOCK
        base = ((hashed * blocks) >> 32) * _FILTER_BLOCK
        mixed = ((hashed + 1) * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF
        mixed ^= mixed >> 29
        bloom = self._bloom
        for probe in range(_FILTER_PROBES):
            position = base + ((mixed >> (9 * probe)) & (_FILTER_BLOCK - 1))
            if not (int(bloom[position >> 3]) >> (position & 7)) & 1:
                return False
        return True

    def block_of(self, key: bytes) -> int:
        """The block that holds `key` if any does; -1 when it is before the first."""
        value = _numpy_keys(key[: self.width].ljust(self.width, b"\0"), self.width)[0].item() if self.width else key
        return bisect_right(self._first_list, value) - 1

    def blocks_of(self, keys: Any) -> Integers:
        """`block_of` for ascending keys in search form."""
        if isinstance(self._firsts, np.ndarray):
            numbers: Integers = np.searchsorted(self._firsts, keys, side="right").astype(np.int64) - 1
            return numbers
        # The rank of each key among the first keys: sort both together, first keys before equal ones.
        both = pa.table(
            {"key": pa.concat_arrays([self._firsts, keys]), "kind": np.r_[np.zeros(self.blocks), np.ones(len(keys))]}
        )
        order = np.asarray(pc.sort_indices(both, sort_keys=[("key", "ascending"), ("kind", "ascending")]))
        before = np.cumsum(order < self.blocks)
        ranks = np.empty(len(order), np.int64)
        ranks[order] = before
        return ranks[self.blocks :] - 1

    def starts_of(self, numbers: Integers) -> Integers:
        """The position of the first entry of each of these blocks."""
        found: Integers = self._starts[numbers]
        return found

    def firsts(self) -> list[tuple[bytes, int]]:
        """The first key of every block, and how many keys it has."""
        counts = np.diff(self._starts, append=self.rows).tolist()
        keys = self._firsts.astype(">u8") if self.width == 8 else self._firsts
        if isinstance(keys, np.ndarray):
            data, width = keys.tobytes(), self.width
            return [(data[at * width : (at + 1) * width], count) for at, count in enumerate(counts)]
        return list(zip(keys.to_pylist(), counts, strict=True))

    def load(self, number: int) -> Block:
        """Read one block."""
        data = self._fetch(int(self._offsets[number]), int(self._lengths[number]))
        return self._unpack(number, data)

    def load_all(self, number: int, count: int) -> list[Block]:
        """Read `count` neighbouring blocks at once."""
        first = int(self._offsets[number])
        end = int(self._offsets[number + count - 1] + self._lengths[number + count - 1])
        data = self._fetch(first, end - first)
        return [
            self._unpack(at, data[int(self._offsets[at]) - first : int(self._offsets[at] + self._lengths[at]) - first])
            for at in range(number, number + count)
        ]

    def _unpack(self, number: int, data: bytes) -> Block:
        stop = int(self._starts[number + 1]) if number + 1 < self.blocks else self.rows
        rows = stop - int(self._starts[number])
        if len(data) < 4 or google_crc32c.value(data) != int(self._crcs[number]):
            raise self._damaged(f"has a block at byte {int(self._offsets[number])} that fails its checksum")
        size = struct.unpack_from("<I", data)[0]
        if not 8 <= size <= _LIMIT:
            raise self._damaged(f"has a block at byte {int(self._offsets[number])} of impossible size")
        try:
            body = memoryview(_ZSTD.decompress(data[4:], size))
            count, flags = struct.unpack_from("<II", body)
        except (pa.ArrowException, struct.error, OSError) as error:
            raise self._damaged(f"has a block that cannot be decoded ({error})") from error
        last = len(body) - (8 * rows if flags & _ROW_IDS else 0)
        end = last - (8 * rows if flags & _POSITIONS else 0)
        if count != rows or flags & ~_ROW_IDS != self._flags or end < 8:
            raise self._damaged(f"has a block of {count} entries where {rows} are due")
        keys = self._keys_from_planes(body[8:end], rows) if self._flags else self._decode_keys(body[8:end], rows)
        positions = None
        if flags & _POSITIONS:
            positions = integers_from_planes(body[end:last])
            if int(positions.min()) < 0:
                raise self._damaged("has a position below 0")
        packed = data if flags & _ROW_IDS else b""
        return Block(int(self._starts[number]), keys, packed, self._flags, len(body), positions)

    def _keys_from_planes(self, data: memoryview, rows: int) -> Any:
        width, order, head = (self.width, ">", rows * self.width) if self.width else (4, "<", 4 * (rows + 1))
        if len(data) < head:
            raise self._damaged("has keys that are cut short")
        if width == 8 and len(data) == head:
            return from_planes(data, width, order="<")  # the words of such keys are what `_numpy_keys` makes of them
        return self._decode_keys(from_planes(data[:head], width, order=order).tobytes() + bytes(data[head:]), rows)

    def _decode_keys(self, data: bytes | memoryview, rows: int) -> Any:
        if self.width:
            if len(data) != rows * self.width:
                raise self._damaged("has keys of the wrong length")
            return _numpy_keys(data, self.width)
        head = 4 * (rows + 1)
        if len(data) < head:
            raise self._damaged("has keys that are cut short")
        ends = np.frombuffer(data[:head], "<u4")
        if ends[0] != 0 or int(ends[-1]) != len(data) - head or bool((ends[1:] < ends[:-1]).any()):
            raise self._damaged("has keys whose ends contradict each other")
        buffers = [None, pa.py_buffer(ends.astype("<i4")), pa.py_buffer(data[head:])]
        return pa.Array.from_buffers(pa.binary(), rows, buffers)

    def _damaged(self, what: str) -> Corrupt:
        return Corrupt(f"Key index {self._name} {what}. Restore it from a copy.")
