"""Deletion vectors: the deleted positions of a segment. Layout: docs/formats/deletion_vector.md.

In memory a vector is a `pyroaring.BitMap64`, everywhere. Stored, it is Iceberg's `deletion-vector-v1` blob:

    length (u32, big-endian) | D1 D3 39 64 | portable 64-bit Roaring bitmap | CRC32 (u32, big-endian)
"""

from __future__ import annotations

import struct
import zlib
from array import array
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import AbstractBitMap, AbstractBitMap64, BitMap64

from moulin.errors import Corrupt, InvalidInput
from moulin.model.columns import compute as pc
from moulin.model.columns.arrays import Integers

MAGIC = b"\xd1\xd3\x39\x64"
FRAME_BYTES = 12
"""Bytes of a blob around its vector: length, magic and CRC."""

MAX_POSITION = 2**63 - 1

_MAX_BLOB = 2**31 - 1
_MAX_KEY = 2**31 - 1
_COOKIE = 12346
_COOKIE_WITH_RUNS = 12347
_OFFSETS_FROM = 4
_MAX_CONTAINERS = 65536
_MAX_ARRAY = 4096
_BITSET_BYTES = 8192
_NARROW = 1 << 24
"""A range of more positions is not worth a bitmap of its own: its containers would outnumber those of the vector."""


def encode(positions: AbstractBitMap64 | AbstractBitMap | npt.NDArray[Any]) -> bytes:
    """The `deletion-vector-v1` blob of these positions, as small as runs make it; `positions` is not changed.

    Raises InvalidInput for a position outside [0, 2**63) or a blob of 2 GiB or more.
    """
    if isinstance(positions, AbstractBitMap64):
        bitmap = BitMap64(positions)
    elif isinstance(positions, AbstractBitMap):
        bitmap = from_positions(np.frombuffer(positions.to_array(), dtype=np.uint32))
    else:
        bitmap = from_positions(positions)
    if bitmap and bitmap.max() > MAX_POSITION:
        raise InvalidInput(f"Position {bitmap.max()} does not lie in [0, 2**63).")
    bitmap.run_optimize()
    body = MAGIC + bitmap.serialize()
    if len(body) + 8 > _MAX_BLOB:
        raise InvalidInput(f"A deletion vector of {len(body)} bytes is too large: a blob has less than 2 GiB.")
    return struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))


def decode(blob: bytes, *, rows: int | None = None, source: str = "The deletion vector") -> BitMap64:
    """The positions of a blob. With `rows`, every position must be below it; `source` names the blob in messages.

    Raises Corrupt, naming what failed, unless the blob is valid as docs/formats/deletion_vector.md defines it. The
    Roaring library checks the containers; that keys are in range and nothing is left over is checked here.
    """
    if len(blob) < FRAME_BYTES + 8:
        raise _damaged(source, f"it has {len(blob)} bytes, and no blob has less than {FRAME_BYTES + 8}")
    (length,) = struct.unpack_from(">I", blob, 0)
    if length != len(blob) - 8:
        raise _damaged(source, f"its length field says {length} where {len(blob) - 8} bytes lie between length and CRC")
    if blob[4:8] != MAGIC:
        raise _damaged(source, f"the magic at offset 4 is {blob[4:8].hex()} and not {MAGIC.hex()}")
    (expected,) = struct.unpack_from(">I", blob, len(blob) - 4)
    if (found := zlib.crc32(memoryview(blob)[4:-4])) != expected:
        raise _damaged(source, f"its bytes have CRC32 {found:08x} where {expected:08x} is stored")
    vector = blob[8:-4]
    cardinality = _measure_vector(vector, source)
    try:
        bitmap = BitMap64.deserialize(vector)
    except (ValueError, IndexError) as error:
        raise _damaged(source, f"the Roaring library refuses it ({error})") from error
    if len(bitmap) != cardinality:
        raise _damaged(source, f"it holds {len(bitmap)} positions where its headers say {cardinality}")
    if rows is not None and bitmap and bitmap.max() >= rows:
        raise _damaged(source, f"it marks position {bitmap.max()} of a segment of {rows} rows")
    return bitmap


def from_positions(positions: npt.NDArray[Any]) -> BitMap64:
    """The set of these positions, in any order, repeats allowed. Raises InvalidInput for one outside [0, 2**63)."""
    if not positions.size:
        return BitMap64()
    if positions.ndim != 1 or positions.dtype.kind not in "iu":
        shape = f"{positions.dtype} of {positions.ndim} dimensions"
        raise InvalidInput(f"Positions must be one array of integers, not {shape}.")
    lowest, highest = int(positions.min()), int(positions.max())
    if lowest < 0 or highest > MAX_POSITION:
        raise InvalidInput(f"Positions from {lowest} to {highest} do not lie in [0, 2**63).")
    values = array("Q")
    values.frombytes(np.ascontiguousarray(positions, dtype=np.uint64).data.cast("B"))
    return BitMap64(values)


