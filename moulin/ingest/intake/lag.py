"""The lag of a stream: what is stored but not in tables, since when, and whether it is stuck."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from moulin.ingest.intake.backlog import Backlog, Gap
from moulin.storage import paths

_NANOS = 1_000_000_000


@dataclass(frozen=True, slots=True)
class StreamLag:
    """What waits of one stream, behind a gap, too.

    `oldest_at` and `newest_at` are when the oldest and the newest before a gap were stored, in Unix nanoseconds; 0 for
    none.
    """

    stream_id: UUID
    collector: str
    objects: int = 0
    stored_bytes: int = 0
    oldest_at: int = 0
    gap: Gap | None = None
    newest_at: int = 0

    @property
    def takeable(self) -> int:
        """The number of baby segments that a nursery could commit now."""
        return self.objects - (self.gap.objects if self.gap else 0)

    def seconds(self, now: int) -> float:
        """The age of the oldest baby segment, including those behind a gap; 0 without backlog."""
        waiting = [at for at in (self.oldest_at, self.gap.since if self.gap else 0) if at]
        return max(0.0, (now - min(waiting)) / _NANOS) if waiting else 0.0


def lag_of(one: Backlog, frontier: int | None = None) -> StreamLag:
    """The lag of a stream whose backlog is known; with `frontier`, of what is past that."""
    reached = one.stream.frontier if frontier is None else frontier
    waiting = [baby_segment for baby_segment in one.baby_segments if baby_segment.offset > reached]
    return StreamLag(
        one.stream.id,
        one.stream.description or one.stream.collector_id,
        len(waiting) + (one.gap.objects if one.gap else 0),
        sum(baby_segment.size for baby_segment in waiting) + (one.gap.stored_bytes if one.gap else 0),
        min((baby_segment.ingest_time for baby_segment in waiting), default=0),
        one.gap,
        max((baby_segment.ingest_time for baby_segment in waiting), default=0),
    )


def gap_advice(lag: StreamLag) -> str:
    """A message about a stream stuck at a gap, with a remedy. REQUIRES: there is a gap."""
    assert lag.gap is not None
    offset = lag.gap.offset
    return (
        f"Stream {lag.stream_id} is stuck: baby segment {offset} is missing, and later ones wait behind it. Restore "
        f"{paths.baby_segment(lag.stream_id, offset)}, or give it up: moulin ingest skip {lag.stream_id} {offset}"
    )
