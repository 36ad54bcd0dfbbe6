"""lake.sql: names of lake tables found in any query, everything else left to Spark."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from moulin import Lake, Table
from moulin.errors import InvalidInput, NotFound, Unsupported
from moulin.pipeline.sql.catalyst import Catalyst
from moulin.pipeline.sql.names import Query, Reference
from moulin.pipeline.sql.resolver import Resolver
from moulin.pipeline.sql.sql import check_is_statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = Callable[..., list[dict[str, Any]]]


@pytest.fixture(scope="module")
def catalyst(spark: SparkSession) -> Catalyst:
    return Catalyst(spark)


@pytest.mark.parametrize(
    ("text", "references"),
    [
        ("select * from shop.orders", [("shop", "orders")]),
        ("select * from `shop` . `my table` as t", [("shop", "my table")]),
        ("from SHOP.orders |> where id > 1", [("SHOP", "orders")]),
        ("table shop.orders", [("shop", "orders")]),
        ("(select * from shop.orders)", [("shop", "orders")]),
        ("select id >>> 1 from shop.a, shop.b join shop.c using (id)", [("shop", "a"), ("shop", "b"), ("shop", "c")]),
        ("with orders as (select * from shop.a) select * from orders, shop.b", [("shop", "b"), ("shop", "a")]),
        ("select * from t where id in (select id from shop.returns)", [("shop", "returns")]),
        (
            "select (select max(id) from shop.a) from shop.b having exists (table shop.c)",
            ["shop.b", "shop.a", "shop.c"],
        ),
        ("select * from shop.a, lateral (select * from shop.b where b.id = a.id)", ["shop.a", "shop.b"]),
        ("select 'shop.x', /* shop.x */ -- shop.x\n 'ü😀' from shop.orders", ["shop.orders"]),
        ("explain formatted select * from shop.orders", ["shop.orders"]),
        ("describe query select * from shop.orders", ["shop.orders"]),
        ("explain extended describe query select * from shop.orders", ["shop.orders"]),
        ("describe table extended shop.orders", ["shop.orders"]),
        ("describe shop.orders id", ["shop.orders"]),
        ("select /*+ broadcast(shop.x) */ * from shop.orders o", ["shop.orders"]),
        ("select * from identifier('shop.orders')", ["shop.orders"]),
        ("select * from identifier('shop' || '.orders') version as of 3", [("shop", "orders", 3)]),
        ("select * from moulin.shop.orders, spark_catalog.shop.x, a.b.c", ["shop.orders"]),
        ("select * from global_temp.x, range(3), one_part, parquet.`/data/x`", []),
        ("select sum(id) over w from shop.a window w as (order by (select max(id) from shop.b))", ["shop.a", "shop.b"]),
        ("values (1), (2)", []),
    ],
)
def test_names_of_lake_tables_are_found(catalyst: Catalyst, text: str, references: list[Any]) -> None:
    wanted = [Reference(*(one.split(".") if isinstance(one, str) else one)) for one in references]
    assert sorted(Query(catalyst, catalyst.parse(text)).references, key=str) == sorted(wanted, key=str)


def test_a_reference_carries_its_version_or_time(catalyst: Catalyst) -> None:
    text = """select * from shop.a version as of 3, shop.a for system_time as of '2024-03-01 12:00', shop.a, shop.a x,
        shop.a timestamp as of timestamp '2024-03-01 13:00:00+01:00' + interval '1 day', shop.a for version as of '4'"""
    noon = int(datetime(2024, 3, 1, 12, tzinfo=UTC).timestamp()) * 10**9
    assert set(Query(catalyst, catalyst.parse(text)).references) == {
        Reference("shop", "a", 3),
        Reference("shop", "a", 4),
        Reference("shop", "a", None, noon),
        Reference("shop", "a", None, noon + 86_400 * 10**9),
        Reference("shop", "a"),
    }


def test_args_may_be_values_names_versions_and_times(catalyst: Catalyst) -> None:
    query = "select * from identifier(:table) version as of :version where id = :id"
    args = {"table": "shop.a", "version": 3, "id": 7}
    assert Query(catalyst, catalyst.parse(query, args)).references == [Reference("shop", "a", 3)]
    moment = datetime(2024, 3, 1, tzinfo=UTC)
    (reference,) = Query(catalyst, catalyst.parse("select * from shop.a timestamp as of ?", [moment])).references
    assert reference.timestamp_ns == int(moment.timestamp()) * 10**9


@pytest.mark.spark
def test_a_table_is_found_under_each_of_its_names(lake: Lake, orders: Table, rows: Rows) -> None:
    orders.append(rows(0, 3))
    for first in ("moulin.shop.orders", "SHOP.orders", "shop.orders timestamp as of '2999-01-01'"):
        for second in ("shop.orders", "shop.orders timestamp as of timestamp '2999-01-01 00:00:00'"):
            text = f"select id from {first} union all select id from {second} where id = 1"
            assert sorted(row.id for row in lake.sql(text).collect()) == [0, 1, 1, 2], text


def test_files_that_indexes_rule_out_are_not_read_by_spark(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("shop.t", [("id", "long"), ("name", "string"), ("day", "date"), ("tags", "list<string>")])
    for part in range(3):
        tagged = {"tags": ["all", f"part{part}", None]}
        days = {n: f"2024-03-{n % 28 + 1:02}" for n in range(part, 60, 3)}
        table.append([{"id": n, "name": f"n{n}", "day": day, **tagged} for n, day in days.items()])
    whole = table.version
    table.append([{"id": 7, "name": "n7", "day": "2024-03-08"}])
    table.delete_where("id = 10")
    query = "select id from shop.t where name = 'n7'"
    assert len(lake.sql(query).inputFiles()) == 4
    table.create_index("name")
    table.create_index("id", "bloom")
    table.create_index("day")
    table.create_index("tags", "label_list")

    def look(query: str, expected: list[int], files: int) -> None:
        frame = lake.sql(query)
        assert sorted(row.id for row in frame.collect()) == expected
        assert len(frame.inputFiles()) == files, query

    look(query, [7, 7], 2)
    look("select T.id from shop.t T where t.NAME in ('n7', 'n8') and ID = 8", [8], 1)
    look("select id from shop.t where id = 10 and name = 'n10'", [], 1)
    look("select id from shop.t where name = 'nobody'", [], 0)
    look(f"select id from shop.t version as of {whole} where name = 'n7'", [7], 1)
    look("select id from shop.t where day = '2024-03-08' and id < 8", [7, 7], 3)
    look("select id from shop.t where id = '7' and name = 'n7'", [7, 7], 2)
    look("select id from shop.t where array_contains(tags, 'part1') and id < 5", [1, 4], 1)
    look("select id from shop.t where array_contains(tags, 'part1') and array_contains(tags, 'part2')", [], 0)
    look("select id from shop.t where not array_contains(tags, 'part1')", [], 4)
    look("select id from shop.t where name = 'n7' and (select count(*) from shop.t) = 60", [7, 7], 2)
    twice = lake.sql("select * from shop.t where name = 'n7' union all select * from shop.t where name = 'n8'")
    assert sorted(row.id for row in twice.collect()) == [7, 7, 8]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("explain delete from shop.orders", "EXPLAIN works only for queries"),
        ("   ", "text of a query"),
        ("describe detail shop.orders", "DESCRIBE EXTENDED"),
        ("explain -- x\n create table shop.x (id long)", "EXPLAIN works only for queries"),
        ("reorg table shop.orders apply (purge)", "OPTIMIZE"),
        ("cache table shop.orders", "lake.sql(...).cache()"),
        ("uncache table shop.orders", ".unpersist()"),
        ("clear cache", ".unpersist()"),
        ("use shop", "no current database"),
        ("set spark.sql.ansi.enabled=false", "lake.spark().conf.set"),
        ("reset spark.sql.ansi.enabled", "lake.spark().conf.unset"),
        ("add jar '/x.jar'", "lake.spark().sql"),
        ("list jars", "lake.spark().sql"),
        ("analyze table shop.orders compute statistics", "table.stats()"),
        ("refresh table shop.orders", "newest version"),
        ("msck repair table shop.orders", "found by the catalog"),
        ("load data inpath '/x' into table shop.orders", "table.backfill"),
        ("copy into shop.orders from '/x'", "table.backfill"),
        ("declare variable x int", "args of lake.sql"),
        ("execute immediate 'select 1'", "args of lake.sql"),
        ("begin select 1; end", "lake.transaction()"),
        ("grant select on shop.orders to x", "`moulin access`"),
        ("export table shop.orders to '/x'", "table.export_iceberg"),
        ("frobnicate shop.orders", "lake.spark().sql"),
        ("select 1; select ';'", "has 2: run them one by one"),
        ("delete from shop.x; -- all\n drop table shop.x;", "has 2: run them one by one"),
    ],
)
def test_what_is_not_a_query_is_refused_before_spark_starts(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)):
        check_is_statement(text)


@pytest.mark.parametrize("text", ["select 1;", "select ';', 1 ; -- done; or not\n", "select 'open;"])
def test_semicolons_that_end_no_other_statement_are_left_to_spark(text: str) -> None:
    check_is_statement(text)


def test_tables_may_have_the_names_of_statements(catalyst: Catalyst) -> None:
    for text in ("describe history.orders", "describe `history`.orders", "desc detail . orders id"):
        check_is_statement(text)
        assert len(Query(catalyst, catalyst.parse(text)).references) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("with t as (select 1) insert into shop.orders select * from t", "run it separately"),
        ("with t as (select 1) delete from shop.orders", "run it separately"),
        ("explain with t as (select 1) insert into shop.orders select * from t", "run it separately"),
        ("from shop.orders insert into shop.x select *", "run it separately"),
        (
            "from shop.orders insert into shop.x select * insert into shop.y select *",
            "run it separately",
        ),
        ("show functions", "lake.spark().sql"),
        ("select * from table_changes('shop.orders')", "must be called as"),
        ("select * from table_changes('orders', 1)", "database.table"),
        ("select * from table_changes('shop.orders.history', 1)", "database.table"),
        ("select * from table_changes('shop.orders', 1, 2, 3)", "each argument once"),
        ("select * from table_changes('shop.orders', since => 1, since => 2)", "each argument once"),
        ("select * from table_changes('shop.orders', null)", "is null"),
        ("select * from shop.orders version as of 'three'", "number of a version"),
        ("select * from shop.orders timestamp as of 'yesterday'", "is not a time"),
        ("select * from shop.orders timestamp as of (select max(ts) from shop.orders)", "no sub-query"),
        ("select * from shop.orders timestamp as of null", "is null"),
        ("select * from identifier((select max(name) from shop.names))", "no sub-query"),
        ("select * from identifier(nothing)", "identifier takes an expression"),
        ("select * from stream shop.orders", "does not stream"),
        ("select * from shop.orders with (mergeSchema = true)", "cannot have options"),
        ("select * from shop.orders changes from version 1 to version 2", "does not support a clause"),
    ],
)
def test_what_is_not_understood_is_refused_with_what_to_do(catalyst: Catalyst, text: str, message: str) -> None:
    with pytest.raises((InvalidInput, Unsupported), match=re.escape(message)):
        Query(catalyst, catalyst.parse(text))


@pytest.mark.spark
def test_queries_join_tables_views_and_versions(lake: Lake, orders: Table, rows: Rows) -> None:
    orders.append(rows(0, 10))
    first = orders.version
    orders.append(rows(10, 10, region="us"))
    orders.delete_where("id < 5")
    customers = lake.create_table("shop.customers", [("region", "string"), ("name", "string")])
    customers.append([{"region": "eu", "name": "Ada"}])
    lake.create_view("shop.everything", ["orders", "customers"])

    def values(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in lake.sql(text).collect()]

    assert values("select region, count(*) from shop.orders group by all order by 1") == [("eu", 5), ("us", 10)]
    assert values(f"select count(*), max(orders.id) from shop.orders version as of {first}") == [(10, 9)]
    assert values(
        f"""with late as (select id from shop.orders where id >= 15)
        select o.id, c.name from shop.orders version as of {first} o
        left join shop.customers c on c.region = o.region
        where o.id = (select min(id) - 6 from late) and exists (select 1 from `shop`.`customers`)"""
    ) == [(9, "Ada")]
    assert values("select count(*), count(id), count(name) from shop.everything") == [(16, 15, 1)]
    assert values(f"select count(*) from shop.everything version as of {customers.version - 1}") == [(15,)]
    assert lake.sql("select * from shop.everything").columns == ["id", "ts", "region", "amount", "name"]
    assert values("select a.id from shop.orders a join shop.orders b on a.id = b.id + 9 order by 1")[0] == (14,)
    assert "FileScan" in values("explain select * from shop.orders")[0][0]
    assert values("describe shop.orders")[0][:2] == ("id", "bigint")


@pytest.mark.spark
def test_a_time_means_the_version_of_that_time(lake: Lake, orders: Table, rows: Rows) -> None:
    orders.append(rows(0, 3))
    moment = datetime.fromtimestamp(orders.history()[0].timestamp_ns / 1e9 + 1e-3, UTC)
    orders.append(rows(3, 3))
    query = f"select count(*) n from shop.orders timestamp as of '{moment.isoformat()}'"
    assert lake.sql(query).first()["n"] in (3, 6)  # within a millisecond, the second append may have come
    assert lake.sql("select count(*) n from shop.orders timestamp as of '2999-01-01'").first()["n"] == 6
    with pytest.raises((NotFound, InvalidInput)):
        lake.sql("select * from shop.orders timestamp as of '1999-01-01'")
    with pytest.raises(InvalidInput, match="is not a time"):
        lake.sql("select * from shop.orders timestamp as of 'yesterday'")


@pytest.mark.spark
def test_all_references_see_one_version(lake: Lake, orders: Table, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    """A commit that lands between the reading of two tables of one query must be in neither."""
    returns = lake.create_table("shop.returns", [("id", "long")])
    orders.append(rows(0, 1))
    returns.append([{"id": 0}])
    resolve = Resolver._resolve

    def racing(self: Any, reference: Any, version: int, lane: Any, **more: Any) -> Any:
        frame = resolve(self, reference, version, lane, **more)
        orders.append(rows(1, 1))
        returns.append([{"id": 1}])
        return frame

    monkeypatch.setattr(Resolver, "_resolve", racing)
    assert lake.sql("select count(*) n from shop.orders join shop.returns using (id)").first()["n"] == 1


@pytest.mark.spark
def test_a_query_leaves_no_view_and_its_result_outlives_the_lake(
    lake: Lake, orders: Table, rows: Rows, spark: SparkSession
) -> None:
    orders.append(rows(0, 3))
    frame = lake.sql("select id from shop.orders")
    with pytest.raises(InvalidInput):
        lake.sql("select nothing from shop.orders")
    derived = frame.where("id > 0")
    lake.sql("describe shop.orders")
    lake.close()
    del frame
    gc.collect()
    assert not [table.name for table in spark.catalog.listTables() if table.name.startswith("_moulin_")]
    assert derived.count() == 2


@pytest.mark.spark
def test_what_spark_refuses_is_one_sentence(lake: Lake, orders: Table) -> None:
    for text, reason in [
        ("select regoin from shop.orders", "`region`"),
        ("select * frm shop.orders where", "PARSE_SYNTAX_ERROR"),
        ("select * from nowhere", "nowhere"),
        ("select id + array(1) from shop.orders", "DATATYPE_MISMATCH"),
    ]:
        with pytest.raises(InvalidInput) as caught:
            lake.sql(text)
        assert reason in caught.value.message
        assert "\n" not in caught.value.message
        assert "org.apache" not in caught.value.message
    with pytest.raises(NotFound, match="shop.order"):
        lake.sql("select * from shop.order")
    with pytest.raises(NotFound, match="nodb"):
        lake.sql("select * from nodb.orders")
    with pytest.raises(NotFound):
        lake.sql("select * from shop.orders version as of 999999")


@pytest.mark.spark
def test_a_spark_table_of_the_same_name_never_answers(lake: Lake, orders: Table, spark: SparkSession) -> None:
    """Whatever the syntax: the lake's table is empty, and Spark's is not."""
    spark.sql("create database shop")
    spark.range(5).write.saveAsTable("shop.orders")
    try:
        for text in [
            "select id from shop.orders",
            "table shop.orders",
            "from shop.orders |> select id",
            "select id >>> 1 from SHOP.Orders",
            "with orders as (select 1 as id) select shop.orders.id from orders right join shop.orders using (id)",
            "select * from identifier('shop.' || 'orders')",
            "select one.id from (select id from moulin.shop.orders) one",
            "select id from range(5) where exists (select 1 from shop.orders)",
        ]:
            assert lake.sql(text).count() == 0, text
        assert lake.sql("select * from spark_catalog.shop.orders").count() == 5
        assert "region" in {row[0] for row in lake.sql("describe query table shop.orders").collect()}
        with pytest.raises(NotFound, match="shop.x"):
            lake.sql("select * from shop.x")
    finally:
        spark.sql("drop database shop cascade")


@pytest.mark.spark
def test_temporary_views_are_seen_beside_lake_tables(
    lake: Lake, orders: Table, rows: Rows, spark: SparkSession
) -> None:
    orders.append(rows(0, 3))
    spark.range(2).createOrReplaceTempView("two")
    spark.range(1).createOrReplaceGlobalTempView("one")
    try:
        assert lake.sql("table two").count() == 2
        assert lake.sql("select * from two join shop.orders on two.id = orders.id").count() == 2
        assert lake.sql("select * from global_temp.one join shop.orders using (id)").count() == 1
        assert lake.sql("select * from session.two").count() == 2
        lake.create_database("session")
        lake.create_table("session.two", [("id", "long")])
        assert lake.sql("select * from session.two").count() == 0
    finally:
        spark.catalog.dropTempView("two")
        spark.catalog.dropGlobalTempView("one")


@pytest.mark.spark
def test_names_may_be_written_in_any_case(lake: Lake, orders: Table, rows: Rows, spark: SparkSession) -> None:
    orders.append(rows(0, 3))
    lake.create_view("shop.All", ["orders"])
    assert lake.sql("select orders.id from SHOP.Orders where shop.ORDERS.id = 1").count() == 1
    assert lake.sql("select * from shop.ALL").count() == 3
    lake.create_table("shop.ORDERS", [("id", "long")])
    assert lake.sql("select * from shop.ORDERS").count() == 0
    assert lake.sql("select * from shop.orders").count() == 3
    with pytest.raises(InvalidInput, match="`ORDERS` and `orders`"):
        lake.sql("select * from shop.Orders")
    spark.conf.set("spark.sql.caseSensitive", "true")
    try:
        with pytest.raises(NotFound):
            lake.sql("select * from shop.Orders")
    finally:
        spark.conf.unset("spark.sql.caseSensitive")


@pytest.mark.spark
def test_hints_name_tables_as_the_query_does(lake: Lake, orders: Table, rows: Rows) -> None:
    orders.append(rows(0, 3))
    other = lake.create_table("shop.other", [("id", "long")])
    other.append([{"id": 1}])
    for name in ("orders", "shop.orders", "SHOP.Orders", "moulin.shop.orders"):
        frame = lake.sql(f"select /*+ merge({name}) */ id from shop.orders join shop.other using (id)")
        assert "SortMergeJoin" in frame._jdf.queryExecution().sparkPlan().toString(), name
        assert [row.id for row in frame.collect()] == [1]
    with_alias = lake.sql("select /*+ merge(o) */ o.id from shop.orders o join shop.other using (id)")
    assert "SortMergeJoin" in with_alias._jdf.queryExecution().sparkPlan().toString()


@pytest.mark.spark
def test_parameters_have_the_values_of_args(lake: Lake, orders: Table, rows: Rows) -> None:
    orders.append(rows(0, 3))
    version = orders.version
    orders.append(rows(3, 3))
    named = "select id, :note as note from identifier(:table) version as of :version where id > :least order by id"
    args = {"table": "shop.orders", "version": version, "least": 0, "note": "it's"}
    assert [tuple(row) for row in lake.sql(named, args).collect()] == [(1, "it's"), (2, "it's")]
    positional = lake.sql("select id from shop.orders where array_contains(?, id) and region = ?", [[2, 4, 9], "eu"])
    assert sorted(row.id for row in positional.collect()) == [2, 4]
    for wrong, message in [({"least": 1}, "UNBOUND_SQL_PARAMETER"), ("1", "a dict"), ([object()], "cannot take")]:
        with pytest.raises(InvalidInput, match=message):
            lake.sql("select id from shop.orders where id = ?", wrong)  # type: ignore[arg-type]


@pytest.mark.spark
def test_a_view_whose_columns_do_not_go_together_is_refused(lake: Lake, orders: Table) -> None:
    lake.create_table("shop.other", [("id", "list<long>")])
    lake.create_view("shop.mixed", ["orders", "other"])
    with pytest.raises(InvalidInput, match="View shop.mixed"):
        lake.sql("select * from shop.mixed")
