"""A fill on PostgreSQL and S3, with deletes, a second column, a drop and a fold; test_fill.py has the rest of it."""

from __future__ import annotations

import pytest

from moulin.catalog.upkeep.check import check
from moulin.lake import Lake
from tests.table.conftest import BACKENDS


@pytest.mark.parametrize("open_lake", [BACKENDS[1]], indirect=True)
def test_columns_are_filled_dropped_and_folded_on_a_shared_lake(lake: Lake) -> None:
    table = lake.create_table("shop.t", [("id", "long"), ("x", "double")])
    table.append([{"id": n, "x": n / 2} for n in range(40)])
    table.append([{"id": n, "x": n / 2} for n in range(40, 60)])
    table.delete_where("id < 5")
    table.add_column("y", "double", from_sql="x * 2")
    table.add_columns(lambda batch: {"z": batch["id"]}, read=["id"], schema=[("z", "long")])
    table.delete_where("y >= 50")
    expected = [{"id": n, "x": n / 2, "y": float(n), "z": n} for n in range(5, 50)]
    assert sorted(table.scan().to_pylist(), key=lambda row: int(row["id"])) == expected
    table.drop_column("z")
    table.fold()
    found = {row["id"]: row["y"] for row in table.scan(columns=["id", "y"]).to_pylist()}
    assert found == {n: float(n) for n in range(5, 50)}
    assert list(check(lake.own_catalog(), data=True)) == []
