"""XXH64, the hash of Parquet's bloom filters, of one value at a time: a filter is asked for a few."""

# Decisions: docs/decisions/0371

from __future__ import annotations

import struct

_M = 0xFFFFFFFFFFFFFFFF
_P1, _P2, _P3, _P4, _P5 = (
    0x9E3779B185EBCA87,
    0xC2B2AE3D27D4EB4F,
    0x165667B19E3779F9,
    0x85EBCA77C2B2AE63,
    0x27D4EB2F165667C5,
)


def xxh64(data: bytes) -> int:
    """The hash with seed 0."""
    size, at = len(data), 0
    if size >= 32:
        lanes = [(_P1 + _P2) & _M, _P2, 0, -_P1 & _M]
        while at <= size - 32:
            lanes = [_round(lane, word) for lane, word in zip(lanes, struct.unpack_from("<4Q", data, at), strict=True)]
            at += 32
        found = sum(_turned(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True)) & _M
        for lane in lanes:
            found = ((found ^ _round(0, lane)) * _P1 + _P4) & _M
    else:
        found = _P5
    found = (found + size) & _M
    while at <= size - 8:
        (word,) = struct.unpack_from("<Q", data, at)
        found = (_turned(found ^ _round(0, word), 27) * _P1 + _P4) & _M
        at += 8
    if at <= size - 4:
        (half,) = struct.unpack_from("<I", data, at)
        found = (_turned(found ^ (half * _P1 & _M), 23) * _P2 + _P3) & _M
        at += 4
    for byte in data[at:]:
        found = _turned(found ^ (byte * _P5 & _M), 11) * _P1 & _M
    found = (found ^ found >> 33) * _P2 & _M
    found = (found ^ found >> 29) * _P3 & _M
    return found ^ found >> 32


def _turned(value: int, bits: int) -> int:
    return (value << bits | value >> (64 - bits)) & _M


def _round(lane: int, word: int) -> int:
    return _turned((lane + word * _P2) & _M, 31) * _P1 & _M


__all__ = ["xxh64"]
