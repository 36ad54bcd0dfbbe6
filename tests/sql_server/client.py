"""What a client does with nothing but PySpark: each step's result, or its error, as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F


def rows(frame: DataFrame) -> list[dict[str, Any]]:
    return [found.asDict() for found in frame.collect()]


def ids(frame: DataFrame) -> list[int]:
    return sorted(found.id for found in frame.collect())


def row(spark: SparkSession, number: int) -> DataFrame:
    return spark.createDataFrame([(number, "x")], "id long, name string")


def joined(left: DataFrame, right: DataFrame) -> list[int]:
    return sorted(found[0] for found in left.join(right, left.id == right.id - 1).select(right.id).collect())


def viewed(spark: SparkSession) -> list[dict[str, Any]]:
    spark.table("shop.orders").where("id > 3").createOrReplaceTempView("late")
    return rows(spark.sql("select count(*) as n from late join shop.orders using (id)"))


def zone(spark: SparkSession) -> list[str | None]:
    before = spark.conf.get("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    return [before, rows(spark.sql("select current_timezone() as z"))[0]["z"]]


def source(spark: SparkSession) -> DataFrame:
    return spark.createDataFrame([(1, "first"), (2, "second")], "id long, name string")


def upsert(spark: SparkSession) -> list[dict[str, Any]]:
    """A merge whose condition is made of columns of the frame and of the table."""
    frame = source(spark).withColumn("name", F.upper("name"))
    writer = frame.mergeInto("shop.made", frame.id == F.col("made.id"))
    writer.whenMatched().updateAll().whenNotMatched().insertAll().merge()
    return rows(spark.table("shop.made").orderBy("id"))


def clauses(spark: SparkSession) -> list[dict[str, Any]]:
    """A merge with conditions, assignments and rows that have no match, of a source that has a name."""
    spark.sql("insert into shop.made values (3, 'third'), (4, 'fourth')").collect()
    spark.createDataFrame([(1, "a"), (2, "b"), (9, "c")], "id long, name string").createOrReplaceTempView("news")
    frame = spark.table("news").where("id > 0").alias("s")
    writer = frame.mergeInto("moulin.shop.made", F.expr("s.id = made.id"))
    writer = writer.whenMatched(F.col("s.id") == 1).delete()
    writer = writer.whenMatched().update({"name": F.concat(F.col("made.name"), F.col("s.name"))})
    writer = writer.whenNotMatched(F.col("s.id") > 5).insert({"id": F.col("s.id"), "name": F.lit("new")})
    writer = writer.whenNotMatchedBySource(F.col("made.id") == 3).update({"name": F.lit("left")})
    writer.whenNotMatchedBySource().delete().merge()
    return rows(spark.table("shop.made").orderBy("id"))


def merged_with_itself(spark: SparkSession) -> list[dict[str, Any]]:
    own = spark.table("shop.made").where("id = 9").alias("s")
    own.mergeInto("shop.made", own.id == F.col("made.id")).whenMatched().delete().merge()
    return rows(spark.table("shop.made").orderBy("id"))


def merge_text(spark: SparkSession) -> list[dict[str, Any]]:
    source(spark).createOrReplaceTempView("news")
    text = "merge into shop.made t using news s on t.id = s.id when not matched then insert *"
    return rows(spark.sql(text).select("num_inserted_rows"))


Step = Callable[[SparkSession], Any]
READS: dict[str, Step] = {
    "sql": lambda s: rows(s.sql("select id, name from shop.orders where id < :least", args={"least": 3})),
    "table": lambda s: rows(
        s.table("shop.orders").filter(F.col("id") > 4).select("id", (F.col("amount") * 2).alias("x"))
    ),
    "count": lambda s: s.read.table("moulin.shop.orders").count(),
    "columns": lambda s: rows(
        s.table("shop.orders")
        .withColumn("x", F.col("id") + 1)
        .withColumn("y", F.col("x") * 2)
        .withColumnRenamed("x", "z")
        .drop("amount", "name")
        .limit(1)
    ),
    "join": lambda s: joined(s.table("shop.orders"), s.table("shop.orders")),
    "groups": lambda s: rows(
        s.table("shop.orders").groupBy((F.col("id") % 2).alias("k")).agg(F.sum("amount").alias("a")).orderBy("k")
    ),
    "window": lambda s: rows(
        s.table("shop.orders").select(F.row_number().over(Window.orderBy(F.desc("id"))).alias("r")).where("r = 1")
    ),
    "distinct": lambda s: s.table("shop.orders").union(s.table("shop.orders")).distinct().count(),
    "view": viewed,
    "frame in text": lambda s: rows(s.sql("select max(id) as m from {rows}", rows=s.table("shop.orders"))),
    "shadow": lambda s: rows(s.sql("with orders as (select 7 as id) select * from orders")),
    "nulls": lambda s: rows(s.sql("select null as a, 1 as b").withColumn("a", F.col("a").cast("int")).fillna(0)),
    "statistics": lambda s: rows(s.table("shop.orders").select("id").describe().where("summary = 'max'")),
    "pandas": lambda s: s.table("shop.orders").orderBy("id").toPandas()["name"].tolist(),
    "arrow": lambda s: s.table("shop.orders").toArrow().num_rows,
    "empty": lambda s: s.table("shop.orders").where("false").toArrow().num_rows,
    "show": lambda s: s.table("shop.orders").orderBy("id").limit(1)._show_string(),
    "schema": lambda s: s.table("shop.orders").schema.simpleString(),
    "explain": lambda s: s.table("shop.orders")._explain_string(),
    "catalog": lambda s: [
        [found.name for found in s.catalog.listDatabases()],
        [found.name for found in s.catalog.listTables("shop") if not found.isTemporary],
        s.catalog.tableExists("shop.orders"),
        [found.name for found in s.catalog.listColumns("shop.orders")],
    ],
    "local rows": lambda s: rows(s.createDataFrame([(1, "a")], "id long, name string")),
    "settings": zone,
    "wrong column": lambda s: s.table("shop.orders").select("nothing").collect(),
    "wrong table": lambda s: s.table("shop.nothing").collect(),
    "wrong value": lambda s: s.sql("select 1 / 0").collect(),
    "file": lambda s: s.read.text("/etc/hostname").collect(),
    "own function": lambda s: s.table("shop.orders").select(F.udf(lambda x: x)("id")).collect(),
    "version": lambda s: s.version,
    "change by text": lambda s: s.sql("truncate table shop.orders").collect(),
    "change by rows": lambda s: s.table("shop.orders").writeTo("shop.orders").append(),
    "change by merge": lambda s: row(s, 1).mergeInto("shop.orders", F.lit(True)).whenMatched().delete().merge(),
}
CHANGES: dict[str, Step] = {
    "create": lambda s: row(s, 1).writeTo("shop.made").create(),
    "append": lambda s: row(s, 2).writeTo("shop.made").append(),
    "save": lambda s: row(s, 3).write.mode("append").saveAsTable("shop.made"),
    "insert": lambda s: row(s, 4).toDF("x", "y").write.insertInto("shop.made"),
    "from a table": lambda s: (
        s.table("shop.made").where("id = 4").selectExpr("id + 1 as id", "name").writeTo("shop.made").append()
    ),
    "appended": lambda s: ids(s.table("shop.made")),
    "overwrite": lambda s: row(s, 9).writeTo("shop.made").overwrite(F.expr("id > 2")),
    "overwritten": lambda s: ids(s.table("shop.made")),
    "replace": lambda s: row(s, 1).writeTo("shop.made").createOrReplace(),
    "replaced": lambda s: ids(s.table("shop.made")),
    "truncate": lambda s: rows(s.sql("truncate table shop.made").select("num_deleted_rows")),
    "merge as text": merge_text,
    "merge": upsert,
    "merge by clauses": clauses,
    "merge with itself": merged_with_itself,
    "merge with new columns": lambda s: (
        row(s, 1).mergeInto("shop.made", F.lit(True)).withSchemaEvolution().whenMatched().delete().merge()
    ),
    "merge that does nothing": lambda s: row(s, 1).mergeInto("shop.made", F.lit(True)).merge(),
    "merge that matches twice": lambda s: (
        source(s).mergeInto("shop.made", F.lit(True)).whenMatched().updateAll().merge()
    ),
}


def main(url: str, steps: str) -> None:
    spark = SparkSession.builder.remote(url).getOrCreate()
    found = {}
    for name, step in {"reads": READS, "changes": CHANGES}[steps].items():
        try:
            found[name] = step(spark)
        except Exception as error:  # noqa: BLE001 - whatever it is, the test is told
            found[name] = f"{type(error).__name__}: {error}"
    sys.stdout.write(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
