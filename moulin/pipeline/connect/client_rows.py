"""Rows from clients: only Arrow streams that do not grow when Spark reads them.

Spark keeps them as rows in the driver. A few bytes of Arrow can represent many rows: compressed, as columns without
values, as dictionaries, or as views that share text. Spark's clients use none of these.
"""

# Decisions: docs/decisions/0286

from __future__ import annotations

import struct
from typing import Final

import pyarrow as pa
from pyarrow import types

from moulin.errors import InvalidInput

MAX_ROWS: Final = 5_000_000
_DICTIONARY, _BATCH = 2, 3  # kinds of messages of Arrow
_COMPRESSION = 3  # the field of a batch that says how it is compressed
_PLAIN = (
    *(types.is_boolean, types.is_integer, types.is_floating, types.is_decimal, types.is_date, types.is_time),
    *(types.is_timestamp, types.is_duration, types.is_interval, types.is_string, types.is_large_string),
    *(types.is_binary, types.is_large_binary),
)


def check_rows(data: bytes) -> None:
    """Raises InvalidInput for a stream that is damaged, has too many rows, or would grow when read."""
    if not data:
        return
    try:
        _check_messages(data)
        with pa.ipc.open_stream(data) as stream:
            for field in stream.schema:
                _check_type(field.type, may_be_null=True)
            rows = 0
            for batch in stream:
                rows += batch.num_rows
                if rows > MAX_ROWS:
                    raise InvalidInput(f"The client sent more than {MAX_ROWS} rows: send fewer at a time.")
                batch.validate(full=True)
    except (pa.ArrowException, struct.error, OSError) as error:
        reason = str(error).partition("\n")[0]
        raise InvalidInput(f"The rows of the client are not valid Arrow: {reason}") from None


def _check_messages(data: bytes) -> None:
    """Reject compressed and dictionary-encoded data before anything is decoded."""
    reader = pa.ipc.MessageReader.open_stream(pa.BufferReader(data))
    while True:
        try:
            message = reader.read_next_message()
        except StopIteration:
            return
        table = _Table.root(message.metadata.to_pybytes())
        kind = table.byte(1)
        if kind == _DICTIONARY or (kind == _BATCH and table.table(2).has(_COMPRESSION)):
            raise InvalidInput("The client sent compressed rows: send them uncompressed.")


def _check_type(kind: pa.DataType, *, may_be_null: bool) -> None:
    if types.is_struct(kind):
        for index in range(kind.num_fields):
            _check_type(kind.field(index).type, may_be_null=may_be_null)
    elif types.is_list(kind) or types.is_large_list(kind):
        _check_type(kind.value_type, may_be_null=False)
    elif types.is_map(kind):
        _check_type(kind.key_type, may_be_null=False)
        _check_type(kind.item_type, may_be_null=False)
    elif not (may_be_null and types.is_null(kind)) and not any(is_plain(kind) for is_plain in _PLAIN):
        raise InvalidInput(f"The client sent a column of Arrow's type {kind}: send it in a plain type.")


class _Table:
    """A table of a FlatBuffer: a vector of offsets says where its fields are."""

    def __init__(self, data: bytes, position: int) -> None:
        self._data, self._position = data, position
        self._fields = position - struct.unpack_from("<i", data, position)[0]

    @classmethod
    def root(cls, data: bytes) -> _Table:
        return cls(data, struct.unpack_from("<I", data)[0])

    def _offset(self, field: int) -> int:
        size = struct.unpack_from("<H", self._data, self._fields)[0]
        at = 4 + 2 * field
        found: int = struct.unpack_from("<H", self._data, self._fields + at)[0] if at < size else 0
        return found

    def has(self, field: int) -> bool:
        return self._offset(field) != 0

    def byte(self, field: int) -> int:
        offset = self._offset(field)
        return self._data[self._position + offset] if offset else 0

    def table(self, field: int) -> _Table:
        at = self._position + self._offset(field)
        return _Table(self._data, at + struct.unpack_from("<I", self._data, at)[0])


__all__ = ["MAX_ROWS", "check_rows"]
