"""The meta service over a table of a million segments, asked through gRPC on loopback; targets are for PostgreSQL."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc

from benchmarks import big_catalog
from benchmarks.harness import Bench, Contender, Line, Sample, Skipped, take_turns
from moulin import Lake
from moulin._proto.moulin.lake.v1 import catalog_pb2, catalog_pb2_grpc
from moulin._proto.moulin.meta.v1 import common_pb2, nursery_pb2, segment_lookup_pb2
from moulin._proto.moulin.meta.v1.nursery_pb2_grpc import NurseryServiceStub
from moulin._proto.moulin.meta.v1.segment_lookup_pb2_grpc import SegmentLookupServiceStub
from moulin.formats import manifest as codec
from moulin.meta.codec.meta.address import to_message_key
from moulin.meta.config import ServeConfig
from moulin.meta.server.server import MetaServer, build_server
from moulin.model.facts import LiveSegment
from moulin.model.ingest import Routing

TITLE = "meta service with many segments"
TARGET_RATIO, TARGET_SECONDS = 1.5, 0.020
_PLACE = 200  # days into the year
_HOUR = 3600 * 10**9
_READS = 2000
_CLIENTS = 8
_PAGE = 100


class _Served:
    """A lake behind a server of its own."""

    def __init__(self, lake: Lake) -> None:
        self.lake = lake
        self.server: MetaServer = build_server(lake, ServeConfig(bind="127.0.0.1:0", http_bind="")).start()
        self.channel = grpc.insecure_channel(self.server.address)
        self.state = lake.table(big_catalog.TABLE).state()
        self.database_id = lake.catalog.database("bench").id

    def close(self) -> None:
        self.channel.close()
        self.server.stop(1)


def run(bench: Bench) -> Iterator[Line]:
    for backend in ("postgresql", "sqlite"):
        size = f"{bench.segments:,} segments on {backend}"
        try:
            lakes = big_catalog.small_and_large(bench, backend)
        except Skipped as skipped:
            yield Line("meta_scale", size, reason=str(skipped))
            continue
        small, large = (_Served(lake) for lake in lakes)
        try:
            yield from _measure(bench, small, large, size, counts=backend == "postgresql")
        finally:
            small.close()
            large.close()


def _measure(bench: Bench, small: _Served, large: _Served, size: str, *, counts: bool) -> Iterator[Line]:
    bench.step(f"registrations, {size}")
    samples = take_turns(
        {"large": _register(large), "small": _register(small)}, bench.commits, warm_up=min(20, bench.commits)
    )
    case = f"RegisterMergedSegments, {size} / {min(big_catalog.SMALL, bench.segments):,}"
    ratio, seconds = (TARGET_RATIO, TARGET_SECONDS) if counts else (None, None)
    yield Line("meta_scale", case, samples["large"], samples["small"], "small table", ratio)
    stub = SegmentLookupServiceStub(large.channel)
    bench.step(f"searches, {size}")
    yield _timed(f"FindSegments, one hour of a year, first page, {size}", _find(large, stub), seconds)
    warm = segment_lookup_pb2.ListWarmCandidatesRequest(limit=_PAGE)
    yield _timed(f"ListWarmCandidates, {_PAGE} of {size}", lambda: stub.ListWarmCandidates(warm), seconds)
    bench.step(f"reads per second, {size}")
    yield _reads(large, size)


def _timed(case: str, call: Callable[[], object], target: float | None) -> Line:
    sample = take_turns({"ours": Contender(call)}, 50, warm_up=5)["ours"]
    return Line("meta_scale", case, sample, target=target)


def _find(served: _Served, stub: SegmentLookupServiceStub) -> Callable[[], object]:
    start = big_catalog.START + _PLACE * 24 * _HOUR
    request = segment_lookup_pb2.FindSegmentsRequest(
        time_range=common_pb2.TimeRange(start_time=start, end_time=start + _HOUR),
        table_names=[big_catalog.TABLE.split(".")[1]],
        database_id=str(served.database_id),
    )

    def find() -> object:
        answer = stub.FindSegments(request)
        if not answer.segments:
            raise AssertionError("The hour must have segments.")
        return answer

    return find


def _register(served: _Served) -> Contender:
    """One fresh segment with the offset of its stream, as a nursery registers it."""
    lake, state = served.lake, served.state
    stub = NurseryServiceStub(served.channel)
    routing = Routing(state.id, state.id, state.id)
    token = lake.catalog.ingest.create_token("bench", f"token {uuid.uuid4().hex}", routing)
    stream = lake.catalog.ingest.register_stream(token.plaintext, uuid.uuid4().hex).stream  # type: ignore[attr-defined]
    prepared: list[nursery_pb2.RegisterMergedSegmentsRequest] = []
    offset = -1

    def prepare() -> None:
        nonlocal offset
        start = big_catalog.START + big_catalog.YEAR - (900 + offset) * 10**9
        facts = big_catalog.segment(state, lake.catalog.reserve_segments(1), start, start + 30 * 10**9, 0)
        message = common_pb2.CreateSegment(
            table_id=str(state.id),
            cloud_object_key=to_message_key(lake.store, facts.path),
            data_file=codec.segment_to_ref(LiveSegment(facts, 0, 0, 0), codec.ADDED),
        )
        moved = nursery_pb2.StreamOffsetInfo(
            stream_id=str(stream.id),
            table_id=str(state.id),
            start_merged_offset=offset,
            new_merged_offset=offset + 1,
            ingest_time_nanos=(offset + 2) * 10**9,
        )
        offset += 1
        prepared[:] = [
            nursery_pb2.RegisterMergedSegmentsRequest(
                database_id=str(served.database_id),
                merges=[nursery_pb2.MergeRegistration(segment=message, stream_offsets=[moved])],
                register_request_id=uuid.uuid4().hex,
            )
        ]

    return Contender(lambda: stub.RegisterMergedSegments(prepared[0]), prepare)


def _reads(served: _Served, size: str) -> Line:
    """The same small read through gRPC and in this process, by several threads; a sample is the time of one read."""
    stub = catalog_pb2_grpc.CatalogServiceStub(served.channel)
    request = catalog_pb2.GetVersionRequest()
    through = _spread(lambda: stub.GetVersion(request))
    inside = _spread(served.lake.catalog.version)
    case = f"a read of {size}, {_CLIENTS} at once: {1 / through:,.0f}/s through gRPC, {1 / inside:,.0f}/s in-process"
    return Line("meta_scale", case, Sample((through,)), Sample((inside,)), "in-process")


def _spread(call: Callable[[], Any]) -> float:
    """Seconds per call, when several threads call."""
    import time

    gate = threading.Barrier(_CLIENTS)

    def work(_: int) -> tuple[float, float]:
        call()
        gate.wait()
        start = time.perf_counter()
        for _ in range(_READS // _CLIENTS):
            call()
        return start, time.perf_counter()

    with ThreadPoolExecutor(_CLIENTS) as pool:
        spans = list(pool.map(work, range(_CLIENTS)))
    return (max(end for _, end in spans) - min(start for start, _ in spans)) / _READS
