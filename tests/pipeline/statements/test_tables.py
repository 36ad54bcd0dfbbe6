"""CREATE, REPLACE, DROP, UNDROP and RENAME of tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import duckdb
import pytest

from moulin import Lake, Table
from moulin.errors import FailedPrecondition, MoulinError, NotFound, PermissionDenied
from moulin.model.entities import TableState
from moulin.model.schema.schema import key_names, make_schema
from moulin.pipeline.statements.create_text import partition_fields, sort_fields

MakeRows = Callable[..., list[dict[str, Any]]]


def shape(state: TableState) -> tuple[Any, ...]:
    """What makes two tables equal, whatever the history of their ids."""
    schema = make_schema(replace_defaults(state))
    return (
        schema,
        key_names(schema),
        partition_fields(state),
        sort_fields(state),
        state.event_time_field,
        {**state.properties},
    )


def replace_defaults(state: TableState) -> Any:
    fields = [replace(field, initial_default=None) for field in state.schema.fields]
    return type(state.schema)(*fields, identifier_field_ids=state.schema.identifier_field_ids)


def test_a_table_is_what_its_definition_says(lake: Lake) -> None:
    lake.sql(
        """create table shop.sold (
            id bigint not null comment 'the id', ts timestamp, region string default 'eu',
            amount decimal(9, 2) default 1.5, day date default date '2024-03-01', local timestamp_ntz,
            place struct<city: string not null comment 'name', at: array<double>>, tags map<string, int>
        ) using moulin
        partitioned by (days(TS), bucket(4, id), region)
        comment 'what was sold'
        tblproperties ('a' = 'b', 'event_time' = 'ts', 'sort_by' = 'ts desc, `id`');"""
    )
    wanted = lake.create_table(
        "shop.wanted",
        [
            ("id", "long", False),
            ("ts", "timestamptz"),
            ("region", "string"),
            ("amount", "decimal(9, 2)"),
            ("day", "date"),
            ("local", "timestamp"),
            ("place", "struct<city: string not null, at: list<double>>"),
            ("tags", "map<string, int>"),
        ],
        partition_by=["day(ts)", "bucket(4, id)", "region"],
        sort_by=["ts desc", "id"],
        event_time="ts",
        properties={"a": "b", "comment": "what was sold"},
    ).state()
    made = lake.table("shop.sold")
    state = made.state()
    assert (state.spec, state.sort_order, state.event_time) == (wanted.spec, wanted.sort_order, wanted.event_time)
    assert state.properties == wanted.properties
    assert str(state.schema).replace(" (the id)", "").replace(" (name)", "") == str(wanted.schema)
    assert state.schema.find_field("id").doc == "the id"
    assert state.schema.find_field("place.city").doc == "name"
    made.append([{"id": 1, "ts": datetime(2024, 1, 1, tzinfo=UTC)}])
    (row,) = made.scan(columns=["region", "amount"]).to_arrow().to_pylist()
    assert row == {"region": "eu", "amount": Decimal("1.50")}


@pytest.mark.parametrize(
    "text",
    [
        "create table shop.k (id bigint primary key, name string)",
        "create table shop.k (id bigint, name string, primary key (id))",
        "create table shop.k (id bigint, name string, constraint pk primary key (id))",
        "create table shop.k (id bigint, name string) primary key (ID)",
        "create table SHOP.k primary key (id) as select 1L as id, 'a' as name where false",
    ],
)
def test_a_key_may_stand_in_any_of_the_usual_places(lake: Lake, text: str) -> None:
    lake.sql(text)
    table = lake.table("shop.k")
    table.put({"id": 1, "name": "x"})
    assert (key_names(table.state().schema), table.get(1)) == (("id",), {"id": 1, "name": "x"})


def test_the_rows_of_a_query_become_a_table(lake: Lake, orders: Table, rows: MakeRows) -> None:
    orders.append(rows(0, 50) + rows(50, 50, "us"))
    (done,) = lake.sql(
        "create table shop.sums partitioned by (region) as "
        "select region, id % 7 as k, sum(amount) as total from shop.orders group by region, id % 7"
    ).collect()
    with duckdb.connect() as referee:
        referee.register("source", orders.scan().to_arrow())
        referee.register("found", lake.table("shop.sums").scan().to_arrow())
        query = "select region, id % 7 as k, sum(amount) as total from source group by region, id % 7 order by all"
        wanted = referee.sql(query).fetchall()
        assert referee.sql("select region, k, total from found order by all").fetchall() == wanted
    assert (done.num_inserted_rows, done.num_affected_rows, done.version) == (14, 14, lake.version)
    assert partition_fields(lake.table("shop.sums").state()) == ["region"]
    assert [entry.name for entry in lake.tables("shop")] == ["orders", "sums"]


def test_a_query_is_run_once_and_may_read_the_table_that_it_replaces(
    lake: Lake, orders: Table, rows: MakeRows, ids: Callable[[Any], list[int]]
) -> None:
    orders.append(rows(0, 4))
    before = lake.version
    lake.sql("create or replace table shop.orders primary key (id) as select id + 10 as id, region from shop.orders")
    new = lake.table("shop.orders")
    assert ids(new) == [10, 11, 12, 13]
    assert new.id != orders.id
    with pytest.raises(NotFound, match="dropped"):
        orders.scan().to_arrow()
    assert ids(lake.sql(f"select id from shop.orders version as of {lake.version}")) == [10, 11, 12, 13]
    with pytest.raises(NotFound, match="created at version"):
        lake.sql(f"select id from shop.orders version as of {before}")
    lake.rename_table("shop.orders", "shop.newer")
    lake.sql("undrop table shop.orders")
    assert ids(lake.table("shop.orders")) == [0, 1, 2, 3]


def test_every_type_of_a_result_has_a_column_that_may_be_null(lake: Lake) -> None:
    query = """select 1 as a, map('x', 1) as m, array(named_struct('p', 1)) as l, timestamp '2024-01-01 00:00:00Z' as t,
        timestamp_ntz '2024-01-01 00:00:00' as n, 1.5BD as d, X'00' as b, date '2024-01-01' as y, true as o, 1S as s"""
    lake.sql(f"create table shop.types as {query}")
    assert lake.sql("select * from shop.types").collect() == lake.spark().sql(query).collect()
    lake.table("shop.types").append([{"a": None, "m": {"x": None}, "l": [None, {"p": None}]}])
    assert "column_type" not in lake.sql("show create table shop.types").collect()[0][0]


def test_readers_see_the_old_table_or_the_new_one(
    lake: Lake, orders: Table, rows: MakeRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.append(rows(0, 3))
    seen = []
    create_table = type(lake.catalog).create_table

    def watched(catalog: Any, *args: Any, **more: Any) -> Any:
        seen.append((lake.version, [entry.name for entry in lake.tables("shop")], orders.scan().count()))
        return create_table(catalog, *args, **more)

    monkeypatch.setattr(type(lake.catalog), "create_table", watched)
    before = lake.version
    for made, text in enumerate(("create or replace table shop.orders", "create table shop.more primary key (id)"), 1):
        (done,) = lake.sql(f"{text} as select id from range(5)").collect()
        assert (done.version, lake.version, done.num_inserted_rows) == (before + made, before + made, 5)
        orders = lake.table("shop.orders")
    lake.sql("create or replace table shop.more (id int)")
    assert lake.version == before + 3
    assert seen == [(before, ["orders"], 3), (before + 1, ["orders"], 5), (before + 2, ["more", "orders"], 5)]


FAILING = [
    "create table shop.bad as select 1 / (id - 5) as x from range(10)",
    "create or replace table shop.orders as select 1 / (id - 5) as x from range(10)",
    "create table shop.bad primary key (x) as select cast(null as int) as x",
    "create table shop.bad primary key (nothing) as select 1 as x",
    "create table shop.bad partitioned by (days(nothing)) as select 1 as x",
    "create table shop.bad as select nothing from shop.orders",
    "create table shop.bad as select 1 as a, 2 as A",
    "create table shop.bad as select null as x",
    "create table shop.bad as select interval 1 day as x",
    "create table gone.bad as select 1 as x",
]


def test_a_statement_that_fails_leaves_nothing(
    lake: Lake, orders: Table, rows: MakeRows, ids: Callable[[Any], list[int]]
) -> None:
    orders.append(rows(0, 2))
    lake.create_database("gone")
    lake.drop_database("gone")
    for text in FAILING:
        with pytest.raises(MoulinError):
            lake.sql(text)
        assert [entry.name for entry in lake.tables("shop")] == ["orders"], text
        assert ids(lake.table("shop.orders")) == [0, 1], text


REFUSED = [
    ("create table orders (id int)", "write database.table"),
    ("create table a.b.c.d (id int)", "write database.table"),
    ("create table shop.orders (id int)", "already exists"),
    ("create table shop.ORDERS (id int)", "already exists"),
    ("create table shop.orders as select 1 as id", "already exists"),
    ("create table shop.all (id int)", "already exists"),
    ("create or replace table shop.all (id int)", "is a view"),
    ("create or replace table shop.orders (id int)", "used by the view all"),
    ("create table nothing.x (id int)", "does not exist"),
    ("replace table shop.x (id int)", "CREATE OR REPLACE"),
    ("create table shop.x (id int) using parquet", "remove USING"),
    ("create table shop.x (id int) location '/x'", "remove LOCATION"),
    ("create external table shop.x (id int)", "EXTERNAL"),
    ("create table shop.x (id int) options (a 'b')", "OPTIONS"),
    ("create table shop.x (id int generated always as identity)", "GENERATED"),
    ("create table shop.x (id int, b int generated always as (id + 1))", "GENERATED"),
    ("create table shop.x (id int, check (id > 0))", "only PRIMARY KEY and NOT NULL"),
    ("create table shop.x (id int primary key) primary key (id)", "two primary keys"),
    ("create table shop.x (v variant)", "VARIANT"),
    ("create table shop.x (v varchar(3))", "VARCHAR"),
    ("create table shop.x (v struct<a: array<interval day>>)", "column v.a"),
    ("create table shop.x (id int default rand())", "must be a constant"),
    ("create table shop.x (id int default current_date())", "must be a constant"),
    ("create table shop.x (id int default 'x')", "does not fit its type"),
    ("create table shop.x (id int, ID string)", "twice but for case"),
    ("create table shop.x (id int) partitioned by (id, days(id))", "cannot be partitioned"),
    ("create table shop.x (id int) partitioned by (bucket(4, id, id))", "one column"),
    ("create table shop.x (id int) tblproperties ('event_time' = 'id')", "id"),
    ("create table shop.x (id int) tblproperties ('sort_by' = 'nothing')", "no column 'nothing'"),
    ("create table shop.x (id int) tblproperties ('column_type.y' = 'uuid')", "unknown column"),
    ("create table shop.x (id int) tblproperties ('moulin.nothing' = '1')", "Unknown property"),
    ("drop table shop.nothing", "does not exist"),
    ("drop table shop.all", "DROP VIEW"),
    ("drop table orders", "write database.table"),
    ("undrop table shop.nothing", "does not exist"),
    ("undrop table shop.orders", "already exists"),
    ("alter table shop.orders rename to sold", "write database.table"),
    ("alter table shop.nothing rename to shop.sold", "does not exist"),
    ("alter table shop.all rename to shop.sold", "is a view"),
]


def test_bad_definitions_are_one_sentence_and_change_nothing(lake: Lake, orders: Table) -> None:
    lake.create_view("shop.all", ["shop.orders"])
    for text, message in REFUSED:
        with pytest.raises(MoulinError, match=message):
            lake.sql(text)
        assert [entry.name for entry in lake.tables("shop")] == ["orders"], text


def test_what_is_there_is_left_alone_if_asked(lake: Lake, orders: Table) -> None:
    before = lake.version
    lake.sql("create table if not exists shop.Orders (x int)")
    lake.sql("create table if not exists shop.orders as select 1 as x")
    lake.sql("drop table if exists shop.nothing")
    assert lake.version == before


def test_a_table_is_dropped_brought_back_and_renamed(lake: Lake, orders: Table) -> None:
    lake.sql("drop table SHOP.Orders")
    assert lake.tables("shop") == []
    lake.sql("undrop table shop.orders")
    assert lake.table("shop.orders").id == orders.id
    lake.sql("alter table shop.orders rename to shop.sold")
    assert lake.table("shop.sold").id == orders.id
    lake.sql("drop table shop.sold purge")
    with pytest.raises(FailedPrecondition, match="grace period"):
        lake.sql("undrop table shop.sold")


def test_the_text_of_a_table_makes_an_equal_one(lake: Lake) -> None:
    lake.create_table(
        "shop.odd",
        [
            ("id", "uuid", False),
            ("t", "timestamptz_ns"),
            ("hash", "fixed[4]"),
            ("list", "list<uuid not null>"),
            ("a b", "struct<a: int not null, b: time>"),
            ("vector", "float[3]"),
            ("map", "map<string, decimal(9, 2)>"),
            ("local", "timestamp"),
        ],
        sort_by=["id desc", "local nulls last"],
        partition_by=["bucket(3, id)", "day(t)", "truncate(3, a b.a)"],
        event_time="t",
        properties={"x'y\\": "a\nb'", "comment": "it's"},
    )
    lake.sql("create table shop.plain (id int not null, b boolean default true, f double default -2.5, n bigint)")
    lake.sql("alter table shop.plain add columns (s string default 'it\\'s', d date default date '2024-03-01' first)")
    lake.sql("alter table shop.plain add columns (z timestamp default timestamp '2024-03-01 10:00:00Z', x binary)")
    lake.sql("alter table shop.plain alter column n set default 5000000000, x set default X'00ff'")
    lake.sql("create table shop.keyed (a string, b bigint, v string comment 'x') primary key (b, a)")
    for name in ("odd", "plain", "keyed"):
        old = lake.table(f"shop.{name}").state()
        text = lake.sql(f"show create table shop.{name}").collect()[0].createtab_stmt
        lake.sql(f"drop table shop.{name}")
        lake.sql(text)
        assert shape(lake.table(f"shop.{name}").state()) == shape(old), text


def test_safe_queries_define_nothing(lake: Lake, orders: Table) -> None:
    before = lake.version
    for text in (
        "create table shop.x (id int)",
        "create table shop.x primary key (id) as select 1 as id",
        "drop table shop.orders",
        "alter table shop.orders write unordered",
        "create database x",
        "call gc()",
        "vacuum",
        "create tag x on shop.orders",
    ):
        with pytest.raises(PermissionDenied, match="cannot change anything"):
            lake.sql(text, safe=True)
    assert lake.version == before
