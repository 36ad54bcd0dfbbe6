"""Counts the messages in a request before protobuf creates objects: level by level, up to a limit."""

# Decisions: docs/decisions/0224

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cache
from typing import Any, Final

import numpy as np

from moulin.ingest.otlp.wire import BYTES, Buffer, scan, walk
from moulin.model.columns.arrays import Integers

DEEPEST: Final = 100
"""How many messages protobuf reads inside one another, the request included."""
_FIELDS: Final = 2
"""Fields that are read for each message that is allowed: keys, values, times."""
_SLICE: Final = 1 << 20  # bytes of messages that are read together; one that is longer is read alone, block by block
_BLOCK: Final = 65_536

_Range = tuple[Integers, Integers]


class TooMany(Exception):
    """There are more messages, or far more fields, than were allowed."""


def count_messages(descriptor: Any, data: bytes, most: int) -> Counter[str]:
    """The messages in a message of this protobuf type, by the names of their types, as deep as protobuf reads them.

    TooMany when there are more than `most`, or far more fields; Odd for bytes that `wire` leaves to protobuf. Costs
    work and memory in proportion to `most`, however many there are.
    """
    return _Count(data, most).run(descriptor)


class _Count:
    def __init__(self, data: bytes, most: int) -> None:
        self._buffer = Buffer(data)
        self._size = len(data)
        self._most, self._fields_left = most, _FIELDS * most
        self._found: Counter[str] = Counter()

    def run(self, descriptor: Any) -> Counter[str]:
        level: dict[Any, list[_Range]] = {descriptor: [(np.array([0]), np.array([self._size]))]}
        for _ in range(DEEPEST):
            deeper: dict[Any, list[_Range]] = defaultdict(list)
            for kind, ranges in level.items():
                start, end = (np.concatenate(edges) for edges in zip(*ranges, strict=True))
                self._read(kind, start, end, deeper)
            if not deeper:
                break
            level = deeper
        return self._found

    def _read(self, kind: Any, start: Integers, end: Integers, deeper: dict[Any, list[_Range]]) -> None:
        """Adds the messages within messages of one type to the next level."""
        size = end - start
        for index in np.flatnonzero(size > _SLICE).tolist():
            self._read_alone(kind, int(start[index]), int(end[index]), deeper)
        short = np.flatnonzero((size <= _SLICE) & (size > 0))
        start, end = start[short], end[short]
        cuts = np.flatnonzero(np.diff(np.cumsum(end - start) // _SLICE)) + 1
        for low, high in zip(np.split(start, cuts), np.split(end, cuts), strict=True):
            fields = scan(self._buffer, low, high)
            self._take(fields.total)
            for number, inner in _messages(kind).items():
                _, inner_low, inner_high = fields.many(number)
                self._add(inner, inner_low, inner_high, deeper)

    def _read_alone(self, kind: Any, at: int, end: int, deeper: dict[Any, list[_Range]]) -> None:
        types = _messages(kind)
        while at < end:
            block = walk(self._buffer.data, at, end, _BLOCK)
            self._take(len(block))
            at = block[-1][2] + block[-1][3]
            for number, inner in types.items():
                found = [(low, low + size) for n, wire, low, size in block if n == number and wire == BYTES]
                if found:
                    both = np.array(found, np.int64)
                    self._add(inner, both[:, 0], both[:, 1], deeper)

    def _take(self, fields: int) -> None:
        self._fields_left -= fields
        if self._fields_left < 0:
            raise TooMany

    def _add(self, kind: Any, start: Integers, end: Integers, deeper: dict[Any, list[_Range]]) -> None:
        if len(start):
            self._found[kind.name] += len(start)
            if self._found.total() > self._most:
                raise TooMany
            deeper[kind].append((start, end))


@cache
def _messages(descriptor: Any) -> dict[int, Any]:
    """The fields of a type that are messages: number and type."""
    return {field.number: field.message_type for field in descriptor.fields if field.message_type is not None}


__all__ = ["DEEPEST", "TooMany", "count_messages"]
