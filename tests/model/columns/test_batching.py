"""Lists of a number of items, and lists of a weight."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from moulin.model.columns.batching import batched, packed


@pytest.mark.parametrize(
    ("count", "expected"), [(2, [[1, 2], [3, 4], [5]]), (5, [[1, 2, 3, 4, 5]]), (9, [[1, 2, 3, 4, 5]])]
)
def test_batches_have_the_count_asked_for_except_the_last(count: int, expected: list[list[int]]) -> None:
    assert [*batched(iter([1, 2, 3, 4, 5]), count)] == expected


def test_nothing_makes_no_batch() -> None:
    assert [*batched([], 3)] == []
    assert [*packed([], len, 3)] == []


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        (["aa", "bb", "c"], [["aa", "bb"], ["c"]]),
        (["aaaaaa", "b"], [["aaaaaa"], ["b"]]),
        (["", "", "aaa", ""], [["", "", "aaa"], [""]]),
    ],
)
def test_a_list_ends_with_the_item_that_brings_it_to_the_limit(items: list[str], expected: list[list[str]]) -> None:
    assert [*packed(items, len, 3)] == expected


def test_a_list_is_handed_on_before_the_next_item_is_asked_for() -> None:
    asked: list[str] = []

    def source() -> Iterator[str]:
        for item in ("aaa", "bbb"):
            asked.append(item)
            yield item

    assert next(packed(source(), len, 3)) == ["aaa"]
    assert asked == ["aaa"]
