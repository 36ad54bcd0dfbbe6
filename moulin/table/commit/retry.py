"""Retries of commits: one loop for conflicts and lost responses. It raises the error of the last attempt."""

# Decisions: docs/decisions/0203

from __future__ import annotations

import random
import time
from collections.abc import Callable
from typing import TypeVar

from moulin.catalog.commit.table_commit import Stale
from moulin.errors import MoulinError
from moulin.model.conflicts import Verdict

_T = TypeVar("_T")


def must_rebase(error: MoulinError) -> bool:
    """Whether the change can be rebased onto the newer version and committed again."""
    return isinstance(error, Stale) and error.verdict is Verdict.REBASE


def must_recompute(error: MoulinError) -> bool:
    """Whether the change can be computed again from the newer version."""
    return isinstance(error, Stale) and error.verdict is Verdict.RETRY


def back_off(attempt: int) -> None:
    """Wait a little longer after each conflict, with jitter."""
    time.sleep(random.uniform(0, min(0.002 * 2**attempt, 0.25)))


def at_once(attempt: int) -> None:
    """Do not wait."""


def retry(
    attempts: int,
    run: Callable[[], _T],
    again: Callable[[MoulinError], bool] = must_recompute,
    wait: Callable[[int], None] = back_off,
) -> _T:
    """Run an operation that commits, up to `attempts` times, while it raises an error that `again` accepts.

    `wait` is called between attempts with the number of those made. By default the operation reads and commits, and
    runs again from the start on conflicts that a retry can solve.
    """
    for attempt in range(1, attempts):
        try:
            return run()
        except MoulinError as error:
            if not again(error):
                raise
        wait(attempt)
    return run()
