"""Traces over the API: found, shown, counted; fresh spans and committed ones, of tables of either layout."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.console.telemetry import Moment
from moulin.formats.baby_segment import Payload
from moulin.ingest.setup import set_up
from moulin.lake import Lake
from moulin.model.otel import FORMER_SCHEMAS
from moulin.pipeline.nursery.nursery import Nursery
from tests.console.conftest import Api, Serve
from tests.console.logs import Writer, request
from tests.console.spans import Sent, span_request

MS, SECOND = 1_000_000, 1_000_000_000


@pytest.fixture
def fed(tmp_path: Path) -> Iterator[tuple[Lake, Writer]]:
    with moulin.connect(tmp_path / "lake") as lake:
        token = set_up(lake).token
        assert token is not None
        yield lake, Writer(lake, token)


def send(writer: Writer, *spans: Sent) -> None:
    writer.send(span_request(spans), payload=Payload.TRACES)


def take_in(lake: Lake) -> None:
    Nursery(lake, spark=False).run_once()


def order(trace: int, start: int) -> list[Sent]:
    """A trace of three services, one call of which fails."""
    return [
        Sent(trace, trace * 10, None, start, start + 100 * MS, "web", "POST /orders"),
        Sent(trace, trace * 10 + 1, trace * 10, start + 10 * MS, start + 90 * MS, "cart", "reserve", kind=3),
        Sent(trace, trace * 10 + 2, trace * 10 + 1, start + 20 * MS, start + 60 * MS, "stock", "take", failed=True),
    ]


@pytest.fixture(params=["fresh", "committed", "former"])
def api(request: pytest.FixtureRequest, tmp_path: Path, serve: Serve) -> Iterator[Api]:
    """Thirty orders, a second apart, the newest a minute old, and a log record of the newest's last span."""
    with moulin.connect(tmp_path / "lake") as lake:
        if request.param == "former":
            lake.create_database("otel")
            for name, schema in FORMER_SCHEMAS.items():
                lake.create_table(f"otel.{name}", schema, event_time="event_time")
        token = set_up(lake).token
        assert token is not None
        writer, now = Writer(lake, token), time.time_ns() - 60 * SECOND
        for number in range(1, 31):
            send(writer, *order(number, now - (30 - number) * SECOND))
        writer.send(_log(now, 30))
        if request.param != "fresh":
            take_in(lake)
        found = serve(lake)
        found.headers["x-now"] = str(now)
        yield found


def _log(at: int, trace: int) -> bytes:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    made = ExportLogsServiceRequest.FromString(request([(at + 30 * MS, "out of stock")], service="stock", severity=17))
    record = made.resource_logs[0].scope_logs[0].log_records[0]
    record.trace_id, record.span_id = trace.to_bytes(16, "big"), (trace * 10 + 2).to_bytes(8, "big")
    return made.SerializeToString()  # type: ignore[no-any-return]


def all_pages(api: Api, **query: Any) -> list[Any]:
    found, cursor = [], None
    while True:
        page = api.json("/traces", **query, **({"cursor": cursor} if cursor else {}))
        found += page["items"]
        if (cursor := page["next_cursor"]) is None:
            return found


def test_traces_are_listed_shown_and_counted(api: Api) -> None:
    now = int(api.headers["x-now"])
    for limit in (11, 50):
        found = all_pages(api, limit=limit)
        assert [int(one["id"], 16) for one in found] == list(range(30, 0, -1))
    newest = found[0]
    assert (newest["service"], newest["operation"], newest["rooted"]) == ("web", "POST /orders", True)
    assert (newest["start"], newest["duration"]) == (str(now), str(100 * MS))
    assert (newest["spans"], newest["errors"]) == (3, 1)
    assert [(x["service"], x["errors"]) for x in newest["services"]] == [("cart", 0), ("stock", 1), ("web", 0)]

    trace = api.json(f"/traces/{newest['id']}")
    rows = trace["rows"]
    assert [trace["services"][one]["service"] for one in rows["service"]] == ["web", "cart", "stock"]
    assert [trace["names"][one] for one in rows["name"]] == ["POST /orders", "reserve", "take"]
    assert (rows["parent"], rows["depth"]) == ([-1, 0, 1], [0, 1, 2])
    assert rows["start"] == [str(now), str(now + 10 * MS), str(now + 20 * MS)]
    assert rows["duration"] == [str(100 * MS), str(80 * MS), str(40 * MS)]
    assert rows["failed"] == [False, False, True]
    assert (trace["service"], trace["errors"], trace["notes"]) == ("web", 1, [])
    assert trace["critical"]["row"] == [0, 1, 2, 1, 0]
    assert [int(at) - now for at in trace["critical"]["start"]] == [0, 10 * MS, 20 * MS, 60 * MS, 90 * MS]
    assert api.json(f"/traces/{newest['id'].lstrip('0')}", at=now) == trace, "zeros in front may be left out"

    assert [(x["service"], x["spans"], x["errors"]) for x in api.json("/traces/services")["items"]] == [
        ("cart", 30, 0),
        ("stock", 30, 30),
        ("web", 30, 0),
    ]
    operations = api.json("/traces/operations", service="cart")["items"]
    assert operations == [{"name": "reserve", "kind": "client", "spans": 30}]
    calls = api.json("/traces/map")["calls"]
    assert [(x["parent"], x["child"], x["calls"], x["errors"]) for x in calls] == [
        ("cart", "stock", 30, 30),
        ("web", "cart", 30, 0),
    ]
    (line,) = api.json(f"/traces/{newest['id']}/logs")["items"]
    assert (line["body"], line["severity_number"], line["span_id"]) == ("out of stock", 17, f"{302:016x}")
    assert api.json(f"/traces/{newest['id']}/logs", span_id=f"{301:016x}")["items"] == []


