"""A Spark session that knows a lake, beside everything that Spark knows itself."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from moulin import Lake
from moulin.errors import AlreadyExists, InvalidInput, NotFound, Unsupported

pytestmark = pytest.mark.spark
Ids = Callable[[Any], list[int]]


@pytest.fixture
def attached(lake: Lake) -> SparkSession:
    table = lake.create_table("shop.orders", [("id", "long", False), ("amount", "double")])
    table.append([{"id": number, "amount": number / 2} for number in (1, 2, 3)])
    return lake.spark()


@pytest.fixture
def own(spark: SparkSession) -> Iterator[str]:
    """A database of Spark's own, with a table."""
    spark.sql("create database own")
    spark.sql("create table own.names using parquet as select 1L as id, 'one' as name")
    yield "own"
    spark.sql("drop database own cascade")


def row(spark: SparkSession, number: int) -> DataFrame:
    return spark.createDataFrame([(number, 0.5)], "id long, amount double")


def test_sql_and_tables_are_read_from_the_lake(attached: SparkSession, ids: Ids) -> None:
    assert ids(attached.sql("select * from shop.orders where id > :least", args={"least": 1})) == [2, 3]
    assert ids(attached.table("shop.orders")) == [1, 2, 3]
    assert ids(attached.table("moulin.shop.orders").filter("id < 3")) == [1, 2]
    assert ids(attached.read.table("`shop`.`orders`")) == [1, 2, 3]


def test_queries_mix_tables_of_the_lake_with_those_of_spark(attached: SparkSession, own: str) -> None:
    joined = attached.sql("with o as (select * from shop.orders) select id, name from o join own.names using (id)")
    assert [tuple(found) for found in joined.collect()] == [(1, "one")]
    attached.table("shop.orders").createOrReplaceTempView("seen")
    assert attached.sql("select count(*) from seen join shop.orders using (id)").first() == (3,)
    assert attached.sql("select max(id) from {rows} join shop.orders using (id)", rows=row(attached, 2)).first() == (2,)


def test_what_does_not_name_the_lake_is_sparks_own(attached: SparkSession, own: str) -> None:
    row(attached, 1).write.saveAsTable("own.saved")
    row(attached, 1).writeTo("own.written").using("parquet").create()
    row(attached, 2).write.insertInto("own.saved")
    assert attached.table("own.saved").count() == 2
    assert attached.read.table("own.written").count() == 1
    shown = [found.tableName for found in attached.sql("show tables in own").collect() if not found.isTemporary]
    assert shown == ["names", "saved", "written"]
    with pytest.raises(ParseException):
        attached.sql("selec 1")


def test_the_session_that_was_attached_stays_as_it_was(lake: Lake, attached: SparkSession, spark: SparkSession) -> None:
    with pytest.raises(AnalysisException):
        spark.sql("select * from shop.orders")
    with pytest.raises(AnalysisException):
        row(spark, 1).writeTo("shop.orders").append()
    again = lake.attach(spark)
    assert again.table("shop.orders").count() == 3
    assert attached.newSession().table("shop.orders").count() == 3
    assert SparkSession.builder.getOrCreate() is spark


def test_frames_of_an_attached_session_are_appended(lake: Lake, attached: SparkSession, ids: Ids) -> None:
    row(attached, 4).writeTo("shop.orders").append()
    attached.table("shop.orders").where("id = 4").selectExpr("id + 1 as id", "amount").writeTo("shop.orders").append()
    row(attached, 6).write.mode("append").saveAsTable("shop.orders")
    row(attached, 7).toDF("x", "y").write.insertInto("shop.orders")
    assert ids(lake.table("shop.orders")) == [1, 2, 3, 4, 5, 6, 7]


def test_frames_of_an_attached_session_overwrite(lake: Lake, attached: SparkSession, ids: Ids) -> None:
    orders = lake.table("shop.orders")
    row(attached, 8).writeTo("shop.orders").overwrite(F.expr("id = 2 or amount > 1.2"))
    assert ids(orders) == [1, 8]
    with pytest.raises(Unsupported, match="as text"):
        row(attached, 8).writeTo("shop.orders").overwrite(F.col("id") == 2)
    row(attached, 9).writeTo("shop.orders").overwritePartitions()
    assert ids(orders) == [9]
    row(attached, 10).write.insertInto("shop.orders", overwrite=True)
    assert ids(orders) == [10]
    row(attached, 11).write.mode("overwrite").saveAsTable("shop.orders")
    assert ids(orders) == [11]
    row(attached, 12).writeTo("shop.orders").overwrite(F.lit(True))
    assert ids(orders) == [12]


