"""The console in a real browser: bytes of a page, time to content, CPU of a scrolled frame, heap, and how it recovers.

A server of its own process has 10,000 tables and a million log records. Nothing here is a test: `tests/console` is.
"""

from __future__ import annotations

import http.client
import json
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from benchmarks.harness import Bench, Line, Sample, Skipped

TITLE = "The console in Chromium, against its budgets"
_NAME = "console"
_TABLES, _LOGS, _SPANS, _STREAMS, _FRAMES = 10_000, 1_000_000, 10_000, 20, 120
_IDLE_SECONDS: Final = 20.0
_RUNS: Final = 5
_FLAGS = ["--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync"]
_WIDE = "select " + ", ".join(f"range * {n + 1} as c{n}" for n in range(24)) + " from range(10000)"
_ENDLESS = "select sum(hash(a.range * b.range)) from range(10000000) a, range(10000000) b"


def run(bench: Bench) -> Iterator[Line]:
    program = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError as error:
        raise Skipped("Playwright is not installed") from error
    if program is None:
        raise Skipped("no Chromium is installed")
    folder = bench.folder / _NAME
    bench.step("making a lake of 10,000 tables and a million log records")
    trace = _make(folder)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, headless=True, args=_FLAGS)
        with _serving(folder) as (port, server):
            yield from _sizes()
            yield from _lists(bench, port)
            yield from _pages(bench, browser, port, trace)
            yield from _recovery(bench, browser, folder, port, server)
        browser.close()


def _line(case: str, figures: list[float], target: float, unit: str) -> Line:
    return Line(_NAME, case, Sample(tuple(figures)), target=target, unit=unit)


def _make(folder: Path) -> str:
    """The lake; returns the id of its large trace."""
    import moulin
    from moulin.formats.baby_segment import Payload
    from moulin.ingest.setup import set_up
    from tests.console.browser.test_logs import fill
    from tests.console.browser.test_screens import _copy_rows
    from tests.console.browser.test_traces import large
    from tests.console.logs import Writer
    from tests.console.spans import span_request

    with moulin.connect(folder) as lake:
        token = set_up(lake).token
        assert token is not None
        lake.create_database("many")
        lake.create_table("many.first", [("x", "int")])
        _copy_rows(lake, _TABLES)
        fill(lake, _LOGS)
        spans = large(time.time_ns() - 60_000_000_000)
        Writer(lake, token).send(span_request(spans), payload=Payload.TRACES)
        return spans[0].trace_id


