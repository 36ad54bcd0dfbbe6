"""Branches."""

from __future__ import annotations

from uuid import UUID

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.meta.codec.lake.tombstone import from_message_tombstone, to_message_tombstone
from moulin.model.entities import Branch, BranchTable


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
        published_version=branch.published_version,
    )


def from_message_branch(m: pb.Branch) -> Branch:
    times = m.created_at, m.expires_at if m.HasField("expires_at") else None
    published = m.published_version if m.HasField("published_version") else None
    return Branch(UUID(m.id), m.name, m.version, *times, m.tables, m.opened, from_message_tombstone(m), published)


def to_message_branch_table(table: BranchTable) -> pb.BranchTable:
    return pb.BranchTable(
        source_id="" if table.source_id is None else str(table.source_id),
        own_id=str(table.own_id),
        before=table.before,
        after=table.after,
        since=table.since,
        head=table.head,
        wrote=table.wrote,
        beside=table.beside,
    )


def from_message_branch_table(m: pb.BranchTable) -> BranchTable:
    return BranchTable(
        UUID(m.source_id) if m.source_id else None,
        UUID(m.own_id),
        m.before if m.HasField("before") else None,
        m.after if m.HasField("after") else None,
        m.since,
        m.head,
        m.wrote,
        m.beside,
    )
