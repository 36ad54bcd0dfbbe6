"""kill -9 of collector and nursery under load: what was acknowledged is in the table exactly once."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.ingest.setup import set_up
from moulin.pipeline.nursery.nursery import Nursery
from tests.ingest.collector.test_collector_crash import ENVIRONMENT, Senders, collector
from tests.pipeline.nursery.test_nursery import bodies

_PATIENCE = 180.0


def _wait(what: str, is_so: Callable[[], bool]) -> None:
    end = time.monotonic() + _PATIENCE
    while not is_so():
        assert time.monotonic() < end, what
        time.sleep(0.02)


@contextmanager
def nursery(arguments: list[str], *, spark: bool = False) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "moulin.cli.main", *arguments, "nursery", "--interval", "0.02"]
    environment = {**os.environ, "MOULIN_NURSERY_LOCAL_BYTES": "1"} if spark else dict(os.environ)
    command += [] if spark else ["--no-spark"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, env=environment) as process:
        try:
            yield process
        finally:
            process.kill()


def kill_nurseries(lake: moulin.Lake, arguments: list[str], token: str, kills: int, *, spark: bool = False) -> None:
    senders, moments = Senders(token), random.Random(11)
    threads: list[Any] = []
    with collector(arguments) as (_, senders.target):
        threads = senders.start()
        try:
            for _ in range(kills):
                with nursery(arguments, spark=spark) as process, nullcontext() if spark else nursery(arguments):
                    before = lake.version
                    _wait("no batch was committed", lambda before=before: lake.version > before + 2)  # type: ignore[misc]
                    time.sleep(moments.uniform(0, 0.3))
                    os.kill(process.pid, signal.SIGKILL)
                    process.wait()
        finally:
            senders.ending = True
            for thread in threads:
                thread.join()
    Nursery(lake, spark=False).drain()
    found = bodies(lake)
    assert [stamp for stamp in senders.acknowledged if found[stamp] != 1] == []
    assert max(found.values()) == 1
    assert len(senders.acknowledged) > 10


@pytest.mark.long
@pytest.mark.crash
def test_killed_nurseries_take_every_record_once_on_sqlite(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        token = set_up(lake).token
        assert token is not None
        kill_nurseries(lake, ["--lake", str(tmp_path / "lake")], token, 2)


@pytest.mark.crash
@pytest.mark.postgres
@pytest.mark.long
def test_killed_nurseries_take_every_record_once_on_postgresql(tmp_path: Path, postgres_url: str) -> None:
    with moulin.connect(postgres_url, storage=str(tmp_path / "files")) as lake:
        token = set_up(lake).token
        assert token is not None
        kill_nurseries(lake, ["--lake", postgres_url, "--storage", str(tmp_path / "files")], token, 2)


@pytest.mark.crash
@pytest.mark.spark
@pytest.mark.long
def test_killed_nurseries_on_spark_take_every_record_once(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        token = set_up(lake).token
        assert token is not None
        kill_nurseries(lake, ["--lake", str(tmp_path / "lake")], token, 3, spark=True)


@pytest.mark.crash
def test_up_outlives_its_children(tmp_path: Path) -> None:
    """The whole tree, fed by the OpenTelemetry SDK; nursery and collector are killed under it."""
    from opentelemetry._logs import SeverityNumber
    from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
    from opentelemetry.sdk.resources import Resource

    folder = tmp_path / "lake"
    with moulin.connect(folder) as lake:
        token = set_up(lake).token
        assert token is not None
        command = [sys.executable, "-m", "moulin.cli.main", "--lake", str(folder), "up", "--json"]
        command += ["--grpc-port", "0", "--http-port", "0", "--serve-bind", "127.0.0.1:0", "--serve-http-bind", ""]
        command += ["--logs", str(tmp_path / "logs"), "--interval", "0.2"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, **ENVIRONMENT}) as process:
            try:
                assert process.stdout is not None
                said = _document(process.stdout)
                provider = LoggerProvider(Resource({"service.name": "till"}))
                exporter = OTLPLogExporter(
                    f"http://127.0.0.1:{said['grpc_port']}", headers=(("authorization", f"Bearer {token}"),), timeout=40
                )
                provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
                logger = provider.get_logger("tests")

                def send(body: str) -> None:
                    logger.emit(body=body, severity_number=SeverityNumber.INFO, timestamp=time.time_ns())

                def listens() -> bool:
                    """Else the exporter waits longer and longer before it tries again."""
                    with socket.socket() as probe:
                        return probe.connect_ex(("127.0.0.1", said["grpc_port"])) == 0

                _wait("there is no collector", listens)
                send("first")
                _wait("nothing came through", lambda: bodies(lake)["first"] == 1)
                for name in ("nursery", "collect"):
                    os.kill(said["children"][name], signal.SIGKILL)
                    again = _document(process.stdout)
                    assert (again["restarted"], again["code"]) == (name, -signal.SIGKILL)
                _wait("there is no other collector", listens)
                send("second")
                _wait("nothing came through after the kills", lambda: bodies(lake)["second"] >= 1)
                provider.shutdown()
                process.terminate()
                assert process.wait(_PATIENCE) == 0
                assert bodies(lake) == Counter(["first", "second"])
            finally:
                process.kill()


def _document(stream: Any) -> Any:
    text = ""
    while not text.endswith("}\n") or text.count("{") > text.count("}"):
        line = stream.readline()
        assert line, "it ended"
        text += line
    return json.loads(text)
