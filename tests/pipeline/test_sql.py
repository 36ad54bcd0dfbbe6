"""lake.sql: names of lake tables found in any query, everything else left as it was written."""

from __future__ import annotations

import gc
import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from moulin import Lake, Table
from moulin.errors import InvalidInput, NotFound, Unsupported
from moulin.pipeline.sql import Reference, Statement

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Rows = Callable[..., list[dict[str, Any]]]


@pytest.mark.parametrize(
    ("text", "result"),
    [
        ("select * from shop.orders", "select * from `ORDERS` as `orders`"),
        ("select * from shop.orders o", "select * from `ORDERS` o"),
        ("select * from `shop` . `my table` as t", "select * from `MY TABLE` as t"),
        ("from shop.orders |> where id > 1", "from `ORDERS` as `orders` |> where id > 1"),
        ("SELECT shop.orders.id FROM shop.orders", "SELECT orders.id FROM `ORDERS` as `orders`"),
        ("select shop.orders.* from shop.orders", "select orders.* from `ORDERS` as `orders`"),
        ("select shop.orders.s.a.b from shop.orders", "select orders.s.a.b from `ORDERS` as `orders`"),
        ("select shop.orders.id from shop.orders x", "select shop.orders.id from `ORDERS` x"),
        (
            "select * from shop.a, shop.b join shop.c using (id)",
            "select * from `A` as `a`, `B` as `b` join `C` as `c` using (id)",
        ),
        (
            "with t as (select * from shop.orders) select * from t where id in (select id from shop.returns)",
            "with t as (select * from `ORDERS` as `orders`) "
            "select * from t where id in (select id from `RETURNS` as `returns`)",
        ),
        ("select * from shop.orders version as of 3 o", "select * from `ORDERS` o"),
        ("select * from shop.orders for version as of 3", "select * from `ORDERS` as `orders`"),
        (
            "select * from shop.orders timestamp as of '2024-03-01' tablesample (5 rows) repeatable (1) where true",
            "select * from `ORDERS` tablesample (5 rows) repeatable (1) as `orders` where true",
        ),
        (
            "select * from shop.orders pivot (sum(a) for b in (1))",
            "select * from `ORDERS` as `orders` pivot (sum(a) for b in (1))",
        ),
        (
            "select 'shop.orders', /* shop.orders */ -- shop.orders\n 'ü😀' from shop.orders",
            "select 'shop.orders', /* shop.orders */ -- shop.orders\n 'ü😀' from `ORDERS` as `orders`",
        ),
        ("explain formatted select * from shop.orders", "explain formatted select * from `ORDERS` as `orders`"),
        ("describe table extended shop.orders", "describe table extended `ORDERS`"),
        ("select /*+ broadcast(o) */ * from shop.orders o", "select /*+ broadcast(o) */ * from `ORDERS` o"),
        ("select * from parquet.`/data/x`", "select * from parquet.`/data/x`"),
        (
            "select * from global_temp.x, range(3), one_part, a.b.c",
            "select * from global_temp.x, range(3), one_part, a.b.c",
        ),
        ("values (1), (2)", "values (1), (2)"),
    ],
)
def test_only_names_of_lake_tables_change(text: str, result: str) -> None:
    assert Statement(text).with_names(lambda reference: reference.name.upper()) == result


def test_a_reference_carries_its_version_or_time() -> None:
    text = "select * from shop.a version as of 3, shop.a for system_time as of '2024-03-01 12:00', shop.a, shop.a x"
    assert Statement(text).references == [
        Reference("shop", "a", 3),
        Reference("shop", "a", None, "2024-03-01 12:00"),
        Reference("shop", "a"),
    ]


@pytest.mark.parametrize(
    ("text", "known"),
    [
        ("select * from shop.a where name = 'x' and (2 = id) and n > 3", [("name", ("x",)), ("id", (2,))]),
        ("select A.id from shop.a version as of 3 where a.name in ('x', \"y\")", [("name", ("x", "y"))]),
        ("select * from shop.a where name = 'it''s'", []),
        ("select count(*) from shop.a t where t.id = 1 group by k having k = 2", [("id", (1,))]),
        ("select * from shop.a where name = 'x' or id = 2", []),
        ("select * from shop.a where not (id = 2)", []),
        ("select * from shop.a where id in (1, null) and n = -1 and m = 1.0 and f(o) = 1 and p = q", []),
        ("select * from shop.a where s.id = 1 and name in (select 'x')", []),
        ("select * from shop.a t(x, id) where id = 1", []),
        ("select * from shop.a tablesample (5 rows) where id = 1", []),
        ("select * from shop.a pivot (sum(n) for k in ('x')) where id = 1", []),
        ("select * from shop.a, (select 1) b where id = 1", []),
        ("select * from shop.a lateral view explode(list) t as id where id = 1", []),
        ("select * from (select 1 as id, n from shop.a) where id = 1", []),
        ("from shop.a |> select n as id |> where id = 1", []),
        (r"select * from shop.a where name = '\u0041'", []),
    ],
)
def test_a_reference_carries_what_its_rows_are_sure_to_have(text: str, known: list[tuple[str, Any]]) -> None:
    (reference,) = Statement(text).references
    assert [(one.column, one.values) for one in reference.known] == known