@contextmanager
def _serving(folder: Path, port: int = 0) -> Iterator[tuple[int, subprocess.Popen[bytes]]]:
    port = port or _free_port()
    command = [sys.executable, "-m", "moulin.cli.main", "--lake", str(folder), "serve"]
    server = subprocess.Popen(
        [*command, "--bind", "127.0.0.1:0", "--http-bind", f"127.0.0.1:{port}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _until(lambda: _seconds(port, "/healthz") is not None, 60)
        yield port, server
    finally:
        server.kill()
        server.wait()


def _free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def _until(holds: Callable[[], Any], seconds: float) -> float:
    """Wait until something holds; returns how long that took."""
    began = time.perf_counter()
    while not holds():
        if time.perf_counter() - began > seconds:
            raise TimeoutError
        time.sleep(0.02)
    return time.perf_counter() - began


def _seconds(port: int, path: str) -> float | None:
    """How long a GET takes; None when nobody answers."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    began = time.perf_counter()
    try:
        connection.request("GET", path)
        answer = connection.getresponse()
        answer.read()
    except OSError:
        return None
    finally:
        connection.close()
    if answer.status != 200:
        raise RuntimeError(f"{path} is {answer.status}")
    return time.perf_counter() - began


def _sizes() -> Iterator[Line]:
    from moulin.console.assets import load
    from tests.console.test_assets import FIRST_LOAD, WHOLE, imports_of

    first = {"index.html", "console.css", "moulin.svg", *imports_of("main.js", set())}
    first |= imports_of("screens/lake.js", set())
    packed = {name: len(one.packed) / 1000 for name, one in load().items()}
    yield _line("first load, compressed", [sum(packed[name] for name in first)], FIRST_LOAD / 1000, "kB")
    yield _line("the whole console, compressed", [sum(packed.values())], WHOLE / 1000, "kB")


def _lists(bench: Bench, port: int) -> Iterator[Line]:
    """The time of a list of 200; the first call of each is not counted."""
    for name in ("tables", "lake/activity", "logs/search?last=1800", "traces?last=3600", "metrics/names?last=3600"):
        bench.step(f"listing {name}")
        path = f"/api/v1/{name}{'&' if '?' in name else '?'}limit=200"
        path = path.replace("/metrics/names?last=3600&limit=200", "/metrics/names?last=3600")
        found = [_seconds(port, path) for _ in range(_RUNS + 1)][1:]
        yield _line(f"GET {name.partition('?')[0]}, 200 entries", [one * 1000 for one in found if one], 100, "ms")


class _Page:
    """A page and what its process spends."""

    def __init__(self, browser: Any, port: int) -> None:
        self.context = browser.new_context(viewport={"width": 1440, "height": 900})
        self.page = self.context.new_page()
        self.tools = self.context.new_cdp_session(self.page)
        self.tools.send("Performance.enable")
        self._all, self._port = browser.new_browser_cdp_session(), port

    def go(self, place: str, until: str) -> float:
        """Open a screen in a page that knows nothing; milliseconds until something is there."""
        self.page.goto("about:blank")
        self.page.goto(f"http://127.0.0.1:{self._port}/#/{place}", wait_until="commit")
        self.page.wait_for_selector(until)
        return float(self.page.evaluate("performance.now()"))

    def figure(self, name: str) -> float:
        metrics = self.tools.send("Performance.getMetrics")["metrics"]
        return float(next(one["value"] for one in metrics if one["name"] == name))

    def heap(self) -> float:
        self.tools.send("HeapProfiler.collectGarbage")
        return self.figure("JSHeapUsedSize") / 1e6

    def nodes(self) -> int:
        return int(self.page.evaluate("document.querySelectorAll('*').length"))

    def renderers(self) -> float:
        """CPU seconds of all pages of the browser."""
        found = self._all.send("SystemInfo.getProcessInfo")["processInfo"]
        return float(sum(one["cpuTime"] for one in found if one["type"] == "renderer"))

    def wheel(self, selector: str) -> float:
        """CPU milliseconds of the main thread per frame while the wheel turns over something."""
        box = self.page.locator(selector).bounding_box()
        self.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + min(box["height"], 300) / 2)
        self.page.evaluate("window.frames_ = 0; (function next() { window.frames_++; requestAnimationFrame(next); })()")
        frames, spent = self.page.evaluate("window.frames_"), self.figure("TaskDuration")
        for _ in range(_FRAMES):
            self.page.mouse.wheel(0, 120)
        self.page.wait_for_timeout(200)
        drawn = self.page.evaluate("window.frames_") - frames
        return (self.figure("TaskDuration") - spent) * 1000 / max(1, min(drawn, _FRAMES))


def _pages(bench: Bench, browser: Any, port: int, trace: str) -> Iterator[Line]:
    bench.step("time to content")
    cases = (
        ("lake of 10,000 tables", "", "td a"),
        ("logs of a million records", "logs/last=1800", ".grid td button"),
        ("trace of 10,000 spans", f"traces/{trace}", "[role=treeitem]"),
        ("SQL with its editor", "sql", ".editor .cm-content"),
    )
    heaps, nodes = {}, {}
    for name, place, until in cases:
        taken = []
        for _ in range(_RUNS):
            fresh = _Page(browser, port)
            taken.append(fresh.go(place, until))
            fresh.page.wait_for_timeout(500)
            heaps[name], nodes[name] = fresh.heap(), fresh.nodes()
            fresh.context.close()
        yield _line(f"content of {name}", taken, 1000, "ms")
    for name, _, _ in cases:
        yield _line(f"page of {name}", [nodes[name]], 1500, "elements")
    page = _Page(browser, port)
    yield from _scrolled(bench, page, trace)
    for name, _, _ in cases:
        yield _line(f"heap of {name}", [heaps[name]], 50, "MB")
    yield _line("heap after all of these", [page.heap()], 50, "MB")
    yield from _idle(bench, page)
    yield from _cancelled(bench, port)
    page.context.close()


def _scrolled(bench: Bench, page: _Page, trace: str) -> Iterator[Line]:
    bench.step("turning the wheel")
    for name, place, until, box in (
        ("10,000 tables", "", "td a", ".grid"),
        ("log records", "logs/last=1800", ".grid td button", ".grid"),
        ("10,000 spans", f"traces/{trace}", "[role=treeitem]", "[role=tree]"),
    ):
        page.go(place, until)
        page.page.wait_for_timeout(300)
        yield _line(f"CPU of a wheel frame, {name}", [page.wheel(box) for _ in range(3)], 16, "ms")
    page.go("sql", ".editor .cm-content")
    page.page.fill("input[type=number]", "10000")
    page.page.click(".editor .cm-content")
    page.page.keyboard.insert_text(_WIDE)
    page.page.keyboard.press("Escape")
    page.page.keyboard.press("Control+Enter")
    page.page.wait_for_selector(".ran:has-text('rows × 24')", timeout=120_000)
    yield _line("CPU of a wheel frame, 10,000 × 24 rows", [page.wheel(".sheet") for _ in range(3)], 16, "ms")
    yield _line("page of 10,000 × 24 rows", [page.nodes()], 1500, "elements")


def _idle(bench: Bench, page: _Page) -> Iterator[Line]:
    bench.step("doing nothing")
    for name, place, until in (("the lake", "", "td a"), ("streams", "streams", ".grid"), ("logs", "logs", "h1")):
        page.go(place, until)
        page.page.wait_for_timeout(3000)
        spent, began = page.renderers(), time.perf_counter()
        page.page.wait_for_timeout(_IDLE_SECONDS * 1000)
        share = (page.renderers() - spent) / (time.perf_counter() - began) * 100
        yield _line(f"CPU of an idle page, {name}", [share], 1, "%")


def _cancelled(bench: Bench, port: int) -> Iterator[Line]:
    bench.step("cancelling a statement")
    taken = []
    for _ in range(3):
        made = _ask(port, "POST", "/sql", {"text": _ENDLESS})
        path = f"/sql/{made['id']}"
        _until(lambda path=path: _ask(port, "GET", path)["state"] == "running", 60)
        time.sleep(0.5)
        _ask(port, "DELETE", path)
        taken.append(_until(lambda path=path: _ask(port, "GET", path)["state"] == "cancelled", 60))
    yield _line("cancelling a statement", taken, 5, "s")


def _ask(port: int, method: str, path: str, body: Any = None) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    sent = json.dumps(body) if body else None
    connection.request(method, "/api/v1" + path, sent, {"content-type": "application/json"})
    answer = connection.getresponse().read()
    connection.close()
    return json.loads(answer) if answer else None


def _recovery(bench: Bench, browser: Any, folder: Path, port: int, server: Any) -> Iterator[Line]:
    bench.step("killing the server")
    page = _Page(browser, port)
    page.go("", ".live:has-text('live')")
    server.kill()
    server.wait()
    began = time.perf_counter()
    page.page.wait_for_selector(".live:has-text('stale since')")
    yield _line("killed until `stale since`", [time.perf_counter() - began], 5, "s")
    with _serving(folder, port) as (_, second):
        began = time.perf_counter()
        page.page.wait_for_selector(".live:has-text('version')")
        yield _line("back until it is shown", [time.perf_counter() - began], 5, "s")
        page.context.close()
        streams = [socket.create_connection(("127.0.0.1", port)) for _ in range(_STREAMS)]
        for one in streams:
            one.sendall(f"GET /api/v1/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
            one.recv(1 << 16)
        second.send_signal(signal.SIGTERM)
        began = time.perf_counter()
        second.wait(60)
        yield _line("SIGTERM with 20 open streams", [time.perf_counter() - began], 2, "s")
        for one in streams:
            one.close()
