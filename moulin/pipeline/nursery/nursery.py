"""The nursery: loads what collectors stored into tables, exactly once, and ends streams.

A batch is planned from the catalog's offsets alone: the baby segments past each stream's frontier, without gaps, routed
by one `routing_seq`. Its tasks write invisible segments; one transaction then adds them to all tables, records what was
set aside, and advances the frontiers by compare-and-set. So a nursery may crash between any two steps, or run
concurrently with another: uncommitted work is planned again, and its files are left to clean-up.
"""

# Decisions: docs/decisions/0075, docs/decisions/0077

from __future__ import annotations

import logging
import os
import secrets
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from uuid import UUID

from moulin.errors import AlreadyExists, Conflict, FailedPrecondition, MoulinError, NotFound, Unavailable
from moulin.formats.baby_segment import encode_stop
from moulin.ingest.intake.backlog import Backlog, Stop, backlog
from moulin.ingest.intake.intake import Aside, BabySegmentFacts, Targets, candidates
from moulin.lake import Lake
from moulin.model.facts import SegmentFacts
from moulin.model.ids import new_id
from moulin.model.ingest import Frontier, NurseryBatch, NurseryResult, StopReason, Stream, StreamList
from moulin.pipeline.nursery.figures import NurseryFigures
from moulin.pipeline.nursery.mill import NUMBERS, Milled, MillSlice, mill, store_asides
from moulin.pipeline.nursery.stuck import StuckStreams
from moulin.pipeline.nursery.tries import Tries
from moulin.pipeline.nursery.warm_up import WarmUp
from moulin.storage import paths
from moulin.table.commit.retry import at_once, retry
from moulin.table.runner import LocalRunner, TaskDied
from moulin.table.write.layout import Layout

_log = logging.getLogger(__name__)
_NANOS = 1_000_000_000
_PLANS = 3  # replans of a batch after another nursery or new routing
_COMMITS = 5
_TRIM_SECONDS = 30.0


@dataclass(slots=True)
class NurseryReport:
    """The result of one batch. `version` is 0 if there was nothing to commit; `more` means that the batch was full."""

    version: int = 0
    objects: int = 0
    stored_bytes: int = 0
    raw_bytes: int = 0
    rows: int = 0
    segments: int = 0
    set_aside: int = 0
    fallen_back: int = 0
    repeated_keys: int = 0
    stopped: int = 0
    trimmed: int = 0
    more: bool = False
    seconds: float = 0.0


_SUMMED = ("objects", "stored_bytes", "raw_bytes", "rows", "segments", "set_aside", "fallen_back", "repeated_keys")


