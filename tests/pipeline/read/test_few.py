"""Rows that come to the driver without Python tasks: all of them, or none."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from moulin.errors import InvalidInput
from moulin.pipeline.read import few
from moulin.pipeline.read.few import few_rows

pytestmark = pytest.mark.spark


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(few, "FEW_ROWS", 50)


def _frame(spark: SparkSession, rows: int) -> DataFrame:
    return spark.range(0, rows, 1, 4).select("id", F.col("id").cast("string").alias("text"))


@pytest.mark.parametrize("rows", [0, 1, 49])
def test_few_rows_are_all_rows_in_their_order(spark: SparkSession, rows: int) -> None:
    found = few_rows(_frame(spark, rows))
    assert found is not None
    assert found.to_pydict() == {"id": list(range(rows)), "text": [str(n) for n in range(rows)]}


@pytest.mark.parametrize("rows", [50, 51, 199, 200, 5000])
def test_more_rows_are_left_to_tasks(spark: SparkSession, rows: int) -> None:
    assert few_rows(_frame(spark, rows)) is None


@pytest.mark.parametrize("kind", ["left", "inner", "full"])
@pytest.mark.parametrize("rows", [40, 120])
def test_a_join_or_a_union_below_the_limit_loses_no_row(spark: SparkSession, kind: str, rows: int) -> None:
    left, right = _frame(spark, rows), _frame(spark, rows).select("id")
    joined = left.join(right.where("id % 3 = 0"), "id", kind)
    both = joined.union(left.where("id < 2"))
    found, expected = few_rows(both), both.count()
    assert (found is None) == (expected >= 50)
    assert found is None or found.num_rows == expected


def test_wide_values_and_nested_ones_are_left_to_tasks(spark: SparkSession) -> None:
    frame = _frame(spark, 10)
    assert few_rows(frame.withColumn("text", F.when(F.col("id") == 7, F.repeat(F.lit("x"), 300)))) is None
    assert few_rows(frame.withColumn("more", F.array("id"))) is None
    found = few_rows(frame.withColumn("text", F.when(F.col("id") == 7, F.repeat(F.lit("x"), 200))))
    assert found is not None
    assert found.column("text").to_pylist() == [None] * 7 + ["x" * 200] + [None] * 2


def test_frames_that_read_much_are_left_to_tasks(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = spark.createDataFrame(pa.table({"id": [1]}))
    assert few_rows(frame.where("id > 0")) is not None
    monkeypatch.setattr(few, "_READ_BYTES", 0)
    assert few_rows(frame.where("id > 0")) is None


def test_an_error_of_a_row_is_raised(spark: SparkSession) -> None:
    with pytest.raises(InvalidInput, match="no such row"):
        few_rows(_frame(spark, 10).where(F.raise_error(F.lit("no such row")).cast("boolean")))
