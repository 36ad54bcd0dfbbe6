"""Operations of several tokens share the threads of the SQL server."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from uuid import uuid4

import pytest

from moulin.errors import Unavailable
from moulin.network.callers import Caller, Role
from moulin.network.slots import Slots

SECONDS = 30


def _caller() -> Caller:
    return Caller(str(uuid4()), Role.READ)


class _Work:
    """Work that runs until it is let go."""

    def __init__(self) -> None:
        self.began, self.go, self.ended = threading.Event(), threading.Event(), threading.Event()

    def __call__(self) -> None:
        self.began.set()
        self.go.wait(SECONDS)
        self.ended.set()


def test_a_caller_with_much_work_leaves_room_for_others() -> None:
    greedy, other = _caller(), _caller()
    with ThreadPoolExecutor(4) as pool:
        slots = Slots(pool, share=3, waiting=10)
        work = [_Work() for _ in range(6)]
        for one in work:
            slots.submit(greedy, one)
        assert all(one.began.wait(SECONDS) for one in work[:3])
        late = _Work()
        slots.submit(other, late)
        assert late.began.wait(SECONDS), "it does not wait for the others"
        assert not any(one.began.is_set() for one in work[3:])
        late.go.set()
        for number, one in enumerate(work):
            one.go.set()
            assert one.ended.wait(SECONDS), f"work {number} has its turn"


def test_a_caller_with_too_much_waiting_is_told_so_and_others_are_not() -> None:
    greedy, other = _caller(), _caller()
    with ThreadPoolExecutor(2) as pool:
        slots = Slots(pool, share=1, waiting=2)
        work = [_Work() for _ in range(3)]
        for one in work:
            slots.check(greedy)
            slots.submit(greedy, one)
        with pytest.raises(Unavailable, match="at most 1 running and 2 waiting"):
            slots.check(greedy)
        slots.check(other)
        for one in work:
            one.go.set()
            assert one.ended.wait(SECONDS)
        slots.check(greedy)


def test_work_that_waits_ends_with_the_pool() -> None:
    pool = ThreadPoolExecutor(1)
    slots = Slots(pool, share=1, waiting=10)
    work = [_Work() for _ in range(3)]
    caller = _caller()
    for one in work:
        slots.submit(caller, one)
    assert work[0].began.wait(SECONDS)
    pool.shutdown(wait=False)
    for one in work:
        one.go.set()
        assert one.ended.wait(SECONDS)