def test_files_that_indexes_rule_out_are_not_read_by_spark(lake: Lake, spark: SparkSession) -> None:
    table = lake.create_table("shop.t", [("id", "long"), ("name", "string"), ("day", "date")])
    for part in range(3):
        table.append([{"id": n, "name": f"n{n}", "day": f"2024-03-{n % 28 + 1:02}"} for n in range(part, 60, 3)])
    whole = table.version
    table.append([{"id": 7, "name": "n7", "day": "2024-03-08"}])
    table.delete_where("id = 10")
    query = "select id from shop.t where name = 'n7'"
    assert len(lake.sql(query).inputFiles()) == 4
    table.create_index("name")
    table.create_index("id", "bloom")
    table.create_index("day")

    def look(query: str, expected: list[int], files: int) -> None:
        frame = lake.sql(query)
        assert sorted(row.id for row in frame.collect()) == expected
        assert len(frame.inputFiles()) == files, query

    look(query, [7, 7], 2)
    look("select T.id from shop.t T where t.NAME in ('n7', 'n8') and ID = 8", [8], 1)
    look("select id from shop.t where id = 10 and name = 'n10'", [], 1)
    look("select id from shop.t where name = 'nobody'", [], 0)
    look(f"select id from shop.t version as of {whole} where name = 'n7'", [7], 1)
    look("select id from shop.t where day = '2024-03-08' and id < 8", [7, 7], 4)  # how text is a date is left to Spark
    look("select id from shop.t where id = '7' and name = 'n7'", [7, 7], 2)
    twice = lake.sql("select * from shop.t where name = 'n7' union all select * from shop.t where name = 'n8'")
    assert sorted(row.id for row in twice.collect()) == [7, 7, 8]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("delete from shop.orders where id = 1", "table.delete_where"),
        ("insert into shop.orders values (1)", "table.append"),
        ("with t as (select 1) insert into shop.orders select * from t", "runs queries and changes nothing"),
        ("-- hello\n drop table shop.orders", "lake.drop_table"),
        ("create table shop.x (id long)", "lake.create_table"),
        ("explain delete from shop.orders", "table.delete_where"),
        ("merge into shop.a using shop.b on true when matched then delete", "table.merge"),
        ("set spark.sql.ansi.enabled=false", "lake.spark().sql"),
        ("   ", "text of a query"),
        ("select * from shop.orders version as of 'three'", "number of a version"),
        ("select * from shop.orders timestamp as of now()", "a time as text"),
    ],
)
def test_what_is_not_a_query_is_refused_with_what_to_do(text: str, message: str) -> None:
    with pytest.raises(InvalidInput, match=re.escape(message)):
        Statement(text)


@pytest.mark.spark
def test_queries_over_tables_views_and_versions(lake: Lake, orders: Table, rows: Rows) -> None:
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
    lake.engine().session()
    resolve = type(lake.engine())._resolve  # type: ignore[attr-defined]

    def racing(self: Any, reference: Any, version: int, lane: Any) -> Any:
        frame = resolve(self, reference, version, lane)
        orders.append(rows(1, 1))
        returns.append([{"id": 1}])
        return frame

    monkeypatch.setattr(type(lake.engine()), "_resolve", racing)
    assert lake.sql("select count(*) n from shop.orders join shop.returns using (id)").first()["n"] == 1


@pytest.mark.spark
def test_queries_of_a_version_share_a_view_that_goes_with_the_lake(
    lake: Lake, orders: Table, rows: Rows, spark: SparkSession
) -> None:
    def views() -> set[str]:
        return {table.name for table in spark.catalog.listTables() if table.name.startswith("_moulin_")}

    orders.append(rows(0, 3))
    gc.collect()
    before = views()
    frame = lake.sql("select id from shop.orders")
    assert lake.sql("select count(*) n from shop.orders").first()["n"] == 3
    with pytest.raises(InvalidInput):
        lake.sql("select nothing from shop.orders")
    assert len(views() - before) == 1
    derived = frame.where("id > 0")
    lake.close()
    del frame
    gc.collect()
    assert not views() - before
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
def test_syntax_that_only_spark_knows(lake: Lake, orders: Table, spark: SparkSession) -> None:
    with pytest.raises(Unsupported, match="createOrReplaceTempView"):
        lake.sql("table shop.orders")
    spark.range(2).createOrReplaceTempView("two")
    assert lake.sql("table two").count() == 2
    assert lake.sql("select * from two join shop.orders on two.id = orders.id").count() == 0
    spark.catalog.dropTempView("two")


@pytest.mark.spark
def test_view_with_columns_that_do_not_go_together(lake: Lake, orders: Table) -> None:
    lake.create_table("shop.other", [("id", "list<long>")])
    lake.create_view("shop.mixed", ["orders", "other"])
    with pytest.raises(InvalidInput, match="View shop.mixed"):
        lake.sql("select * from shop.mixed")
