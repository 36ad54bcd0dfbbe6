"""Segments and deletion vectors: committed ones, and new ones in a commit."""

from __future__ import annotations

from moulin._proto.moulin.format.v1 import manifest_pb2 as format_pb
from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.errors import InvalidInput
from moulin.formats import manifest
from moulin.meta.features import require_readable
from moulin.model.facts import LiveSegment, SegmentFacts, VectorFacts


def to_message_segment(segment: LiveSegment) -> format_pb.DataFileRef:
    """A committed segment, for the caller of this call: Unsupported when it would misread it."""
    require_readable(segment)
    return manifest.segment_to_ref(segment, manifest.EXISTING)


def from_message_segment(m: format_pb.DataFileRef) -> LiveSegment:
    return manifest.ref_to_segment(m)


def to_message_facts(facts: SegmentFacts) -> format_pb.DataFileRef:
    """A segment that is not committed yet: the numbers that a commit gives are left out."""
    return manifest.segment_to_ref(LiveSegment(facts, 0, 0, 0), manifest.ADDED)


def from_message_facts(m: format_pb.DataFileRef) -> SegmentFacts:
    """The facts that somebody sent, which `catalog.arrivals` checks; refused with what only a commit can give."""
    facts, sent = manifest.ref_to_segment(m).facts, format_pb.DataFileRef()
    sent.CopyFrom(m)
    sent.DiscardUnknownFields()  # a newer client may say more
    if to_message_facts(facts) != sent:
        raise InvalidInput(
            f"Segment {facts.number} has a status, version, row id, sequence number or deletion vector: the commit "
            f"assigns these. Remove them."
        )
    return facts


def to_message_vector(vector: VectorFacts) -> pb.Vector:
    return pb.Vector(
        id=vector.id,
        segment=vector.segment,
        path=vector.path,
        offset=vector.offset,
        length=vector.length,
        cardinality=vector.cardinality,
    )


def from_message_vector(m: pb.Vector) -> VectorFacts:
    if m.id:
        raise InvalidInput(f"The deletion vector of segment {m.segment} has the id {m.id}: the commit assigns ids.")
    return VectorFacts(m.id, m.segment, m.path, m.offset, m.length, m.cardinality)
