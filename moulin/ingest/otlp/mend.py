"""Repairs requests that protobuf rejects, keeping as much as possible.

Bytes of a text that are not UTF-8 become U+FFFD. A record that protobuf cannot read even then (values nested too
deeply, fields cut short) is skipped; so are all records below such a resource, scope or metric. Everything outside of
records must be intact, because otherwise the loss is unknown.

Slow, and only for rejected requests: it parses their bytes in Python.
"""

# Decisions: docs/decisions/0225

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError

from moulin.ingest.otlp.count import DEEPEST
from moulin.ingest.otlp.otlp import REQUESTS
from moulin.ingest.otlp.wire import BYTES, PADDING, Odd, walk
from moulin.model.otel import Signal

RECORDS: Final[Mapping[Signal, frozenset[str]]] = MappingProxyType(
    {
        "logs": frozenset({"LogRecord"}),
        "traces": frozenset({"Span"}),
        "metrics": frozenset(
            {
                "NumberDataPoint",
                "HistogramDataPoint",
                "ExponentialHistogramDataPoint",
                "SummaryDataPoint",
            }
        ),
    }
)
"""The messages that become rows, by the names of their types."""
_HOLDERS: Final = frozenset(
    {f"{level}{signal}" for level in ("Resource", "Scope") for signal in ("Logs", "Spans", "Metrics")}
    | {"Metric", "Gauge", "Sum", "Histogram", "ExponentialHistogram", "Summary"}
)


@dataclass(frozen=True, slots=True)
class Mended:
    """A request that protobuf reads, how many records it lacks, and in how many texts bytes were replaced."""

    data: bytes
    left_out: int
    texts: int


class Unmendable(Exception):
    """Bytes outside of records that protobuf does not read."""


class _Deep(Exception):
    pass


def mend(signal: Signal, data: bytes) -> Mended:
    """The request without what protobuf refuses in it."""
    mender = _Mender(signal, data)
    try:
        mended = mender.message(REQUESTS[signal].DESCRIPTOR, 0, len(data), ())
        REQUESTS[signal].FromString(mended)
    except (Odd, _Deep, DecodeError):
        raise Unmendable from None
    return Mended(mended, mender.left_out, mender.texts)


class _Mender:
    def __init__(self, signal: Signal, data: bytes) -> None:
        self._data, self._request = data + PADDING, REQUESTS[signal]
        self._records = RECORDS[signal]
        self._parts = self._records | _HOLDERS
        self.left_out = self.texts = 0

    def message(self, descriptor: Any, start: int, end: int, path: tuple[int, ...]) -> bytes:
        """The bytes of a message, mended; `path` has the numbers of the fields that lead to it."""
        if len(path) >= DEEPEST:
            raise _Deep
        parts = []
        before = start
        for number, wire, at, size in walk(self._data, start, end):
            field = descriptor.fields_by_number.get(number)
            kind = field.type if field is not None and wire == BYTES else None
            if kind == FieldDescriptor.TYPE_STRING:
                parts.append(_tagged(number, self._text(at, size)))
            elif kind == FieldDescriptor.TYPE_MESSAGE:
                inner = self._inner(field.message_type, at, at + size, (*path, number))
                if inner is not None:
                    parts.append(_tagged(number, inner))
            else:
                parts.append(self._data[before : at + size])
            before = at + size
        return b"".join(parts)

    def _inner(self, descriptor: Any, start: int, end: int, path: tuple[int, ...]) -> bytes | None:
        """A message within another; None when it is a record, or holds records, and had to be left out."""
        if descriptor.name not in self._parts:
            return self.message(descriptor, start, end, path)
        if descriptor.name in self._records and self._is_good(data := self._data[start:end], path):
            return data
        before = self.left_out, self.texts
        try:
            return self.message(descriptor, start, end, path)
        except (Odd, _Deep):
            self.left_out, self.texts = before
            self.left_out += self._count(descriptor, start, end)
            return None

    def _is_good(self, record: bytes, path: tuple[int, ...]) -> bool:
        """Whether protobuf reads a record where it is: in a request of its own, as deep."""
        for number in reversed(path):
            record = _tagged(number, record)
        try:
            self._request.FromString(record)
        except DecodeError:
            return False
        return True

    def _count(self, descriptor: Any, start: int, end: int) -> int:
        """The records in a message that is left out."""
        if descriptor.name in self._records:
            return 1
        found = 0
        for number, wire, at, size in walk(self._data, start, end):
            field = descriptor.fields_by_number.get(number)
            kind = field.message_type if field is not None and wire == BYTES else None
            if kind is not None and kind.name in self._parts:
                found += self._count(kind, at, at + size)
        return found

    def _text(self, at: int, size: int) -> bytes:
        data = self._data[at : at + size]
        try:
            data.decode()
        except UnicodeDecodeError:
            self.texts += 1
            return data.decode(errors="replace").encode()
        return data


def _tagged(number: int, value: bytes) -> bytes:
    return varint_bytes(number << 3 | BYTES) + varint_bytes(len(value)) + value


def varint_bytes(value: int) -> bytes:
    """A number from 0 on as protobuf writes it."""
    if value < 128:
        return bytes((value,))
    parts = []
    while value >= 128:
        parts.append(value & 127 | 128)
        value >>= 7
    return bytes([*parts, value])


__all__ = ["RECORDS", "Mended", "Unmendable", "mend", "varint_bytes"]
