"""CREATE, ALTER and DROP VIEW."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moulin import Lake, Table
from moulin.errors import AlreadyExists, InvalidInput, NotFound, PermissionDenied, Unsupported
from moulin.model.entities import ViewQuery

MakeRows = Callable[..., list[dict[str, Any]]]


def query_of(lake: Lake, name: str = "shop.v") -> ViewQuery:
    found = lake.view(name).query
    assert found is not None
    return found


def test_create_view_keeps_names_comments_and_properties(lake: Lake, orders: Table, rows: MakeRows) -> None:
    orders.append(rows(0, 3))
    made = lake.sql(
        "create view moulin.shop.v (n comment 'the id', place) comment 'all of them' "
        "tblproperties ('owner' = 'sales', team = 'a b') as select id, region from shop.orders -- done"
    )
    assert (made.columns, made.collect()) == ([], [])
    assert lake.view("shop.v").description == "all of them"
    assert query_of(lake).properties == {"owner": "sales", "team": "a b"}
    assert [(f.name, f.doc) for f in query_of(lake).schema.fields] == [("n", "the id"), ("place", None)]
    assert lake.sql("select max(n), max(place) from shop.v").first() == (2, "eu")


def test_create_view_takes_a_free_name_or_replaces(lake: Lake, orders: Table) -> None:
    lake.sql("CREATE VIEW shop.v AS SELECT 1 AS a")
    with pytest.raises(AlreadyExists):
        lake.sql("create view SHOP.V as select 2 as a")
    lake.sql("create view if not exists shop.v as select 3 as a")
    assert lake.sql("select a from shop.v").first() == (1,)
    lake.sql("/* again */ create or replace view shop.v as select 4 as a")
    assert lake.sql("select a from shop.v").first() == (4,)
    with pytest.raises(AlreadyExists):
        lake.sql("create or replace view shop.orders as select 1 as a")


def test_values_of_args_become_part_of_the_text(lake: Lake) -> None:
    lake.sql("create view shop.v as select :x as a", {"x": "it's"})
    assert lake.sql("select a from shop.v").first() == ("it's",)
    with pytest.raises(InvalidInput, match="parameter"):
        lake.sql("create view shop.w as select :x as a")


def test_alter_view_changes_the_query_and_keeps_the_rest(lake: Lake) -> None:
    lake.sql("create view shop.v comment 'c' tblproperties ('a' = 'b', 'c' = 'd') as select 1 as a")
    lake.sql("alter view shop.V as select 2 as b")
    assert (lake.view("shop.v").description, query_of(lake).properties) == ("c", {"a": "b", "c": "d"})
    lake.sql("alter view shop.v set tblproperties ('a' = 'x')")
    lake.sql("alter view shop.v unset tblproperties if exists ('c', 'gone')")
    assert (query_of(lake).properties, query_of(lake).version) == ({"a": "x"}, 4)
    with pytest.raises(NotFound, match="gone"):
        lake.sql("alter view shop.v unset tblproperties ('gone')")
    lake.sql("alter view shop.v rename to w")
    lake.sql("alter view shop.w rename to shop.u")
    assert [view.name for view in lake.views("shop")] == ["u"]
    assert lake.sql("select b from shop.u").first() == (2,)
    with pytest.raises(NotFound):
        lake.sql("alter view shop.v as select 1 as a")


def test_the_statement_that_is_shown_makes_the_view(lake: Lake, orders: Table) -> None:
    lake.sql(
        r"create view shop.v (`order` comment 'it\'s \\ \"one\"', b) comment '' tblproperties ('a' = 'b\'c') "
        "as select id, region from shop.orders where region != '\\'' -- comment"
    )
    before = lake.view("shop.v")
    (shown,) = lake.sql("show create table shop.v").collect()
    lake.sql("drop view shop.v")
    lake.sql(shown.createtab_stmt)
    again = lake.view("shop.v")
    assert (again.query, again.description) == (before.query, before.description)
    lake.create_view("shop.all", ["shop.orders"])
    with pytest.raises(InvalidInput, match="`moulin view show`"):
        lake.sql("show create table shop.all")


def test_drop_view_can_be_undone(lake: Lake, orders: Table) -> None:
    lake.sql("create view shop.v as select 1 as a")
    lake.sql("drop view shop.v")
    with pytest.raises(NotFound):
        lake.sql("drop view shop.v")
    lake.sql("drop view if exists shop.v")
    with pytest.raises(NotFound):
        lake.sql("drop view shop.orders")
    lake.resurrect_view("shop.v")
    assert lake.sql("select a from shop.v").first() == (1,)


def test_other_views_are_refused(lake: Lake, orders: Table) -> None:
    version = lake.version
    for text, error, reason in (
        ("create temporary view v as select 1 as a", InvalidInput, "createOrReplaceTempView"),
        ("create or replace global temp view v as select 1 as a", InvalidInput, "createOrReplaceTempView"),
        ("create temp view v using parquet options (path '/x')", InvalidInput, "createOrReplaceTempView"),
        ("create view v as select 1 as a", InvalidInput, "database.view"),
        ("create view shop.v with schema evolution as select 1 as a", Unsupported, "WITH SCHEMA"),
        ("create view identifier('shop.' || 'v') as select 1 as a", Unsupported, "identifier"),
        ("create view shop.v as select * from v", InvalidInput, "only read tables of the lake"),
        ("explain create view shop.v as select 1 as a", InvalidInput, "only for queries"),
    ):
        with pytest.raises(error, match=reason):
            lake.sql(text)
    with pytest.raises(PermissionDenied):
        lake.sql("create view shop.v as select 1 as a", safe=True)
    assert lake.version == version


def test_nothing_is_written_through_a_view(lake: Lake, orders: Table) -> None:
    lake.sql("create view shop.v as select * from shop.orders")
    with pytest.raises(InvalidInput, match="is a view"):
        lake.sql("truncate table shop.v")
