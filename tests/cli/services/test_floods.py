"""`moulin serve` and `moulin collect` as processes with 1,024 files, and clients that send half a request each."""

from __future__ import annotations

import json
import os
import resource
import socket
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from moulin.lake import Lake
from tests.commands import fork, run_command

FILES = 1024
HALF = {
    "head": b"POST /v1/logs HTTP/1.1\r\nHost: localhost\r\n",
    "body": b"POST /iceberg/v1/namespaces HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{",
}


def with_few_files(arguments: Sequence[str], environment: Mapping[str, str], out: str) -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    run_command(arguments, environment, out)


@contextmanager
def started(lake: Path, out: Path, *words: str) -> Iterator[int]:
    """The HTTP port of a command that runs."""
    Lake.open(lake).close()
    process = fork(with_few_files, ["--lake", str(lake), *words], dict(os.environ), str(out))
    try:
        yield _port(out)
    finally:
        process.kill()
        process.join()


def _port(out: Path) -> int:
    for _ in range(1500):
        for line in out.read_text().splitlines() if out.exists() else []:
            if line.startswith("{") and (said := json.loads(line)).get("message") in ("serving", "collecting"):
                return int(str(said["http"]).removeprefix(":"))
        time.sleep(0.02)
    raise AssertionError(out.read_text() if out.exists() else "nothing was printed")


@pytest.mark.sample(1)
@pytest.mark.parametrize("part", ["head", "body"])
@pytest.mark.parametrize(
    "words",
    [
        ["serve", "--bind", "127.0.0.1:0", "--http-bind", "127.0.0.1:0"],
        ["collect", "--grpc-port", "0", "--http-port", "0", "--log-level", "info"],
    ],
    ids=lambda words: str(words[0]),
)
def test_1100_half_sent_requests_stop_nobody_and_fill_no_log(tmp_path: Path, words: list[str], part: str) -> None:
    out = tmp_path / "log"
    with started(tmp_path / "lake", out, *words) as port, ExitStack() as held:
        for _ in range(1100):
            client = held.enter_context(socket.create_connection(("127.0.0.1", port), timeout=20))
            client.sendall(HALF[part])
        for _ in range(3):
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=20) as answer:
                assert json.load(answer)["status"] == "ok"
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=20) as answer:
            text = answer.read().decode()
    figures = dict(line.split() for line in text.splitlines() if line.startswith("moulin_http_"))
    assert float(figures["moulin_http_connections"]) <= 250
    assert float(figures["moulin_http_connections_displaced_total"]) >= 800
    said = out.read_text()
    assert "Traceback" not in said
    lines = [json.loads(line) for line in said.splitlines() if line.startswith("{")]
    assert all({"time", "level", "logger", "message"} <= line.keys() for line in lines)
    assert {line["level"] for line in lines} >= {"info", "warning"}
    assert len(said) < 20_000, said[-2000:]
