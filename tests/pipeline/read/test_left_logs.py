"""Spark is the first to look after a writer was killed: it sees every acknowledged row."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import moulin
from moulin import Lake
from moulin.pipeline.source.datasource import MoulinSource
from tests.table.other_process import OtherProcess

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

COLUMNS = [("id", "long", False), ("name", "string")]
KEYS = range(100)


def left(address: dict[str, Any]) -> None:
    """A hundred puts over four regions, by a process that is killed."""
    with Lake.open(**address) as lake:
        lake.create_database("shop")
        properties = {"moulin.regions": "bucket(4, id)"}
        lake.create_table("shop.items", COLUMNS, primary_key=["id"], properties=properties)
    with OtherProcess(address, "shop.items") as writer:
        writer.call("put_all", [{"id": number, "name": "a"} for number in KEYS])


def by_sql(lake: Lake, spark: SparkSession) -> list[int]:
    return [row.id for row in lake.sql("select id from shop.items order by id").collect()]


def by_table(lake: Lake, spark: SparkSession) -> list[int]:
    return sorted(row.id for row in lake.table("shop.items").to_spark().collect())


def by_session(lake: Lake, spark: SparkSession) -> list[int]:
    lake.spark()
    table = lake.table("shop.items")
    return sorted(row["id"] for row in table.at(version=lake.version).scan().to_pylist())


def by_format(lake: Lake, spark: SparkSession) -> list[int]:
    spark.dataSource.register(MoulinSource)
    frame = spark.read.format("moulin").option("lake", lake.uri).load("shop.items")
    return sorted(row.id for row in frame.collect())


def by_feed(lake: Lake, spark: SparkSession) -> list[int]:
    spark.dataSource.register(MoulinSource)
    options = {"lake": lake.uri, "changes_since": str(lake.version)}
    return sorted(row.id for row in spark.read.format("moulin").options(**options).load("shop.items").collect())


@pytest.mark.sample(2)
@pytest.mark.parametrize("read", [by_sql, by_table, by_session, by_format, by_feed])
def test_spark_sees_what_a_killed_writer_left(
    tmp_path: Path, spark: SparkSession, read: Callable[[Lake, SparkSession], list[int]]
) -> None:
    left({"uri": tmp_path / "lake"})
    with moulin.connect(tmp_path / "lake") as lake:
        assert read(lake, spark) == list(KEYS)


@pytest.mark.postgres
@pytest.mark.s3
def test_sql_sees_what_a_killed_writer_left_in_a_store(
    spark: SparkSession, postgres_url: str, s3_url: str, s3_options: dict[str, str]
) -> None:
    address = {"uri": postgres_url, "storage": s3_url, "storage_options": s3_options}
    left(address)
    with moulin.connect(**address) as lake:
        assert by_sql(lake, spark) == list(KEYS)
