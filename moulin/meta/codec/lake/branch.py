"""Branches."""

from __future__ import annotations

from uuid import UUID

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.meta.codec.lake.tombstone import from_message_tombstone, to_message_tombstone
from moulin.model.entities import Branch


def to_message_branch(branch: Branch) -> pb.Branch:
    return pb.Branch(
        id=str(branch.id),
        name=branch.name,
        version=branch.version,
        created_at=branch.created_at,
        expires_at=branch.expires_at,
        tables=branch.tables,
        opened=branch.opened,
        tombstone=to_message_tombstone(branch.tombstone),
    )


def from_message_branch(m: pb.Branch) -> Branch:
    times = m.created_at, m.expires_at if m.HasField("expires_at") else None
    return Branch(UUID(m.id), m.name, m.version, *times, m.tables, m.opened, from_message_tombstone(m))
