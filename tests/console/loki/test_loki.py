"""Loki's HTTP API: queries select and count what plain Python does, and logcli reads the answers."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import struct
import subprocess
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
import pytest

import moulin
from moulin.console.api.logs import MOST_TAILS
from moulin.ingest.setup import set_up
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.roles import Role
from moulin.pipeline.nursery.nursery import Nursery
from tests.console.conftest import HOSTILE, Serve
from tests.console.logs import Writer, request
from tests.network.sockets import CLOSE, TEXT, Client, Dial
from tests.network.sockets import dial as dial

SECOND = 1_000_000_000
SEVERITIES = {"debug": 5, "info": 9, "warn": 13, "error": 17}


@dataclass(frozen=True)
class Sent:
    time: int
    service: str
    level: str
    body: str
    route: str


@pytest.fixture
def sent() -> list[Sent]:
    """Records of ten minutes that began a quarter of an hour ago."""
    dice, begin = random.Random(9), time.time_ns() // SECOND * SECOND - 900 * SECOND
    bodies = ["served /items", "timed out after 3 s", "TIMED OUT", HOSTILE, 'a "quoted" line \\ here', ""]
    return [
        Sent(
            begin + dice.randrange(600) * SECOND + n,
            dice.choice(["cart", "pay", "web"]),
            dice.choice(list(SEVERITIES)),
            dice.choice(bodies),
            dice.choice(["/a", "/b", "17", "3.5"]),
        )
        for n in range(400)
    ]


@pytest.fixture
def logged(tmp_path: Path, sent: list[Sent]) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake") as lake:
        token = set_up(lake).token
        assert token is not None
        writer = Writer(lake, token)
        for half in (sent[:200], sent[200:]):
            for service in ("cart", "pay", "web"):
                for level, severity in SEVERITIES.items():
                    records = [
                        (one.time, one.body, {"http.route": one.route})
                        for one in half
                        if (one.service, one.level) == (service, level)
                    ]
                    if records:
                        writer.send(request(records, service=service, severity=severity))
            if half[0] is sent[0]:
                Nursery(lake, spark=False).run_once()
        yield lake


@pytest.fixture
def loki(logged: Lake, serve: Serve) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=f"http://127.0.0.1:{serve(logged).port}/loki/loki/api/v1", timeout=60) as client:
        yield client


def data(client: httpx.Client, path: str, **query: Any) -> Any:
    answer = client.get(path, params=query)
    assert answer.status_code == 200, answer.text
    body = answer.json()
    assert body["status"] == "success"
    return body["data"]


LOGS: list[tuple[str, Callable[[Sent], bool]]] = [
    ("{}", lambda one: True),
    ('{service_name="cart"}', lambda one: one.service == "cart"),
    ('{service_name=~"c.*|pay", level!="info"}', lambda one: one.service in ("cart", "pay") and one.level != "info"),
    ('{service_name!~"ca"}', lambda one: True),
    ('{service_name="cart"} |= "timed out"', lambda one: one.service == "cart" and "timed out" in one.body),
    ('{} |~ "(?i)timed out" != "after"', lambda one: "timed out" in one.body.lower() and "after" not in one.body),
    ('{} !~ "^served"', lambda one: not one.body.startswith("served")),
    ("{} |= `\"quoted\" line \\ h`", lambda one: "quoted" in one.body),
    ('{} |= "\\"quoted\\" line \\\\ h"', lambda one: "quoted" in one.body),
    ('{} |= "served" or "TIMED"', lambda one: "served" in one.body or "TIMED" in one.body),
    ('{} | http_route="/a" or http_route=~"1."', lambda one: one.route in ("/a", "17")),
    ('{} | http_route > 3 and detected_level="error"', lambda one: one.route in ("17", "3.5") and one.level == "error"),
    ('{level="error"} | http_route >= 17', lambda one: one.level == "error" and one.route == "17"),
    ('{level="nothing"}', lambda one: False),
    ('{nothing=""} | other=""', lambda one: True),
]  # fmt: skip


def found_lines(client: httpx.Client, sent: list[Sent], text: str, **query: Any) -> list[tuple[int, str, str, str]]:
    given = {"start": sent_range(sent)[0], "end": sent_range(sent)[1], "limit": 5000, **query}
    found = data(client, "/query_range", query=text, **given)
    assert found["resultType"] == "streams"
    return sorted(
        (int(value[0]), one["stream"]["service_name"], one["stream"]["level"], value[1])
        for one in found["result"]
        for value in one["values"]
    )


def sent_range(sent: list[Sent]) -> tuple[int, int]:
    return min(one.time for one in sent), max(one.time for one in sent) + 1


@pytest.mark.parametrize(("text", "holds"), LOGS)
def test_a_query_selects_what_plain_python_does(
    loki: httpx.Client, sent: list[Sent], text: str, holds: Callable[[Sent], bool]
) -> None:
    expected = sorted((one.time, one.service, one.level, one.body) for one in sent if holds(one))
    assert found_lines(loki, sent, text) == expected


def test_lines_come_in_the_order_and_number_that_was_asked_for(loki: httpx.Client, sent: list[Sent]) -> None:
    start, end = sent_range(sent)
    times = sorted(one.time for one in sent)
    for text in ("{}", '{} |~ ".*"'):
        newest = data(loki, "/query_range", query=text, start=start, end=end, limit=7)["result"]
        assert sorted(int(value[0]) for one in newest for value in one["values"]) == times[-7:]
        oldest = data(loki, "/query_range", query=text, start=start, end=end, limit=7, direction="forward")["result"]
        assert sorted(int(value[0]) for one in oldest for value in one["values"]) == times[:7]
        inside = found_lines(loki, sent, text, start=times[3], end=times[9])
        assert [one[0] for one in inside] == times[3:9]


def test_metadata_come_apart_when_they_are_asked_for_so(loki: httpx.Client, sent: list[Sent]) -> None:
    start, end = sent_range(sent)
    query = {"query": '{service_name="cart"} | http_route="/a"', "start": start, "end": end, "limit": 1}
    (plain,) = data(loki, "/query_range", **query)["result"]
    assert plain["stream"]["http_route"] == "/a"
    assert plain["stream"]["service_name"] == "cart"
    headers = {"X-Loki-Response-Encoding-Flags": "categorize-labels"}
    body = loki.get("/query_range", params=query, headers=headers).json()["data"]
    assert body["encodingFlags"] == ["categorize-labels"]
    (apart,) = body["result"]
    assert apart["stream"].keys() == {"level", "service_name"}
    assert apart["values"][0][2]["structuredMetadata"]["http_route"] == "/a"


def is_error(one: Sent) -> bool:
    return one.level == "error"


def size_of(rows: list[Sent]) -> float:
    return sum(len(one.body.encode()) for one in rows)


def most_of_a_service(rows: list[Sent]) -> float:
    return max(Counter(one.service for one in rows).values())


def mean_of_services(rows: list[Sent]) -> float:
    return len(rows) / len({one.service for one in rows})


COUNTS: list[tuple[str, tuple[str, ...], Callable[[Sent], bool], Callable[[list[Sent]], float]]] = [
    ("sum(count_over_time({}[1m]))", (), lambda one: True, len),
    ('sum by (service_name) (count_over_time({level="error"}[90s]))', ("service",), is_error, len),
    ("sum by (level) (rate({}[2m]))", ("level",), lambda one: True, lambda rows: len(rows) / 120),
    ("rate({}[1m])", ("level", "service"), lambda one: True, lambda rows: len(rows) / 60),
    ('sum(bytes_over_time({} |= "timed" [1m])) by (http_route)', ("route",), lambda one: "timed" in one.body, size_of),
    ("max without (service_name) (count_over_time({}[1m]))", ("level",), lambda one: True, most_of_a_service),
    ("avg by (level) (count_over_time({}[1m]))", ("level",), lambda one: True, mean_of_services),
    ("count(count_over_time({}[1m]))", (), lambda one: True, lambda rows: len({(x.service, x.level) for x in rows})),
]  # fmt: skip
NAMES = {"service": "service_name", "level": "level", "route": "http_route"}


@pytest.mark.parametrize(("text", "labels", "holds", "value"), COUNTS)
def test_counts_along_time_are_those_of_plain_python(
    loki: httpx.Client, sent: list[Sent], text: str, labels: tuple[str, ...], holds: Any, value: Any
) -> None:
    found = re.search(r"\[(\d+)([ms])\]", text)
    assert found is not None
    size = int(found[1]) * (60 if found[2] == "m" else 1) * SECOND
    start, end, step = sent_range(sent)[0], sent_range(sent)[1], 37 * SECOND
    expected: dict[Any, list[list[Any]]] = {}
    for at in range(start, end + 1, step):
        groups: dict[Any, list[Sent]] = {}
        for one in sent:
            if at - size < one.time <= at and holds(one):
                groups.setdefault(tuple(sorted((NAMES[name], getattr(one, name)) for name in labels)), []).append(one)
        for key, rows in groups.items():
            expected.setdefault(key, []).append([at / 1e9, pytest.approx(value(rows))])
    shown = data(loki, "/query_range", query=text, start=start, end=end, step="37s")
    assert shown["resultType"] == "matrix"
    got = {tuple(sorted(one["metric"].items())): [[at, float(x)] for at, x in one["values"]] for one in shown["result"]}
    assert got == expected
    instant = data(loki, "/query", query=text, time=start + 5 * step)
    values = {tuple(sorted(one["metric"].items())): float(one["value"][1]) for one in instant["result"]}
    at = (start + 5 * step) / 1e9
    assert values == {key: line[1] for key, lines in expected.items() for line in lines if line[0] == at}


def test_labels_series_volume_and_fields_are_listed(loki: httpx.Client, sent: list[Sent]) -> None:
    start, end = sent_range(sent)
    within = {"start": start, "end": end}
    assert data(loki, "/labels", **within) == ["level", "service_name"]
    assert data(loki, "/label/service_name/values", **within) == ["cart", "pay", "web"]
    assert data(loki, "/label/level/values", query='{service_name="cart"}', **within) == sorted(SEVERITIES)
    assert data(loki, "/label/other/values", **within) == []
    found = data(loki, "/series", **{"match[]": ['{service_name="cart"}', '{level="warn"}'], **within})
    assert len(found) == 4 + 2
    volume = data(loki, "/index/volume", query="{}", **within)["result"]
    sizes = Counter[str]()
    for one in sent:
        sizes[one.service] += len(one.body.encode())
    assert {one["metric"]["service_name"]: int(one["value"][1]) for one in volume} == sizes
    assert [int(one["value"][1]) for one in volume] == sorted(sizes.values(), reverse=True)
    stats = loki.get("/index/stats", params={"query": "{}", **within}).json()
    assert (stats["entries"], stats["bytes"], stats["streams"]) == (400, sum(sizes.values()), 12)
    fields = {
        one["label"]: one for one in loki.get("/detected_fields", params={"query": "{}", **within}).json()["fields"]
    }
    assert (fields["http_route"]["type"], fields["http_route"]["cardinality"]) == ("string", 4)
    values = loki.get("/detected_field/http_route/values", params={"query": "{}", **within}).json()["values"]
    assert values == sorted({one.route for one in sent})
    assert data(loki, "/query", query="vector(1)+vector(1)")["result"][0]["value"][1] == "2"


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ("", "begins with {"),
        ("{", "the name of a label is missing"),
        ('{a="b"', "} is missing"),
        ('{a=b}', "a text in quotes is missing"),
        ('{a~"b"}', "'~\"b\"}' is not served"),
        ("{} | json", "json, logfmt and other stages are not supported"),
        ("{} | logfmt | x=1", "not supported"),
        ('{} | line_format "x"', "not supported"),
        ("{} | unwrap x", "not supported"),
        ("topk(3, rate({}[1m]))", "begins with {"),
        ("quantile_over_time(0.9, {} | unwrap x [1m])", "begins with {"),
        ("rate({}[1m]) / 2", "is not served"),
        ("rate({}[1m] offset 5m)", ") is missing"),
        ("rate({}[5])", "A duration must be a number with"),
        ("rate({}[0s])", "too short"),
        ("{} |~ \"(\"", "A pattern cannot be read"),
        ("{a=~\"" + "a" * 2000 + "\"}", "A pattern has at most"),
        ("{a=~\"(a{1000}){1000}\"}", "A pattern cannot be read"),
        ("{} |= \"\\x\"", "unknown escape"),
        ("{}" + " |= \"a\"" * 60, "at most 50"),
        ("sum(sum(rate({}[1m])))", "expected one of"),
        ('{} |= "\\ud800"', "unknown escape"),
        ('{} |~ "\\udfff"', "unknown escape"),
        ('{} | http_route="\\ud800"', "unknown escape"),
    ],
)  # fmt: skip
def test_what_is_not_served_is_refused_with_the_reason(loki: httpx.Client, query: str, said: str) -> None:
    answer = loki.get("/query_range", params={"query": query})
    assert answer.status_code == 400, answer.text
    assert said in answer.text
    assert answer.text.endswith(".")


@pytest.mark.parametrize(
    "path",
    [
        "/query_range?query={}&start=nonsense",
        "/query_range?query={}&start=2026-13-01T00:00:00Z",
        "/query_range?query={}&start=9&end=8",
        "/query_range?query={}&limit=0",
        "/query_range?query={}&limit=99999",
        "/query_range?query={}&direction=up",
        "/query_range?query=rate({}[1m])&start=1&end=2000000000&step=1",
        "/query_range?query=rate({}[1m])&step=-1",
        "/query_range?query={a=%22%00%22}",
        "/query_range?query={service_name=%22%ED%A0%80%22}",
        "/query_range",
        "/series?match[]=rate({}[1m])",
        "/index/volume?query={}|=%22x%22",
        "/nothing",
    ],
)
def test_errors_are_sentences(loki: httpx.Client, path: str) -> None:
    answer = loki.get(path)
    assert answer.status_code in (200 if "%00" in path or "%ED" in path else 400, 400, 404), answer.text
    if answer.status_code != 200:
        assert answer.text.endswith(".")


def test_hostile_patterns_take_no_time(loki: httpx.Client, sent: list[Sent]) -> None:
    start, end = sent_range(sent)
    for pattern in ("(a+)+$", "(a|a)*b", "^(([a-z])+.)+[A-Z]([a-z])+$", ".*.*.*=.*"):
        data(loki, "/query_range", query=f'{{}} |~ "{pattern}"', start=start, end=end)


def test_a_token_comes_as_header(logged: Lake, serve: Serve, tmp_path: Path) -> None:
    access = AccessFile(tmp_path / "access.toml")
    secret = access.create("grafana", Role.READ)
    base = f"http://127.0.0.1:{serve(logged, access).port}/loki/loki/api/v1/labels"
    assert httpx.get(base).status_code == 401
    assert httpx.get(base, headers={"authorization": f"Bearer {secret}"}).json()["data"] == ["level", "service_name"]
    assert httpx.post(base, headers={"authorization": f"Bearer {secret}"}).status_code == 403


TAIL = "/loki/loki/api/v1/tail"


def told(client: Client) -> list[tuple[str, str]]:
    """The times and lines of the next message."""
    kind, payload = client.frame()
    while kind != TEXT:
        kind, payload = client.frame()
    return [tuple(value) for stream in json.loads(payload)["streams"] for value in stream["values"]]


def test_a_tail_begins_with_the_newest_and_goes_on_with_what_comes(
    logged: Lake, serve: Serve, sent: list[Sent], dial: Dial
) -> None:
    token = logged.own_catalog().ingest.rotate_token("otel", "default").plaintext
    api = serve(logged)
    query = quote('{service_name="cart"} |= "timed out"')
    start = min(one.time for one in sent)
    client = dial(api.port, f"{TAIL}?query={query}&limit=7&start={start}&delay_for=0")
    wanted = sorted((str(one.time), one.body) for one in sent if one.service == "cart" and "timed out" in one.body)
    assert sorted(told(client)) == wanted[-7:]
    writer, now = Writer(logged, token, "tail"), time.time_ns()
    writer.send(request([(now, "served"), (now + 1, "timed out at last")], service="cart"))
    writer.send(request([(now + 2, "timed out elsewhere")], service="pay"))
    assert told(client) == [(str(now + 1), "timed out at last")]
    Nursery(logged, spark=False).run_once()
    writer.send(request([(now + 3, "timed out again")], service="cart"))
    assert told(client) == [(str(now + 3), "timed out again")], "what is committed comes once"


@pytest.mark.parametrize(
    ("asked", "said"),
    [("query=" + quote("rate({}[1m])"), "lines"), ("query={", "column"), ("query={}&limit=0", "limit"), ("", "column")],
)
def test_a_tail_that_does_not_fit_is_refused_in_words(loki: httpx.Client, dial: Dial, asked: str, said: str) -> None:
    client = dial(int(loki.base_url.port or 0), f"{TAIL}?{asked}")
    assert client.status == 400
    assert said in client.body


def test_a_tail_takes_a_token_and_a_name_of_the_server(logged: Lake, serve: Serve, tmp_path: Path, dial: Dial) -> None:
    access = AccessFile(tmp_path / "access.toml")
    secret = access.create("grafana", Role.READ)
    port = serve(logged, access).port
    path, token = f"{TAIL}?query={{}}", f"Bearer {secret}"
    assert dial(port, path).status == 403
    assert dial(port, path, Authorization="Bearer mlt_wrong").status == 403
    assert dial(port, path, Authorization=token, Host="evil.example").status == 403
    assert dial(port, path, Authorization=token, Origin="https://evil.example").status == 403
    assert dial(port, "/loki/loki/api/v1/labels", Authorization=token).status == 403, "the one web socket"
    client = dial(port, path, Authorization=token)
    assert client.status == 101
    access.revoke("grafana")
    kind = None
    while kind != CLOSE:
        kind, payload = client.frame()
    assert payload == struct.pack(">H", 1008)


def test_tails_end_with_the_server(logged: Lake, serve: Serve, dial: Dial) -> None:
    api = serve(logged)
    clients = [dial(api.port, f"{TAIL}?query={{}}") for _ in range(MOST_TAILS)]
    assert {client.status for client in clients} == {101}
    assert dial(api.port, f"{TAIL}?query={{}}").status == 503
    clients.pop().close()
    assert api.server is not None
    began = time.monotonic()
    api.server.stop()
    assert time.monotonic() - began < 2


@pytest.fixture(scope="session")
def logcli(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Loki's own client, built from the Go module proxy: that takes minutes where it was never built."""
    if program := os.environ.get("LOGCLI") or shutil.which("logcli"):
        return program
    if shutil.which("go") is None:
        pytest.skip("Go is not installed: it builds logcli.")
    folder = tmp_path_factory.mktemp("logcli")
    module = "github.com/grafana/loki/v3@v3.3.2"
    made = subprocess.run(["go", "mod", "download", "-json", module], cwd=folder, capture_output=True, check=False)
    if made.returncode:
        pytest.skip(f"The source of logcli cannot be had: {made.stderr.decode()[:200]}")
    source = folder / "source"
    shutil.copytree(json.loads(made.stdout)["Dir"], source)
    subprocess.run(["chmod", "-R", "u+w", str(source)], check=True)
    shutil.rmtree(source / "vendor", ignore_errors=True)  # the proxy leaves its files out
    for command in (
        ["go", "mod", "edit", "-dropreplace=github.com/grafana/loki/pkg/push"],
        ["go", "build", "-mod=mod", "-o", str(folder / "logcli"), "./cmd/logcli"],
    ):
        subprocess.run(command, cwd=source, check=True)
    return str(folder / "logcli")


