"""Publishing branches: one version of main for all tables or none, checked against plain dictionaries."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.catalog.manifests.recover import recover
from moulin.catalog.upkeep.check import check
from moulin.config import Config
from moulin.errors import Conflict, FailedPrecondition, NotFound
from moulin.lake import Lake
from moulin.storage.store import open_store
from tests.table.conftest import BACKENDS, SERVED

everywhere = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)
here = pytest.mark.parametrize("open_lake", BACKENDS[:1], indirect=True)

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
    versions = main.scan(columns=["id", "_last_updated_version"]).to_arrow().to_pylist()
    new = {row["id"] for row in versions if row["_last_updated_version"] == done.version}
    assert new == {4, 10, 11}
    assert all(row["_last_updated_version"] <= before for row in versions if row["id"] not in new)
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


@here
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


@here
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


@here
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


@here
def test_regions_that_only_the_branch_has_come_along(lake: Lake) -> None:
    main = lake.create_table("shop.users", ORDERS, primary_key=["id"], properties={"moulin.regions": "bucket(8, id)"})
    gone = lake.create_table("shop.gone", ORDERS, primary_key=["id"])
    main.put({"id": 3, "amount": 1.5})
    gone.put({"id": 3, "amount": 1.5})
    lake.flush()
    branch = lake.branch("exp")
    mine = branch.table("shop.users")
    for row in reversed(orders(0, 40)):
        mine.put(row)
    mine.flush()
    branch.table("shop.gone").put({"id": 4, "amount": 1.5})
    branch.drop_table("shop.gone")
    numbers = ids(mine)
    lake.publish("exp")
    assert (found(main), ids(main)) == ({n: n / 2 for n in range(40)}, numbers)
    main.put_batch([{"id": n, "amount": 0.0} for n in range(45)])
    main.flush()
    assert found(main) == dict.fromkeys(range(45), 0.0)
    assert ids(main).items() >= numbers.items()


@here
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


@here
@pytest.mark.parametrize("moved", [False, True])
def test_a_branch_of_a_clone_is_published_to_the_clone(lake: Lake, moved: bool) -> None:
    columns = [*ORDERS, ("part", "string")]
    source = lake.create_table("shop.source", columns, partition_by=["part"])
    source.append([{**row, "part": "ab"[row["id"] % 2]} for row in orders(0, 10)])
    clone = lake.clone_table("shop.source", "shop.clone")
    clone.delete_where("id = 0")
    clone.append([{**row, "part": "c"} for row in orders(10, 12)])
    mine = lake.branch("exp").table("shop.clone")
    mine.delete_where("id in (1, 10)")
    mine.append([{**row, "part": "d"} for row in orders(20, 22)])
    assert mine.scan(where="part in ('c', 'd')").count() == 3
    if moved:
        clone.delete_where("id = 2")
        clone.append([{**row, "part": "c"} for row in orders(30, 31)])
    lake.publish("exp")
    wanted = {*range(3, 10), 11, 20, 21} | ({30} if moved else {2})
    assert found(clone).keys() == wanted
    assert clone.scan(where="part in ('c', 'd')").count() == 3 + moved
    assert clone.scan(where="part = 'b'").count() == 4
    assert found(source).keys() == {*range(10)}
    clone.compact(everything=True)
    assert found(clone).keys() == wanted


@here
def test_work_on_a_branch_changes_no_counter_of_main(lake: Lake) -> None:
    main = lake.create_table("shop.orders", ORDERS)
    main.append(orders(0, 10))
    before = lake.catalog.table_by_id(main.id)
    branch = lake.branch("exp")
    mine = branch.table("shop.orders")
    mine.append(orders(10, 20))
    mine.delete_where("id < 5")
    mine.compact()
    mine.add_column("note", "string")
    branch.diff()
    after = lake.catalog.table_by_id(main.id)
    assert (after.head_version, after.next_row_id, after.last_sequence) == (
        before.head_version,
        before.next_row_id,
        before.last_sequence,
    )
    assert (after.schemas, after.properties) == (before.schemas, before.properties)
    assert lake.table("shop.orders").history() == main.history()
    assert [info.version for info in main.history()] == [info.version for info in main.history() if info.version <= 3]


@here
def test_a_publish_beside_a_writer_of_main_loses_nothing(lake: Lake) -> None:
    import threading

    main = lake.create_table("shop.users", ORDERS, primary_key=["id"])
    main.put_batch(orders(0, 50))
    lake.flush()
    mine = lake.branch("exp").table("shop.users")
    mine.put_batch([{"id": n, "amount": -1.0} for n in range(100, 150)])
    stop, put = threading.Event(), dict[int, float]()

    def write() -> None:
        number = 1000
        while not stop.is_set():
            main.put({"id": number, "amount": 1.0})
            put[number] = 1.0
            number += 1
            if number % 50 == 0:
                main.flush()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        lake.publish("exp")
    finally:
        stop.set()
        writer.join()
    wanted = {n: n / 2 for n in range(50)} | dict.fromkeys(range(100, 150), -1.0) | put
    assert {row["id"]: row["amount"] for row in main.scan().to_arrow().to_pylist()} == wanted


@everywhere
def test_columns_that_a_branch_filled_are_published_with_their_values(lake: Lake) -> None:
    main = lake.create_table("shop.orders", ORDERS)
    main.append(orders(0, 10))
    main.append(orders(10, 20))
    branch = lake.branch("exp")
    mine = branch.table("shop.orders")
    mine.delete_where("id = 3")
    mine.add_column("double_amount", "double", from_sql="amount * 2")
    mine.append([{"id": 20, "amount": 10.0, "double_amount": -1.0}])
    numbers = ids(mine)
    lake.publish("exp")
    rows = main.scan().to_arrow().to_pylist()
    wanted = {n: float(n) for n in range(20) if n != 3} | {20: -1.0}
    assert {row["id"]: row["double_amount"] for row in rows} == wanted
    assert ids(main) == numbers
    assert main.at(lake.version - 1).scan().to_arrow().column_names == ["id", "amount"]


@everywhere
def test_a_column_that_a_branch_filled_conflicts_with_rows_that_came_on_main(lake: Lake) -> None:
    main = lake.create_table("shop.orders", ORDERS)
    main.append(orders(0, 10))
    branch = lake.branch("exp")
    branch.table("shop.orders").add_column("double_amount", "double", from_sql="amount * 2")
    main.append(orders(10, 12))
    before = lake.version
    with pytest.raises(Conflict, match=r"shop.orders: branch exp changed all rows by the fill"):
        lake.publish("exp")
    assert lake.version in (before, before + 1)  # the branch may have been folded
    assert found(main).keys() == {*range(12)}


@here
def test_a_clone_changes_rows_that_a_publish_brought_and_a_recovery_and_replicas_know(
    lake: Lake, tmp_path: Path
) -> None:
    main = lake.create_table("shop.orders", ORDERS)
    main.append(orders(0, 10))
    first = lake.branch("first").table("shop.orders")
    first.append(orders(10, 20))
    first.add_column("twice", "double", from_sql="amount * 2")
    lake.publish("first")
    clone, second = lake.clone_table("shop.orders", "shop.copy"), lake.branch("second").table("shop.orders")
    clone.delete_where("id = 5 or id = 15")
    second.update({"amount": 0.0}, "id = 6 or id = 16")
    names = ["shop.orders", "shop.copy", "shop@second.orders"]
    wanted = {name: found(lake.table(name)) for name in names}
    lake.own_catalog().publisher.publish()
    with Lake.open_replica(lake.store.uri) as replica:
        assert {name: found(replica.table(name)) for name in names} == wanted
    shutil.copytree(tmp_path / "lake", tmp_path / "again")
    for file in (tmp_path / "again").glob("catalog.sqlite*"):
        file.unlink()
    recover(open_store(tmp_path / "again"), f"sqlite:///{tmp_path / 'again' / 'catalog.sqlite'}", Config())
    with moulin.connect(tmp_path / "again") as again:
        assert {name: found(again.table(name)) for name in names} == wanted
        assert not check(again.own_catalog())
        again.publish("second")
        assert found(again.table("shop.orders")) == wanted["shop@second.orders"]
