"""Bloom filters that a table asks for are used by Spark, beside bounds, which say nothing here."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import moulin

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

ROWS = 20_000


@pytest.mark.parametrize("asked", [True, False])
def test_spark_passes_over_row_groups_by_bloom_filters(spark: SparkSession, tmp_path: Path, asked: bool) -> None:
    lake = moulin.connect(tmp_path, spark=spark)
    wanted = {f"write.parquet.bloom-filter-enabled.column.{name}": "true" for name in ("id", "name")}
    lake.create_database("shop")
    columns = [("id", "long"), ("name", "string")]
    table = lake.create_table("shop.items", columns, properties=wanted if asked else {})
    numbers = [(7919 * row) % ROWS * 2 for row in range(ROWS)]
    table.append(pa.table({"id": numbers, "name": [f"name {number:06}" for number in numbers]}))
    files = [str(path) for path in tmp_path.rglob("*.parquet")]
    assert len(files) == 1
    for there, nowhere in (("id = 14232", "id = 14233"), ("name = 'name 014232'", "name = 'name 014233'")):
        for where, rows in ((there, 1), (nowhere, 0)):
            plan = spark.read.parquet(*files).where(where)._jdf.queryExecution().executedPlan()
            assert len(plan.executeCollect()) == rows
            scan = plan.collectLeaves().head()
            decoded = scan.metrics().get("numOutputRows").get().value()
            assert decoded == (0 if asked and not rows else ROWS)
        assert table.scan(where=there).to_arrow().num_rows == 1
        assert table.scan(where=nowhere).to_arrow().num_rows == 0
