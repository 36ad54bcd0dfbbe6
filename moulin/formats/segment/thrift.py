"""The part of Thrift's compact protocol that Parquet footers need: walk over fields, read and write numbers.

Values are not built: a walk says where each field lies, and callers read those that they want.
"""

from __future__ import annotations

import numpy as np

from moulin.model.columns.arrays import Integers

_TRUE, _FALSE, _BYTE, _I16, _I64, _DOUBLE, _BINARY, LIST, _SET, _MAP, STRUCT = 1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12


class Walk:
    """A walk over the fields of the struct at `at`: after each `next`, call `integer` or `skip`, or move `at`."""

    __slots__ = ("_data", "at", "kind", "number")

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at, self.number, self.kind = data, at, 0, 0

    def next(self) -> bool:
        """Whether there is one more field, of which `number` and `kind` are known now. `at` is where its value lies,
        and after the last field where the struct ends."""
        head = self._data[self.at]
        self.at += 1
        if not head:
            return False
        if head >> 4:
            self.number += head >> 4
        else:
            self.number, self.at = signed(self._data, self.at)
        self.kind = head & 15
        return True

    def integer(self) -> int:
        value, self.at = signed(self._data, self.at)
        return value

    def skip(self) -> None:
        self.at = skip(self._data, self.at, self.kind)


def skip(data: bytes, at: int, kind: int) -> int:
    """Where the value of this kind that lies at `at` ends."""
    if _I16 <= kind <= _I64:
        while data[at] > 127:
            at += 1
        return at + 1
    if kind == _BINARY:
        length, at = unsigned(data, at)
        return at + length
    if kind == STRUCT:
        return integers(data, at, 0, _NOTHING)
    if kind in (LIST, _SET):
        count, element, at = elements(data, at)
        if element in (_TRUE, _FALSE, _BYTE):
            return at + count
        for _ in range(count):
            at = skip(data, at, element)
        return at
    if kind in (_TRUE, _FALSE):
        return at
    if kind in (_BYTE, _DOUBLE):
        return at + (1 if kind == _BYTE else 8)
    raise ValueError(f"Thrift kind {kind} is not part of a Parquet footer")


_NOTHING: dict[int, int] = {}


def integers(data: bytes, at: int, number: int, found: dict[int, int]) -> int:
    """Note those numbers of the rest of a struct that `found` has keys for; returns where the struct ends.

    `at` is behind field `number`. A footer has thousands of these, so everything is done in this loop.
    """
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = signed(data, at)
        kind = head & 15
        if kind <= _FALSE:
            continue
        if kind > _BINARY or kind in (_BYTE, _DOUBLE):
            at = skip(data, at, kind)
            continue
        byte, shift = data[at], 7
        value = byte & 127
        at += 1
        while byte > 127:
            byte = data[at]
            value |= (byte & 127) << shift
            shift += 7
            at += 1
        if kind == _BINARY:
            at += value
        elif number in found:
            found[number] = value >> 1 ^ -(value & 1)
    return at + 1


def elements(data: bytes, at: int) -> tuple[int, int, int]:
    """How many elements the list at `at` has, of which kind, and where the first lies."""
    head = data[at]
    count, at = head >> 4, at + 1
    if count == 15:
        count, at = unsigned(data, at)
    return count, head & 15, at


def unsigned(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends."""
    value = shift = 0
    while (byte := data[at]) > 127:
        value |= (byte & 127) << shift
        shift += 7
        at += 1
    return value | byte << shift, at + 1


def signed(data: bytes, at: int) -> tuple[int, int]:
    """A number that may be negative, and where it ends."""
    value, at = unsigned(data, at)
    return value >> 1 ^ -(value & 1), at


def write_unsigned(value: int) -> bytes:
    if value < 1 << 14:
        return bytes((value,)) if value < 128 else bytes((value & 127 | 128, value >> 7))
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_signed(value: int) -> bytes:
    return write_unsigned(value << 1 if value >= 0 else (-value << 1) - 1)


def write_list(kind: int, values: list[bytes]) -> bytes:
    """A list of values that are written already."""
    count = len(values)
    head = bytes([count << 4 | kind]) if count < 15 else bytes([0xF0 | kind]) + write_unsigned(count)
    return head + b"".join(values)


def unsigned_array(data: bytes, at: int, count: int) -> Integers:
    """`count` numbers one after the other, at once."""
    body = np.frombuffer(data, np.uint8, offset=at)
    ends = np.flatnonzero(body < 128)[:count]
    if len(ends) < count:
        raise ValueError("numbers are missing")
    starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
    lengths = ends - starts + 1
    if count and lengths.max() > 9:
        raise ValueError("a number is too large")
    values = np.zeros(count, np.int64)
    for byte in range(int(lengths.max()) if count else 0):
        longer = lengths > byte
        values[longer] |= (body[starts[longer] + byte].astype(np.int64) & 127) << (7 * byte)
    return values
