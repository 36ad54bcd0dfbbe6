"""Metrics in a real browser: found by name, shown as lines, split by attributes, followed to a trace."""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.formats.baby_segment import Payload
from moulin.lake import Lake
from tests.console.browser.test_logs import press_until
from tests.console.browser.test_screens import AXE, check_axe, shoot
from tests.console.conftest import HOSTILE, Serve
from tests.console.metrics import Point, metric_request
from tests.console.spans import Sent, span_request
from tests.console.test_metrics import Sender

Watch = Callable[..., Any]
SECOND = 1_000_000_000
ROUTES = ("/items", "/orders/{id}", "/cart", HOSTILE)
BOUNDS = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5]


@pytest.fixture
def measured(tmp_path: Path) -> Iterator[Lake]:
    """An hour of a gauge, counters, histograms with exemplars, one trace, and hostile names."""
    with moulin.connect(tmp_path / "lake") as lake:
        sender = Sender(lake)
        dice, now = random.Random(4), time.time_ns() - 20 * SECOND
        times = [now - n * 15 * SECOND for n in range(236)][::-1]
        heat = [
            Point(at, 60 + 20 * math.sin(n / 20) + dice.uniform(-3, 3), {"core": core})
            for n, at in enumerate(times)
            for core in "01"
        ]
        sender.send(metric_request("system.cpu.load", "gauge", heat, unit="%", description="How busy each core is."))
        sender.commit()
        for service in ("web", "cart"):
            counters, histograms = [], []
            for route in ROUTES:
                value, counts = 0, [0] * 10
                for n, at in enumerate(times):
                    value += dice.randrange(40, 90) if n % 60 else 300
                    for _ in range(8):
                        counts[min(9, max(0, int(dice.gauss(3.5 + (n > 180) * 2, 1.3))))] += 1
                    counters.append(Point(at, value, {"http.route": route}, times[0] - 1))
                    kept = [(at, 0.31, 7, 8)] if n == 200 and service == "web" else []
                    histograms.append(
                        Point(
                            at,
                            0,
                            {"http.route": route},
                            times[0] - 1,
                            counts=list(counts),
                            bounds=BOUNDS,
                            total=value / 9,
                            exemplars=kept,
                        )
                    )
            sender.send(metric_request("http.server.requests", "sum", counters, service=service, unit="{request}"))
            sender.send(metric_request("http.server.duration", "histogram", histograms, service=service, unit="s"))
        sender.send(
            metric_request(
                HOSTILE, "gauge", [Point(now, 1.0, {f"<b>{HOSTILE}": HOSTILE})], unit=HOSTILE, description=HOSTILE
            )
        )
        at = times[200]
        sender._writer.send(
            span_request([Sent(7, 8, None, at, at + 310_000_000, "web", "GET /items")]), payload=Payload.TRACES
        )
        yield lake


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_metrics_are_found_and_shown_without_a_mistake(
    measured: Lake, serve: Serve, watch: Watch, pictures: Path, scheme: str
) -> None:
    watched = watch(serve(measured).port, color_scheme=scheme, reduced_motion="reduce")
    page = watched.page
    page.add_init_script(path=AXE)
    watched.go("")
    page.click("nav a:has-text('Metrics')")
    page.wait_for_selector("td:has-text('system.cpu.load')")
    shoot(page, pictures, f"metrics-{scheme}")
    check_axe(page, "metrics")
    page.fill("input[type=search]", "duration")
    page.wait_for_selector(".filter :text('1 metric')")
    page.click("td a:has-text('http.server.duration')")
    for name in ("p50", "p90", "p99"):
        page.wait_for_selector(f".lines-legend :text-is('{name}')")
    shoot(page, pictures, f"metric-percentiles-{scheme}")
    check_axe(page, "percentiles")
    page.select_option("select[name=by]", "http.route")
    page.wait_for_selector(".lines-legend :text-is('/cart · p50')")
    page.select_option("select[name=key]", "service.name")
    page.select_option("select[name=value]", "web")
    page.wait_for_selector("button:has-text('service.name=web')")
    page.wait_for_selector(".lines-legend :text-is('/cart · p50')")
    page.select_option("select[name=stat]", "rate")
    page.wait_for_selector(".lines-legend :text-is('/cart')")
    shoot(page, pictures, f"metric-rate-{scheme}")
    check_axe(page, "rate")
    page.locator(".chart svg").hover()
    page.wait_for_selector("figcaption:has-text('From ')")
    page.mouse.move(0, 0)
    page.click("a:has-text('All metrics')")
    page.click("td a:has-text('system.cpu.load')")
    page.wait_for_selector(":text('How busy each core is.')")
    page.wait_for_selector(".lines-legend :text-is('all series')")
    shoot(page, pictures, f"metric-gauge-{scheme}")


def test_an_exemplar_opens_its_trace(measured: Lake, serve: Serve, watch: Watch) -> None:
    watched = watch(serve(measured).port)
    watched.go("metrics/http.server.duration")
    page = watched.page
    page.click("td a:has-text('0007')")
    page.wait_for_selector("h1:has-text('GET /items')")


def test_hostile_names_and_attributes_are_text(measured: Lake, serve: Serve, watch: Watch) -> None:
    watched = watch(serve(measured).port)
    watched.go("metrics")
    page = watched.page
    page.click("td a:has-text('img src')")
    page.wait_for_selector("h1:has-text('img src=x')")
    page.select_option("select[name=by]", f"<b>{HOSTILE}")
    page.wait_for_selector(".lines-legend span:has-text('onerror')")
    page.select_option("select[name=key]", f"<b>{HOSTILE}")
    page.select_option("select[name=value]", HOSTILE)
    page.wait_for_selector("button:has-text('onerror=pwned')")
    page.wait_for_selector(".lines-legend span:has-text('onerror')")
    assert page.evaluate("window.pwned") is None
    assert page.locator("main img[src=x]").count() == 0


def test_a_stretch_is_chosen_by_keyboard_alone(measured: Lake, serve: Serve, watch: Watch) -> None:
    watched = watch(serve(measured).port)
    watched.go("metrics")
    page = watched.page
    press_until(page, "td a[href*='http.server.requests']")
    page.keyboard.press("Enter")
    page.wait_for_selector(".lines-legend li")
    press_until(page, ".chart svg")
    page.keyboard.press("End")
    for _ in range(9):
        page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("Enter")
    page.wait_for_selector("button:has-text('Back to the last hour')")
    page.wait_for_selector(".lines-legend li")


def test_a_lake_without_metrics_says_what_to_do(lake: Lake, serve: Serve, watch: Watch) -> None:
    watched = watch(serve(lake).port)
    watched.go("metrics")
    watched.page.wait_for_selector(".notice:has-text('moulin init --otel')")
