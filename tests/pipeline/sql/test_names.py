"""lake.sql gives a name the meaning that Spark gives it: the referee is Spark with plain tables of the same names."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

import moulin
from moulin import Lake
from moulin.errors import InvalidInput
from tests.pipeline.sql_grammar import TABLES, Grammar

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS: dict[str, list[dict[str, Any]]] = {
    "shop.orders": [{"id": n, "v": f"s{n}", "s": {"f": n % 3, "id": 4 - n}, "tags": [n % 2, n]} for n in (1, 2, 3, 4)],
    "other.orders": [{"id": n, "v": f"o{n}", "w": n % 2 + 1} for n in (2, 3, 5)],
    "shop.items": [
        {"id": n, "orders": {"id": n % 3, "f": n + 1}, "shop": {"orders": {"id": 3 - n}}} for n in (0, 1, 2)
    ],
}
DATABASES = ("shop", "other")
Answer = tuple[tuple[str, ...], Counter[str]] | None


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    """A lake with the tables of the grammar, whose files may be left out for what a query asks."""
    with moulin.connect(tmp_path_factory.mktemp("names") / "lake") as lake:
        for database in DATABASES:
            lake.create_database(database)
        for name, columns in TABLES.items():
            frame = spark.createDataFrame(ROWS[name], columns)
            lake.create_table(name, [(f.name, _lake_type(f.dataType.simpleString())) for f in frame.schema])
            table = lake.table(name)
            for part in ("id <= 2", "id > 2"):
                table.append(frame.where(part).coalesce(1))
            table.create_index("id")
        yield lake


def _lake_type(name: str) -> str:
    return name.replace("bigint", "long").replace("array<", "list<")


def answer(frame: DataFrame) -> Answer:
    return tuple(frame.columns), Counter(str(row) for row in frame.collect())


def by_spark(spark: SparkSession, folder: Path, queries: list[str]) -> list[Answer]:
    """What Spark answers with tables of its own, which are gone afterwards."""
    answers: list[Answer] = []
    try:
        for database in DATABASES:
            spark.sql(f"create database {database} location '{folder / database}'")
        for name, columns in TABLES.items():
            spark.createDataFrame(ROWS[name], columns).coalesce(1).write.saveAsTable(name)
        for query in queries:
            try:
                answers.append(answer(spark.sql(query)))
            except (PySparkException, Py4JJavaError):
                answers.append(None)
    finally:
        for database in DATABASES:
            spark.sql(f"drop database if exists {database} cascade")
    return answers


def by_lake(lake: Lake, query: str) -> Answer:
    try:
        return answer(lake.sql(query))
    except (InvalidInput, PySparkException, Py4JJavaError):
        return None


def compare(lake: Lake, spark: SparkSession, folder: Path, queries: list[str]) -> int:
    """How many of the queries have an answer, which is the same on both sides."""
    expected = by_spark(spark, folder, queries)
    for query, wanted in zip(queries, expected, strict=True):
        assert by_lake(lake, query) == wanted, query
    return sum(wanted is not None for wanted in expected)


EXAMPLES = """
select id from shop.orders where exists (select 1 from other.orders where other.orders.id = shop.orders.id)
with orders as (select 2 as id) select v from shop.orders where exists (from orders where orders.id = shop.orders.id)
select id from shop.orders where exists (select 1 from shop.items as orders where orders.id = shop.orders.id)
select id, (select max(w) from other.orders where other.orders.id = shop.orders.id) from shop.orders
select v, t.* from shop.orders, lateral (select w from other.orders where other.orders.id = shop.orders.id) t
select shop.orders.v, other.orders.v from shop.orders join other.orders on shop.orders.id = other.orders.id
select shop.orders.* from shop.orders join other.orders using (id)
select other.orders.id, v from shop.orders full join other.orders using (id, v)
select orders.id from shop.orders, other.orders
select a.id, b.id from shop.orders a join shop.orders b on a.id = b.id + 1
select shop.orders.id from shop.orders, shop.orders
select shop.orders.id from shop.orders o
select orders.s.f, shop.orders.s.id, s.f, S.F from shop.orders
select s.f, s.id from shop.orders s
select s.s.f, shop.id from shop.orders s, shop.items shop
select orders.id, items.orders.id, shop.orders.id from shop.items
select shop.orders.id from shop.items, shop.orders
with orders as (select * from other.orders) select orders.w, shop.orders.id from orders join shop.orders using (id)
with orders as (select * from orders) select * from orders
with recursive orders(id) as (select min(id) from shop.orders union all select 3 from orders where id < 3) table orders
select id from shop.orders union select id from other.orders except select id from shop.items
select v, count(*) from shop.orders group by shop.orders.v having max(orders.id) > (select min(id) from other.orders)
select id, row_number() over w from shop.orders window w as (partition by s.f order by shop.orders.id)
select * from (select id, v from shop.orders) pivot (max(id) for v in ('s1', 's2'))
select * from (select id, w from other.orders) unpivot (n for what in (id, w))
select shop.orders.id, t.tag from shop.orders lateral view explode(shop.orders.tags) t as tag
select orders.id, tag from shop.orders, lateral explode(orders.tags) as t(tag)
select id from shop.orders tablesample (100 percent) where shop.orders.id > 1
select * from values (1, 'a') as orders(id, v) join shop.orders using (id)
select r.id from range(3) r join shop.orders on shop.orders.id = r.id
from shop.orders |> where shop.orders.id > 1 |> join other.orders on other.orders.id = shop.orders.id |> select w
from shop.orders |> aggregate count(*) as n group by s.f |> as orders |> select orders.n
table other.orders
select * except (tags) from shop.orders order by shop.orders.id limit 2
select shop.orders.v as id from shop.orders order by id, shop.orders.id
select id from shop.orders where (id, v) in (select id, replace(v, 'o', 's') from other.orders)
select struct(orders.*) from shop.orders
select count(distinct shop.orders.s), count(shop.orders.id) filter (where orders.id > 2) from shop.orders
select transform(tags, id -> id + shop.orders.id) from shop.orders
select `shop`.`orders`.`id` from `shop`.`orders`
select `shop.orders`.id from shop.orders
select /*+ broadcast(other.orders), merge(x) */ shop.orders.id from shop.orders left anti join other.orders using (id)
""".strip().splitlines()


@pytest.mark.spark
@pytest.mark.usefixtures("small_plans")
def test_nested_queries_mean_what_they_mean_in_spark(lake: Lake, spark: SparkSession, tmp_path: Path) -> None:
    queries = [*EXAMPLES, *Grammar(7).queries(8)]
    assert compare(lake, spark, tmp_path, queries) > len(queries) / 2


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.usefixtures("small_plans")
@pytest.mark.parametrize("seed", range(100, 110))
def test_many_nested_queries_mean_what_they_mean_in_spark(
    lake: Lake, spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    queries = list(Grammar(seed).queries(100))
    assert compare(lake, spark, tmp_path, queries) > len(queries) / 3


@pytest.mark.spark
@pytest.mark.usefixtures("small_plans", "spark")
def test_names_with_dots_stand_between_backquotes(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("a.b")
        lake.sql("create table `a.b`.`or.ders` (id bigint)")
        lake.sql("insert into `a.b`.`or.ders` values (3)")
        lake.sql("create view `a.b`.v as select id from `a.b`.`or.ders`")
        for name in ("`a.b`.v", "moulin.`a.b`.`or.ders`", "`A.B`.`or.ders`"):
            assert [row.id for row in lake.sql(f"select id from {name}").collect()] == [3], name
        with pytest.raises(InvalidInput, match="between backquotes: `a.b`.orders"):
            lake.sql("select * from a.b.v")
        with pytest.raises(InvalidInput, match="or `a.b` for one with levels"):
            lake.sql("create database a.c")
