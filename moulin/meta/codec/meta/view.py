"""Views."""

from __future__ import annotations

from moulin._proto.moulin.meta.v1 import view_pb2 as pb
from moulin.meta.codec.meta.tombstone import to_message_tombstone
from moulin.model.entities import View


def to_message_view(view: View) -> pb.View:
    return pb.View(
        id=str(view.id),
        name=view.name,
        description=view.description,
        members=to_message_members(view),
        tombstone=to_message_tombstone(view.tombstone),
    )


def to_message_members(view: View) -> list[pb.ViewMember]:
    return [pb.ViewMember(id=str(member.id), name=member.name) for member in view.members]
