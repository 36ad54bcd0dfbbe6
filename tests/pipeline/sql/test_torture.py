"""Queries of every shape through `lake.sql`, and through plain Spark with tables of the same names and rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

import moulin
from moulin import Lake
from moulin.errors import MoulinError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.spark

_TABLES = {
    "orders": [("id", "long"), ("user id", "long"), ("amount", "decimal(9, 2)"), ("tags", "list<string>")],
    "users": [("id", "long"), ("name", "string"), ("boss", "long"), ("home", "struct<city: string, zip: int>")],
    "sales": [("day", "date"), ("region", "string"), ("total", "int")],
}
_FIRST = {"orders": "id = 0", "users": "id = 0", "sales": "region = 'eu' and total = 2"}


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
            table.delete_where(_FIRST[name])
            table.append([*rows[name][4:], rows[name][0]])
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
_MISSED = [
    "select distinct on (id) id from shop.orders",
    "select 1; select 2",
    "select id from shop.orders; drop table shop.orders",
    "select * from shop.orders as of version 1",
    "select * exclude (tags) from shop.orders",
    "select id from shop.orders fetch first 1 row only",
    "select id from shop.orders tablesample (200 percent)",
    "with a as (select 1), a as (select 2) select * from a",
    "values (1), (2, 3)",
    "from shop.orders |> wher id > 1",
]
"""What other engines take, and mistakes."""


@pytest.mark.sample(20)
@pytest.mark.parametrize("text", _QUERIES)
def test_a_query_gives_what_plain_spark_gives(lake: Lake, plain: SparkSession, text: str) -> None:
    expected = plain.sql(text)
    found = lake.sql(text)
    assert found.columns == expected.columns
    rows = sorted(map(str, found.collect()))
    assert rows == sorted(map(str, expected.collect()))
    assert rows, "a query that finds nothing checks nothing"


@pytest.mark.parametrize("text", _MISSED)
def test_what_plain_spark_refuses_is_refused(lake: Lake, plain: SparkSession, text: str) -> None:
    with pytest.raises(PySparkException):
        plain.sql(text).collect()
    with pytest.raises((MoulinError, PySparkException)):
        lake.sql(text).collect()
    assert lake.sql("select count(*) from shop.orders").first() == (12,)


def test_a_cte_reads_other_versions_than_the_query_around_it(lake: Lake) -> None:
    table = lake.create_table("shop.travelled", [("id", "long")])
    versions = []
    for number in range(3):
        table.append([{"id": number}])
        versions.append(table.version)
    first, second, _ = versions
    text = f"""with travelled as (select * from shop.travelled version as of {first}),
        twice as (select id from travelled union all (with travelled as (select 7 as id) select id from travelled)),
        between as (select count(*) as n from shop.travelled for version as of :second)
        select (select count(*) from shop.travelled), (select n from between), sum(id), count(*),
            (select count(*) from shop.travelled version as of {second} where id in (select id from travelled))
        from twice"""
    assert [tuple(row) for row in lake.sql(text, args={"second": second}).collect()] == [(3, 2, 7, 2, 1)]


def test_parameters_stand_wherever_a_value_may(lake: Lake) -> None:
    named = """with few as (select * from identifier(:table) where id between :low and :low + 2)
        select few.id, :note || ':' as `:note`, array_contains(:list, few.id) /* :missing ? */ -- :other
        from few lateral view explode(array(:low)) x as y where ':low' <> '?' order by few.id limit :count"""
    args = {"table": "shop.orders", "low": 3, "note": "it's; --", "list": [4, 9], "count": 2}
    assert [tuple(row) for row in lake.sql(named, args=args).collect()] == [
        (3, "it's; --:", False),
        (4, "it's; --:", True),
    ]
    ordered = "select ? as a, count(*), '?' as `?` from shop.orders where id > ? and `user id` in (?, ?)"
    assert [tuple(row) for row in lake.sql(ordered, args=["x", 5, 1, 2]).collect()] == [("x", 3, "?")]
    for text, given in ((named, {"table": "shop.orders"}), (ordered, ["x"]), (ordered, {"a": 1}), ("select :a", None)):
        with pytest.raises((MoulinError, PySparkException)):
            lake.sql(text, args=given).collect()


def test_a_correlated_value_may_be_asked_of_a_union(lake: Lake) -> None:
    """Plain Spark fails here, so that it is no referee."""
    text = """select u.id, (select max(o.id) from shop.orders o where o.`user id` = u.id) as m
        from (select id from shop.users union all select 9) u where u.id > 2 order by u.id"""
    found = lake.sql(text)
    assert [tuple(row) for row in found.collect()] == [(3, 11), (4, None), (9, None)]
    found.createOrReplaceTempView("kept")
    assert lake.sql("select count(m) from kept").first() == (1,)
    lake.spark().catalog.dropTempView("kept")
