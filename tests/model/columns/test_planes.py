"""Byte planes: whatever goes in comes back, and the bytes are those that the page of the key index says."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from moulin.model.columns.planes import from_planes, integers_from_planes, to_planes


def by_hand(values: list[bytes], width: int, order: str) -> bytes:
    size = 8 if width % 8 == 0 else 4 if width % 4 == 0 else 1
    whole = "big" if order == ">" else "little"
    planes: list[list[int]] = [[] for _ in range(width)]
    before = [0] * (width // size)
    for value in values:
        words = [int.from_bytes(value[at : at + size], whole) for at in range(0, width, size)]
        for number, (word, last) in enumerate(zip(words, before, strict=True)):
            for at, byte in enumerate(((word - last) % (1 << 8 * size)).to_bytes(size, "little")):
                planes[number * size + at].append(byte)
        before = words
    return bytes(byte for plane in planes for byte in plane)


@given(st.data(), st.sampled_from([1, 2, 3, 4, 7, 8, 12, 16, 24]), st.sampled_from("<>"))
def test_values_come_back_from_the_planes_of_the_page(data: st.DataObject, width: int, order: str) -> None:
    values = data.draw(st.lists(st.binary(min_size=width, max_size=width), min_size=1, max_size=20))
    plain = b"".join(values)
    made = to_planes(np.frombuffer(plain, np.uint8), width, order=order)
    assert made == by_hand(values, width, order)
    assert from_planes(made, width, order=order).tobytes() == plain


@given(st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1))
def test_signed_numbers_come_back(numbers: list[int]) -> None:
    plain = np.array(numbers, np.int64)
    assert integers_from_planes(to_planes(plain.view(np.uint8), 8, order="<")).tolist() == numbers


@given(
    st.integers(0, 2**64 - 1),
    st.lists(st.integers(0, 300), max_size=40),
    st.sampled_from([1, 4, 8]),
    st.sampled_from("<>"),
)
def test_numbers_that_ascend_in_small_steps_come_back(first: int, steps: list[int], width: int, order: str) -> None:
    whole = "big" if order == ">" else "little"
    words = [(first + sum(steps[:at])) % (1 << 8 * width) for at in range(len(steps) + 1)]
    plain = b"".join(word.to_bytes(width, whole) for word in words)
    made = to_planes(np.frombuffer(plain, np.uint8), width, order=order)
    assert from_planes(made, width, order=order).tobytes() == plain
