"""Prometheus' HTTP API: names and labels by OpenTelemetry's rules, values of the points that were sent."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import moulin
from moulin.console.prometheus import app as routes
from moulin.console.prometheus.samples import base_name
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.roles import Role
from tests.console.conftest import HOSTILE, Serve
from tests.console.metrics import Point, metric_request
from tests.console.prometheus.test_engine import ours, samples_of
from tests.console.test_metrics import Sender

SECOND = 1_000_000_000
MS = 1_000_000


@pytest.fixture
def begin() -> int:
    return (time.time_ns() // SECOND - 1500) * SECOND


@pytest.fixture
def measured(tmp_path: Path, begin: int) -> Iterator[tuple[Lake, list[dict[str, Any]]]]:
    """A lake, and the series that Prometheus would have of its points."""
    dice = random.Random(3)
    expected: list[dict[str, Any]] = []

    def expect(
        name: str, labels: dict[str, str], samples: list[tuple[int, float]], stale: list[int] | None = None
    ) -> None:
        expected.append({"labels": {"__name__": name, **labels}, "samples": samples, "stale": stale or []})

    with moulin.connect(tmp_path / "lake") as lake:
        sender = Sender(lake)
        times = [begin + n * 15 * SECOND for n in range(80)]
        for service in ("web", "cart"):
            for temporality, name in ((2, "http.server.requests"), (1, "jobs.done")):
                totals, points, total = [], [], 0
                for n, at in enumerate(times):
                    more = dice.randrange(30)
                    total = (more if n == 50 else total + more) if temporality == 2 else total + more
                    totals.append((at // MS, float(total)))
                    points.append(Point(at, total if temporality == 2 else more, {"http.route": "/a"}, times[0]))
                labels = {"job": f"shop/{service}", "instance": f"{service}-1", "http_route": "/a"}
                expect("http_server_requests_total" if temporality == 2 else "jobs_done_total", labels, totals)
                resource = {"service.instance.id": f"{service}-1", "service.namespace": "shop", "host.name": "h"}
                unit = "{request}" if temporality == 2 else ""
                sender.send(
                    metric_request(
                        name, "sum", points, service=service, unit=unit, temporality=temporality, resource=resource
                    )
                )
            sender.commit()
            counts, lines = [0, 0, 0], []
            sums = 0.0
            for at in times:
                for _ in range(5):
                    value = dice.uniform(0, 0.4)
                    counts[0 if value <= 0.1 else 1 if value <= 0.25 else 2] += 1
                    sums += value
                lines.append((at, list(counts), sums))
            points = [
                Point(at, 0, {"http.route": "/a"}, times[0], counts=held, bounds=[0.1, 0.25], total=total)
                for at, held, total in lines
            ]
            sender.send(metric_request("http.server.duration", "histogram", points, service=service, unit="s"))
            labels = {"job": service, "http_route": "/a"}
            for place, bound in enumerate(("0.1", "0.25", "+Inf")):
                expect(
                    "http_server_duration_seconds_bucket",
                    {**labels, "le": bound},
                    [(at // MS, float(sum(held[: place + 1]))) for at, held, _ in lines],
                )
            expect(
                "http_server_duration_seconds_count", labels, [(at // MS, float(sum(held))) for at, held, _ in lines]
            )
            expect("http_server_duration_seconds_sum", labels, [(at // MS, total) for at, _, total in lines])
        heat = [(at, dice.uniform(0, 1)) for at in times]
        points = [Point(at, value, {"room": HOSTILE}) for at, value in heat[:40]] + [
            Point(heat[40][0], 0.0, {"room": HOSTILE}, flags=1)
        ]
        sender.send(metric_request("heat", "gauge", points, unit="1", description="how hot"))
        expect(
            "heat_ratio",
            {"job": "cart", "room": HOSTILE},
            [(at // MS, value) for at, value in heat[:40]],
            [heat[40][0] // MS],
        )
        yield lake, expected


@pytest.fixture
def client(measured: tuple[Lake, Any], serve: Serve) -> Iterator[httpx.Client]:
    base = f"http://127.0.0.1:{serve(measured[0]).port}/prometheus/api/v1"
    with httpx.Client(base_url=base, timeout=60) as opened:
        yield opened


def data(client: httpx.Client, path: str, **query: Any) -> Any:
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["status"] == "success"
    return body["data"]


QUERIES = [
    "http_server_requests_total",
    "sum by (job) (rate(http_server_requests_total[2m]))",
    "increase(jobs_done_total[5m])",
    'rate(jobs_done_total{job=~".*/web"}[1m])',
    "histogram_quantile(0.9, sum by (le) (rate(http_server_duration_seconds_bucket[5m])))",
    "rate(http_server_duration_seconds_sum[5m]) / rate(http_server_duration_seconds_count[5m])",
    "heat_ratio",
    "max_over_time(heat_ratio[2m])",
    '{__name__=~"heat.*|http_server_requests_total", job!="nobody"}',
    "1 + 2",
    "nothing_at_all",
]


@pytest.mark.parametrize("query", QUERIES)
def test_values_are_those_of_the_points_that_were_sent(
    client: httpx.Client, measured: tuple[Lake, Any], begin: int, query: str
) -> None:
    start, end, step = begin // MS, begin // MS + 1_500_000, 20_000
    found = data(client, "/query_range", query=query, start=start / 1000, end=end / 1000, step="20s")
    got = {
        tuple(sorted(one["metric"].items())): {round(at * 1000): float(value) for at, value in one["values"]}
        for one in found["result"]
    }
    expected = ours(samples_of(measured[1]), query, start, end, step)
    assert got.keys() == expected.keys()
    for labels, values in expected.items():
        assert got[labels] == pytest.approx(values, rel=1e-9, abs=1e-9), labels
    at = start + 600_000
    instant = data(client, "/query", query=query, time=at / 1000)
    if instant["resultType"] == "scalar":
        assert float(instant["result"][1]) == 3
        return
    once = ours(samples_of(measured[1]), query, at, at, 1000)
    assert {tuple(sorted(one["metric"].items())): float(one["value"][1]) for one in instant["result"]} == {
        labels: pytest.approx(values[at]) for labels, values in once.items()
    }


def test_names_labels_series_and_metadata_are_listed(client: httpx.Client, begin: int) -> None:
    within = {"start": begin / SECOND, "end": begin / SECOND + 1500}
    names = data(client, "/label/__name__/values", **within)
    assert names == [
        "heat_ratio", "http_server_duration_seconds_bucket", "http_server_duration_seconds_count",
        "http_server_duration_seconds_sum", "http_server_requests_total", "jobs_done_total",
    ]  # fmt: skip
    assert data(client, "/labels", **within) == ["__name__", "http_route", "instance", "job", "le", "room"]
    assert data(client, "/labels", **{"match[]": "heat_ratio", **within}) == ["__name__", "instance", "job", "room"]
    assert data(client, "/label/job/values", **within) == ["cart", "shop/cart", "shop/web", "web"]
    assert data(client, "/label/room/values", **within) == [HOSTILE]
    assert data(client, "/label/job/values", **{"match[]": "heat_ratio", **within}) == ["cart"]
    series = data(client, "/series", **{"match[]": ["heat_ratio", 'jobs_done_total{job="shop/web"}'], **within})
    assert [one["__name__"] for one in series] == ["heat_ratio", "jobs_done_total"]
    found = data(client, "/metadata")
    assert found["heat_ratio"] == [{"type": "gauge", "help": "how hot", "unit": "1"}]
    assert found["jobs_done_total"][0]["type"] == "counter"
    assert data(client, "/metadata", metric="heat_ratio").keys() == {"heat_ratio"}
    assert data(client, "/status/buildinfo")["version"]


@pytest.mark.parametrize(
    ("name", "unit", "kind", "monotonic", "expected"),
    [
        ("http.server.duration", "ms", "histogram", False, "http_server_duration_milliseconds"),
        ("http.server.duration.seconds", "s", "histogram", False, "http_server_duration_seconds"),
        ("system.io", "By", "sum", True, "system_io_bytes_total"),
        ("requests_total", "1", "sum", True, "requests_total"),
        ("load", "1", "gauge", False, "load_ratio"),
        ("speed", "m/s", "gauge", False, "speed_meters_per_second"),
        ("active", "{request}", "sum", False, "active"),
        ("2xx", "", "gauge", False, "_2xx"),
        ("...", "", "gauge", False, "_"),
    ],
)
def test_names_are_translated_by_opentelemetrys_rules(
    name: str, unit: str, kind: str, monotonic: bool, expected: str
) -> None:
    assert base_name(name, unit, kind, monotonic) == expected


@pytest.mark.parametrize(
    "path",
    [
        "/query?query=",
        "/query?query=sum(",
        "/query?query=x&time=nonsense",
        "/query_range?query=x&start=9&end=8&step=1",
        "/query_range?query=x&start=1&end=2000000000&step=1",
        "/query_range?query=x&start=1&end=2",
        "/query_range?query=x&start=1&end=2&step=-1",
        "/query_range?query=x&start=1&end=2&step=nonsense",
        "/query?query=x{a=~%22(%22}",
        "/query?query={a=~%22.*%22}",
        "/series",
        "/series?match[]=rate(x[5m])",
        "/label/job/values?match[]={",
        "/nothing",
    ],
)
def test_errors_are_sentences_in_prometheus_envelope(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert answer.status_code in (400, 404), answer.text
    body = answer.json()
    assert body["status"] == "error"
    assert body["errorType"] in ("bad_data", "not_found")
    assert body["error"].endswith(".")


def test_hostile_labels_and_patterns_are_answered_or_refused(client: httpx.Client, begin: int) -> None:
    at = begin // SECOND + 300
    for text in ("\0", "\ud800", "'; drop", "(a+)+$", "a" * 900, HOSTILE, "(a{1000}){1000}", ".*" * 400):
        quoted = text.replace("\\", "\\\\").replace('"', '\\"').encode("utf-8", "surrogatepass")
        for operator in ("=", "=~", "!~"):
            raw = b"heat_ratio{room" + operator.encode() + b'"' + quoted + b'"}'
            query = "".join(f"%{one:02x}" for one in raw)
            assert client.get(f"/query?query={query}&time={at}").status_code in (200, 400), text


def test_an_answer_has_a_limit(client: httpx.Client, begin: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each value of an answer is a text: twenty million of them took gigabytes of the server."""
    monkeypatch.setattr(routes, "MOST_ANSWERED", 30)
    start = begin // SECOND + 300
    asked = {"query": "{__name__=~'.+'}", "start": start, "end": start + 10, "step": "1s"}
    answer = client.get("/query_range", params=asked)
    assert (answer.status_code, answer.json()["errorType"]) == (400, "bad_data")
    assert client.get("/query_range", params=asked | {"query": "count({__name__=~'.+'})"}).status_code == 200


