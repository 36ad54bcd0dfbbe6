"""OTLP/gRPC and OTLP/HTTP requests from many senders until the store has confirmed them, to a collector of its own."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import grpc

import moulin
from benchmarks.harness import Bench, Line, Sample
from benchmarks.otlp_corpus import Corpus
from moulin.ingest.setup import set_up

TITLE = "OTLP to acknowledged"
RATE = 30e6  # bytes of OTLP protobuf a second
SIZE = 120_000_000
SENDERS = 160
_SERVICES = {"logs": "logs.v1.LogsService", "traces": "trace.v1.TraceService", "metrics": "metrics.v1.MetricsService"}

Send = Callable[[str, bytes], Awaitable[object]]


def run(bench: Bench) -> Iterator[Line]:
    bench.step(f"making {SIZE:,} bytes of OTLP")
    requests = list(Corpus().requests(SIZE))
    size = sum(len(data) for _, data in requests)
    with moulin.connect(bench.folder / "collector") as lake:
        token = set_up(lake).token
    assert token is not None
    for kind in ("gRPC", "HTTP"):
        process, ports = _start(bench.folder / "collector")
        try:
            seconds = []
            for turn in range(bench.runs):
                bench.step(f"OTLP/{kind}: turn {turn + 1} of {bench.runs}")
                seconds.append(asyncio.run(_measure(kind, ports, token, requests)))
        finally:
            process.terminate()
            process.wait(60)
        sample = Sample(tuple(seconds))
        line = Line("collector", f"OTLP/{kind}, {size / 1e6:.0f} MB, {SENDERS} senders", sample, target=size / RATE)
        rate = size / 1e6 / sample.median
        yield dataclasses.replace(line, reason=f"{rate:.0f} MB/s, senders on the same cores")


def _start(folder: Path) -> tuple[subprocess.Popen[str], dict[str, int]]:
    command = [sys.executable, "-m", "moulin.cli.main", "--lake", str(folder), "collect", "--json"]
    process = subprocess.Popen(
        [*command, "--grpc-port", "0", "--http-port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    said = ""
    while not said.endswith("}\n"):
        said += process.stdout.readline()
    return process, json.loads(said)


async def _measure(kind: str, ports: dict[str, int], token: str, requests: list[tuple[str, bytes]]) -> float:
    """Seconds until all requests are acknowledged."""
    header = f"Bearer {token}"
    waiting = iter(requests)
    if kind == "gRPC":
        async with grpc.aio.insecure_channel(f"127.0.0.1:{ports['grpc_port']}") as channel:
            calls = {
                signal: channel.unary_unary(f"/opentelemetry.proto.collector.{service}/Export")
                for signal, service in _SERVICES.items()
            }

            async def call(signal: str, data: bytes) -> None:
                await calls[signal](data, metadata=(("authorization", header),))

            async def share() -> Send:
                return call

            return await _send_all(share, waiting)
    lines = f"HTTP/1.1\r\nhost: x\r\nauthorization: {header}\r\ncontent-type: application/x-protobuf\r\n"

    async def connect() -> Send:
        # Not a client library: it would be what is measured.
        reader, writer = await asyncio.open_connection("127.0.0.1", ports["http_port"])

        async def post(signal: str, data: bytes) -> None:
            writer.write(f"POST /v1/{signal} {lines}content-length: {len(data)}\r\n\r\n".encode() + data)
            await writer.drain()
            if b" 200 " not in await reader.readuntil(b"\r\n\r\n"):
                raise RuntimeError("The collector refused a request.")

        return post

    return await _send_all(connect, waiting)


async def _send_all(connect: Callable[[], Awaitable[Send]], waiting: Iterator[tuple[str, bytes]]) -> float:
    async def sender(send: Send) -> None:
        for signal, data in waiting:
            await send(signal, data)

    sends = [await connect() for _ in range(SENDERS)]
    start = time.perf_counter()
    await asyncio.gather(*(sender(send) for send in sends))
    return time.perf_counter() - start