def test_tables_are_made_of_frames(lake: Lake, attached: SparkSession, ids: Ids) -> None:
    frame = row(attached, 1).selectExpr("id", "timestamp'2026-01-02 03:04:05' as ts")
    days, buckets = F.partitioning.days("ts"), F.partitioning.bucket(4, "id")
    frame.writeTo("shop.made").partitionedBy(days, buckets).tableProperty("owner", "ann").create()
    made = lake.table("shop.made")
    assert [str(field.transform) for field in made.state().spec.fields] == ["day", "bucket[4]"]
    assert made.properties["owner"] == "ann"
    with pytest.raises(AlreadyExists):
        frame.writeTo("shop.made").create()
    later = frame.selectExpr("id", "ts + interval 1 day as ts")
    later.writeTo("shop.made").append()
    frame.selectExpr("id + 0 as id", "ts + interval 1 hour as ts").writeTo("shop.made").overwritePartitions()
    assert sorted(str(found["ts"])[:13] for found in made.scan().to_pylist()) == ["2026-01-02 04", "2026-01-03 03"]
    frame.writeTo("shop.made").createOrReplace()
    assert ids(made) == [1]
    with pytest.raises(Unsupported, match="same columns"):
        row(attached, 1).writeTo("shop.made").createOrReplace()
    with pytest.raises(NotFound):
        row(attached, 1).writeTo("shop.none").append()


def test_a_table_that_cannot_be_filled_is_not_left_behind(lake: Lake, attached: SparkSession) -> None:
    broken = (
        attached.range(1)
        .selectExpr("id", "raise_error('no') as amount")
        .selectExpr("id", "cast(amount as double) as amount")
    )
    with pytest.raises(Exception, match="no"):
        broken.writeTo("shop.made").create()
    assert not attached.catalog.tableExists("shop.made")


def test_statements_change_the_lake(lake: Lake, attached: SparkSession) -> None:
    attached.sql("truncate table shop.orders").collect()
    assert lake.table("shop.orders").scan().count() == 0


@pytest.mark.parametrize(
    ("write", "advice"),
    [
        (lambda frame: frame.sparkSession.readStream.table("shop.orders"), r"format\('moulin'\).*changes_since.*load"),
        (lambda frame: frame.sparkSession.catalog.setCurrentDatabase("shop"), "shop.table"),
        (lambda frame: frame.sparkSession.catalog.cacheTable("shop.orders"), r"cache\(\)"),
        (lambda frame: frame.sparkSession.catalog.uncacheTable("shop.orders"), r"unpersist\(\)"),
        (lambda frame: frame.sparkSession.catalog.recoverPartitions("shop.orders"), "remove this"),
        (lambda frame: frame.sparkSession.catalog.analyzeTable("shop.orders"), "remove this"),
        (lambda frame: frame.sparkSession.catalog.listPartitions("shop.orders"), "partitions"),
        (lambda frame: frame.sparkSession.catalog.createTable("shop.x", schema=frame.schema), "CREATE TABLE"),
        (lambda frame: frame.sparkSession.catalog.createExternalTable("shop.x", "/tmp"), "backfill"),
        (lambda frame: frame.writeTo("shop.orders").using("parquet"), "one format"),
        (lambda frame: frame.writeTo("shop.other").partitionedBy(F.col("id") + 1), "not by"),
        (lambda frame: frame.select("id").write.insertInto("shop.orders"), "2 columns"),
        (lambda frame: frame.sparkSession.sql("create table own.x as select * from shop.orders"), "'own'"),
    ],
)
def test_what_cannot_be_done_names_the_call_to_use(
    attached: SparkSession, write: Callable[[DataFrame], Any], advice: str
) -> None:
    with pytest.raises((InvalidInput, NotFound, Unsupported), match=advice):
        write(row(attached, 1))


def test_a_stream_into_the_lake_names_the_call_to_use(attached: SparkSession) -> None:
    stream = attached.readStream.format("rate").load()
    with pytest.raises(Unsupported, match=r"writeStream.format\('moulin'\).*start\('shop.orders'\)"):
        stream.writeStream.toTable("shop.orders")


