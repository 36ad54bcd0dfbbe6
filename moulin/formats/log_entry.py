"""One entry of a region's log: rows or deleted keys, and the schema of them. Layout: docs/formats/log_entry.md.

Rows are positional, in the column order of the schema whose id the entry carries; a replay maps columns by field id.
Python rows are stored as msgpack, Arrow batches as an Arrow IPC stream.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from enum import IntEnum
from functools import lru_cache
from typing import Annotated, Any, Final, TypedDict
from uuid import UUID

import msgspec
import pyarrow as pa

from moulin.errors import Corrupt, InvalidInput, Unsupported
from moulin.model.schema.values import (
    BinaryType,
    BooleanType,
    DateType,
    DecimalType,
    DoubleType,
    FixedType,
    FloatType,
    IcebergType,
    IntegerType,
    ListType,
    LongType,
    MapType,
    NestedField,
    StringType,
    StructType,
    TimestampNanoType,
    TimestampType,
    TimestamptzNanoType,
    TimestamptzType,
    TimeType,
    UUIDType,
)


class EntryKind(IntEnum):
    """DO NOT CHANGE THESE VALUES: logs carry them."""

    ROWS = 1
    ROW_BATCH = 2
    KEYS = 3
    KEY_BATCH = 4
    FENCE = 5


MAX_ROWS: Final = 2**24 - 1
HEADER_BYTES: Final = 16

_HEADER: Final = struct.Struct("<IIQ")
_KINDS: Final = frozenset(map(int, EntryKind))
_make_struct: Final[Any] = TypedDict  # mypy knows only literal ones
_encode: Final = msgspec.msgpack.Encoder(uuid_format="bytes").encode
_BAD_ROWS: Final = (msgspec.MsgspecError, TypeError, ValueError, OverflowError, RecursionError)
_BAD_BYTES: Final = (
    msgspec.MsgspecError,
    pa.ArrowException,
    ValueError,
    OverflowError,
    RecursionError,
    MemoryError,
    OSError,
)

_LEAVES: Final[dict[type[IcebergType], Any]] = {
    BooleanType: bool,
    IntegerType: int,
    LongType: int,
    FloatType: float,
    DoubleType: float,
    DecimalType: Decimal,
    StringType: str,
    BinaryType: bytes,
    FixedType: bytes,
    UUIDType: UUID,
    DateType: date,
    TimeType: Annotated[time, msgspec.Meta(tz=False)],
    TimestampType: Annotated[datetime, msgspec.Meta(tz=False)],
    TimestamptzType: Annotated[datetime, msgspec.Meta(tz=True)],
    TimestampNanoType: int,
    TimestamptzNanoType: int,
}


def encode_row(schema_id: int, row: Any, epoch: int = 0) -> bytes:
    """An entry of one row: a tuple, or a msgspec.Struct with array_like, of checked values in the schema's order."""
    try:
        data: bytes = _encode(row)
    except _BAD_ROWS as error:
        raise _unstorable(error) from None
    if _may_be_no_number(data):
        _check_finite((row,))
    if type(row) is not tuple:
        _check_form({type(row)})
    return row_head(schema_id, epoch) + data


def encode_rows(schema_id: int, rows: Sequence[Any], epoch: int = 0) -> bytes:
    """An entry of several rows, each as for `encode_row`."""
    return _header(EntryKind.ROWS, len(rows), schema_id, epoch) + _encode_tuples(rows)


def encode_keys(schema_id: int, keys: Sequence[Any], epoch: int = 0) -> bytes:
    """An entry of deleted keys: tuples of the values of the key columns, in the order of the key."""
    return _header(EntryKind.KEYS, len(keys), schema_id, epoch) + _encode_tuples(keys)


def encode_row_batch(schema_id: int, batch: pa.RecordBatch, epoch: int = 0) -> bytes:
    """An entry of the rows of an Arrow batch in the schema's Arrow form."""
    return _encode_batch(EntryKind.ROW_BATCH, schema_id, batch, epoch)


