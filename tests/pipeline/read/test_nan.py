"""NaN in Spark: above every other number and equal to itself, whatever is known of a segment without reading it."""

from __future__ import annotations

import json
import math
import tarfile
from functools import reduce
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

import moulin
from moulin import Lake, Table
from moulin.formats.segment import writer as segment
from tests.compat.make_lakes import HERE

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = pytest.mark.spark

COLUMNS = [("id", "long", False), ("x", "double"), ("f", "float"), ("s", "struct<v: double, n: int>")]
CONDITIONS = [
    "x > 5",
    "x >= 5",
    "x = double('nan')",
    "x <=> double('nan')",
    "x in (1, double('nan'))",
    "x <> 1",
    "not (x <= 5)",
    "not (x < 1)",
    "x between 5 and double('nan')",
    "x < double('nan')",
    "isnan(x)",
    "x > 5 and id > 0",
    "f > 5",
    "f = float('nan')",
    "not (f <= 5)",
    "s.v > 5",
    "s.v = double('nan')",
    "not (s.v <= 5)",
]
VALUES = [1.0, math.nan, None, -2.5, 3.0]


def rows(first: int = 0) -> list[dict[str, Any]]:
    return [
        {"id": first + n, "x": v, "f": VALUES[n - 1], "s": {"v": VALUES[n - 2], "n": n}} for n, v in enumerate(VALUES)
    ]


def plain(spark: SparkSession, given: list[dict[str, Any]]) -> DataFrame:
    """The rows in memory: Spark compares all of them."""
    return spark.createDataFrame(
        [(row["id"], row["x"], row["f"], row["s"]) for row in given],
        "id bigint, x double, f float, s struct<v: double, n: int>",
    )


def found(frame: DataFrame) -> dict[str, list[int]]:
    """The ids that each condition finds. Each has a scan of its own, and so its own rows to skip."""
    parts = [frame.where(c).selectExpr(f"{n} as n", "id") for n, c in enumerate(CONDITIONS)]
    made = reduce(lambda left, right: left.union(right), parts).collect()
    return {c: sorted(row.id for row in made if row.n == n) for n, c in enumerate(CONDITIONS)}


def agree(lake: Lake, spark: SparkSession, given: list[dict[str, Any]], *more: DataFrame) -> None:
    wanted = found(plain(spark, given))
    text = " union all ".join(f"select {n} n, id from shop.floats where {c}" for n, c in enumerate(CONDITIONS))
    made = lake.sql(text).collect()
    assert {c: sorted(row.id for row in made if row.n == n) for n, c in enumerate(CONDITIONS)} == wanted
    for frame in more:
        assert found(frame) == wanted


@pytest.fixture
def floats(lake: Lake) -> Table:
    return lake.create_table("shop.floats", COLUMNS)


def test_nan_is_found_after_appends_deletes_and_compactions(lake: Lake, floats: Table, spark: SparkSession) -> None:
    floats.append(rows())
    floats.append([{"id": 100, "x": 1.0, "f": 1.0, "s": {"v": 1.0, "n": 1}}])
    given = [*rows(), {"id": 100, "x": 1.0, "f": 1.0, "s": {"v": 1.0, "n": 1}}]
    source = spark.read.format("moulin").option("lake", lake.uri).load("shop.floats")
    agree(lake, spark, given, floats.to_spark(), source)
    floats.append(rows(10))
    floats.delete_where("id = 10")
    given += rows(10)[1:]
    agree(lake, spark, given)
    floats.compact(everything=True)
    agree(lake, spark, given)


def test_nan_is_found_where_footers_have_bounds_that_leave_it_out(
    lake: Lake, floats: Table, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So older versions wrote, and so do other engines."""

    def with_statistics(*arguments: Any, **options: Any) -> pq.ParquetWriter:
        return pq.ParquetWriter(*arguments, **{**options, "write_statistics": True})

    monkeypatch.setattr(segment, "pq", SimpleNamespace(ParquetWriter=with_statistics))
    floats.append(rows())
    floats.append([{"id": 100, "x": 1.0, "f": 1.0, "s": {"v": 1.0, "n": 1}}])
    given = [*rows(), {"id": 100, "x": 1.0, "f": 1.0, "s": {"v": 1.0, "n": 1}}]
    agree(lake, spark, given)
    floats.widen_column("f", "double")
    agree(lake, spark, given)


def test_nan_is_found_in_files_that_older_versions_wrote(spark: SparkSession, tmp_path: Path) -> None:
    """Their footers have bounds that leave NaN out."""
    (made,) = (one for one in HERE.iterdir() if one.name == "0.1")
    with tarfile.open(made / "sqlite.tar.gz") as archive:
        archive.extractall(tmp_path / "lake", filter="data")
    expected = json.loads((made / "sqlite.json").read_text())["tables"]["shop.types"]
    nans = sum(row["d"] == "nan" for row in expected)
    assert nans == 1
    with moulin.connect(tmp_path / "lake") as lake:
        for condition in ("d > 5", "d = double('nan')", "not (d <= 5)", "f > 5"):
            assert lake.sql(f"select count(*) n from shop.types where {condition}").first().n == 1, condition
