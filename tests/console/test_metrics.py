"""Metrics over the API: lines are what plain Python makes of the points that were sent."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import numpy as np
import pytest

import moulin
from moulin.formats.baby_segment import Payload
from moulin.ingest.setup import set_up
from moulin.lake import Lake
from moulin.pipeline.nursery.nursery import Nursery
from tests.console.conftest import HOSTILE, Api, Serve
from tests.console.logs import Writer
from tests.console.metrics import Point, metric_request

SECOND = 1_000_000_000
MINUTE = 60 * SECOND


class Sender:
    """Sends metrics, and commits some of them."""

    def __init__(self, lake: Lake) -> None:
        token = set_up(lake).token
        assert token is not None
        self.lake, self._writer = lake, Writer(lake, token)

    def send(self, *requests: bytes) -> None:
        self._writer.send(*requests, payload=Payload.METRICS)

    def commit(self) -> None:
        Nursery(self.lake, spark=False).run_once()


@pytest.fixture
def sender(tmp_path: Path) -> Iterator[Sender]:
    with moulin.connect(tmp_path / "lake") as lake:
        yield Sender(lake)


@pytest.fixture
def begin() -> int:
    """The start of an hour that is over, in Unix nanoseconds."""
    return (time.time_ns() // (3600 * SECOND) - 1) * 3600 * SECOND - 3600 * SECOND


def query(api: Api, name: str, begin: int, *, minutes: int = 10, step: int = MINUTE, **given: Any) -> Any:
    return api.json("/metrics/query", name=name, start=begin, end=begin + minutes * MINUTE, step=step, **given)


def lines(found: Any) -> dict[Any, list[float | None]]:
    return {
        (*one["labels"].values(), *([one["quantile"]] if one["quantile"] is not None else [])): one["values"]
        for one in found["lines"]
    }


def test_metrics_are_listed_with_kind_unit_and_attributes(sender: Sender, serve: Serve, begin: int) -> None:
    sender.send(
        metric_request(
            "load", "gauge", [Point(begin, 1.5, {"cpu": "0", HOSTILE: "x"})], unit="1", description="how busy"
        )
    )
    sender.commit()
    sender.send(
        metric_request("load", "gauge", [Point(begin + 1, 1.5, {"cpu": "1"})], unit="1"),
        metric_request("http.requests", "sum", [Point(begin, 3, {"http.route": "/a"})], unit="{request}"),
        metric_request("latency", "histogram", [Point(begin, counts=[1, 2], bounds=[5])], temporality=1),
    )
    api = serve(sender.lake)
    items = api.json("/metrics/names", start=begin, end=begin + MINUTE)["items"]
    told = [
        (one["name"], one["kind"], one["unit"], one["temporality"], one["monotonic"], one["points"], one["attributes"])
        for one in items
    ]
    assert told == [
        ("http.requests", "sum", "{request}", "cumulative", True, "1", ["http.route"]),
        ("latency", "histogram", "", "delta", False, "1", []),
        ("load", "gauge", "1", "", False, "2", sorted(["cpu", HOSTILE])),
    ]
    assert api.json("/metrics/names", start=begin + MINUTE, end=begin + 2 * MINUTE)["items"] == []
    values = api.json("/metrics/values", name="load", key="cpu", start=begin, end=begin + MINUTE)
    assert values == {"values": ["0", "1"], "more": False}
    assert api.json("/metrics/values", name="load", key="service.name", start=begin, end=begin + MINUTE)["values"] == [
        "cart"
    ]


def test_gauges_are_what_plain_python_makes_of_them(sender: Sender, serve: Serve, begin: int) -> None:
    dice = random.Random(5)
    sent: list[tuple[int, float, str]] = []
    for part in range(3):
        points = []
        for _ in range(60):
            at, value, room = (
                begin + dice.randrange(10 * 60) * SECOND + dice.randrange(1000),
                dice.uniform(-5, 30),
                dice.choice("ab"),
            )
            sent.append((at, value, room))
            points.append(Point(at, value, {"room": room}))
        sender.send(metric_request("heat", "gauge", points))
        if part < 2:
            sender.commit()
    api = serve(sender.lake)

    def plain(stat: str, rooms: str) -> list[float | None]:
        found: list[float | None] = []
        for step in range(10):
            mine = [
                (at, value, room)
                for at, value, room in sent
                if room in rooms and at // MINUTE == begin // MINUTE + step
            ]
            values = [value for _, value, _ in mine]
            last = {room: value for _, value, room in sorted(mine)}
            found.append(
                {"avg": sum(values) / len(values), "min": min(values), "max": max(values), "sum": sum(last.values())}[
                    stat
                ]
                if values
                else None
            )
        return found

    for stat in ("avg", "min", "max", "sum"):
        (line,) = query(api, "heat", begin, stat=stat)["lines"]
        assert line["values"] == pytest.approx(plain(stat, "ab")), stat
        split = lines(query(api, "heat", begin, stat=stat, by="room"))
        assert {key: pytest.approx(value) for key, value in split.items()} == {
            (room,): plain(stat, room) for room in "ab"
        }
    (only,) = query(api, "heat", begin, where="room=a", stat="avg")["lines"]
    assert only["values"] == pytest.approx(plain("avg", "a"))


@pytest.mark.parametrize("temporality", [1, 2])
def test_what_counters_gain_adds_up_across_resets(sender: Sender, serve: Serve, begin: int, temporality: int) -> None:
    dice = random.Random(temporality)
    gained = {"/a": 0.0, "/b": 0.0}
    for route in gained:
        value, start, points, before = 0.0, begin + SECOND, [], begin + SECOND
        for n in range(1, 40):
            at = begin + n * 15 * SECOND
            more = float(dice.randrange(20))
            gained[route] += more
            if n % 13 == 0:
                value, start = 0.0, before + 1  # the process began again
            value += more
            points.append(
                Point(at, value if temporality == 2 else more, {"route": route}, start if temporality == 2 else before)
            )
            before = at
        sender.send(metric_request("hits", "sum", points[:20], temporality=temporality))
        sender.commit()
        sender.send(
            metric_request("hits", "sum", [*points[20:], points[22]], temporality=temporality)
        )  # one comes twice
    api = serve(sender.lake)
    found = query(api, "hits", begin, by="route", stat="increase")
    sums = {key: sum(value for value in values if value is not None) for key, values in lines(found).items()}
    assert sums == {("/a",): pytest.approx(gained["/a"]), ("/b",): pytest.approx(gained["/b"])}
    (both,) = query(api, "hits", begin)["lines"]
    assert query(api, "hits", begin)["stat"] == "rate"
    assert sum(value * 60 for value in both["values"][1:-1]) == pytest.approx(sum(gained.values()), rel=0.3)
    inner = query(api, "hits", begin + 2 * MINUTE, minutes=3, step=30 * SECOND, stat="increase", by="route")
    for key, values in lines(inner).items():
        whole = lines(found)[key][2:5]
        assert sum(x for x in values if x is not None) == pytest.approx(sum(x for x in whole if x is not None))


def test_a_rate_is_by_second_whatever_the_step(sender: Sender, serve: Serve, begin: int) -> None:
    points = [Point(begin + n * 10 * SECOND, 50 * n, {}, 1) for n in range(61)]
    sender.send(metric_request("steady", "sum", points))
    api = serve(sender.lake)
    for step in (SECOND, 7 * SECOND, MINUTE, 5 * MINUTE):
        (line,) = query(api, "steady", begin, step=step, stat="rate")["lines"]
        assert [value for value in line["values"] if value is not None] == pytest.approx(
            [5.0] * len([v for v in line["values"] if v is not None])
        )


@pytest.mark.parametrize("kind", ["histogram", "exponential_histogram"])
@pytest.mark.parametrize("temporality", [1, 2])
def test_percentiles_are_within_their_bucket(
    sender: Sender, serve: Serve, begin: int, kind: str, temporality: int
) -> None:
    dice = np.random.default_rng(7)
    bounds = [1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]
    scale = 2
    points, values = [], []
    total = np.zeros(400, np.int64)
    for n in range(1, 20):
        drawn = dice.lognormal(2, 1, 50)
        values += drawn.tolist()
        if kind == "histogram":
            counts = np.bincount(np.searchsorted(bounds, drawn), minlength=8)
        else:
            index = np.ceil(np.log2(drawn) * 2**scale).astype(int) - 1
            counts = np.bincount(index + 40, minlength=400)[:400]
        total[: len(counts)] += counts
        shown = (counts if temporality == 1 else total[: len(counts)]).tolist()
        points.append(
            Point(
                begin + n * 30 * SECOND,
                0,
                {},
                begin if temporality == 2 else begin + (n - 1) * 30 * SECOND,
                counts=shown,
                bounds=bounds if kind == "histogram" else (),
                scale=scale,
                offset=-40,
                total=float(np.sum(drawn if temporality == 1 else values)),
            )
        )
    sender.send(metric_request("took", kind, points[:9], temporality=temporality, unit="ms"))
    sender.commit()
    sender.send(metric_request("took", kind, points[9:], temporality=temporality, unit="ms"))
    api = serve(sender.lake)
    found = query(api, "took", begin, step=10 * MINUTE, quantile=[0.1, 0.5, 0.9, 0.99])
    assert (found["unit"], found["stat"]) == ("ms", "quantile")
    for (quantile,), (value, *_) in lines(found).items():
        exact = float(np.quantile(values, quantile, method="inverted_cdf"))
        assert value is not None
        if kind == "histogram":
            place = int(np.searchsorted(bounds, exact))
            assert (bounds[place - 1] if place else 0.0) <= value <= bounds[min(place, 6)], quantile
        else:
            assert value == pytest.approx(exact, rel=2 ** (2**-scale) - 1), quantile
    (mean,) = query(api, "took", begin, step=10 * MINUTE, stat="mean")["lines"]
    assert mean["values"][0] == pytest.approx(np.mean(values))
    (count,) = query(api, "took", begin, step=10 * MINUTE, stat="increase")["lines"]
    assert count["values"][0] == pytest.approx(len(values))


def test_histograms_of_other_bounds_are_joined(sender: Sender, serve: Serve, begin: int) -> None:
    sender.send(
        metric_request(
            "took",
            "histogram",
            [Point(begin + 9, counts=[10, 10, 0], bounds=[1, 2], attributes={"v": "1"})],
            temporality=1,
        ),
        metric_request(
            "took",
            "histogram",
            [Point(begin + 9, counts=[0, 20, 0], bounds=[1, 3], attributes={"v": "2"})],
            temporality=1,
        ),
    )
    api = serve(sender.lake)
    ((quantile, values),) = lines(query(api, "took", begin, minutes=1, quantile=0.5)).items()
    assert quantile == (0.5,)
    assert values == pytest.approx([1.5])
    assert len(lines(query(api, "took", begin, minutes=1, quantile=0.5, by="v"))) == 2


def test_exemplars_name_their_traces(sender: Sender, serve: Serve, begin: int) -> None:
    sender.send(
        metric_request(
            "took",
            "histogram",
            [
                Point(
                    begin + 9,
                    counts=[1, 1],
                    bounds=[5],
                    exemplars=[(begin + 3, 7.5, 0xAB, 0xCD), (begin + 4, 1.0, 0, 0)],
                    attributes={"route": "/a"},
                )
            ],
            temporality=1,
        )
    )
    (one,) = query(serve(sender.lake), "took", begin)["exemplars"]
    assert one == {
        "time": str(begin + 3),
        "value": 7.5,
        "trace_id": f"{0xAB:032x}",
        "span_id": f"{0xCD:016x}",
        "attributes": {"route": "/a"},
    }


def test_a_point_that_says_it_has_no_value_is_none(sender: Sender, serve: Serve, begin: int) -> None:
    sender.send(
        metric_request(
            "heat",
            "gauge",
            [Point(begin, 5.0), Point(begin + MINUTE, 0.0, flags=1), Point(begin + 2 * MINUTE, math.nan)],
        )
    )
    (line,) = query(serve(sender.lake), "heat", begin, minutes=3)["lines"]
    assert line["values"] == [5.0, None, None]


def test_questions_that_do_not_fit_are_refused_in_a_sentence(sender: Sender, serve: Serve, begin: int) -> None:
    sender.send(
        metric_request("heat", "gauge", [Point(begin, 5.0)]), metric_request("both", "gauge", [Point(begin, 1.0)])
    )
    sender.send(metric_request("both", "sum", [Point(begin, 1.0)]))
    api = serve(sender.lake)
    within = f"start={begin}&end={begin + MINUTE}"
    for text, status, said in (
        (f"name=nothing&{within}", 404, "No point of a metric 'nothing'"),
        (f"name=heat&{within}&stat=rate", 400, "A metric of the kind gauge has avg"),
        (f"name=both&{within}", 400, "as gauge and as sum"),
        (f"name=both&kind=sum&{within}", 200, ""),
        (f"name=heat&{within}&step=1000000", 400, "at most 2000 steps"),
        (f"name=heat&{within}&quantile=2", 400, "A quantile must be a number from 0 to 1"),
        (f"name=heat&{within}&where=room", 400, "key=value"),
        ("name=heat&start=5&end=5", 400, "range is empty"),
        ("name=heat&last=0", 400, "last"),
        (f"{within}", 400, "name"),
        (f"name=heat&{within}&stat=loud", 400, "stat"),
        (f"name={quote(HOSTILE)}&{within}", 404, "No point"),
    ):
        answer = api.get(f"/metrics/query?{text}")
        assert (answer.status_code, said in answer.text) == (status, True), (text, answer.text)
    for hostile in ("%00", "%ED%A0%80", "%27;drop", "a" * 2000):
        for part in (
            f"name={hostile}",
            f"name=heat&where={hostile}=x",
            f"name=heat&by={hostile}",
            f"name=heat&kind={hostile}",
        ):
            assert api.get(f"/metrics/query?{part}&{within}").status_code in (200, 400, 404), part


def test_a_lake_without_telemetry_says_what_to_do(lake: Lake, serve: Serve) -> None:
    api = serve(lake)
    assert api.json("/metrics/tables")["items"] == []
    answer = api.get("/metrics/names")
    assert answer.status_code == 404
    assert "moulin init --otel" in answer.text
