"""Erase of keyed tables whose keys are divided: values of regions go, and puts go on, on main and on branches."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.catalog.manifests.recover import recover
from moulin.catalog.upkeep.check import check
from moulin.config import Config
from moulin.lake import Lake
from moulin.meta.config import ServeConfig
from moulin.meta.server.server import build_server
from moulin.storage.store import open_store
from tests.table.conftest import BACKENDS
from tests.table.erase.planting import NUMBER, ORDERS, SECRET, WHERE, catalog_files, holding, order, rows_of, secret

KEY = ["email", "user", "id"]

in_a_folder = pytest.mark.parametrize("open_lake", BACKENDS[:1], indirect=True)


def divided(lake: Lake, **options: Any) -> Any:
    columns = [(name, kind, name not in KEY) for name, kind, *_ in ORDERS]
    return lake.create_table("shop.users", columns, primary_key=KEY, **options)


def plant(table: Any) -> None:
    """The value in a region, and in one of an earlier division, of which rows were moved to others."""
    for n in range(3):
        table.put(order(n))
    table.put(secret(100))
    table.flush()
    table.set_regions(["user", "email"])
    table.put(secret(101))
    table.put(order(3))
    table.flush()
    table.put(secret(102))
    table.delete((SECRET, NUMBER, 102))
    table.put(order(4))


def test_values_of_regions_are_erased_and_keys_of_the_same_value_get_new_ones(lake: Lake, tmp_path: Path) -> None:
    table = divided(lake, properties={"moulin.regions": "email"})
    plant(table)
    lake.clone_table("shop.users", "shop.copy")
    branch = lake.branch("exp").table("shop.users")
    branch.put(secret(400))
    assert table.erase(WHERE).complete
    assert holding(lake.store) == []
    if (tmp_path / "lake").exists():
        assert catalog_files(tmp_path / "lake") == []
    for one in (table, lake.table("shop.copy")):
        assert rows_of(one).keys() == {0, 1, 2, 3, 4}
    table.put(secret(101))
    table.put(order(3, note="again"))
    branch.put(secret(400))
    table.flush()
    assert rows_of(table)[3]["note"] == "again"
    assert rows_of(table).keys() == {0, 1, 2, 3, 4, 101}
    assert rows_of(branch).keys() == {0, 1, 2, 3, 4, 400}
    lake.publish("exp")
    assert rows_of(table).keys() == {0, 1, 2, 3, 4, 101, 400}
    assert not check(lake.own_catalog())


@in_a_folder
def test_a_table_of_a_branch_that_this_process_has_open_for_puts_is_erased_too(lake: Lake, tmp_path: Path) -> None:
    table = lake.create_table("shop.users", ORDERS, primary_key=["id"])
    table.put(order(1))
    branch = lake.branch("exp")
    branch.table("shop.users").put(secret(2))
    lake.clone_table("shop.users", "shop.copy")
    assert table.erase(WHERE).rows == 1
    assert holding(lake.store) == []
    assert catalog_files(tmp_path / "lake") == []
    branch.table("shop.users").put(order(3))
    table.put(order(4))
    branch.table("shop.users").put(secret(5))
    assert branch.table("shop.users").erase(WHERE).rows == 1
    assert branch.table("shop.users").get(3) == order(3)
    assert rows_of(branch.table("shop.users")).keys() == {1, 3}
    assert rows_of(table).keys() == {1, 4}


@in_a_folder
def test_puts_after_an_erase_know_columns_that_came_since(lake: Lake) -> None:
    table = lake.create_table("shop.users", ORDERS, primary_key=["id"])
    table.put(secret(1))
    table.put(order(2))
    table.erase(WHERE)
    table.add_column("more", "long", from_sql="id * 2")
    table.put({**order(3), "more": 7})
    assert rows_of(table) == {2: {**order(2), "more": 4}, 3: {**order(3), "more": 7}}


def test_a_client_that_puts_on_a_branch_has_a_server_erase(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake") as served:
        served.create_database("shop")
        server = build_server(served, ServeConfig(bind="127.0.0.1:0", http_bind="")).start()
        with moulin.connect(f"grpc://{server.address}") as client:
            table = client.create_table("shop.users", ORDERS, primary_key=["id"])
            branch = client.branch("exp").table("shop.users")
            branch.put(secret(1))
            branch.put(order(2))
            assert table.erase(WHERE).rows == 1
            branch.put(order(3))
            assert rows_of(branch).keys() == {2, 3}
        server.stop(1)
        assert holding(served.store) == []


@in_a_folder
def test_a_recovery_after_the_erase_knows_the_regions_that_are_left(lake: Lake, tmp_path: Path) -> None:
    table = divided(lake, properties={"moulin.regions": "email"})
    plant(table)
    table.erase(WHERE)
    table.put(secret(200))
    table.put(order(4, note="later"))
    lake.close()
    recover(open_store(str(tmp_path / "lake")), f"sqlite:///{tmp_path / 'again.sqlite'}", Config())
    (tmp_path / "lake" / "catalog.sqlite").unlink()
    (tmp_path / "again.sqlite").rename(tmp_path / "lake" / "catalog.sqlite")
    with moulin.connect(tmp_path / "lake") as again:
        found = again.table("shop.users")
        found.put(secret(200, note="once"))
        found.put(order(3, note="again"))
        found.flush()
        rows = rows_of(found)
        assert rows.keys() == {0, 1, 2, 3, 4, 200}
        assert (rows[3]["note"], rows[4]["note"], rows[200]["note"]) == ("again", "later", "once")
        assert not check(again.own_catalog())


@in_a_folder
def test_puts_of_other_threads_wait_and_are_there(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    from moulin.table.erase import erase as module

    table = divided(lake, properties={"moulin.regions": "email"})
    plant(table)
    began, run = threading.Event(), module.find

    def slowly(*given: Any) -> Any:
        began.set()
        return run(*given)

    monkeypatch.setattr(module, "find", slowly)

    def put() -> None:
        began.wait(10)
        for n in range(500, 520):
            table.put(secret(n))
            table.put(order(n))

    other = threading.Thread(target=put)
    other.start()
    table.erase(WHERE)
    other.join(20)
    table.flush()
    rows: list[dict[str, Any]] = table.scan().to_pylist()
    assert sorted(row["id"] for row in rows) == sorted([0, 1, 2, 3, 4, *range(500, 520), *range(500, 520)])
    assert not check(lake.own_catalog())
