"""Logs over the API: searches find what plain Python finds, counts agree with rows, each record comes once."""

from __future__ import annotations

import json
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pyarrow as pa
import pytest

import moulin
from moulin.console.api import logs as routes
from moulin.console.logs.levels import ALL
from moulin.ingest.setup import set_up
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.roles import Role
from moulin.model.otel import FORMER_SCHEMAS
from moulin.pipeline.nursery.nursery import Nursery
from tests.console.conftest import Api, Serve
from tests.console.logs import Writer, request

SECOND = 1_000_000_000
Row = dict[str, Any]
SEVERITIES = {"info": 9, "warn": 13, "error": 17, "debug": 5, "fatal": 21, "trace": 1, "unknown": 0}
HOSTILE = "<img src=x onerror=pwned=1> \x1b[31mred\x1b[0m \u202eevil\x07 100%_\\ \"quoted\" 'it''s'"


@pytest.fixture
def otel(tmp_path: Path) -> Iterator[tuple[Lake, Writer]]:
    with moulin.connect(tmp_path / "lake") as lake:
        token = set_up(lake).token
        assert token is not None
        yield lake, Writer(lake, token)


def send(lake: Lake, writer: Writer, *, count: int = 300, begin: int | None = None, spread: int = SECOND) -> list[Row]:
    """Random records, two thirds of them committed; what was sent."""
    dice = random.Random(1)
    begin = time.time_ns() - 600 * SECOND if begin is None else begin
    sent: list[Row] = []
    for part in range(3):
        for service in ("cart", "pay", "Cart"):
            level = dice.choice(list(SEVERITIES))
            records = []
            for n in range(count // 9):
                body = dice.choice(["timed out after 3 s", "served /items", "TIMED OUT", HOSTILE, ""]) + f" {part} {n}"
                attributes = {"http.route": dice.choice(["/a", "/b"])} if dice.random() < 0.7 else {}
                at = begin + dice.randrange(count) * spread
                records.append((at, body, attributes))
                sent.append({"time": at, "body": body, "level": level, "service": service, "attributes": attributes})
            writer.send(request(records, service=service, severity=SEVERITIES[level]))
        if part < 2:
            Nursery(lake, spark=False).run_once()
    return sent


def search(api: Api, **query: Any) -> list[Row]:
    """All pages of a search."""
    found: list[Row] = []
    cursor: dict[str, Any] = {}
    while True:
        page = api.json("/logs/search", **{"last": 3600, **query, **cursor})
        found += page["items"]
        if page["next_cursor"] is None:
            return found
        cursor = {"cursor": page["next_cursor"], "start": page["start"], "end": page["end"]}


def texts(found: list[Row]) -> list[str]:
    return sorted(one["body"] for one in found)


SEARCHES: list[tuple[str, Callable[[Row], bool]]] = [
    ("", lambda r: True),
    ("timed", lambda r: "timed" in r["body"].lower()),
    (
        'level:error service:cart "timed out"',
        lambda r: r["level"] == "error" and r["service"] == "cart" and "timed out" in r["body"].lower(),
    ),
    ("level:>=warn", lambda r: r["level"] in ("warn", "error", "fatal")),
    ("-level:info -served", lambda r: r["level"] != "info" and "served" not in r["body"]),
    ("level:unknown OR level:<debug", lambda r: r["level"] in ("unknown", "trace")),
    ("level:*", lambda r: r["level"] != "unknown"),
    ("service:c*", lambda r: r["service"] == "cart"),
    ("http.route:/a", lambda r: r["attributes"].get("http.route") == "/a"),
    ("-http.route:*", lambda r: not r["attributes"]),
    ("NOT (http.route:/a OR http.route:/b)", lambda r: not r["attributes"]),
    (
        "resource.service.name:pay AND attributes.http.route:/b",
        lambda r: r["service"] == "pay" and r["attributes"].get("http.route") == "/b",
    ),
    (r"100%_\\", lambda r: "100%_\\" in r["body"]),
    ('"\\"quoted\\" \'it"', lambda r: '"quoted"' in r["body"]),
    ("timed*out", lambda r: "timed out" in r["body"].lower()),
    ("<img", lambda r: "<img" in r["body"]),
]


def test_searches_find_what_plain_python_finds(otel: tuple[Lake, Writer], serve: Serve) -> None:
    lake, writer = otel
    sent = send(lake, writer)
    api = serve(lake)
    for text, holds in SEARCHES:
        expected = sorted(row["body"] for row in sent if holds(row))
        assert texts(search(api, q=text, limit=1000)) == expected, text
        shown = api.json("/logs/histogram", q=text, last=3600)
        assert int(shown["total"]) == len(expected), text
        counted = {one["level"]: sum(one["counts"]) for one in shown["levels"]}
        assert counted == Counter(row["level"] for row in sent if holds(row)), text
    both = search(api, q="timed", where="service_name = 'pay' and attributes['http.route'] = '/a'")
    assert texts(both) == sorted(
        r["body"]
        for r in sent
        if "timed" in r["body"].lower() and r["service"] == "pay" and r["attributes"].get("http.route") == "/a"
    )


def test_pages_have_each_record_once_also_when_many_share_a_time(otel: tuple[Lake, Writer], serve: Serve) -> None:
    lake, writer = otel
    begin = time.time_ns() - 600 * SECOND
    sent = send(lake, writer, begin=begin, spread=0) + send(lake, writer, begin=begin + 7, spread=1)
    api = serve(lake)
    for limit in (7, 100, 1000):
        found = search(api, limit=limit)
        assert texts(found) == sorted(row["body"] for row in sent)
        times = [int(one["time"]) for one in found]
        assert times == sorted(times, reverse=True)
    page = api.json("/logs/search", last=3600, limit=50)
    Nursery(lake, spark=False).run_once()
    lake.table("otel.logs").compact(everything=True)
    rest = search(api, limit=50, cursor=page["next_cursor"], start=page["start"], end=page["end"])
    assert texts(page["items"] + rest) == sorted(row["body"] for row in sent), "pages go on after a compaction"


def test_a_histogram_has_the_whole_range_in_readable_steps(otel: tuple[Lake, Writer], serve: Serve) -> None:
    lake, writer = otel
    begin = (time.time_ns() // (3600 * SECOND) - 2) * 3600 * SECOND
    writer.send(request([(begin + n * 60 * SECOND, str(n)) for n in range(60)]))
    api = serve(lake)
    shown = api.json("/logs/histogram", start=begin, end=begin + 3600 * SECOND, buckets=13)
    assert (shown["first"], shown["step"]) == (str(begin), str(300 * SECOND))
    (only,) = shown["levels"]
    assert (only["level"], only["counts"]) == ("info", [5] * 12)
    cut = api.json("/logs/histogram", start=begin + 59 * SECOND, end=begin + 301 * SECOND, buckets=3)
    assert int(cut["total"]) == 5
    assert int(cut["first"]) <= begin + 59 * SECOND


def test_facets_count_the_values_of_fields(otel: tuple[Lake, Writer], serve: Serve) -> None:
    lake, writer = otel
    sent = send(lake, writer)
    found = serve(lake).json("/logs/facets", last=3600, field=["service", "level", "http.route", "nothing"])
    shown = {one["field"]: {v["value"]: v["count"] for v in one["values"]} for one in found["items"]}
    assert shown["service"] == Counter(row["service"] for row in sent)
    assert shown["level"] == Counter(row["level"] for row in sent)
    assert shown["http.route"] == Counter(row["attributes"].get("http.route") for row in sent)
    assert shown["nothing"] == {None: len(sent)}
    assert found["attributes"] == ["http.route"]


def test_a_record_is_shown_whole_with_what_happened_around_it(otel: tuple[Lake, Writer], serve: Serve) -> None:
    lake, writer = otel
    begin = time.time_ns() - 60 * SECOND
    long = "x" * 100_000
    writer.send(request([(begin + n, f"{n:02}" if n != 5 else long) for n in range(10)]))
    writer.send(request([(begin + 5, "same time"), (begin + 100, "later")], service="pay"))
    Nursery(lake, spark=False).run_once()
    writer.send(request([(begin + 8, "fresh")]))
    api = serve(lake)
    (listed,) = search(api, q="xxx")
    assert len(listed["body"]) < 3000
    detail = api.json(f"/logs/records/{listed['id']}")
    assert detail["fields"]["body"] == long
    assert detail["fields"]["resource"]["service.name"] == "cart"
    context = api.json("/logs/context", id=listed["id"], before=3, after=4)
    around = [one["body"] for one in context["after"]] + [one["body"] for one in context["before"]]
    assert set(around) - {"same time"} in (
        {"04", "03", "02", "06", "07", "08", "fresh"},
        {"04", "03", "06", "07", "08", "fresh"},
        {"04", "03", "02", "06", "07", "08"},
        {"04", "03", "02", "06", "07", "fresh"},
    )
    assert "same time" in around
    assert len(around) == 7
    own = api.json("/logs/context", id=listed["id"], q="service:cart", before=3, after=4)
    assert [one["body"] for one in own["before"]] == ["04", "03", "02"]
    gone = api.get("/logs/records/" + routes.to_cursor(begin, "00"))
    assert gone.status_code == 404
    assert api.get("/logs/records/nonsense").status_code == 400


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('level:error "timed', "column 13: this quote is not closed"),
        ("(a b", "column 1: this ( is not closed"),
        ("a ) b", "column 3: unmatched )"),
        ("level:loud", "column 7: a level must be one of trace"),
        ("a OR", "column 5: a search term is missing"),
        ("OR a", "column 1: a search term is missing before this"),
        ("service:", "column 1: a value is missing after this field"),
        ("a " * 65, "column 129: a search has at most 64 terms"),
        ("(" * 17 + "a", "at most 16 deep"),
        ("-", ""),
        ("NOT", "column 4: a search term is missing"),
    ],
)
def test_a_search_that_cannot_be_read_is_refused_at_its_column(
    otel: tuple[Lake, Writer], serve: Serve, text: str, said: str
) -> None:
    api = serve(otel[0])
    for route in ("search", "histogram", "facets", "tail"):
        answer = api.get(f"/logs/{route}", params={"q": text}) if said or route != "tail" else None
        if answer is None:
            continue
        assert answer.status_code == (400 if said else 200), answer.text
        assert said in answer.text.replace("\\", "")


