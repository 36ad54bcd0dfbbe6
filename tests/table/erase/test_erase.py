"""Erase: a value is planted wherever a lake keeps values, and afterwards it is nowhere, and nothing else changed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.catalog.upkeep.check import check
from moulin.errors import FailedPrecondition, InvalidInput
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from tests.table.conftest import BACKENDS, SERVED
from tests.table.erase.planting import (
    NUMBER,
    ORDERS,
    SECRET,
    WHERE,
    catalog_files,
    history,
    holding,
    order,
    rows_of,
    secret,
    without_secret,
)

OpenLake = Callable[..., Lake]

in_a_folder = pytest.mark.parametrize("open_lake", BACKENDS[:1], indirect=True)


def plant_events(lake: Lake, name: str = "shop.events", **options: Any) -> Any:
    table = lake.create_table(name, ORDERS, **options)
    table.append([order(n) for n in range(20)])
    table.append([secret(100), order(101), secret(102), order(103)])
    table.tag("before")
    table.delete_where("id = 100")
    table.append([secret(104)])
    table.update(set={"note": f"'now {SECRET}'"}, where="id = 102")
    table.append([order(105), secret(106)])
    table.compact(everything=True)
    table.delete_where(f"email = '{SECRET}' and id = 106")
    table.append([order(107), secret(108)])
    return table


def unchanged(lake: Lake, names: list[str], before: dict[Any, Any]) -> None:
    """Every version that was there has the same rows but those that were erased."""
    after = history(lake, names)
    assert {at: after[at] for at in before} == without_secret(before)


def test_an_erased_value_is_in_no_byte_of_the_lake(lake: Lake, tmp_path: Path) -> None:
    plant_events(lake)
    before = history(lake, ["shop.events"])
    done = lake.table("shop.events").erase(WHERE)
    assert done.complete
    assert done.rows >= 6
    assert holding(lake.store) == []
    if (tmp_path / "lake").exists():
        assert catalog_files(tmp_path / "lake") == []
    unchanged(lake, ["shop.events"], before)
    assert not check(lake.own_catalog())
    assert lake.table("shop.events").history()[0].kind == "erase"
    tagged = lake.table("shop.events").at(tag="before").scan().to_pylist()
    assert {row["id"] for row in tagged} == {*range(20), 101, 103}
    assert done.report["condition"] == "user = ? or email = ?"


@in_a_folder
@pytest.mark.parametrize(
    "options",
    [
        {"partition_by": ["user"]},
        pytest.param({"partition_by": ["day"], "sort_by": ["email"]}, marks=pytest.mark.long),
        pytest.param({"sort_by": ["user desc"]}, marks=pytest.mark.long),
    ],
)
def test_partition_tuples_and_sorted_files_are_cleaned(
    open_lake: OpenLake, tmp_path: Path, options: dict[str, Any]
) -> None:
    lake = open_lake()
    lake.create_database("shop")
    table = plant_events(lake, **options)
    before = history(lake, ["shop.events"])
    table.erase(WHERE)
    assert holding(lake.store) == []
    if (tmp_path / "lake").exists():
        assert catalog_files(tmp_path / "lake") == []
    unchanged(lake, ["shop.events"], before)
    table.append([order(300)])
    table.compact(everything=True)
    assert rows_of(table).keys() == {*rows_of(table, max(v for _, v in before)), 300}
    assert not check(lake.own_catalog())


def test_branches_clones_and_their_own_rows_are_erased(lake: Lake, tmp_path: Path) -> None:
    table = plant_events(lake)
    lake.clone_table("shop.events", "shop.copy", at="before")
    lake.table("shop.copy").append([secret(400), order(401)])
    branch = lake.branch("exp", expires="7d")
    branch.table("shop.events").append([secret(500), order(501)])
    branch.table("shop.events").delete_where("id = 103")
    lake.branch("unopened", expires="7d")
    lake.clone_table("shop.copy", "shop.copy2")
    lake.table("shop.copy2").delete_where("id = 400")
    names = ["shop.events", "shop.copy", "shop.copy2", "shop@exp.events"]
    before = history(lake, names)
    late = without_secret({"x": rows_of(table)})["x"]
    lake.table("shop.copy").erase(WHERE)
    assert holding(lake.store) == []
    if (tmp_path / "lake").exists():
        assert catalog_files(tmp_path / "lake") == []
    unchanged(lake, names, before)
    assert rows_of(lake.open_branch("unopened").table("shop.events")) == late
    assert not check(lake.own_catalog())


def test_keyed_rows_in_logs_memtables_and_key_indexes_are_erased(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("shop.users", ORDERS, primary_key=["user", "id"])
    table.append([order(n) for n in range(50)])
    table.put(secret(101))
    table.put(secret(102))
    table.flush()
    table.put(secret(102, note="again"))
    table.put(order(60))
    table.delete((NUMBER, 101))
    table.flush()
    table.put(secret(103))
    table.put(order(61))
    assert table.get((NUMBER, 103)) is not None
    flushed = {info.version for info in table.history()}
    before = {at: rows for at, rows in history(lake, ["shop.users"]).items() if at[1] in flushed}
    done = table.erase(WHERE)
    assert done.rows == 4
    assert holding(lake.store) == []
    if (tmp_path / "lake").exists():
        assert catalog_files(tmp_path / "lake") == []
    unchanged(lake, ["shop.users"], before)
    assert table.get((NUMBER, 102)) is None
    assert table.get((NUMBER, 103)) is None
    for number in (0, 1, 2, 49, 60, 61):
        assert table.get((number, number)) == order(number)
    table.put(order(62))
    table.put(secret(109))
    assert table.get((NUMBER, 109)) == secret(109)  # a new row of the same person is a new row
    table.close()
    assert not check(lake.own_catalog())


@in_a_folder
def test_every_key_next_to_an_erased_one_is_found(lake: Lake) -> None:
    table = lake.create_table("shop.keys", [("id", "string", False), ("x", "long")], primary_key=["id"])
    table.append([{"id": f"k{n:05}", "x": n} for n in range(9000)])
    gone = {*range(40), *range(4090, 4100), 4200, *range(8990, 9000)}
    table.erase(f"x in ({', '.join(map(str, sorted(gone)))})")
    keys = [f"k{n:05}" for n in range(9000)]
    found = table.get_many(keys)
    assert [row is None for row in found] == [n in gone for n in range(9000)]
    for number in (40, 4089, 4100, 4199, 4201, 8989):
        assert table.get(f"k{number:05}") == {"id": f"k{number:05}", "x": number}
    assert [row["x"] for row in table.scan(ordered=True, start="k04080", end="k04110").to_pylist()] == [
        n for n in range(4080, 4110) if n not in gone
    ]
    table.append([{"id": "k00041", "x": -1}, {"id": "k00005", "x": -2}])
    assert table.get("k00041") == {"id": "k00041", "x": -1}
    assert table.scan().count() == 9000 - len(gone) + 1


@in_a_folder
def test_index_files_inline_segments_and_projections_are_erased(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table(
        "shop.indexed",
        ORDERS,
        properties={"moulin.inline-bytes": "100000", "write.parquet.bloom-filter-enabled.column.email": "true"},
    )
    table.append([order(1), secret(2)])
    table.append([order(3), secret(4)])
    table.compact(everything=True)
    table.create_index("email")
    table.create_index("user", kind="bloom")
    table.append([order(5), secret(6)])
    project(lake.context, table.id)
    before = history(lake, ["shop.indexed"])
    table.erase(WHERE)
    assert holding(lake.store) == []
    if (tmp_path / "lake").exists():
        assert catalog_files(tmp_path / "lake") == []
    unchanged(lake, ["shop.indexed"], before)
    assert [row["id"] for row in table.scan(where="email = 'u1@x'").to_pylist()] == [1]
    assert table.scan(where=WHERE).count() == 0
    assert not check(lake.own_catalog())


@in_a_folder
def test_columns_of_older_versions_count_under_their_names(lake: Lake) -> None:
    table = lake.create_table("shop.old", ORDERS)
    table.append([order(1), secret(2)])
    table.rename_column("email", "mail")
    table.append([{**{k: v for k, v in order(3).items() if k != "email"}, "mail": SECRET}])
    table.drop_column("user")
    table.drop_column("note")
    done = table.erase(f"mail = '{SECRET}'")
    assert done.rows == 2
    assert len(done.report["unread_columns"]) == 1
    assert table.erase(f"user = {NUMBER}").rows == 0
    with pytest.raises(InvalidInput):
        table.erase("nothing = 1")


def test_an_erased_lake_recovers_and_time_travels(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        plant_events(lake)
        lake.clone_table("shop.events", "shop.copy", at="before")
        lake.table("shop.copy").delete_where("id = 103")
        before = history(lake, ["shop.events", "shop.copy"])
        lake.table("shop.events").erase(WHERE)
        after = history(lake, ["shop.events", "shop.copy"])
    from moulin.catalog.manifests.recover import recover
    from moulin.config import Config
    from moulin.storage.store import open_store

    recover(open_store(str(tmp_path / "lake")), f"sqlite:///{tmp_path / 'again.sqlite'}", Config())
    (tmp_path / "lake" / "catalog.sqlite").unlink()
    (tmp_path / "again.sqlite").rename(tmp_path / "lake" / "catalog.sqlite")
    with moulin.connect(tmp_path / "lake") as lake:
        assert history(lake, ["shop.events", "shop.copy"]) == after
        unchanged(lake, ["shop.events", "shop.copy"], before)
        assert not check(lake.own_catalog())


@pytest.mark.parametrize("open_lake", [SERVED], indirect=True)
def test_clients_of_a_server_read_what_is_left(lake: Lake, tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as direct:
        table = plant_events(direct)
        client = lake.table("shop.events")
        before = history(lake, ["shop.events"])
        table.erase(WHERE)
        unchanged(lake, ["shop.events"], before)
        client.append([order(700)])
        client.delete_where("id = 2")
        assert {700} <= rows_of(client).keys() == rows_of(table).keys()
        assert 2 not in rows_of(client)


def test_a_table_that_another_has_open_for_puts_is_refused(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as other, moulin.connect(tmp_path / "lake", lock_seconds=0.3) as lake:
        other.create_database("shop")
        open_for_puts = other.create_table("shop.users", ORDERS, primary_key=["id"])
        open_for_puts.put(secret(1))
        with pytest.raises(FailedPrecondition, match="open for puts"):
            lake.table("shop.users").erase(WHERE)
        assert open_for_puts.get(1) == secret(1)
        open_for_puts.close()
        assert lake.table("shop.users").erase(WHERE).rows == 1
        assert holding(lake.store) == []
        assert lake.table("shop.users").get(1) is None