def from_mask(mask: pa.BooleanArray | pa.ChunkedArray | npt.NDArray[np.bool_], offset: int = 0) -> BitMap64:
    """The positions where `mask` is true, `offset` being the position of its first value. Null counts as false."""
    if isinstance(mask, np.ndarray):
        if mask.dtype != np.bool_ or mask.ndim != 1:
            raise InvalidInput(f"A mask must be one array of booleans, not {mask.dtype} of {mask.ndim} dimensions.")
        found = np.flatnonzero(mask)
    else:
        if not pa.types.is_boolean(mask.type):
            raise InvalidInput(f"A mask must be an array of booleans, not of {mask.type}.")
        found = pc.indices_nonzero(mask).to_numpy(zero_copy_only=False).astype(np.int64)
    return from_positions(found + offset)


def to_array(bitmap: AbstractBitMap64, start: int = 0, stop: int | None = None) -> Integers:
    """The positions in [start, stop), ascending, in an array of their own."""
    start, end = max(start, 0), MAX_POSITION + 1 if stop is None else stop
    if start >= end or not bitmap:
        return np.empty(0, np.int64)
    if end - start <= _NARROW:
        if not bitmap.range_cardinality(start, end):
            return np.empty(0, np.int64)
        bitmap = bitmap & BitMap64(range(start, end))
    positions = np.frombuffer(bitmap.to_array(), dtype=np.uint64)
    first, last = np.searchsorted(positions, np.array([start, end], dtype=np.uint64))
    return positions[first:last].view(np.int64)


def keep_mask(bitmap: AbstractBitMap64, start: int, rows: int) -> npt.NDArray[np.bool_] | None:
    """For the `rows` rows from position `start` on: true where the row still counts. None when all of them do."""
    deleted = to_array(bitmap, start, start + rows)
    if not deleted.size:
        return None
    keep = np.ones(rows, dtype=np.bool_)
    keep[deleted - start] = False
    return keep


def words(bitmap: AbstractBitMap64, rows: int) -> Integers:
    """The vector as a dense bitmap of ceil(rows / 64) words: position i is bit i & 63 of word i >> 6.

    Raises InvalidInput when the vector marks a position that a segment of `rows` rows does not have.
    """
    if bitmap and bitmap.max() >= rows:
        raise InvalidInput(f"The deletion vector marks position {bitmap.max()} of a segment of {rows} rows.")
    deleted = np.zeros((rows + 63) // 64 * 64, dtype=np.bool_)
    deleted[to_array(bitmap)] = True
    return np.packbits(deleted, bitorder="little").view("<i8").astype(np.int64, copy=False)


def _damaged(source: str, what: str) -> Corrupt:
    return Corrupt(f"{source} is damaged: {what}. Restore the file from a copy; `moulin check` lists damaged files.")


def _measure_vector(vector: bytes, source: str) -> int:
    """The number of positions that a portable 64-bit Roaring bitmap announces, its parts ending with its last byte."""
    (bitmaps,) = struct.unpack_from("<Q", vector, 0)
    at, cardinality, previous = 8, 0, -1
    for _ in range(bitmaps):
        _need(vector, at, 4, source)
        (key,) = struct.unpack_from("<I", vector, at)
        if not previous < key <= _MAX_KEY:
            raise _damaged(source, f"bitmap key {key} follows {previous}: keys ascend and are below 2**31")
        previous = key
        at, positions = _measure_bitmap(vector, at + 4, source)
        cardinality += positions
    if at != len(vector):
        raise _damaged(source, f"{len(vector) - at} bytes follow its last bitmap")
    return cardinality


def _measure_bitmap(vector: bytes, begin: int, source: str) -> tuple[int, int]:
    """Where the 32-bit Roaring bitmap that begins at `begin` ends, and how many positions it announces."""
    _need(vector, begin, 8, source)
    cookie, containers = struct.unpack_from("<II", vector, begin)
    at = begin + 8
    if cookie & 0xFFFF == _COOKIE_WITH_RUNS:
        containers, at = (cookie >> 16) + 1, begin + 4
    elif cookie != _COOKIE or containers > _MAX_CONTAINERS:
        raise _damaged(source, f"the bitmap at offset {begin} starts with {cookie:08x} {containers:08x}")
    has_runs = cookie != _COOKIE
    flag_bytes = (containers + 7) // 8 if has_runs else 0
    has_offsets = not has_runs or containers >= _OFFSETS_FROM
    header_end = at + flag_bytes + containers * (8 if has_offsets else 4)
    _need(vector, at, header_end - at, source)
    flags = np.frombuffer(vector, np.uint8, flag_bytes, at)
    is_run = np.unpackbits(flags, count=containers, bitorder="little").tolist() if has_runs else [0] * containers
    cardinalities = np.frombuffer(vector, "<u2", 2 * containers, at + flag_bytes)[1::2].astype(np.int64) + 1
    at = header_end
    begins = []
    for run, cardinality in zip(is_run, cardinalities.tolist(), strict=True):
        begins.append(at - begin)
        if run:
            _need(vector, at, 2, source)
            at += 2 + 4 * int.from_bytes(vector[at : at + 2], "little")
        else:
            at += 2 * cardinality if cardinality <= _MAX_ARRAY else _BITSET_BYTES
    if has_offsets and begins != np.frombuffer(vector, "<u4", containers, header_end - 4 * containers).tolist():
        raise _damaged(source, f"the containers of the bitmap at offset {begin} are not where its offsets say")
    return at, int(cardinalities.sum())


def _need(vector: bytes, at: int, size: int, source: str) -> None:
    if at + size > len(vector):
        raise _damaged(source, f"its bitmaps need {at + size} bytes where {len(vector)} are present")