class Nursery:
    """The nursery of a lake whose catalog is at hand. One object is used by one thread; any number may run at once.

    With `spark`, batches of at least `nursery_local_bytes` run on Spark. It is started beside the first of them, which
    runs here, as do others until the session is there. `announce` gets sentences on that and on streams that are stuck.
    """

    def __init__(self, lake: Lake, *, spark: bool = True, announce: Callable[[str], object] = _log.warning) -> None:
        self._spark = WarmUp(lake.context.spark, announce) if spark else None
        self.figures = NurseryFigures()
        self._stuck = StuckStreams(announce)
        self._catalog = lake.own_catalog()
        self._store, self._config = lake.store, lake.config
        self._failures = 0
        self._tries: Tries | None = Tries(lake.store, lake.config.nursery_try_age)  # until the first batch is done
        self._trimmed_at = 0.0

    def run_once(self) -> NurseryReport:
        """Run one batch: the backlog, up to `nursery_batch_bytes`. Raises the error that prevented its commit."""
        began = time.monotonic()
        try:
            report = retry(_PLANS, self._run, _is_outdated, at_once)
        except Exception:
            self.figures.failed()
            raise
        self._failures = 0
        if time.monotonic() - self._trimmed_at >= _TRIM_SECONDS:
            report.trimmed = self.trim()
            self._trimmed_at = time.monotonic()
        report.seconds = time.monotonic() - began
        return report

    def drain(self) -> NurseryReport:
        """Run batches until the backlog at the start is committed; returns their sum."""
        total = self.run_once()
        more = total.more
        while more:
            last = self.run_once()
            more = last.more
            for name in _SUMMED:
                setattr(total, name, getattr(total, name) + getattr(last, name))
            total.stopped += last.stopped
            total.seconds += last.seconds
            total.version = max(total.version, last.version)
        total.more = False
        return total

    def trim(self) -> int:
        """Delete baby segments that were committed long enough ago; returns how many.

        A stop object is deleted with the last one.
        """
        deleted = 0
        limits = self._catalog.ingest.deletable_offsets(self._catalog.published_version())
        for stream in self._catalog.ingest.streams(list(limits)):
            limit = min(limits[stream.id], stream.merged_offset)
            last = limit + 1 if limit == stream.stopped_offset else limit
            gone = range(stream.deleted_offset + 1, last + 1)
            if limit > stream.deleted_offset:
                self._store.delete(paths.baby_segment(stream.id, offset) for offset in gone)
                self._catalog.ingest.set_deleted_offset(stream.id, limit, stream.frontier_time)
                deleted += len(gone)
                if last > limit:
                    Tries(self._store, 0).forget(stream.id)
        return deleted

    # One batch

    def _run(self) -> NurseryReport:
        listed = self._catalog.ingest.stream_list()
        pending, more = self._pending(listed)
        first = next((one.baby_segments[0] for one in pending if one.baby_segments), None)
        if first is None or self._tries is None:
            return self._take(listed, pending, more)
        with self._tries.noted(first.stream_id, first.offset) as died:
            if died > self._failures:
                self._failures = died
                pending, more = self._pending(listed)
            report = self._take(listed, pending, more)
        self._tries = None
        return report

    def _take(self, listed: StreamList, pending: Sequence[Backlog], more: bool) -> NurseryReport:
        report = NurseryReport(more=more)
        moving = [one for one in pending if one.baby_segments]
        if moving:
            self._batch(listed, moving, report)
        for one in pending:
            report.stopped += self._end(one, listed.complete_through)
        self.figures.ended(report.stopped)
        return report

    def _pending(self, listed: StreamList) -> tuple[list[Backlog], bool]:
        """The backlog of each stream, a fair share of each, and whether there is more."""
        ours = [stream for stream in listed.streams if not stream.is_drained and not _is_ahead(stream)]
        found = [backlog(self._store, stream) for stream in ours]
        self.figures.saw(found)
        self._stuck.look(found)
        found.sort(key=lambda one: one.baby_segments[0].ingest_time if one.baby_segments else 0)
        room = self._config.nursery_batch_bytes
        waiting = sum(1 for one in found if one.baby_segments)
        isolated = self._failures >= self._config.nursery_failures
        more = False
        for one in found:
            if not one.baby_segments:
                continue
            share, size, taken = room // waiting, 0, 0
            for baby_segment in one.baby_segments:
                if taken and (size >= share or isolated):
                    break
                size += baby_segment.size
                taken += 1
            if taken < len(one.baby_segments):
                one.baby_segments, one.stop, more = one.baby_segments[:taken], None, True
            room, waiting = max(room - size, 0), waiting - 1
        if isolated:  # one baby segment of one stream, to find out which one fails
            first = next((one for one in found if one.baby_segments), None)
            more = more or sum(1 for one in found if one.baby_segments) > 1
            found = [one for one in found if one is first or not one.baby_segments]
        return found, more

    def _batch(self, listed: StreamList, moving: Sequence[Backlog], report: NurseryReport) -> None:
        baby_segments = [baby_segment for one in moving for baby_segment in one.baby_segments]
        size = sum(baby_segment.size for baby_segment in baby_segments)
        self.figures.began()
        began = time.monotonic()
        try:
            if len(baby_segments) == 1 and self._failures >= 2 * self._config.nursery_failures:
                raise TaskDied("Nurseries died of it.")
            parts = self._mill(listed, baby_segments, size)
        except NotFound as error:
            raise Conflict(
                f"Baby segments are gone, because another nursery committed them: {error.message}"
            ) from error
        except Exception as error:  # noqa: BLE001 - whatever a baby segment makes a task do
            parts = [self._failed(baby_segments, error)]
        segments: dict[UUID, list[SegmentFacts]] = defaultdict(list)
        tables: dict[UUID, set[UUID]] = defaultdict(set)
        for part in parts:
            for table_id, facts in part.segments.items():
                segments[table_id] += facts
            for table_id, streams in part.streams.items():
                for stream_id in streams:
                    tables[stream_id].add(table_id)
        frontiers = tuple(
            Frontier(
                one.stream.id,
                one.stream.frontier,
                one.baby_segments[-1].offset,
                max(baby_segment.ingest_time for baby_segment in one.baby_segments)
                - _NANOS,  # the next one may be of the same second
                tuple(sorted(tables[one.stream.id])),
            )
            for one in moving
        )
        batch = NurseryBatch(
            {table_id: tuple(facts) for table_id, facts in segments.items()},
            frontiers,
            listed.routing_seq,
            tuple(aside for part in parts for aside in part.set_asides),
        )
        report.version = self._commit(batch).versions[-1]
        report.objects, report.stored_bytes = len(baby_segments), size
        report.raw_bytes = sum(part.raw_bytes for part in parts)
        report.fallen_back = sum(part.fallen_back for part in parts)
        report.repeated_keys = sum(part.repeated_keys for part in parts)
        report.segments = sum(len(facts) for facts in segments.values())
        report.rows = sum(facts.rows for some in segments.values() for facts in some)
        report.set_aside = sum(aside.records for aside in batch.set_asides)
        self.figures.committed(
            ((frontier.stream_id, frontier.reached) for frontier in frontiers),
            time.monotonic() - began,
            objects=report.objects,
            stored_bytes=report.stored_bytes,
            rows=report.rows,
            set_aside_records=report.set_aside,
            repeated_keys=report.repeated_keys,
        )
        for aside in batch.set_asides:
            _log.warning("Set aside baby segment %d of stream %s: %s", aside.offset, aside.stream_id, aside.reason)

    def _mill(self, listed: StreamList, baby_segments: Sequence[BabySegmentFacts], size: int) -> list[Milled]:
        targets = self._targets(listed)
        shares = _shares(baby_segments, os.cpu_count() or 1)
        first = self._catalog.reserve_segments(NUMBERS * len(shares))
        slices = [
            MillSlice(self._store, tuple(share), targets, first + NUMBERS * index, self._config.append_segment_bytes)
            for index, share in enumerate(shares)
        ]
        large = self._spark is not None and size >= self._config.nursery_local_bytes
        runner = self._spark.runner() if large and self._spark is not None else None
        return list((runner or LocalRunner()).map(mill, slices))

    def _targets(self, listed: StreamList) -> Targets:
        layouts = {}
        for table_id in candidates(listed):
            try:
                state = self._catalog.ingest.target(table_id)
            except (NotFound, FailedPrecondition):
                continue  # removed since the listing, which the commit detects by its routing_seq
            if not state.schema.identifier_field_ids:
                layouts[table_id] = Layout.of(state)
        return Targets(listed.routing, listed.tables, layouts)

    def _failed(self, baby_segments: Sequence[BabySegmentFacts], error: Exception) -> Milled:
        """After failures in a row baby segments come alone; one that fails alone as often is set aside whole.

        That is, if it can be read and stored elsewhere: if not, the store is at fault and not the baby segment.
        """
        if isinstance(error, MoulinError) and error.retryable and not isinstance(error, TaskDied):
            raise error
        self._failures += 1
        if len(baby_segments) > 1 or self._failures < 2 * self._config.nursery_failures:
            raise error
        reason = error.message if isinstance(error, MoulinError) else f"{type(error).__name__}: {error}"
        asides = store_asides(self._store, [Aside(baby_segments[0], f"It failed again and again: {reason}", 0)])
        return Milled({}, {}, asides, 0, 0)

    def _commit(self, batch: NurseryBatch) -> NurseryResult:
        """Commit with one request id, even if responses are lost. Files of a rejected batch are deleted."""
        request_id = str(new_id())
        commit = partial(self._catalog.ingest.commit_nursery_batch, batch, request_id=request_id)
        try:
            return retry(_COMMITS, commit, lambda error: isinstance(error, Unavailable), _wait_for_catalog)
        except Unavailable:
            raise  # it may be committed: its files stay, and the next plan finds out
        except MoulinError:
            self._store.delete(facts.path for some in batch.segments.values() for facts in some)
            raise

    # Ends of streams

    def _end(self, one: Backlog, now: int) -> int:
        """Record the end of a stream with a stop object, or end a stream that has been silent for too long."""
        stream = one.stream
        if stream.stopped_at is not None:
            return 0
        stop = one.stop
        if stop is None and one.gap is not None:
            return 0  # it has not ended: later baby segments wait for the missing one
        if stop is None:
            heard = max(stream.created_at, stream.frontier_time)
            if one.baby_segments or now - heard < self._config.stream_timeout * _NANOS:
                return 0
            stop = Stop(stream.frontier + 1, time.time_ns(), StopReason.TIMEOUT)
            data = encode_stop(stream.id, secrets.token_bytes(16), stop.offset, stop.written_at, stop.reason)
            try:
                self._store.put_if_absent(paths.baby_segment(stream.id, stop.offset), data)
            except AlreadyExists:
                return 0  # it was not silent after all, or another nursery was first: the next batch finds out
        ingest = self._catalog.ingest
        ingest.stop_stream(stream.id, stop.offset - 1, stopped_at=stop.written_at, reason=stop.reason)
        return 1


def _is_outdated(error: MoulinError) -> bool:
    """Whether a batch must be planned again after another nursery or new routing."""
    if isinstance(error, Conflict):
        _log.info("planning again: %s", error.message)
    return isinstance(error, Conflict)


def _wait_for_catalog(attempt: int) -> None:
    time.sleep(0.05 * 2**attempt)


def _is_ahead(stream: Stream) -> bool:
    """Whether another client registers segments of this stream table by table; that client takes in the rest, too."""
    return any(table.merged_offset > stream.frontier for table in stream.tables)


def _shares(baby_segments: Sequence[BabySegmentFacts], count: int) -> list[list[BabySegmentFacts]]:
    """Baby segments in at most `count` parts of about the same size; small batches stay whole, for fewer segments."""
    total = sum(baby_segment.size for baby_segment in baby_segments)
    count = max(1, min(count, total >> 20))
    shares: list[list[BabySegmentFacts]] = [[]]
    size = 0
    for baby_segment in baby_segments:
        if size >= total * len(shares) / count:
            shares.append([])
        shares[-1].append(baby_segment)
        size += baby_segment.size
    return shares


__all__ = ["Nursery", "NurseryReport"]
