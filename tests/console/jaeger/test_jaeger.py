"""Jaeger's query API: routes, parameters, errors, and its JSON, as Jaeger's own code makes it of the same spans."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pytest

import moulin
from moulin.formats.baby_segment import Payload
from moulin.ingest.setup import set_up
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.roles import Role
from moulin.pipeline.nursery.nursery import Nursery
from tests.console.conftest import HOSTILE, Serve
from tests.console.logs import Writer
from tests.console.spans import Sent, span_request

MS, SECOND = 1_000_000, 1_000_000_000
REFEREE = Path(__file__).parent / "referee"


def sent(now: int) -> list[Sent]:
    """Two traces of two services, with whatever a span can carry."""
    attributes = {"http.method": "GET", "port": 8080, "ratio": 0.5, "secure": True, "key": b"\x01\xff", "id": 2**60}
    return [
        Sent(1, 10, None, now, now + 100 * MS, "web", "POST /orders", attributes=attributes),
        Sent(
            1,
            11,
            10,
            now + 10 * MS + 1234,
            now + 60 * MS + 7,
            "stock",
            "take",
            failed=True,
            kind=3,
            events=((now + 11 * MS, "exception", {"exception.message": HOSTILE}),),
            links=((2, 20),),
        ),
        Sent(2, 20, None, now - 5 * SECOND, now - 4 * SECOND, "web", "GET /", kind=1),
        Sent(2, 21, 99, now - 5 * SECOND, now - 5 * SECOND, "web", "lost", kind=0),
    ]


@pytest.fixture
def now() -> int:
    return time.time_ns() - 60 * SECOND


@pytest.fixture
def traced(tmp_path: Path, now: int) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake") as lake:
        token = set_up(lake).token
        assert token is not None
        spans = sent(now)
        writer = Writer(lake, token)
        writer.send(span_request(spans[2:]), payload=Payload.TRACES)
        Nursery(lake, spark=False).run_once()
        writer.send(span_request(spans[:2]), payload=Payload.TRACES)
        yield lake


@pytest.fixture
def jaeger(traced: Lake, serve: Serve) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{serve(traced).port}/jaeger/api", timeout=60) as client:
        yield client


def data(client: httpx.Client, path: str, **query: Any) -> Any:
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body.keys() == {"data", "total", "limit", "offset", "errors"}
    assert body["total"] == len(body["data"])
    return body["data"]


def test_services_operations_and_calls_are_listed(jaeger: httpx.Client, now: int) -> None:
    assert data(jaeger, "/services") == ["stock", "web"]
    assert data(jaeger, "/services/web/operations") == ["GET /", "POST /orders", "lost"]
    assert data(jaeger, "/services/nobody%2Felse/operations") == []
    assert {"name": "take", "spanKind": "client"} in data(jaeger, "/operations", service="stock")
    assert data(jaeger, "/operations", service="web", spanKind="internal") == [
        {"name": "GET /", "spanKind": "internal"}
    ]
    calls = [{"parent": "web", "child": "stock", "callCount": 1}]
    assert data(jaeger, "/dependencies", endTs=now // MS + 60_000, lookback=3_600_000) == calls
    assert data(jaeger, "/dependencies", endTs=now // MS - 60_000, lookback=1000) == []
    assert data(jaeger, "/dependencies") == calls


def test_a_search_finds_the_traces_that_fit_newest_first(jaeger: httpx.Client, now: int) -> None:
    first, second = f"{1:032x}", f"{2:032x}"
    micros = now // 1000
    asks: list[tuple[dict[str, Any], list[str]]] = [
        ({}, [first, second]),
        ({"limit": 1}, [first]),
        ({"operation": "GET /"}, [second]),
        ({"operation": ""}, [first, second]),
        ({"minDuration": "0.5s"}, [second]),
        ({"minDuration": "50ms", "maxDuration": "200ms"}, [first]),
        ({"tags": '{"http.method":"GET","port":"8080"}'}, [first]),
        ({"tag": ["http.method:GET", "span.kind:server"]}, [first]),
        ({"tags": '{"error":"true"}'}, []),
        ({"start": micros - 10_000_000, "end": micros - 1_000_000}, [second]),
    ]
    for query, expected in asks:
        found = data(jaeger, "/traces", service="web", **query)
        assert [one["traceID"] for one in found] == expected, query
    assert [one["traceID"] for one in data(jaeger, "/traces", service="stock", tags='{"error":"true"}')] == [first]
    both = jaeger.get("/traces", params={"traceID": ["1", "3", "2"]}).json()
    assert [one["traceID"] for one in both["data"]] == [first, second]
    assert [(one["code"], one["traceID"]) for one in both["errors"]] == [(404, "3")]


def test_a_trace_is_what_jaeger_says_of_its_spans(jaeger: httpx.Client, now: int) -> None:
    (trace,) = data(jaeger, "/traces/1")
    child = next(one for one in trace["spans"] if one["spanID"] == f"{11:016x}")
    assert (child["startTime"], child["duration"]) == ((now + 10 * MS + 1234) // 1000, (50 * MS - 1227) // 1000)
    assert child["references"] == [
        {"refType": "CHILD_OF", "traceID": f"{1:032x}", "spanID": f"{10:016x}"},
        {"refType": "FOLLOWS_FROM", "traceID": f"{2:032x}", "spanID": f"{20:016x}"},
    ]
    assert {"key": "error", "type": "bool", "value": True} in child["tags"]
    assert {"key": "event", "type": "string", "value": "exception"} in child["logs"][0]["fields"]
    assert trace["processes"][child["processID"]]["serviceName"] == "stock"
    root = next(one for one in trace["spans"] if one["spanID"] == f"{10:016x}")
    tags = {one["key"]: (one["type"], one["value"]) for one in root["tags"]}
    assert (tags["port"], tags["secure"], tags["ratio"]) == (("int64", 8080), ("bool", True), ("float64", 0.5))
    assert (tags["id"], tags["key"]) == (("int64", str(2**60)), ("binary", "Af8="))
    assert (tags["span.kind"], tags["otel.scope.name"]) == (("string", "server"), ("string", "http.server"))


@pytest.mark.long
def test_jaegers_own_code_shows_the_same_spans_alike(jaeger: httpx.Client, now: int, tmp_path: Path) -> None:
    """The referee is a program of Jaeger's packages, built here: that takes minutes where it was never built."""
    program = os.environ.get("JAEGER_REFEREE")
    if program is None:
        if shutil.which("go") is None:
            pytest.skip("Go is not installed: it builds the referee.")
        program = str(tmp_path / "referee")
        subprocess.run(["go", "build", "-o", program, "."], cwd=REFEREE, check=True)
    spans = sent(now)
    shown = []
    for part in (spans[:2], spans[2:]):
        done = subprocess.run([program], input=span_request(part), capture_output=True, check=True)
        shown += [json.loads(line) for line in done.stdout.splitlines()]
    for expected in shown:
        (found,) = data(jaeger, f"/traces/{expected['traceID']}")
        assert found.keys() == expected.keys()
        assert sorted(map(normal(found), found["spans"])) == sorted(map(normal(expected), expected["spans"]))


