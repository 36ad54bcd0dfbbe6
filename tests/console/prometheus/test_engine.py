"""PromQL at many steps: Prometheus' own engine answers the same queries over the same samples."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moulin.console.prometheus import engine
from moulin.console.prometheus.engine import Engine
from moulin.console.prometheus.promql import Matcher, parse
from moulin.console.prometheus.samples import Samples, holds_all
from moulin.console.prometheus.vectors import Vector
from moulin.errors import InvalidInput, Unavailable

REFEREE = Path(__file__).parent / "referee"
BEGIN = 1_700_000_000_000
MINUTE = 60_000
QUERIES = [
    "heat",
    'heat{room="a"}',
    'heat{room=~"a|b", floor!="1"}',
    'heat{room!~"a"}',
    "heat offset 2m",
    "heat offset -1m",
    '{__name__=~"he.t|hits", room="a"}',
    "rate(hits[5m])",
    "rate(hits[47s])",
    "increase(hits[3m])",
    "delta(heat[4m])",
    "irate(hits[5m])",
    "idelta(heat[5m])",
    "rate(hits[5m] offset 90s)",
    "avg_over_time(heat[3m])",
    "min_over_time(heat[3m])",
    "max_over_time(heat[3m])",
    "sum_over_time(heat[3m])",
    "count_over_time(heat[3m])",
    "last_over_time(heat[3m])",
    "present_over_time(heat[70s])",
    "sum(heat)",
    "sum by (room) (heat)",
    "avg by (floor) (heat)",
    "min(heat) by (floor)",
    "max without (room) (heat)",
    "count(heat)",
    "count by (room) (heat > 15)",
    "sum(rate(hits[5m])) by (room)",
    "topk(2, heat)",
    "bottomk(1, heat)",
    "topk by (floor) (1, heat)",
    "heat + 1",
    "2 * heat",
    "heat / 0",
    "-heat",
    "heat > 15",
    "15 < heat",
    "heat > bool 15",
    "heat == heat",
    "heat - heat",
    "heat * on(room, floor) cool",
    "heat + ignoring(kind) cool",
    "heat > on(room, floor) cool",
    "heat % 7",
    "heat ^ 2",
    "2 ^ 3 ^ 2",
    "-2 ^ 2",
    "1 + 2 * 3 - 4 / 5",
    "1 < bool 2",
    "sum(rate(hits[5m])) / count(hits)",
    "histogram_quantile(0.9, rate(took_bucket[5m]))",
    "histogram_quantile(0.5, sum by (le) (rate(took_bucket[5m])))",
    "histogram_quantile(0.99, sum by (le, room) (took_bucket))",
    "histogram_quantile(2, took_bucket)",
    "histogram_quantile(-1, took_bucket)",
    "abs(-heat)",
    "ceil(heat)",
    "floor(heat)",
    "sqrt(heat)",
    "exp(heat / 10)",
    "ln(heat)",
    "log2(heat)",
    "log10(heat)",
    "clamp_min(heat, 15)",
    "clamp_max(heat, 15)",
    "time()",
    "vector(3)",
    "time() - 5",
    "nothing",
    "rate(nothing[5m])",
    "sum(nothing)",
    'heat{room=""}',
    "odd",
    "sum(odd)",
    "max(odd)",
    "min(odd)",
    "max_over_time(odd[5m])",
    "sum_over_time(odd[5m])",
    "sum by (nothing) (heat)",
    "1e3 * heat",
    "0x10 + heat",
    "heat * Inf",
    "NaN + heat",
]


def made(seed: int) -> list[dict[str, Any]]:
    """Gauges with gaps and stale markers, counters with resets, histograms, and values that are no numbers."""
    dice = random.Random(seed)
    found: list[dict[str, Any]] = []

    def add(
        name: str, labels: dict[str, str], samples: list[tuple[int, float]], stale: list[int] | None = None
    ) -> None:
        found.append({"labels": {"__name__": name, **labels}, "samples": samples, "stale": stale or []})

    for room in "abc":
        for floor in "12":
            times = [BEGIN + n * 15_000 + dice.randrange(3000) for n in range(120)]
            gone = dice.randrange(120)
            kept = [at for n, at in enumerate(times) if not gone <= n < gone + 30 and dice.random() < 0.95]
            stale = [times[gone] + 5000] if dice.random() < 0.6 else []
            add("heat", {"room": room, "floor": floor}, [(at, dice.uniform(-5, 30)) for at in kept], stale)
            add("cool", {"room": room, "floor": floor, "kind": "x"}, [(at, dice.uniform(5, 20)) for at in kept[::2]])
            total, counted = 0.0, []
            for at in times:
                total = 0.0 if dice.random() < 0.04 else total + dice.randrange(20)
                counted.append((at, total))
            add("hits", {"room": room, "floor": floor}, counted[dice.randrange(40) :])
    for room in "ab":
        counts = [0] * 5
        lines: list[list[tuple[int, float]]] = [[] for _ in counts]
        for n in range(120):
            for _ in range(6):
                counts[min(4, int(abs(dice.gauss(0, 2))))] += 1
            for at, line in enumerate(lines):
                line.append((BEGIN + n * 15_000, float(sum(counts[: at + 1]))))
        for bound, line in zip(("0.1", "0.5", "1", "5", "+Inf"), lines, strict=True):
            add("took_bucket", {"room": room, "le": bound}, line)
    add("odd", {"n": "1"}, [(BEGIN + n * 30_000, math.nan if n % 5 == 0 else float(n)) for n in range(60)])
    add("odd", {"n": "2"}, [(BEGIN + n * 30_000, math.inf if n % 7 == 0 else -float(n)) for n in range(60)])
    return found


def samples_of(found: Sequence[dict[str, Any]]) -> list[Samples]:
    held = []
    for one in found:
        points = sorted([(at, value, False) for at, value in one["samples"]] + [(at, 0.0, True) for at in one["stale"]])
        times, values, stale = zip(*points, strict=True)
        held.append(
            Samples(
                tuple(sorted(one["labels"].items())),
                np.array(times, np.int64),
                np.array(values, float),
                np.array(stale),
            )
        )
    return held


def reading(held: Sequence[Samples]) -> Any:
    def read(matchers: Sequence[Matcher], start: int, end: int) -> list[Samples]:
        found = []
        for one in held:
            labels = dict(one.labels)
            if all(holds_all([labels.get(x.label, "")], [x])[0] for x in matchers):
                kept = (one.times >= start) & (one.times <= end)
                if kept.any():
                    found.append(Samples(one.labels, one.times[kept], one.values[kept], one.stale[kept]))
        return found

    return read


def ours(held: Sequence[Samples], query: str, start: int, end: int, step: int) -> dict[Any, dict[int, float]]:
    steps = np.arange(start, end + 1, step, dtype=np.int64)
    found = Engine(steps, reading(held)).run(parse(query))
    if not isinstance(found, Vector):
        return {(): dict(zip(steps.tolist(), found.tolist(), strict=True))}
    lines = {}
    for labels, values, known in zip(found.labels, found.values, found.known, strict=True):
        line = {
            at: value for at, value, held in zip(steps.tolist(), values.tolist(), known.tolist(), strict=True) if held
        }
        if line:
            lines[labels] = line
    return lines


def test_a_query_is_evaluated_at_each_step() -> None:
    """Without the referee: a few answers that are known by heart."""
    held = samples_of(
        [{"labels": {"__name__": "hits"}, "samples": [(n * 10_000, 5.0 * n) for n in range(61)], "stale": [605_000]}]
    )
    assert ours(held, "rate(hits[1m])", 300_000, 300_000, 1000) == {(): {300_000: pytest.approx(0.5)}}
    assert ours(held, "hits", 600_000, 610_000, 10_000) == {(("__name__", "hits"),): {600_000: 300.0}}
    assert ours(held, "increase(hits[1m])", 300_000, 300_000, 1000) == {(): {300_000: pytest.approx(30.0)}}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "is missing here"), ("sum(", "is missing"), ("{}", "names a metric"), ('{a=~".*"', "} is missing"),
        ("rate(x)", "takes a selector with a range"), ("x[5m]", "goes into a function"), ("x[5m:1m]", "] is missing"),
        ("x and y", "set operators"), ("x @ 5", "is not served"), ("x * on(a) group_left y", "one-to-one"),
        ("quantile(0.5, x)", "not served; these are"), ("label_replace(x)", "not served"), ("1 > 2", "bool"),
        ("sum(1)", "takes a vector"), ("topk(x, y)", "begins with a number"), ("x{a=b}", "text in quotes"),
        ("rate(x[5])", "duration such as 5m"), ("(" * 40 + "x", "deep"), ("x + " * 300 + "x", "words and signs"),
        ('x{a="\\q"}', "unknown escape"), ("clamp_min(x)", "takes 2 arguments"), ("x offset 5", "duration such as"),
        ("1 + bool 2", "bool goes with"), ("vector(x)", "takes a number here"), ("1 * on(a) 2", "one side is a number"),
        ('x{a=~"("}', "A pattern cannot be read"), ('x{a=~"' + "a" * 1500 + '"}', "A pattern has at most"),
    ],
)  # fmt: skip
def test_what_is_not_served_is_refused_with_the_reason(query: str, said: str) -> None:
    held = samples_of([{"labels": {"__name__": "x", "a": "b"}, "samples": [(BEGIN, 1.0)], "stale": []}])
    with pytest.raises(InvalidInput) as refused:
        ours(held, query, BEGIN, BEGIN, 1000)
    assert said in refused.value.message


def test_series_that_cannot_be_told_apart_are_refused() -> None:
    held = samples_of(
        [{"labels": {"__name__": name, "a": a}, "samples": [(BEGIN, 1.0)], "stale": []} for name in "xy" for a in "12"]
    )
    for query in ('rate({__name__=~"x|y"}[5m])', "x * on() y", '-{__name__=~"x|y"}'):
        if query.startswith("rate"):
            assert ours(held, query, BEGIN, BEGIN, 1000) == {}
            continue
        with pytest.raises(InvalidInput):
            ours(held, query, BEGIN, BEGIN, 1000)


@pytest.fixture(scope="session")
def referee(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A program of Prometheus' packages, built here: that takes minutes where it was never built."""
    if program := os.environ.get("PROMETHEUS_REFEREE"):
        return program
    if shutil.which("go") is None:
        pytest.skip("Go is not installed: it builds the referee.")
    program = str(tmp_path_factory.mktemp("referee") / "referee")
    done = subprocess.run(["go", "build", "-o", program, "."], cwd=REFEREE, capture_output=True, text=True, check=False)
    if "dial tcp" in done.stderr or "no such host" in done.stderr:
        pytest.skip(f"The packages of the referee cannot be had: {done.stderr[:200]}")
    assert done.returncode == 0, done.stderr
    return program


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_prometheus_own_engine_answers_alike(referee: str, seed: int) -> None:
    given = made(seed)
    ranges = [(BEGIN - MINUTE, BEGIN + 40 * MINUTE, 17_000), (BEGIN + 10 * MINUTE + 1, BEGIN + 20 * MINUTE, 61_234)]
    asked = [
        {"query": query, "Start": start, "End": end, "Step": step} for query in QUERIES for start, end, step in ranges
    ]
    series = [{**one, "samples": [[str(at), repr(value)] for at, value in one["samples"]]} for one in given]
    text = json.dumps({"series": json.loads(json.dumps(series)), "queries": asked})
    # Numbers are sent as they are written: Go reads NaN and Inf of them, too.
    done = subprocess.run([referee], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[:2000]
    held = samples_of(given)
    for question, line in zip(asked, done.stdout.splitlines(), strict=True):
        answer = json.loads(line)
        assert "error" not in answer, (question, answer)
        expected = {
            tuple(sorted(one["labels"].items())): {int(at): float(value) for at, value in one["values"]}
            for one in answer["result"]
        }
        got = ours(
            held,
            str(question["query"]),
            int(str(question["Start"])),
            int(str(question["End"])),
            int(str(question["Step"])),
        )
        assert got.keys() == expected.keys(), question
        for labels, values in expected.items():
            assert got[labels] == pytest.approx(values, rel=1e-9, abs=1e-9, nan_ok=True), (question, labels)


def test_a_query_can_be_stopped_while_it_computes() -> None:
    """A quantile of its own for each step took a pass over all steps each, with the time limit unasked."""
    lines = [
        {"labels": {"__name__": "took_bucket", "le": bound}, "samples": [(n * 1000, n * weight) for n in range(1100)]}
        for bound, weight in (("1", 1.0), ("+Inf", 2.0))
    ]
    held = samples_of([{**one, "stale": []} for one in lines])
    steps = np.arange(0, 1_000_000, 100, dtype=np.int64)
    asked = 0

    def go_on() -> None:
        nonlocal asked
        asked += 1
        if asked > 20:
            raise Unavailable("stopped")

    with pytest.raises(Unavailable, match="stopped"):
        Engine(steps, reading(held), go_on).run(parse("histogram_quantile(time() / 1000, took_bucket)"))


def test_the_values_of_all_selectors_of_a_query_have_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MOST_VALUES", 50)
    held = samples_of([{"labels": {"__name__": "up"}, "samples": [(n * 1000, 1.0) for n in range(30)], "stale": []}])
    assert len(ours(held, "up + up", 0, 20_000, 1000)) == 1
    with pytest.raises(InvalidInput, match="too many series for its steps"):
        ours(held, "up + (up + up)", 0, 20_000, 1000)
