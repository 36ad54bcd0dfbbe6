"""Partitions: a spec and the tuple of its values."""

from __future__ import annotations

from collections.abc import Iterable

from moulin._proto.moulin.format.v1 import manifest_pb2 as format_pb
from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb

Partition = tuple[int, tuple[bytes | None, ...]]


def to_message_tuple(value: Iterable[bytes | None]) -> format_pb.PartitionTuple:
    return format_pb.PartitionTuple(values=[format_pb.PartitionValue(value=part) for part in value])


def from_message_tuple(m: format_pb.PartitionTuple) -> tuple[bytes | None, ...]:
    return tuple(part.value if part.HasField("value") else None for part in m.values)


def to_message_partition(partition: Partition) -> pb.Partition:
    spec_id, value = partition
    return pb.Partition(spec_id=spec_id, value=to_message_tuple(value))


def from_message_partition(m: pb.Partition) -> Partition:
    return m.spec_id, from_message_tuple(m.value)
