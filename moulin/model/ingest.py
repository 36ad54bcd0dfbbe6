"""Ingest values of the catalog: tokens, streams and their offsets, members."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from uuid import UUID

from moulin.model.entities import Tombstone
from moulin.model.facts import SegmentFacts

SIGNALS = ("traces", "logs", "metrics")
BEFORE_FIRST = -1  # the offset before the first object of a stream


@dataclass(frozen=True, slots=True)
class Routing:
    """The table that each signal goes to."""

    traces: UUID
    logs: UUID
    metrics: UUID

    def signals_to(self, table_id: UUID) -> tuple[str, ...]:
        return tuple(signal for signal in SIGNALS if getattr(self, signal) == table_id)


@dataclass(frozen=True, slots=True)
class Token:
    """An ingest token. `hint` is the end of its newest plaintext, `expires_at` when that one ends, if it does."""

    id: UUID
    database_id: UUID
    name: str
    routing: Routing
    hint: str
    created_at: int
    expires_at: int | None = None
    tombstone: Tombstone | None = None


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token just made or rotated; the only place where its plaintext is ever shown."""

    token: Token
    plaintext: str = field(repr=False)


class StopReason(IntEnum):
    """Why a stream ended. The values are stored and sent: do not change them."""

    UNSPECIFIED = 0
    CLIENT = 1
    TIMEOUT = 2


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """With this version, everything up to this offset was in segments."""

    version: int
    offset: int
    ingest_time: int


@dataclass(frozen=True, slots=True)
class StreamTable:
    """How far one table is with a stream."""

    table_id: UUID
    merged_offset: int
    merged_time: int
    created_at: int
    checkpoints: tuple[Checkpoint, ...] = ()


@dataclass(frozen=True, slots=True)
class Stream:
    """A collector's numbered objects.

    Everything up to `frontier` is in segments, of whatever tables it belongs to; `tables` are those that are known to
    have rows from it, each at least as far. Objects up to `deleted_offset` are gone from storage.
    """

    id: UUID
    collector_id: str
    description: str
    token_id: UUID
    created_at: int
    frontier: int
    frontier_time: int
    deleted_offset: int
    deleted_time: int
    stopped_at: int | None = None
    stopped_offset: int | None = None
    stop_reason: StopReason = StopReason.UNSPECIFIED
    retired_at: int | None = None
    tables: tuple[StreamTable, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()

    @property
    def merged_offset(self) -> int:
        """The last object of which no table needs anything any more."""
        return min((table.merged_offset for table in self.tables), default=self.frontier)

    @property
    def known_complete_through(self) -> int:
        """The ingest time up to which everything is in segments; when nothing is yet, the stream's creation."""
        if self.tables:
            return min(table.merged_time for table in self.tables)
        return max(self.created_at, self.frontier_time)

    @property
    def is_drained(self) -> bool:
        """Whether nothing more can come of it."""
        return self.stopped_offset is not None and self.merged_offset >= self.stopped_offset


@dataclass(frozen=True, slots=True)
class StreamRegistration:
    """The stream that a collector writes to, and the token that it came with."""

    stream: Stream
    token: Token


@dataclass(frozen=True, slots=True)
class TokenRouting:
    """Where the records of a token go. `retired`: the token was deleted, and older streams may still hold some."""

    token_id: UUID
    database_id: UUID
    routing: Routing
    retired: bool = False


@dataclass(frozen=True, slots=True)
class RoutedTable:
    """A table that records can be routed to, by id or, when it is not `retired`, by name."""

    id: UUID
    database_id: UUID
    name: str
    retired: bool = False


@dataclass(frozen=True, slots=True)
class StreamList:
    """All streams that are not retired, with what is needed to route their records, from one snapshot.

    A list with a higher `response_seq` is newer. Every stream that is missing was created after `complete_through`.
    `routing_seq` rises whenever tokens or tables change in a way that may route a record elsewhere.
    """

    streams: tuple[Stream, ...]
    tables: tuple[RoutedTable, ...]
    routing: tuple[TokenRouting, ...]
    version: int
    response_seq: int
    routing_seq: int
    complete_through: int


class MemberKind(IntEnum):
    """What a member of the cluster does. The values are sent: do not change them."""

    UNSPECIFIED = 0
    NURSERY = 1
    CLOUD = 2


@dataclass(frozen=True, slots=True)
class Member:
    """A long-lived service, as its last heartbeat described it."""

    id: str
    kind: MemberKind
    endpoint: str
    weight: int
    heartbeat_at: int


@dataclass(frozen=True, slots=True)
class Advance:
    """One table takes in a stream from after `start` up to `reached`. Times are those of the object at `reached`."""

    stream_id: UUID
    start: int
    reached: int
    ingest_time: int


@dataclass(frozen=True, slots=True)
class Registration:
    """A segment, and what of which streams is in it. `source` is the upload that it is a copy of, if it is one."""

    segment: SegmentFacts
    advances: tuple[Advance, ...]
    source: str = field(default="", repr=False)  # digests of requests are made of reprs


@dataclass(frozen=True, slots=True)
class Frontier:
    """All tables take in a stream from after `start` up to `reached`; `tables` are those that rows of it went to."""

    stream_id: UUID
    start: int
    reached: int
    ingest_time: int
    tables: tuple[UUID, ...] = ()


@dataclass(frozen=True, slots=True)
class SetAside:
    """Records of an object that could not be read, or all of it: how many, why, and where they were put."""

    stream_id: UUID
    offset: int
    records: int
    reason: str
    path: str = ""


@dataclass(frozen=True, slots=True)
class NurseryBatch:
    """What one batch of a nursery brings: segments of many tables, one frontier per stream, rows set aside.

    It was routed by what `routing_seq` stood for. A frontier may move without any segment.
    """

    segments: Mapping[UUID, tuple[SegmentFacts, ...]]
    frontiers: tuple[Frontier, ...]
    routing_seq: int
    set_asides: tuple[SetAside, ...] = ()


@dataclass(frozen=True, slots=True)
class NurseryResult:
    """The versions that a registration took, and the streams as they are after it.

    `replayed` says that the request id had been committed before, as these versions; nothing was done now.
    """

    versions: tuple[int, ...]
    streams: tuple[Stream, ...]
    response_seq: int
    replayed: bool = False
