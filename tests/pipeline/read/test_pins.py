"""DataFrames and clean-up: what a result of `lake.sql` reads stays as long as it may be read."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import moulin
from moulin import Lake, Table
from moulin.catalog.upkeep.gc import collect
from tests.pipeline.conftest import MakeRows

pytestmark = pytest.mark.spark
NOW: dict[str, Any] = {"history_keep": 0, "orphan_grace": 0, "byte_floor": 0}


@pytest.fixture(params=["folder", pytest.param("postgres", marks=pytest.mark.postgres)])
def lake(request: pytest.FixtureRequest, tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    if request.param == "folder":
        lake = moulin.connect(tmp_path / "lake", pin_seconds=3)
    else:
        lake = moulin.connect(request.getfixturevalue("postgres_url"), storage=str(tmp_path / "lake"), pin_seconds=3)
    with lake:
        lake.create_database("shop")
        lake.spark()
        yield lake


def files(lake: Lake) -> list[str]:
    return [info.path for info in lake.store.list("tables") if info.path.endswith(".parquet")]


def replace_all(lake: Lake, orders: Table, rows: MakeRows) -> None:
    orders.overwrite(rows(900, 1))
    collect(lake.own_catalog(), **NOW)


def clean_until_one_is_left(lake: Lake) -> None:
    """Pins of results that are gone run out."""
    gc.collect()
    for _ in range(100):
        collect(lake.own_catalog(), **NOW)
        if len(files(lake)) == 1:
            return
        time.sleep(0.1)
    pytest.fail("what nobody reads is kept")


FRAMES: dict[str, Callable[[Lake, Table], Any]] = {
    "sql": lambda lake, _: lake.sql("select id from shop.orders"),
    "view": lambda lake, _: lake.sql("select id from shop.every"),
    "derived": lambda lake, _: lake.sql("select id from shop.orders").where("id >= 0"),
    "to_spark": lambda _, orders: orders.to_spark(),
}


@pytest.mark.sample(1)
def test_a_frame_can_be_read_after_clean_up(lake: Lake, orders: Table, rows: MakeRows) -> None:
    for part in range(3):
        orders.append(rows(part * 10, 10))
    lake.create_view("shop.every", ["orders"])
    frames = {kind: make(lake, orders) for kind, make in FRAMES.items()}
    gc.collect()
    replace_all(lake, orders, rows)
    while frames:
        kind, frame = frames.popitem()
        assert sorted(row.id for row in frame.collect()) == list(range(30)), kind
        del frame
        gc.collect()
        collect(lake.own_catalog(), **NOW)
    assert [row.id for row in lake.sql("select id from shop.orders").collect()] == [900]
    clean_until_one_is_left(lake)


def test_the_data_source_pins_what_it_planned(
    lake: Lake, orders: Table, rows: MakeRows, tmp_path: Path, spark: SparkSession
) -> None:
    orders.append(rows(0, 10))
    address = {"lake": lake.uri, "storage": str(tmp_path / "lake")}
    frame = spark.read.format("moulin").options(**address).load("shop.orders")
    local = frame.toLocalIterator()
    first = next(local)
    replace_all(lake, orders, rows)
    assert sorted(row.id for row in (first, *local)) == list(range(10))
