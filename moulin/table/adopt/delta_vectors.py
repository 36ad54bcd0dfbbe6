"""Deletion vectors of Delta tables: their location from the log, and their bytes, which have the same format as ours.

A vector is in a file of the table or in the log itself. In a file it has the form of a `deletion-vector-v1` blob:
length, magic, bitmap, CRC. In the log it is magic and bitmap, in base 85.
"""

# Decisions: docs/decisions/0480

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

from pyroaring import BitMap64

from moulin.errors import Corrupt, Unsupported
from moulin.formats import deletion_vector
from moulin.table.adopt.imported import Place

_LETTERS: Final = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
_VALUES: Final = {letter: value for value, letter in enumerate(_LETTERS)}
_FRAME: Final = 8  # bytes of a vector in a file that its size does not count: length and CRC
_UUID_LETTERS: Final = 20


def vector_id(vector: Mapping[str, Any]) -> str:
    """What tells one vector of a file from the next."""
    kind, text, offset = vector.get("storageType"), vector.get("pathOrInlineDv"), vector.get("offset")
    if kind not in ("u", "i", "p") or not isinstance(text, str) or not isinstance(offset, int | None):
        raise Corrupt(f"A Delta log describes a deletion vector as {str(vector)[:200]}, which is not valid.")
    return f"{kind}{text}" + ("" if offset is None else f"@{offset}")


def read_vector(place: Place, vector: Mapping[str, Any]) -> BitMap64:
    """The positions that a log's description of a vector means. Raises Corrupt when it is damaged."""
    source = f"The deletion vector {vector_id(vector)[:100]} of the Delta table in {place.uri}"
    text, size, start = vector["pathOrInlineDv"], vector.get("sizeInBytes"), vector.get("offset") or 0
    if not isinstance(size, int) or min(size, start) < 0:
        raise Corrupt(f"{source} has no size.")
    match vector["storageType"]:
        case "i":
            body = decode_base85(text, source)[:size]
            data = struct.pack(">I", len(body)) + body + struct.pack(">I", zlib.crc32(body))
        case "u":
            data = place.get(_file(text, source))[start : start + size + _FRAME]
        case _:
            raise Unsupported(f"{source} is outside of its folder: it is not imported.")
    if len(data) != size + _FRAME:
        raise Corrupt(f"{source} should have {size} bytes.")
    positions = deletion_vector.decode(data, source=source)
    if len(positions) != vector.get("cardinality"):
        raise Corrupt(f"{source} has {len(positions)} positions, not {vector.get('cardinality')}.")
    return positions


def _file(text: str, source: str) -> str:
    """The path of a vector's file below the table: a random prefix, if any, and a UUID in base 85."""
    prefix, name = text[:-_UUID_LETTERS], text[-_UUID_LETTERS:]
    if len(name) != _UUID_LETTERS:
        raise Corrupt(f"{source} has no UUID.")
    file = f"deletion_vector_{UUID(bytes=decode_base85(name, source))}.bin"
    return f"{prefix}/{file}" if prefix else file


def decode_base85(text: str, source: str) -> bytes:
    """The bytes of text in base 85 with the letters of ZeroMQ, five for each four bytes."""
    numbers = [_VALUES.get(letter, -1) for letter in text]
    words = [0] * (len(numbers) // 5)
    for index in range(len(words)):
        for number in numbers[5 * index : 5 * index + 5]:
            words[index] = words[index] * 85 + number
    if len(numbers) % 5 or -1 in numbers or any(word >= 1 << 32 for word in words):
        raise Corrupt(f"{source} is not in base 85.")
    return struct.pack(f">{len(words)}I", *words)


__all__ = ["decode_base85", "read_vector", "vector_id"]
