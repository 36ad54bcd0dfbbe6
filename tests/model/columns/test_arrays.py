"""The different values of an array."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from moulin.model.columns.arrays import distinct


@given(st.lists(st.integers(-(2**63), 2**63 - 1) | st.integers(0, 5), max_size=50))
def test_distinct_gives_what_a_set_has_in_order(values: list[int]) -> None:
    array = np.array(values, np.int64)
    assert distinct(array).tolist() == sorted(set(values))
    assert array.tolist() == values, "the array itself is left alone"
