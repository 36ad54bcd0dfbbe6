"""ALTER TABLE, COMMENT ON, and databases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moulin import Lake, Table
from moulin.errors import FailedPrecondition, MoulinError
from moulin.pipeline.statements.create_text import partition_fields, sort_fields

MakeRows = Callable[..., list[dict[str, Any]]]


def one_version(lake: Lake, text: str) -> None:
    """Run a statement that makes one version."""
    before = lake.version
    assert lake.sql(text).columns == []
    assert lake.version == before + 1, text


def test_columns_are_added_with_defaults_comments_and_positions(lake: Lake, orders: Table, rows: MakeRows) -> None:
    orders.append(rows(0, 2))
    one_version(
        lake,
        "alter table shop.Orders add columns "
        "(n int not null default 3 comment 'count' first, place struct<city: string> after ID, note string)",
    )
    one_version(lake, "alter table shop.orders add column place.zip string comment 'code'")
    schema = orders.state().schema
    assert [field.name for field in schema.fields] == ["n", "id", "place", "ts", "region", "amount", "note"]
    assert (schema.find_field("n").doc, schema.find_field("n").required) == ("count", True)
    assert schema.find_field("place.zip").doc == "code"
    assert orders.scan(columns=["n"]).to_arrow().column("n").to_pylist() == [3, 3]


def test_columns_change_as_the_python_calls_change_them(lake: Lake, orders: Table) -> None:
    one_version(lake, "alter table shop.orders add columns (a int, b int, s struct<x: int, y: string>)")
    one_version(lake, "alter table shop.orders alter column A type bigint, b comment 'bees', b after id")
    one_version(lake, "alter table shop.orders alter column s.x type bigint")
    one_version(lake, "alter table shop.orders rename column s.y to z")
    one_version(lake, "alter table shop.orders alter column id drop not null")
    one_version(lake, "alter table shop.orders drop columns (a, amount)")
    one_version(lake, "alter table shop.orders rename column REGION to area")
    schema = orders.state().schema
    assert [str(field).partition(": ")[2] for field in schema.fields] == [
        "id: optional long",
        "b: optional int (bees)",
        "ts: optional timestamptz",
        "area: optional string",
        f"s: optional {schema.find_type('s')}",
    ]
    assert str(schema.find_type("s.x")) == "long"
    assert [field.name for field in schema.find_type("s").fields] == ["x", "z"]  # type: ignore[attr-defined]


def test_a_default_is_for_rows_that_are_written_later(lake: Lake, orders: Table, rows: MakeRows) -> None:
    orders.append([{"id": 1}])
    one_version(lake, "alter table shop.orders alter column region set default 'us'")
    orders.append([{"id": 2}])
    one_version(lake, "alter table shop.orders alter column region drop default")
    orders.append([{"id": 3}])
    found = orders.scan(columns=["id", "region"]).to_arrow().to_pylist()
    assert {row["id"]: row["region"] for row in found} == {1: None, 2: "us", 3: None}


def test_comments_come_and_go(lake: Lake, orders: Table) -> None:
    one_version(lake, "comment on table shop.orders is 'what was sold'")
    one_version(lake, "comment on column shop.orders.id is 'the id'")
    assert orders.properties["comment"] == "what was sold"
    assert [row.comment for row in lake.sql("describe shop.orders").collect()] == ["the id", None, None, None]
    assert lake.sql("describe shop.orders id").collect()[2].info_value == "the id"
    one_version(lake, "comment on column shop.orders.id is null")
    one_version(lake, "comment on table shop.orders is null")
    assert (orders.state().schema.find_field("id").doc, "comment" in orders.properties) == (None, False)


def test_properties_are_set_and_unset(lake: Lake, orders: Table) -> None:
    one_version(lake, "alter table shop.orders set tblproperties ('a' = '1', 'moulin.level0-trigger' = '8')")
    one_version(lake, "alter table shop.orders unset tblproperties ('a')")
    assert orders.properties == {"moulin.level0-trigger": "8"}
    before = lake.version
    lake.sql("alter table shop.orders unset tblproperties if exists ('nothing')")
    assert lake.version == before


def test_partition_fields_come_and_go(lake: Lake, orders: Table) -> None:
    one_version(lake, "alter table shop.orders add partition field days(TS)")
    one_version(lake, "alter table shop.orders add partition field bucket(4, id)")
    assert partition_fields(orders.state()) == ["day(ts)", "bucket(4, id)"]
    one_version(lake, "alter table shop.orders replace partition field ts_day with hours(ts)")
    one_version(lake, "alter table shop.orders drop partition field bucket(4, ID)")
    one_version(lake, "alter table shop.orders add partition field region")
    assert partition_fields(orders.state()) == ["hour(ts)", "region"]


def test_the_sort_order_is_iceberg_s_or_delta_s_word(lake: Lake, orders: Table) -> None:
    one_version(lake, "alter table shop.orders write ordered by region desc nulls first, ID")
    assert sort_fields(orders.state()) == ["region desc nulls first", "id"]
    one_version(lake, "alter table shop.orders write unordered")
    assert sort_fields(orders.state()) == []
    one_version(lake, "alter table shop.orders cluster by (region, id)")
    assert sort_fields(orders.state()) == ["region", "id"]


def test_a_column_becomes_not_null_when_no_row_has_a_null(lake: Lake, orders: Table) -> None:
    orders.append([{"id": 1, "region": "eu"}, {"id": 2, "region": None}])
    before = lake.version
    with pytest.raises(FailedPrecondition, match="Column region of shop.orders cannot become NOT NULL"):
        lake.sql("alter table shop.orders alter column region set not null")
    assert lake.version == before
    lake.sql("update shop.orders set region = 'us' where region is null")
    one_version(lake, "alter table shop.orders alter column REGION set not null")
    assert not orders.schema.field("region").nullable
    for text in (
        "insert into shop.orders (id, region) values (3, null)",
        "insert into shop.orders (id) values (3)",
        "update shop.orders set region = null where id = 1",
        "merge into shop.orders t using (select 9 as id) s on t.id = s.id "
        "when not matched then insert (id) values (s.id)",
    ):
        with pytest.raises(MoulinError, match="region"):
            lake.sql(text)
    assert lake.sql(f"select region from shop.orders version as of {before} order by id").collect()[1][0] is None
    assert lake.sql("select count(*) from shop.orders where region is null").collect()[0][0] == 0
    one_version(lake, "alter table shop.orders alter column region drop not null")
    lake.sql("insert into shop.orders (id) values (3)")
    assert "region string," in lake.sql("show create table shop.orders").collect()[0][0].lower().replace("`", "")


REFUSED = [
    ("alter table shop.orders add column id int", "already exists"),
    ("alter table shop.orders add column x int not null", "without a default"),
    ("alter table shop.orders add column `a.b` int", "contains"),
    ("alter table shop.orders add column x variant", "VARIANT"),
    ("alter table shop.orders add columns (x int, y int after nothing)", "no column 'nothing'"),
    ("alter table shop.orders drop column nothing", "no column 'nothing'"),
    ("alter table shop.orders drop column ts", "uses it"),
    ("alter table shop.orders rename column nothing to x", "no column 'nothing'"),
    ("alter table shop.orders rename column id to region", "already exists"),
    ("alter table shop.orders alter column id type int", "cannot become int"),
    ("alter table shop.orders alter column nothing set not null", "no column 'nothing'"),
    ("alter table shop.orders alter column region set default 1", "does not fit"),
    ("alter table shop.orders unset tblproperties ('nothing')", "no property"),
    ("alter table shop.orders set tblproperties ('sort_by' = 'id')", "WRITE ORDERED BY"),
    ("alter table shop.orders set tblproperties ('event_time' = 'id')", "when a table is created"),
    ("alter table shop.orders set tblproperties ('moulin.nothing' = 'id')", "Unknown property"),
    ("alter table shop.orders add partition field days(nothing)", "no column 'nothing'"),
    ("alter table shop.orders drop partition field days(ts)", "not partitioned by day"),
    ("alter table shop.orders write ordered by nothing", "no column 'nothing'"),
    ("alter table shop.orders add constraint pk primary key (id)", "when a table is created"),
    ("alter table shop.orders replace columns (id int)", "REPLACE COLUMNS"),
    ("alter table shop.orders set location '/x'", "lake.spark"),
    ("alter table shop.nothing add column x int", "does not exist"),
    ("alter table orders add column x int", "database.table"),
    ("alter table orders write unordered", "database.table"),
    ("comment on column shop.orders.nothing is 'x'", "no column 'nothing'"),
    ("create database shop", "already exists"),
    ("create schema x location '/x'", "LOCATION"),
    ("create database a.b", "one word"),
    ("drop database nothing", "does not exist"),
    ("drop schema shop", "still holds"),
    ("comment on database nothing is 'x'", "does not exist"),
]


def test_bad_changes_are_one_sentence_and_change_nothing(lake: Lake, orders: Table) -> None:
    before = lake.version
    for text, message in REFUSED:
        with pytest.raises(MoulinError, match=message):
            lake.sql(text)
        assert lake.version == before, text


def test_databases_are_made_described_and_dropped(lake: Lake, orders: Table) -> None:
    one_version(lake, "create schema web comment 'the site' with dbproperties ('a' = 'b')")
    before = lake.version
    lake.sql("create database if not exists WEB")
    lake.sql("drop database if exists nothing")
    assert lake.version == before
    one_version(lake, "comment on database web is 'the new site'")
    one_version(lake, "alter database web set dbproperties ('c' = 'd')")
    facts = {row.info_name: row.info_value for row in lake.sql("describe schema extended Web").collect()}
    assert facts["Comment"] == "the new site"
    assert facts["Properties"] == "[a=b, c=d]"
    one_version(lake, "drop schema web")
    one_version(lake, "drop database shop cascade")
    assert lake.databases() == []
