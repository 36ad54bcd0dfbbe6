"""Segments, vectors and changes of them <-> messages of `moulin.lake.v1`; see values.py."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from moulin._proto.moulin.format.v1 import manifest_pb2 as format_pb
from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.catalog.segments.feed import CommitNumbers, FeedEntry, FeedSegment
from moulin.errors import InvalidInput
from moulin.formats import manifest as codec
from moulin.meta.codec.values import pages
from moulin.model.facts import LiveSegment, SegmentFacts, VectorFacts


def to_segment(segment: LiveSegment) -> format_pb.DataFileRef:
    return codec.segment_to_ref(segment, codec.EXISTING)


from_segment = codec.ref_to_segment


def to_facts(facts: SegmentFacts) -> format_pb.DataFileRef:
    """A segment that is not committed yet: the numbers that a commit gives are left out."""
    return codec.segment_to_ref(LiveSegment(facts, 0, 0, 0), codec.ADDED)


def from_facts(m: format_pb.DataFileRef) -> SegmentFacts:
    """The facts that somebody sent, which `catalog.arrivals` checks; refused with what only a commit can give."""
    facts, sent = codec.ref_to_segment(m).facts, format_pb.DataFileRef()
    sent.CopyFrom(m)
    sent.DiscardUnknownFields()  # a newer client may say more
    if to_facts(facts) != sent:
        raise InvalidInput(
            f"Segment {facts.number} comes with a status, version, row id, sequence number or deletion vector of its "
            "own: the commit gives those. Leave them out."
        )
    return facts


def to_vector(vector: VectorFacts) -> pb.Vector:
    return pb.Vector(
        id=vector.id,
        segment=vector.segment,
        path=vector.path,
        offset=vector.offset,
        length=vector.length,
        cardinality=vector.cardinality,
    )


def from_vector(m: pb.Vector) -> VectorFacts:
    if m.id:
        raise InvalidInput(f"The deletion vector of segment {m.segment} has the id {m.id}: the commit gives those.")
    return VectorFacts(m.id, m.segment, m.path, m.offset, m.length, m.cardinality)


def to_changes(change: FeedEntry) -> Iterator[pb.VersionChange]:
    """A version's change, in pieces."""
    pairs = (
        pb.SegmentChange(
            before=None if pair.before is None else to_segment(pair.before),
            after=None if pair.after is None else to_segment(pair.after),
        )
        for pair in change.segments
    )
    numbers = [
        pb.CommitNumbers(sequence=c.sequence, version=c.version, timestamp_ns=c.timestamp_ns) for c in change.commits
    ]
    for place, page in enumerate(pages(pairs)):
        yield pb.VersionChange(
            version=change.version,
            timestamp_ns=change.timestamp_ns,
            next_row_id=change.next_row_id,
            segments=page,
            commits=[] if place else numbers,
        )
    if not change.segments:
        yield pb.VersionChange(
            version=change.version, timestamp_ns=change.timestamp_ns, next_row_id=change.next_row_id, commits=numbers
        )


def from_changes(pieces: Iterable[pb.VersionChange]) -> Iterator[FeedEntry]:
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
            from_segment(pair.before) if pair.HasField("before") else None,
            from_segment(pair.after) if pair.HasField("after") else None,
        )
        for piece in pieces
        for pair in piece.segments
    )
    numbers = tuple(CommitNumbers(c.sequence, c.version, c.timestamp_ns) for c in first.commits)
    return FeedEntry(first.version, first.timestamp_ns, first.next_row_id, pairs, numbers)
