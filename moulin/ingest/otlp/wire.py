"""The wire format of Protocol Buffers, for many messages at a time.

`walk` reads the fields of one message, in Python. `scan` reads those of thousands in step: the first field of all, then
the second of all, and so on, each step a handful of NumPy operations. What neither reads (groups, tags of more than two
bytes, a field cut short) raises `Odd`; the caller then lets protobuf itself rewrite the message, or refuse it.

Values stay where they are: a field is a range of the one buffer that all messages lie in, and a column of texts is
gathered from its ranges by Arrow.
"""

# Decisions: docs/decisions/0071

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from moulin.model.columns.arrays import Integers

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5

PADDING: Final = b"\0" * 16
"""What follows the last message in a buffer, so that reading a tag and a varint never runs over its end."""

_FEW: Final = 96  # messages that still have fields: below this, stepping costs more than walking
_ANY: Final = 1 << 62
_FIXED_SIZES: Final = np.array([-1, 8, 0, -1, -1, 4, -1, -1])


class Odd(Exception):
    """Bytes that protobuf may or may not accept, and that this module leaves to it."""


class Buffer:
    """The bytes of many messages, one after the other. `repeated_keys` counts attributes that a later one replaced."""

    def __init__(self, data: bytes) -> None:
        self.data = data + PADDING
        self.end = len(data)
        self.repeated_keys = 0
        self.bytes: NDArray[np.uint8] = np.frombuffer(self.data, np.uint8)
        self._arrow = pa.py_buffer(self.data)

    def binary(self, start: Integers, size: Integers, present: NDArray[np.bool_]) -> pa.BinaryArray:
        """The ranges as values, null where not present. REQUIRES: present ranges ascend and do not overlap."""
        count = len(start)
        if not count:
            return pa.array([], pa.binary())
        edges = np.empty(2 * count, np.int64)
        edges[0::2] = np.where(present, start, 0)
        edges[1::2] = np.where(present, start + size, 0)
        edges = np.maximum.accumulate(edges)  # what is absent lies, empty, after what is before it
        # Every second value is a gap between two ranges; take copies the others.
        slots = pa.BinaryArray.from_buffers(
            pa.binary(), 2 * count - 1, [None, pa.py_buffer(edges.astype(np.int32)), self._arrow]
        )
        at = np.arange(0, 2 * count, 2)
        return slots.take(pa.array(at, mask=None if present.all() else ~present))

    def text(self, start: Integers, size: Integers, present: NDArray[np.bool_]) -> pa.StringArray:
        """`binary`, checked to be UTF-8."""
        try:
            return self.binary(start, size, present).cast(pa.string())
        except pa.ArrowInvalid:
            raise Odd("a text is not UTF-8") from None

    def fixed64(self, start: Integers) -> Integers:
        """The eight bytes at each offset as signed integers; `.view(np.float64)` makes them doubles."""
        if not len(start):
            return np.empty(0, np.int64)
        at = start[:, None] + np.arange(8)
        return np.ascontiguousarray(self.bytes[at]).view("<i8").reshape(-1).astype(np.int64, copy=False)

    def fixed32(self, start: Integers) -> Integers:
        """The four bytes at each offset as unsigned integers."""
        if not len(start):
            return np.empty(0, np.int64)
        at = start[:, None] + np.arange(4)
        return np.ascontiguousarray(self.bytes[at]).view("<u4").reshape(-1).astype(np.int64)


def walk(data: bytes, at: int, end: int, most: int = _ANY) -> list[tuple[int, int, int, int]]:
    """The fields of one message: (number, wire type, start, size) each; a varint's range is its own bytes.

    At most `most` of them; continue after the last for more.
    """
    fields: list[tuple[int, int, int, int]] = []
    while at < end and len(fields) < most:
        tag = data[at]
        at += 1
        if tag >= 128:
            tag = (tag & 127) | data[at] << 7
            at += 1
            if tag >= 1 << 14:
                raise Odd("a tag has more than two bytes")
        wire = tag & 7
        if wire == BYTES:
            size = data[at]
            at += 1
            if size >= 128:
                size &= 127
                shift = 7
                while True:
                    byte = data[at]
                    at += 1
                    size |= (byte & 127) << shift
                    if byte < 128:
                        break
                    shift += 7
                    if shift > 28:
                        raise Odd("a length has more than five bytes")
        elif wire == VARINT:
            size = 1
            while data[at + size - 1] >= 128:
                size += 1
                if size > 10:
                    raise Odd("a varint has more than ten bytes")
        elif wire == FIXED64:
            size = 8
        elif wire == FIXED32:
            size = 4
        else:
            raise Odd(f"wire type {wire}")
        if tag < 8 or at + size > end:
            raise Odd("a field has no number, or runs over the end of its message")
        fields.append((tag >> 3, wire, at, size))
        at += size
    return fields


def varint(data: bytes, at: int, size: int) -> int:
    """The varint of a range, as a signed 64-bit integer."""
    value = 0
    for i in range(size):
        value |= (data[at + i] & 127) << 7 * i
    value &= (1 << 64) - 1
    return value - (1 << 64) if value >> 63 else value


