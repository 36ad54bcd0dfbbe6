"""What a collector asks of the catalog: who may write, which stream is its own, and how that stream ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol
from uuid import UUID

from moulin.ingest.blob import StopReason


@dataclass(frozen=True, slots=True)
class Grant:
    """What a valid token allows: to write to the tables of one database."""

    token_id: UUID
    database_id: UUID
    database: str


@dataclass(frozen=True, slots=True)
class OpenStream:
    """A stream to write to, and when an object of it is due: at so many bytes, or after so many seconds."""

    id: UUID
    flush_seconds: float
    segment_bytes: int


class StreamRegistry(Protocol):
    """The catalog, as a collector sees it. Calls block; several threads make them. Unavailable means: try later."""

    def validate(self, plaintext: str) -> Grant:
        """What the token allows. Unauthenticated when it is not valid, whatever the reason."""

    def register(self, plaintext: str, collector_id: str, description: str) -> OpenStream:
        """The active stream of the collector, made when it has none. Unauthenticated when the token is not valid."""

    def stopped_offset(self, stream_id: UUID) -> int | None:
        """The last offset of a stream that was stopped, None while it is active. NotFound when it is gone."""

    def stop(self, stream_id: UUID, final_offset: int, reason: StopReason) -> None:
        """Nothing follows `final_offset`; the stop object is the next."""

    def has_table(self, database_id: UUID, name: str) -> bool:
        """Whether rows can be appended to a live table of this name."""
