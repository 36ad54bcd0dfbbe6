"""A real browser: the system's Chromium, driven by Playwright.

Where there is none, these tests are skipped and say why; with CI set, that is a failure. CONSOLE_SCREENSHOTS names a
folder for pictures of the screens.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
NAMES = ("chromium", "chromium-browser", "google-chrome")


def _missing(reason: str) -> None:
    if os.environ.get("CI"):
        pytest.fail(f"{reason} CI runs the tests of the console in a browser.", pytrace=False)
    pytest.skip(reason)


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """A browser. It ends with its module: Playwright keeps an event loop in the thread, where others run theirs."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        _missing("Playwright is not installed: run make test, which installs it.")
    program = next(filter(None, map(shutil.which, NAMES)), None)
    if program is None:
        _missing("No Chromium is installed: on Debian, apt-get install chromium.")
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=program, headless=True, args=FLAGS)
        yield started
        started.close()


class Watched:
    """A page whose mistakes are collected: errors, violations of the policy, requests to elsewhere."""

    def __init__(self, page: Any, origin: str) -> None:
        self.page, self.origin = page, origin
        self.problems: list[str] = []
        self.expected: list[str] = []
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("request", self._asked)

    def _said(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(f"{message.type}: {message.text} {message.location.get('url', '')}")

    def _asked(self, request: Any) -> None:
        if not request.url.startswith((self.origin, "data:")):
            self.problems.append(f"foreign request: {request.url}")

    def go(self, place: str) -> None:
        """Open a screen, and wait for its title."""
        self.page.goto(f"{self.origin}/#/{place}")
        self.page.wait_for_selector("main h1")
        self.page.wait_for_selector("main [role=status]", state="detached")

    def check(self) -> None:
        """No mistake but those that a test expected, which it names by a part of them."""
        left = [one for one in self.problems if not any(part in one for part in self.expected)]
        assert left == []


@pytest.fixture
def watch(chromium: Any) -> Iterator[Any]:
    """Opens a page of a server, and checks at the end that it made no mistake."""
    opened: list[tuple[Any, Watched]] = []

    def open_page(port: int, **options: Any) -> Watched:
        size = {"width": 1440, "height": 900}
        context = chromium.new_context(viewport=size, **options)
        context.set_default_timeout(60_000)
        watched = Watched(context.new_page(), f"http://127.0.0.1:{port}")
        opened.append((context, watched))
        return watched

    yield open_page
    for context, watched in opened:
        context.close()
        watched.check()


@pytest.fixture(scope="session")
def pictures(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where pictures of screens go."""
    named = os.environ.get("CONSOLE_SCREENSHOTS")
    folder = Path(named) if named else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder
