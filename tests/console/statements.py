"""Statements over the API of a server: started, followed until they end, and their rows."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.console.conftest import Api

SECONDS = 120
_OVER = {"done", "failed", "cancelled"}


def start(api: Api, text: str, **options: Any) -> str:
    answer = api.post("/sql", json={"text": text, **options})
    assert answer.status_code == 201, answer.text
    return str(answer.json()["id"])


def follow(api: Api, id: str, until: Callable[[Any], bool] = lambda found: found["state"] in _OVER) -> Any:
    end = time.monotonic() + SECONDS
    while not until(found := api.json(f"/sql/{id}")):
        assert time.monotonic() < end, found
        time.sleep(0.02)
    return found


def run(api: Api, text: str, **options: Any) -> Any:
    """How a statement ended."""
    return follow(api, start(api, text, **options))


def rows(api: Api, text: str, **options: Any) -> list[list[Any]]:
    """All rows of a statement, page by page."""
    found = run(api, text, **options)
    assert found["state"] == "done", found
    read: list[list[Any]] = []
    while len(read) < found["rows"]:
        read += api.json(f"/sql/{found['id']}/rows", **{"from": len(read), "limit": 700})["rows"]
    return read


def refusal(api: Api, text: str, **options: Any) -> str:
    """What a statement that is refused is refused with."""
    found = run(api, text, **options)
    assert found["state"] == "failed", found
    return f"{found['error']['type']}: {found['error']['message']}"


def children() -> dict[int, list[int]]:
    """The processes that run statements for this one, with those that they started."""
    parents: dict[int, int] = {}
    lines: dict[int, bytes] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                stat = (folder / "stat").read_text().rpartition(")")[2].split()
                lines[int(folder.name)] = (folder / "cmdline").read_bytes()
            except OSError:
                continue
            if stat[0] != "Z":
                parents[int(folder.name)] = int(stat[1])
    own = [pid for pid, parent in parents.items() if parent == os.getpid() and b"moulin.cli.query.child" in lines[pid]]
    return {pid: [one for one, parent in parents.items() if parent == pid] for pid in own}
