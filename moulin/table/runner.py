"""Runners: table-sized work cut into slices that need nothing but storage.

The driver plans from the catalog's facts, a runner maps a kernel over the slices (in this process, or on Spark), and
the driver commits the results, once. A slice that fails or runs twice leaves files that no commit names.
"""

# Decisions: docs/decisions/0201

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

S = TypeVar("S")
R = TypeVar("R")


class TaskRunner(Protocol):
    """Runs the slices of one piece of work somewhere."""

    def map(self, kernel: Callable[[S], R], slices: Sequence[S]) -> Iterable[R]:
        """The result of each slice, in their order. REQUIRES: `kernel` is a function that other processes can import.

        Raises the error of a slice that failed.
        """


class LocalRunner:
    """Runs slices in this process, as many at a time as there are cores."""

    def map(self, kernel: Callable[[S], R], slices: Sequence[S]) -> Iterator[R]:
        if len(slices) == 1:
            yield kernel(slices[0])
            return
        with ThreadPoolExecutor(os.cpu_count() or 1, thread_name_prefix="moulin-slice") as pool:
            yield from pool.map(kernel, slices)
