"""Filters on `table.to_spark()` and `spark.table(...)` choose the segments that are read, and never the rows.

Referee: the same calls in a lake with pruning off.
"""

from __future__ import annotations

import gc
import random
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import moulin
from moulin import Lake, Table
from moulin.catalog.upkeep.gc import collect
from moulin.pipeline.sql.deferred import DeferredFrame
from tests.pipeline.conftest import MakeRows
from tests.pipeline.sql import conditions
from tests.pipeline.sql.test_pruning import _append, _rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark


@pytest.fixture
def daily(lake: Lake, orders: Table, rows: MakeRows) -> Table:
    """Ten segments of ten rows, a minute apart."""
    for part in range(10):
        orders.append(rows(part * 10, 10, region=f"r{part}"))
    return orders


def _files(frame: DataFrame) -> int:
    return len(frame.inputFiles())


def _ids(frame: DataFrame) -> list[int]:
    return sorted(row.id for row in frame.select("id").collect())


def test_filters_that_follow_choose_the_segments(lake: Lake, daily: Table) -> None:
    frame = daily.to_spark()
    few = frame.filter("id < 15")
    assert (_files(few), _ids(few)) == (2, list(range(15)))
    assert _files(few.where("region = 'r1'").withColumn("n", few.id + 1).select("n")) == 1
    assert _files(frame.filter(frame.region.isin("r3", "r5")).filter(frame["id"] < 40)) == 1
    assert _files(frame[frame.id == 7]) == 1
    assert _files(frame.filter("id = 7").groupBy("region").count()) == 1
    assert _files(frame) == 10, "the frame itself stays whole"


def test_filters_on_tables_of_the_session_choose_the_segments(lake: Lake, daily: Table) -> None:
    lake.sql("create view shop.v as select *, id * 2 as double from shop.orders")
    session = lake.spark()
    for frame in (session.table("shop.orders"), session.read.table("moulin.shop.orders"), session.table("shop.v")):
        assert frame.sparkSession is session
        assert _files(frame.filter("ts < '2024-03-01 00:10:00'")) == 1
        assert _files(frame) == 10


