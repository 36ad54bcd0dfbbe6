"""Logs in a real browser: searched, counted as SQL counts them, read around one record, and followed as they come."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import moulin
from moulin.console.telemetry import nanos
from moulin.ingest.setup import set_up
from moulin.lake import Lake
from moulin.model.otel import SCHEMAS
from moulin.pipeline.nursery.nursery import Nursery
from tests.console.browser.test_screens import AXE, check_axe, shoot
from tests.console.conftest import HOSTILE, Serve
from tests.console.logs import Writer, request

Watch = Callable[..., Any]
SECOND = 1_000_000_000
SERVICES = ("web", "cart", "checkout", "payment", "stock")
BODIES = ("served /items", "served /orders/{id}", "timed out after 3 s", "retrying in 250 ms", "queue is full")
LEVELS = {"DEBUG": 5, "INFO": 9, "WARN": 13, "ERROR": 17}


@pytest.fixture
def otel(tmp_path: Path) -> Iterator[tuple[Lake, Writer]]:
    with moulin.connect(tmp_path / "lake") as lake:
        token = set_up(lake).token
        assert token is not None
        yield lake, Writer(lake, token)


def fill(lake: Lake, count: int) -> pa.Table:
    """Records of the last quarter of an hour, straight into the table; what it has."""
    dice = random.Random(count)
    begin = time.time_ns() // SECOND * SECOND - 880 * SECOND
    times = sorted(begin + dice.randrange(870) * SECOND for _ in range(count))
    names = dice.choices(list(LEVELS), weights=(3, 10, 2, 1), k=count)
    rows = pa.table(
        {
            "event_time": pa.array([at // 1000 for at in times], pa.timestamp("us", tz="UTC")),
            "event_time_unix_nano": pa.array(times),
            "ingest_time": pa.array([at // 1000 for at in times], pa.timestamp("us", tz="UTC")),
            "service_name": pa.array(dice.choices(SERVICES, k=count)),
            "severity_number": pa.array([LEVELS[name] for name in names], pa.int32()),
            "severity_text": pa.array(names),
            "body": pa.array(dice.choices(BODIES, k=count)),
        }
    )
    missing = {
        field.name: pa.nulls(count, field.type) for field in SCHEMAS["logs"] if field.name not in rows.schema.names
    }
    for name, column in missing.items():
        rows = rows.append_column(name, column)
    lake.table("otel.logs").append(rows.select(SCHEMAS["logs"].names).cast(SCHEMAS["logs"]))
    return rows


def send_story(writer: Writer) -> None:
    now = time.time_ns() - 60 * SECOND
    dice = random.Random(3)
    for service in SERVICES:
        for severity in LEVELS.values():
            records = [
                (now - dice.randrange(700) * SECOND, dice.choice(BODIES), {"http.route": dice.choice(["/a", "/b"])})
                for _ in range(25)
            ]
            writer.send(request(records, service=service, severity=severity))
    odd = [(now + n, f"{HOSTILE} \x1b[31m\u202egap\u0007 {n}", {f"<b>{HOSTILE}</b>": HOSTILE}) for n in range(3)]
    writer.send(request(odd, service=HOSTILE, severity=17))


def counted(records: int) -> str:
    return f"{records:,}".replace(",", "\u202f") + (" record" if records == 1 else " records")


def total(page: Any, expected: int) -> None:
    """Wait until the chart counts so many."""
    page.wait_for_selector(f".chart figcaption:has-text('{counted(expected)} in steps')")


def until(page: Any, script: str) -> None:
    """Wait until an expression holds. Playwright's own way needs eval, which the page's policy forbids."""
    end = time.monotonic() + 60
    while not page.evaluate(script):
        assert time.monotonic() < end, script
        time.sleep(0.05)


def facet(page: Any, field: str) -> dict[str, int]:
    items = page.locator(f".facets section:has(h2:has-text('{field}')) >> nth=0").locator("li").all_inner_texts()
    return {name: int(count.replace("\u202f", "")) for name, count in (one.split("\n") for one in items)}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_logs_are_searched_and_read_without_a_mistake(
    otel: tuple[Lake, Writer], serve: Serve, watch: Watch, pictures: Path, scheme: str
) -> None:
    lake, writer = otel
    send_story(writer)
    watched = watch(serve(lake).port, color_scheme=scheme, reduced_motion="reduce")
    page = watched.page
    page.add_init_script(path=AXE)
    watched.go("")
    page.click("nav a:has-text('Logs')")
    total(page, 503)
    page.wait_for_selector(".facets li")
    shoot(page, pictures, f"logs-{scheme}")
    check_axe(page, "logs")

    page.fill("input[type=search]", 'level:error service:cart "timed out"')
    page.keyboard.press("Enter")
    until(page, "[...document.querySelectorAll('.grid .level')].every(one => one.textContent === 'error')")
    assert "timed+out" in page.url
    page.select_option(".facets select", "http.route")
    page.click(".facets li button:text-is('/a')")
    until(page, "document.querySelector('input[type=search]').value.endsWith('http.route:\"/a\"')")
    page.fill("input[type=search]", "level:loud")
    page.keyboard.press("Enter")
    page.wait_for_selector("[role=alert]:has-text('a level must be one of')")
    watched.expected.append("400")
    check_axe(page, "a search that cannot be read")
    page.fill("input[type=search]", "service:*img*")
    page.keyboard.press("Enter")
    total(page, 3)
    shown = page.inner_text(".grid tbody tr:first-child")
    assert HOSTILE in shown
    assert "\\u001b[31m\\u202egap\\u0007" in shown
    page.click(".grid tbody tr:nth-child(2) button")
    page.wait_for_selector("dialog .context li[aria-current]")
    page.wait_for_selector("dialog dd:has-text('onerror')")
    shoot(page, pictures, f"log-record-{scheme}")
    check_axe(page, "record")
    assert page.locator("dialog .context li").count() > 3
    page.click("dialog button[aria-label*='as here'] >> nth=0")
    total(page, 3)
    assert page.evaluate("window.pwned") is None
    assert page.locator("main img[src=x]").count() == 0


def test_a_stretch_is_chosen_by_hand_and_by_keys(otel: tuple[Lake, Writer], serve: Serve, watch: Watch) -> None:
    lake, writer = otel
    send_story(writer)
    watched = watch(serve(lake).port)
    watched.go("logs")
    page = watched.page
    total(page, 503)
    box = page.locator(".chart svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.8, box["y"] + 40, steps=4)
    page.mouse.up()
    page.wait_for_selector("button:has-text('Back to the last 15 minutes')")
    page.mouse.move(0, 0)
    start, end = (int(part.split("=")[1]) for part in page.url.split("#")[1].split("&")[-2:])
    assert lake.table("otel.logs").scan().count() == 0, "fresh records were counted"
    Nursery(lake, spark=False).run_once()
    times = nanos(lake.table("otel.logs").scan(columns=["event_time", "event_time_unix_nano"]).to_arrow())
    total(page, int(((times >= start) & (times < end)).sum()))
    page.click("button:has-text('Back to the last')")
    total(page, 503)
    page.locator(".chart svg").focus()
    page.keyboard.press("End")
    for _ in range(8):
        page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("Enter")
    page.wait_for_selector("button:has-text('Back to the last 15 minutes')")


@pytest.mark.parametrize("count", [20_000, pytest.param(1_000_000, marks=pytest.mark.long)])
def test_counts_equal_those_of_sql(
    otel: tuple[Lake, Writer], serve: Serve, watch: Watch, pictures: Path, count: int
) -> None:
    lake, _ = otel
    rows = fill(lake, count)
    watched = watch(serve(lake).port)
    watched.go("logs/last=1800")
    page = watched.page
    total(page, count)
    page.wait_for_selector(".facets li")
    sql = duckdb.connect()
    sql.register("logs", rows)

    def by_sql(group: str, where: str = "true") -> dict[str, int]:
        return dict(sql.execute(f"select lower({group}), count(*) from logs where {where} group by 1").fetchall())

    assert facet(page, "service") == by_sql("service_name")
    assert facet(page, "level") == by_sql("severity_text")
    page.fill("input[type=search]", 'level:>=warn -service:web "timed out"')
    page.fill("input.mono", "body like '%3 s'")
    page.keyboard.press("Enter")
    where = "severity_number >= 13 and service_name <> 'web' and body ilike '%timed out%' and body like '%3 s'"
    matching = by_sql("service_name", where)
    total(page, sum(matching.values()))
    until(page, f"document.querySelectorAll('.facets section:nth-of-type(2) li').length === {len(matching)}")
    assert facet(page, "service") == matching
    box = page.locator(".chart svg").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 40)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 40, steps=4)
    page.mouse.up()
    page.wait_for_selector("button:has-text('Back to the last')")
    page.mouse.move(0, 0)
    given = dict(part.split("=", 1) for part in page.url.split("#/logs/")[1].split("&"))
    within = f"{where} and event_time_unix_nano >= {given['start']} and event_time_unix_nano < {given['end']}"
    total(page, sum(by_sql("service_name", within).values()))
    page.locator(".grid").evaluate("grid => grid.scrollTo(0, grid.scrollHeight)")
    page.click(".grid tbody tr:has(button) >> nth=3 >> button")
    page.wait_for_selector("dialog .context li[aria-current]")
    assert page.evaluate("document.querySelectorAll('*').length") < 3000


@pytest.mark.parametrize("seconds", [6, pytest.param(120, marks=pytest.mark.long)])
def test_a_tail_shows_each_record_once(
    otel: tuple[Lake, Writer], serve: Serve, watch: Watch, pictures: Path, seconds: int
) -> None:
    lake, writer = otel
    api = serve(lake)
    watched = watch(api.port)
    watched.expected += ["ERR_", "Failed to load", "event-stream"]  # of the restart
    watched.go("logs")
    page = watched.page
    page.fill("input[type=search]", "-noise")
    page.click("button:has-text('Live tail')")
    page.wait_for_selector("text=Nothing has come yet.")
    over = threading.Event()
    sent: list[str] = []

    def ingest() -> None:
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            name = f"record {len(sent):05}"
            writer.send(request([(time.time_ns(), name), (time.time_ns(), "noise")]))
            sent.append(name)
            if len(sent) % 20 == 0:
                Nursery(lake, spark=False).run_once()
            time.sleep(0.09)
        over.set()

    thread = threading.Thread(target=ingest)
    thread.start()
    page.wait_for_selector("td:has-text('record 00005')")
    page.click("button:has-text('Pause')")
    page.wait_for_selector("[role=status]:has-text('new record')")
    page.click("button:has-text('Go on')")
    assert api.server is not None
    api.server.stop()
    serve(lake, port=api.port)
    thread.join()
    assert over.is_set()
    page.wait_for_selector(f"h2:has-text('{counted(len(sent))} shown')")
    shoot(page, pictures, "logs-tail-light")
    assert sorted(read_all(page)) == sent
    page.wait_for_selector("text=New records wait while you read further down")
    writer.send(request([(time.time_ns(), "later")]))
    page.wait_for_selector("[role=status]:has-text('1 new record')")
    page.locator(".grid").evaluate("grid => grid.scrollTo(0, 0)")
    page.wait_for_selector("td:has-text('later')")


def read_all(page: Any) -> list[str]:
    """The bodies of all rows, some at a time, since only those in sight exist."""
    found: dict[int, str] = {}
    grid = page.locator(".grid")
    bottom = grid.evaluate("grid => grid.scrollHeight")
    for top in range(0, bottom + 400, 400):
        grid.evaluate("(grid, top) => grid.scrollTo(0, top)", top)
        page.wait_for_timeout(60)
        rows = grid.evaluate(
            "grid => [...grid.querySelectorAll('tbody tr[aria-rowindex]')].map(row =>"
            " [Number(row.getAttribute('aria-rowindex')), row.querySelectorAll('td')[3].innerText])"
        )
        found.update(dict(rows))
    return list(found.values())


def test_every_step_goes_by_keyboard_alone(otel: tuple[Lake, Writer], serve: Serve, watch: Watch) -> None:
    lake, writer = otel
    send_story(writer)
    watched = watch(serve(lake).port)
    watched.go("")
    page = watched.page
    page.keyboard.press("Control+k")
    page.keyboard.type("logs")
    page.keyboard.press("Enter")
    total(page, 503)
    press_until(page, "input[type=search]")
    page.keyboard.type("level:error")
    page.keyboard.press("Enter")
    total(page, 128)
    press_until(page, ".chart svg")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector(".brush")
    page.keyboard.press("Escape")
    press_until(page, ".facets li button")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('input[type=search]').value.includes('level:\"error\"')")
    press_until(page, ".grid td button")
    page.keyboard.press("Enter")
    page.wait_for_selector("dialog .context li[aria-current]")
    page.keyboard.press("Escape")
    page.wait_for_selector("dialog", state="detached")


def press_until(page: Any, selector: str) -> None:
    for _ in range(60):
        page.keyboard.press("Tab")
        if page.evaluate("selector => document.activeElement.matches(selector)", selector):
            return
    raise AssertionError(f"{selector} is not reached by Tab.")


def test_a_lake_without_logs_says_what_to_do(lake: Lake, serve: Serve, watch: Watch) -> None:
    watched = watch(serve(lake).port)
    watched.go("logs")
    watched.page.wait_for_selector(".notice:has-text('moulin init --otel')")
