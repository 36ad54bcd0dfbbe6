"""OTLP requests into Arrow tables with all columns, and protobuf's own classes filling Python lists with a few of them.

Alone, `python -m benchmarks.otlp_decode` also prints where the time goes.
"""

from __future__ import annotations

import cProfile
import dataclasses
import pstats
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import pyarrow as pa

from benchmarks.harness import Bench, Line
from benchmarks.otlp_corpus import Corpus
from moulin.ingest.otlp.otlp import REQUESTS, decode
from moulin.model.otel import SIGNALS, Signal

TITLE = "OTLP to Arrow / protobuf and lists"
TARGET = 1.0
INGESTED = 1_800_000_000_000_000_000
SIZE = 16_000_000  # of each signal; about what one object of a stream holds


def run(bench: Bench) -> Iterator[Line]:
    for signal in SIGNALS:
        bench.step(f"making {SIZE:,} bytes of {signal}")
        requests = make(signal, SIZE)
        size = sum(map(len, requests))
        ours = partial(decode, signal, requests, [INGESTED] * len(requests))
        peers = {"protobuf": partial(by_record, signal, requests)}
        line = bench.compare("otlp_decode", f"{signal}, {size / 1e6:.0f} MB", ours, peers, target=TARGET)
        assert line.ours is not None
        yield dataclasses.replace(line, reason=f"{size / 1e6 / line.ours.median:.0f} MB/s of one core")


def make(signal: Signal, size: int) -> list[bytes]:
    corpus, requests, total = Corpus(), [], 0
    while total < size:
        requests.append(getattr(corpus, signal)())
        total += len(requests[-1])
    return requests


def by_record(signal: Signal, requests: list[bytes]) -> pa.Table:
    """Time, resource and attributes only: a lower bound for any decoder that touches each record."""
    times: list[int] = []
    services: list[str] = []
    keys: list[str] = []
    texts: list[str] = []
    edges = [0]
    for data in requests:
        for group, record in _records(signal, REQUESTS[signal].FromString(data)):
            times.append(record.start_time_unix_nano if signal == "traces" else record.time_unix_nano)
            services.append(group)
            for pair in record.attributes:
                value = pair.value
                kind = value.WhichOneof("value")
                keys.append(pair.key)
                texts.append(value.string_value if kind == "string_value" else str(getattr(value, kind)))
            edges.append(len(keys))
    maps = pa.MapArray.from_arrays(pa.array(edges, pa.int32()), pa.array(keys), pa.array(texts))
    return pa.table({"time": pa.array(times), "service": pa.array(services), "attributes": maps})


def _records(signal: Signal, message: Any) -> Iterator[tuple[str, Any]]:
    if signal == "logs":
        for group in message.resource_logs:
            service = group.resource.attributes[0].value.string_value
            for scope in group.scope_logs:
                for record in scope.log_records:
                    yield service, record
    elif signal == "traces":
        for group in message.resource_spans:
            service = group.resource.attributes[0].value.string_value
            for scope in group.scope_spans:
                for record in scope.spans:
                    yield service, record
    else:
        for group in message.resource_metrics:
            service = group.resource.attributes[0].value.string_value
            for scope in group.scope_metrics:
                for metric in scope.metrics:
                    for point in getattr(metric, metric.WhichOneof("data")).data_points:
                        yield service, point


def main() -> int:
    """Where the time of decoding goes, by function."""
    for signal in SIGNALS:
        requests = make(signal, SIZE)
        decode(signal, requests, [INGESTED] * len(requests))
        profile = cProfile.Profile()
        profile.runcall(decode, signal, requests, [INGESTED] * len(requests))
        print(f"{signal}: {sum(map(len, requests)):,} bytes")
        pstats.Stats(profile).strip_dirs().sort_stats("tottime").print_stats(12)
    return 0


if __name__ == "__main__":
    sys.exit(main())
