"""Segments in messages. The id of a segment is its number, written as a UUID: ids sort as the numbers do."""

# Decisions: docs/decisions/0091

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from uuid import UUID

from moulin._proto.moulin.meta.v1 import common_pb2 as pb
from moulin.catalog.segments.lookup import FoundSegment
from moulin.errors import InvalidInput
from moulin.formats import manifest
from moulin.meta.codec.id import from_message_id
from moulin.meta.codec.meta.address import to_message_bucket
from moulin.model.facts import LiveSegment
from moulin.storage.store import Store

_MAX_INT32 = (1 << 31) - 1
_MAX_INT64 = (1 << 63) - 1


def to_message_segment_id(number: int) -> str:
    return str(UUID(int=number))


def from_message_segment_id(text: str, what: str = "segment_id") -> int:
    """The number of a segment, from its id. One that no segment can have is 0, which none has."""
    number = from_message_id(text, what).int
    return number if number <= _MAX_INT64 else 0


def from_message_segment_ids(texts: Sequence[str], what: str, limit: int) -> list[int]:
    if len(texts) > limit:
        raise InvalidInput(f"{what} holds {len(texts)} ids; send at most {limit} at once.")
    return [from_message_segment_id(text, what) for text in texts]


def to_message_segments(store: Store, found: Iterable[FoundSegment]) -> Iterator[pb.SegmentInfo]:
    """Segments as a search found them. Events are those that are not deleted; a segment has one size, that on disk."""
    bucket = to_message_bucket(store)
    for one in found:
        yield _info(bucket, one)


def _info(bucket: pb.CloudBucket, found: FoundSegment) -> pb.SegmentInfo:
    folder, _, name = found.path.rpartition("/")
    info = pb.SegmentInfo(
        id=to_message_segment_id(found.number),
        size_bytes=found.size,
        compressed_size_bytes=found.size,
        number_of_events=min(found.rows, _MAX_INT32),
        table_id=str(found.table_id),
        cloud_object_key=pb.CloudObjectKey(prefix=pb.CloudObjectPrefix(bucket=bucket, prefix=folder), key=name),
        audt_hash=found.sha256,
        version=found.added_version,
        tombstone_version=found.removed_version or 0,
    )
    if found.time_range is not None:
        info.time_range.start_time, info.time_range.end_time = found.time_range
    if found.ingest_range is not None:
        info.ingest_time_range.start_time, info.ingest_time_range.end_time = found.ingest_range
    return info


def to_message_input(store: Store, table_id: UUID, segment: LiveSegment) -> pb.SegmentInfo:
    """An input of a merge task: with everything that is known of it, and the deletion vector to read it with."""
    facts = segment.facts
    times = None if facts.time_min is None or facts.time_max is None else (facts.time_min, facts.time_max)
    found = FoundSegment(
        table_id,
        facts.number,
        facts.path,
        segment.live_rows,
        facts.size,
        facts.sha256,
        segment.added_version,
        times,
        times,
    )
    info = _info(to_message_bucket(store), found)
    info.data_file.CopyFrom(manifest.segment_to_ref(segment, manifest.EXISTING))
    return info
