"""Databases, previews of drops, and dropped objects."""

from __future__ import annotations

from moulin._proto.moulin.meta.v1 import database_pb2 as pb
from moulin.meta.codec.meta.tombstone import to_message_tombstone
from moulin.model.entities import Database, Named, Tombstoned


def to_message_database(database: Database) -> pb.Database:
    return pb.Database(id=str(database.id), name=database.name, tombstone=to_message_tombstone(database.tombstone))


def to_message_child(member: Named) -> pb.DeletableChild:
    return pb.DeletableChild(id=str(member.id), name=member.name)


def to_message_tombstoned(item: Tombstoned) -> pb.TombstonedObject:
    return pb.TombstonedObject(
        kind=item.kind,
        id=str(item.id),
        name=item.name,
        database_id=str(item.database_id),
        tombstone=to_message_tombstone(item.tombstone),
    )