def test_hostile_questions_are_answered_or_refused_in_a_sentence(otel: tuple[Lake, Writer], serve: Serve) -> None:
    lake, writer = otel
    send(lake, writer, count=9)
    api = serve(lake)
    hostile = [
        "\0",
        "\ud800",
        "'; drop table logs --",
        "a" * 2001,
        "*" * 500,
        "%" * 500,
        "\\",
        '"\\',
        "::::",
        "-" * 999,
        "((((",
        "http://x/y",
        "body:*",
        "trace:zz",
        "attributes.:x",
        "resource.:x",
        "level:>",
        HOSTILE,
    ]
    for text in hostile:
        for route in ("search", "histogram", "facets"):
            encoded = quote(text.encode("utf-8", "surrogatepass"))
            for query in (f"q={encoded}", f"where={encoded}", f"cursor={encoded}", f"field={encoded}"):
                answer = api.get(f"/logs/{route}?{query}")
                assert answer.status_code in (200, 400), (text, route, answer.text)
    for query in ("start=5&end=5", "start=1e3", "last=0", "limit=0", f"start={1 << 63}", "table=nonsense"):
        assert api.get(f"/logs/search?{query}").status_code == 400, query
    assert api.get("/logs/search", params={"table": "00000000-0000-0000-0000-000000000000"}).status_code == 404