def test_frames_of_an_attached_session_are_merged(lake: Lake, attached: SparkSession) -> None:
    def amounts() -> dict[int, float]:
        return {row["id"]: row["amount"] for row in lake.table("shop.orders").scan().to_pylist()}

    frame = attached.createDataFrame([(2, 7.0), (9, 9.0)], "id long, amount double")
    writer = frame.mergeInto("shop.orders", frame.id == F.col("orders.id"))
    writer.whenMatched().updateAll().whenNotMatched().insertAll().merge()
    assert amounts() == {1: 0.5, 2: 7.0, 3: 1.5, 9: 9.0}
    own = attached.table("shop.orders").where("id > 2").alias("s")
    writer = own.mergeInto("moulin.shop.orders", F.expr("s.id = orders.id"))
    writer = writer.whenMatched(F.col("s.id") == 3).delete()
    writer = writer.whenMatched().update({"amount": F.col("orders.amount") + F.col("s.amount")})
    writer.whenNotMatchedBySource().update({"amount": F.lit(0.0)}).merge()
    assert amounts() == {1: 0.0, 2: 0.0, 9: 18.0}


def test_a_merge_into_another_table_is_sparks_own(attached: SparkSession, own: str) -> None:
    with pytest.raises(PySparkException, match="does not support MERGE"):
        row(attached, 1).mergeInto("own.names", F.lit(True)).whenMatched().delete().merge()


def test_the_catalog_changes_tables_of_the_lake(lake: Lake, attached: SparkSession, own: str) -> None:
    catalog = attached.catalog
    attached.sql("create view shop.seen as select id from shop.orders")
    attached.sql("alter table shop.orders set tblproperties ('team' = 'ann')")
    assert [found.name for found in catalog.listViews("shop")] == ["seen"]
    assert catalog.getTableProperties("shop.orders") == {"team": "ann"}
    assert "`amount` double" in catalog.getCreateTableString("shop.orders")
    catalog.refreshTable("shop.orders")
    assert not catalog.isCached("shop.orders")
    catalog.dropView("shop.seen")
    catalog.truncateTable("shop.orders")
    assert lake.table("shop.orders").scan().count() == 0
    catalog.dropTable("shop.orders")
    catalog.dropTable("shop.orders", ifExists=True)
    catalog.dropDatabase("shop")
    assert not catalog.databaseExists("shop")
    catalog.dropTable("own.names")
    assert not catalog.tableExists("own.names")


def test_a_lake_that_was_closed_leaves_everything_to_spark(
    lake: Lake, attached: SparkSession, spark: SparkSession
) -> None:
    row(attached, 1).count()
    assert SparkSession.getActiveSession() is spark, "other lakes find Spark's own session"
    lake.close()
    assert attached.sql("select 1").first() == (1,)
    with pytest.raises(AnalysisException):
        attached.sql("select * from shop.orders")


def test_the_catalog_shows_both(lake: Lake, attached: SparkSession, own: str) -> None:
    catalog = attached.catalog
    assert [found.name for found in catalog.listDatabases()] == ["shop", "default", "own"]
    assert [found.name for found in catalog.listDatabases("sh*")] == ["shop"]
    assert [found.name for found in catalog.listTables("shop")] == ["orders"]
    assert "names" in [found.name for found in catalog.listTables("own")]
    assert catalog.tableExists("shop.orders")
    assert catalog.tableExists("orders", "shop")
    assert not catalog.tableExists("shop.none")
    assert catalog.tableExists("own.names")
    assert catalog.databaseExists("shop")
    assert catalog.databaseExists("own")
    assert catalog.getDatabase("shop").catalog == "moulin"
    assert catalog.getTable("shop.orders").namespace == ["shop"]
    assert [(found.name, found.dataType) for found in catalog.listColumns("shop.orders")] == [
        ("id", "bigint"),
        ("amount", "double"),
    ]


def test_a_frame_keeps_the_version_that_it_was_made_of(attached: SparkSession) -> None:
    frame = attached.table("shop.orders")
    row(attached, 4).writeTo("shop.orders").append()
    assert frame.count() == 3
    assert attached.table("shop.orders").count() == 4
