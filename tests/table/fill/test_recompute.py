"""Columns that were added with values are computed again, through column files alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.catalog.manifests.recover import recover
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.config import Config
from moulin.errors import FailedPrecondition, InvalidInput, NotFound
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from moulin.model.schema.type_reader import parse_type
from moulin.storage.store import open_store
from moulin.table.fill.fill import begin
from moulin.table.table import Table


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        yield lake


def filled(lake: Lake, **options: Any) -> Table:
    columns = [("id", "long", False), ("price", "double"), ("qty", "long")]
    table = lake.create_table("shop.orders", columns, **options)
    for first in (0, 20):
        table.append([{"id": first + n, "price": n / 2, "qty": n % 5} for n in range(20)])
    table.delete_where("id = 7")
    table.add_column("total", "double", from_sql="price * qty")
    return table


def totals(table: Table, version: int | None = None) -> dict[int, float | None]:
    return {row["id"]: row["total"] for row in table.scan(version=version).to_pylist()}


def expected(table: Table, factor: float) -> dict[int, float | None]:
    return {row["id"]: row["price"] * row["qty"] * factor for row in table.scan().to_pylist()}


@pytest.mark.parametrize("key", [[], ["id"]], ids=["event", "keyed"])
def test_all_rows_get_the_new_value_and_older_versions_keep_theirs(lake: Lake, key: list[str]) -> None:
    table = filled(lake, primary_key=key)
    before, was = table.version, totals(table)
    ids = {row["id"]: row["_row_id"] for row in table.scan(["id", "_row_id"]).to_pylist()}
    table.recompute_column("total", from_sql="price * qty * 2")
    assert totals(table) == expected(table, 2)
    assert totals(table, before) == was
    assert {row["id"]: row["_row_id"] for row in table.scan(["id", "_row_id"]).to_pylist()} == ids
    assert table.schema.names == ["id", "price", "qty", "total"]
    assert table.changes(before, table.version).to_arrow().num_rows == 0
    rows = lake.duckdb().execute("select id, total from shop.orders").fetchall()
    assert dict(rows) == totals(table)
    table.recompute_column("total", from_sql="total + 1")
    assert totals(table) == {key: value + 1 for key, value in expected(table, 2).items() if value is not None}
    table.fold()
    table.recompute_column("total", from_sql="price * qty")
    assert totals(table) == expected(table, 1)
    collect(lake.own_catalog(), history_keep=0, byte_floor=0, orphan_grace=0)
    assert totals(table) == expected(table, 1)
    assert not check(lake.own_catalog(), data=True)


def test_its_own_expression_is_the_default(lake: Lake) -> None:
    table = filled(lake)
    table.update({"price": "price + 1"})
    assert totals(table) != expected(table, 1)
    table.recompute_column("total")
    assert totals(table) == expected(table, 1)


@pytest.mark.parametrize("key", [[], ["id"]], ids=["event", "keyed"])
def test_until_then_the_column_is_read_and_written_as_before(lake: Lake, key: list[str]) -> None:
    table = filled(lake, primary_key=key)
    was = totals(table)
    kind = parse_type("double")
    begin(
        table._context, table.state, table._keyed(), [("total", kind)], ["price", "qty"], "price * qty * 3", again=True
    )
    assert totals(table) == was
    table.append([{"id": 90, "price": 2.0, "qty": 2, "total": -1.0}])
    table.update({"total": "5.0"}, where="id = 1")
    if key:
        table.put({"id": 91, "price": 1.0, "qty": 1, "total": -2.0})
    table.compact(everything=True)
    assert totals(table)[90] == -1.0
    assert totals(table)[1] == 5.0
    for change in (lambda: table.widen_column("qty", "long"), lambda: table.cast_column("total", "string")):
        with pytest.raises((FailedPrecondition, InvalidInput)):
            change()
    table.recompute_column("total")
    assert totals(table) == expected(table, 3)


def test_a_drop_ends_it(lake: Lake) -> None:
    table = filled(lake)
    kind = parse_type("double")
    begin(table._context, table.state, table._keyed(), [("total", kind)], ["total"], "total * 2", again=True)
    table.drop_column("total")
    assert table.schema.names == ["id", "price", "qty"]
    with pytest.raises(NotFound):
        table.recompute_column("total")


def test_columns_that_the_feed_follows_are_left_to_update(lake: Lake) -> None:
    table = filled(lake)
    with pytest.raises(FailedPrecondition, match=r"update\(\)"):
        table.recompute_column("price", from_sql="price * 2")
    table.add_columns(lambda batch: {"half": batch["price"]}, read=["price"])
    with pytest.raises(InvalidInput, match="from_sql"):
        table.recompute_column("half")
    with pytest.raises(InvalidInput, match="from_sql"):
        table.recompute_column("price", unreported=True)
    table.recompute_column("half", from_sql="price / 2")
    assert all(row["half"] == row["price"] / 2 for row in table.scan().to_pylist())
    table.set_sort_order(["total"])
    with pytest.raises(FailedPrecondition, match="sort order"):
        table.recompute_column("total")


@pytest.mark.parametrize("key", [[], ["id"]], ids=["event", "keyed"])
def test_any_column_that_nothing_rests_on_is_computed_again_unreported(lake: Lake, key: list[str]) -> None:
    table = filled(lake, primary_key=key)
    before = {row["id"]: row["price"] for row in table.scan().to_pylist()}
    version = table.version
    table.create_index("price")
    table.recompute_column("price", from_sql="price * 2 + qty", unreported=True)
    wanted = {row["id"]: before[row["id"]] * 2 + row["qty"] for row in table.scan().to_pylist()}

    def prices(**at: Any) -> dict[int, float]:
        return {row["id"]: row["price"] for row in table.scan(**at).to_pylist()}

    assert prices() == wanted
    assert prices(version=version) == before
    assert prices(where="price > 15") == {key: value for key, value in wanted.items() if value > 15}
    assert table.schema.names == ["id", "price", "qty", "total"]
    assert table.indexes() == []
    assert table.changes(version, table.version).to_arrow().num_rows == 0
    assert dict(lake.duckdb().execute("select id, price from shop.orders").fetchall()) == wanted
    table.append([{"id": 90, "price": 1.5, "qty": 1}])
    table.update({"price": "price + 1"}, "id = 3")
    wanted |= {90: 1.5, 3: wanted[3] + 1}
    assert prices() == wanted
    table.compact(everything=True)
    assert prices() == wanted
    table.recompute_column("price", from_sql="price - 1")  # from now on it is a computed column
    assert prices() == {key: value - 1 for key, value in wanted.items()}
    assert prices(version=version) == before
    assert not check(lake.own_catalog(), data=True)


@pytest.mark.parametrize("options", [{"primary_key": ["a"]}, {"partition_by": ["a"]}, {"sort_by": ["a"]}, {}])
def test_columns_that_something_rests_on_and_required_ones_are_refused(lake: Lake, options: dict[str, Any]) -> None:
    table = lake.create_table("shop.t", [("a", "long", False), ("b", "long")], **options)
    table.append([{"a": 1, "b": 2}])
    version = table.version
    with pytest.raises(FailedPrecondition):
        table.recompute_column("a", from_sql="b", unreported=True)
    assert (table.version, table.scan().to_pylist()) == (version, [{"a": 1, "b": 2}])


def test_iceberg_engines_see_a_column_that_was_computed_again_once_it_is_folded(lake: Lake) -> None:
    from pyiceberg.table import StaticTable

    table = filled(lake)
    table.fold()

    def engine() -> list[dict[str, Any]]:
        location = project(lake.context, table.id).location
        return sorted(StaticTable.from_metadata(location).scan().to_arrow().to_pylist(), key=lambda row: row["id"])

    table.set_properties({"moulin.projection": "lag"})
    table.recompute_column("price", from_sql="price * 10", unreported=True)
    rows = sorted(table.scan().to_pylist(), key=lambda row: row["id"])
    assert engine() == [{name: value for name, value in row.items() if name != "price"} for row in rows]
    table.set_properties({"moulin.projection": "fold"})
    assert engine() == rows


def test_branches_clones_and_recovered_lakes_compute_again(lake: Lake, tmp_path: Path) -> None:
    table = filled(lake)
    branch = lake.branch("exp")
    branch.table("shop.orders").recompute_column("total", from_sql="price * qty * 4")
    lake.clone_table("shop.orders", "shop.copy").recompute_column("total", from_sql="price * qty * 5")
    assert totals(table) == expected(table, 1)
    assert totals(lake.table("shop.copy")) == expected(table, 5)
    lake.publish("exp")
    assert totals(table) == expected(table, 4)
    lake.close()
    (tmp_path / "lake" / "catalog.sqlite").unlink()
    recover(open_store(str(tmp_path / "lake")), f"sqlite:///{tmp_path / 'lake' / 'catalog.sqlite'}", Config())
    with moulin.connect(tmp_path / "lake") as again:
        copy = again.table("shop.copy")
        copy.recompute_column("total", from_sql="price * qty * 6")
        assert totals(copy) == expected(copy, 6)
        assert not check(again.own_catalog(), data=True)


def test_indexes_of_the_column_are_dropped(lake: Lake) -> None:
    table = filled(lake)
    table.create_index("total")
    table.recompute_column("total", from_sql="price * qty * 2")
    assert not table.indexes()
    assert table.scan(where="total = 4.0").to_pylist() == [r for r in table.scan().to_pylist() if r["total"] == 4.0]
