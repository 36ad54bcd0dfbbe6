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


def from_planes(data: bytes, width: int, *, order: str) -> npt.NDArray[Any]:
    """The words of the values that `to_planes` got, in their order. REQUIRES: the bytes are whole values."""
    planes = np.frombuffer(data, np.uint8).reshape(width, -1)
    differences = np.ascontiguousarray(planes.T).view(f"<u{_word(width)}")
    words = np.cumsum(differences, axis=0, dtype=differences.dtype)
    return words.reshape(-1).astype(f"{order}u{_word(width)}")


def integers_from_planes(data: bytes) -> Integers:
    """Signed numbers of 8 bytes."""
    return from_planes(data, 8, order="<").view(np.int64)


def _word(width: int) -> int:
    return next(size for size in (8, 4, 1) if width % size == 0)
