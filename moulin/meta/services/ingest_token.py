"""IngestTokenService. Plaintexts are only in the responses of Create and Rotate."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from moulin._proto.moulin.meta.v1 import ingest_token_pb2 as pb
from moulin._proto.moulin.meta.v1 import ingest_token_pb2_grpc as rpc
from moulin.meta.codec.id import from_message_id
from moulin.meta.codec.meta.token import from_message_routing, to_message_routing, to_message_token
from moulin.meta.codec.meta.tombstone import to_message_tombstone
from moulin.meta.site import Site


class IngestTokenServicer(rpc.IngestTokenServiceServicer):
    def __init__(self, site: Site) -> None:
        self._ingest = site.catalog.ingest

    def CreateIngestToken(self, request: pb.CreateIngestTokenRequest, context: Any) -> pb.CreateIngestTokenResponse:
        made = self._ingest.create_token(
            from_message_id(request.database_id, "database_id"),
            request.name,
            from_message_routing(request),
            expires_in=_expiry(request),
        )
        return pb.CreateIngestTokenResponse(plaintext_token=made.plaintext, token=to_message_token(made.token))

    def RotateIngestToken(self, request: pb.RotateIngestTokenRequest, context: Any) -> pb.RotateIngestTokenResponse:
        made = self._ingest.rotate_token(
            *_ids(request), overlap_seconds=request.overlap_seconds, expires_in=_expiry(request)
        )
        return pb.RotateIngestTokenResponse(plaintext_token=made.plaintext, token=to_message_token(made.token))

    def ValidateIngestToken(
        self, request: pb.ValidateIngestTokenRequest, context: Any
    ) -> pb.ValidateIngestTokenResponse:
        token = self._ingest.validate_token(request.plaintext_token)
        return pb.ValidateIngestTokenResponse(
            token_id=str(token.id), routing=to_message_routing(token.routing), database_id=str(token.database_id)
        )

    def DeleteIngestToken(self, request: pb.DeleteIngestTokenRequest, context: Any) -> pb.DeleteIngestTokenResponse:
        dropped = self._ingest.drop_token(*_ids(request))
        return pb.DeleteIngestTokenResponse(tombstone=to_message_tombstone(dropped.tombstone))

    def ResurrectIngestToken(
        self, request: pb.ResurrectIngestTokenRequest, context: Any
    ) -> pb.ResurrectIngestTokenResponse:
        return pb.ResurrectIngestTokenResponse(token=to_message_token(self._ingest.resurrect_token(*_ids(request))))

    def ListIngestTokens(self, request: pb.ListIngestTokensRequest, context: Any) -> pb.ListIngestTokensResponse:
        database_id = from_message_id(request.database_id, "database_id")
        found = self._ingest.tokens(database_id, include_dropped=request.include_deleted)
        return pb.ListIngestTokensResponse(tokens=map(to_message_token, found))

    def GetIngestToken(self, request: pb.GetIngestTokenRequest, context: Any) -> pb.GetIngestTokenResponse:
        found = self._ingest.token(*_ids(request), include_dropped=request.include_deleted)
        return pb.GetIngestTokenResponse(token=to_message_token(found))

    def UpdateIngestTokenRouting(
        self, request: pb.UpdateIngestTokenRoutingRequest, context: Any
    ) -> pb.UpdateIngestTokenRoutingResponse:
        self._ingest.set_token_routing(*_ids(request), from_message_routing(request.routing))
        return pb.UpdateIngestTokenRoutingResponse()


def _ids(request: Any) -> tuple[UUID, UUID]:
    return from_message_id(request.database_id, "database_id"), from_message_id(request.token_id, "token_id")


def _expiry(request: pb.CreateIngestTokenRequest | pb.RotateIngestTokenRequest) -> float | None:
    return request.expires_in_seconds if request.HasField("expires_in_seconds") else None
