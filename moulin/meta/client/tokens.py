"""Ingest tokens through IngestTokenService, which goes by ids; names are looked up first."""

from __future__ import annotations

from uuid import UUID

from moulin._proto.moulin.lake.v1 import catalog_pb2
from moulin._proto.moulin.lake.v1.catalog_pb2_grpc import CatalogServiceStub
from moulin._proto.moulin.meta.v1 import ingest_token_pb2 as pb
from moulin._proto.moulin.meta.v1.ingest_token_pb2_grpc import IngestTokenServiceStub
from moulin.catalog.objects.names import NameOrId
from moulin.errors import InvalidInput, NotFound
from moulin.meta.client.connection import Connection
from moulin.meta.codec.lake.stream import from_message_streams
from moulin.meta.codec.meta.token import from_message_token
from moulin.model.ingest import NewToken, Routing, StreamList, Token


class ClientTokens:
    """Fills `TokenBackend`. Safe to use from several threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stub = connection.stub(IngestTokenServiceStub)
        self._catalog = connection.stub(CatalogServiceStub)

    def create_token(
        self, database: NameOrId, name: str, routing: Routing, *, expires_in: float | None = None
    ) -> NewToken:
        request = pb.CreateIngestTokenRequest(
            database_id=self._database(database),
            name=name,
            traces_table_id=str(routing.traces),
            logs_table_id=str(routing.logs),
            metrics_table_id=str(routing.metrics),
            expires_in_seconds=_seconds(expires_in),
        )
        made = self._connection.call(self._stub.CreateIngestToken, request)
        return NewToken(from_message_token(made.token), made.plaintext_token)

    def rotate_token(
        self, database: NameOrId, token: NameOrId, *, overlap_seconds: float = 0, expires_in: float | None = None
    ) -> NewToken:
        request = pb.RotateIngestTokenRequest(
            **self._ids(database, token),
            overlap_seconds=_seconds(overlap_seconds),
            expires_in_seconds=_seconds(expires_in),
        )
        made = self._connection.call(self._stub.RotateIngestToken, request)
        return NewToken(from_message_token(made.token), made.plaintext_token)

    def snapshot(self) -> StreamList:
        return from_message_streams(
            self._connection.call(self._catalog.GetStreams, catalog_pb2.GetStreamsRequest(), again=True)
        )

    def token(self, database: NameOrId, token: NameOrId, *, include_dropped: bool = False) -> Token:
        database_id = self._database(database)
        return self._find(database_id, database, token, include_dropped)

    def tokens(self, database: NameOrId, *, include_dropped: bool = False) -> list[Token]:
        return self._list(self._database(database), include_dropped)

    def set_token_routing(self, database: NameOrId, token: NameOrId, routing: Routing) -> Token:
        targets = pb.IngestTokenRouting(
            traces_table_id=str(routing.traces),
            logs_table_id=str(routing.logs),
            metrics_table_id=str(routing.metrics),
        )
        ids = self._ids(database, token)
        self._connection.call(
            self._stub.UpdateIngestTokenRouting, pb.UpdateIngestTokenRoutingRequest(**ids, routing=targets)
        )
        return self.token(database, UUID(ids["token_id"]))

    def drop_token(self, database: NameOrId, token: NameOrId) -> Token:
        ids = self._ids(database, token, include_dropped=True)
        self._connection.call(self._stub.DeleteIngestToken, pb.DeleteIngestTokenRequest(**ids))
        return self.token(database, UUID(ids["token_id"]), include_dropped=True)

    def resurrect_token(self, database: NameOrId, token: NameOrId) -> Token:
        ids = self._ids(database, token, include_dropped=True)
        answer = self._connection.call(self._stub.ResurrectIngestToken, pb.ResurrectIngestTokenRequest(**ids))
        return from_message_token(answer.token)

    def _database(self, database: NameOrId) -> str:
        if isinstance(database, UUID):
            return str(database)
        ref = catalog_pb2.DatabaseRef(name=database)
        return str(self._connection.call(self._catalog.GetDatabase, ref, again=True).id)

    def _ids(self, database: NameOrId, token: NameOrId, *, include_dropped: bool = False) -> dict[str, str]:
        database_id = self._database(database)
        if not isinstance(token, UUID):
            token = self._find(database_id, database, token, include_dropped).id
        return {"database_id": database_id, "token_id": str(token)}

    def _list(self, database_id: str, include_dropped: bool) -> list[Token]:
        request = pb.ListIngestTokensRequest(database_id=database_id, include_deleted=include_dropped)
        return [
            from_message_token(info)
            for info in self._connection.call(self._stub.ListIngestTokens, request, again=True).tokens
        ]

    def _find(self, database_id: str, database: NameOrId, key: NameOrId, include_dropped: bool) -> Token:
        """The one with the id or name: the live one, else (if asked for) the one dropped last."""
        found = [t for t in self._list(database_id, include_dropped) if key in (t.id, t.name)]
        if not found:
            raise NotFound(f"Ingest token {database}.{key} does not exist.")
        return max(found, key=lambda t: (t.tombstone is None, t.tombstone.tombstoned_at if t.tombstone else 0))


def _seconds(seconds: float | None) -> int | None:
    """Whole seconds, as the service counts them."""
    if seconds is None:
        return None
    if not 0 <= seconds < 1 << 53 or int(seconds) != seconds:
        raise InvalidInput(f"A server needs whole seconds of 0 or more, not {seconds}.")
    return int(seconds)
