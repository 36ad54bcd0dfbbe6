"""Queries of every shape through `lake.sql`, and through plain Spark with tables of the same names and rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import moulin
from moulin import Lake

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_TABLES = {
    "orders": [("id", "long"), ("user id", "long"), ("amount", "decimal(9, 2)"), ("tags", "list<string>")],
    "users": [("id", "long"), ("name", "string"), ("boss", "long"), ("home", "struct<city: string, zip: int>")],
    "sales": [("day", "date"), ("region", "string"), ("total", "int")],
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Lake]:
    rows = {
        "orders": [
            {"id": n, "user id": n % 4, "amount": n * 5, "tags": ["a", f"t{n % 3}", None][: n % 4]} for n in range(12)
        ],
        "users": [
            {"id": n, "name": f"u{n}", "boss": n // 2 if n else None, "home": {"city": "x" * (n % 2), "zip": n}}
            for n in range(5)
        ],
        "sales": [
            {"day": f"2024-0{month}-01", "region": region, "total": month * len(region)}
            for month in (1, 2, 3)
            for region in ("eu", "us", "apac")
        ],
    }
    folder = tmp_path_factory.mktemp("torture")
    with moulin.connect(folder / "lake") as lake:
        lake.create_database("shop")
        for name, columns in _TABLES.items():
            table = lake.create_table(f"shop.{name}", columns)
            table.append(rows[name][:4])
            table.append(rows[name][4:])
        yield lake


@pytest.fixture(scope="module")
def plain(lake: Lake, tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[SparkSession]:
    """Spark with tables of its own."""
    spark.sql(f"create database shop location '{tmp_path_factory.mktemp('plain')}'")
    for name in _TABLES:
        lake.table(f"shop.{name}").to_spark().write.saveAsTable(f"shop.{name}")
    yield spark
    spark.sql("drop database shop cascade")


_QUERIES = (Path(__file__).parent / "torture.sql").read_text().splitlines()


@pytest.mark.parametrize("text", _QUERIES)
def test_a_query_gives_what_plain_spark_gives(lake: Lake, plain: SparkSession, text: str) -> None:
    expected = plain.sql(text)
    found = lake.sql(text)
    assert found.columns == expected.columns
    rows = sorted(map(str, found.collect()))
    assert rows == sorted(map(str, expected.collect()))
    assert rows, "a query that finds nothing checks nothing"
