"""Reports streams that are stuck at a missing number: when a gap is found, every minute, and when it is closed."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from uuid import UUID

from moulin.ingest.intake.backlog import Backlog
from moulin.ingest.intake.lag import gap_advice, lag_of

_REMIND_SECONDS = 60.0


class StuckStreams:
    """The announced state of each stream."""

    def __init__(self, announce: Callable[[str], object]) -> None:
        self._announce = announce
        self._said: dict[UUID, tuple[int, float]] = {}  # the gap of a stream, and when it was last announced

    def look(self, found: Sequence[Backlog]) -> None:
        """Log each new gap at once, and gaps that stay again every minute."""
        now = time.monotonic()
        for lag in map(lag_of, found):
            said = self._said.pop(lag.stream_id, None)
            if lag.gap is None:
                if said is not None:
                    self._announce(f"Stream {lag.stream_id} continues after baby segment {said[0]}.")
            elif said is None or said[0] != lag.gap.offset or now - said[1] >= _REMIND_SECONDS:
                self._announce(f"{gap_advice(lag)} (stuck for {lag.gap.seconds(time.time_ns()):,.0f} s)")
                self._said[lag.stream_id] = (lag.gap.offset, now)
            else:
                self._said[lag.stream_id] = said
