"""The cache with a limit: what it holds, what it drops, and that threads may share it."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from moulin.sized_cache import SizedCache


def test_a_limit_without_weights_counts_values() -> None:
    cache: SizedCache[int, str] = SizedCache(2)
    for key in (1, 2, 3):
        cache.keep(key, str(key))
    assert [cache.find(key) for key in (1, 2, 3)] == [None, "2", "3"]
    assert (len(cache), cache.weight) == (2, 2)


def test_the_least_recently_used_value_is_dropped_first() -> None:
    cache: SizedCache[str, bytes] = SizedCache(10, len)
    cache.keep("a", b"1234")
    cache.keep("b", b"1234")
    assert cache.find("a") == b"1234"
    cache.keep("c", b"1234")
    assert [cache.find(key) for key in "abc"] == [b"1234", None, b"1234"]


def test_one_heavy_value_drops_as_many_as_it_needs_room() -> None:
    cache: SizedCache[str, bytes] = SizedCache(10, len)
    for key in "abc":
        cache.keep(key, b"123")
    cache.keep("d", b"1234567")
    assert [key for key in "abcd" if cache.find(key) is not None] == ["c", "d"]
    assert cache.weight == 10


def test_a_value_heavier_than_the_limit_stays_until_the_next_one() -> None:
    cache: SizedCache[str, bytes] = SizedCache(3, len)
    cache.keep("a", b"1")
    cache.keep("b", b"12345")
    assert (cache.find("a"), cache.find("b")) == (None, b"12345")
    cache.keep("c", b"1")
    assert (cache.find("b"), cache.find("c"), cache.weight) == (None, b"1", 1)


def test_a_value_replaces_the_earlier_one_and_its_weight() -> None:
    cache: SizedCache[str, bytes] = SizedCache(10, len)
    cache.keep("a", b"12345678")
    cache.keep("b", b"1")
    cache.keep("a", b"12")
    assert (cache.find("a"), cache.find("b"), cache.weight) == (b"12", b"1", 3)


def test_an_empty_value_that_is_held_is_not_made_again() -> None:
    cache: SizedCache[str, bytes] = SizedCache(10, len)
    made: list[int] = []

    def make() -> bytes:
        made.append(1)
        return b""

    assert (cache.get("a", make), cache.get("a", make), len(made)) == (b"", b"", 1)
    assert (cache.hits, cache.misses) == (1, 1)


def test_what_fails_to_be_made_is_not_held() -> None:
    cache: SizedCache[str, float] = SizedCache(10)
    with pytest.raises(ZeroDivisionError):
        cache.get("a", lambda: 1 / 0)
    assert cache.get("a", lambda: 2.0) == 2.0


def test_dropped_and_cleared_values_weigh_nothing() -> None:
    cache: SizedCache[str, bytes] = SizedCache(10, len)
    cache.keep("a", b"123")
    cache.keep("b", b"1234")
    cache.drop("a")
    cache.drop("never held")
    assert (cache.find("a"), cache.find("b"), cache.weight) == (None, b"1234", 4)
    cache.clear()
    assert (cache.find("b"), len(cache), cache.weight) == (None, 0, 0)


def test_a_value_is_made_without_the_lock() -> None:
    """Making one value may read others of the same cache."""
    cache: SizedCache[str, int] = SizedCache(10)
    assert cache.get("a", lambda: cache.get("b", lambda: 1) + 1) == 2


def test_threads_that_share_a_cache_leave_its_weight_right() -> None:
    cache: SizedCache[int, bytes] = SizedCache(50, len)
    start = threading.Barrier(4)

    def work(seed: int) -> None:
        start.wait()
        for step in range(3000):
            key = (step * seed) % 17
            if step % 5 == 0:
                cache.drop(key)
            else:
                assert cache.get(key, lambda key=key: b"x" * key) == b"x" * key  # type: ignore[misc]

    with ThreadPoolExecutor(4) as threads:
        for done in [threads.submit(work, seed) for seed in (1, 3, 5, 7)]:
            done.result()
    held = [value for key in range(17) if (value := cache.find(key)) is not None]
    assert cache.weight == sum(map(len, held)) <= 50
