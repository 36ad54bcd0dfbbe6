"""The collector's interface to a catalog behind a server: IngestTokenService, IngestionService, NurseryService."""

from __future__ import annotations

import time
from uuid import UUID

from moulin._proto.moulin.meta.v1 import ingest_token_pb2, ingestion_pb2, nursery_pb2
from moulin._proto.moulin.meta.v1.ingest_token_pb2_grpc import IngestTokenServiceStub
from moulin._proto.moulin.meta.v1.ingestion_pb2_grpc import IngestionServiceStub
from moulin._proto.moulin.meta.v1.nursery_pb2_grpc import NurseryServiceStub
from moulin.errors import NotFound, Unauthenticated
from moulin.ingest.collector.registry import Grant, OpenStream
from moulin.meta.client.catalog import ClientCatalog
from moulin.meta.client.connection import Connection
from moulin.model.ingest import StopReason
from moulin.model.schema.values import Schema


class MetaRegistry:
    """Fills `StreamRegistry`."""

    def __init__(self, connection: Connection, catalog: ClientCatalog) -> None:
        self._connection, self._catalog = connection, catalog
        self._tokens = connection.stub(IngestTokenServiceStub)
        self._ingestion = connection.stub(IngestionServiceStub)
        self._nursery = connection.stub(NurseryServiceStub)

    def validate(self, plaintext: str) -> Grant:
        asked = ingest_token_pb2.ValidateIngestTokenRequest(plaintext_token=plaintext)
        found = self._connection.call(self._tokens.ValidateIngestToken, asked, again=True)
        return Grant(UUID(found.token_id), UUID(found.database_id), self._name(UUID(found.database_id)))

    def register(self, plaintext: str, collector_id: str, description: str) -> OpenStream:
        asked = ingestion_pb2.RegisterForStreamRequest(
            ingest_token=plaintext, collector_id=collector_id, collector_string=description
        )
        made = self._connection.call(self._ingestion.RegisterForStream, asked, again=True)
        config = made.config
        return OpenStream(UUID(made.stream_id), config.flush_timeout_ms / 1000, config.max_segment_size_bytes)

    def stopped_offset(self, stream_id: UUID) -> int | None:
        asked = nursery_pb2.GetIngestStreamsRequest()
        listed = self._connection.call(self._nursery.GetIngestStreamsForNursery, asked, again=True)
        for stream in listed.streams:
            if stream.stream_id == str(stream_id):
                return int(stream.stopped_offset) if stream.HasField("stopped_offset") else None
        raise NotFound(f"Stream {stream_id} does not exist.")

    def stop(self, stream_id: UUID, final_offset: int, reason: StopReason) -> None:
        asked = nursery_pb2.MarkStreamStoppedRequest(
            stream_id=str(stream_id),
            stopped_at_nanos=time.time_ns(),
            final_offset=final_offset,
            reason=nursery_pb2.StopReason.Name(int(reason)),
        )
        self._connection.call(self._nursery.MarkStreamStopped, asked, again=True)

    def table_schema(self, database_id: UUID, name: str) -> Schema | None:
        try:
            schema = self._catalog.table(self._name(database_id), name).schema
        except NotFound:
            return None
        return None if schema.identifier_field_ids else schema

    def _name(self, database_id: UUID) -> str:
        for database in self._catalog.databases():
            if database.id == database_id:
                return database.name
        raise Unauthenticated("The database of the ingest token no longer exists.")
