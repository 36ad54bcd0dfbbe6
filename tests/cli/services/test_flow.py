"""What operators see of the flow: `moulin ingest lag` and `skip`, the nursery's /metrics, the screen of `moulin up`."""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

import pytest
from rich.console import Console

import moulin
from moulin.cli.services.metrics import metrics_at
from moulin.cli.services.up import Figures, _say_flow, _screen
from moulin.errors import InvalidInput, Unavailable
from moulin.ingest.flow import Flow, FlowWatch, State
from moulin.ingest.setup import set_up
from moulin.lake import Lake
from moulin.pipeline.nursery.nursery import Nursery
from moulin.storage import paths
from tests.cli.conftest import Run
from tests.pipeline.nursery.test_nursery import Writer, bodies, logs


@pytest.fixture
def fed(tmp_path: Path) -> Iterator[tuple[Lake, Writer]]:
    with moulin.connect(tmp_path / "lake") as lake:
        token = set_up(lake).token
        assert token is not None
        yield lake, Writer(lake, token)


def flow(lake: Lake, **options: Any) -> Flow:
    return FlowWatch(lake, **options).look(lambda: lake.own_catalog().ingest.snapshot().streams)


def screen(lake: Lake) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(_screen([], Figures(lake).look()))
    return console.export_text()


def test_the_screen_tells_idle_from_flowing_from_stuck(fed: tuple[Lake, Writer]) -> None:
    lake, writer = fed
    assert flow(lake).state is State.IDLE
    assert "idle: no backlog" in screen(lake)
    for n in range(3):
        writer.send(logs(f"r{n}"))
    waiting = flow(lake)
    assert (waiting.state, waiting.objects) == (State.FLOWING, 3)
    assert "in 3 baby segments wait" in screen(lake)
    lake.store.delete([paths.baby_segment(writer.id, 1)])
    Nursery(lake, spark=False, announce=str).run_once()
    stuck = flow(lake)
    assert stuck.state is State.STUCK
    shown = screen(lake)
    assert "stuck: lag" in shown
    assert f"moulin ingest skip {writer.id} 1" in " ".join(shown.split())


def test_waiting_without_any_progress_is_stuck(fed: tuple[Lake, Writer]) -> None:
    lake, writer = fed
    writer.send(logs("a"))
    found = flow(lake, stuck_seconds=0.0)
    assert found.state is State.STUCK
    assert "Nothing was taken in" in found.advice[0]
    Nursery(lake, spark=False).run_once()
    assert flow(lake, stuck_seconds=0.0).state is State.IDLE


def test_without_a_screen_a_change_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    stuck = Flow(State.STUCK, (), ("Nothing was taken in for 61 s, although 2 baby segments wait.",))
    later = Flow(State.STUCK, (), ("Nothing was taken in for 62 s, although 2 baby segments wait.",))
    told = _say_flow(Flow(), (), as_json=True)
    told = _say_flow(stuck, told, as_json=True)
    told = _say_flow(later, told, as_json=True)
    assert json.loads(capsys.readouterr().out)["state"] == "stuck"
    _say_flow(Flow(), told, as_json=True)
    assert json.loads(capsys.readouterr().out)["state"] == "idle"


def test_a_missing_number_is_shown_and_can_be_given_up(run: Run, fed: tuple[Lake, Writer]) -> None:
    lake, writer = fed
    for n in range(3):
        writer.send(logs(f"r{n}"))
    lake.store.delete([paths.baby_segment(writer.id, 1)])
    [row] = run("ingest", "lag", "--json").json()
    assert (row["stream"], row["waiting"], row["missing"]) == (str(writer.id), 2, 1)
    assert "is not stuck at 2: number 1 is missing" in run("ingest", "skip", str(writer.id), "2").err
    assert run("ingest", "skip", str(writer.id), "1").code == 0
    assert run("nursery", "--once", "--no-spark").code == 0
    assert bodies(lake) == Counter(["r0", "r2"])
    assert "no number is missing" in run("ingest", "skip", str(writer.id), "1").err
    assert run("ingest", "lag", "--json").json()[0]["missing"] is None


def test_metrics_are_answered_while_the_block_runs() -> None:
    with metrics_at("127.0.0.1:0", lambda: "x 1\n") as port:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
            assert answer.read() == b"x 1\n"
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"http://127.0.0.1:{port}/other")
        with pytest.raises(Unavailable, match="Cannot listen on"), metrics_at(f"127.0.0.1:{port}", str):
            pass
    with pytest.raises(InvalidInput, match="host:port"), metrics_at("here", str):
        pass


def _document(stream: IO[str]) -> Any:
    return json.loads(stream.readline())


def test_a_nursery_process_exports_its_figures(fed: tuple[Lake, Writer]) -> None:
    lake, writer = fed
    command = [sys.executable, "-m", "moulin.cli.main", "--lake", lake.uri, "nursery", "--no-spark", "--json"]
    command += ["--metrics-bind", "127.0.0.1:0", "--interval", "0.1"]
    writer.send(logs("a", "b"))
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            port = _document(process.stdout)["metrics_port"]
            assert _document(process.stdout)["rows"] == 2
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as answer:
                text = answer.read().decode()
            assert "moulin_nursery_rows_total 2" in text
            assert f'moulin_nursery_lag_seconds{{stream="{writer.id}"}} 0' in text
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0


def test_a_nursery_on_any_free_port_tells_people_which(fed: tuple[Lake, Writer]) -> None:
    lake, _ = fed
    command = [sys.executable, "-m", "moulin.cli.main", "--lake", lake.uri, "nursery", "--no-spark"]
    with subprocess.Popen([*command, "--metrics-bind", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = re.search(r"/metrics on port (\d+)", process.stdout.readline())
            assert found is not None
            with urllib.request.urlopen(f"http://127.0.0.1:{found[1]}/metrics") as answer:
                assert b"moulin_nursery_rows_total" in answer.read()
        finally:
            process.send_signal(signal.SIGTERM)
            assert process.wait(30) == 0
