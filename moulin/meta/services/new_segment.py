"""CreateSegment -> the facts of a segment. What it does not say is read from the file, before any transaction."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pyarrow.parquet as pq

from moulin._proto.moulin.meta.v1 import common_pb2 as pb
from moulin.catalog.commit.arrivals import check_segment
from moulin.catalog.commit.delivery import check_fits, require_objects, segment_objects
from moulin.errors import FailedPrecondition, InvalidInput, NotFound
from moulin.formats import manifest
from moulin.formats.segment.footer import (
    LEVEL_KEY,
    check_level,
    footer_facts,
    read_footer,
    sequence_range,
    split_offsets,
    stores_positions,
)
from moulin.meta.codec.meta.address import from_message_key
from moulin.meta.codec.meta.moment import from_message_range
from moulin.model.entities import TableState
from moulin.model.facts import SegmentFacts
from moulin.storage import paths
from moulin.storage.store import Store

_HASH_BYTES = 32
_SHA256, _ALGORITHMS = 0, (0, 1, 2)  # sha256, blake3-256, sha3-256
_MAX_EVENTS = (1 << 31) - 1


def from_message_new_segment(message: pb.CreateSegment, state: TableState, store: Store) -> SegmentFacts:
    """The facts of a segment that lies in the lake's storage, for the table `state`."""
    path = from_message_key(store, message.cloud_object_key)
    parsed = paths.parse_segment_path(path)
    if parsed is None or parsed[0] != state.id:
        raise InvalidInput(
            f"{path!r} is not the path of a segment of table {state.id}; StageSegments says where to write them."
        )
    _check_numbers(message)
    times = _times(message, state)
    if message.HasField("data_file"):
        facts = _given(message, path, parsed[1], state, store)
    else:
        facts = _read(message, path, parsed[1], state, store)
    if times is not None and facts.time_min is None:
        facts = replace(facts, time_min=times[0], time_max=times[1])
    if times is not None and times != (facts.time_min, facts.time_max):
        raise InvalidInput(f"Segment {path} holds times {facts.time_min} to {facts.time_max}, not {times}.")
    if message.number_of_events and message.number_of_events != facts.rows:
        raise InvalidInput(f"Segment {path} has {facts.rows} rows, not {message.number_of_events}.")
    if message.compressed_size_bytes and message.compressed_size_bytes != facts.size:
        raise InvalidInput(f"Segment {path} has {facts.size} bytes, not {message.compressed_size_bytes}.")
    return facts


def _check_numbers(message: pb.CreateSegment) -> None:
    if not 0 <= message.number_of_events <= _MAX_EVENTS:
        raise InvalidInput(f"A segment has from 0 to {_MAX_EVENTS} events, not {message.number_of_events}.")
    if message.size_bytes < 0 or message.compressed_size_bytes < 0:
        raise InvalidInput("The sizes of a segment must not be negative.")
    if message.audt_hash and len(message.audt_hash) != _HASH_BYTES:
        raise InvalidInput(f"audt_hash is empty or has {_HASH_BYTES} bytes, not {len(message.audt_hash)}.")
    if message.audt_hash and message.audt_algo not in _ALGORITHMS:
        raise InvalidInput(f"audt_algo is one of {_ALGORITHMS}, not {message.audt_algo}.")


def _times(message: pb.CreateSegment, state: TableState) -> tuple[int, int] | None:
    """The range of event time, if it is given and the table has one."""
    if not message.HasField("time_range"):
        return None
    first, last = from_message_range(message.time_range, "time range")
    if message.HasField("ingest_time_range"):
        earliest, latest = from_message_range(message.ingest_time_range, "ingest time range")
        if first > earliest or last > latest:
            raise InvalidInput(
                "No event may be later than its ingest: the time range lies after the ingest time range."
            )
    return None if state.event_time is None else (first, last)


def _given(message: pb.CreateSegment, path: str, number: int, state: TableState, store: Store) -> SegmentFacts:
    ref = message.data_file
    if ref.path != path or ref.number != number:
        raise InvalidInput(f"data_file is about {ref.path!r} (number {ref.number}), not about {path!r}.")
    if ref.dv_path or len(ref.sha256) != _HASH_BYTES or ref.num_rows < 0 or ref.file_size < 0 or ref.level < 0:
        raise InvalidInput(f"data_file of {path} needs a SHA-256, sizes that are not negative, and no deletion vector.")
    if message.audt_hash and message.audt_algo == _SHA256 and message.audt_hash != ref.sha256:
        raise InvalidInput(f"audt_hash and data_file of {path} disagree.")
    spec = state.specs.get(ref.spec_id)
    if spec is None or len(spec.fields) != len(ref.partition):
        raise InvalidInput(f"data_file of {path} names a partition that the table's partitioning does not have.")
    facts = manifest.ref_to_segment(ref).facts
    check_segment(state.id, facts)
    check_fits(state, facts)
    require_objects(store, list(segment_objects(facts)))
    if ref.level:
        check_level(_footer(path, store), ref.level, path)
    return facts


def _footer(path: str, store: Store) -> pq.FileMetaData:
    try:
        with store.reader(path) as source:
            return read_footer(source, path)
    except NotFound:
        raise FailedPrecondition(f"{path} is not in storage; write the segment before it is registered.") from None


def _read(message: pb.CreateSegment, path: str, number: int, state: TableState, store: Store) -> SegmentFacts:
    if state.spec.fields:
        raise InvalidInput(f"Table {state.full_name} is partitioned: data_file must say which partition {path} is of.")
    footer = _footer(path, store)
    known = message.audt_hash and message.audt_algo == _SHA256
    digest = message.audt_hash if known else hashlib.sha256(store.get(path)).digest()
    lowest, highest = sequence_range(footer)
    level = (footer.metadata or {}).get(LEVEL_KEY.encode(), b"0") if stores_positions(footer) else b"0"
    return SegmentFacts(
        number,
        path,
        footer.num_rows,
        store.head(path).size,
        int(level),
        state.schema_id,
        state.spec_id,
        (),
        digest,
        footer_facts(footer, state.schema),
        has_lineage=lowest is not None,
        seq_min=lowest,
        seq_max=highest,
        sort_order_id=state.sort_order_id,
        split_offsets=split_offsets(footer),
    )
