"""Publishing branches: one version of main for all tables or none, checked against plain dictionaries."""

from __future__ import annotations

from typing import Any

import pytest

from moulin.errors import Conflict, FailedPrecondition, NotFound
from moulin.lake import Lake
from tests.table.conftest import BACKENDS, SERVED

everywhere = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)

ORDERS = [("id", "long", False), ("amount", "double")]


def orders(first: int, last: int) -> list[dict[str, Any]]:
    return [{"id": n, "amount": n / 2} for n in range(first, last)]


def found(table: Any) -> dict[int, float]:
    rows = table.scan(columns=["id", "amount", "_row_id"]).to_arrow().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    assert len({row["_row_id"] for row in rows}) == len(rows)
    return {row["id"]: row["amount"] for row in rows}


def ids(table: Any) -> dict[int, int]:
    return {row["id"]: row["_row_id"] for row in table.scan(columns=["id", "_row_id"]).to_arrow().to_pylist()}


@everywhere
def test_a_table_that_main_left_alone_becomes_what_the_branch_made_of_it(lake: Lake) -> None:
    main = lake.create_table("shop.orders", ORDERS)
    main.append(orders(0, 10))
    lake.create_table("shop.other", ORDERS).append(orders(0, 3))
    branch = lake.branch("exp")
    mine = branch.table("shop.orders")
    mine.append(orders(10, 12))
    mine.delete_where("id = 3")
    mine.update({"amount": 99.0}, "id = 4")
    mine.compact()
    mine.append(orders(12, 13))
    mine.delete_where("id = 12")
    wanted, numbers = found(mine), ids(mine)
    (diff,) = branch.diff().tables
    assert (diff.name, diff.kind, diff.inserted, diff.updated, diff.deleted) == ("shop.orders", "changed", 2, 1, 1)
    before = lake.version
    rehearsed = lake.publish("exp", dry_run=True)
    assert (lake.version, found(main).keys()) == (before, {*range(10)})
    done = lake.publish("exp")
    assert (done.version, lake.version) == (rehearsed.version, before + 1)
    assert (found(main), ids(main)) == (wanted, numbers)
    (table,) = done.tables
    assert (table.name, table.inserted, table.updated, table.deleted) == ("shop.orders", 2, 1, 1)
    feed = main.changes(before, done.version).to_arrow().to_pylist()
    assert sorted(row["id"] for row in feed if row["_change_type"] == "insert") == [10, 11]
    assert len(main.at(before).scan().to_arrow()) == 10
    with pytest.raises(NotFound):
        lake.open_branch("exp")
    with pytest.raises(FailedPrecondition, match="was published as version"):
        lake.resurrect_branch("exp")
        lake.publish("exp")
    main.append(orders(20, 21))
    main.compact()
    assert found(main) == {**wanted, 20: 10.0}


@everywhere
def test_rows_that_different_sides_changed_come_together(lake: Lake) -> None:
    main = lake.create_table("shop.orders", ORDERS)
    main.append(orders(0, 10))
    main.append(orders(10, 20))
    branch = lake.branch("exp")
    mine = branch.table("shop.orders")
    mine.append(orders(100, 110))
    mine.update({"amount": -1.0}, "id in (1, 100)")
    mine.delete_where("id in (2, 11, 101)")
    mine.append(orders(110, 112))
    main.delete_where("id in (3, 12)")
    main.update({"amount": -2.0}, "id = 4")
    main.append(orders(200, 203))
    main.compact()
    before = ids(main)
    done = lake.publish("exp")
    wanted = {n: n / 2 for n in (*range(20), *range(100, 112), *range(200, 203)) if n not in (2, 11, 101, 3, 12)}
    wanted |= {1: -1.0, 100: -1.0, 4: -2.0}
    assert found(main) == wanted
    after = ids(main)
    assert {key: number for key, number in after.items() if key in before} == {
        key: number for key, number in before.items() if key in after
    }
    (table,) = done.tables
    assert (table.inserted, table.updated, table.deleted) == (11, 1, 2)
    main.compact()
    assert (found(main), ids(main)) == (wanted, after)


