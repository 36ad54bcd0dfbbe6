"""A lake in a folder with a clock that tests move by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from moulin.catalog.sql.clock import SimulatedClock
from moulin.lake import Lake

SECOND = 1_000_000_000


class HandClock(SimulatedClock):
    """Starts far in the future, so that files just written are in its past."""

    def __init__(self) -> None:
        self.now = 4_000_000_000 * SECOND

    def __call__(self) -> int:
        self.now += 1000
        return self.now

    def forward(self, seconds: float) -> None:
        self.now += int(seconds * SECOND)


@pytest.fixture
def clock() -> HandClock:
    return HandClock()


OpenLake = Callable[..., Lake]


@pytest.fixture
def open_lake(tmp_path: Path, clock: HandClock) -> Iterator[OpenLake]:
    opened: list[Lake] = []

    def open_it(**settings: Any) -> Lake:
        lake = Lake.open(tmp_path / "lake", clock=clock, settings=settings)
        opened.append(lake)
        return lake

    yield open_it
    for lake in opened:
        lake.close()


@pytest.fixture
def lake(open_lake: OpenLake) -> Lake:
    lake = open_lake()
    lake.create_database("shop")
    return lake


def files(root: Path, pattern: str) -> list[Path]:
    return sorted(path for path in root.rglob(pattern) if path.is_file())
