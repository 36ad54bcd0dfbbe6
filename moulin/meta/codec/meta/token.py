"""Ingest tokens and their routing."""

from __future__ import annotations

from uuid import UUID

from moulin._proto.moulin.meta.v1 import ingest_token_pb2 as pb
from moulin.meta.codec.id import from_message_id
from moulin.meta.codec.meta.moment import from_message_moment, to_message_moment
from moulin.meta.codec.meta.tombstone import from_message_tombstone, to_message_tombstone
from moulin.model.ingest import Routing, Token


def to_message_routing(routing: Routing) -> pb.IngestTokenRouting:
    return pb.IngestTokenRouting(
        traces_table_id=str(routing.traces), logs_table_id=str(routing.logs), metrics_table_id=str(routing.metrics)
    )


def from_message_routing(message: pb.CreateIngestTokenRequest | pb.IngestTokenRouting) -> Routing:
    """All three targets; none may be left out."""
    return Routing(
        from_message_id(message.traces_table_id, "traces_table_id"),
        from_message_id(message.logs_table_id, "logs_table_id"),
        from_message_id(message.metrics_table_id, "metrics_table_id"),
    )


def to_message_token(token: Token) -> pb.IngestTokenInfo:
    return pb.IngestTokenInfo(
        id=str(token.id),
        name=token.name,
        created_at=to_message_moment(token.created_at),
        routing=to_message_routing(token.routing),
        token_hint=token.hint,
        database_id=str(token.database_id),
        tombstone=to_message_tombstone(token.tombstone),
        expires_at_unix_ns=token.expires_at,
    )


def from_message_token(info: pb.IngestTokenInfo) -> Token:
    return Token(
        UUID(info.id),
        UUID(info.database_id),
        info.name,
        from_message_routing(info.routing),
        info.token_hint,
        from_message_moment(info.created_at),
        info.expires_at_unix_ns if info.HasField("expires_at_unix_ns") else None,
        from_message_tombstone(info),
    )
