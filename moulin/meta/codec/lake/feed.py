"""The feed of a table: the segments that each version changed, in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.catalog.segments.feed import CommitNumbers, FeedEntry, FeedSegment
from moulin.meta.codec.lake.segment import from_message_segment, to_message_segment
from moulin.meta.codec.page import pages


def to_message_feed(entry: FeedEntry) -> Iterator[pb.VersionChange]:
    """An entry of the feed, in pieces."""
    pairs = (
        pb.SegmentChange(
            before=None if pair.before is None else to_message_segment(pair.before),
            after=None if pair.after is None else to_message_segment(pair.after),
        )
        for pair in entry.segments
    )
    numbers = [
        pb.CommitNumbers(sequence=c.sequence, version=c.version, timestamp_ns=c.timestamp_ns) for c in entry.commits
    ]
    for index, page in enumerate(pages(pairs)):
        yield pb.VersionChange(
            version=entry.version,
            timestamp_ns=entry.timestamp_ns,
            next_row_id=entry.next_row_id,
            segments=page,
            commits=[] if index else numbers,
        )
    if not entry.segments:
        yield pb.VersionChange(
            version=entry.version, timestamp_ns=entry.timestamp_ns, next_row_id=entry.next_row_id, commits=numbers
        )


def from_message_feed(pieces: Iterable[pb.VersionChange]) -> Iterator[FeedEntry]:
    """Whole entries from pieces that follow one another."""
    held: list[pb.VersionChange] = []
    for piece in pieces:
        if held and held[0].version != piece.version:
            yield _joined(held)
            held = []
        held.append(piece)
    if held:
        yield _joined(held)


def _joined(pieces: list[pb.VersionChange]) -> FeedEntry:
    first = pieces[0]
    pairs = tuple(
        FeedSegment(
            from_message_segment(pair.before) if pair.HasField("before") else None,
            from_message_segment(pair.after) if pair.HasField("after") else None,
        )
        for piece in pieces
        for pair in piece.segments
    )
    numbers = tuple(CommitNumbers(c.sequence, c.version, c.timestamp_ns) for c in first.commits)
    return FeedEntry(first.version, first.timestamp_ns, first.next_row_id, pairs, numbers)
