"""The writer of a stream: stored exactly once or told to retry, whatever the store and others do."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from typing import Any
from uuid import UUID

import pytest

from moulin.errors import Unauthenticated, Unavailable
from moulin.formats.baby_segment import Entry, Kind, Payload, encode_stop
from moulin.ingest.collector import stream
from moulin.ingest.collector.stream import StreamSettings, StreamWriter
from moulin.model.ingest import StopReason
from moulin.storage import paths
from tests.ingest.conftest import OTHER_TOKEN, TOKEN, FaultyStore, MemoryRegistry, read_stream

QUICK = StreamSettings(keep_alive=30, patience=0.3)


def entry(registry: MemoryRegistry, data: bytes, token: str = TOKEN) -> Entry:
    return Entry(registry.grants[token].token_id, Payload.LOGS, 1, data)


def run(
    store: FaultyStore,
    registry: MemoryRegistry,
    work: Callable[[StreamWriter], Awaitable[Any]],
    settings: StreamSettings = QUICK,
) -> Any:
    """Runs `work` with a writer, then closes it."""

    async def all_of_it() -> Any:
        writer = StreamWriter(store, registry, settings)  # type: ignore[arg-type]
        task = asyncio.create_task(writer.run())
        try:
            return await asyncio.wait_for(work(writer), 20)
        finally:
            writer.close()
            await asyncio.wait_for(task, 20)

    return asyncio.run(all_of_it())


def stored(store: FaultyStore, registry: MemoryRegistry) -> list[bytes]:
    """Everything in all streams, in order."""
    return [e.data for s in registry.streams for one in read_stream(store, s) for e in one.entries]


def test_what_is_answered_is_stored_and_the_stream_ends_with_a_stop(
    store: FaultyStore, registry: MemoryRegistry
) -> None:
    async def work(writer: StreamWriter) -> None:
        await asyncio.gather(*(writer.submit(entry(registry, b"%d" % i), TOKEN) for i in range(50)))
        assert len(stored(store, registry)) == 50
        await writer.submit(entry(registry, b"x", OTHER_TOKEN), OTHER_TOKEN)

    run(store, registry, work)
    (stream,) = registry.streams
    objects = read_stream(store, stream)
    assert objects[-1].header.kind is Kind.STOP
    assert objects[-1].header.reason is StopReason.CLIENT
    assert registry.stopped[stream] == (len(objects) - 2, StopReason.CLIENT)
    assert sorted(stored(store, registry)) == sorted([b"x", *(b"%d" % i for i in range(50))])
    assert len(objects) < 10, "requests that wait together share an object"


def test_serial_requests_are_stored_as_they_come(store: FaultyStore, registry: MemoryRegistry) -> None:
    """Nothing is on its way when one arrives, so nothing is waited for."""
    registry.flush_seconds = 3600
    waits: list[float | None] = []

    async def work(writer: StreamWriter) -> None:
        wait = writer._wait

        async def counted(seconds: float | None) -> bool:
            waits.append(seconds)
            return await wait(seconds)

        writer._wait = counted  # type: ignore[method-assign]
        for number in range(50):
            await writer.submit(entry(registry, b"%d" % number), TOKEN)
        assert writer.counts.objects == 50

    run(store, registry, work, StreamSettings(keep_alive=30, patience=0.3))
    assert set(waits) <= {None, 30}, "for a request, and for nothing else"


def test_in_the_long_run_requests_wait_for_others(
    store: FaultyStore, registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "BURST", 3)
    registry.flush_seconds = 3600

    async def work(writer: StreamWriter) -> None:
        for number in range(5):  # one in a stream that is not there yet, one that is due, and three ahead
            await writer.submit(entry(registry, b"%d" % number), TOKEN)
        waiting = [asyncio.create_task(writer.submit(entry(registry, b"%d" % n), TOKEN)) for n in range(9)]
        await asyncio.sleep(0.05)
        assert not any(one.done() for one in waiting)
        assert writer.counts.objects == 5
        writer.close()
        await asyncio.gather(*waiting)
        assert writer.counts.objects == 6

    run(store, registry, work)


def test_requests_that_come_while_an_object_is_on_its_way_share_the_next(
    store: FaultyStore, registry: MemoryRegistry
) -> None:
    registry.flush_seconds = 0
    gate = threading.Event()

    def wait(path: str) -> None:
        gate.wait(20)

    async def work(writer: StreamWriter) -> None:
        await writer.submit(entry(registry, b"a"), TOKEN)
        store.fault = wait
        waiting = [asyncio.create_task(writer.submit(entry(registry, b"%d" % n), TOKEN)) for n in range(100)]
        await asyncio.sleep(0.1)
        waiting += [asyncio.create_task(writer.submit(entry(registry, b"%d" % n), TOKEN)) for n in range(100, 200)]
        await asyncio.sleep(0.1)
        gate.set()
        await asyncio.gather(*waiting)
        assert writer.counts.objects == 3

    run(store, registry, work, StreamSettings(patience=30))


def test_an_object_is_written_when_it_is_full(store: FaultyStore, registry: MemoryRegistry) -> None:
    registry.flush_seconds, registry.segment_bytes = 60, 1000

    async def work(writer: StreamWriter) -> None:
        await writer.submit(entry(registry, b"first"), TOKEN)
        await asyncio.gather(*(writer.submit(entry(registry, bytes(500)), TOKEN) for _ in range(4)))

    run(store, registry, work)
    assert [len(one.entries) for one in read_stream(store, registry.streams[0])] == [1, 2, 2, 0]


def test_an_unknown_outcome_is_resolved_and_not_repeated(store: FaultyStore, registry: MemoryRegistry) -> None:
    faults = iter(["after", None, "before", None, "after", None])
    store.fault = lambda path: next(faults, None)

    async def work(writer: StreamWriter) -> None:
        for i in range(5):
            await writer.submit(entry(registry, b"%d" % i), TOKEN)
        assert writer.counts.unknown_outcomes == 2

    run(store, registry, work)
    assert stored(store, registry) == [b"0", b"1", b"2", b"3", b"4"]
    assert len(registry.streams) == 1


def test_a_fenced_writer_sends_again_to_a_new_stream(store: FaultyStore, registry: MemoryRegistry) -> None:
    async def work(writer: StreamWriter) -> None:
        await writer.submit(entry(registry, b"a"), TOKEN)
        _end(store, registry.streams[0], 1)
        await asyncio.gather(writer.submit(entry(registry, b"b"), TOKEN), writer.submit(entry(registry, b"c"), TOKEN))

    run(store, registry, work)
    assert len(registry.streams) == 2
    assert stored(store, registry) == [b"a", b"b", b"c"]


def test_a_writer_fenced_while_the_outcome_was_unknown_sends_again(
    store: FaultyStore, registry: MemoryRegistry
) -> None:
    """The put failed before it reached the store, and meanwhile someone ended the stream at that number."""

    def fault(path: str) -> str | None:
        if path == paths.baby_segment(registry.streams[0], 1):
            store.fault = lambda path: None
            _end(store, registry.streams[0], 1)
            return "before"
        return None

    async def work(writer: StreamWriter) -> None:
        await writer.submit(entry(registry, b"a"), TOKEN)
        store.fault = fault
        await writer.submit(entry(registry, b"b"), TOKEN)

    run(store, registry, work)
    assert stored(store, registry) == [b"a", b"b"]


def test_a_store_that_is_away_is_an_error_and_nothing_is_doubled(store: FaultyStore, registry: MemoryRegistry) -> None:
    async def work(writer: StreamWriter) -> None:
        await writer.submit(entry(registry, b"a"), TOKEN)
        store.fault = lambda path: "before"
        with pytest.raises(Unavailable):
            await writer.submit(entry(registry, b"lost or not"), TOKEN)
        with pytest.raises(Unavailable):
            await writer.submit(entry(registry, b"refused at once"), TOKEN)
        store.fault = lambda path: None
        while True:
            try:
                await writer.submit(entry(registry, b"b"), TOKEN)
                break
            except Unavailable:
                await asyncio.sleep(0.05)

    run(store, registry, work)
    assert stored(store, registry) == [b"a", b"lost or not", b"b"]
    assert len(registry.streams) == 1


def test_a_writer_whose_stream_was_cleared_away_during_a_sleep_begins_a_new_one(
    store: FaultyStore, registry: MemoryRegistry
) -> None:
    """The stop object is gone, so the put succeeds where nobody will ever read; the catalog knows better."""

    async def work(writer: StreamWriter) -> None:
        await writer.submit(entry(registry, b"a"), TOKEN)
        first = registry.streams[0]
        registry.stopped[first] = (0, StopReason.TIMEOUT)
        await writer.submit(entry(registry, b"b"), TOKEN)
        assert len(registry.streams) == 2
        registry.gone.add(registry.streams[1])
        with pytest.raises(Unavailable):
            await writer.submit(entry(registry, b"c"), TOKEN)
        await writer.submit(entry(registry, b"d"), TOKEN)
        assert len(registry.streams) == 3

    run(store, registry, work, StreamSettings(patience=0.3, stale_after=0))


def test_a_quiet_stream_says_that_it_lives(store: FaultyStore, registry: MemoryRegistry) -> None:
    async def work(writer: StreamWriter) -> None:
        await writer.submit(entry(registry, b"a"), TOKEN)
        while len(read_stream(store, registry.streams[0])) < 4:
            await asyncio.sleep(0.01)

    run(store, registry, work, StreamSettings(keep_alive=0.02))
    kinds = [one.header.kind for one in read_stream(store, registry.streams[0])]
    assert kinds[:3] == [Kind.DATA, Kind.KEEP_ALIVE, Kind.KEEP_ALIVE]
    assert kinds[-1] is Kind.STOP


def test_no_stream_without_a_catalog_or_a_good_token(store: FaultyStore, registry: MemoryRegistry) -> None:
    async def work(writer: StreamWriter) -> None:
        registry.down = True
        with pytest.raises(Unavailable):
            await writer.submit(entry(registry, b"a"), TOKEN)
        registry.down = False
        with pytest.raises(Unauthenticated):
            await writer.submit(entry(registry, b"a"), "ing_wrong")
        await writer.submit(entry(registry, b"b"), TOKEN)

    run(store, registry, work)
    assert stored(store, registry) == [b"b"]


def test_closing_stores_what_waits(store: FaultyStore, registry: MemoryRegistry) -> None:
    registry.flush_seconds = 60

    async def work(writer: StreamWriter) -> None:
        await writer.submit(entry(registry, b"a"), TOKEN)
        waiting = asyncio.create_task(writer.submit(entry(registry, b"b"), TOKEN))
        await asyncio.sleep(0.01)
        writer.close()
        await waiting
        with pytest.raises(Unavailable):
            await writer.submit(entry(registry, b"c"), TOKEN)

    run(store, registry, work)
    assert stored(store, registry) == [b"a", b"b"]


def test_closing_without_a_store_ends(store: FaultyStore, registry: MemoryRegistry) -> None:
    async def work(writer: StreamWriter) -> None:
        await writer.submit(entry(registry, b"a"), TOKEN)
        store.fault = lambda path: "before"

    run(store, registry, work)
    assert [one.header.kind for one in read_stream(store, registry.streams[0])] == [Kind.DATA]


def _end(store: FaultyStore, stream: UUID, offset: int) -> None:
    stop = encode_stop(stream, bytes(16), offset, 1, StopReason.TIMEOUT)
    store._inner.put_if_absent(paths.baby_segment(stream, offset), stop)
