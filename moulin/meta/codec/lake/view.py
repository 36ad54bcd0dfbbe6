"""Views."""

from __future__ import annotations

from uuid import UUID

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.errors import Corrupt, InvalidInput
from moulin.meta.codec.lake.member import from_message_members, to_message_member
from moulin.meta.codec.lake.tombstone import from_message_tombstone, to_message_tombstone
from moulin.model import view_history
from moulin.model.entities import Representation, View, ViewQuery
from moulin.model.schema.documents import schema_from_json, schema_to_json


def to_message_view(view: View) -> pb.View:
    return pb.View(
        id=str(view.id),
        database=view.database,
        name=view.name,
        members=map(to_message_member, view.members),
        created_at=view.created_at,
        description=view.description,
        tombstone=to_message_tombstone(view.tombstone),
        query=to_message_query(view.query),
    )


def from_message_view(m: pb.View) -> View:
    description = m.description if m.HasField("description") else None
    members, tombstone = from_message_members(m.members), from_message_tombstone(m)
    query = from_message_query(m)
    return View(UUID(m.id), m.database, m.name, members, m.created_at, description, tombstone, query)


def to_message_query(query: ViewQuery | None) -> pb.ViewQuery | None:
    if query is None:
        return None
    return pb.ViewQuery(
        representations=[pb.ViewRepresentation(dialect=one.dialect, sql=one.sql) for one in query.representations],
        schema_json=schema_to_json(query.schema),
        properties=dict(query.properties),
        version=query.version,
        history_json=None if query.history is None else view_history.history_to_json(query.history),
    )


def from_message_query(m: pb.View | pb.CreateViewRequest) -> ViewQuery | None:
    if not m.HasField("query"):
        return None
    try:
        schema = schema_from_json(m.query.schema_json)
        sent = m.query.history_json if m.query.HasField("history_json") else None
        history = None if sent is None else view_history.history_from_json(sent)
    except Corrupt as error:
        raise InvalidInput(f"The columns of the view cannot be read: {error.message}") from None
    texts = tuple(Representation(one.dialect, one.sql) for one in m.query.representations)
    return ViewQuery(texts, schema, dict(m.query.properties), m.query.version, history)
