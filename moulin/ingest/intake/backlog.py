"""The backlog of a stream: stored but not yet in segments. The nursery plans from it, and the fresh lane reads it."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from moulin.errors import MoulinError
from moulin.formats.baby_segment import HEADER_SIZE, Kind, decode_header
from moulin.ingest.intake.intake import BabySegmentFacts
from moulin.ingest.otlp.otlp import ingest_time
from moulin.model.ingest import StopReason, Stream
from moulin.storage import paths
from moulin.storage.interface import ObjectInfo
from moulin.storage.store import Store

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Stop:
    """The stop object of a stream: its number, when it was written, and why."""

    offset: int
    written_at: int
    reason: StopReason


@dataclass(frozen=True, slots=True)
class Gap:
    """A number of a stream that is missing although later ones are there: nothing past it can be taken in.

    `since` is when the first later one was stored, or the stream's end was noted, in Unix nanoseconds; `objects` and
    `stored_bytes` wait behind it.
    """

    offset: int
    since: int
    objects: int = 0
    stored_bytes: int = 0

    def seconds(self, now: int) -> float:
        """How long the stream has been stuck."""
        return max(0.0, (now - self.since) / 1e9)


@dataclass(slots=True)
class Backlog:
    """The baby segments of a stream past its frontier, as far as there is no gap, and the stop object behind them."""

    stream: Stream
    baby_segments: list[BabySegmentFacts] = field(default_factory=list)
    stop: Stop | None = None
    gap: Gap | None = None


def backlog(store: Store, stream: Stream) -> Backlog:
    """Lists the store. Baby segments past a gap are not confirmed, and those past a stop object do not count."""
    after = paths.baby_segment(stream.id, stream.frontier) if stream.frontier >= 0 else ""
    infos: dict[int, ObjectInfo] = {}
    for info in store.list(paths.stream_prefix(stream.id), after=after):
        parsed = paths.parse_baby_segment(info.path)
        if parsed is not None:
            infos[parsed[1]] = info
    found = Backlog(stream)
    offset, last = stream.frontier + 1, stream.stopped_offset
    while offset in infos and (last is None or offset <= last):
        info = infos[offset]
        if info.size <= HEADER_SIZE and (stop := _stop_at(store, info.path, offset)) is not None:
            found.stop = stop
            break
        found.baby_segments.append(BabySegmentFacts(stream.id, offset, info.size, ingest_time(info.modified)))
        offset += 1
    if found.stop is not None and (past := [number for number in infos if number > found.stop.offset]):
        _log.error("Stream %s ended at %d and has a baby segment at %d", stream.id, offset - 1, min(past))
    if found.stop is None:
        found.gap = _gap(stream, offset, infos)
    return found


def _gap(stream: Stream, offset: int, infos: dict[int, ObjectInfo]) -> Gap | None:
    """The gap at the first number that is not there, if it is one and not the end of the stream so far."""
    later = sorted(number for number in infos if number > offset)
    size = sum(infos[number].size for number in later)
    if stream.stopped_offset is not None:
        if offset > stream.stopped_offset:
            return None
        return Gap(offset, stream.stopped_at or stream.frontier_time, len(later), size)
    return Gap(offset, int(infos[later[0]].modified.timestamp() * 1e9), len(later), size) if later else None


def _stop_at(store: Store, path: str, offset: int) -> Stop | None:
    try:
        header = decode_header(store.get(path), source=path)
    except MoulinError as error:
        if error.retryable:
            raise
        return None  # damaged: it is set aside like any other
    return Stop(offset, header.written_at, header.reason) if header.kind is Kind.STOP else None
