"""The harness computes what it says, and every benchmark runs to its end at a small scale."""

from __future__ import annotations

import importlib
import json
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from benchmarks import sql_peer
from benchmarks.__main__ import NAMES, ON_REQUEST, amount, main
from benchmarks.harness import Bench, Contender, Line, Sample, Skipped, Status, exit_code, run_all, take_turns
from benchmarks.postgres import Postgres


def test_medians_and_quartiles() -> None:
    sample = Sample((5.0, 1.0, 2.0, 4.0, 3.0))
    assert sample.median == 3.0
    assert sample.quartiles == (2.0, 4.0)
    assert Sample((7.0,)).quartiles == (7.0, 7.0)
    with pytest.raises(ValueError, match="at least one"):
        Sample(())


def test_what_a_contender_left_at_work_is_done_before_the_next_turn() -> None:
    left: list[threading.Thread] = []

    def busy() -> None:
        end = time.process_time() + 0.05
        while time.process_time() < end:
            pass

    def leave() -> None:
        left.append(threading.Thread(target=busy))
        left[-1].start()

    def look() -> None:
        assert not any(thread.is_alive() for thread in left)

    take_turns({"leaves": Contender(leave), "looks": Contender(look)}, 2)
    assert len(left) == 3


@pytest.mark.parametrize(
    ("line", "figure", "status"),
    [
        (Line("b", "c", Sample((3.0,)), Sample((2.0,)), "peer", 1.5), 1.5, Status.OK),
        (Line("b", "c", Sample((3.1,)), Sample((2.0,)), "peer", 1.5), 1.55, Status.OVER),
        (Line("b", "c", Sample((3.0,)), Sample((2.0,)), "peer"), 1.5, Status.NO_TARGET),
        (Line("b", "c", Sample((0.01,)), target=0.02), 0.01, Status.OK),
        (Line("b", "c", Sample((0.03,)), target=0.02), 0.03, Status.OVER),
        (Line("b", "c", reason="no peer", target=1.0), None, Status.SKIPPED),
        (Line("b", "c", reason="broke", failed=True), None, Status.FAILED),
    ],
)
def test_a_line_has_the_figure_and_status_of_its_ratio(line: Line, figure: float | None, status: Status) -> None:
    assert line.figure == (None if figure is None else pytest.approx(figure))
    assert line.status is status
    assert json.loads(json.dumps(line.to_json()))["status"] == status.value


def test_contenders_take_turns_and_preparation_is_not_timed() -> None:
    now, log = 0.0, []

    def contender(name: str, takes: float) -> Contender:
        def spend(what: str, amount: float) -> None:
            nonlocal now
            now += amount
            log.append(f"{what} {name}")

        return Contender(lambda: spend("run", takes), lambda: spend("prepare", 100.0))

    samples = take_turns({"a": contender("a", 1.0), "b": contender("b", 2.0)}, 2, clock=lambda: now)
    assert samples == {"a": Sample((1.0, 1.0)), "b": Sample((2.0, 2.0))}
    assert log == ["prepare a", "run a", "prepare b", "run b"] * 3


def test_ours_is_compared_with_the_fastest_peer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    samples = {"": Sample((3.0,)), "slow": Sample((4.0,)), "fast": Sample((2.0,))}
    monkeypatch.setattr("benchmarks.harness.take_turns", lambda *_, **__: samples)
    line = Bench(tmp_path).compare("b", "c", print, {"slow": print, "fast": print}, target=1.0)
    assert (line.peer_name, line.ratio, line.status) == ("fast", 1.5, Status.OVER)


def test_a_failure_or_a_missing_peer_stops_no_other_benchmark(tmp_path: Path) -> None:
    def module(name: str, error: Exception | None) -> ModuleType:
        made = ModuleType(f"benchmarks.{name}")

        def run(bench: Bench) -> Iterator[Line]:
            yield Line(name, "first", Sample((1.0,)))
            if error is not None:
                raise error

        made.__dict__.update(TITLE="title", run=run)
        return made

    modules = [module("broken", OSError("no disk")), module("lacking", Skipped("no peer")), module("fine", None)]
    seen: list[str] = []
    lines = list(run_all(Bench(tmp_path), modules, seen.append))
    assert [(line.benchmark, line.status) for line in lines] == [
        ("broken", Status.NO_TARGET),
        ("broken", Status.FAILED),
        ("lacking", Status.NO_TARGET),
        ("lacking", Status.SKIPPED),
        ("fine", Status.NO_TARGET),
    ]
    assert "no disk" in lines[1].reason
    assert "no disk" in seen[0]
    assert exit_code(lines) == 1
    assert exit_code([line for line in lines if not line.failed]) == 0


def test_amounts_are_written_for_people() -> None:
    assert amount(None) == ""
    assert amount(Sample((1.0, 2.0, 3.0))) == "2.00 s (1.50-2.50)"
    assert amount(Sample((0.0104,))) == "10.4 ms (10.4-10.4)"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    bench = Bench(tmp_path_factory.mktemp("bench"), rows=4_000, runs=1, segments=200, commits=2, peers=False)
    yield bench
    bench.close()


def _check(bench: Bench, name: str) -> None:
    errors: list[str] = []
    lines = list(run_all(bench, [importlib.import_module(f"benchmarks.{name}")], errors.append))
    assert errors == []
    assert lines
    for line in lines:
        assert line.benchmark == name
        assert line.figure is not None or line.status is Status.SKIPPED


@pytest.mark.parametrize("name", ["python_scan", "bulk_load"])
def test_benchmarks_run_without_spark(small: Bench, name: str) -> None:
    _check(small, name)


def test_formats_that_may_not_be_fetched_are_skipped_with_a_reason(small: Bench) -> None:
    _check(small, "peers")
    assert {line.reason for line in importlib.import_module("benchmarks.peers").run(small)} == {"left out: --no-peers"}


def test_a_peer_none_of_whose_releases_starts_gives_the_reason_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_peer, "_python", lambda release, fetched: Path("/bin/false"))
    reasons = "; ".join(f"{release.package}: its process ended.*" for release in sql_peer.RELEASES["Paimon"])
    with pytest.raises(sql_peer.Unreachable, match=reasons):
        sql_peer.Peer("Paimon", tmp_path / "fetched", tmp_path / "peer", "1g")


@pytest.mark.postgres
@pytest.mark.parametrize("name", ["commit_scale", "plan_scale", "clones", "branches"])
def test_catalog_benchmarks_run(small: Bench, name: str, postgres_server: str) -> None:
    small.shared("postgresql", lambda: Postgres(postgres_server))
    _check(small, name)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "name",
    [
        pytest.param("spark_scan", marks=pytest.mark.long),
        "spark_append",
        "merge",
        pytest.param("sql_changes", marks=pytest.mark.long),
        pytest.param("growth", marks=pytest.mark.long),
    ],
)
def test_benchmarks_run_on_spark(small: Bench, name: str) -> None:
    _check(small, name)


def test_all_benchmarks_are_known() -> None:
    for name in (*NAMES, *ON_REQUEST):
        module = importlib.import_module(f"benchmarks.{name}")
        assert module.TITLE
        assert callable(module.run)


def test_the_command_refuses_an_unknown_name(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["faster_than_light"])
    assert stopped.value.code == 2
    assert "faster_than_light" in capsys.readouterr().err
