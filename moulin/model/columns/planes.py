"""Values of a fixed width as differences in byte planes: values that ascend become long runs of equal bytes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from moulin.model.columns.arrays import Integers

Bytes = npt.NDArray[np.uint8]


def to_planes(values: Bytes, width: int, *, order: str) -> bytes:
    """Values of `width` bytes, one after the other, whose words are big-endian (`order` ">") or little-endian ("<").

    Words have 8 bytes where the width is a multiple of that, else 4 or 1. Each becomes its difference to that of the
    value before; then come the lowest bytes of all differences, the next ones, and so on, word by word.
    """
    words = values.view(f"{order}u{_word(width)}").astype(f"<u{_word(width)}").reshape(-1, width // _word(width))
    differences = words.copy()
    differences[1:] -= words[:-1]
    return np.ascontiguousarray(differences.view(np.uint8).reshape(-1, width).T).tobytes()


def from_planes(data: bytes | memoryview, width: int, *, order: str) -> npt.NDArray[Any]:
    """The words of the values that `to_planes` got, in their order. REQUIRES: the bytes are whole values."""
    word, planes = _word(width), np.frombuffer(data, np.uint8).reshape(width, -1)
    if width == word and planes.shape[1] and not planes[1:, 1:].any():
        words = np.empty(planes.shape[1], f"<u{word}")
        words[0] = int.from_bytes(planes[:, 0].tobytes(), "little")
        words[1:] = planes[0, 1:]  # as of most ids: each differs from the one before by less than a byte holds
        np.cumsum(words, out=words)
    else:
        differences = np.empty((planes.shape[1], width), np.uint8)
        for number, plane in enumerate(planes):
            differences[:, number] = plane
        words = np.cumsum(differences.view(f"<u{word}"), axis=0, dtype=f"<u{word}")
    return words.reshape(-1).astype(f"{order}u{word}", copy=False)


def integers_from_planes(data: bytes | memoryview) -> Integers:
    """Signed numbers of 8 bytes."""
    return from_planes(data, 8, order="<").view(np.int64)


def _word(width: int) -> int:
    return next(size for size in (8, 4, 1) if width % size == 0)
