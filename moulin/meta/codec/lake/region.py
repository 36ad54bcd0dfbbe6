"""Regions of keyed tables."""

from __future__ import annotations

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.meta.codec.lake.partition import from_message_tuple, to_message_tuple
from moulin.model.entities import Region


def to_message_region(region: Region) -> pb.Region:
    return pb.Region(
        number=region.number,
        value=to_message_tuple(region.value),
        epoch=region.epoch,
        owner=region.owner,
        covered=region.covered,
        generation=region.generation,
    )


def from_message_region(m: pb.Region) -> Region:
    return Region(m.number, from_message_tuple(m.value), m.epoch, m.owner, m.covered, m.generation)
