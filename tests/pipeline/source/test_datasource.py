"""format("moulin"): the tables of a lake in sessions that know nothing of it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import functions as F
from pyspark.sql.types import IntegerType, LongType, StructField, StructType

import moulin
from moulin import Lake, Table
from moulin.errors import InvalidInput, NotFound
from moulin.pipeline.source.datasource import MoulinSource
from moulin.pipeline.source.options import SourceTable

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Ids = Callable[[Any], list[int]]
Rows = Callable[..., list[dict[str, Any]]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"path": "a.b"}, "needs .option"),
        ({"lake": "x"}, "needs a table"),
        ({"lake": "x", "path": "a.b", "vresion": "3"}, "Did you mean 'version'"),
        ({"lake": "x", "path": "a.b", "version": "three"}, "number of a version"),
        ({"lake": "x", "path": "a.b", "version": "3", "timestamp": "2024-01-01"}, "not several"),
        ({"lake": "x", "path": "a.b", "version": "3", "tag": "t"}, "not several"),
    ],
)
def test_wrong_options_say_what_is_known(options: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidInput, match=message):
        SourceTable.of(options)


def test_a_mistyped_address_makes_no_lake(tmp_path: Path) -> None:
    for name in ("missing", "empty"):
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(NotFound), SourceTable.of({"lake": str(tmp_path / name), "path": "a.b"}).open():
            pass
    assert not (tmp_path / "missing").exists()
    assert list((tmp_path / "empty").iterdir()) == []


@pytest.fixture
def load(lake: Lake, spark: SparkSession) -> Callable[..., DataFrame]:
    def read(**options: Any) -> DataFrame:
        return spark.read.format("moulin").options(lake=lake.uri, **options).load("shop.orders")

    return read


@pytest.mark.spark
def test_reads_versions_columns_and_what_filters_leave(
    orders: Table, rows: Rows, ids: Ids, load: Callable[..., DataFrame], lake: Lake, spark: SparkSession
) -> None:
    orders.append(rows(0, 100))
    first = orders.version
    orders.append(rows(100, 100, region="us"))
    orders.delete_where("id in (3, 150)")
    assert ids(load()) == ids(orders)
    assert ids(load(version=first)) == list(range(100))
    assert ids(load(timestamp="2999-01-01")) == ids(orders)
    orders.tag("first", first)
    assert ids(load(tag="first")) == list(range(100))
    assert load().dtypes == orders.to_spark().dtypes
    assert sorted(map(str, load().collect())) == sorted(map(str, orders.to_spark().collect()))
    filtered = load().where("id > 95 and region = 'us' and amount % 2 = 0 and ts is not null")
    assert ids(filtered) == [n for n in range(100, 200, 2) if n != 150]
    narrow = spark.read.format("moulin").option("lake", lake.uri).schema("region string, id bigint")
    assert narrow.load("shop.orders").columns == ["region", "id"]
    assert narrow.load("shop.orders").where("id = 5").collect() == [("eu", 5)]


@pytest.mark.spark
def test_a_where_leaves_out_rows_and_files(
    orders: Table, rows: Rows, lake: Lake, ids: Ids, load: Callable[..., DataFrame]
) -> None:
    orders.append(rows(0, 100))
    orders.append(rows(1000, 100))
    assert ids(load(where="id > 1090")) == list(range(1091, 1100))
    options = {"lake": lake.uri, "path": "shop.orders", "where": "id > 1090"}
    reader = MoulinSource(options).reader(MoulinSource(options).schema())
    (partition,) = reader.partitions()
    assert len(partition.segments) == 1  # type: ignore[attr-defined]
    with pytest.raises(InvalidInput, match="idd"):
        MoulinSource({**options, "where": "idd > 3"}).reader(MoulinSource(options).schema())


@pytest.mark.spark
def test_scans_of_one_frame_with_different_filters_do_not_mix(
    orders: Table, rows: Rows, load: Callable[..., DataFrame], spark: SparkSession
) -> None:
    """Where filters are pushed to Python sources, Spark gives all scans of one frame the filters of the last."""
    orders.append(rows(0, 10))
    before = spark.conf.get("spark.sql.python.filterPushdown.enabled")
    frame = load()
    for pushed in ("true", "false"):
        spark.conf.set("spark.sql.python.filterPushdown.enabled", pushed)
        try:
            high, low = (
                frame.where("id > 7").selectExpr("'high' k", "id"),
                frame.where("id < 2").selectExpr("'low'", "id"),
            )
            assert sorted(map(tuple, high.union(low).collect())) == [("high", 8), ("high", 9), ("low", 0), ("low", 1)]
            joined = (
                frame.where("id = 3").alias("a").join(frame.where("id = 4").alias("b"), on=F.expr("a.id + 1 = b.id"))
            )
            assert joined.count() == 1
        finally:
            spark.conf.set("spark.sql.python.filterPushdown.enabled", str(before))


@pytest.mark.spark
def test_a_schema_that_does_not_fit_is_refused(orders: Table, lake: Lake) -> None:
    made = MoulinSource({"lake": lake.uri, "path": "shop.orders"})
    for name, kind, message in [
        ("idd", LongType(), "Did you mean 'id'"),
        ("id", IntegerType(), "Column id of shop.orders is bigint"),
    ]:
        with pytest.raises(InvalidInput, match=message):
            made.reader(StructType([StructField(name, kind)]))


@pytest.mark.spark
def test_writes_append_and_overwrite(orders: Table, lake: Lake, spark: SparkSession, ids: Ids) -> None:
    frame = spark.range(0, 10, 1, 3).selectExpr("id", "cast(id as double) as amount")

    def save(frame: DataFrame, mode: str) -> None:
        frame.write.format("moulin").option("lake", lake.uri).mode(mode).save("shop.orders")

    version = lake.version
    save(frame, "append")
    assert lake.version == version + 1
    save(frame.where("id < 3").selectExpr("id + 100 as id"), "append")
    assert ids(orders) == [*range(10), 100, 101, 102]
    save(frame.where("id < 2"), "overwrite")
    assert ids(orders) == [0, 1]
    assert [info.kind for info in orders.history(3)] == ["overwrite", "append", "append"]
    version = lake.version
    for wrong, message in [
        (frame.selectExpr("id", "id as nope"), "'nope' that the table does not have"),
        (frame.selectExpr("nullif(id, 5) as id"), "column id: it is null"),
    ]:
        with pytest.raises(Exception, match=message):
            save(wrong, "append")
    assert lake.version == version
    with pytest.raises(InvalidInput, match="for reading"):
        MoulinSource({"lake": lake.uri, "path": "shop.orders", "version": "1"}).writer(frame.schema, False)


@pytest.mark.spark
def test_a_small_frame_of_many_partitions_is_one_segment(
    orders: Table, lake: Lake, spark: SparkSession, ids: Ids
) -> None:
    spark.range(0, 60, 1, 30).write.format("moulin").option("lake", lake.uri).mode("append").save("shop.orders")
    assert len(lake.catalog.segments(orders.id, lake.version)) == 1
    assert ids(orders) == list(range(60))


@pytest.mark.spark
def test_errors_are_one_sentence_in_the_first_line(
    orders: Table, lake: Lake, spark: SparkSession, load: Callable[..., DataFrame], tmp_path: Path
) -> None:
    frame = spark.range(0, 10, 1, 2)

    def save(frame: DataFrame) -> None:
        frame.write.format("moulin").option("lake", lake.uri).mode("append").save("shop.orders")

    def stream() -> None:
        reader = spark.readStream.format("moulin").option("lake", lake.uri).load("shop.orders")
        query = reader.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint")).start()
        query.processAllAvailable()

    for use, reason in [
        (lambda: load(vresion="3"), "InvalidInput: Unknown option 'vresion'"),
        (lambda: load(where="idd > 3").count(), "InvalidInput: There is no column 'idd'. Did you mean 'id'?"),
        (lambda: spark.read.format("moulin").option("lake", lake.uri).load("shop.nope"), "NotFound: Table shop.nope"),
        (lambda: save(frame.selectExpr("id", "id as nope")), "InvalidInput: The data has a column 'nope'"),
        (lambda: save(frame.selectExpr("nullif(id, 5) as id")), "InvalidInput: In partition 1 of the DataFrame: Row 0"),
        (stream, 'InvalidInput: readStream reads changes: give .option("changes_since"'),
    ]:
        with pytest.raises(PySparkException) as caught:
            use()
        first, *rest = str(caught.value).splitlines()
        assert f"moulin.errors.{reason}" in first
        assert not any("Traceback" in line or ".py" in line for line in (first, *rest))


@pytest.mark.spark
def test_every_thread_finds_the_format(orders: Table, lake: Lake, spark: SparkSession, ids: Ids) -> None:
    """Spark looks for it in the active session of the thread, and new threads have none of their own."""
    frame = spark.range(3)

    def save(number: int) -> None:
        shifted = frame.selectExpr(f"id + {number * 3} as id")
        shifted.write.format("moulin").option("lake", lake.uri).mode("append").save("shop.orders")

    for number in range(2):
        with ThreadPoolExecutor(1) as pool:
            pool.submit(save, number).result()
    assert ids(orders) == list(range(6))


PLAIN = """
import json, sys
from pyspark.sql import SparkSession