@dataclass(frozen=True, slots=True)
class Fields:
    """Fields of many messages: whose they are, where their values lie, and of varints the value.

    Within one number they are in the order in which protobuf would read them for each message, so the last one of a
    message is the one that counts.
    """

    buffer: Buffer
    messages: int
    _spans: dict[int, tuple[int, int]]
    _message: Integers
    _wire: Integers
    _start: Integers
    _size: Integers
    _value: Integers

    def _of(self, number: int, wire: int) -> slice:
        low, high = self._spans.get(number, (0, 0))
        if (self._wire[low:high] != wire).any():
            raise Odd(f"field {number} has an unexpected wire type")
        return slice(low, high)

    def find(self, number: int, wire: int) -> tuple[Integers, Integers, NDArray[np.bool_]]:
        """For each message the start and size of this field, and whether it has one."""
        part = self._of(number, wire)
        start = np.zeros(self.messages, np.int64)
        size = np.zeros(self.messages, np.int64)
        present = np.zeros(self.messages, np.bool_)
        owner = self._message[part]
        start[owner] = self._start[part]
        size[owner] = self._size[part]
        present[owner] = True
        return start, size, present

    def text(self, number: int) -> pa.StringArray:
        """A text of each message, null where there is none; Odd where one comes twice, for all must be UTF-8."""
        start, end = self.one(number)
        return self.buffer.text(start, end - start, end > start)

    def varints(self, number: int) -> Integers:
        """A varint of each message, 0 where there is none."""
        part = self._of(number, VARINT)
        values = np.zeros(self.messages, np.int64)
        values[self._message[part]] = self._value[part]
        return values

    def fixed64(self, number: int) -> tuple[Integers, NDArray[np.bool_]]:
        """Eight bytes of each message, 0 where there are none, and whether there are any."""
        start, _, present = self.find(number, FIXED64)
        values = np.zeros(self.messages, np.int64)
        values[present] = self.buffer.fixed64(start[present])
        return values, present

    def double(self, number: int) -> pa.DoubleArray:
        """A double of each message, null where there is none."""
        values, present = self.fixed64(number)
        return pa.array(values.view(np.float64), mask=~present, from_pandas=False)

    def fixed32(self, number: int) -> Integers:
        start, _, present = self.find(number, FIXED32)
        values = np.zeros(self.messages, np.int64)
        values[present] = self.buffer.fixed32(start[present])
        return values

    def one(self, number: int) -> tuple[Integers, Integers]:
        """The range of a message within each message, empty where there is none; Odd where there are two to unite."""
        part = self._of(number, BYTES)
        start, size, present = self.find(number, BYTES)
        if int(present.sum()) != part.stop - part.start:
            raise Odd(f"field {number} comes twice in a message")
        return start, start + size

    def many(self, number: int) -> tuple[Integers, Integers, Integers]:
        """A repeated field: for each value whose it is, its start and its end, in the order of the messages."""
        part = self._of(number, BYTES)
        start = self._start[part]
        order = np.argsort(start, kind="stable")
        start = start[order]
        return self._message[part][order], start, start + self._size[part][order]

    def has(self, number: int) -> bool:
        return number in self._spans

    def ranges(self, number: int, wire: int) -> tuple[Integers, Integers, Integers]:
        """A repeated number: for each stretch whose it is, its start and size. Packed and not, but not both."""
        low, high = self._spans.get(number, (0, 0))
        kinds = self._wire[low:high]
        if not ((kinds == wire) | (kinds == BYTES)).all():
            raise Odd(f"field {number} has an unexpected wire type")
        start = self._start[low:high]
        order = np.argsort(start, kind="stable")
        return self._message[low:high][order], start[order], self._size[low:high][order]

    @property
    def total(self) -> int:
        """How many fields there are in all."""
        return len(self._message)

    @property
    def counts(self) -> Integers:
        """How many fields each message has."""
        return np.bincount(self._message, minlength=self.messages).astype(np.int64)


def scan(buffer: Buffer, start: Integers, end: Integers) -> Fields:
    """The fields of the messages in these ranges of the buffer."""
    data = buffer.bytes
    message = np.flatnonzero(start < end)
    at, stop = start[message], end[message]
    steps: list[tuple[Integers, ...]] = []
    while len(message) > _FEW:
        tag = data[at].astype(np.int64)
        at = at + 1
        long = np.flatnonzero(tag >= 128)
        if len(long):
            second = data[at[long]].astype(np.int64)
            if (second >= 128).any():
                raise Odd("a tag has more than two bytes")
            tag[long] += (second << 7) - 128
            at[long] += 1
        wire = tag & 7
        sized = wire == BYTES
        value, width = _varints(data, at, sized | (wire == VARINT))
        size = np.where(sized, value, _FIXED_SIZES[wire])
        size = np.where(wire == VARINT, width, size)
        at = np.where(sized, at + width, at)
        after = at + size
        if (size < 0).any() or (after > stop).any() or (tag < 8).any() or int(size.max()) > buffer.end:
            raise Odd("a field has no number, an unknown type, or runs over the end of its message")
        steps.append((message, tag, at, size, value))
        left = np.flatnonzero(after < stop)
        message, at, stop = message[left], after[left], stop[left]
    if len(message):
        steps.append(_walk_all(buffer, message, at, stop))
    return _fields(buffer, len(start), steps)


