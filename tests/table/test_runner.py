"""Slices of work in this process. Spark's runner is tested in tests/pipeline."""

from __future__ import annotations

import threading

import pytest

from moulin.errors import Corrupt
from moulin.table.runner import LocalRunner

both = threading.Barrier(2, timeout=30)


def negative(work: int) -> int:
    if work == 13:
        raise Corrupt("slice 13")
    return -work


def met(work: int) -> int:
    both.wait()
    return work


@pytest.mark.parametrize("slices", [[], [7], list(range(12))])
def test_results_come_in_the_order_of_the_slices(slices: list[int]) -> None:
    assert list(LocalRunner().map(negative, slices)) == [-work for work in slices]


@pytest.mark.parametrize("slices", [[13], [1, 13, 2]])
def test_the_error_of_a_slice_is_raised(slices: list[int]) -> None:
    with pytest.raises(Corrupt, match="slice 13"):
        list(LocalRunner().map(negative, slices))


def test_slices_run_side_by_side(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    assert list(LocalRunner().map(met, [1, 2])) == [1, 2]