def test_everything_that_was_sent_of_a_span_is_shown(fed: tuple[Lake, Writer], serve: Serve) -> None:
    lake, writer = fed
    at = time.time_ns() - SECOND
    attributes = {"http.route": "/a", "port": 8080, "ratio": 0.5, "secure": True, "key": b"\x01"}
    events = ((at + 5, "exception", {"exception.message": "line 1\nline 2"}),)
    send(writer, Sent(7, 8, 9, at, at + 50, attributes=attributes, events=events, links=((3, 4),), failed=True))
    for _ in range(2):
        api = serve(lake)
        (span,) = api.json(f"/traces/{7:032x}/spans/{8:016X}")["items"]
        shown = {one["key"]: (one["kind"], one["value"]) for one in span["attributes"]}
        assert shown.keys() == attributes.keys()
        assert shown["http.route"] == ("string", "/a")
        assert (shown["port"], shown["secure"]) == (("int64", "8080"), ("bool", "true"))
        assert (shown["ratio"], shown["key"][0]) == (("float64", "0.5"), "binary")
        assert {"key": "host.name", "kind": "string", "value": "h1"} in span["resource"]
        assert (span["parent_span_id"], span["status_code"], span["kind"]) == (f"{9:016x}", "error", "server")
        assert (span["start"], span["duration"], span["scope_name"]) == (str(at), "50", "http.server")
        (event,) = span["events"]
        assert (event["time"], event["name"]) == (str(at + 5), "exception")
        assert event["attributes"][0]["value"] == "line 1\nline 2"
        assert (span["links"][0]["trace_id"], span["links"][0]["span_id"]) == (f"{3:032x}", f"{4:016x}")
        take_in(lake)
    assert api.get(f"/traces/{7:032x}/spans/{99:016x}").status_code == 404


def test_filters_find_what_asking_span_by_span_finds(fed: tuple[Lake, Writer], serve: Serve) -> None:
    lake, writer = fed
    dice, now = random.Random(5), time.time_ns() - 60 * SECOND
    sent = []
    for number in range(400):
        start = now - dice.randrange(900 * SECOND)
        sent.append(
            Sent(
                dice.randrange(1, 90),
                number + 1,
                None if number % 3 == 0 else dice.randrange(1, 400),
                start,
                start + dice.randrange(3 * SECOND),
                dice.choice(["a", "b", "c"]),
                dice.choice(["x", "y"]),
                dice.random() < 0.1,
                {"user": f"u{dice.randrange(9)}"},
            )
        )
        if number in (150, 300):
            send(writer, *sent[number - 149 :])
            take_in(lake)
    send(writer, *sent[301:])
    send(writer, sent[0])
    api = serve(lake)
    asks: list[tuple[dict[str, Any], Any]] = [
        ({}, lambda one: True),
        ({"service": "a", "operation": "y"}, lambda one: (one.service, one.name) == ("a", "y")),
        ({"failed": "true"}, lambda one: one.failed),
        ({"min_duration": SECOND, "max_duration": 2 * SECOND}, lambda one: SECOND <= one.end - one.start <= 2 * SECOND),
        ({"attribute": ["user=u3", "host.name=h1"]}, lambda one: one.attributes["user"] == "u3"),
        (
            {"since": now - 500 * SECOND, "until": now - 200 * SECOND},
            lambda one: now - 500 * SECOND <= one.start < now - 200 * SECOND,
        ),
        ({"service": "nobody"}, lambda one: False),
    ]
    kept = [*sent[1:151], *sent[151:301], *sent[301:], sent[0]]
    for query, fits in asks:
        newest: dict[str, int] = {}
        for one in kept:
            if fits(one):
                newest[one.trace_id] = max(newest.get(one.trace_id, 0), one.start)
        expected = sorted(newest, key=lambda trace: (newest[trace], trace), reverse=True)
        for limit in (40, 200):
            assert [one["id"] for one in all_pages(api, limit=limit, **query)] == expected, query
    counts = Counter(one.service for one in kept)
    assert {x["service"]: x["spans"] for x in api.json("/traces/services")["items"]} == counts


