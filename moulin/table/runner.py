"""Runners: run table-sized work as slices that need only storage.

The driver plans from the catalog's statistics, a runner maps a kernel over the slices (in this process, or on Spark),
and the driver commits the results, once. A slice that fails or runs twice leaves files that no commit names.
"""

# Decisions: docs/decisions/0201

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Protocol, TypeVar

from moulin.errors import Closed, Unavailable

S = TypeVar("S")
R = TypeVar("R")

_WAKE_SECONDS = 0.5


class Stopped(Closed):
    """The work was stopped before it was done. Nothing is committed."""

    def __init__(self) -> None:
        super().__init__("The work was stopped before it was done; nothing was committed.")


class TaskDied(Unavailable):
    """A task failed with an error that Moulin did not raise: its input may be the cause."""


def never() -> bool:
    """The `stopped` function of work that is never stopped."""
    return False


class TaskRunner(Protocol):
    """Runs the slices of one job."""

    def map(self, kernel: Callable[[S], R], slices: Sequence[S], *, stopped: Callable[[], bool] = never) -> Iterable[R]:
        """The result of each slice, in their order. REQUIRES: `kernel` is a function that other processes can import.

        Raises the error of a failed slice. Once `stopped()` is true, no slice is started, and Stopped is raised.
        """


class LocalRunner:
    """Runs slices in this process, one per core at a time.

    None is started after the caller `gave_up`.
    """

    def map(self, kernel: Callable[[S], R], slices: Sequence[S], *, stopped: Callable[[], bool] = never) -> Iterator[R]:
        from moulin.catalog.sql.pool import gave_up  # here: a Spark worker needs no SQL

        given_up = gave_up.get() or never

        def run(work: S) -> R:
            if stopped() or given_up():
                raise Stopped
            return kernel(work)

        if len(slices) == 1:
            yield run(slices[0])
            return
        with side_by_side("moulin-slice") as pool:
            yield from in_turn(pool, run, slices)


class WatchedRunner:
    """Wraps another runner; `on_slice` gets the number of finished slices and of all slices."""

    def __init__(self, runner: TaskRunner, on_slice: Callable[[int, int], None]) -> None:
        self._runner, self._on_slice = runner, on_slice

    def map(self, kernel: Callable[[S], R], slices: Sequence[S], *, stopped: Callable[[], bool] = never) -> Iterator[R]:
        self._on_slice(0, len(slices))
        for number, result in enumerate(self._runner.map(kernel, slices, stopped=stopped), 1):
            self._on_slice(number, len(slices))
            yield result


def in_turn(pool: ThreadPoolExecutor, function: Callable[[S], R], items: Sequence[S]) -> Iterator[R]:
    """The result of each item, in their order.

    Wakes up regularly, because the main thread handles signals only when it runs.
    """
    for future in [pool.submit(function, item) for item in items]:
        while not future.done():
            wait([future], timeout=_WAKE_SECONDS)
        yield future.result()


@contextmanager
def side_by_side(name: str) -> Iterator[ThreadPoolExecutor]:
    """A pool with one thread per core; the end of the block waits for them.

    After Ctrl-C it does not wait, so that the process can give back its tasks.
    """
    pool = ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix=name)
    waits = True
    try:
        yield pool
    except (KeyboardInterrupt, SystemExit):
        waits = False
        raise
    finally:
        pool.shutdown(wait=waits, cancel_futures=True)