def test_a_token_comes_as_header(measured: tuple[Lake, Any], serve: Serve, tmp_path: Path) -> None:
    access = AccessFile(tmp_path / "access.toml")
    secret = access.create("grafana", Role.READ)
    base = f"http://127.0.0.1:{serve(measured[0], access).port}/prometheus/api/v1/query?query=1"
    assert httpx.get(base).status_code == 401
    assert httpx.get(base, headers={"authorization": f"Bearer {secret}"}).json()["data"]["result"][1] == "1"
    assert (
        httpx.post(base.replace("query?", "metadata?"), headers={"authorization": f"Bearer {secret}"}).status_code
        == 403
    )


def test_a_query_may_be_posted_as_a_form(measured: tuple[Lake, Any], serve: Serve, tmp_path: Path) -> None:
    access = AccessFile(tmp_path / "access.toml")
    headers = {"authorization": f"Bearer {access.create('grafana', Role.READ)}"}
    base = f"http://127.0.0.1:{serve(measured[0], access).port}/prometheus/api/v1"
    answer = httpx.post(f"{base}/query", data={"query": "1 + 2"}, headers=headers)
    assert answer.json()["data"]["result"][1] == "3"
    assert httpx.post(f"{base}/series", data={"match[]": ["heat_ratio", "x"]}, headers=headers).status_code == 200
    assert httpx.post(f"{base}/query", data={"query": "1" * 100_000}, headers=headers).status_code == 400
    assert httpx.post(f"{base}/query", content=b"{}", headers=headers).status_code == 400
    assert httpx.post(f"{base}/query", data={"query": "1"}).status_code == 401


def test_a_lake_without_telemetry_says_what_to_do(lake: Lake, serve: Serve) -> None:
    answer = httpx.get(f"http://127.0.0.1:{serve(lake).port}/prometheus/api/v1/query?query=up")
    assert answer.status_code == 404
    assert "moulin init --otel" in answer.json()["error"]
