"""The state of the streams: the backlog of each, and whether the nursery is idle, busy or stuck."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

from moulin.lake import Lake
from moulin.model.ingest import Stream
from moulin.storage import paths

if TYPE_CHECKING:
    from moulin.ingest.intake.lag import StreamLag

STUCK_SECONDS = 60.0
"""So long may baby segments wait without any stream getting on, until that counts as stuck."""
_LOOK_SECONDS, _LOOK_SECONDS_FAR = 2.0, 10.0  # between two looks at storage: on this machine, or elsewhere


class State(StrEnum):
    IDLE = "idle"
    FLOWING = "flowing"
    STUCK = "stuck"


@dataclass(frozen=True, slots=True)
class Flow:
    """The backlog, oldest streams first; `advice` reports stuck streams and remedies."""

    state: State = State.IDLE
    lags: tuple[StreamLag, ...] = ()
    advice: tuple[str, ...] = ()
    looked_at: int = field(default_factory=time.time_ns)

    @property
    def seconds(self) -> float:
        return max((lag.seconds(self.looked_at) for lag in self.lags), default=0.0)

    @property
    def objects(self) -> int:
        return sum(lag.objects for lag in self.lags)

    @property
    def stored_bytes(self) -> int:
        return sum(lag.stored_bytes for lag in self.lags)


class FlowWatch:
    """Looks at storage itself, so that it knows of what waits even when no nursery runs."""

    def __init__(self, lake: Lake, *, stuck_seconds: float = STUCK_SECONDS) -> None:
        self._lake, self._stuck_seconds = lake, stuck_seconds
        near = lake.store.local_path(paths.marker()) is not None
        self._interval = _LOOK_SECONDS if near else _LOOK_SECONDS_FAR
        self._looked = -self._interval
        self._frontiers: dict[object, int] = {}
        self._moved = time.monotonic()
        self._last = Flow()

    def look(self, streams: Callable[[], Sequence[Stream]]) -> Flow:
        """The flow of a lake's streams. Storage is listed every few seconds; calls in between get the last answer."""
        now = time.monotonic()
        if now - self._looked >= self._interval:
            self._looked, self._last = now, self._look([one for one in streams() if not one.is_drained], now)
        return self._last

    def _look(self, streams: Sequence[Stream], now: float) -> Flow:
        from moulin.ingest.intake.backlog import backlog  # needs an extra, which a command looks for first
        from moulin.ingest.intake.lag import gap_advice, lag_of

        lags = [lag_of(backlog(self._lake.store, stream)) for stream in streams]
        frontiers: dict[object, int] = {stream.id: stream.frontier for stream in streams}
        waiting = [lag for lag in lags if lag.objects or lag.gap is not None]
        if frontiers != self._frontiers or not waiting:
            self._frontiers, self._moved = frontiers, now
        at = time.time_ns()
        waiting.sort(key=lambda lag: lag.seconds(at), reverse=True)
        advice = [f"{gap_advice(lag)} (stuck for {lag.gap.seconds(at):,.0f} s)" for lag in waiting if lag.gap]
        flow = Flow(State.FLOWING if waiting else State.IDLE, tuple(waiting), tuple(advice), at)
        still = now - self._moved
        takeable = sum(lag.takeable for lag in waiting)
        if takeable and still >= self._stuck_seconds and flow.seconds >= self._stuck_seconds:
            advice.append(
                f"Nothing was taken in for {still:,.0f} s, although {takeable:,} baby segments wait: see what the "
                "nursery says in its log."
            )
        return Flow(State.STUCK, flow.lags, tuple(advice), at) if advice else flow
