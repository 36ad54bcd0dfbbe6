"""Lakes for the table suite: a folder with SQLite, and PostgreSQL with S3. Every test of the suite runs on both."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.lake import Lake
from moulin.meta.config import ServeConfig
from moulin.meta.server.server import MetaServer, build_server
from moulin.table.table import Table

pytest.register_assert_rewrite("tests.table.keyed_tables")

BACKENDS = [
    pytest.param("folder", id="folder"),
    pytest.param("shared", id="postgres-s3", marks=[pytest.mark.postgres, pytest.mark.s3]),
]

SERVED = pytest.param("served", id="grpc")

EVENTS = [("id", "long", False), ("ts", "timestamptz"), ("region", "string"), ("amount", "double")]

OpenLake = Callable[..., Lake]


@pytest.fixture(params=BACKENDS)
def open_lake(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OpenLake]:
    """Opens the same lake again and again, as several processes would."""
    address: dict[str, Any] = {"uri": tmp_path / "lake"}
    if request.param == "shared":
        address = {
            "uri": request.getfixturevalue("postgres_url"),
            "storage": request.getfixturevalue("s3_url"),
            "storage_options": request.getfixturevalue("s3_options"),
        }
    opened: list[Lake] = []
    server: MetaServer | None = None
    if request.param == "served":
        opened.append(Lake.open(**address))
        server = build_server(opened[0], ServeConfig(bind="127.0.0.1:0")).start()

    def open_it(**more: Any) -> Lake:
        lake = Lake.open(**address, **more) if server is None else moulin.connect(f"grpc://{server.address}", **more)
        opened.append(lake)
        return lake

    yield open_it
    for lake in reversed(opened):
        lake.close()
    if server is not None:
        server.stop(1)


@pytest.fixture
def lake(open_lake: OpenLake) -> Lake:
    lake = open_lake()
    lake.create_database("shop")
    return lake


@pytest.fixture
def orders(lake: Lake) -> Table:
    """An event table without partitions, sorted by event time."""
    return lake.create_table("shop.orders", EVENTS, event_time="ts")


def rows(first: int, count: int, region: str = "eu", day: int = 1) -> list[dict[str, Any]]:
    """Rows with ids from `first` on, an hour apart."""
    return [
        {
            "id": first + n,
            "ts": f"2024-03-{day:02}T{n % 24:02}:{n // 24 % 60:02}:00+00:00",
            "region": region,
            "amount": float(n),
        }
        for n in range(count)
    ]


def ids(source: Any) -> list[int]:
    """The ids of a table, snapshot or scan, sorted."""
    scan = source if hasattr(source, "to_arrow") else source.scan()
    return sorted(scan.to_arrow().column("id").to_pylist())
