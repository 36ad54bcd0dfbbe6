"""murmur3_x86_32 with seed 0, the hash behind Iceberg's bucket transform, over whole columns at a time."""

from __future__ import annotations

import mmh3
import numpy as np
import numpy.typing as npt

from moulin.model.columns.arrays import Hashes, Integers

# Longer values are hashed one by one: each four bytes of the longest would cost a pass over the column.
_LONGEST = 256


def hash_longs(values: Integers) -> Hashes:
    """The hash of the eight little-endian bytes of every value."""
    words = np.ascontiguousarray(values, dtype="<i8").view("<u4")
    state = _mix(np.zeros(len(values), np.uint32), words[0::2])
    state = _mix(state, words[1::2])
    return _finish(state, np.uint32(8))


def hash_bytes(data: npt.NDArray[np.uint8], starts: Integers, lengths: Integers) -> Hashes:
    """The hash of every value `data[start : start + length]`."""
    padded = np.concatenate([data, np.zeros(4, np.uint8)])
    words: Hashes = np.ndarray((len(padded) - 3,), "<u4", padded, strides=(1,))  # the word that begins at each byte
    long = lengths > _LONGEST
    blocks = np.where(long, 0, lengths >> 2)
    order = np.argsort(
        -blocks.astype(np.int16), kind="stable"
    )  # so that the values that still have a block are a prefix
    begins = starts[order]
    state = np.zeros(len(starts), np.uint32)
    left = np.cumsum(np.bincount(blocks)[::-1])[::-1] if len(blocks) else blocks
    for block, active in enumerate(left[1:]):
        state[:active] = _mix(state[:active], words[begins[:active] + 4 * block])
    size = lengths[order]
    last = words[begins + (size & ~np.int64(3)) * ~long[order]] & _TAIL_MASKS[size & 3]
    state ^= _scramble(last)
    result = np.empty_like(state)
    result[order] = _finish(state, size.astype(np.uint32))
    for row in np.flatnonzero(long):
        value = data[starts[row] : starts[row] + lengths[row]]
        result[row] = mmh3.hash(value.tobytes(), 0, signed=False)
    return result


_TAIL_MASKS = np.array([0, 0xFF, 0xFFFF, 0xFFFFFF], np.uint32)


def _scramble(block: Hashes) -> Hashes:
    block = block * np.uint32(0xCC9E2D51)
    block = (block << np.uint32(15)) | (block >> np.uint32(17))
    block *= np.uint32(0x1B873593)
    return block


def _mix(state: Hashes, block: Hashes) -> Hashes:
    state = state ^ _scramble(block)
    state = (state << np.uint32(13)) | (state >> np.uint32(19))
    state *= np.uint32(5)
    state += np.uint32(0xE6546B64)
    return state


def _finish(state: Hashes, length: Hashes | np.uint32) -> Hashes:
    state = state ^ length
    state ^= state >> np.uint32(16)
    state *= np.uint32(0x85EBCA6B)
    state ^= state >> np.uint32(13)
    state *= np.uint32(0xC2B2AE35)
    state ^= state >> np.uint32(16)
    return state


__all__ = ["hash_bytes", "hash_longs"]
