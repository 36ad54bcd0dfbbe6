"""What tests of ingest share: a registry in memory, and a store that fails when told to."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import UUID, uuid4

import pytest

from moulin.errors import MoulinError, NotFound, Unauthenticated, Unavailable
from moulin.formats.baby_segment import PAYLOAD_OF, BabySegment, Entry, Kind, decode
from moulin.ingest.collector.collector import Collector, CollectorSettings
from moulin.ingest.collector.registry import Grant, OpenStream
from moulin.ingest.collector.service import Listen, serve
from moulin.ingest.collector.stream import StreamSettings
from moulin.ingest.otlp.otlp import decode as decode_otlp
from moulin.model.ingest import StopReason
from moulin.model.otel import Signal
from moulin.model.schema.schema import make_schema
from moulin.model.schema.values import Schema
from moulin.storage import paths
from moulin.storage.store import Store, open_store

TOKEN = "ing_0011223344556677_" + "s" * 43
OTHER_TOKEN = "ing_8899aabbccddeeff_" + "t" * 43


@dataclass
class MemoryRegistry:
    """A registry as a collector sees it, without a catalog."""

    flush_seconds: float = 0.02
    segment_bytes: int = 1 << 20
    grants: dict[str, Grant] = field(default_factory=dict)
    streams: list[UUID] = field(default_factory=list)
    stopped: dict[UUID, tuple[int, StopReason]] = field(default_factory=dict)
    gone: set[UUID] = field(default_factory=set)
    down: bool = False
    validations: int = 0
    tables: dict[str, Schema] = field(default_factory=lambda: {"orders": make_schema([("id", "long")])})
    schemas_asked: int = 0

    def __post_init__(self) -> None:
        self.grants = {token: Grant(uuid4(), uuid4(), "shop") for token in (TOKEN, OTHER_TOKEN)}

    def validate(self, plaintext: str) -> Grant:
        self._require_up()
        self.validations += 1
        if plaintext not in self.grants:
            raise Unauthenticated("The ingest token is not valid.")
        return self.grants[plaintext]

    def register(self, plaintext: str, collector_id: str, description: str) -> OpenStream:
        self.validate(plaintext)
        stream = uuid4()
        self.streams.append(stream)
        return OpenStream(stream, self.flush_seconds, self.segment_bytes)

    def stopped_offset(self, stream_id: UUID) -> int | None:
        self._require_up()
        if stream_id in self.gone:
            raise NotFound("There is no such stream.")
        return self.stopped[stream_id][0] if stream_id in self.stopped else None

    def stop(self, stream_id: UUID, final_offset: int, reason: StopReason) -> None:
        self._require_up()
        self.stopped[stream_id] = final_offset, reason

    def table_schema(self, database_id: UUID, name: str) -> Schema | None:
        self.schemas_asked += 1
        return self.tables.get(name)

    def _require_up(self) -> None:
        if self.down:
            raise Unavailable("The catalog does not answer.")


class FaultyStore:
    """A store whose put_if_absent asks `fault` first. It returns 'before' or 'after' to fail at that moment, or None.

    'after' is the outcome that a caller cannot know: stored, and reported as not.
    """

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.fault: Callable[[str], str | None] = lambda path: None
        self.ignores_absence = False
        self.lock = threading.Lock()

    def put_if_absent(self, path: str, data: bytes) -> None:
        fault = self.fault(path)
        if fault == "before":
            raise Unavailable("The store does not answer.")
        if self.ignores_absence:
            self._inner.put(path, data)
        else:
            self._inner.put_if_absent(path, data)
        if fault == "after":
            raise Unavailable("The store does not answer.")

    def check_put_if_absent(self) -> None:
        Store.check_put_if_absent(self)  # type: ignore[arg-type]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def read_stream(store: Any, stream_id: UUID) -> list[BabySegment]:
    """The objects of a stream up to its stop object or its first gap, and proof that nothing lies past that."""
    found: list[BabySegment] = []
    names = sorted(
        info.path for info in store.list(paths.stream_prefix(stream_id)) if not paths.is_temporary(info.path)
    )
    for offset, name in enumerate(names):
        assert name == paths.baby_segment(stream_id, offset), "a gap"
        found.append(decode(store.get(name), source=name, stream_id=stream_id, offset=offset))
    assert all(one.header.kind is not Kind.STOP for one in found[:-1]), "something lies past a stop object"
    return found


@pytest.fixture
def registry() -> MemoryRegistry:
    return MemoryRegistry()


@pytest.fixture
def store(tmp_path: Path) -> FaultyStore:
    return FaultyStore(open_store(tmp_path / "lake"))


@dataclass
class Running:
    """A collector on ports of its own, in a thread."""

    collector: Collector
    store: FaultyStore
    registry: MemoryRegistry
    grpc_port: int
    http_port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.http_port}"

    @property
    def target(self) -> str:
        return f"127.0.0.1:{self.grpc_port}"

    def entries(self) -> list[Entry]:
        """All that is stored, in order."""
        objects = [one for stream in self.registry.streams for one in read_stream(self.store, stream)]
        return [entry for one in objects for entry in one.entries]

    def rows(self, signal: Signal) -> list[dict[str, Any]]:
        """The rows of a signal that the stored requests hold."""
        requests = [entry.data for entry in self.entries() if entry.payload is PAYLOAD_OF[signal]]
        decoded = decode_otlp(signal, requests, [2 * 10**18] * len(requests))
        assert not decoded.poison
        return decoded.rows.to_pylist()  # type: ignore[no-any-return]


@contextmanager
def running(
    store: FaultyStore, registry: MemoryRegistry, settings: CollectorSettings | None = None, **listen: Any
) -> Iterator[Running]:
    """A collector that serves until the block ends."""
    settings = settings or CollectorSettings(stream=StreamSettings(patience=0.5))
    found: queue.Queue[Any] = queue.Queue()

    def live() -> None:
        async def life() -> None:
            collector = Collector(store, registry, settings)  # type: ignore[arg-type]
            stop = asyncio.Event()
            place = Listen(grpc_port=0, http_port=0, drain_seconds=5, **listen)

            def ready(grpc_port: int, http_port: int) -> None:
                started = Running(collector, store, registry, grpc_port, http_port)
                found.put((started, asyncio.get_running_loop(), stop))

            await serve(collector, place, ready=ready, stop=stop)

        try:
            asyncio.run(life())
        except MoulinError as error:
            found.put(error)

    thread = threading.Thread(target=live)
    thread.start()
    try:
        answer = found.get(timeout=30)
        if isinstance(answer, MoulinError):
            raise answer
        started, loop, stop = answer
        try:
            yield started
        finally:
            loop.call_soon_threadsafe(stop.set)
    finally:
        thread.join(30)


@pytest.fixture
def collector(store: FaultyStore, registry: MemoryRegistry) -> Iterator[Running]:
    with running(store, registry) as started:
        yield started
