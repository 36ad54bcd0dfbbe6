"""Footers that one writer wrote alike, walked together: each step is taken for all of them at once, with numpy.

Two footers are alike when their Thrift fields are the same, and differ in numbers and texts only. The first one gives
the steps: bytes that every footer must have there, and then a number or a text. A footer that has other bytes at some
step is not alike. Nothing is believed of one that is: its walk ended exactly where the footer does.
"""

# Decisions: docs/decisions/0690

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from moulin.formats.segment import thrift
from moulin.model.columns.arrays import Integers

Path = tuple[int, ...]
"""Numbers of Thrift fields and of list elements, from the footer inwards."""

_TRUE, _FALSE, _BYTE, _DOUBLE, _BINARY = 1, 2, 3, 7, 8
_I16, _I64 = 4, 6
_GROUPS, _KEYS, _WRITER = 4, 5, 6  # fields of a footer
_CHUNK_METADATA = 3
_MOST_BITS = 63  # of a number: a longer one is no part of a footer that anybody wrote

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class _Step:
    """Bytes that all footers have, and what follows them: a number, a text, or, without a path, the end."""

    same: bytes
    path: Path | None
    is_text: bool = False


@dataclass(frozen=True, slots=True)
class Walked:
    """What a walk found. Rows of footers that are not `alike` mean nothing.

    `numbers` has values, `starts` and `lengths` say where texts lie in `data`, by the paths that were wanted.
    """

    data: bytes
    alike: Flags
    numbers: dict[Path, Integers]
    starts: dict[Path, Integers]
    lengths: dict[Path, Integers]

    def texts(self, path: Path) -> list[bytes]:
        """The text of each footer. One that is not alike may have any."""
        data = self.data
        return [
            data[at : at + size]
            for at, size in zip(self.starts[path].tolist(), self.lengths[path].tolist(), strict=True)
        ]

    def fixed(self, path: Path, width: int) -> npt.NDArray[np.uint8]:
        """Texts of `width` bytes, one in each row. Footers with a text of another length are not alike from now on."""
        np.logical_and(self.alike, self.lengths[path] == width, out=self.alike)
        at = np.minimum(self.starts[path], len(self.data) - width)
        return _windows(np.frombuffer(self.data, np.uint8), width, at)


class Steps:
    """The steps of one footer from `start` on, where `number` is the field before. Raises ValueError for what a Parquet
    footer does not have."""

    def __init__(self, footer: bytes, start: int, number: int) -> None:
        self._footer, self._same = footer, bytearray()
        self._steps: list[_Step] = []
        if self._struct(start, number, ()) != len(footer):
            raise ValueError("the footer does not end where its fields do")
        self._steps.append(_Step(bytes(self._same), None))
        self.paths = frozenset(step.path for step in self._steps if step.path is not None)

    def walk(self, footers: Sequence[bytes], start: int, wanted: frozenset[Path]) -> Walked:
        """Walk other footers from `start` on, where all of them are the same as the first. Keeps what is `wanted`."""
        sizes = np.fromiter(map(len, footers), np.int64, len(footers))
        room = max(len(step.same) for step in self._steps) + 16
        data = b"".join([*footers, bytes(room)])
        buffer, last = np.frombuffer(data, np.uint8), len(data) - room
        ends = np.cumsum(sizes)
        at = ends - sizes + start
        found = Walked(data, np.ones(len(footers), bool), {}, {}, {})
        alike = found.alike
        for step in self._steps:
            if length := len(step.same):
                constant = np.frombuffer(step.same, np.uint8)
                np.logical_and(alike, (_windows(buffer, length, at) == constant).all(axis=1), out=alike)
                at = np.minimum(at + length, last)
            if step.path is None:
                break
            value = _numbers(buffer, at, last, alike)
            if step.is_text:
                if step.path in wanted:
                    found.starts[step.path], found.lengths[step.path] = at.copy(), value
                at = np.minimum(at + np.minimum(value, last), last)
            elif step.path in wanted:
                found.numbers[step.path] = value >> 1 ^ -(value & 1)
        np.logical_and(alike, at == ends, out=alike)
        return found

    def _struct(self, at: int, number: int, path: Path) -> int:
        """Take the steps of a struct; returns where it ends."""
        while head := self._footer[at]:
            begin, at = at, at + 1
            if head >> 4:
                number += head >> 4
            else:
                number, at = thrift.signed(self._footer, at)
            self._same += self._footer[begin:at]
            at = self._value(at, head & 15, (*path, number))
        self._same.append(0)
        return at + 1

    def _value(self, at: int, kind: int, path: Path) -> int:
        if kind in (_TRUE, _FALSE):
            return at
        if kind == thrift.STRUCT:
            return self._struct(at, 0, path)
        if kind == thrift.LIST:
            count, element, first = thrift.elements(self._footer, at)
            self._same += self._footer[at:first]
            if element in (_TRUE, _FALSE):
                return self._fixed(first, first + count)
            for index in range(count):
                first = self._value(first, element, (*path, index))
            return first
        end = thrift.skip(self._footer, at, kind)
        if kind in (_BYTE, _DOUBLE) or _is_the_same(path):
            return self._fixed(at, end)
        if not _I16 <= kind <= _I64 and kind != _BINARY:
            raise ValueError(f"Thrift kind {kind} is not walked")
        self._steps.append(_Step(bytes(self._same), path, kind == _BINARY))
        self._same.clear()
        return end

    def _fixed(self, at: int, end: int) -> int:
        self._same += self._footer[at:end]
        return end


def _is_the_same(path: Path) -> bool:
    """Whether footers that are alike have the same value: the writer, keys, and of a chunk its type, encodings, path
    and codec."""
    if path[0] == _GROUPS:
        return len(path) > 5 and path[4] == _CHUNK_METADATA and path[5] <= 4
    return path == (_WRITER,) or (path[0] == _KEYS and len(path) == 3 and path[2] == 1)


def _windows(buffer: npt.NDArray[np.uint8], length: int, at: Integers) -> npt.NDArray[np.uint8]:
    if length == 1:
        return buffer[at][:, None]
    windows: npt.NDArray[np.uint8] = np.lib.stride_tricks.sliding_window_view(buffer, length)[at]
    return windows


def _numbers(buffer: npt.NDArray[np.uint8], at: Integers, last: int, alike: Flags) -> Integers:
    """The number at each of `at`, which moves behind it, but never behind `last`. Footers with one that is too long are
    not alike."""
    byte = buffer[at]
    value = (byte & 127).astype(np.int64)
    at += 1
    more, shift = np.flatnonzero(byte > 127), 7
    while len(more):
        if shift >= _MOST_BITS:
            alike[more] = False
            break
        byte = buffer[at[more]]
        value[more] |= (byte & 127).astype(np.int64) << shift
        at[more] += 1
        more, shift = more[byte > 127], shift + 7
    np.minimum(at, last, out=at)
    return value


__all__ = ["Path", "Steps", "Walked"]
