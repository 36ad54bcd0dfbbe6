"""What was published outlives its branch: clean-up, recovery, replicas and checks know whose the files are."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import moulin
from moulin.catalog.manifests.recover import recover
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.lake import Lake
from moulin.mirror import Mirror

COLUMNS = [("id", "long", False), ("amount", "double"), ("day", "date")]


def rows(first: int, last: int) -> list[dict[str, Any]]:
    from datetime import date

    return [{"id": n, "amount": n / 2, "day": date(2026, 1, 1 + n % 3)} for n in range(first, last)]


def ids(lake: Lake, name: str) -> set[int]:
    found = lake.table(name).scan(columns=["id", "_row_id"]).to_arrow().to_pylist()
    assert len({row["_row_id"] for row in found}) == len(found)
    return {row["id"] for row in found}


def clean(lake: Lake) -> list[str]:
    found = collect(lake.own_catalog(), history_keep=0, orphan_grace=0, byte_floor=0)
    return list(found.purged)


def history(lake: Lake) -> dict[str, set[int]]:
    """Tables that main left alone and tables that it changed, keyed and not, published; the rows that they have."""
    for kind in ("alone", "moved"):
        lake.create_table(f"shop.{kind}", COLUMNS, partition_by=["day"]).append(rows(0, 30))
        lake.create_table(f"shop.{kind}_keyed", COLUMNS, primary_key=["id"]).put_batch(rows(0, 30))
    lake.flush()
    branch = lake.branch("exp")
    for kind in ("alone", "moved"):
        table, keyed = branch.table(f"shop.{kind}"), branch.table(f"shop.{kind}_keyed")
        table.append(rows(30, 40))
        table.delete_where("id in (1, 31)")
        keyed.put_batch(rows(25, 35))
        keyed.delete(1)
        keyed.flush()
    for name in ("shop.moved", "shop.moved_keyed"):
        lake.table(name).delete_where("id = 2")
    branch.create_table("shop.fresh", COLUMNS).append(rows(0, 5))
    lake.publish("exp")
    every = {*range(30)}
    return {
        "shop.alone": {*every, *range(30, 40)} - {1, 31},
        "shop.alone_keyed": {*every, *range(30, 35)} - {1},
        "shop.moved": {*every, *range(30, 40)} - {1, 31, 2},
        "shop.moved_keyed": {*every, *range(30, 35)} - {1, 2},
        "shop.fresh": {*range(5)},
    }


def assert_sound(lake: Lake) -> None:
    assert check(lake.own_catalog()) == []


def test_what_was_published_stays_when_its_branch_is_purged_and_goes_when_main_no_longer_needs_it(
    tmp_path: Path,
) -> None:
    with moulin.connect(tmp_path, table_grace=0, database_grace=0) as lake:
        lake.create_database("shop")
        wanted = history(lake)
        assert_sound(lake)
        purged = [name for _ in range(4) for name in clean(lake)]
        assert {"branch exp", "database shop@exp", "table alone", "table moved_keyed"} <= set(purged)
        assert {name: ids(lake, name) for name in wanted} == wanted
        assert lake.table("shop.alone").scan(where="day = date '2026-01-02'").count() == 11
        assert_sound(lake)
        for name in wanted:
            lake.table(name).compact(everything=True)
        for _ in range(4):
            clean(lake)
        assert {name: ids(lake, name) for name in wanted} == wanted
        lake.drop_table("shop.moved")
        del wanted["shop.moved"]
        for _ in range(4):
            clean(lake)
        folders = {path.parent.parent.parent.name for path in tmp_path.rglob("*.parquet")}
        assert folders == {str(entry.id) for entry in lake.tables("shop")}
        assert_sound(lake)


def test_what_was_published_is_recovered_followed_and_mirrored(tmp_path: Path) -> None:
    for purge in (False, True):
        folder = tmp_path / str(purge)
        with moulin.connect(folder, table_grace=0, database_grace=0) as lake:
            lake.create_database("shop")
            replica = moulin.connect(folder, read_only=True)
            wanted = history(lake)
            replica.refresh()
            assert {name: ids(replica, name) for name in wanted} == wanted
            if purge:
                for _ in range(4):
                    clean(lake)
                replica.refresh()
                assert {name: ids(replica, name) for name in wanted} == wanted
                for name in wanted:
                    lake.own_catalog().publisher.write_full(lake.table(name).id)
            lake.table("shop.alone").append(rows(90, 91))
            wanted["shop.alone"].add(90)
            replica.refresh()
            assert {name: ids(replica, name) for name in wanted} == wanted
            replica.close()
            Mirror(lake, str(tmp_path / f"{purge}-mirror")).run_once()
            with moulin.connect(tmp_path / f"{purge}-mirror", read_only=True) as copy:
                assert {name: ids(copy, name) for name in wanted} == wanted
            with moulin.connect(folder, read_only=True) as fresh:
                assert {name: ids(fresh, name) for name in wanted} == wanted
        for path in folder.glob("catalog.sqlite*"):
            path.unlink()
        recover(lake.store, f"sqlite:///{folder / 'catalog.sqlite'}", lake.config)
        with moulin.connect(folder, table_grace=0, database_grace=0) as lake:
            assert {name: ids(lake, name) for name in wanted} == wanted
            assert_sound(lake)
            for _ in range(4):
                clean(lake)
            assert {name: ids(lake, name) for name in wanted} == wanted
            assert_sound(lake)