@pytest.mark.long
def test_logcli_reads_lines_counts_labels_and_series(
    logged: Lake, serve: Serve, sent: list[Sent], logcli: str, tmp_path: Path
) -> None:
    access = AccessFile(tmp_path / "access.toml")
    secret = access.create("logcli", Role.READ)
    address = f"http://127.0.0.1:{serve(logged, access).port}/loki"

    def run(*words: str) -> str:
        command = [logcli, f"--addr={address}", f"--bearer-token={secret}", "--quiet", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
        assert done.returncode == 0, done.stderr
        return done.stdout

    start, end = sent_range(sent)
    within = [
        f"--from={time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(start // SECOND))}",
        f"--to={time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(end // SECOND + 1))}",
    ]
    shown = run("query", *within, "--limit=0", "--batch=50", "--output=jsonl", '{service_name="cart"} |= "timed out"')
    lines = sorted(json.loads(line)["line"] for line in shown.splitlines())
    assert lines == sorted(one.body for one in sent if one.service == "cart" and "timed out" in one.body)
    assert run("labels", *within).split() == ["level", "service_name"]
    assert run("labels", *within, "service_name").split() == ["cart", "pay", "web"]
    assert len(run("series", *within, '{level="warn"}').splitlines()) == 3
    found = json.loads(run("query", *within, "--step=60s", "sum(count_over_time({}[1m]))"))
    assert sum(int(value) for _, value in found[0]["values"]) > 300
    assert json.loads(run("volume", *within, "{}"))
    token = logged.own_catalog().ingest.rotate_token("otel", "default").plaintext
    words = [logcli, f"--addr={address}", f"--bearer-token={secret}", "--quiet", "query", "--tail", "--output=jsonl"]
    with subprocess.Popen([*words, '{service_name="cart"} |= "tailed"'], stdout=subprocess.PIPE, text=True) as tail:
        writer = Writer(logged, token, "tail")
        for number in range(3):
            time.sleep(2)
            writer.send(request([(time.time_ns(), f"tailed {number}")], service="cart"))
        assert tail.stdout is not None
        lines = [json.loads(tail.stdout.readline())["line"] for _ in range(3)]
        tail.terminate()
    assert lines == ["tailed 0", "tailed 1", "tailed 2"]
