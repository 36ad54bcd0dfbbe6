"""What clean-up leaves of tables that clones read, and what it removes when the last of them is gone."""

from __future__ import annotations

from pathlib import Path

from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.lake import Lake
from moulin.table.table import Table
from tests.catalog.conftest import HandClock, files

DAY = 86400


def clean_up(lake: Lake, clock: HandClock) -> None:
    for _ in range(4):
        clock.forward(20 * DAY)
        collect(lake.own_catalog())


def ids(table: Table) -> list[int]:
    return sorted(row["id"] for row in table.scan().to_pylist())


def test_a_source_keeps_what_its_clone_reads(lake: Lake, clock: HandClock) -> None:
    source = lake.create_table("shop.a", [("id", "long")])
    source.append([{"id": n} for n in range(10)])
    source.delete_where("id = 3")
    clone = lake.clone_table("shop.a", "shop.b")
    source.append([{"id": 100}])
    source.compact(everything=True)
    source.delete_where("id < 50")
    clean_up(lake, clock)
    assert ids(clone) == [n for n in range(10) if n != 3]
    assert ids(source) == [100]
    assert check(lake.own_catalog()) == []


def test_a_dropped_source_stays_until_its_last_clone_is_gone(lake: Lake, clock: HandClock, tmp_path: Path) -> None:
    source = lake.create_table("shop.a", [("id", "long")])
    source.append([{"id": n} for n in range(10)])
    clone = lake.clone_table("shop.a", "shop.b")
    clone.append([{"id": 10}])
    second = lake.clone_table("shop.b", "shop.c")
    lake.drop_table("shop.a", immediate=True)
    lake.drop_table("shop.b", immediate=True)
    clean_up(lake, clock)
    assert ids(second) == [*range(11)]
    assert check(lake.own_catalog()) == []
    lake.drop_table("shop.c", immediate=True)
    clean_up(lake, clock)
    assert files(tmp_path / "lake" / "tables", "*.parquet") == []


def test_a_clone_that_goes_takes_no_file_of_its_source(lake: Lake, clock: HandClock) -> None:
    source = lake.create_table("shop.a", [("id", "long")])
    source.append([{"id": n} for n in range(10)])
    clone = lake.clone_table("shop.a", "shop.b")
    clone.delete_where("id < 5")
    lake.drop_table("shop.b", immediate=True)
    clean_up(lake, clock)
    assert ids(source) == [*range(10)]
    assert check(lake.own_catalog()) == []
