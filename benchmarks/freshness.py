"""From the answer of the collector to a query that has the record, while others send five megabytes a second.

Collector, nursery (every two seconds) and senders share the cores with the query.
"""

from __future__ import annotations

import asyncio
import dataclasses
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

import moulin
from benchmarks import collector
from benchmarks.harness import Bench, Line, Sample
from benchmarks.otlp_corpus import Corpus
from moulin.ingest.setup import set_up

TITLE = "acknowledged to visible under load"
TARGET = 2.0
RATE = 5_000_000  # bytes of OTLP a second
PROBES = 15
_CORPUS = 40_000_000
_SENDERS = 64
_COMMITS, _QUERIES = 5, 20  # before anything is measured
_LOGS = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"


def run(bench: Bench) -> Iterator[Line]:
    bench.step(f"making {_CORPUS:,} bytes of OTLP")
    requests = list(Corpus().requests(_CORPUS))
    folder = bench.folder / "freshness"
    with moulin.connect(folder) as lake:
        token = set_up(lake, retention_days=36_500).token
        assert token is not None
        process, ports = collector._start(folder)
        nursery = _start_nursery(folder)
        load = _Load(requests, ports["grpc_port"], token)
        try:
            lake.sql("select count(*) from otel.logs").collect()
            load.start()
            bench.step("waiting for the load and the nursery to be steady")
            _settle(lake)
            seconds = []
            with grpc.insecure_channel(f"127.0.0.1:{ports['grpc_port']}") as channel:
                send = channel.unary_unary(_LOGS)
                for number in range(PROBES):
                    bench.step(f"probe {number + 1} of {PROBES}")
                    send(_probe(number), metadata=(("authorization", f"Bearer {token}"),))
                    began = time.perf_counter()
                    while not _visible(lake, number):
                        pass
                    seconds.append(time.perf_counter() - began)
                    time.sleep(1)
        finally:
            load.stop()
            for child in (nursery, process):
                child.terminate()
                child.wait(60)
    sample = Sample(tuple(seconds))
    line = Line("freshness", f"acknowledged to visible, {RATE / 1e6:.0f} MB/s steady", sample, target=TARGET)
    yield dataclasses.replace(line, reason=f"sent {load.rate / 1e6:.1f} MB/s; longest {max(seconds):.2f} s")


def _settle(lake: moulin.Lake) -> None:
    """Queries until the nursery has made a few commits and a query takes as long as those before."""
    logs = lake.table("otel.logs")
    while logs.stats().segments < _COMMITS:
        lake.sql("select count(*) from otel.logs").collect()
    for _ in range(_QUERIES):
        lake.sql("select count(*) from otel.logs").collect()


def _start_nursery(folder: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "moulin.cli.main", "--lake", str(folder), "nursery", "--interval", "2"]
    return subprocess.Popen(command, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONUNBUFFERED": "1"})


def _probe(number: int) -> bytes:
    request = ExportLogsServiceRequest()
    record = request.resource_logs.add().scope_logs.add().log_records.add()
    record.time_unix_nano, record.body.string_value = time.time_ns(), f"probe {number}"
    data: bytes = request.SerializeToString()
    return data


def _visible(lake: moulin.Lake, number: int) -> bool:
    row = lake.sql(f"select count(*) n from otel.logs where body = 'probe {number}'").first()
    assert row is not None
    if row["n"] > 1:
        raise AssertionError(f"Probe {number} is there {row['n']} times.")
    return bool(row["n"])


class _Load(threading.Thread):
    """Senders that keep to the rate, each waiting for its answers."""

    def __init__(self, requests: list[tuple[str, bytes]], port: int, token: str) -> None:
        super().__init__(daemon=True)
        self._requests, self._port, self._header = requests, port, f"Bearer {token}"
        self._ending = threading.Event()
        self._sent, self._began, self._ended = 0, 0.0, 0.0

    @property
    def rate(self) -> float:
        return self._sent / (self._ended - self._began)

    def run(self) -> None:
        asyncio.run(self._run())

    def stop(self) -> None:
        self._ending.set()
        if self.is_alive():
            self.join(60)

    async def _run(self) -> None:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{self._port}") as channel:
            calls = {
                signal: channel.unary_unary(f"/opentelemetry.proto.collector.{service}/Export")
                for signal, service in collector._SERVICES.items()
            }
            self._began = time.perf_counter()
            self._due = self._began
            await asyncio.gather(*(self._send(calls, number) for number in range(_SENDERS)))
            self._ended = time.perf_counter()

    async def _send(self, calls: dict[str, grpc.aio.UnaryUnaryMultiCallable], number: int) -> None:
        place = number
        while not self._ending.is_set():
            signal, data = self._requests[place % len(self._requests)]
            place += _SENDERS
            self._due += len(data) / RATE
            await asyncio.sleep(max(0.0, self._due - time.perf_counter()))
            await calls[signal](data, metadata=(("authorization", self._header),))
            self._sent += len(data)
