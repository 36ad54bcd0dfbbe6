"""kill -9 of the collector under load: each acknowledged request is in the streams exactly once, no attempt twice."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import grpc
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

import moulin
from moulin.formats.baby_segment import Kind
from moulin.ingest.otlp.otlp import decode
from moulin.ingest.setup import set_up
from tests.commands import Command
from tests.ingest.conftest import read_stream

EXPORT = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
ENVIRONMENT = {"MOULIN_STREAM_FLUSH_SECONDS": "0.02", "MOULIN_COLLECTOR_PATIENCE": "2"}


@contextmanager
def collector(arguments: list[str]) -> Iterator[tuple[Command, str]]:
    """`moulin collect` on free ports, killed when the block ends, and its gRPC address."""
    options = ["collect", "--json", "--grpc-port", "0", "--http-port", "0"]
    with Command(*arguments, *options, environment=ENVIRONMENT) as command:
        command.wait_until(lambda: command.said().endswith("}\n"))
        yield command, f"127.0.0.1:{json.loads(command.said())['grpc_port']}"


@dataclass
class Senders:
    """Threads that send requests, each attempt with a stamp of its own, and note which were acknowledged."""

    token: str = field(repr=False)
    count: int = 4
    target: str = ""
    ending: bool = False
    acknowledged: list[str] = field(default_factory=list)
    attempts: int = 0

    def start(self) -> list[threading.Thread]:
        threads = [threading.Thread(target=self._send, args=(number,)) for number in range(self.count)]
        for thread in threads:
            thread.start()
        return threads

    def _send(self, sender: int) -> None:
        number = 0
        while not self.ending:
            with grpc.insecure_channel(self.target) as channel:
                export = channel.unary_unary(EXPORT)
                while not self.ending:
                    number += 1
                    self.attempts += 1
                    stamp = f"{sender}-{number}"
                    try:
                        export(_request(stamp), metadata=[("authorization", f"Bearer {self.token}")], timeout=5)
                    except grpc.RpcError:
                        time.sleep(0.2)  # until the next collector is there
                        break
                    self.acknowledged.append(stamp)


def _request(stamp: str) -> bytes:
    made = ExportLogsServiceRequest()
    scope = made.resource_logs.add().scope_logs.add()
    scope.log_records.add(time_unix_nano=time.time_ns()).body.string_value = stamp
    return made.SerializeToString()  # type: ignore[no-any-return]


def check(lake: moulin.Lake, senders: Senders) -> None:
    streams = [stream.id for stream in lake.catalog.ingest.stream_list().streams]
    objects = [one for stream in streams for one in read_stream(lake.store, stream)]
    requests = [entry.data for one in objects for entry in one.entries]
    found = Counter(decode("logs", requests, [2 * 10**18] * len(requests)).rows["body"].to_pylist())
    assert [stamp for stamp in senders.acknowledged if found[stamp] != 1] == []
    assert max(found.values()) == 1
    assert sum(found.values()) <= senders.attempts


def kill_often(lake_arguments: list[str], token: str, kills: int) -> Senders:
    senders = Senders(token)
    threads: list[threading.Thread] = []
    moments = random.Random(5)
    try:
        for _ in range(kills):
            with collector(lake_arguments) as (process, senders.target):
                threads = threads or senders.start()
                before = len(senders.acknowledged)
                end = time.monotonic() + 20
                while len(senders.acknowledged) < before + 10 and time.monotonic() < end:
                    time.sleep(0.01)
                time.sleep(moments.uniform(0, 0.3))
                process.kill()
        with collector(lake_arguments) as (process, senders.target):
            before = len(senders.acknowledged)
            while len(senders.acknowledged) < before + 10:
                time.sleep(0.01)
            assert process.terminate() == 0  # drains: those that wait are answered
    finally:
        senders.ending = True
        for thread in threads:
            thread.join()
    return senders


@pytest.mark.crash
def test_killed_collectors_lose_nothing_on_sqlite_and_a_folder(tmp_path: Path) -> None:
    folder = tmp_path / "lake"
    with moulin.connect(folder) as lake:
        token = set_up(lake).token
        assert token is not None
        senders = kill_often(["--lake", str(folder)], token, 2)
        check(lake, senders)
        ended = [stream for stream in lake.catalog.ingest.stream_list().streams if stream.stopped_at is not None]
        assert len(ended) == 1, "the one that was told to end"
        last = read_stream(lake.store, ended[0].id)
        assert last[-1].header.kind is Kind.STOP
        assert ended[0].stopped_offset == len(last) - 2


@pytest.mark.crash
@pytest.mark.postgres
@pytest.mark.s3
@pytest.mark.long
def test_killed_collectors_lose_nothing_on_postgresql_and_s3(
    postgres_url: str, s3_url: str, s3_options: dict[str, str]
) -> None:
    with moulin.connect(postgres_url, storage=s3_url, storage_options=s3_options) as lake:
        token = set_up(lake).token
        assert token is not None
        options = [word for key, value in s3_options.items() for word in ("--storage-option", f"{key}={value}")]
        senders = kill_often(["--lake", postgres_url, "--storage", s3_url, *options], token, 10)
        check(lake, senders)
