"""The bytes of a baby segment, one numbered object of a collector's stream. Layout: docs/formats/baby_segment.md.

A baby segment is written whole or not at all. Its header says whose it is (stream, offset, nonce of the writer) and
ends with a hash of everything, so that a writer that finds its number taken can tell from the header alone whether the
baby segment is its own.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from itertools import accumulate
from typing import Final
from uuid import UUID

import pyarrow as pa

from moulin.errors import Corrupt, InvalidInput, Unsupported
from moulin.model.ingest import StopReason
from moulin.model.otel import Signal

# DO NOT CHANGE THESE VALUES: baby segments carry them.
MAGIC: Final = b"MBBY"
FORMAT: Final = 1
HEADER_SIZE: Final = 128

_HEADER: Final = struct.Struct("<4sHH16s16sQQQQQI4x8x")
_ENTRY: Final = struct.Struct("<IHHII")
_HASHED: Final = HEADER_SIZE - 32
_MAX_OFFSET: Final = 2**63 - 1
MAX_RAW: Final = 1 << 30
"""What the entries of one baby segment may hold at most, before compression."""
_CODEC: Final = pa.Codec("zstd", compression_level=1)


class Kind(IntEnum):
    """What a baby segment is for."""

    DATA = 0
    KEEP_ALIVE = 1  # the writer lives, and has nothing to say
    STOP = 2  # the stream ends before this number


class Payload(IntEnum):
    """What an entry holds: an OTLP request in protobuf, or rows for one table."""

    LOGS = 1
    TRACES = 2
    METRICS = 3
    NDJSON = 4
    ARROW = 5


PAYLOAD_OF: Final[Mapping[Signal, Payload]] = {
    "logs": Payload.LOGS,
    "traces": Payload.TRACES,
    "metrics": Payload.METRICS,
}


@dataclass(frozen=True, slots=True)
class Entry:
    """One request as it came. `table` names the table that rows are for, in the token's database; OTLP has none."""

    token_id: UUID
    payload: Payload
    records: int
    data: bytes
    table: str = ""


@dataclass(frozen=True, slots=True)
class Header:
    """What the first 128 bytes of a baby segment say."""

    kind: Kind
    stream_id: UUID
    nonce: bytes
    offset: int
    written_at: int
    records: int
    raw_size: int
    stored_size: int
    reason: StopReason
    digest: bytes


@dataclass(frozen=True, slots=True)
class BabySegment:
    """A baby segment: its header, and its entries in the order in which they came."""

    header: Header
    entries: tuple[Entry, ...]


def encode_data(stream_id: UUID, nonce: bytes, offset: int, written_at: int, entries: Sequence[Entry]) -> bytes:
    """A baby segment of entries. Raises InvalidInput for what cannot be stored."""
    if not entries:
        raise InvalidInput("A baby segment of data must have at least one entry.")
    tokens = list(dict.fromkeys(entry.token_id for entry in entries))
    tables = list(dict.fromkeys(entry.table for entry in entries if entry.table))
    token_of = {token: index for index, token in enumerate(tokens)}
    table_of = {"": 0, **{table: index + 1 for index, table in enumerate(tables)}}
    try:
        parts = [struct.pack("<III", len(tokens), len(tables), len(entries))]
        parts += [token.bytes for token in tokens]
        for name in (table.encode() for table in tables):
            parts += [struct.pack("<H", len(name)), name]
        for e in entries:
            _check_entry(e)
            parts.append(_ENTRY.pack(token_of[e.token_id], e.payload, table_of[e.table], e.records, len(e.data)))
    except struct.error:
        raise InvalidInput("A baby segment takes at most 65,535 tables and entries of less than 4 GiB.") from None
    raw = b"".join([*parts, *(entry.data for entry in entries)])
    if len(raw) > MAX_RAW:
        raise InvalidInput(f"A baby segment holds at most {MAX_RAW} bytes, not {len(raw)}: write more of them.")
    body = _CODEC.compress(raw, asbytes=True)
    records = sum(entry.records for entry in entries)
    return _object(Kind.DATA, stream_id, nonce, offset, written_at, records, len(raw), body, StopReason.UNSPECIFIED)


def encode_keep_alive(stream_id: UUID, nonce: bytes, offset: int, written_at: int) -> bytes:
    """A baby segment that only says that the writer lives."""
    return _object(Kind.KEEP_ALIVE, stream_id, nonce, offset, written_at, 0, 0, b"", StopReason.UNSPECIFIED)


def encode_stop(stream_id: UUID, nonce: bytes, offset: int, written_at: int, reason: StopReason) -> bytes:
    """The baby segment that ends a stream: put at the first missing number by the process that ends it."""
    return _object(Kind.STOP, stream_id, nonce, offset, written_at, 0, 0, b"", reason)


