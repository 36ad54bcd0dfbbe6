"""Metadata and changes of a table as tables in queries."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moulin import Lake, Table
from moulin.errors import MoulinError, NotFound, PermissionDenied

MakeRows = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def sold(lake: Lake, orders: Table, rows: MakeRows) -> Table:
    """A partitioned table with three versions of rows, a deletion, a tag and an index."""
    orders.set_partitioning(["region"])
    orders.append(rows(0, 4))
    orders.append(rows(4, 3, "us"))
    orders.delete_where("id = 1")
    orders.tag("first", orders.version)
    orders.create_index("id", name="by_id")
    return orders


def test_metadata_is_that_of_the_python_calls(lake: Lake, sold: Table) -> None:
    def values(text: str) -> list[tuple[Any, ...]]:
        return [tuple(row) for row in lake.sql(text).collect()]

    history = values("select version, operation, added_rows from shop.orders.history")
    assert history == [(info.version, str(info.kind), info.added_rows) for info in sold.history()]
    live = lake.catalog.segments(sold.id, lake.version)
    segments = "select segment, partition, rows, deleted_rows, bytes from moulin.SHOP.Orders.Segments order by 1"
    assert values(segments) == [
        (one.facts.number, f"region={region}", one.live_rows, one.facts.rows - one.live_rows, one.facts.size)
        for one, region in zip(live, ["eu", "us"], strict=True)
    ]
    partitions = values("select partition, segments, rows from shop.orders.partitions")
    assert partitions == [("region=eu", 1, 3), ("region=us", 1, 3)]
    assert values("select * from shop.orders.tags") == [("first", sold.tags()["first"], "tag")]
    indexes = values("select name, column, kind, covered_segments, created_at is null from shop.orders.indexes")
    assert indexes == [("by_id", "id", "btree", 2, False)]
    with pytest.raises(NotFound):
        values("select * from shop.nothing.history")


@pytest.mark.parametrize("safe", [False, True])
def test_metadata_is_joined_and_filtered_like_tables(lake: Lake, sold: Table, safe: bool) -> None:
    text = """select h.operation, count(*) as n from shop.orders.segments as s
        join shop.orders.history as h on h.version = s.added_version where s.level >= 0 group by all"""
    assert [tuple(row) for row in lake.sql(text, safe=safe).collect()] == [("append", 2)]
    newest = "(select max(version) from shop.orders.tags)"
    filtered = f"select operation from shop.orders.history where history.version = {newest}"
    assert [row.operation for row in lake.sql(filtered, safe=safe).collect()] == ["delete"]


def test_metadata_has_the_version_that_is_asked_for(lake: Lake, sold: Table, rows: MakeRows) -> None:
    version = sold.version
    sold.append(rows(10, 1))
    count = "select count(*) from shop.orders.{} version as of {}"
    assert lake.sql(count.format("segments", version)).collect()[0][0] == 2
    assert lake.sql(count.format("history", version)).collect()[0][0] == len(sold.history()) - 1


def test_files_are_listed_but_not_to_safe_queries(lake: Lake, sold: Table) -> None:
    found = lake.sql(
        "select segment, content, address, bytes from shop.orders.files order by segment, content"
    ).collect()
    assert [row.content for row in found] == ["data", "deletion_vector", "data"]
    for row in found:
        path = row.address.removeprefix(lake.store.uri.rstrip("/") + "/")
        assert lake.store.exists(path)
    with pytest.raises(PermissionDenied, match="addresses of files"):
        lake.sql("select bytes from shop.orders.files", safe=True)


def test_an_empty_table_has_metadata_with_the_same_columns(lake: Lake, sold: Table) -> None:
    lake.create_table("shop.empty", [("id", "long")])
    for kind in ("history", "segments", "partitions", "tags", "indexes", "files"):
        empty, full = (lake.sql(f"select * from shop.{name}.{kind}") for name in ("empty", "orders"))
        assert empty.schema == full.schema
        assert empty.count() == (kind == "history")


@pytest.mark.parametrize("safe", [False, True])
def test_changes_are_those_of_the_feed(lake: Lake, sold: Table, safe: bool) -> None:
    created = sold.history()[-1].version
    frame = lake.sql(f"select * from table_changes('shop.Orders', {created})", safe=safe)
    wanted = sold.changes(created).to_arrow()
    key = ["_version", "_row_id", "_change_type"]
    assert frame.columns == wanted.column_names
    got = frame.toArrow().select(wanted.column_names)
    columns = [*key, "id", "region", "amount"]
    order = [(name, "ascending") for name in key]
    assert got.sort_by(order).select(columns).to_pylist() == wanted.sort_by(order).select(columns).to_pylist()
    text = """select c._change_type, count(*)
        from table_changes(since => :since, table => 'shop.orders', until => :until) c
        join shop.orders.history h on h.version = c._version group by all order by all"""
    counted = lake.sql(text, {"since": created, "until": sold.history()[-3].version}, safe=safe)
    assert [tuple(row) for row in counted.collect()] == [("insert", 4)]
    assert (
        lake.sql(f"select a from table_changes('shop.orders', 1 + {created}) as t(a, b, c, d, e, f, g, h)").count() == 8
    )
    assert lake.sql(f"select * from table_changes('shop.orders', {sold.version})", safe=safe).count() == 0


def test_puts_are_in_the_changes(lake: Lake) -> None:
    table = lake.create_table("shop.k", [("id", "long"), ("v", "string")], primary_key=["id"])
    version = table.version
    table.put({"id": 1, "v": "a"})
    table.flush()
    table.put({"id": 1, "v": "b"})
    found = lake.sql(f"select _change_type, v from table_changes('shop.k', {version}) order by _version, _change_type")
    assert [tuple(row) for row in found.collect()] == [("insert", "a"), ("update_after", "b"), ("update_before", "a")]


def test_wrong_asks_for_changes_are_one_sentence(lake: Lake, orders: Table) -> None:
    for text, message in (
        ("select * from table_changes('shop.nothing', 1)", "does not exist"),
        ("select * from table_changes('shop.orders', 100000)", "100000"),
        ("select * from table_changes('shop.orders', -1)", "-1|version"),
        ("select * from table_changes('shop.orders', 'x')", "table_changes takes"),
        ("select * from table_changes((select max(region) from shop.orders), 1)", "sub-query"),
        ("select nothing from table_changes('shop.orders', 2)", "nothing"),
    ):
        with pytest.raises(MoulinError, match=message):
            lake.sql(text).collect()
