"""The collector: receives requests, and acknowledges them when the store has confirmed.

`Collector` is shared by OTLP/gRPC, OTLP/HTTP and appends: authorization, the byte budget, and the stream. `grpc_server`
and `http` put it on the network.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar
from uuid import UUID

from moulin.config import Config
from moulin.errors import InvalidInput, NotFound, Unauthenticated, Unavailable
from moulin.formats.baby_segment import MAX_RAW, PAYLOAD_OF, Entry, Payload
from moulin.ingest.collector.limits import RequestLimits, TooLarge
from moulin.ingest.collector.registry import Grant, StreamRegistry
from moulin.ingest.collector.requests import Checked, check_json, check_protobuf
from moulin.ingest.collector.rows import check_rows
from moulin.ingest.collector.stream import StreamSettings, StreamWriter
from moulin.model.names import parse_table_name
from moulin.model.otel import Signal
from moulin.model.schema.values import Schema
from moulin.network.counts import counted
from moulin.network.limits import Limits
from moulin.sized_cache import SizedCache
from moulin.storage import paths
from moulin.storage.store import Store

T = TypeVar("T")

RETRY_AFTER: Final = 1
"""Seconds that a sender is asked to wait when a collector is overloaded or its store is away."""

_NO_STREAM: Final = UUID(int=0)
_KNOWN_TOKENS: Final = 4096
_KNOWN_TABLES: Final = 1024
_SCHEMA_AGE: Final = 5.0  # seconds; rows that do not fit a schema are checked against the newest one all the same
_REFUSED_FOR: Final = 5.0  # seconds; a wrong token is not asked for again so soon


@dataclass(frozen=True, slots=True)
class CollectorSettings:
    """Limits of a collector in bytes, and the cache time of tokens in seconds."""

    request_bytes: int = 64 << 20
    budget_bytes: int = 256 << 20
    token_recheck: float = 60.0
    stream: StreamSettings = field(default_factory=StreamSettings)
    limits: RequestLimits = field(default_factory=RequestLimits)
    threads: int = 2
    connections: Limits = field(default_factory=Limits)
    allowed_hosts: str = ""

    @classmethod
    def of(cls, config: Config, description: str = "") -> CollectorSettings:
        """What a lake's configuration says; `description` tells people which collector this is."""
        stream = StreamSettings(config.stream_keep_alive, config.collector_patience, description=description)
        connections = Limits(
            config.collector_header_seconds,
            config.collector_body_seconds,
            config.collector_connections,
            config.collector_peer_connections,
        )
        return cls(
            config.collector_request_bytes,
            config.collector_budget_bytes,
            config.token_recheck,
            stream,
            RequestLimits.of(config),
            config.collector_threads,
            connections=connections,
            allowed_hosts=config.collector_allowed_hosts,
        )


@dataclass(slots=True)
class CollectorCounts:
    """Counters of requests."""

    accepted: int = counted("Requests stored and answered.")
    accepted_bytes: int = counted("Bytes of requests stored and answered, decompressed.")
    rejected_records: int = counted("Records left out of requests that were taken, for malformed ids.")
    mended_texts: int = counted("Texts that were not UTF-8, stored with U+FFFD in place of the bytes.")
    overloaded: int = counted("Requests refused because too many bytes were on their way to the store.")
    invalid: int = counted("Requests refused as invalid or too large.")
    unauthenticated: int = counted("Requests refused for want of a valid token.")
    unavailable: int = counted("Requests refused because the store or the catalog did not answer.")


class Room:
    """A request's share of the byte budget; given back when its block ends."""

    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self.size = 0

    def grow(self, size: int) -> None:
        """Reserves more. TooLarge if it exceeds the limit of a request, Unavailable if others use it now."""
        collector = self._collector
        limit = collector.settings.request_bytes
        if self.size + size > limit:
            raise TooLarge(
                f"The request has more than {limit:,} bytes (collector_request_bytes): send smaller batches."
            )
        if collector.in_flight + size > collector.settings.budget_bytes:
            collector.counts.overloaded += 1
            collector.overloaded = True
            raise Unavailable("The collector has all it can take on its way to the store: send it again later.")
        self.size += size
        collector.in_flight += size

    def release(self) -> None:
        collector = self._collector
        collector.in_flight -= self.size
        self.size = 0
        if collector.in_flight <= collector.settings.budget_bytes // 2:
            collector.overloaded = False


