"""`spark.read.format("moulin")` in a session that knows the lake: filters that follow choose the segments.

Referee: the same calls in a session that does not know it, where Spark's own source reads all rows.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import moulin
from moulin import Lake, Table
from moulin.errors import InvalidInput
from moulin.pipeline.sql.deferred import DeferredFrame
from tests.pipeline.sql import conditions
from tests.pipeline.sql.test_pruning import _append

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark
Rows = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def daily(lake: Lake, orders: Table, rows: Rows) -> Table:
    """Ten segments of ten rows."""
    for part in range(10):
        orders.append(rows(part * 10, 10, region=f"r{part}"))
    return orders


def _load(session: SparkSession, lake: Lake, name: str = "shop.orders", **options: Any) -> DataFrame:
    return session.read.format("moulin").option("lake", lake.uri).options(**options).load(name)


def _ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def test_filters_that_follow_choose_the_segments(lake: Lake, daily: Table) -> None:
    frame = _load(lake.spark(), lake)
    assert frame.sparkSession is lake.spark()
    few = frame.where("id < 15")
    assert (len(few.inputFiles()), _ids(few)) == (2, list(range(15)))
    counts = frame.groupBy("region").count().where("region = 'r3'")
    assert (len(counts.inputFiles()), counts.collect()) == (1, [("r3", 10)])
    joined = frame.join(frame.select("id", frame.amount.alias("other")), "id").where("id = 42")
    assert (len(joined.inputFiles()), joined.count()) == (1, 1)
    assert _ids(frame.where("id > 97").union(frame.where("id < 2"))) == [0, 1, 98, 99]
    assert (_ids(frame.where("id > 97")), frame.count()) == ([98, 99], 100)


def test_versions_tags_and_columns_are_those_that_were_asked_for(lake: Lake, daily: Table) -> None:
    session, first = lake.spark(), daily.version
    daily.tag("first", first)
    daily.append([{"id": 900}])
    for options in ({"version": first}, {"tag": "first"}):
        assert _ids(_load(session, lake, **options).where("id > 97")) == [98, 99]
    narrow = session.read.format("Moulin").options(LAKE=lake.uri, path="shop.orders").schema("region string, id bigint")
    assert narrow.load().where("id = 5").collect() == [("r0", 5)]
    assert session.read.load("shop.orders", "moulin", narrow.load().schema, lake=lake.uri).columns == ["region", "id"]
    with pytest.raises(InvalidInput, match="no column 'idd'"):
        session.read.format("moulin").option("lake", lake.uri).schema("idd bigint").load("shop.orders")
    with pytest.raises(InvalidInput, match="Unknown option 'vresion'"):
        _load(session, lake, vresion=3)


def test_what_the_session_does_not_know_is_read_by_the_source(
    lake: Lake, daily: Table, tmp_path: Path, spark: SparkSession
) -> None:
    session = lake.spark()
    path = str(tmp_path / "names")
    spark.createDataFrame([(1, "one")], "id long, name string").write.parquet(path)
    assert session.read.format("parquet").load([path]).count() == 1
    assert session.read.load(path).columns == ["id", "name"]
    assert not isinstance(_load(session, lake, where="id < 15"), DeferredFrame)
    assert _ids(_load(session, lake, where="id < 15").where("id > 12")) == [13, 14]
    assert _load(session, lake, changes_since=daily.version - 1).count() == 10
    with moulin.connect(tmp_path / "other") as other:
        other.create_database("shop")
        other.create_table("shop.orders", [("id", "long")]).append([{"id": 7}])
        assert _ids(_load(session, other)) == [7]
    with moulin.connect(lake.uri, sql_pruning="off") as plain:
        assert "_moulin_fill" not in vars(_load(plain.spark(), lake))
        assert _ids(_load(plain.spark(), lake).where("id < 3")) == [0, 1, 2]


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Lake]:
    """A table with deleted rows and an evolved schema."""
    chance = random.Random("tables of test_loaded")
    with moulin.connect(tmp_path_factory.mktemp("loaded") / "lake", sql_pruning_segments=1) as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.events", conditions.COLUMNS, event_time="ts", partition_by=["k"])
        _append(table, chance, 0, 60)
        table.delete_where("id in (3, 10, 17, 24, 31, 38, 45, 52, 59)")
        table.add_column("extra", "double")
        _append(table, chance, 60, 80)
        yield lake


@pytest.mark.sample(1)
@pytest.mark.usefixtures("small_plans")
@pytest.mark.parametrize("seed", range(4))
def test_filtered_rows_are_those_that_the_source_reads(events: Lake, spark: SparkSession, seed: int) -> None:
    own, plain = _load(events.spark(), events, "shop.events"), _load(spark, events, "shop.events")
    assert isinstance(own, DeferredFrame)
    assert own.dtypes == plain.dtypes
    chance = random.Random(f"conditions {seed}")
    for _ in range(6):
        first, second = conditions.condition(chance), conditions.condition(chance)
        wanted = sorted(map(repr, plain.where(first).union(plain.where(second)).collect()))
        assert sorted(map(repr, own.where(first).union(own.where(second)).collect())) == wanted, (first, second)
        wanted = sorted(map(repr, plain.where(first).groupBy("k").count().where("k > 0").collect()))
        assert sorted(map(repr, own.where(first).groupBy("k").count().where("k > 0").collect())) == wanted, first
