"""Objects that a view or a preview lists by id and name; the message is called Member."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.model.entities import Named


def to_message_member(member: Named) -> pb.Member:
    return pb.Member(id=str(member.id), name=member.name)


def from_message_members(messages: Iterable[pb.Member]) -> tuple[Named, ...]:
    return tuple(Named(UUID(m.id), m.name) for m in messages)
