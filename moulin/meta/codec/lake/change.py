"""What versions changed in a table: pairs of segments, in pieces."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.catalog.segments.feed import CommitNumbers, FeedEntry, FeedSegment
from moulin.meta.codec.lake.segment import from_message_segment, to_message_segment
from moulin.meta.codec.page import pages


def to_message_changes(change: FeedEntry) -> Iterator[pb.VersionChange]:
    """A version's change, in pieces."""
    pairs = (
        pb.SegmentChange(
            before=None if pair.before is None else to_message_segment(pair.before),
            after=None if pair.after is None else to_message_segment(pair.after),
        )
        for pair in change.segments
    )
    numbers = [
        pb.CommitNumbers(sequence=c.sequence, version=c.version, timestamp_ns=c.timestamp_ns) for c in change.commits
    ]
    for index, page in enumerate(pages(pairs)):
        yield pb.VersionChange(
            version=change.version,
            timestamp_ns=change.timestamp_ns,
            next_row_id=change.next_row_id,
            segments=page,
            commits=[] if index else numbers,
        )
    if not change.segments:
        yield pb.VersionChange(
            version=change.version, timestamp_ns=change.timestamp_ns, next_row_id=change.next_row_id, commits=numbers
        )


def from_message_changes(pieces: Iterable[pb.VersionChange]) -> Iterator[FeedEntry]:
    """Whole changes from pieces that follow one another."""
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
