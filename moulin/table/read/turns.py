"""Threads that run Python all the time give way to scans.

A scan lets go of Python's lock whenever Arrow works for it, and must have it back afterwards. A thread that only runs
Python, as one that gets rows from memory does, keeps the lock until another one has waited for 5 ms
(`sys.getswitchinterval`), and a scan calls Arrow hundreds of times. So while one is being read, such a thread sleeps
for a moment from time to time, so that waiting threads run.
"""

# Decisions: docs/decisions/0332

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from time import monotonic, sleep
from typing import Final, TypeVar

_T = TypeVar("_T")

_SPAN: Final = 0.0005  # seconds for which a thread keeps the lock while a scan may wait for it
_SHORT: Final = 0.0002  # and while the scan is young: most are short, and then each wait counts
_YOUNG: Final = 0.02
_PAUSE: Final = 0.00002  # the system makes about a tenth of a millisecond of it


class _Next(threading.local):
    pause = 0.0


class Turns:
    """Counts the scans of this process that are being read. Thread-safe: a block that is entered is a scan."""

    def __init__(self) -> None:
        self.scans = 0
        self._lock, self._next = threading.Lock(), _Next()
        self._began = 0.0  # when the first of the scans did

    def __enter__(self) -> None:
        with self._lock:
            if not self.scans:
                self._began = monotonic()
            self.scans += 1

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.scans -= 1

    def during(self, items: Iterable[_T]) -> Iterator[_T]:
        """The same items; making each of them is part of a scan, and what is done with it is not."""
        iterator = iter(items)
        while True:
            with self:
                try:
                    item = next(iterator)
                except StopIteration:
                    return
            yield item

    def give_way(self) -> None:
        """To be called before every short piece of work while `scans` is not 0."""
        if monotonic() >= self._next.pause:
            sleep(_PAUSE)
            now = monotonic()
            self._next.pause = now + (_SHORT if now - self._began < _YOUNG else _SPAN)


TURNS: Final = Turns()


__all__ = ["TURNS", "Turns"]
