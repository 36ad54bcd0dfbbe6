"""A fair scheduler: work of several callers shares a pool of threads, and no caller gets all of them."""

# Decisions: docs/decisions/0296

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from moulin.errors import Unavailable
from moulin.network.callers import Caller


class Slots:
    """Runs the work of callers: of one at most `share` at a time, in turn, and at most `waiting` more wait.

    Thread-safe.
    """

    def __init__(self, pool: ThreadPoolExecutor, *, share: int, waiting: int) -> None:
        self._pool, self._share, self._most = pool, share, waiting
        self._lock = threading.Lock()
        self._running: Counter[Caller] = Counter()
        self._waiting: dict[Caller, deque[Callable[[], None]]] = {}

    def check(self, caller: Caller) -> None:
        """Raise Unavailable when too much work of a caller waits."""
        with self._lock:
            if len(self._waiting.get(caller, ())) >= self._most:
                raise Unavailable(
                    f"A token can have at most {self._share} running and {self._most} waiting statements on this "
                    f"server: "
                    "wait for one of them."
                )

    def submit(self, caller: Caller, work: Callable[[], None]) -> None:
        """Run work when it is its turn. REQUIRES: it raises nothing."""
        with self._lock:
            if self._running[caller] >= self._share:
                self._waiting.setdefault(caller, deque()).append(work)
                return
            self._running[caller] += 1
        self._pool.submit(self._run, caller, work)

    def _run(self, caller: Caller, work: Callable[[], None]) -> None:
        while True:
            work()
            with self._lock:
                waiting = self._waiting.get(caller)
                if not waiting:
                    self._waiting.pop(caller, None)
                    self._running[caller] -= 1
                    if not self._running[caller]:
                        del self._running[caller]
                    return
                work = waiting.popleft()
            try:  # behind the work of others
                self._pool.submit(self._run, caller, work)
            except RuntimeError:  # the pool takes nothing more: what waits was cancelled, and ends at once
                continue
            return
