"""Metrics of a nursery, for Prometheus and for people: backlog by stream, batches, and stuck streams."""

# Decisions: docs/decisions/0231

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from moulin.ingest.intake.backlog import Backlog
from moulin.ingest.intake.lag import StreamLag, lag_of

_NANOS = 1_000_000_000
_PREFIX = "moulin_nursery_"
_STREAMS = (
    ("lag_seconds", "Age of the oldest baby segment of a stream that is not in tables; 0 when none waits."),
    ("backlog_bytes", "Stored bytes of a stream that are not in tables."),
    ("backlog_objects", "Baby segments of a stream that are not in tables."),
    ("stuck", "1 when a number of the stream is missing, so that nothing past it can be taken in."),
    ("gap_offset", "The missing number of a stuck stream; absent for others."),
)
_COUNTS = (
    ("batches", "Batches that committed."),
    ("batch_failures", "Batches that failed and are tried again."),
    ("objects", "Baby segments taken in."),
    ("stored_bytes", "Stored bytes taken in."),
    ("rows", "Rows written to tables."),
    ("set_aside_records", "Records that could not be read and were set aside."),
    ("repeated_keys", "Attributes that a later one of the same name replaced."),
    ("streams_ended", "Streams whose end was noted."),
)


class NurseryFigures:
    """Safe to use from several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._backlogs: tuple[Backlog, ...] = ()
        self._reached: dict[UUID, int] = {}
        self._counts = dict.fromkeys((name for name, _ in _COUNTS), 0)
        self._seconds = 0.0
        self._looked_at = 0.0
        self._began_at: float | None = None

    def saw(self, found: Sequence[Backlog]) -> None:
        """The result of listing all streams."""
        copies = tuple(Backlog(one.stream, list(one.baby_segments), one.stop, one.gap) for one in found)
        with self._lock:
            self._backlogs, self._reached, self._looked_at = copies, {}, time.time()

    def began(self) -> None:
        with self._lock:
            self._began_at = time.time()

    def committed(self, reached: Iterable[tuple[UUID, int]], seconds: float, **counts: int) -> None:
        """The result of a batch, and the new offset of each stream."""
        with self._lock:
            self._reached.update(reached)
            self._seconds += seconds
            self._began_at = None
            for name, count in {"batches": 1, **counts}.items():
                self._counts[name] += count

    def failed(self) -> None:
        with self._lock:
            self._began_at = None
            self._counts["batch_failures"] += 1

    def ended(self, streams: int) -> None:
        with self._lock:
            self._counts["streams_ended"] += streams

    def lags(self) -> list[StreamLag]:
        """The backlog of each stream, as of the last listing and later commits."""
        with self._lock:
            return [lag_of(one, self._reached.get(one.stream.id)) for one in self._backlogs]

    def text(self) -> str:
        """All metrics in Prometheus' text format."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        lags, now = self.lags(), time.time_ns()
        for name, text in _STREAMS:
            yield from _head(name, "gauge", text)
            for lag in lags:
                value = _value(name, lag, now)
                if value is not None:
                    yield f'{_PREFIX}{name}{{stream="{lag.stream_id}"}} {value}'
        with self._lock:
            counts, seconds, looked, began = dict(self._counts), self._seconds, self._looked_at, self._began_at
        for name, text in _COUNTS:
            yield from _head(f"{name}_total", "counter", text)
            yield f"{_PREFIX}{name}_total {counts[name]}"
        yield from _head("batch_seconds", "summary", "How long batches took, from their plan to their commit.")
        yield f"{_PREFIX}batch_seconds_sum {seconds:.6f}"
        yield f"{_PREFIX}batch_seconds_count {counts['batches']}"
        running = 0.0 if began is None else max(0.0, time.time() - began)
        yield from _head("batch_running_seconds", "gauge", "How long the batch at hand has run; 0 between batches.")
        yield f"{_PREFIX}batch_running_seconds {running:.3f}"
        yield from _head("last_look_timestamp_seconds", "gauge", "When streams were looked at last, in Unix seconds.")
        yield f"{_PREFIX}last_look_timestamp_seconds {looked:.3f}"


def _head(name: str, kind: str, text: str) -> Iterator[str]:
    yield f"# HELP {_PREFIX}{name} {text}"
    yield f"# TYPE {_PREFIX}{name} {kind}"


def _value(name: str, lag: StreamLag, now: int) -> float | int | None:
    match name:
        case "lag_seconds":
            return round(lag.seconds(now), 3)
        case "backlog_bytes":
            return lag.stored_bytes
        case "backlog_objects":
            return lag.objects
        case "stuck":
            return int(lag.gap is not None)
    return None if lag.gap is None else lag.gap.offset
