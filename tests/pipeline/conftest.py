"""Lakes for the Spark tests. They share one session; planned tasks run on it, and statements ask the catalog for
segments, however small they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import moulin
from moulin import Lake, Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = [("id", "long", False), ("ts", "timestamptz"), ("region", "string"), ("amount", "double")]
START = datetime(2024, 3, 1, tzinfo=UTC)

MakeRows = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def lake(tmp_path: Path, spark: SparkSession) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake", merge_local_bytes=1, sql_pruning_segments=1) as lake:
        lake.create_database("shop")
        assert lake.spark().sparkContext is spark.sparkContext, "a session that runs is reused"
        yield lake


@pytest.fixture
def orders(lake: Lake) -> Table:
    """An event table without partitions, sorted by event time."""
    return lake.create_table("shop.orders", EVENTS, event_time="ts")


@pytest.fixture
def rows() -> MakeRows:
    """Rows with ids from `first` on, a minute apart."""

    def make(first: int, count: int, region: str = "eu") -> list[dict[str, Any]]:
        numbers = range(first, first + count)
        return [{"id": n, "ts": START + timedelta(minutes=n), "region": region, "amount": float(n)} for n in numbers]

    return make


@pytest.fixture
def ids() -> Callable[[Any], list[int]]:
    """The ids of a DataFrame or of a table, sorted."""

    def collect(source: DataFrame | Table) -> list[int]:
        if isinstance(source, Table):
            return sorted(source.scan(columns=["id"]).to_arrow().column(0).to_pylist())
        return sorted(row.id for row in source.select("id").collect())

    return collect


@pytest.fixture(scope="module")
def small_plans(spark: SparkSession) -> Iterator[None]:
    """Small plans for small tables."""
    wanted = {
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }
    before = {key: spark.conf.get(key) for key in wanted}
    for key, value in wanted.items():
        spark.conf.set(key, value)
    yield
    for key, old in before.items():
        assert old is not None
        spark.conf.set(key, old)