def test_rows_are_counted_by_the_catalog(lake: Lake, daily: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    from moulin.pipeline.read.reader import TableReader

    monkeypatch.setattr(TableReader, "frame", lambda *_: pytest.fail("rows were read"))
    daily.delete_where("id = 3")
    frame = daily.to_spark()
    assert frame.count() == 99
    assert frame.columns == ["id", "ts", "region", "amount"]
    assert frame.schema.simpleString() == "struct<id:bigint,ts:timestamp,region:string,amount:double>"
    assert frame.filter("id > 200").columns == frame.columns


def test_frames_of_several_versions_are_told_apart(lake: Lake, daily: Table) -> None:
    before = daily.to_spark()
    daily.delete_where("id < 95")
    after = daily.to_spark()
    joined = before.filter("id > 90").join(after, before.id == after.id, "left").where(after.id.isNull())
    assert sorted(row[0] for row in joined.collect()) == [91, 92, 93, 94]
    assert _ids(before.filter("id >= 93").union(after)) == sorted([93, 94, *range(95, 100), *range(95, 100)])
    assert before.filter("id > 90").subtract(after).count() == 4


def test_a_frame_joins_itself_as_other_frames_do(lake: Lake, daily: Table) -> None:
    frame = daily.to_spark()
    left, right = frame.filter("id < 15").alias("l"), frame.filter("id > 5").alias("r")
    joined = left.join(right, "id").select("l.id", "r.region")
    assert sorted(row.id for row in joined.collect()) == list(range(6, 15))


def test_filters_after_a_join_choose_the_segments_of_both_sides(lake: Lake, daily: Table, spark: SparkSession) -> None:
    left, right = daily.to_spark(), daily.to_spark()
    joined = left.join(right.withColumnRenamed("amount", "other"), "id").filter("id < 15")
    assert (_files(joined), _ids(joined)) == (2, list(range(15)))
    both = left.join(right, (left.id == right.id) & (left.region == right.region)).where(right.region == "r4")
    assert (_files(both), both.select(left.id).count()) == (1, 10)
    few = spark.createDataFrame([(3, "x"), (14, "y")], "id long, name string")
    named = left.join(few, "id", "left").where("id < 15 and name is not null")
    assert sorted(row.name for row in named.collect()) == ["x", "y"]
    assert _files(left.join(few, "id").where("region = 'r1'")) == 1
    assert _files(few.join(left.where("region = 'r1'"), "id")) == 1, (
        "a frame of Spark's own takes what was asked before"
    )


def test_filters_after_an_aggregate_choose_the_segments(lake: Lake, daily: Table) -> None:
    frame = daily.to_spark()
    for groups in (
        frame.groupBy("region"),
        frame.groupby(frame.region),
        frame.select("region", "id").groupBy("region"),
    ):
        counted = groups.count().where("region = 'r2'")
        assert (_files(counted), [tuple(row) for row in counted.collect()]) == (1, [("r2", 10)])
    totals = frame.groupBy("region").agg({"id": "max"}).filter("region > 'r7'")
    assert (_files(totals), sorted(row[1] for row in totals.collect())) == (2, [89, 99])
    assert frame.agg({"id": "max"}).collect()[0][0] == 99


def test_groups_do_what_groups_of_spark_do(lake: Lake, daily: Table) -> None:
    from pyspark.errors import AnalysisException

    frame = daily.to_spark().filter("id < 30")
    pivoted = frame.groupBy().pivot("region").count().collect()
    assert [row.asDict() for row in pivoted] == [{"r0": 10, "r1": 10, "r2": 10}]
    first = frame.groupBy("region").applyInPandas(lambda rows: rows.head(1)[["id"]], "id long")
    assert _ids(first.select("id")) == [0, 10, 20]
    assert len(frame.rollup("region").count().collect()) == 4
    with pytest.raises(AnalysisException, match="nothing"):
        frame.groupBy("nothing").count()
    with pytest.raises(AnalysisException, match="nothing"):
        frame.groupBy("region").sum("nothing")


def test_what_is_cached_is_used(lake: Lake, daily: Table) -> None:
    frame = daily.to_spark().filter("id < 50").cache()
    try:
        assert frame.count() == 50
        text = frame.filter("id < 7")._jdf.queryExecution().toString()
        assert "InMemoryTableScan" in text
        assert frame.filter("id < 7").count() == 7
    finally:
        frame.unpersist()


def test_columns_that_files_alone_have_can_be_asked_for(lake: Lake, daily: Table) -> None:
    frame = daily.to_spark()
    assert frame.select("_metadata.file_path").distinct().count() == 10
    assert frame.filter("id < 15").selectExpr("input_file_name() as name").distinct().count() == 2


def test_errors_are_those_of_spark(lake: Lake, daily: Table) -> None:
    from pyspark.errors import AnalysisException, PySparkAttributeError

    with pytest.raises(AnalysisException, match="nothing"):
        daily.to_spark().filter("nothing = 1")
    with pytest.raises(PySparkAttributeError, match="nothing"):
        _ = daily.to_spark().nothing


def test_rows_stay_while_a_frame_of_them_lives(tmp_path: Path, spark: SparkSession, rows: MakeRows) -> None:
    with moulin.connect(tmp_path / "lake", sql_pruning_segments=1, pin_seconds=1) as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.orders", [("id", "long")])
        for part in range(5):
            table.append([{"id": part * 10 + n} for n in range(10)])
        few = table.to_spark().filter("id < 15")
        gc.collect()
        table.overwrite([{"id": 900}])
        time.sleep(1.5)  # longer than a pin stays for frames that are made of others
        collect(lake.own_catalog(), history_keep=0, orphan_grace=0, byte_floor=0)
        assert (_files(few), _ids(few)) == (2, list(range(15)))


def test_small_tables_are_read_as_they_are(tmp_path: Path, lake: Lake, daily: Table) -> None:
    with moulin.connect(tmp_path / "lake", sql_pruning_segments=11) as other:
        assert not isinstance(other.table("shop.orders").to_spark(), DeferredFrame)
    with moulin.connect(tmp_path / "lake", sql_pruning="off") as other:
        assert not isinstance(other.table("shop.orders").to_spark(), DeferredFrame)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[tuple[Table, Table]]:
    """A table with deleted rows and an evolved schema, with pruning and without."""
    path = tmp_path_factory.mktemp("deferred") / "lake"
    chance = random.Random("tables of test_deferred")
    with moulin.connect(path) as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.events", conditions.COLUMNS, event_time="ts", partition_by=["k"])
        _append(table, chance, 0, 60)
        table.delete_where("id in (3, 10, 17, 24, 31, 38, 45, 52, 59)")
        table.add_column("extra", "double")
        table.append(_rows(table, chance, 60, 100))
    with moulin.connect(path, sql_pruning_segments=1) as pruned, moulin.connect(path, sql_pruning="off") as whole:
        yield pruned.table("shop.events"), whole.table("shop.events")


def _step(chance: random.Random, frame: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    has = set(frame.columns)
    steps: list[Any] = [
        lambda f: f.filter(conditions.condition(chance)),
        lambda f: f.where(F.col("id") > chance.randrange(60)),
        lambda f: f.where(f.id != chance.randrange(60)),
        lambda f: f.withColumn("more", F.col("k") + 1),
        lambda f: f.withColumnRenamed("more", "again"),
        lambda f: f.sort("id").limit(chance.randrange(1, 60)),
        lambda f: f.select("k").distinct().join(f, "k"),
        lambda f: f.unionByName(f.filter("id < 20")),
        lambda f: f.alias("a").filter("a.id > 3"),
        lambda f: f.drop("more"),
        lambda f: f.join(f.groupBy("k").agg(F.max("id").alias("id")), ["k", "id"], chance.choice(["left", "inner"])),
        lambda f: f.join(f.select("id"), "id", chance.choice(["semi", "anti", "inner", "left", "right"])),
        lambda f: f.groupBy("id", "k").count().drop("count").join(f.drop("k"), "id"),
    ]
    assert "id" in has
    return chance.choice(steps)(frame)  # type: ignore[no-any-return]


@pytest.mark.sample(1)
@pytest.mark.usefixtures("small_plans")
@pytest.mark.parametrize("seed", range(3))
def test_frames_have_the_rows_that_they_have_without_pruning(tables: tuple[Table, Table], seed: int) -> None:
    for number in range(8):
        found = []
        for table in tables:
            chance = random.Random(f"steps {seed} {number}")
            frame = table.to_spark().sort("id")
            for _ in range(chance.randrange(1, 5)):
                frame = _step(chance, frame)
            if chance.random() < 0.5:
                found.append(sorted(map(repr, frame.select("id", "k").collect())))
            else:
                found.append(sorted(map(repr, frame.groupBy("k").agg({"id": "count"}).collect())))
        assert found[0] == found[1]
