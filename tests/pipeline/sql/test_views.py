"""Views that are queries: what may be stored, what is read, and when they are refused. The referee is plain Spark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

import moulin
from moulin import Lake, Table
from moulin.errors import AlreadyExists, InvalidInput, NotFound, PermissionDenied, Unsupported
from moulin.model.entities import Representation, ViewHistory, ViewQuery, ViewVersion
from moulin.model.schema.schema import make_schema
from moulin.model.schema.values import Schema
from moulin.pipeline.sql.views import MAX_DEPTH

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

MakeRows = Callable[..., list[dict[str, Any]]]


def collected(lake: Lake, text: str, **more: Any) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in lake.sql(text, **more).collect()]


def plant(lake: Lake, name: str, text: str) -> None:
    """Store a text that nobody planned, as a client of the catalog could."""
    query = ViewQuery((Representation("spark", text),), make_schema([("x", "string")]), {})
    lake.catalog.create_view("shop", name, [], query=query)


def test_a_view_is_kept_with_its_text_dialect_and_columns(lake: Lake, orders: Table) -> None:
    made = lake.create_view("shop.big", sql="select id, amount * 2 as twice from shop.orders;", description="why")
    assert lake.view("shop.big") == made
    assert (made.members, made.description) == ((), "why")
    assert made.query is not None
    assert made.query.representations == (Representation("spark", "select id, amount * 2 as twice from shop.orders"),)
    assert [(f.name, str(f.field_type)) for f in made.query.schema.fields] == [("id", "long"), ("twice", "double")]
    assert made.query.version == 1


def test_views_over_views_over_unions_give_the_rows_of_the_query(lake: Lake, orders: Table, rows: MakeRows) -> None:
    returns = lake.create_table("shop.returns", orders.schema)
    orders.append(rows(0, 5))
    returns.append(rows(100, 2, "us"))
    lake.create_view("shop.all", ["shop.orders", "shop.returns"])
    lake.create_view("shop.eu", sql="select * from shop.ALL where region = 'eu'")
    lake.create_view("shop.sums", sql="with t as (select * from Shop.eu) select sum(id) as s, count(*) as n from t")
    assert collected(lake, "select s, n from shop.sums") == [(10, 5)]
    joined = "select a.id from shop.eu a join moulin.shop.eu b on a.id = b.id + 1 where b.id > 2"
    assert collected(lake, joined) == [(4,)], "a view is joined to itself"
    assert collected(lake, "select count(*) from shop.all v where v.id in (select id from shop.eu)") == [(5,)]


def test_the_referee_gives_the_same_rows(lake: Lake, orders: Table, rows: MakeRows, spark: SparkSession) -> None:
    orders.append(rows(0, 50))
    text = "select region, id % 7 as day, sum(amount) as total from {} group by region, id % 7"
    lake.create_view("shop.days", sql=text.format("shop.orders"))
    spark.createDataFrame(orders.scan().to_arrow()).createOrReplaceTempView("plain_orders")
    spark.sql(f"create or replace temporary view plain_days as {text.format('plain_orders')}")
    asked = "select day, total, rank() over (order by total desc) as place from {} where day > 1 order by day"
    expected = [tuple(row) for row in spark.sql(asked.format("plain_days")).collect()]
    assert collected(lake, asked.format("shop.days")) == expected


def test_names_around_a_view_mean_nothing_inside_it(lake: Lake, orders: Table, rows: MakeRows) -> None:
    orders.append(rows(0, 3))
    lake.create_view("shop.v", sql="with orders as (select id from shop.orders) select id from orders where id > 0")
    shadowed = "with v as (select 9 as id), orders as (select 8 as id) select id from shop.v union all select id from v"
    assert sorted(collected(lake, shadowed)) == [(1,), (2,), (9,)]


def test_tables_in_a_view_are_seen_at_the_version_that_is_asked_for(lake: Lake, orders: Table, rows: MakeRows) -> None:
    orders.append(rows(0, 3))
    before = orders.version
    lake.create_view("shop.v", sql="select id from shop.orders")
    lake.create_view(
        "shop.w", sql=f"select v.id, old.n from shop.v, (select count(*) as n from shop.v version as of {before}) old"
    )
    orders.append(rows(3, 2))
    assert collected(lake, "select count(*) from shop.v") == [(5,)]
    assert collected(lake, f"select count(*) from shop.v version as of {before}") == [(3,)]
    assert collected(lake, "select count(*), max(n) from shop.w") == [(5, 3)]
    assert collected(lake, f"select count(*), max(n) from shop.w version as of {before + 2}") == [(3, 3)]


def test_columns_have_other_names_and_comments(lake: Lake, orders: Table, rows: MakeRows) -> None:
    orders.append(rows(0, 2))
    lake.create_view("shop.named", sql="select id, region from shop.orders -- all", columns=[("n", "the id"), "where"])
    lake.create_view("shop.counted", sql="select count(*), max(id) from shop.orders", columns=["n", "top"])
    lake.create_view("shop.twice", sql="select 1 as a, 2 as a", columns=["x", "y"])
    assert collected(lake, "select n, `where` from shop.named order by n") == [(0, "eu"), (1, "eu")]
    assert collected(lake, "select * from shop.counted") == [(2, 1)]
    assert collected(lake, "select * from shop.twice") == [(1, 2)]
    described = collected(lake, "describe shop.named")
    assert described == [("n", "bigint", "the id"), ("where", "string", None)]
    with pytest.raises(InvalidInput, match="2 columns, but 1 names"):
        lake.create_view("shop.few", sql="select 1 as a, 2 as b", columns=["x"])


def test_columns_are_those_of_when_it_was_made(lake: Lake, orders: Table, rows: MakeRows) -> None:
    orders.append(rows(0, 1))
    lake.create_view("shop.v", sql="select * from shop.orders")
    orders.add_column("note", "string")
    assert lake.sql("select * from shop.v").columns == ["id", "ts", "region", "amount"]
    numbers = lake.create_table("shop.numbers", [("n", "int"), ("gone", "string")])
    lake.create_view("shop.n", sql="select * from shop.numbers")
    numbers.widen_column("n", "long")
    numbers.append([{"n": 5, "gone": "x"}])
    assert collected(lake, "select n, typeof(n) from shop.n") == [(5, "int")]
    numbers.drop_column("gone")
    with pytest.raises(InvalidInput, match=r"View shop\.n cannot be read.*gone"):
        lake.sql("select n from shop.n")
    lake.drop_table("shop.orders")
    with pytest.raises(InvalidInput, match=r"View shop\.v cannot be read.*shop\.orders"):
        lake.sql("select id from shop.v")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("select * from temporary_orders", "only read tables of the lake"),
        ("select * from global_temp.orders", "only read tables of the lake"),
        ("select * from parquet.`/tmp/x.parquet`", "only read tables of the lake"),
        ("select own_function(id) as x from shop.orders", "documented Spark functions"),
        ("select reflect('java.lang.System', 'getProperty', 'user.home') as x", "cannot call reflect"),
        ("select current_user() as u", "cannot call current_user"),
        ("select _metadata.file_path as f from shop.orders", "_metadata"),
        ("select own_variable as x from shop.orders", "own_variable"),
        ("select :x as x", "parameter"),
        ("select id from shop.orders where region = ?", "parameter"),
        ("select id + 1 from shop.orders", "needs a name for each"),
        ("select 1 as a, 2 as A", "twice but for case"),
        ("select null as a", "type"),
        ("select interval 1 day as a", "type"),
        ("select nothing from shop.orders", "nothing"),
        ("select 1 as a from", "rejects"),
        ("describe shop.orders", "needs a query"),
        ("explain select 1 as a", "needs a query"),
        ("drop table shop.orders", "needs a query"),
        ("insert into shop.orders select * from shop.orders", "cannot have InsertInto"),
        ("", "rejects"),
    ],
)
def test_other_texts_are_refused(lake: Lake, orders: Table, spark: SparkSession, text: str, reason: str) -> None:
    spark.range(1).createOrReplaceTempView("temporary_orders")
    spark.range(1).createOrReplaceGlobalTempView("orders")
    spark.udf.register("own_function", lambda value: value)
    spark.sql("declare or replace variable own_variable = 7")
    version = lake.version
    try:
        with pytest.raises(InvalidInput, match=reason):
            lake.create_view("shop.v", sql=text)
    finally:
        spark.sql("drop temporary variable own_variable")
    assert lake.version == version


def test_names_are_those_of_the_lake(lake: Lake, orders: Table) -> None:
    with pytest.raises(NotFound, match=r"shop\.missing"):
        lake.create_view("shop.v", sql="select * from shop.missing")
    with pytest.raises(AlreadyExists):
        lake.create_view("shop.orders", sql="select 1 as a", replace=True)
    with pytest.raises(Unsupported, match="duckdb"):
        lake.create_view("shop.v", sql="select 1 as a", dialect="duckdb")
    with pytest.raises(InvalidInput, match="either tables= or sql="):
        lake.create_view("shop.v")


def test_variables_in_a_text_are_left_as_they_are(lake: Lake, spark: SparkSession) -> None:
    lake.create_view("shop.v", sql="select '${env:HOME}' as a")
    assert collected(lake, "select a from shop.v") == [("${env:HOME}",)]


def test_a_view_that_would_contain_itself_is_refused(lake: Lake, orders: Table) -> None:
    lake.create_view("shop.a", sql="select id from shop.orders")
    lake.create_view("shop.b", sql="select id from shop.a")
    for text in ("select id from shop.a", "select id from shop.b"):
        with pytest.raises(InvalidInput, match="contain itself: shop.a"):
            lake.create_view("shop.a", sql=text, replace=True)
    lake.create_view("shop.c", sql="select id from shop.b")
    lake.drop_view("shop.a")
    lake.rename_view("shop.c", "shop.a")
    with pytest.raises(InvalidInput, match=r"contain itself: shop\.a > shop\.b > shop\.a"):
        lake.sql("select * from shop.a")


def test_views_are_nested_to_a_limit(lake: Lake) -> None:
    plant(lake, "v1", "select '7' as x")
    for number in range(2, MAX_DEPTH + 1):
        plant(lake, f"v{number}", f"select x from shop.v{number - 1}")
    assert collected(lake, f"select x from shop.v{MAX_DEPTH}") == [("7",)]
    with pytest.raises(InvalidInput, match=f"more than {MAX_DEPTH} nested views"):
        lake.create_view("shop.more", sql=f"select x from shop.v{MAX_DEPTH}")


def test_a_view_takes_the_place_of_another(lake: Lake, orders: Table, rows: MakeRows) -> None:
    orders.append(rows(0, 2))
    union = lake.create_view("shop.v", ["shop.orders"])
    changed = lake.create_view("shop.v", sql="select 1 as a", replace=True, properties={"owner": "sales"})
    again = lake.create_view("shop.v", sql="select 2 as a", replace=True)
    assert union.id == changed.id == again.id
    assert [view.query and view.query.version for view in (union, changed, again)] == [None, 1, 2]
    assert lake.create_view("shop.v", sql="select 3 as a", if_not_exists=True) == again
    assert collected(lake, "select * from shop.v") == [(2,)]
    assert lake.create_view("shop.v", ["shop.orders"], replace=True).query is None
    assert collected(lake, "select count(*) from shop.v") == [(2,)]


@pytest.mark.parametrize("safe", [False, True])
def test_texts_of_others_run_no_programs_and_read_no_files(
    lake: Lake, orders: Table, spark: SparkSession, tmp_path: Path, safe: bool
) -> None:
    spark.range(1).selectExpr("cast(id as string) as x").write.parquet(str(tmp_path / "secret"))
    spark.range(1).selectExpr("cast(id as string) as x").createOrReplaceTempView("mine")
    plant(lake, "who", "select current_user() as x")
    plant(lake, "run", "select reflect('java.lang.System', 'getProperty', 'user.home') as x")
    plant(lake, "files", f"select x from parquet.`{tmp_path}/secret`")
    plant(lake, "own", "select x from mine")
    plant(lake, "change", "insert into shop.orders select * from shop.orders")
    plant(lake, "nested", "select x from shop.who")
    for name in ("who", "run", "files", "own", "change", "nested"):
        with pytest.raises(
            (PermissionDenied, InvalidInput), match=r"View shop\.(who|run|files|own|change) cannot be read"
        ):
            lake.sql(f"select x from shop.{name}", safe=safe)


def test_safe_queries_read_views(lake: Lake, orders: Table, rows: MakeRows) -> None:
    orders.append(rows(0, 3))
    lake.create_view("shop.plain", sql="select id, upper(region) as region from shop.orders")
    assert collected(lake, "select max(id), max(region) from shop.plain", safe=True) == [(2, "EU")]
    assert collected(lake, "describe shop.plain", safe=True)[0][:2] == ("id", "bigint")
    with pytest.raises(InvalidInput):
        lake.sql("select _metadata.file_path from shop.plain", safe=True)


def test_a_view_follows_the_settings_of_the_query_around_it(lake: Lake, spark: SparkSession) -> None:
    lake.create_view("shop.v", sql="select date_format(timestamp_seconds(0), 'HH') as hour")
    assert collected(lake, "select hour from shop.v") == [("00",)]
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        assert collected(lake, "select hour from shop.v") == [("09",)]
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


def plant_version(lake: Lake, name: str, text: Representation, *namespace: str, catalog: str | None = None) -> None:
    """Store a version as an engine does."""
    version, schema = ViewVersion(1, 0, 0, {}, (text,), namespace, catalog), make_schema([("x", "long")])
    schema = Schema(*schema.fields, schema_id=0)
    query = ViewQuery((text,), schema, {}, history=ViewHistory(1, (version,), ((0, 1),), (schema,)))
    lake.catalog.create_view("shop", name, [], query=query)


def test_a_text_for_another_engine_is_translated_and_checked(lake: Lake, orders: Table, rows: MakeRows) -> None:
    orders.append(rows(0, 3))
    text = "SELECT approx_distinct(id) AS x FROM shop.orders WHERE date_diff('day', DATE '2020-01-01', ts) > 0"
    plant_version(lake, "trino", Representation("trino", text), "shop")
    plant_version(lake, "duck", Representation("DuckDB", "FROM shop.orders SELECT count(*)"), "shop")
    assert collected(lake, "select x from shop.trino") == [(3,)]
    assert collected(lake, "select x from shop.duck") == [(3,)]
    for number, hostile in enumerate(("SELECT * FROM read_csv('/etc/passwd')", "SELECT * FROM '/etc/passwd'")):
        plant_version(lake, f"h{number}", Representation("duckdb", hostile), "shop")
        with pytest.raises((InvalidInput, NotFound, PermissionDenied, Unsupported), match=f"View shop.h{number}"):
            lake.sql(f"select * from shop.h{number}")


def test_a_text_that_does_not_translate_says_for_whom_it_is(lake: Lake, orders: Table) -> None:
    plant_version(lake, "v", Representation("our-engine", "from shop.t"), "shop")
    plant_version(lake, "w", Representation("trino", "select from where ("), "shop")
    with pytest.raises(Unsupported, match=r"View shop\.v has SQL only for our-engine, and Spark cannot run it: .*"):
        lake.sql("select * from shop.v")
    with pytest.raises(Unsupported, match=r"View shop\.w has SQL only for trino, .* Add SQL for Spark"):
        lake.sql("select * from shop.w")


def test_names_without_a_database_belong_to_the_namespace_of_the_view(
    lake: Lake, orders: Table, rows: MakeRows, spark: SparkSession
) -> None:
    orders.append(rows(0, 3))
    version = lake.catalog.version()
    orders.append(rows(3, 2))
    lake.create_database("other")
    text = "with n as (select id from orders) select count(*) as x from n join ice.shop.orders o on o.id = n.id"
    plant_version(lake, "v", Representation("spark", text), "shop", catalog="ice")
    old = f"select count(*) as x from orders version as of {version}"
    plant_version(lake, "old", Representation("spark", old), "shop")
    lake.rename_view("shop.v", "other.v")
    spark.range(7).createOrReplaceTempView("orders")
    try:
        assert collected(lake, "select x from other.v") == [(5,)], "no temporary view stands in"
        assert collected(lake, "select x from shop.old") == [(3,)]
        assert collected(lake, "select x from other.v", safe=True) == [(5,)]
    finally:
        spark.catalog.dropTempView("orders")


def test_a_replica_reads_views(lake: Lake, orders: Table, rows: MakeRows, tmp_path: Path) -> None:
    orders.append(rows(0, 3))
    lake.create_view("shop.v", sql="select sum(id) as s from shop.orders", properties={"a": "b"})
    with moulin.connect(tmp_path / "lake", read_only=True) as replica:
        assert replica.view("shop.v") == lake.view("shop.v")
        assert collected(replica, "select s from shop.v") == [(3,)]
        lake.create_view("shop.v", sql="select max(id) as s from shop.orders", replace=True)
        replica.refresh()
        assert collected(replica, "select s from shop.v") == [(2,)]


def test_rows_that_wait_are_in_the_view(lake: Lake) -> None:
    keyed = lake.create_table("shop.keyed", [("id", "long", False), ("n", "int")], primary_key=["id"])
    lake.create_view("shop.v", sql="select sum(n) as s from shop.keyed")
    keyed.put({"id": 1, "n": 4})
    assert collected(lake, "select s from shop.v") == [(4,)]