def normal(trace: dict[str, Any]) -> Any:
    """A span with its process in it, ids of one length, and tags in one order."""

    def of(span: dict[str, Any]) -> str:
        process = trace["processes"][span["processID"]]
        shown = {**span, "processID": "", "process": {**process, "tags": in_order(process["tags"])}}
        shown |= {"traceID": UUID(span["traceID"].rjust(32, "0")).hex, "flags": span.get("flags", 0)}
        shown |= {
            "tags": in_order(span["tags"]),
            "logs": [{**x, "fields": in_order(x["fields"])} for x in span["logs"]],
        }
        shown["references"] = [{**one, "traceID": one["traceID"].rjust(32, "0")} for one in span["references"]]
        return json.dumps(shown, sort_keys=True)

    return of


def in_order(tags: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(tags, key=lambda one: str(one["key"]))


@pytest.mark.parametrize(
    "path",
    [
        "/traces",
        "/traces?service=web&minDuration=fast",
        "/traces?service=web&minDuration=1x2s",
        "/traces?service=web&tags=nonsense",
        "/traces?service=web&tags=[1]",
        "/traces?service=web&tag=novalue",
        "/traces?service=web&limit=0",
        "/traces?service=web&start=9&end=8",
        "/traces?service=web&start=now",
        "/traces?service=web&tags={%22span.kind%22:%22odd%22}",
        "/traces/nonsense",
        "/traces/" + "a" * 40,
        "/traces/" + "a" * 32,
        "/operations",
        "/nothing",
        "/dependencies?endTs=-1",
    ],
)
def test_errors_are_sentences_in_jaegers_envelope(jaeger: httpx.Client, path: str) -> None:
    answer = jaeger.get(path)
    assert answer.status_code in (400, 404), answer.text
    body = answer.json()
    assert body["data"] is None
    assert body["errors"][0]["code"] == answer.status_code
    assert body["errors"][0]["msg"].endswith(".")


def test_a_token_comes_as_header(traced: Lake, serve: Serve, tmp_path: Path) -> None:
    access = AccessFile(tmp_path / "access.toml")
    secret = access.create("grafana", Role.READ)
    base = f"http://127.0.0.1:{serve(traced, access).port}/jaeger/api/services"
    assert httpx.get(base).status_code == 401
    assert httpx.get(base, headers={"authorization": f"Bearer {secret}"}).json()["data"] == ["stock", "web"]
    assert httpx.post(base, headers={"authorization": f"Bearer {secret}"}).status_code == 403