@everywhere
@pytest.mark.parametrize(
    ("branch_does", "main_does"), [("update", "update"), ("update", "delete"), ("delete", "update")]
)
def test_a_row_that_both_sides_changed_is_a_conflict_that_names_it(
    lake: Lake, branch_does: str, main_does: str
) -> None:
    main = lake.create_table("shop.orders", ORDERS)
    main.append(orders(0, 10))
    mine = lake.branch("exp").table("shop.orders")
    for table, does, value in ((mine, branch_does, 1.5), (main, main_does, 2.5)):
        if does == "update":
            table.update({"amount": value}, "id = 4")
        else:
            table.delete_where("id = 4")
    mine.append(orders(10, 11))
    before, shown = lake.version, found(main)
    for dry_run in (True, False):
        with pytest.raises(Conflict, match=r"shop\.orders: row 4 was .* of branch exp and .* of main") as raised:
            lake.publish("exp", dry_run=dry_run)
        assert raised.value.requirement == "row 4 of shop.orders"
    assert (lake.version, found(main)) == (before, shown)


@everywhere
def test_a_row_that_both_sides_deleted_is_gone(lake: Lake) -> None:
    main = lake.create_table("shop.orders", ORDERS)
    main.append(orders(0, 10))
    mine = lake.branch("exp").table("shop.orders")
    mine.delete_where("id < 5")
    main.delete_where("id in (4, 5)")
    main.compact()
    lake.publish("exp")
    assert found(main).keys() == {6, 7, 8, 9}


@everywhere
def test_keys_that_different_sides_wrote_come_together(lake: Lake) -> None:
    main = lake.create_table("shop.users", ORDERS, primary_key=["id"])
    main.put_batch(orders(0, 20))
    lake.flush()
    mine = lake.branch("exp").table("shop.users")
    mine.put({"id": 1, "amount": -1.0})
    mine.put({"id": 100, "amount": 1.0})
    mine.flush()
    mine.put({"id": 100, "amount": 2.0})
    mine.delete(2)
    main.put({"id": 3, "amount": -3.0})
    main.delete(4)
    main.put({"id": 200, "amount": 5.0})
    lake.publish("exp")
    wanted = {n: n / 2 for n in range(20) if n not in (2, 4)} | {1: -1.0, 3: -3.0, 100: 2.0, 200: 5.0}
    assert found(main) == wanted
    assert {key: main.get(key)["amount"] for key in wanted} == wanted
    assert main.get(2) is None
    main.put({"id": 100, "amount": 9.0})
    main.compact(everything=True)
    assert found(main) == {**wanted, 100: 9.0}


@everywhere
def test_a_keyed_table_that_main_left_alone_is_taken_as_it_is(lake: Lake) -> None:
    main = lake.create_table("shop.users", ORDERS, primary_key=["id"], properties={"moulin.regions": "bucket(4, id)"})
    main.put_batch(orders(0, 20))
    lake.flush()
    mine = lake.branch("exp").table("shop.users")
    mine.put_batch(orders(15, 40))
    mine.delete(0)
    mine.flush()
    mine.compact()
    numbers = ids(mine)
    lake.publish("exp")
    assert found(main) == {n: n / 2 for n in range(1, 40)}
    assert ids(main) == numbers
    main.put({"id": 39, "amount": 0.0})
    main.flush()
    assert found(main)[39] == 0.0


@everywhere
@pytest.mark.parametrize("case", ["both put a new key", "both put an old key", "put again after a delete"])
def test_a_key_that_both_sides_wrote_is_a_conflict_that_names_it(lake: Lake, case: str) -> None:
    main = lake.create_table("shop.users", ORDERS, primary_key=["id"])
    main.put_batch(orders(0, 5))
    lake.flush()
    mine = lake.branch("exp").table("shop.users")
    key = 77 if case == "both put a new key" else 3
    if case == "put again after a delete":
        mine.delete(key)
        main.delete(key)
        main.flush()
    else:
        mine.put({"id": key, "amount": 1.0})
    main.put({"id": key, "amount": 2.0})
    main.put({"id": 4, "amount": 4.5})
    with pytest.raises(Conflict, match=rf"shop\.users: key {key} was "):
        lake.publish("exp")
    assert found(main)[key] == 2.0
