"""IngestTokenService. Plaintexts are in the answers of Create and Rotate, and nowhere else."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from moulin._proto.moulin.meta.v1 import ingest_token_pb2 as pb
from moulin._proto.moulin.meta.v1 import ingest_token_pb2_grpc as rpc
from moulin.meta.codec.convert import to_id, to_rfc3339, to_tombstone
from moulin.meta.site import Site
from moulin.model.ingest import Routing, Token


class IngestTokenServicer(rpc.IngestTokenServiceServicer):
    def __init__(self, site: Site) -> None:
        self._ingest = site.catalog.ingest

    def CreateIngestToken(self, request: pb.CreateIngestTokenRequest, context: Any) -> pb.CreateIngestTokenResponse:
        made = self._ingest.create_token(
            to_id(request.database_id, "database_id"), request.name, _routing(request), expires_in=_expiry(request)
        )
        return pb.CreateIngestTokenResponse(plaintext_token=made.plaintext, token=_message(made.token))

    def RotateIngestToken(self, request: pb.RotateIngestTokenRequest, context: Any) -> pb.RotateIngestTokenResponse:
        made = self._ingest.rotate_token(
            *_ids(request), overlap_seconds=request.overlap_seconds, expires_in=_expiry(request)
        )
        return pb.RotateIngestTokenResponse(plaintext_token=made.plaintext, token=_message(made.token))

    def ValidateIngestToken(
        self, request: pb.ValidateIngestTokenRequest, context: Any
    ) -> pb.ValidateIngestTokenResponse:
        token = self._ingest.validate_token(request.plaintext_token)
        return pb.ValidateIngestTokenResponse(
            token_id=str(token.id), routing=to_routing(token.routing), database_id=str(token.database_id)
        )

    def DeleteIngestToken(self, request: pb.DeleteIngestTokenRequest, context: Any) -> pb.DeleteIngestTokenResponse:
        dropped = self._ingest.drop_token(*_ids(request))
        return pb.DeleteIngestTokenResponse(tombstone=to_tombstone(dropped.tombstone))

    def ResurrectIngestToken(
        self, request: pb.ResurrectIngestTokenRequest, context: Any
    ) -> pb.ResurrectIngestTokenResponse:
        return pb.ResurrectIngestTokenResponse(token=_message(self._ingest.resurrect_token(*_ids(request))))

    def ListIngestTokens(self, request: pb.ListIngestTokensRequest, context: Any) -> pb.ListIngestTokensResponse:
        database_id = to_id(request.database_id, "database_id")
        found = self._ingest.tokens(database_id, include_dropped=request.include_deleted)
        return pb.ListIngestTokensResponse(tokens=map(_message, found))

    def GetIngestToken(self, request: pb.GetIngestTokenRequest, context: Any) -> pb.GetIngestTokenResponse:
        found = self._ingest.token(*_ids(request), include_dropped=request.include_deleted)
        return pb.GetIngestTokenResponse(token=_message(found))

    def UpdateIngestTokenRouting(
        self, request: pb.UpdateIngestTokenRoutingRequest, context: Any
    ) -> pb.UpdateIngestTokenRoutingResponse:
        self._ingest.set_token_routing(*_ids(request), _routing(request.routing))
        return pb.UpdateIngestTokenRoutingResponse()


def to_routing(routing: Routing) -> pb.IngestTokenRouting:
    return pb.IngestTokenRouting(
        traces_table_id=str(routing.traces), logs_table_id=str(routing.logs), metrics_table_id=str(routing.metrics)
    )


def _routing(message: pb.CreateIngestTokenRequest | pb.IngestTokenRouting) -> Routing:
    """All three targets; none may be left out."""
    return Routing(
        to_id(message.traces_table_id, "traces_table_id"),
        to_id(message.logs_table_id, "logs_table_id"),
        to_id(message.metrics_table_id, "metrics_table_id"),
    )


def _ids(request: Any) -> tuple[UUID, UUID]:
    return to_id(request.database_id, "database_id"), to_id(request.token_id, "token_id")


def _expiry(request: pb.CreateIngestTokenRequest | pb.RotateIngestTokenRequest) -> float | None:
    return request.expires_in_seconds if request.HasField("expires_in_seconds") else None


def _message(token: Token) -> pb.IngestTokenInfo:
    return pb.IngestTokenInfo(
        id=str(token.id),
        name=token.name,
        created_at=to_rfc3339(token.created_at),
        routing=to_routing(token.routing),
        token_hint=token.hint,
        database_id=str(token.database_id),
        tombstone=to_tombstone(token.tombstone),
        expires_at_unix_ns=token.expires_at,
    )
