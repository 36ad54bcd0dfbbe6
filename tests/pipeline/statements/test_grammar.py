"""Statements that Spark's parser does not read."""

from __future__ import annotations

import pytest

from moulin.errors import InvalidInput
from moulin.pipeline.statements.grammar import KeyClause, Own, SortKey, read, sort_keys


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("undrop table shop.orders;", Own("UndropTable", ("shop", "orders"))),
        ("UNDROP /* a /* b */ c */ TABLE `a``b`.c -- x", Own("UndropTable", ("a`b", "c"))),
        ("optimize moulin.shop.orders", Own("Optimize", ("moulin", "shop", "orders"), {"everything": False})),
        ("vacuum ; ;", Own("Vacuum")),
        ("restore table a.b to version as of 12", Own("RestoreTable", ("a", "b"), {"version": 12})),
        ("desc /* x */ HISTORY a.b limit 3", Own("DescribeHistory", ("a", "b"), {"limit": 3})),
        (
            "create tag `v 1` on a.b as of version 3",
            Own("CreateTag", ("a", "b"), {"replaces": False, "if_not_exists": False, "name": "v 1", "version": 3}),
        ),
        ("drop tag if exists x on a.b", Own("DropTag", ("a", "b"), {"name": "x", "if_exists": True})),
        (
            "create index on a.b using bloom (c.d)",
            Own("CreateUnnamedIndex", ("a", "b"), {"kind": "bloom", "column": ("c", "d")}),
        ),
        (
            "alter table a.b add partition field bucket(4, id)",
            Own("PartitionField", ("a", "b"), {"action": "add", "field": ("bucket", 4, ("id",))}),
        ),
        (
            "alter table a.b replace partition field days(ts) with ts_hour",
            Own(
                "PartitionField",
                ("a", "b"),
                {"action": "replace", "field": ("days", None, ("ts",)), "new": (None, None, ("ts_hour",))},
            ),
        ),
        (
            "alter table a.b write ordered by c desc nulls last, `d e`",
            Own("WriteOrder", ("a", "b"), {"keys": [SortKey(("c",), "desc nulls last"), SortKey(("d e",), "")]}),
        ),
        ("alter table a.b write unordered", Own("WriteOrder", ("a", "b"), {"keys": []})),
        (
            "create table a.b primary key (`x y`, z) as select 1 as z",
            KeyClause(("x y", "z"), "create table a.b   as select 1 as z"),
        ),
        (
            "create or replace table a.b (id int comment 'primary key (q)') primary key (id) comment 'x'",
            KeyClause(("id",), "create or replace table a.b (id int comment 'primary key (q)')   comment 'x'"),
        ),
    ],
)
def test_statements_are_read_past_comments_quotes_and_cases(text: str, statement: object) -> None:
    assert read(text) == statement


@pytest.mark.parametrize(
    "text",
    [
        "select 1",
        "create table a.b (id int primary key)",
        "create table a.b (id int, primary key (id))",
        "create table a.b as select 'x primary key (id)' as primary",
        "create table a.b comment 'it\\'s primary key (id)' as select 1",
        "create table a.b as select * from (select 1) primary key (id)",
        "create index i on a.b (c)",
        "describe history",
        "describe history.orders",
        "describe `history` x",
        "alter table a.b add partition (day = 1)",
        "alter table a.b add column x int",
        "'create' tag x",
        "",
    ],
)
def test_the_rest_is_left_to_spark(text: str) -> None:
    assert read(text) is None


@pytest.mark.parametrize(
    "text",
    [
        "undrop table",
        "undrop view a.b",
        "vacuum a.b retain 1 hours",
        "optimize a.b zorder by (id)",
        "restore table a.b to timestamp as of '2024-01-01'",
        "create tag x",
        "create tag 'x' on a.b",
        "drop tag x on a.b extra",
        "create index on a.b (c, d)",
        "alter table a.b add partition field days(ts) as day",
        "alter table a.b write ordered by",
        "alter table a.b write distributed by partition",
        "create table a.b primary key id as select 1",
        "create table a.b primary key () as select 1",
    ],
)
def test_what_is_begun_and_not_understood_is_refused_with_the_way_to_write_it(text: str) -> None:
    with pytest.raises(InvalidInput, match="write "):
        read(text)


def test_sort_orders_are_read_as_text() -> None:
    assert sort_keys("a, b.c asc nulls last", "x") == [SortKey(("a",), ""), SortKey(("b", "c"), "asc nulls last")]
    with pytest.raises(InvalidInput):
        sort_keys("a b", "x")
