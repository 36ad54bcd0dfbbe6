"""OTLP's JSON as protobuf: one pass over the parsed document writes the wire format, without an object per message.

The rules are those of protobuf's JSON: names in lowerCamelCase or as in the .proto, null is absent, 64-bit numbers may
be texts, enums may be names, bytes are base64, unknown names are skipped. OTLP differs in one thing: trace and span ids
are hex.
"""

# Decisions: docs/decisions/0224

from __future__ import annotations

import base64
import binascii
import json
import math
import re
import struct
from collections.abc import Callable
from functools import cache
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor as Field

from moulin.ingest.otlp.count import DEEPEST
from moulin.ingest.otlp.mend import varint_bytes
from moulin.ingest.otlp.otlp import REQUESTS
from moulin.model.otel import Signal

_IDS: Final = frozenset({"trace_id", "span_id", "parent_span_id"})
STRING: Final = rb'"[^"\\]*+(?:\\.?[^"\\]*+)*+"?'
"""A pattern for a text of JSON. One without an end matches up to the end of the data: nothing is tried twice."""
_STRINGS: Final = re.compile(STRING, re.DOTALL)
_BRACKETS: Final = re.compile(STRING.decode() + r"|[{}\[\]]", re.DOTALL)
_LEVELS: Final = 600  # of JSON that are parsed; fewer than Python can, and far more than DEEPEST messages have
_MASK: Final = (1 << 64) - 1
_RANGES: Final = {
    Field.TYPE_INT32: (-(1 << 31), 1 << 31),
    Field.TYPE_SINT32: (-(1 << 31), 1 << 31),
    Field.TYPE_ENUM: (-(1 << 31), 1 << 31),
    Field.TYPE_UINT32: (0, 1 << 32),
    Field.TYPE_INT64: (-(1 << 63), 1 << 63),
    Field.TYPE_SINT64: (-(1 << 63), 1 << 63),
    Field.TYPE_UINT64: (0, 1 << 64),
    Field.TYPE_FIXED32: (0, 1 << 32),
    Field.TYPE_FIXED64: (0, 1 << 64),
    Field.TYPE_SFIXED64: (-(1 << 63), 1 << 63),
}


class NotOtlp(ValueError):
    """The document is not a request; the message says what is wrong in it."""


class _Notes:
    """What was replaced on the way."""

    def __init__(self) -> None:
        self.texts = 0


_Writer = Callable[[Any, int, _Notes], bytes]


def count_values(data: bytes, most: int) -> int:
    """The values of a JSON document, before it is parsed: exact where there may be more than `most`."""
    found = _count(data)
    return found if found <= most else _count(_STRINGS.sub(b"", data))


def _count(data: bytes) -> int:
    return data.count(b"{") + data.count(b"[") + data.count(b",") + 1


def to_protobuf(signal: Signal, data: bytes) -> tuple[bytes, int]:
    """The request in protobuf, and in how many texts something was replaced by U+FFFD. NotOtlp when it is none.

    Values that are nested more deeply than protobuf reads are truncated below that; the next check detects it.
    """
    notes = _Notes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("utf-8-sig", errors="replace")
        notes.texts += 1
    try:
        document = _parsed(text)
    except (ValueError, RecursionError):
        raise NotOtlp("It is not JSON, or nested too deeply.") from None
    if not isinstance(document, dict):
        raise NotOtlp("It is not a JSON object.")
    return _message(REQUESTS[signal].DESCRIPTOR, document, 1, notes), notes.texts


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except RecursionError:
        return json.loads(_emptied(text))


def _emptied(text: str) -> str:
    """The document with nothing inside the brackets that are `_LEVELS` deep: protobuf refuses their record anyway."""
    parts, depth, kept = [], 0, 0
    for found in _BRACKETS.finditer(text):
        bracket = found[0]
        if bracket in ("{", "["):
            depth += 1
            if depth == _LEVELS:
                parts.append(text[kept : found.end()])
        elif bracket in ("}", "]"):
            if depth == _LEVELS:
                kept = found.start()
            depth -= 1
    if depth >= _LEVELS:
        raise ValueError("A bracket is not closed.")
    return "".join([*parts, text[kept:]])


def _message(descriptor: Any, value: Any, depth: int, notes: _Notes) -> bytes:
    if not isinstance(value, dict):
        raise NotOtlp(f"{descriptor.name} is not a JSON object.")
    if depth > DEEPEST + 1 or not value:
        return b""
    writers = _writers(descriptor)
    parts = []
    for name, item in value.items():
        write = writers.get(name)
        if write is not None and item is not None:
            parts.append(write(item, depth, notes))
    return b"".join(parts)


@cache
def _writers(descriptor: Any) -> dict[str, _Writer]:
    """For each name that a field may have, what writes it with its tag."""
    found = {}
    for field in descriptor.fields:
        found[field.json_name] = found[field.name] = _field(field)
    return found