class Collector:
    """Runs in one event loop: `async with collector.running(): ...`. Rejects a store that ignores put-if-absent."""

    def __init__(self, store: Store, registry: StreamRegistry, settings: CollectorSettings | None = None) -> None:
        self.settings = settings or CollectorSettings()
        if self.settings.request_bytes > min(MAX_RAW // 4, self.settings.budget_bytes):
            raise InvalidInput("A request can be no larger than the byte budget, or a quarter of a baby segment.")
        self.counts = CollectorCounts()
        self.in_flight = 0
        self.overloaded = False  # set when a request found no room, until half of the budget is free
        self._store = store
        self._registry = registry
        self._grants: SizedCache[bytes, tuple[Grant | None, float]] = SizedCache(_KNOWN_TOKENS)
        self._schemas: SizedCache[tuple[UUID, str], tuple[Schema, float]] = SizedCache(_KNOWN_TABLES)
        self._workers = ThreadPoolExecutor(max(self.settings.threads, 1), "moulin-collector-check")
        self._writer: StreamWriter | None = None

    @property
    def writer(self) -> StreamWriter:
        if self._writer is None:
            raise Unavailable("The collector is not running.")
        return self._writer

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Collector]:
        """The lifetime of the collector: checks the store first; at the end, stores and acknowledges everything, and
        ends the stream.
        """
        await asyncio.to_thread(self._store.check_put_if_absent)
        self._writer = writer = StreamWriter(self._store, self._registry, self.settings.stream)
        task = asyncio.create_task(writer.run())
        try:
            yield self
        finally:
            writer.close()
            await task
            self._workers.shutdown(wait=False)

    async def work(self, call: Callable[..., T], *arguments: Any) -> T:
        """Runs what takes time in proportion to a request, in one of a few threads: the event loop stays free."""
        return await asyncio.get_running_loop().run_in_executor(self._workers, call, *arguments)

    async def check(self, signal: Signal, data: bytes, *, is_json: bool = False) -> Checked:
        """Check an OTLP request; InvalidInput if nothing of it can be accepted."""
        return await self.work(check_json if is_json else check_protobuf, signal, data, self.settings.limits)

    def drain(self) -> None:
        """Accept no more requests; store and acknowledge accepted ones."""
        self.writer.close()

    def room(self) -> Room:
        return Room(self)

    def problem(self) -> str | None:
        """Why requests are rejected now, from local state."""
        if self.overloaded:
            return "The collector has all it can take on its way to the store."
        return self.writer.problem()

    def probe(self) -> None:
        """Check catalog and store; raises their errors. Blocks."""
        with suppress(NotFound):
            self._registry.stopped_offset(_NO_STREAM)
        self._store.exists(paths.marker())

    async def authorize(self, header: str | None) -> tuple[Grant, str]:
        """What the bearer token of an Authorization header allows, and the token itself."""
        scheme, _, token = (header or "").partition(" ")
        token = token.strip()
        if scheme.lower() != "bearer" or not token:
            self.counts.unauthenticated += 1
            raise Unauthenticated("Send the ingest token in a header: Authorization: Bearer ing_...")
        key = hashlib.sha256(token.encode(errors="surrogateescape")).digest()
        known, until = self._grants.find(key) or (None, 0.0)
        if until <= time.monotonic():
            known = await self._ask(key, token)
        if known is None:
            self.counts.unauthenticated += 1
            raise Unauthenticated("The ingest token is not valid; check it, or have a new one made.")
        return known, token

    async def _ask(self, key: bytes, token: str) -> Grant | None:
        try:
            grant: Grant | None = await asyncio.to_thread(self._registry.validate, token)
            until = time.monotonic() + self.settings.token_recheck
        except Unauthenticated:
            grant, until = None, time.monotonic() + _REFUSED_FOR
        self._grants.keep(key, (grant, until))
        return grant

    async def export(self, signal: Signal, grant: Grant, token: str, checked: Checked) -> None:
        """Stores an OTLP request; returns when it is durable. A request without records is not stored."""
        self.counts.rejected_records += checked.rejected
        self.counts.mended_texts += checked.mended
        if checked.records:
            await self._submit(Entry(grant.token_id, PAYLOAD_OF[signal], checked.records, checked.data), token)

    async def append(self, grant: Grant, token: str, name: str, payload: Payload, data: bytes) -> int:
        """Stores rows for a table of the token's database, given as `database.table`; returns how many there are.

        InvalidInput, with the column, for rows that the table cannot take as it is now.
        """
        try:
            database, table = parse_table_name(name)
        except InvalidInput:
            database, table = "", ""
        schema, asked = await self._schema(grant, table) if database == grant.database else (None, True)
        if schema is None:
            raise NotFound(f"The token's database has no table {name!r}: write database.table, and check both names.")
        try:
            rows = await self.work(check_rows, payload, data, schema, self.settings.limits)
        except InvalidInput as error:
            newer, _ = (None, True) if asked or isinstance(error, TooLarge) else await self._schema(grant, table, 0.0)
            if newer is None or newer == schema:
                raise
            rows = await self.work(check_rows, payload, data, newer, self.settings.limits)
        if rows:
            await self._submit(Entry(grant.token_id, payload, rows, data, table), token)
        return rows

    async def _schema(self, grant: Grant, table: str, age: float = _SCHEMA_AGE) -> tuple[Schema | None, bool]:
        """The schema of a table, known for at most `age` seconds, and whether the catalog was asked just now."""
        key, now = (grant.database_id, table), time.monotonic()
        known, since = self._schemas.find(key) or (None, 0.0)
        if known is not None and now - since < age:
            return known, False
        found = await asyncio.to_thread(self._registry.table_schema, *key)
        if found is not None:
            self._schemas.keep(key, (found, now))
        return found, True

    async def _submit(self, entry: Entry, token: str) -> None:
        try:
            await self.writer.submit(entry, token)
        except Unavailable:
            self.counts.unavailable += 1
            raise
        self.counts.accepted += 1
        self.counts.accepted_bytes += len(entry.data)