def decode_header(data: bytes, *, source: str) -> Header:
    """The header, from the first bytes of a baby segment; the hash in it is not checked. Corrupt names `source`."""
    if len(data) < HEADER_SIZE:
        raise _damaged(source, f"it has {len(data)} bytes, and its header alone has {HEADER_SIZE}")
    if data[:4] != MAGIC:
        raise _damaged(source, f"it begins with {data[:4]!r} instead of {MAGIC!r}")
    _, version, kind, stream, nonce, offset, written, records, raw, stored, reason = _HEADER.unpack_from(data)
    if version != FORMAT:
        raise Unsupported(f"{source} has baby segment format {version}; this release reads {FORMAT}: upgrade Moulin.")
    try:
        return Header(
            Kind(kind),
            UUID(bytes=stream),
            nonce,
            offset,
            written,
            records,
            raw,
            stored,
            StopReason(reason),
            data[_HASHED:HEADER_SIZE],
        )
    except ValueError:
        raise _damaged(source, f"it has the unknown kind {kind} or reason {reason}") from None


def decode(data: bytes, *, source: str, stream_id: UUID | None = None, offset: int | None = None) -> BabySegment:
    """A baby segment from all its bytes. Raises Corrupt, naming `source`, or Unsupported for a newer format.

    With `stream_id` and `offset`, one of another stream or number is Corrupt, too.
    """
    header = decode_header(data, source=source)
    if header.digest != _digest(data[:_HASHED], data[HEADER_SIZE:]):
        raise _damaged(source, "its hash does not fit")
    if header.stored_size != len(data) - HEADER_SIZE or header.raw_size > MAX_RAW or header.offset > _MAX_OFFSET:
        raise _damaged(source, f"its sizes or its offset are not possible (it has {len(data)} bytes)")
    if stream_id not in (None, header.stream_id) or offset not in (None, header.offset):
        raise _damaged(source, f"it says it is number {header.offset} of stream {header.stream_id}")
    if header.kind is not Kind.DATA:
        if header.stored_size or header.raw_size or header.records:
            raise _damaged(source, "it holds bytes after its header and is not of data")
        return BabySegment(header, ())
    try:
        raw = _CODEC.decompress(data[HEADER_SIZE:], header.raw_size, asbytes=True)
        entries = _entries(raw)
    except (struct.error, ValueError, OSError, pa.ArrowException, IndexError) as error:
        raise _damaged(source, f"its entries cannot be read ({error})") from None
    if sum(entry.records for entry in entries) != header.records or not entries:
        raise _damaged(source, "its entries do not have the records that its header counts")
    return BabySegment(header, entries)


def _check_entry(entry: Entry) -> None:
    rows = entry.payload in (Payload.NDJSON, Payload.ARROW)
    if rows != bool(entry.table):
        raise InvalidInput("Rows name the table that they are for, and OTLP requests name none.")


def _entries(raw: bytes) -> tuple[Entry, ...]:
    token_count, table_count, count = struct.unpack_from("<III", raw)
    at = 12 + 16 * token_count
    if at > len(raw) or _ENTRY.size * count > len(raw):
        raise ValueError("there are more of them than bytes")
    tokens = [UUID(bytes=raw[start : start + 16]) for start in range(12, at, 16)]
    tables = [""]
    for _ in range(table_count):
        (size,) = struct.unpack_from("<H", raw, at)
        name = raw[at + 2 : at + 2 + size]
        at += 2 + size
        if len(name) != size or not size:
            raise ValueError("a table has no name")
        tables.append(name.decode())
    rows = [*_ENTRY.iter_unpack(raw[at : at + _ENTRY.size * count])]
    at += _ENTRY.size * count
    ends = [*accumulate((row[4] for row in rows), initial=at)]
    if ends[-1] != len(raw) or len(rows) != count:
        raise ValueError("they do not end at the end of the baby segment")
    found = tuple(
        Entry(tokens[token], Payload(payload), records, raw[start : start + size], tables[table])
        for (token, payload, table, records, size), start in zip(rows, ends, strict=False)
    )
    for entry in found:
        _check_entry(entry)
    return found


def _object(
    kind: Kind,
    stream_id: UUID,
    nonce: bytes,
    offset: int,
    written_at: int,
    records: int,
    raw_size: int,
    body: bytes,
    reason: StopReason,
) -> bytes:
    if len(nonce) != 16 or not 0 <= offset <= _MAX_OFFSET:
        raise InvalidInput("The nonce of a stream's writer has 16 bytes, and an offset is from 0 to 2**63 - 1.")
    head = _HEADER.pack(
        MAGIC, FORMAT, kind, stream_id.bytes, nonce, offset, written_at, records, raw_size, len(body), reason
    )
    return b"".join([head, _digest(head, body), body])


def _digest(head: bytes, body: bytes) -> bytes:
    found = hashlib.sha256(head)
    found.update(body)
    return found.digest()


def _damaged(source: str, reason: str) -> Corrupt:
    return Corrupt(f"{source} is damaged: {reason}. Restore the baby segment from a copy, or run `moulin check`.")
