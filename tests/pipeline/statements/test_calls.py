"""Upkeep in SQL: CALL, OPTIMIZE, VACUUM, RESTORE, tags and indexes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moulin import Lake, Table
from moulin.errors import MoulinError

MakeRows = Callable[..., list[dict[str, Any]]]


def test_compactions_are_called_and_optimized(lake: Lake, orders: Table, rows: MakeRows) -> None:
    for text in ("call compact('shop.Orders', true)", "optimize shop.orders full"):
        for start in range(0, 4, 2):
            orders.append(rows(start, 2))
        (done,) = lake.sql(text).collect()
        assert (done.segments_out, done.version) == (1, orders.version)
    assert orders.scan().count() == 8
    (done,) = lake.sql("call moulin.system.compact(everything => false, table => 'shop.orders')").collect()
    assert done.merges == 0


def test_older_versions_are_restored_with_counts(
    lake: Lake, orders: Table, rows: MakeRows, ids: Callable[[Any], list[int]]
) -> None:
    version = orders.append(rows(0, 3)).version
    orders.append(rows(3, 2))
    (counts,) = lake.sql(f"call restore('shop.orders', {version})").collect()
    assert (counts.num_deleted_rows, counts.version, ids(orders)) == (2, orders.version, [0, 1, 2])
    (counts,) = lake.sql(f"restore table shop.orders to version as of {version - 1}").collect()
    assert (counts.num_deleted_rows, ids(orders)) == (3, [])


def test_puts_are_flushed_and_garbage_is_collected(lake: Lake) -> None:
    table = lake.create_table("shop.k", [("id", "long")], primary_key=["id"])
    table.put({"id": 1})
    (flushed,) = lake.sql("call flush('shop.k')").collect()
    assert flushed.version == table.version
    lake.drop_table("shop.k", immediate=True)
    (done,) = lake.sql("call gc()").collect()
    assert (done.purged_objects, done.failures) == (1, 0)
    assert lake.sql("vacuum").collect()[0].purged_objects == 0


def test_tags_come_move_and_go(lake: Lake, orders: Table, rows: MakeRows) -> None:
    first = orders.append(rows(0, 1)).version
    second = orders.append(rows(1, 1)).version
    lake.sql(f"create tag `end of year` on shop.orders as of version {first}")
    lake.sql("create tag now on shop.orders")
    assert orders.tags() == {"end of year": first, "now": orders.tags()["now"]}
    with pytest.raises(MoulinError, match="OR REPLACE"):
        lake.sql("create tag now on shop.orders")
    lake.sql("create tag if not exists now on shop.orders as of version 1")
    lake.sql(f"create or replace tag now on shop.orders as of version {second}")
    assert orders.tags()["now"] == second
    lake.sql("drop tag now on shop.orders")
    lake.sql("drop tag if exists now on shop.orders")
    with pytest.raises(MoulinError, match="no tag 'now'"):
        lake.sql("drop tag now on shop.orders")
    assert orders.tags() == {"end of year": first}


def test_indexes_come_and_go(lake: Lake, orders: Table) -> None:
    lake.sql("create index by_region on shop.orders (REGION)")
    lake.sql("create index if not exists by_region on shop.orders (region)")
    lake.sql("create index on shop.orders using bloom (id)")
    assert [(one.name, one.column, one.kind) for one in orders.indexes()] == [
        ("by_region", "region", "btree"),
        ("id_bloom", "id", "bloom"),
    ]
    lake.sql("drop index by_region on shop.orders")
    lake.sql("drop index if exists by_region on shop.orders")
    assert [one.name for one in orders.indexes()] == ["id_bloom"]


def test_wrong_calls_are_one_sentence_and_change_nothing(lake: Lake, orders: Table) -> None:
    before = lake.version
    for text, message in (
        ("call nothing()", "there are compact, flush, gc, restore"),
        ("call shop.compact('shop.orders')", "no procedure"),
        ("call compact()", "argument table is missing"),
        ("call compact('orders')", "database.table"),
        ("call compact('shop.nothing')", "does not exist"),
        ("call compact('shop.orders', 'x')", "true or false"),
        ("call compact('shop.orders', table => 'shop.orders')", "each argument once"),
        ("call gc(1)", "each argument once"),
        ("call restore('shop.orders', 1 + 1)", "a whole number"),
        ("call restore('shop.orders', 100000)", "does not exist yet"),
        ("call flush('shop.orders')", "no primary key"),
        ("create index x on shop.orders (nothing)", "no column 'nothing'"),
        ("create index x on shop.orders (id, ts)", "has one column"),
        ("create index x on shop.orders using hash (id)", "hash"),
        ("drop index nothing on shop.orders", "nothing"),
        ("create tag x on shop.orders as of version 100000", "does not exist yet"),
        ("create tag main on shop.orders", "newest version"),
        ("create tag x on orders", "database.table"),
    ):
        with pytest.raises(MoulinError, match=message):
            lake.sql(text)
        assert lake.version == before, text
    with pytest.raises(MoulinError, match="cannot have args"):
        lake.sql("optimize shop.orders", {"a": 1})