lake = sys.argv[1]
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
read = lambda: spark.read.format("moulin").option("lake", lake).load("shop.orders")
found = {"before": sorted(r.id for r in read().where("id > 1").collect())}
spark.range(10, 12).write.format("moulin").option("lake", lake).mode("append").save("shop.orders")
found["after"] = sorted(r.id for r in read().collect())
found["imported"] = "moulin" in sys.modules
print("FOUND " + json.dumps(found))
spark.stop()
"""


@pytest.mark.long
@pytest.mark.spark
def test_a_plain_session_finds_the_format_by_itself(tmp_path: Path, spark: SparkSession) -> None:
    from moulin.pipeline.java import java_home

    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        lake.create_table("shop.orders", [("id", "long")]).append([{"id": n} for n in range(5)])
    root = str(Path(moulin.__file__).parent.parent)
    done = subprocess.run(
        [sys.executable, "-c", PLAIN, str(tmp_path / "lake")],
        env=os.environ | {"PYTHONPATH": root, "JAVA_HOME": str(java_home()), "PYSPARK_PYTHON": sys.executable},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    report = next((line for line in done.stdout.splitlines() if line.startswith("FOUND ")), None)
    assert report is not None, done.stderr[-3000:]
    assert json.loads(report.removeprefix("FOUND ")) == {
        "before": [2, 3, 4],
        "after": [0, 1, 2, 3, 4, 10, 11],
        "imported": False,
    }
