"""What a process counts of a keyed table: use of caches, stalls, and the regions it writes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CacheUse:
    """Hits and misses of a cache of this process."""

    hits: int = 0
    misses: int = 0


@dataclass(frozen=True, slots=True)
class StallStats:
    """Stalls of writers in this process: count, total and maximum seconds."""

    count: int = 0
    seconds: float = 0.0
    longest: float = 0.0


@dataclass(frozen=True, slots=True)
class WriterStats:
    """A region that this process writes: bytes in its memtables, and the newest position of its log."""

    memtable_bytes: int
    log_position: int
    stalls: StallStats


@dataclass(frozen=True, slots=True)
class Counters:
    """What a process counted of a keyed table since it opened it; `writers` by the number of their region."""

    rows: CacheUse = CacheUse()
    writers: Mapping[int, WriterStats] = field(default_factory=dict)
