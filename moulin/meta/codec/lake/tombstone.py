"""Tombstones."""

from __future__ import annotations

from typing import Any

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.model.entities import Tombstone


def to_message_tombstone(tombstone: Tombstone | None) -> pb.Tombstone | None:
    return (
        None
        if tombstone is None
        else pb.Tombstone(tombstoned_at=tombstone.tombstoned_at, delete_at=tombstone.delete_at)
    )


def from_message_tombstone(message: Any) -> Tombstone | None:
    """The tombstone of a message that may have one."""
    if not message.HasField("tombstone"):
        return None
    return Tombstone(message.tombstone.tombstoned_at, message.tombstone.delete_at)
