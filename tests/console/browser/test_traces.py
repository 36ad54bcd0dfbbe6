"""Traces in a real browser: the list, a waterfall of ten thousand spans, a span with all it has, the service map."""

from __future__ import annotations

import random
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import moulin
from moulin.formats.baby_segment import Payload
from moulin.ingest.setup import set_up
from moulin.lake import Lake
from tests.console.browser.test_screens import AXE, Watch, check_axe, shoot
from tests.console.conftest import HOSTILE, Serve
from tests.console.logs import Writer, request
from tests.console.spans import Sent, span_request

MS = 1_000_000
COUNT = 10_000
SERVICES = ("checkout", "search", "shipping", "payment", "cart", "stock")


def large(start: int) -> list[Sent]:
    """Ten thousand spans of six services below one root; of some, the parents are missing."""
    dice = random.Random(4)
    spans = [Sent(1, 1, None, start, start + 1000 * MS, "checkout", "POST /orders")]
    for number in range(2, COUNT + 1):
        parent = spans[min(len(spans) - 1, int(dice.random() ** 3 * len(spans)))]
        begin = parent.start + int((parent.end - parent.start) * dice.random() * 0.7)
        end = begin + max(1000, int((parent.end - begin) * dice.random()))
        spans.append(
            Sent(
                1,
                number,
                parent.id if number % 2500 else 10**9,
                begin,
                end,
                dice.choice(SERVICES),
                dice.choice(["GET /items/{id}", "SELECT orders", "authorize", "publish"]),
                failed=number % 97 == 0,
            )
        )
    return spans


@pytest.fixture
def traced(tmp_path: Path) -> Iterator[Lake]:
    """The large trace, some small ones after it, one of them broken and hostile, and logs."""
    with moulin.connect(tmp_path / "lake") as lake:
        token = set_up(lake).token
        assert token is not None
        writer, now = Writer(lake, token), time.time_ns() - 60_000 * MS
        dice, small = random.Random(2), []
        for n in range(40):
            begin = now - n * 1000 * MS
            end = begin + dice.randrange(5, 900) * MS
            small.append(Sent(100 + n, 1, None, begin, end, SERVICES[n % 6], "GET /items", failed=n % 9 == 0))
            small.append(Sent(100 + n, 2, 1, begin, (begin + end) // 2, SERVICES[(n + 1) % 6], "SELECT stock", kind=3))
        odd = [
            Sent(7, 8, 9, now + MS, now + 30 * MS, HOSTILE, HOSTILE, failed=True),
            Sent(
                7,
                10,
                8,
                now,
                now + 9 * MS,
                "cart",
                "\u202eegap",
                attributes={"http.route": "/a", "<b>port</b>": 8080, "note": HOSTILE},
                events=((now + 2 * MS, "exception", {"exception.stacktrace": f"a\n{HOSTILE}"}),),
                links=((100, 1),),
            ),
        ]
        for part in (large(now - 120_000 * MS), small, odd):
            writer.send(span_request(part), payload=Payload.TRACES)
        writer.send(_log(now))
        yield lake


def _log(now: int) -> bytes:
    from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest

    made = ExportLogsServiceRequest.FromString(request([(now + MS, f"timed out {HOSTILE}")], severity=17))
    record = made.resource_logs[0].scope_logs[0].log_records[0]
    record.trace_id, record.span_id = (7).to_bytes(16, "big"), (10).to_bytes(8, "big")
    return made.SerializeToString()  # type: ignore[no-any-return]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_traces_are_found_and_shown_without_a_mistake(
    traced: Lake, serve: Serve, watch: Watch, pictures: Path, scheme: str
) -> None:
    watched = watch(serve(traced).port, color_scheme=scheme, reduced_motion="reduce")
    page = watched.page
    page.add_init_script(path=AXE)
    watched.go("traces")
    page.wait_for_selector("td:has-text('POST /orders')")
    shoot(page, pictures, f"traces-{scheme}")
    check_axe(page, "traces")

    page.fill("input[name=service]", "payment")
    page.fill("input[name=min_duration]", "10ms")
    page.check("input[name=failed]")
    page.click("button:has-text('Search')")
    page.wait_for_selector("td .badge.bad")
    assert "payment" in page.url
    page.go_back()
    page.wait_for_selector("td:has-text('POST /orders')")

    page.click("td a:has-text('POST /orders')")
    page.wait_for_selector("[role=treeitem]")
    assert page.evaluate("document.querySelectorAll('*').length") < 1500
    page.wait_for_selector(".card:has-text('10\u202f000')")
    page.wait_for_selector(".notice:has-text('a parent that is not there; they are shown as roots: 4.')")
    shoot(page, pictures, f"trace-{scheme}")
    check_axe(page, "trace")
    tree = page.locator("[role=tree]")
    tree.focus()
    for key in ("End", "ArrowUp", "Home", "ArrowDown", "ArrowLeft", "ArrowLeft"):
        page.keyboard.press(key)
    page.wait_for_selector("#span-0.active")
    page.keyboard.press("End")
    page.wait_for_selector(f"#span-{COUNT - 1}.active")
    page.fill("[placeholder='Find a span']", f"{1234:016x}")
    page.wait_for_selector(".tools :text('1 match')")
    page.keyboard.press("Enter")
    page.wait_for_selector(".row.active")
    assert page.evaluate("document.querySelectorAll('*').length") < 1500
    page.check(".tools input[type=checkbox]")
    page.wait_for_selector(".row .critical")
    page.uncheck(".tools input[type=checkbox]")
    box = page.locator(".overview").bounding_box()
    page.mouse.move(box["x"] + box["width"] * 0.3, box["y"] + 20)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, box["y"] + 20, steps=3)
    page.mouse.up()
    page.wait_for_selector("button:has-text('Whole trace'):not([disabled])")

    watched.go("traces/map")
    page.wait_for_selector("svg.map a:has-text('payment')")
    shoot(page, pictures, f"service-map-{scheme}")
    check_axe(page, "service map")


def test_a_span_shows_all_that_was_sent_as_text(traced: Lake, serve: Serve, watch: Watch, pictures: Path) -> None:
    watched = watch(serve(traced).port)
    page = watched.page
    page.add_init_script(path=AXE)
    watched.go(f"traces/{7:032x}")
    page.wait_for_selector(".notice:has-text('begin before their parents')")
    page.click("[role=treeitem]:has-text('egap')")
    page.wait_for_selector("aside :text('exception.stacktrace')")
    told = page.inner_text("aside")
    assert "\\u202eegap" in told
    assert "<b>port</b>" in told
    assert f"a\n{HOSTILE}" in told
    page.click("button:has-text('Show the logs')")
    page.wait_for_selector("aside :text('timed out')")
    page.locator("aside :text('timed out')").scroll_into_view_if_needed()
    shoot(page, pictures, "span-light")
    check_axe(page, "span")
    assert page.evaluate("window.pwned") is None
    page.click("aside a:has-text('trace ')")
    page.wait_for_selector("h1:has-text('GET /items')")
    page.keyboard.press("Control+k")
    page.keyboard.type(f"{1:032x}")
    page.keyboard.press("Enter")
    page.wait_for_selector("h1:has-text('POST /orders')")


def test_a_trace_that_is_not_there_is_said(traced: Lake, serve: Serve, watch: Watch) -> None:
    watched = watch(serve(traced).port)
    watched.expected.append("404")
    watched.go("traces/" + "ab" * 16)
    watched.page.wait_for_selector("[role=alert]:has-text('No span of trace')")
