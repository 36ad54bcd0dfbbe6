"""Columns, indexes and tags of a branch come to main, beside what main got of its own since the branch began."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.catalog.upkeep.check import check
from moulin.errors import Conflict
from moulin.lake import Lake
from tests.table.conftest import BACKENDS, SERVED

everywhere = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)
here = pytest.mark.parametrize("open_lake", BACKENDS[:1], indirect=True)

ORDERS = [("id", "long", False), ("amount", "double")]


def orders(first: int, last: int, **more: Any) -> list[dict[str, Any]]:
    return [{"id": n, "amount": n / 2, **more} for n in range(first, last)]


def found(table: Any) -> dict[int, dict[str, Any]]:
    rows = table.scan().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row for row in rows}


@everywhere
@pytest.mark.parametrize("keyed", [False, True])
def test_columns_that_each_side_added_come_together_with_their_values(lake: Lake, keyed: bool) -> None:
    main = lake.create_table("shop.orders", ORDERS, primary_key=["id"] if keyed else [])
    main.append(orders(0, 10))
    branch = lake.branch("exp")
    mine = branch.table("shop.orders")
    mine.add_column("note", "string")
    mine.append(orders(10, 13, note="branch"))
    mine.update({"note": "'changed'"}, "id = 4")
    mine.compact(everything=True)
    mine.append(orders(13, 14, note="late"))
    main.add_column("remark", "long")
    main.append(orders(20, 23, remark=7))
    main.update({"remark": "id * 10"}, "id = 5")
    main.delete_where("id = 6")
    lake.publish("exp", dry_run=True)
    lake.publish("exp")
    rows = found(main)
    assert list(rows[0]) == ["id", "amount", "remark", "note"]
    assert rows.keys() == {*range(6), *range(7, 14), *range(20, 23)}
    wanted = {4: (None, "changed"), 5: (50, None), 10: (None, "branch"), 13: (None, "late"), 20: (7, None)}
    for key, values in wanted.items():
        assert (rows[key]["remark"], rows[key]["note"]) == values
    assert {row["id"] for row in main.scan(where="note = 'branch'").to_pylist()} == {10, 11, 12}
    assert {row["id"] for row in main.scan(where="remark > 6").to_pylist()} == {5, 20, 21, 22}
    main.add_column("after", "long")
    main.append(orders(30, 31, note="n", remark=1, after=2))
    main.compact(everything=True)
    assert found(main)[30] == {"id": 30, "amount": 15.0, "remark": 1, "note": "n", "after": 2}
    assert found(main)[4]["note"] == "changed"


def test_two_branches_that_both_add_a_column_are_published_in_either_order(tmp_path: Path) -> None:
    lake = moulin.connect(tmp_path / "lake")
    lake.create_database("shop")
    for number, order in enumerate([("a", "b"), ("b", "a")]):
        main = lake.create_table(f"shop.t{number}", ORDERS)
        main.append(orders(0, 3))
        for first, name in enumerate("ab"):
            mine = lake.branch(f"{name}{number}").table(f"shop.t{number}")
            mine.add_column(name, "string")
            mine.append(orders(10 + first, 11 + first, **{name: name}))
        for name in order:
            lake.publish(f"{name}{number}")
        rows = found(main)
        assert (rows[10]["a"], rows[10]["b"], rows[11]["a"], rows[11]["b"]) == ("a", None, None, "b")
        assert rows.keys() == {0, 1, 2, 10, 11}
        read = lake.duckdb().execute(f"select id, a, b from shop.t{number} order by id").fetchall()
        assert read == [(0, None, None), (1, None, None), (2, None, None), (10, "a", None), (11, None, "b")]
    lake.close()


@here
def test_a_table_goes_on_as_usual_after_many_branches_that_added_columns(lake: Lake) -> None:
    main = lake.create_table("shop.orders", ORDERS)
    main.append(orders(0, 3))
    for number in range(8):
        mine = lake.branch(f"b{number}").table("shop.orders")
        mine.add_column(f"c{number}", "long")
        mine.append(orders(10 + number, 11 + number, **{f"c{number}": number}))
        lake.publish(f"b{number}")
    main.add_column("last", "double", from_sql="amount + 1")
    copy = lake.clone_table("shop.orders", "shop.copy", copy=True)
    rows = found(main)
    assert rows == found(copy) == found(lake.clone_table("shop.orders", "shop.clone"))
    assert [rows[10 + number][f"c{number}"] for number in range(8)] == [*range(8)]
    assert {row["last"] for row in rows.values()} == {row["amount"] + 1 for row in rows.values()}
    assert not check(lake.own_catalog(), data=True)


@here
def test_a_column_of_the_same_name_on_both_sides_is_a_conflict_that_names_it(lake: Lake) -> None:
    main = lake.create_table("shop.orders", ORDERS)
    branch = lake.branch("exp")
    branch.table("shop.orders").add_column("note", "string")
    main.add_column("Note", "long")
    with pytest.raises(
        Conflict, match=r"the column note since .*\(Note long\) on main .*\(note string\) on the branch"
    ):
        lake.publish("exp")
    branch.table("shop.orders").rename_column("note", "remark")
    lake.publish("exp")
    assert main.schema.names == ["id", "amount", "Note", "remark"]


@here
def test_one_side_may_rename_and_drop_what_the_other_adds_to(lake: Lake) -> None:
    main = lake.create_table("shop.orders", [*ORDERS, ("gone", "string")])
    main.append(orders(0, 3, gone="x"))
    branch = lake.branch("exp")
    mine = branch.table("shop.orders")
    mine.rename_column("amount", "price")
    mine.drop_column("gone")
    mine.append([{"id": 5, "price": 2.5}])
    main.add_column("remark", "long")
    main.append(orders(8, 9, gone="y", remark=3))
    lake.publish("exp")
    assert found(main)[8] == {"id": 8, "price": 4.0, "remark": 3}
    assert found(main)[5] == {"id": 5, "price": 2.5, "remark": None}


@here
def test_a_column_that_main_filled_comes_beside_one_that_the_branch_added(lake: Lake) -> None:
    main = lake.create_table("shop.orders", ORDERS)
    main.append(orders(0, 3))
    mine = lake.branch("exp").table("shop.orders")
    mine.add_column("note", "string")
    mine.append(orders(5, 6, note="n"))
    main.add_column("twice", "double", from_sql="amount * 2")
    lake.publish("exp")
    rows = found(main)
    assert {key: (row["twice"], row["note"]) for key, row in rows.items()} == {
        0: (0.0, None),
        1: (1.0, None),
        2: (2.0, None),
        5: (None, "n"),
    }
    main.recompute_column("twice")
    assert found(main)[5]["twice"] == 5.0


@everywhere
@pytest.mark.parametrize("moved", [False, True])
def test_indexes_of_a_branch_come_along_and_cover_main(lake: Lake, moved: bool) -> None:
    main = lake.create_table("shop.orders", [*ORDERS, ("mail", "string")])
    main.append(orders(0, 50, mail="a@x"))
    main.create_index("amount", name="by_amount")
    branch = lake.branch("exp")
    mine = branch.table("shop.orders")
    mine.create_index("mail", name="by_mail")
    mine.create_index("amount", name="mine")  # main has one of this column
    (diff,) = branch.diff().tables
    assert diff.schema == ("create index by_mail", "create index mine")
    if moved:
        mine.append(orders(60, 61, mail="b@x"))
        main.append(orders(70, 71, mail="c@x"))
    lake.publish("exp")
    infos = {one.name: one for one in main.indexes()}
    assert infos.keys() == {"by_amount", "by_mail"}
    assert infos["by_mail"].covered == infos["by_mail"].segments > 0
    assert main.scan(where="mail = 'a@x'").count() == 50
    assert main.scan(where="mail = 'b@x'").count() == (1 if moved else 0)


@here
def test_an_index_name_that_main_has_for_another_column_is_a_conflict(lake: Lake) -> None:
    main = lake.create_table("shop.orders", ORDERS)
    main.create_index("id", name="mine")
    mine = lake.branch("exp").table("shop.orders")
    mine.create_index("amount", name="mine")
    with pytest.raises(Conflict, match=r"has an index 'mine' \(btree of id\), and branch exp has a different one"):
        lake.publish("exp")
    mine.drop_index("mine")
    lake.publish("exp")
    assert [one.name for one in main.indexes()] == ["mine"]


@everywhere
def test_tags_of_a_branch_come_along_where_main_has_their_rows(lake: Lake) -> None:
    main = lake.create_table("shop.orders", ORDERS)
    main.append(orders(0, 3))
    branch = lake.branch("exp")
    mine = branch.table("shop.orders")
    mine.tag("start")
    mine.append(orders(3, 5))
    mine.tag("between")
    mine.delete_where("id = 0")
    mine.tag("end")
    mine.compact(everything=True)
    done = lake.publish("exp")
    assert main.tags() == {"start": branch_version(lake, "exp"), "end": done.version}
    assert found(main.at(tag="start")).keys() == {0, 1, 2}
    assert found(main.at(tag="end")).keys() == {1, 2, 3, 4}


def branch_version(lake: Lake, name: str) -> int:
    (version,) = (one.version for one in lake.branches(include_dropped=True) if one.name == name)
    return version


@here
def test_tags_of_a_branch_whose_table_main_changed(lake: Lake) -> None:
    main = lake.create_table("shop.orders", ORDERS)
    main.append(orders(0, 3))
    mine = lake.branch("exp").table("shop.orders")
    mine.tag("start")
    mine.append(orders(3, 5))
    mine.tag("end")
    main.append(orders(8, 9))
    lake.publish("exp")
    assert main.tags() == {"start": branch_version(lake, "exp")}
    mine = lake.branch("more").table("shop.orders")
    mine.tag("start")
    mine.append(orders(10, 11))
    with pytest.raises(Conflict, match=r"has a tag 'start' of version"):
        lake.publish("more")


@here
def test_what_was_published_recovers(lake: Lake) -> None:
    main = lake.create_table("shop.orders", ORDERS)
    main.append(orders(0, 3))
    mine = lake.branch("exp").table("shop.orders")
    mine.add_column("note", "string")
    mine.create_index("note", name="by_note", kind="btree")
    mine.append(orders(3, 5, note="n"))
    main.add_column("remark", "long")
    main.append(orders(8, 9, remark=1))
    lake.publish("exp")
    assert not check(lake.own_catalog(), data=True)
    with type(lake).open_replica(lake.store.uri) as replica:
        there = replica.table("shop.orders")
        assert found(there) == found(main)
        assert [one.name for one in there.indexes()] == ["by_note"]
