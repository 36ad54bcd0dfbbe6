from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.lake import Lake
from moulin.table.table import Table

COLUMNS = [("id", "long", False), ("ts", "timestamptz"), ("region", "string"), ("amount", "double")]


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        yield lake


@pytest.fixture(params=["2", "3"], ids=["v2", "v3"])
def orders(lake: Lake, request: pytest.FixtureRequest) -> Table:
    """An event table partitioned by region, in both format versions."""
    properties = {"format-version": request.param}
    return lake.create_table("shop.orders", COLUMNS, partition_by=["region"], event_time="ts", properties=properties)


def rows(first: int, count: int, region: str | None = "eu") -> list[dict[str, Any]]:
    return [
        {"id": first + n, "ts": "2024-03-01T00:00:00+00:00", "region": region, "amount": float(n)} for n in range(count)
    ]