def _field(field: Any) -> _Writer:
    one = _nested(field) if field.type == Field.TYPE_MESSAGE else _plain(field)
    if not field.is_repeated:
        return one

    def many(value: Any, depth: int, notes: _Notes) -> bytes:
        if not isinstance(value, list):
            raise NotOtlp(f"{field.json_name} is not a list.")
        return b"".join([one(item, depth, notes) for item in value])

    return many


def _nested(field: Any) -> _Writer:
    tag, kind = varint_bytes(field.number << 3 | 2), field.message_type
    empty = tag + b"\0"

    def write(value: Any, depth: int, notes: _Notes) -> bytes:
        inner = _message(kind, value, depth + 1, notes) if value != {} else b""
        return tag + varint_bytes(len(inner)) + inner if inner else empty

    return write


def _plain(field: Any) -> _Writer:
    """A number, a text or bytes. What protobuf leaves out of a message because it is the default is left out here."""
    wire, convert = _SPECIAL.get(field.name if field.type == Field.TYPE_BYTES else "") or _KINDS[field.type]
    tag = varint_bytes(field.number << 3 | wire)
    keeps_defaults = field.has_presence or field.is_repeated

    def write(value: Any, depth: int, notes: _Notes) -> bytes:
        try:
            data, is_default = convert(field, value, notes)
        except (ValueError, TypeError, OverflowError, struct.error):
            raise NotOtlp(f"{field.json_name} cannot be {str(value)[:60]!r}.") from None
        return tag + data if keeps_defaults or not is_default else b""

    return write


def _text(field: Any, value: Any, notes: _Notes) -> tuple[bytes, bool]:
    if not isinstance(value, str):
        raise TypeError
    try:
        data = value.encode()
    except UnicodeEncodeError:  # half of a surrogate pair
        notes.texts += 1
        data = value.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()
    return varint_bytes(len(data)) + data, not data


def _hex(field: Any, value: Any, notes: _Notes) -> tuple[bytes, bool]:
    data = binascii.unhexlify(value)
    return varint_bytes(len(data)) + data, not data


def _base64(field: Any, value: Any, notes: _Notes) -> tuple[bytes, bool]:
    padded = value + "=" * (-len(value) % 4)
    data = base64.b64decode(padded.replace("-", "+").replace("_", "/"), validate=True)
    return varint_bytes(len(data)) + data, not data


def _varint(field: Any, value: Any, notes: _Notes) -> tuple[bytes, bool]:
    number = _whole(field, value)
    return varint_bytes(number & _MASK), not number


def _zigzag(field: Any, value: Any, notes: _Notes) -> tuple[bytes, bool]:
    number = _whole(field, value)
    return varint_bytes((number << 1 ^ number >> 63) & _MASK), not number


def _enum(field: Any, value: Any, notes: _Notes) -> tuple[bytes, bool]:
    known = field.enum_type.values_by_name.get(value) if isinstance(value, str) else None
    return _varint(field, value if known is None else known.number, notes)


def _bool(field: Any, value: Any, notes: _Notes) -> tuple[bytes, bool]:
    if not isinstance(value, bool):
        raise TypeError
    return b"\1" if value else b"\0", not value


def _double(field: Any, value: Any, notes: _Notes) -> tuple[bytes, bool]:
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    number = float(value)
    return struct.pack("<d", number), number == 0 and math.copysign(1, number) > 0


def _fixed(form: str) -> Callable[[Any, Any, _Notes], tuple[bytes, bool]]:
    def convert(field: Any, value: Any, notes: _Notes) -> tuple[bytes, bool]:
        number = _whole(field, value)
        return struct.pack(form, number), not number

    return convert


def _whole(field: Any, value: Any) -> int:
    """A whole number, given as a number or as a text."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise TypeError
    number = int(value)
    low, high = _RANGES[field.type]
    if (isinstance(value, float) and number != value) or not low <= number < high:
        raise ValueError
    return number


_KINDS: Final[dict[int, tuple[int, Callable[[Any, Any, _Notes], tuple[bytes, bool]]]]] = {
    Field.TYPE_STRING: (2, _text),
    Field.TYPE_BYTES: (2, _base64),
    Field.TYPE_BOOL: (0, _bool),
    Field.TYPE_ENUM: (0, _enum),
    Field.TYPE_INT32: (0, _varint),
    Field.TYPE_INT64: (0, _varint),
    Field.TYPE_UINT32: (0, _varint),
    Field.TYPE_UINT64: (0, _varint),
    Field.TYPE_SINT32: (0, _zigzag),
    Field.TYPE_SINT64: (0, _zigzag),
    Field.TYPE_FIXED64: (1, _fixed("<Q")),
    Field.TYPE_SFIXED64: (1, _fixed("<q")),
    Field.TYPE_FIXED32: (5, _fixed("<I")),
    Field.TYPE_DOUBLE: (1, _double),
}
_SPECIAL: Final = dict.fromkeys(_IDS, (2, _hex))


__all__ = ["STRING", "NotOtlp", "count_values", "to_protobuf"]
