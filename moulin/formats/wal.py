"""The bytes of one file of a region's local log. Layout: docs/formats/wal.md.

Entries are cut into fragments that never cross a 32 KiB block, each with a CRC32C that is seeded by the file's own
header. Writers call `frame` (or `full_frame`, the fast case); `read_wal` gives the entries back, tells a torn tail from
damage, and never gives an entry that was not written.
"""

# Decisions: docs/decisions/0045

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple
from uuid import UUID

import numpy as np
from google_crc32c import extend, value

from moulin.errors import Corrupt, InvalidInput, Unsupported

# DO NOT CHANGE THESE VALUES: files carry them.
MAGIC: Final = b"MWAL"
FORMAT: Final = 1
BLOCK_BYTES: Final = 32_768
HEADER_BYTES: Final = 52
FRAME_BYTES: Final = 7
MARK_BYTES: Final = 8
FULL, FIRST, MIDDLE, LAST, SYNCED = 1, 2, 3, 4, 5

_PAGE: Final = 4096  # what a disk or a file system loses at once
_SECTOR: Final = 512
_MAX: Final = 2**63 - 1
_HEADER: Final = struct.Struct("<4sI16sQQQ")
_FRAME: Final = struct.Struct("<IHB")
_pack_frame: Final = _FRAME.pack
_pack_crc: Final = struct.Struct("<I").pack
_MARK: Final = struct.Struct("<Q")


@dataclass(frozen=True, slots=True)
class WalHeader:
    """Which log a file belongs to, who wrote it, and the position of its first entry."""

    table_id: UUID
    region: int
    epoch: int
    first: int


@dataclass(frozen=True, slots=True)
class WalContents:
    """What a file holds: its whole entries in order, and the offset behind the last of them.

    `torn` says that bytes follow which were not written to their end; they begin at `end`.
    """

    header: WalHeader
    entries: list[bytes]
    end: int
    torn: bool


def encode_header(header: WalHeader) -> bytes:
    """The first bytes of a file."""
    for name, number, least in (
        ("region", header.region, 0),
        ("epoch", header.epoch, 0),
        ("first position", header.first, 1),
    ):
        if not least <= number <= _MAX:
            raise InvalidInput(f"The {name} of a log is a whole number from {least} to 2**63 - 1, not {number}.")
    body = _HEADER.pack(MAGIC, FORMAT, header.table_id.bytes, header.region, header.epoch, header.first)
    return body + _pack_crc(value(body))


def seed_of(header: bytes) -> int:
    """What the CRCs of a file's fragments start from: so no fragment of one file is valid in another."""
    return int.from_bytes(header[HEADER_BYTES - 4 : HEADER_BYTES], "little")


def full_frame(seed: int, payload: bytes) -> bytes:
    """An entry that fits into what is left of its block, as one fragment."""
    size = len(payload)
    return _pack_frame(extend(seed ^ (size << 8 | FULL), payload), size, FULL) + payload


def room(offset: int) -> int:
    """Length of the longest entry that `full_frame` may put at `offset`; less than 1 if none fits."""
    return BLOCK_BYTES - offset % BLOCK_BYTES - FRAME_BYTES


def frame(seed: int, offset: int, payload: bytes) -> bytes:
    """What to write at `offset` for an entry of any length above 0: padding to the next block if need be, fragments."""
    if not payload:
        raise InvalidInput("An entry of a log has at least one byte.")
    left = room(offset)
    padding, left = (bytes(left + FRAME_BYTES), room(0)) if left <= 0 else (b"", left)
    if len(payload) <= left:
        return padding + full_frame(seed, payload)
    parts, at, kind = [padding], 0, FIRST
    while at < len(payload):
        piece = payload[at : at + left]
        at += len(piece)
        parts.append(_fragment(seed, kind if at < len(payload) else LAST, piece))
        left, kind = room(0), MIDDLE
    return b"".join(parts)


def frame_mark(seed: int, synced: int) -> bytes:
    """A fragment that says that the file's first `synced` bytes are known to be on disk.

    May stand between two entries, and takes the room of an entry of MARK_BYTES.
    """
    return _fragment(seed, SYNCED, _MARK.pack(synced))


def decode_header(data: bytes, source: str) -> WalHeader:
    """The header of a file. Raises Corrupt, or Unsupported for a newer format."""
    if len(data) < HEADER_BYTES:
        raise _damaged(source, len(data), f"its header ends after {len(data)} of {HEADER_BYTES} bytes")
    magic, version, table_id, region, epoch, first = _HEADER.unpack_from(data)
    if magic != MAGIC:
        raise _damaged(source, 0, f"it begins with {magic!r} instead of {MAGIC!r}")
    if seed_of(data) != value(data[: HEADER_BYTES - 4]):
        raise _damaged(source, HEADER_BYTES - 4, "the CRC32C of its header does not fit")
    if version != FORMAT:
        raise Unsupported(f"{source} has log format {version}; this release reads {FORMAT}: upgrade Moulin.")
    if max(region, epoch, first) > _MAX or first < 1:
        raise _damaged(source, 24, "its region, epoch or first position is out of range")
    return WalHeader(UUID(bytes=table_id), region, epoch, first)


