"""Tombstones."""

from __future__ import annotations

from typing import Any

from moulin._proto.moulin.meta.v1 import common_pb2 as pb
from moulin.model.entities import Tombstone


def to_message_tombstone(tombstone: Tombstone | None) -> pb.Tombstone | None:
    if tombstone is None:
        return None
    return pb.Tombstone(tombstoned_at_unix_ns=tombstone.tombstoned_at, delete_at_unix_ns=tombstone.delete_at)


def from_message_tombstone(message: Any) -> Tombstone | None:
    """The tombstone of a message that may have one."""
    if not message.HasField("tombstone"):
        return None
    return Tombstone(message.tombstone.tombstoned_at_unix_ns, message.tombstone.delete_at_unix_ns)
