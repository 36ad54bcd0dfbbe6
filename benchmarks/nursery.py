"""OTLP requests in a stream, until a version has them: read, decoded, routed, sorted, written, committed.

On one core in-process, and on Spark with all cores; and how long after it is stored a record is in `lake.sql`. Alone,
`python -m benchmarks.nursery` prints where the time of one core goes.
"""

from __future__ import annotations

import cProfile
import dataclasses
import pstats
import statistics
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa

import moulin
from benchmarks.harness import Bench, Line, Sample
from benchmarks.otlp_corpus import Corpus
from moulin import Lake
from moulin.formats.baby_segment import PAYLOAD_OF, Entry, encode_data
from moulin.ingest.setup import set_up
from moulin.pipeline.nursery import nursery as nurseries
from moulin.pipeline.nursery.nursery import Nursery
from moulin.storage import paths

TITLE = "OTLP to committed segments"
RATE = 10e6  # bytes of OTLP protobuf a second and core
SIZE = 64_000_000
OBJECT = 16_000_000
LONG = 1_000_000_000
_CORES = 2
_NONCE = bytes(16)


def run(bench: Bench) -> Iterator[Line]:
    bench.step(f"making {SIZE:,} bytes of OTLP")
    objects = make(SIZE)
    size = sum(len(data) for some in objects for _, data in some)
    for where, cores in (("one core", 1), (f"Spark, {_CORES} tasks", _CORES)):
        seconds, stored = [], 0
        for turn in range(bench.runs):
            bench.step(f"{where}: turn {turn + 1} of {bench.runs}")
            with moulin.connect(bench.folder / f"nursery-{cores}-{turn}", nursery_batch_bytes=1 << 30) as lake:
                fill(lake, objects)
                if cores > 1:
                    lake.spark()
                seconds.append(_drain(lake, cores))
                stored = sum(lake.table(f"otel.{name}").stats().bytes for name in ("logs", "traces", "metrics"))
        line = Line("nursery", f"{where}, {size / 1e6:.0f} MB", Sample(tuple(seconds)), target=size / RATE / cores)
        rate = size / 1e6 / Sample(tuple(seconds)).median / cores
        reason = f"{rate:.1f} MB/s and core, level 0 has {stored / size:.3f} of the bytes"
        yield dataclasses.replace(line, reason=reason)
    yield _long(bench, objects, size)
    yield _freshness(bench)


def _long(bench: Bench, objects: list[list[tuple[str, bytes]]], size: int) -> Line:
    """A gigabyte, once, in batches as a nursery takes them by itself."""
    times = -(-LONG // size)
    bench.step(f"storing {times * size:,} bytes of OTLP")
    with moulin.connect(bench.folder / "nursery-long") as lake:
        fill(lake, objects * times)
        lake.spark()
        bench.step("taking it in")
        version = lake.version
        seconds = _drain(lake, _CORES)
        commits = lake.version - version
    line = Line(
        "nursery", f"Spark, {times * size / 1e6:,.0f} MB", Sample((seconds,)), target=times * size / RATE / _CORES
    )
    reason = f"{times * size / 1e6 / seconds / _CORES:.1f} MB/s and core, {commits} versions"
    return dataclasses.replace(line, reason=reason)


def make(size: int, object_size: int = OBJECT) -> list[list[tuple[str, bytes]]]:
    """Requests, as many as an object of a stream holds in each list."""
    objects: list[list[tuple[str, bytes]]] = [[]]
    held = 0
    for signal, request in Corpus().requests(size):
        if held >= object_size:
            objects.append([])
            held = 0
        objects[-1].append((signal, request))
        held += len(request)
    return objects


def fill(lake: Lake, objects: list[list[tuple[str, bytes]]]) -> None:
    token = set_up(lake, retention_days=36_500).token
    assert token is not None
    made = lake.own_catalog().ingest.register_stream(token, "benchmark")
    for offset, some in enumerate(objects):
        entries = [Entry(made.token.id, PAYLOAD_OF[signal], 512, data) for signal, data in some]  # type: ignore[index]
        data = encode_data(made.stream.id, _NONCE, offset, time.time_ns(), entries)
        lake.store.put_if_absent(paths.baby_segment(made.stream.id, offset), data)


def _drain(lake: Lake, cores: int) -> float:
    threads = pa.cpu_count()
    shares = nurseries._shares
    if cores == 1:
        pa.set_cpu_count(1)
        nurseries._shares = lambda baby_segments, count: shares(baby_segments, 1)
    try:
        began = time.perf_counter()
        Nursery(lake, spark=cores > 1).drain()
        return time.perf_counter() - began
    finally:
        nurseries._shares = shares
        pa.set_cpu_count(threads)


def _freshness(bench: Bench) -> Line:
    """From the moment when a record is stored to the end of a query that has it, with no nursery running."""
    seconds = []
    with moulin.connect(bench.folder / "nursery-fresh") as lake:
        corpus = Corpus()
        fill(lake, [[("logs", corpus.logs())]])
        stream = lake.own_catalog().ingest.snapshot().streams[0]
        token_id = lake.own_catalog().ingest.tokens("otel")[0].id
        count = lake.sql("select count(*) n from otel.logs").first()
        assert count is not None
        for offset in range(1, 1 + max(5, bench.runs)):
            entry = Entry(token_id, PAYLOAD_OF["logs"], 512, corpus.logs())
            lake.store.put_if_absent(
                paths.baby_segment(stream.id, offset), encode_data(stream.id, _NONCE, offset, time.time_ns(), [entry])
            )
            began = time.perf_counter()
            row = lake.sql("select count(*) n from otel.logs").first()
            assert row is not None
            assert row["n"] == 512 * (offset + 1)
            seconds.append(time.perf_counter() - began)
    line = Line("nursery", "stored to visible in lake.sql", Sample(tuple(seconds)), target=2.0)
    return dataclasses.replace(line, reason=f"median {statistics.median(seconds):.2f} s, fresh lane")


def main(folder: str) -> None:
    objects = make(SIZE)
    size = sum(len(data) for some in objects for _, data in some)
    with moulin.connect(Path(folder), nursery_batch_bytes=1 << 30) as lake:
        fill(lake, objects)
        profile = cProfile.Profile()
        began = time.process_time()
        profile.enable()
        seconds = _drain(lake, 1)
        profile.disable()
        pstats.Stats(profile, stream=sys.stdout).sort_stats("tottime").print_stats(25)
        stored = sum(lake.table(f"otel.{name}").stats().bytes for name in ("logs", "traces", "metrics"))
        cpu = time.process_time() - began
    print(f"{size / 1e6 / seconds:.1f} MB/s, {size / 1e6 / cpu:.1f} MB per CPU second; stored {stored / size:.3f}")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        main(f"{scratch}/lake")
