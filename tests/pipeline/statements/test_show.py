"""SHOW and DESCRIBE."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moulin import Lake, Table
from moulin.errors import MoulinError, PermissionDenied

MakeRows = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def values(lake: Lake) -> Callable[..., list[tuple[Any, ...]]]:
    def run(text: str, **options: bool) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in lake.sql(text, **options).collect()]

    return run


@pytest.mark.parametrize("safe", [False, True])
def test_objects_are_listed_by_the_patterns_of_spark(
    lake: Lake, orders: Table, values: Callable[..., list[tuple[Any, ...]]], safe: bool
) -> None:
    lake.create_database("web")
    lake.create_table("shop.returns", [("id", "long")])
    lake.create_view("shop.both", ["shop.orders"])
    assert values("show databases", safe=safe) == [("shop",), ("web",)]
    assert values("show schemas like 'W*|x'", safe=safe) == [("web",)]
    listed = [("shop", "orders", False), ("shop", "returns", False)]
    assert values("show tables in shop", safe=safe) == listed
    assert values("show tables from moulin.SHOP like '*TURNS'", safe=safe) == listed[1:]
    assert values("show tables in shop like 'o*|r*'", safe=safe) == listed
    assert values("show tables in shop like '['", safe=safe) == []
    assert values("show views in shop", safe=safe) == [("shop", "both", False)]
    assert values("show columns in shop.orders", safe=safe) == [("id",), ("ts",), ("region",), ("amount",)]
    assert values("show columns from orders from shop", safe=safe) == values("show columns in shop.orders", safe=safe)


def test_properties_and_partitions_are_listed(
    lake: Lake, orders: Table, rows: MakeRows, values: Callable[..., list[tuple[Any, ...]]]
) -> None:
    orders.set_properties({"b": "2", "a": "1"})
    orders.tag("hidden")
    assert values("show tblproperties shop.orders") == [("a", "1"), ("b", "2")]
    assert values("show tblproperties shop.orders ('b')") == [("b", "2")]
    with pytest.raises(MoulinError, match="not partitioned"):
        lake.sql("show partitions shop.orders")
    orders.set_partitioning(["day(ts)", "region"])
    orders.append(rows(0, 3) + rows(2000, 2, "us"))
    assert values("show partitions shop.orders") == [
        ("ts_day=2024-03-01/region=eu",),
        ("ts_day=2024-03-02/region=us",),
    ]


@pytest.mark.parametrize("safe", [False, True])
def test_a_description_has_the_facts_of_the_table(
    lake: Lake, orders: Table, rows: MakeRows, values: Callable[..., list[tuple[Any, ...]]], safe: bool
) -> None:
    orders.append(rows(0, 3))
    orders.set_partitioning(["day(ts)"])
    plain = values("describe shop.orders", safe=safe)
    assert plain[0] == ("id", "bigint", None)
    found = values("describe table extended shop.Orders", safe=safe)
    assert found[:4] == plain
    facts = {name: value for name, value, _ in found[4:]}
    entry = lake.catalog.table_entry(orders.id)
    assert facts["Version"] == str(orders.version)
    assert (facts["Rows"], facts["Bytes"]) == ("3", str(entry.bytes))
    assert (facts["Partitioning"], facts["Sort order"], facts["Event time"]) == ("day(ts)", "ts", "ts")
    assert facts["Not null"] == "id"


def test_history_is_described_newest_first(lake: Lake, orders: Table, rows: MakeRows) -> None:
    orders.append(rows(0, 3))
    found = lake.sql("describe history shop.orders").collect()
    history = orders.history()
    assert [(row.version, row.operation) for row in found] == [(info.version, info.kind) for info in history]
    assert [row.version for row in lake.sql("desc history shop.orders limit 1").collect()] == [orders.version]


def test_views_and_metadata_are_described_by_spark(lake: Lake, orders: Table) -> None:
    lake.create_view("shop.both", ["shop.orders"])
    assert [row.col_name for row in lake.sql("describe shop.both").collect()] == ["id", "ts", "region", "amount"]
    assert lake.sql("describe shop.orders.tags").collect()[1][:2] == ("version", "bigint")
    lake.spark().range(3).createOrReplaceTempView("numbers")
    assert lake.sql("describe numbers").collect()[0].col_name == "id"
    with pytest.raises(PermissionDenied):
        lake.sql("describe numbers", safe=True)


def test_what_is_not_there_is_one_sentence(lake: Lake, orders: Table) -> None:
    for text, message in (
        ("show tables", "SHOW TABLES IN database"),
        ("show tables in nothing", "does not exist"),
        ("show databases in shop", "SHOW DATABASES"),
        ("show columns in orders", "database.table"),
        ("show create table shop.nothing", "does not exist"),
        ("show tblproperties shop.nothing", "does not exist"),
        ("show partitions shop.orders partition (region = 'eu')", "shop.orders|database.table.partitions"),
        ("describe history orders", "database.table"),
        ("describe history shop.nothing", "does not exist"),
        ("describe shop.nothing", "does not exist"),
        ("describe shop.orders nothing", "no column 'nothing'"),
        ("describe database nothing", "does not exist"),
        ("show functions", "lake.spark"),
    ):
        with pytest.raises(MoulinError, match=message):
            lake.sql(text)
