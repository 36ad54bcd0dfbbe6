"""Runners: table-sized work cut into slices that need nothing but storage.

The driver plans from the catalog's facts, a runner maps a kernel over the slices (in this process, or on Spark), and
the driver commits the results, once. A slice that fails or runs twice leaves files that no commit names.
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
    """The work was told to stop before it was done. Nothing of it is committed."""

    def __init__(self) -> None:
        super().__init__("The work was stopped before it was done; nothing of it is committed.")


class TaskDied(Unavailable):
    """A task failed for a reason that no part of Moulin raised: what it was given may be at fault."""


def never() -> bool:
    """The `stopped` of work that nobody stops."""
    return False


class TaskRunner(Protocol):
    """Runs the slices of one piece of work somewhere."""

    def map(self, kernel: Callable[[S], R], slices: Sequence[S], *, stopped: Callable[[], bool] = never) -> Iterable[R]:
        """The result of each slice, in their order. REQUIRES: `kernel` is a function that other processes can import.

        Raises the error of a slice that failed. Once `stopped()` is true, no slice is begun, and Stopped is raised.
        """


class LocalRunner:
    """Runs slices in this process, as many at a time as there are cores.

    None is begun once the caller `gave_up`.
    """

    def map(self, kernel: Callable[[S], R], slices: Sequence[S], *, stopped: Callable[[], bool] = never) -> Iterator[R]:
        from moulin.catalog.sql.pool import gave_up  # here: a worker of Spark needs no SQL

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
    """Another runner; `on_slice` gets how many slices of a piece of work are done, and how many there are."""

    def __init__(self, runner: TaskRunner, on_slice: Callable[[int, int], None]) -> None:
        self._runner, self._on_slice = runner, on_slice

    def map(self, kernel: Callable[[S], R], slices: Sequence[S], *, stopped: Callable[[], bool] = never) -> Iterator[R]:
        self._on_slice(0, len(slices))
        for number, result in enumerate(self._runner.map(kernel, slices, stopped=stopped), 1):
            self._on_slice(number, len(slices))
            yield result


def in_turn(pool: ThreadPoolExecutor, function: Callable[[S], R], items: Sequence[S]) -> Iterator[R]:
    """The result of each item, in their order.

    Wakes up now and then: a signal that another thread received is handled when the main thread does something.
    """
    for future in [pool.submit(function, item) for item in items]:
        while not future.done():
            wait([future], timeout=_WAKE_SECONDS)
        yield future.result()


@contextmanager
def side_by_side(name: str) -> Iterator[ThreadPoolExecutor]:
    """A pool of as many threads as there are cores, which the end of the block waits for.

    After Ctrl-C it does not: whoever ends the process gives back what it holds first.
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