def test_a_broken_trace_is_shown_with_notes(fed: tuple[Lake, Writer], serve: Serve) -> None:
    lake, writer = fed
    at = time.time_ns() - 10 * SECOND
    spans = [
        Sent(5, 1, None, at, at + SECOND),
        Sent(5, 2, 77, at + 5, at + 9, "lost"),
        Sent(5, 3, 4, at + 2, at + 9),
        Sent(5, 4, 3, at + 3, at + 9),
        Sent(5, 6, 6, at + 4, at + 9),
        Sent(5, 1, None, at + 8, at + 9, "twin"),
        Sent(5, 7, 1, at - 50 * SECOND, at + 9, "skewed"),
        Sent(5, 8, 1, at + 60, at + 20, "backwards"),
    ]
    send(writer, *spans)
    send(writer, spans[0], spans[1])
    api = serve(lake)
    trace = api.json(f"/traces/{5:032x}")
    assert len(trace["rows"]["span_id"]) == len(spans)
    assert trace["notes"] == [
        "Spans that name a parent that is not there; they are shown as roots: 1.",
        "Spans that have themselves among their parents; they are shown as roots: 2.",
        "Spans that have the id of another span; children are shown below the first one: 1.",
        "Spans that begin before their parents, since the clocks of their hosts differ: 1.",
        "Spans that came again with the same content, and are shown once: 2.",
    ]
    assert trace["duration"] == str(51 * SECOND)
    assert len(api.json(f"/traces/{5:032x}/spans/{1:016x}")["items"]) == 2


def test_a_trace_longer_than_its_surroundings_is_shown_whole(fed: tuple[Lake, Writer], serve: Serve) -> None:
    lake, writer = fed
    at = time.time_ns() - 7200 * SECOND
    send(writer, *(Sent(5, n + 1, n or None, at + n * 240 * SECOND, at + n * 240 * SECOND + 5) for n in range(20)))
    take_in(lake)
    api = serve(lake)
    for around in (at, at + 2400 * SECOND, None):
        query = {} if around is None else {"at": around}
        assert len(api.json(f"/traces/{5:032x}", **query)["rows"]["span_id"]) == 20
    missed = api.json(f"/traces/{5:032x}", at=1)
    assert len(missed["rows"]["span_id"]) == 20, "a wrong time costs time, and nothing else"


def test_the_cost_of_a_trace_does_not_grow_with_the_table(
    fed: tuple[Lake, Writer], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake, writer = fed
    now, read = time.time_ns(), []
    for day in range(8):
        send(writer, *order(day + 1, now - (day * 86400 + 60) * SECOND))
        take_in(lake)
    api = serve(lake)
    usual = Moment.batches

    def watched(self: Any, asked: Any, columns: Any, *, go_on: Any) -> Iterator[Any]:
        read.append(len(self._snapshot.scan(columns=list(columns), where=asked).plan().segments))
        yield from usual(self, asked, columns, go_on=go_on)

    monkeypatch.setattr(Moment, "batches", watched)
    whole = lake.table("otel.traces").stats().segments
    assert whole >= 8
    assert api.json(f"/traces/{1:032x}")["rows"]["depth"] == [0, 1, 2]
    assert max(read) == 1, "the newest is found before older days are read"
    read.clear()
    assert api.json(f"/traces/{7:032x}", at=now - 6 * 86400 * SECOND)["rows"]["depth"] == [0, 1, 2]
    assert max(read) == 1
    read.clear()
    api.json("/traces", limit=1)
    assert max(read) == 1


@pytest.mark.parametrize(
    "path",
    [
        "/traces/nonsense",
        "/traces/" + "a" * 33,
        "/traces/00/spans/1",
        "/traces?attribute=x",
        "/traces?attribute==x",
        "/traces?since=5&until=4",
        "/traces?min_duration=-1",
        "/traces?since=99999999999999999999",
        "/traces?cursor=W10",
        "/traces?table=00000000-0000-0000-0000-000000000000",
        "/traces/" + "a" * 32,
        "/traces?last=0",
    ],
)
def test_strange_questions_get_a_sentence(fed: tuple[Lake, Writer], serve: Serve, path: str) -> None:
    answer = serve(fed[0]).get(path)
    assert answer.status_code in (400, 404), answer.text
    assert answer.json()["error"]["message"]


def test_a_lake_without_spans_says_how_to_get_some(lake: Lake, serve: Serve) -> None:
    answer = serve(lake).get("/traces")
    assert answer.status_code == 404
    assert "init --otel" in answer.json()["error"]["message"]