def test_a_lake_without_telemetry_says_what_to_do(lake: Lake, serve: Serve) -> None:
    api = serve(lake)
    assert api.json("/logs/tables")["items"] == []
    for route in ("search", "histogram", "facets", "tail"):
        answer = api.get(f"/logs/{route}")
        assert answer.status_code == 404
        assert "moulin init --otel" in answer.json()["error"]["message"]


def test_tables_of_earlier_versions_have_ids_as_hex(lake: Lake, serve: Serve) -> None:
    lake.create_database("d")
    table = lake.create_table("d.logs", FORMER_SCHEMAS["logs"], event_time="event_time")
    trace = bytes(range(16))
    now = time.time_ns()
    table.append(
        pa.Table.from_pylist(
            [{"event_time": now, "ingest_time": now, "body": "x", "trace_id": trace, "severity_text": "WARNING"}],
            FORMER_SCHEMAS["logs"],
        )
    )
    api = serve(lake)
    for text in (f"trace:{trace.hex().upper()}", "level:warn", "-trace:00"):
        (found,) = search(api, q=text)
        assert (found["trace_id"], found["time"], found["level"]) == (trace.hex(), str(now), "warn")


class Followed:
    """Events of a tail, read in a thread."""

    def __init__(self, api: Api, **query: Any) -> None:
        self.items: list[Row] = []
        self.events: list[str] = []
        self.last = ""
        self._api, self._query = api, query
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        name = ""
        headers = dict(self._api.headers)
        url = f"http://127.0.0.1:{self._api.port}/api/v1/logs/tail"
        with httpx.stream("GET", url, params=self._query, headers=headers, timeout=60) as answer:
            for line in answer.iter_lines():
                if line.startswith("event: "):
                    name = line[7:]
                    self.events.append(name)
                elif line.startswith("data: ") and name == "records":
                    self.items += json.loads(line[6:])["items"]
                elif line.startswith("id: "):
                    self.last = line[4:]

    def wait(self, holds: Callable[[], bool]) -> None:
        end = time.monotonic() + 30
        while not holds():
            assert time.monotonic() < end, (self.events, self.items)
            time.sleep(0.05)