def encode_key_batch(schema_id: int, batch: pa.RecordBatch, epoch: int = 0) -> bytes:
    """An entry of deleted keys as an Arrow batch of the key columns."""
    return _encode_batch(EntryKind.KEY_BATCH, schema_id, batch, epoch)


def encode_fence(epoch: int) -> bytes:
    """What a new writer puts first into a log on a store: no rows, only a number that is taken."""
    return _header(EntryKind.FENCE, 0, 0, epoch)


def is_fence(payload: bytes) -> bool:
    return len(payload) == HEADER_BYTES and payload[0] == EntryKind.FENCE


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One decoded header; the rows are read when asked for, and `body` holds them."""

    kind: EntryKind
    schema_id: int
    epoch: int
    count: int
    body: bytes
    source: str

    def rows(self, types: tuple[Any, ...]) -> list[tuple[Any, ...]]:
        """Rows or keys of a msgpack entry, given the Python type of each column (see `python_types`).

        Raises Corrupt when the bytes are not `count` rows of these types.
        """
        if self.kind not in (EntryKind.ROWS, EntryKind.KEYS):
            raise InvalidInput(f"An entry of kind {self.kind.name} holds an Arrow batch or nothing, not msgpack rows.")
        try:
            rows: list[tuple[Any, ...]] = _decoder(types).decode(self.body)
            if _may_be_no_number(self.body):
                _check_finite(rows)
        except _BAD_BYTES as error:
            raise Corrupt(f"{self.source} does not hold rows of its schema ({error}): restore the log.") from None
        self._check_count(len(rows))
        return rows

    def batch(self) -> pa.RecordBatch:
        """The rows or keys of an Arrow entry. Raises Corrupt when the bytes are not one valid batch of `count` rows."""
        if self.kind not in (EntryKind.ROW_BATCH, EntryKind.KEY_BATCH):
            raise InvalidInput(f"An entry of kind {self.kind.name} holds no Arrow batch: ask for its rows.")
        try:
            with pa.ipc.open_stream(pa.py_buffer(self.body)) as reader:
                batch = reader.read_next_batch()
                batch.validate(full=True)
                rest = [*reader]
        except (*_BAD_BYTES, StopIteration) as error:
            raise Corrupt(f"{self.source} does not hold an Arrow batch ({error}): restore the log.") from None
        if rest:
            raise Corrupt(f"{self.source} holds {len(rest) + 1} Arrow batches instead of one: restore the log.")
        self._check_count(batch.num_rows)
        return batch

    def _check_count(self, found: int) -> None:
        if found != self.count:
            raise Corrupt(f"{self.source} has {found} rows, but its header says {self.count}: restore the log.")


def decode(payload: bytes, *, source: str = "The log entry") -> LogEntry:
    """The entry in these bytes; `source` names it in messages. Raises Corrupt, or Unsupported for an unknown kind."""
    if len(payload) < HEADER_BYTES:
        raise Corrupt(f"{source} has {len(payload)} bytes, and none has less than {HEADER_BYTES}: restore the log.")
    tag, schema_id, epoch = _HEADER.unpack_from(payload)
    kind, count = tag & 0xFF, tag >> 8
    if kind not in _KINDS:
        raise Unsupported(f"{source} is of kind {kind}, which this version does not know: upgrade Moulin.")
    body = payload[HEADER_BYTES:]
    if kind == EntryKind.FENCE and (body or count):
        raise Corrupt(f"{source} is a fence, but holds rows: restore the log.")
    return LogEntry(EntryKind(kind), schema_id, epoch, count, body, source)


def python_types(fields: Iterable[NestedField]) -> tuple[Any, ...]:
    """The Python type of each column, for `LogEntry.rows`."""
    return tuple(_python_type(field.field_type, field.required) for field in fields)


def _python_type(given: IcebergType, required: bool) -> Any:
    found: Any
    if isinstance(given, StructType):
        members = {field.name: _python_type(field.field_type, field.required) for field in given.fields}
        found = _make_struct("Struct", members, total=False)
    elif isinstance(given, ListType):
        found = list[_python_type(given.element_type, given.element_required)]  # type: ignore[misc]
    elif isinstance(given, MapType):
        found = dict[_python_type(given.key_type, True), _python_type(given.value_type, given.value_required)]  # type: ignore[misc]
    else:
        found = _LEAVES[type(given)]
    return found if required else found | None


@lru_cache(maxsize=256)
def _decoder(types: tuple[Any, ...]) -> msgspec.msgpack.Decoder[Any]:
    return msgspec.msgpack.Decoder(list[tuple[types]])  # type: ignore[valid-type]


@lru_cache(maxsize=256)
def row_head(schema_id: int, epoch: int) -> bytes:
    """What precedes the values of a row in an entry of that one row."""
    return _header(EntryKind.ROWS, 1, schema_id, epoch) + b"\x91"  # msgpack: an array of one element follows


def _header(kind: EntryKind, count: int, schema_id: int, epoch: int) -> bytes:
    if count > MAX_ROWS:
        raise InvalidInput(f"A batch of {count} rows is too large for one entry of the log: write at most {MAX_ROWS}.")
    try:
        return _HEADER.pack(kind | count << 8, schema_id, epoch)
    except struct.error:
        raise InvalidInput(f"No log entry can have schema {schema_id} and epoch {epoch}.") from None


def _encode_tuples(rows: Sequence[Any]) -> bytes:
    rows = rows if isinstance(rows, list | tuple) else list(rows)
    _check_form(set(map(type, rows)))
    try:
        data: bytes = _encode(rows)
    except _BAD_ROWS as error:
        raise _unstorable(error) from None
    if _may_be_no_number(data):
        _check_finite(rows)
    return data


def _encode_batch(kind: EntryKind, schema_id: int, batch: pa.RecordBatch, epoch: int) -> bytes:
    sink = pa.BufferOutputStream()
    sink.write(_header(kind, batch.num_rows, schema_id, epoch))
    try:
        with pa.ipc.new_stream(sink, batch.schema) as writer:
            writer.write_batch(batch)
    except pa.ArrowException as error:
        raise _unstorable(error) from None
    payload: bytes = sink.getvalue().to_pybytes()
    return payload


def _check_form(kinds: set[type]) -> None:
    """Refuses rows that msgpack would not write as an array."""
    for kind in kinds:
        if not issubclass(kind, tuple | list):
            config = getattr(kind, "__struct_config__", None)
            if config is None or not config.array_like or config.tag is not None:
                raise InvalidInput(f"A row for the log is a tuple or an array_like Struct, not {kind.__name__}.")


def _may_be_no_number(data: bytes) -> bool:
    """Whether a decimal in these bytes can be NaN or infinite. Looks for single bytes first: that is the fastest."""
    return (78 in data and data.find(b"NaN") >= 0) or (73 in data and data.find(b"Infinity") >= 0)


def _check_finite(values: Iterable[Any]) -> None:
    """Refuses decimals that are not numbers: no column can hold them."""
    for value in values:
        if isinstance(value, Decimal):
            if not value.is_finite():
                raise InvalidInput(f"The decimal {value} cannot be stored: use null instead.")
        elif isinstance(value, dict):
            _check_finite(value)
            _check_finite(value.values())
        elif isinstance(value, list | tuple):
            _check_finite(value)
        elif isinstance(value, msgspec.Struct):
            _check_finite(msgspec.structs.astuple(value))


def _unstorable(error: Exception) -> InvalidInput:
    return InvalidInput(f"A row cannot be written to the log ({error}): check the types of its values.")


__all__ = [
    "EntryKind",
    "LogEntry",
    "decode",
    "encode_fence",
    "encode_key_batch",
    "encode_keys",
    "encode_row",
    "encode_row_batch",
    "encode_rows",
    "is_fence",
    "python_types",
    "row_head",
]
