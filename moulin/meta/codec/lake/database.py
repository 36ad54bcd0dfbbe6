"""Databases, and previews of drops."""

from __future__ import annotations

from uuid import UUID

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.meta.codec.lake.member import from_message_members, to_message_member
from moulin.meta.codec.lake.tombstone import from_message_tombstone, to_message_tombstone
from moulin.model.entities import Database, DropPreview


def to_message_database(database: Database) -> pb.Database:
    return pb.Database(
        id=str(database.id),
        name=database.name,
        properties=dict(database.properties),
        created_at=database.created_at,
        tombstone=to_message_tombstone(database.tombstone),
    )


def from_message_database(m: pb.Database) -> Database:
    return Database(UUID(m.id), m.name, dict(m.properties), m.created_at, from_message_tombstone(m))


def to_message_preview(preview: DropPreview) -> pb.DropPreview:
    return pb.DropPreview(
        database=to_message_database(preview.database),
        tables=map(to_message_member, preview.tables),
        views=map(to_message_member, preview.views),
        grace_seconds=preview.grace_seconds,
        tokens=map(to_message_member, preview.tokens),
    )


def from_message_preview(m: pb.DropPreview) -> DropPreview:
    tables, views, tokens = map(from_message_members, (m.tables, m.views, m.tokens))
    return DropPreview(from_message_database(m.database), tables, views, m.grace_seconds, tokens)
