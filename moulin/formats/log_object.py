"""The bytes of one object of a region's log in a store. Layout: docs/formats/log_object.md.

An object is written whole or not at all, so one CRC32C at its end covers it. The nonce tells an object of this writer
from an equal one of another.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Final
from uuid import UUID

from google_crc32c import value

from moulin.errors import Corrupt, InvalidInput, Unsupported

# DO NOT CHANGE THESE VALUES: objects carry them.
MAGIC: Final = b"MLOG"
FORMAT: Final = 1

_MAX: Final = 2**63 - 1
_HEADER: Final = struct.Struct("<4sI16sQQQ16sI")
_CRC: Final = struct.Struct("<I")


@dataclass(frozen=True, slots=True)
class LogObject:
    """Entries with the positions `first`, `first` + 1, ..., and who wrote them."""

    table_id: UUID
    region: int
    epoch: int
    first: int
    nonce: bytes
    entries: tuple[bytes, ...]

    @property
    def last(self) -> int:
        """The position of its last entry."""
        return self.first + len(self.entries) - 1


def encode_object(given: LogObject) -> bytes:
    """All bytes of an object. Raises InvalidInput for what cannot be stored."""
    if not given.entries or not all(given.entries):
        raise InvalidInput("An object of a log holds at least one entry, and an entry at least one byte.")
    if len(given.nonce) != 16:
        raise InvalidInput(f"The nonce of a log's writer has 16 bytes, not {len(given.nonce)}.")
    if min(given.region, given.epoch, given.first - 1) < 0 or max(given.region, given.epoch, given.last) > _MAX:
        raise InvalidInput("Region, epoch and positions of a log are whole numbers below 2**63; positions begin at 1.")
    lengths = [len(entry) for entry in given.entries]
    try:
        sizes = struct.pack(f"<{len(lengths)}I", *lengths)
    except struct.error:
        raise InvalidInput("An entry of a log in a store has less than 4 GiB: write smaller batches.") from None
    head = _HEADER.pack(
        MAGIC, FORMAT, given.table_id.bytes, given.region, given.epoch, given.first, given.nonce, len(lengths)
    )
    body = b"".join([head, sizes, *given.entries])
    return body + _CRC.pack(value(body))


def decode_object(data: bytes, *, source: str) -> LogObject:
    """An object from all its bytes. Raises Corrupt, naming `source`, or Unsupported for a newer format."""
    if len(data) < _HEADER.size + _CRC.size:
        raise _damaged(source, f"it has {len(data)} bytes, and none has less than {_HEADER.size + _CRC.size}")
    end = len(data) - _CRC.size
    if data[:4] != MAGIC:
        raise _damaged(source, f"it begins with {data[:4]!r} instead of {MAGIC!r}")
    if _CRC.unpack_from(data, end)[0] != value(data[:end]):
        raise _damaged(source, f"the CRC32C at byte {end} does not fit")
    _, version, table_id, region, epoch, first, nonce, count = _HEADER.unpack_from(data)
    if version != FORMAT:
        raise Unsupported(f"{source} has log format {version}; this release reads {FORMAT}: upgrade Moulin.")
    start = _HEADER.size + 4 * count
    if count < 1 or start > end:
        raise _damaged(source, f"it cannot hold {count} entries")
    lengths = struct.unpack_from(f"<{count}I", data, _HEADER.size)
    offsets = [*accumulate(lengths, initial=start)]
    if offsets[-1] != end or not all(lengths):
        raise _damaged(source, f"its entries end at byte {offsets[-1]} instead of {end}, or one is empty")
    if max(region, epoch, first + count - 1) > _MAX or first < 1:
        raise _damaged(source, "its region, epoch or positions are out of range")
    entries = tuple(data[one:other] for one, other in pairwise(offsets))
    return LogObject(UUID(bytes=table_id), region, epoch, first, nonce, entries)


def _damaged(source: str, reason: str) -> Corrupt:
    return Corrupt(f"{source} is damaged: {reason}. Restore the object from a copy, or run `moulin check`.")


__all__ = ["LogObject", "decode_object", "encode_object"]