def test_a_tail_has_each_record_once_whatever_is_committed(otel: tuple[Lake, Writer], serve: Serve) -> None:
    lake, writer = otel
    writer.send(request([(time.time_ns(), "before")]))
    api = serve(lake)
    tail = Followed(api, q="-noise")
    tail.wait(lambda: "beat" in tail.events)
    expected = []
    for n in range(12):
        writer.send(request([(time.time_ns(), f"r{n}"), (time.time_ns(), "noise")]))
        expected.append(f"r{n}")
        if n % 3 == 0:
            Nursery(lake, spark=False).run_once()
        time.sleep(0.1)
    tail.wait(lambda: len(tail.items) >= 12)
    assert texts(tail.items) == sorted(expected)
    later = Followed(api, q="-noise", since=tail.last)
    writer.send(request([(time.time_ns(), "after")]))
    Nursery(lake, spark=False).run_once()
    later.wait(lambda: bool(later.items))
    assert texts(later.items) == ["after"], "it goes on where the other was"
    assert api.server is not None
    api.server.stop()
    tail.wait(lambda: tail.events[-1] == "end")


def test_a_tail_ends_when_its_token_is_revoked(otel: tuple[Lake, Writer], serve: Serve, tmp_path: Path) -> None:
    access = AccessFile(tmp_path / "access.toml")
    api = serve(otel[0], access, access.create("bob", Role.READ))
    tail = Followed(api)
    tail.wait(lambda: "beat" in tail.events)
    access.revoke("bob")
    tail.wait(lambda: tail.events[-1] == "end")


def test_tails_have_a_limit(otel: tuple[Lake, Writer], serve: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "MOST_TAILS", 1)
    api = serve(otel[0])
    tail = Followed(api)
    tail.wait(lambda: "beat" in tail.events)
    answer = api.get("/logs/tail")
    assert answer.status_code == 503
    assert "1 live tails are open" in answer.json()["error"]["message"]


def test_tails_that_are_asked_for_at_once_share_the_limit(
    otel: tuple[Lake, Writer], serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tail counted once it was open, so that many found room while the first of them was made."""
    monkeypatch.setattr(routes, "MOST_TAILS", 2)
    slow = routes.Tail
    monkeypatch.setattr(routes, "Tail", lambda *given: (time.sleep(0.5), slow(*given))[1])
    api = serve(otel[0])

    def status(_: int) -> int:
        with api.stream("GET", "/logs/tail") as answer:
            if answer.status_code == 200:
                time.sleep(1.5)
            return answer.status_code

    with ThreadPoolExecutor(6) as pool:
        assert sorted(pool.map(status, range(6))) == [200, 200, 503, 503, 503, 503]
    assert status(0) == 200
    monkeypatch.setattr(routes, "MOST_TAILS", 1)
    assert api.get("/logs/tail?q=level:%3E").status_code == 400
    tail = Followed(api)
    tail.wait(lambda: "beat" in tail.events)


def test_every_level_is_named_alike_in_searches_and_rows(otel: tuple[Lake, Writer], serve: Serve) -> None:
    lake, writer = otel
    now = time.time_ns()
    for number in range(-1, 27):
        writer.send(request([(now - number, str(number))], severity=number))
    api = serve(lake)
    named = {one["body"]: one["level"] for one in search(api)}
    assert named["4"] == "trace"
    assert named["24"] == "fatal"
    assert {named["0"], named["25"], named["-1"]} == {"unknown"}
    for level in ALL:
        assert {one["body"] for one in search(api, q=f"level:{level}")} == {
            b for b, one in named.items() if one == level
        }


def test_a_question_that_is_refused_names_the_condition(otel: tuple[Lake, Writer], serve: Serve) -> None:
    answer = serve(otel[0]).get("/logs/search", params={"where": "serivce_name = 'x'"})
    assert answer.status_code == 400
    assert "Did you mean 'service_name'" in answer.json()["error"]["message"]
