"""Clean-up and branches: what a branch can read stays, what nobody can reach goes."""

from __future__ import annotations

from pathlib import Path

import moulin
from moulin.catalog.upkeep.gc import collect
from moulin.lake import Lake

COLUMNS = [("id", "long", False), ("amount", "double")]


def count(lake: Lake, name: str) -> int:
    return lake.table(name).scan().to_arrow().num_rows


def clean(lake: Lake) -> list[str]:
    found = collect(lake.own_catalog(), history_keep=0, orphan_grace=0, byte_floor=0)
    return list(found.purged)


def test_clean_up_keeps_what_branches_read_and_takes_it_when_they_are_gone(tmp_path: Path) -> None:
    with moulin.connect(tmp_path, table_grace=0, database_grace=0) as lake:
        lake.create_database("shop")
        for name in ("opened", "unopened"):
            lake.create_table(f"shop.{name}", COLUMNS).append([{"id": n, "amount": 1.0} for n in range(100)])
        branch = lake.branch("exp")
        branch.table("shop.opened").delete_where("id < 10")
        for name in ("opened", "unopened"):
            lake.table(f"shop.{name}").overwrite([{"id": 1, "amount": 1.0}])
            lake.table(f"shop.{name}").compact()
            lake.drop_table(f"shop.{name}")
        for _ in range(3):
            clean(lake)
        assert count(branch, "shop.opened") == 90
        assert count(branch, "shop.unopened") == 100
        lake.drop_branch("exp")
        purged = [name for _ in range(4) for name in clean(lake)]
        assert {"branch exp", "database shop@exp", "table opened", "table unopened"} <= set(purged)
        assert not list(tmp_path.rglob("*.parquet"))
        assert lake.databases()[0].name == "shop"


def test_a_branch_whose_time_is_over_is_dropped(tmp_path: Path) -> None:
    with moulin.connect(tmp_path) as lake:
        lake.create_database("shop")
        lake.create_table("shop.t", COLUMNS)
        lake.branch("short", expires=0.001)
        lake.branch("long", expires="1d")
        collect(lake.own_catalog())
        assert [one.name for one in lake.branches()] == ["long"]
        lake.resurrect_branch("short")
        collect(lake.own_catalog())
        assert [one.name for one in lake.branches()] == ["long", "short"]


def test_a_clone_of_a_purged_clone_keeps_the_rows_that_it_deleted_hidden(tmp_path: Path) -> None:
    with moulin.connect(tmp_path, table_grace=0) as lake:
        lake.create_database("shop")
        lake.create_table("shop.a", COLUMNS).append([{"id": n, "amount": 1.0} for n in range(1000)])
        lake.clone_table("shop.a", "shop.b").delete_where("id < 10")
        lake.clone_table("shop.b", "shop.c")
        lake.drop_table("shop.b")
        for _ in range(3):
            clean(lake)
        assert count(lake, "shop.c") == 990
