"""Views."""

from __future__ import annotations

from uuid import UUID

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.meta.codec.lake.member import from_message_members, to_message_member
from moulin.meta.codec.lake.tombstone import from_message_tombstone, to_message_tombstone
from moulin.model.entities import View


def to_message_view(view: View) -> pb.View:
    return pb.View(
        id=str(view.id),
        database=view.database,
        name=view.name,
        members=map(to_message_member, view.members),
        created_at=view.created_at,
        description=view.description,
        tombstone=to_message_tombstone(view.tombstone),
    )


def from_message_view(m: pb.View) -> View:
    description = m.description if m.HasField("description") else None
    members, tombstone = from_message_members(m.members), from_message_tombstone(m)
    return View(UUID(m.id), m.database, m.name, members, m.created_at, description, tombstone)
