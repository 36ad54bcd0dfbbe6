"""An in-memory LRU cache with a limit in bytes or entries. All caches in memory use it.

Values must not be None, and must not be modified: several threads get the same object.
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
    """Values by key, with a total weight of at most `limit`; evicts the least recently used first. Thread-safe.

    `weigh` returns the weight of a value, usually its bytes. By default every value weighs 1, so `limit` is a
    count. The newest value is kept even if it alone exceeds `limit`.
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
        """The value of a key, marked as used; None if it is not cached."""
        with self._lock:
            found = self._held.get(key)
            if found is None:
                self.misses += 1
                return None
            self._held.move_to_end(key)
            self.hits += 1
            return found[0]

    def keep(self, key: _K, value: _V) -> None:
        """Store a value, replacing an earlier one with the same key."""
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
        """The value of a key, created and stored if missing. Two threads may create it at once, because no lock is
        held.
        """
        found = self.find(key)
        if found is None:
            found = make()
            self.keep(key, found)
        return found

    def drop(self, key: _K) -> None:
        """Remove a key, if present."""
        with self._lock:
            found = self._held.pop(key, None)
            if found is not None:
                self.weight -= found[1]

    def clear(self) -> None:
        with self._lock:
            self._held.clear()
            self.weight = 0
