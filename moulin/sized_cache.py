"""A cache in memory with a limit, by bytes or by count: the one mechanism for everything kept to spare a second read.

Values must not be None, and nobody may change one that is held: several threads get the same object.
"""

# Decisions: docs/decisions/0213

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

_K = TypeVar("_K", bound=Hashable)
_V = TypeVar("_V")


def _one(_: object) -> int:
    return 1


class SizedCache(Generic[_K, _V]):
    """Values by key, of at most `limit` in weight; drops the least recently used first. Thread-safe.

    `weigh` returns the weight of a value, usually its bytes; without it every value weighs 1, so that `limit` is a
    count. The newest value stays even if it alone is heavier than `limit`.
    """

    __slots__ = ("_held", "_limit", "_lock", "_weigh", "hits", "misses", "weight")

    def __init__(self, limit: int, weigh: Callable[[_V], int] = _one) -> None:
        self._limit, self._weigh = limit, weigh
        self._held: OrderedDict[_K, tuple[_V, int]] = OrderedDict()
        self._lock = threading.Lock()
        self.weight = self.hits = self.misses = 0

    def __len__(self) -> int:
        return len(self._held)

    def find(self, key: _K) -> _V | None:
        """The value of a key, which counts as used now; None if it is not held."""
        with self._lock:
            found = self._held.get(key)
            if found is None:
                self.misses += 1
                return None
            self._held.move_to_end(key)
            self.hits += 1
            return found[0]

    def keep(self, key: _K, value: _V) -> None:
        """Hold a value, in place of an earlier one of the same key."""
        weight = self._weigh(value)
        with self._lock:
            earlier = self._held.pop(key, None)
            if earlier is not None:
                self.weight -= earlier[1]
            self._held[key] = (value, weight)
            self.weight += weight
            while self.weight > self._limit and len(self._held) > 1:
                self.weight -= self._held.popitem(last=False)[1][1]

    def get(self, key: _K, make: Callable[[], _V]) -> _V:
        """The value of a key, made and held if it is missing. Two threads may make it at once: the lock is not held."""
        found = self.find(key)
        if found is None:
            found = make()
            self.keep(key, found)
        return found

    def drop(self, key: _K) -> None:
        """Forget a key, if it is held."""
        with self._lock:
            found = self._held.pop(key, None)
            if found is not None:
                self.weight -= found[1]

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self.weight = 0