def read_wal(data: bytes, *, source: str, final: bool) -> WalContents:
    """The entries of a file from all its bytes.

    Only the `final` file of a log may have a torn tail: what a crash left of writes that were never synced. Everything
    else that is not valid as docs/formats/wal.md defines it raises Corrupt, naming `source` and the byte offset.
    """
    header = decode_header(data, source)
    return WalContents(header, *_Reader(data, source).read(final))


class _Fragment(NamedTuple):
    offset: int
    kind: int
    stop: int


class _Reader:
    """One pass over the fragments of a file."""

    def __init__(self, data: bytes, source: str) -> None:
        self._data, self._source, self._seed = data, source, seed_of(data)

    def read(self, final: bool) -> tuple[list[bytes], int, bool]:
        data, entries = self._data, list[bytes]()
        parts: list[bytes] = []
        offset = end = HEADER_BYTES
        while offset < len(data):
            found = self._fragment(offset)
            if found is None:
                break
            at, kind, stop = found
            body = data[at + FRAME_BYTES : stop]
            if (kind in (MIDDLE, LAST)) != bool(parts):
                raise _damaged(self._source, at, "a fragment is out of order")
            if kind == SYNCED:
                self._check_mark(at, body)
            else:
                parts.append(body)
            if kind in (FULL, LAST):
                entries.append(body if kind == FULL else b"".join(parts))
                parts = []
            offset = stop
            if not parts:
                end = stop
        if offset < len(data):
            self._judge(offset)
        torn = end < len(data)
        if torn and not final:
            raise _damaged(self._source, end, "it is not the last file of its log, but the entry here has no end")
        return entries, end, torn

    def _fragment(self, offset: int) -> _Fragment | None:
        """The valid fragment at `offset`, or behind the padding there."""
        left = BLOCK_BYTES - offset % BLOCK_BYTES
        if left <= FRAME_BYTES:
            if any(self._data[offset : offset + left]):
                return None
            offset, left = offset + left, BLOCK_BYTES
        if offset + FRAME_BYTES > len(self._data):
            return None
        crc, length, kind = _FRAME.unpack_from(self._data, offset)
        stop = offset + FRAME_BYTES + length
        if not FULL <= kind <= SYNCED or not 0 < length <= left - FRAME_BYTES or stop > len(self._data):
            return None
        valid = extend(self._seed ^ (length << 8 | kind), self._data[offset + FRAME_BYTES : stop]) == crc
        return _Fragment(offset, kind, stop) if valid else None

    def _check_mark(self, offset: int, body: bytes) -> int:
        synced = _MARK.unpack(body)[0] if len(body) == MARK_BYTES else _MAX
        if synced > offset:
            raise _damaged(self._source, offset, "a sync mark says more than can be true")
        return int(synced)

    def _judge(self, bad: int) -> None:
        """Raises Corrupt unless what is wrong at `bad` can be the work of a crash before the next sync.

        It can if nothing valid follows. It also can if at least a sector up to the end of its page is zero, as a page
        that never reached the disk is, and no mark behind it says that this offset was synced.
        """
        following = self._search(bad + 1)
        if following is None:
            return
        if not self._has_hole(bad, following.offset):
            raise _damaged(self._source, bad, f"valid data follows at byte {following.offset}")
        for found in self._survivors(following):
            if found.kind == SYNCED:
                synced = self._check_mark(found.offset, self._data[found.offset + FRAME_BYTES : found.stop])
                if synced > bad:
                    raise _damaged(self._source, bad, f"the first {synced} bytes were synced")

    def _survivors(self, found: _Fragment | None) -> Iterator[_Fragment]:
        while found is not None:
            yield found
            following = self._fragment(found.stop) if found.stop < len(self._data) else None
            found = following or self._search(found.stop)

    def _search(self, start: int) -> _Fragment | None:
        """The first valid fragment that begins at `start` or later, wherever in its block."""
        while start < len(self._data):
            stop = min(start - start % BLOCK_BYTES + BLOCK_BYTES, len(self._data))
            block = np.frombuffer(self._data, np.uint8, stop - start, start)
            if len(block) > FRAME_BYTES:
                kinds = block[6:]
                lengths = block[4 : 4 + len(kinds)] + (block[5 : 5 + len(kinds)].astype(np.int64) << 8)
                fits = (lengths > 0) & (np.arange(len(kinds)) + FRAME_BYTES + lengths <= len(block))
                for at in np.flatnonzero(fits & (kinds >= FULL) & (kinds <= SYNCED)).tolist():
                    found = self._fragment(start + at)
                    if found is not None:
                        return found
            start = stop
        return None

    def _has_hole(self, start: int, stop: int) -> bool:
        while start < stop:
            end = start - start % _PAGE + _PAGE
            if end <= stop and end - start >= _SECTOR and not any(self._data[start:end]):
                return True
            start = end
        return False


def _fragment(seed: int, kind: int, data: bytes) -> bytes:
    return _pack_frame(extend(seed ^ (len(data) << 8 | kind), data), len(data), kind) + data


def _damaged(source: str, offset: int, reason: str) -> Corrupt:
    return Corrupt(
        f"{source} is damaged at byte {offset}: {reason}. Restore the file from a copy, or run `moulin check`."
    )


__all__ = [
    "BLOCK_BYTES",
    "FRAME_BYTES",
    "HEADER_BYTES",
    "MARK_BYTES",
    "WalContents",
    "WalHeader",
    "decode_header",
    "encode_header",
    "frame",
    "frame_mark",
    "full_frame",
    "read_wal",
    "room",
    "seed_of",
]
