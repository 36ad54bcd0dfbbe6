"""One slice of a nursery's batch: converts baby segments to sorted segments, with the same kernel here and on Spark."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from uuid import UUID

from moulin.formats.baby_segment import encode_data
from moulin.ingest.intake.intake import Aside, BabySegmentFacts, Targets, batches_of, take_in
from moulin.model.facts import SegmentFacts
from moulin.model.ingest import SetAside
from moulin.storage import paths
from moulin.storage.store import Store
from moulin.table.write.segment_writer import numbers_from, write_batches

NUMBERS = 1 << 16
"""Segment numbers that a slice may use: one per table, partition and piece of `segment_bytes`."""


@dataclass(frozen=True, slots=True)
class MillSlice:
    """Baby segments for one slice; `first_number` is the first of NUMBERS reserved ones."""

    store: Store
    baby_segments: tuple[BabySegmentFacts, ...]
    targets: Targets
    first_number: int
    segment_bytes: int


@dataclass(frozen=True, slots=True)
class Milled:
    """Segments by table, the streams that gave rows to each table, and what was set aside. Nothing is committed."""

    segments: dict[UUID, tuple[SegmentFacts, ...]]
    streams: dict[UUID, frozenset[UUID]]
    set_asides: tuple[SetAside, ...]
    fallen_back: int
    raw_bytes: int
    repeated_keys: int = 0


def mill(work: MillSlice) -> Milled:
    """Read, decode, route, sort and write. Records set aside are stored before this returns."""
    intake = take_in(work.store, work.baby_segments, work.targets)
    following = numbers_from(work.first_number, NUMBERS)
    segments = {}
    for table_id, tables in intake.rows.items():
        layout = work.targets.layouts[table_id]
        # Always level 0: a batch should be visible soon, and will be compacted in any case.
        size = layout.append_bytes or work.segment_bytes
        written = write_batches(work.store, layout, batches_of(tables), following, segment_bytes=size, level=0)
        if written:
            segments[table_id] = tuple(written)
    return Milled(
        segments,
        {table_id: frozenset(intake.streams[table_id]) for table_id in segments},
        store_asides(work.store, intake.asides),
        intake.fallen_back,
        intake.raw_bytes,
        intake.repeated_keys,
    )


def store_asides(store: Store, asides: list[Aside]) -> tuple[SetAside, ...]:
    """Store records set aside outside of clean-up: one object per baby segment, with a deterministic name."""
    by_baby_segment: dict[BabySegmentFacts, list[Aside]] = defaultdict(list)
    for aside in asides:
        by_baby_segment[aside.baby_segment].append(aside)
    stored = []
    for baby_segment, some in by_baby_segment.items():
        path = paths.set_aside(baby_segment.stream_id, baby_segment.offset)
        if any(not aside.entries for aside in some):
            data = store.get(baby_segment.path)
        else:
            entries = [entry for aside in some for entry in aside.entries]
            data = encode_data(
                baby_segment.stream_id, bytes(16), baby_segment.offset, baby_segment.ingest_time, entries
            )
        store.put(path, data)
        reasons: dict[str, int] = defaultdict(int)
        for aside in some:
            reasons[aside.reason] += aside.records
        stored += [
            SetAside(baby_segment.stream_id, baby_segment.offset, n, reason, path) for reason, n in reasons.items()
        ]
    return tuple(stored)
