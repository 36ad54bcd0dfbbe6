"""Computes the decoded size of an Arrow IPC stream from its metadata, without decompressing.

A stream is messages, each with metadata in FlatBuffers and a body of buffers. The metadata says how many rows a batch
has, how long each column and each buffer is; a compressed buffer begins with its size once unpacked. The layout is that
of Arrow's Message.fbs and Schema.fbs; only the few fields that are needed are read.
"""

# Decisions: docs/decisions/0224

from __future__ import annotations

import struct
from collections.abc import Iterator
from itertools import islice
from typing import Final

import pyarrow as pa

from moulin.errors import InvalidInput
from moulin.ingest.collector.limits import RequestLimits, TooLarge

# DO NOT CHANGE THESE NUMBERS: they are those of Arrow's Message.fbs and Schema.fbs.
_SCHEMA, _DICTIONARY, _BATCH = 1, 2, 3
_HEADER_TYPE, _HEADER = 1, 2
_FIELDS, _CHILDREN = 1, 5
_LENGTH, _NODES, _BUFFERS, _COMPRESSION = 0, 1, 2, 3
_DICTIONARY_BATCH = 1

_BATCHES: Final = 65_536
_VALUE_BYTES: Final = 4  # what a value takes at least once it is in a column of a table, one of type null too
_PAIR: Final = struct.Struct("<qq")
_LONG: Final = struct.Struct("<q")


def check_stream(data: bytes, limits: RequestLimits) -> None:
    """Refuses a stream that is past a limit once unpacked. Raises whatever Arrow does for what is no stream."""
    try:
        _check(data, limits)
    except (struct.error, IndexError, UnicodeDecodeError):
        raise InvalidInput("The body is not an Arrow IPC stream: its metadata cannot be read.") from None


def _check(data: bytes, limits: RequestLimits) -> None:
    rows = values = decoded = batches = 0
    for message in _messages(data):
        kind, header = _header(message.metadata.to_pybytes())
        if kind == _SCHEMA:
            columns, depth = _schema_size(header, limits)
            limits.check_columns(columns)
            limits.check_depth(depth)
        elif kind in (_BATCH, _DICTIONARY):
            batch = header.table(_DICTIONARY_BATCH) if kind == _DICTIONARY else header
            batches += 1
            if batches > _BATCHES:
                raise TooLarge(f"The stream has more than {_BATCHES:,} batches: send larger batches, or fewer.")
            rows += _natural(batch.long(_LENGTH)) if kind == _BATCH else 0
            values += sum(_natural(length) for length, _ in batch.pairs(_NODES))
            decoded += sum(_buffer_sizes(batch, message.body))
            limits.check_rows(rows)
            limits.check_decoded(max(decoded, _VALUE_BYTES * values))


def _messages(data: bytes) -> Iterator[pa.Message]:
    reader = pa.ipc.MessageReader.open_stream(pa.py_buffer(data))
    while True:
        try:
            yield reader.read_next_message()
        except StopIteration:
            return


def _buffer_sizes(batch: _Table, body: pa.Buffer | None) -> Iterator[int]:
    """The bytes that each buffer of a batch has once unpacked."""
    compressed = batch.has(_COMPRESSION)
    for offset, length in batch.pairs(_BUFFERS):
        size = _natural(length)
        if compressed and length >= _LONG.size and body is not None:
            (size,) = _LONG.unpack_from(body, _natural(offset))
        yield length if size < 0 else size  # -1: this buffer was left as it was


def _natural(length: int) -> int:
    if length < 0:
        raise InvalidInput("The body is not an Arrow IPC stream: a length is negative.")
    return length


def _schema_size(schema: _Table, limits: RequestLimits) -> tuple[int, int]:
    """How many fields a schema has, those of structs included, and how deep they are nested; counted to the limits."""
    columns, depth = 0, 0
    level = list(schema.tables(_FIELDS, limits.columns + 1))
    while level and columns <= limits.columns and depth <= limits.depth:
        columns += len(level)
        depth += 1
        children = (child for field in level for child in field.tables(_CHILDREN, limits.columns + 1))
        level = list(islice(children, limits.columns + 1))
    return columns + len(level), depth


def _header(metadata: bytes) -> tuple[int, _Table]:
    message = _Table(metadata, struct.unpack_from("<I", metadata)[0])
    return message.byte(_HEADER_TYPE), message.table(_HEADER)


class _Table:
    """A table of a FlatBuffer: fields are found by way of its vtable. struct.error for what lies outside."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self._at = data, at
        self._vtable = at - struct.unpack_from("<i", data, at)[0]
        if self._vtable < 0:
            raise IndexError
        (self._size,) = struct.unpack_from("<H", data, self._vtable)

    def has(self, field: int) -> bool:
        return self._where(field) is not None

    def _where(self, field: int) -> int | None:
        slot = 4 + 2 * field
        if slot + 2 > self._size:
            return None
        (offset,) = struct.unpack_from("<H", self._data, self._vtable + slot)
        return self._at + offset if offset else None

    def byte(self, field: int) -> int:
        at = self._where(field)
        return 0 if at is None else self._data[at]

    def long(self, field: int) -> int:
        at = self._where(field)
        return 0 if at is None else int(_LONG.unpack_from(self._data, at)[0])

    def table(self, field: int) -> _Table:
        at = self._where(field)
        if at is None:
            raise IndexError
        return self._follow(at)

    def _follow(self, at: int) -> _Table:
        return _Table(self._data, at + struct.unpack_from("<I", self._data, at)[0])

    def _vector(self, field: int) -> tuple[int, int]:
        """Where the items of a vector begin, and how many there are."""
        at = self._where(field)
        if at is None:
            return 0, 0
        at += struct.unpack_from("<I", self._data, at)[0]
        return at + 4, struct.unpack_from("<I", self._data, at)[0]

    def tables(self, field: int, most: int) -> Iterator[_Table]:
        """The tables of a vector, at most so many."""
        at, count = self._vector(field)
        return (self._follow(at + 4 * index) for index in range(min(count, most)))

    def pairs(self, field: int) -> Iterator[tuple[int, int]]:
        """The structs of a vector, of two longs each: FieldNode or Buffer."""
        at, count = self._vector(field)
        if at + count * _PAIR.size > len(self._data):
            raise IndexError
        return _PAIR.iter_unpack(self._data[at : at + count * _PAIR.size])


__all__ = ["check_stream"]
