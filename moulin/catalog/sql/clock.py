"""The clock that a pool may be given; without one it asks the clock of the database."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

NANOS = 1_000_000_000
"""Nanoseconds of a second: the catalog keeps times as Unix nanoseconds, and settings say seconds."""

Clock = Callable[[], int]
"""Returns Unix nanoseconds."""


class SimulatedClock(ABC):
    """A clock that stands for every clock there is: a pool that is given one asks no other. For simulations."""

    @abstractmethod
    def __call__(self) -> int:
        """Unix nanoseconds."""