def _varints(data: NDArray[np.uint8], at: Integers, wanted: NDArray[np.bool_]) -> tuple[Integers, Integers]:
    """The varint at each wanted offset, and how many bytes it has."""
    value = data[at].astype(np.int64)
    width = np.ones(len(at), np.int64)
    more = np.flatnonzero((value >= 128) & wanted)
    value[more] &= 127
    shift = 7
    while len(more):
        if shift > 63:
            raise Odd("a varint has more than ten bytes")
        byte = data[at[more] + shift // 7].astype(np.int64)
        value[more] |= (byte & 127) << shift
        width[more] += 1
        more = more[byte >= 128]
        shift += 7
    return value, width


def _walk_all(buffer: Buffer, message: Integers, at: Integers, stop: Integers) -> tuple[Integers, ...]:
    """One step for all the fields that are left of a few messages."""
    rows: list[tuple[int, int, int, int, int]] = []
    for owner, low, high in zip(message.tolist(), at.tolist(), stop.tolist(), strict=True):
        for number, wire, start, size in walk(buffer.data, low, high):
            value = varint(buffer.data, start, size) if wire == VARINT else 0
            rows.append((owner, number << 3 | wire, start, size, value))
    return tuple(np.array(rows, np.int64).T)


def _fields(buffer: Buffer, messages: int, steps: list[tuple[Integers, ...]]) -> Fields:
    if not steps:
        none = np.empty(0, np.int64)
        return Fields(buffer, messages, {}, none, none, none, none, none)
    uniform = all((step[1] == step[1][0]).all() for step in steps)
    if uniform:  # as in a list of attributes: first all keys, then all values
        steps = sorted(steps, key=lambda step: int(step[1][0]))
    message, tag, start, size, value = (np.concatenate(parts) for parts in zip(*steps, strict=True))
    if not uniform:
        order = np.argsort((tag >> 3).astype(np.uint16), kind="stable")  # a radix sort; steps keep their order
        message, tag, start, size, value = (column[order] for column in (message, tag, start, size, value))
    number = tag >> 3
    edges = np.flatnonzero(number[1:] != number[:-1]) + 1
    bounds = [0, *edges.tolist(), len(number)]
    spans = {int(number[low]): (low, high) for low, high in pairwise(bounds)}
    return Fields(buffer, messages, spans, message, tag & 7, start, size, value)


def offsets(owner: Integers, count: int) -> NDArray[np.int32]:
    """The Arrow offsets of `count` lists whose values belong, in order, to `owner`."""
    return np.concatenate(([0], np.cumsum(np.bincount(owner, minlength=count)))).astype(np.int32)


def packed(
    buffer: Buffer, owner: Integers, start: Integers, size: Integers, count: int
) -> tuple[NDArray[np.int32], Integers]:
    """Offsets and values of lists of eight-byte numbers, from their stretches."""
    if (size & 7).any():
        raise Odd("a list of eight-byte numbers ends within one")
    edges = np.concatenate(([0], np.cumsum(np.bincount(owner, size // 8, minlength=count)))).astype(np.int32)
    return edges, buffer.fixed64(_stepped(start, size // 8, 8))


def packed_varints(
    buffer: Buffer, owner: Integers, start: Integers, size: Integers, count: int
) -> tuple[NDArray[np.int32], Integers]:
    """Offsets and values of lists of varints, from their stretches."""
    data = buffer.bytes[_stepped(start, size, 1)].astype(np.int64)
    last = np.flatnonzero(data < 128)
    filled = size > 0
    if len(data) and not (data[np.cumsum(size)[filled] - 1] < 128).all():
        raise Odd("a list of varints ends within one")
    first = np.concatenate(([0], last[:-1] + 1)) if len(last) else last
    width = last - first + 1
    if len(width) and int(width.max()) > 10:
        raise Odd("a varint has more than ten bytes")
    values = np.zeros(len(last), np.int64)
    for k in range(int(width.max()) if len(width) else 0):
        wide = np.flatnonzero(width > k)
        values[wide] |= (data[first[wide] + k] & 127) << 7 * k
    whose = np.repeat(owner, size)[last]
    return offsets(whose, count), values


def zigzag(values: Integers) -> Integers:
    """What protobuf calls sint: small negative numbers are small."""
    return (values >> 1) ^ -(values & 1)


def _stepped(start: Integers, count: Integers, step: int) -> Integers:
    """`count` offsets, `step` apart, from each start on."""
    total = int(count.sum())
    within = np.arange(total) - np.repeat(np.cumsum(count) - count, count)
    return np.repeat(start, count) + within * step
