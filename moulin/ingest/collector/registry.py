"""The collector's interface to the catalog: authorization, its stream, and how the stream ended."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from moulin.catalog.catalog import Catalog
from moulin.errors import NotFound
from moulin.model.ingest import StopReason
from moulin.model.schema.values import Schema


@dataclass(frozen=True, slots=True)
class Grant:
    """The grant of a valid token: writing to the tables of one database."""

    token_id: UUID
    database_id: UUID
    database: str


@dataclass(frozen=True, slots=True)
class OpenStream:
    """A stream to write to, and when a baby segment of it is due: at so many bytes, or after so many seconds."""

    id: UUID
    flush_seconds: float
    segment_bytes: int


class StreamRegistry(Protocol):
    """The collector's interface to the catalog. Calls block, and are thread-safe. Unavailable means retry later."""

    def validate(self, plaintext: str) -> Grant:
        """What the token allows. Unauthenticated when it is not valid, whatever the reason."""

    def register(self, plaintext: str, collector_id: str, description: str) -> OpenStream:
        """The active stream of the collector, created if missing. Unauthenticated if the token is not valid."""

    def stopped_offset(self, stream_id: UUID) -> int | None:
        """The last offset of a stream that was stopped, None while it is active. NotFound when it is gone."""

    def stop(self, stream_id: UUID, final_offset: int, reason: StopReason) -> None:
        """Nothing follows `final_offset`; the stop object is the next."""

    def table_schema(self, database_id: UUID, name: str) -> Schema | None:
        """The schema of a live table that rows can be appended to; None when there is none of this name."""


class CatalogRegistry:
    """The registry of a lake with direct access to its catalog."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def validate(self, plaintext: str) -> Grant:
        token = self._catalog.ingest.validate_token(plaintext)
        database = next(found for found in self._catalog.databases() if found.id == token.database_id)
        return Grant(token.id, token.database_id, database.name)

    def register(self, plaintext: str, collector_id: str, description: str) -> OpenStream:
        made = self._catalog.ingest.register_stream(plaintext, collector_id, description)
        config = self._catalog.config
        return OpenStream(made.stream.id, config.stream_flush_seconds, config.stream_segment_bytes)

    def stopped_offset(self, stream_id: UUID) -> int | None:
        found = self._catalog.ingest.streams([stream_id])
        if not found:
            raise NotFound(f"There is no stream {stream_id}.")
        return found[0].stopped_offset

    def stop(self, stream_id: UUID, final_offset: int, reason: StopReason) -> None:
        self._catalog.ingest.stop_stream(stream_id, final_offset, stopped_at=time.time_ns(), reason=reason)

    def table_schema(self, database_id: UUID, name: str) -> Schema | None:
        try:
            schema = self._catalog.table(database_id, name).schema
        except NotFound:
            return None
        return None if schema.identifier_field_ids else schema  # keyed tables have a log of their own
