"""What a publish brings besides rows: columns, properties, names, tables, databases and views; and trials."""

from __future__ import annotations

from typing import Any

import pytest

from moulin.errors import AlreadyExists, Conflict, FailedPrecondition, InvalidInput, NotFound
from moulin.lake import Lake
from tests.table.conftest import BACKENDS, SERVED

everywhere = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)
here = pytest.mark.parametrize("open_lake", BACKENDS[:1], indirect=True)

ORDERS = [("id", "long", False), ("amount", "double")]


def orders(first: int, last: int) -> list[dict[str, Any]]:
    return [{"id": n, "amount": n / 2} for n in range(first, last)]


def names(lake: Lake) -> dict[str, list[str]]:
    return {one.name: [table.name for table in lake.tables(one.name)] for one in lake.databases()}


@everywhere
def test_tables_databases_names_and_views_come_along(lake: Lake) -> None:
    for name in ("a", "b", "gone", "left"):
        lake.create_table(f"shop.{name}", ORDERS).append(orders(0, 2))
    lake.create_view("shop.both", ["a", "b"])
    lake.create_view("shop.old", ["left"])
    lake.create_database("empty")
    branch = lake.branch("exp")
    branch.rename_table("shop.a", "shop.x")  # two tables change their names with each other
    branch.rename_table("shop.b", "shop.a")
    branch.rename_table("shop.x", "shop.b")
    branch.table("shop.b").append(orders(5, 6))
    branch.drop_table("shop.gone")
    branch.create_database("fresh", properties={"owner": "ann"})
    branch.create_table("fresh.new", ORDERS).append(orders(0, 7))
    branch.drop_view("shop.old")
    branch.create_view("shop.young", ["a", "left"])
    branch.set_view_tables("shop.both", ["a", "b", "left"])
    branch.drop_database("empty")
    kinds = {table.name: (table.kind, table.before, table.inserted) for table in branch.diff()}
    assert kinds == {
        "shop.a": ("renamed", "shop.b", 0),
        "shop.b": ("renamed", "shop.a", 1),
        "shop.gone": ("dropped", None, 0),
        "fresh.new": ("created", None, 7),
    }
    before = lake.version
    assert {t.name: t.kind for t in lake.publish("exp", dry_run=True).tables} == {n: k[0] for n, k in kinds.items()}
    done = lake.publish("exp")
    assert {table.name: (table.kind, table.before, table.inserted) for table in done.tables} == kinds
    assert done.version == lake.version == before + 1
    assert names(lake) == {"fresh": ["new"], "shop": ["a", "b", "left"]}
    assert lake.table("shop.b").scan().count() == 3
    assert lake.table("fresh.new").scan().count() == 7
    assert [member.name for member in lake.view("shop.both").members] == ["a", "b", "left"]
    assert [member.name for member in lake.view("shop.young").members] == ["a", "left"]
    assert [view.name for view in lake.views("shop")] == ["both", "young"]
    assert next(one for one in lake.databases() if one.name == "fresh").properties == {"owner": "ann"}
    assert lake.resurrect_table("shop.gone").scan().count() == 2
    assert [branch.published_version for branch in lake.branches(include_dropped=True)] == [done.version]


@everywhere
@pytest.mark.parametrize("moved", [False, True])
def test_columns_and_properties_come_along(lake: Lake, moved: bool) -> None:
    main = lake.create_table("shop.orders", ORDERS, properties={"moulin.history-keep-seconds": "60"})
    main.append(orders(0, 3))
    branch = lake.branch("exp")
    mine = branch.table("shop.orders")
    mine.add_column("note", "string")
    mine.append([{"id": 3, "amount": 1.0, "note": "x"}])
    mine.rename_column("amount", "price")
    mine.set_properties({"owner": "ann"})
    mine.tag("mine")
    (diff,) = branch.diff().tables
    assert diff.schema == ("add column note string", "rename column amount to price")
    assert diff.properties == {"owner": (None, "ann")}
    if moved:
        main.append(orders(10, 11))
        main.set_properties({"team": "b"})
    done = lake.publish("exp")
    rows = sorted(main.scan().to_arrow().to_pylist(), key=lambda row: row["id"])
    assert rows[3] == {"id": 3, "price": 1.0, "note": "x"}
    assert rows[0] == {"id": 0, "price": 0.0, "note": None}
    assert len(rows) == 4 + moved
    assert main.properties["owner"] == "ann"
    assert main.properties.get("team") == ("b" if moved else None)
    assert main.tags() == ({} if moved else {"mine": done.version})  # where main changed, no version has these rows
    main.add_column("more", "long")
    main.append([{"id": 20, "price": 1.0, "note": "y", "more": 1}])
    assert main.scan(where="more = 1").count() == 1


@here
def test_settings_and_names_that_both_sides_changed_are_conflicts(lake: Lake) -> None:
    def begin(number: int) -> tuple[Any, Any, Lake]:
        table = lake.create_table(f"shop.t{number}", ORDERS)
        branch = lake.branch(f"b{number}")
        return table, branch.table(f"shop.t{number}"), branch

    def refused(number: int, text: str) -> None:
        before = lake.version
        for dry_run in (True, False):
            with pytest.raises(Conflict, match=text):
                lake.publish(f"b{number}", dry_run=dry_run)
        assert lake.version == before
        lake.drop_branch(f"b{number}")

    main, mine, _ = begin(0)
    mine.add_column("note", "string")
    main.rename_column("amount", "price")
    mine.drop_column("amount")
    refused(0, r"the schema since version .* \(id long, price double\) on main .* \(id long, note string\)")
    main, mine, _ = begin(1)
    mine.set_properties({"owner": "ann"})
    main.set_properties({"owner": "bob"})
    refused(1, "property 'owner'.*bob.*ann")
    main, mine, branch = begin(2)
    branch.rename_table("shop.t2", "shop.mine")
    lake.rename_table("shop.t2", "shop.other")
    refused(2, r"is now shop\.mine on branch b2 and is now shop\.other")
    main, mine, branch = begin(3)
    branch.drop_table("shop.t3")
    main.append(orders(0, 1))
    refused(3, "was dropped on branch b3 and was changed by version")
    main, mine, _ = begin(4)
    mine.append(orders(0, 1))
    lake.drop_table("shop.t4")
    refused(4, "was changed on branch b4 and was dropped on main")
    main, mine, branch = begin(5)
    branch.create_table("shop.twice", ORDERS)
    lake.create_table("shop.twice", ORDERS)
    refused(5, "The name 'twice' was given to a table on branch b5 and to another table")
    main, mine, _ = begin(6)
    mine.overwrite(orders(0, 1))
    main.append(orders(0, 1))
    refused(6, "changed all rows by the overwrite of version")
    main, mine, _ = begin(7)
    mine.append(orders(0, 1))
    main.cast_column("amount", "string")
    refused(7, "column amount was cast, computed again or made required on main")


@here
def test_two_branches_meet_on_main(lake: Lake) -> None:
    main = lake.create_table("shop.orders", ORDERS)
    main.append(orders(0, 10))
    one, two = lake.branch("one").table("shop.orders"), lake.branch("two").table("shop.orders")
    one.update({"amount": -1.0}, "id < 3")
    two.update({"amount": -2.0}, "id = 5")
    one.append(orders(10, 12))
    two.append(orders(20, 22))
    two.compact()
    lake.publish("two")
    lake.publish("one")
    wanted = {n: n / 2 for n in (*range(10), 10, 11, 20, 21)} | {0: -1.0, 1: -1.0, 2: -1.0, 5: -2.0}
    rows = main.scan(columns=["id", "amount", "_row_id"]).to_arrow().to_pylist()
    assert {row["id"]: row["amount"] for row in rows} == wanted
    assert len({row["_row_id"] for row in rows}) == len(rows)


@here
def test_main_has_nothing_to_compare_with_and_a_branch_is_published_from_main(lake: Lake) -> None:
    branch = lake.branch("exp")
    with pytest.raises(FailedPrecondition, match="open_branch"):
        lake.diff()
    with pytest.raises(FailedPrecondition, match="from the main lake"):
        branch.publish("exp")
    with pytest.raises(NotFound):
        lake.publish("none")
    assert list(branch.diff()) == []
    assert lake.publish("exp").tables == ()


@everywhere
def test_one_table_is_branched_and_published(lake: Lake) -> None:
    main = lake.create_table("shop.orders", ORDERS)
    main.append(orders(0, 3))
    lake.create_table("shop.other", ORDERS)
    mine = main.branch("exp", expires="1h")
    mine.delete_where("id = 1")
    assert [entry.name for entry in lake.open_branch("exp").tables("shop")] == ["orders"]
    lake.publish("exp")
    assert sorted(main.scan().to_arrow()["id"].to_pylist()) == [0, 2]
    assert [entry.name for entry in lake.tables("shop")] == ["orders", "other"]


@here
def test_a_trial_is_published_when_all_that_is_expected_of_it_holds(lake: Lake) -> None:
    main = lake.create_table("shop.orders", ORDERS)
    trial = lake.trial("load")
    with trial as branch:
        branch.table("shop.orders").append(orders(0, 3))
        branch.expect(lambda lake: lake.table("shop.orders").scan().count() == 3)
        branch.expect(True)
    assert main.scan().count() == 3
    assert trial.publication is not None
    assert trial.publication.version == lake.version
    assert lake.branches() == []


@here
def test_a_trial_that_disappoints_is_dropped_and_says_why(lake: Lake) -> None:
    main = lake.create_table("shop.orders", ORDERS)

    def has_rows(branch: Lake) -> bool:
        return branch.table("shop.orders").scan().count() > 0

    with (
        pytest.raises(FailedPrecondition, match=r"failed: has_rows; five\. Its branch was dropped"),
        lake.trial("load") as branch,
    ):
        branch.expect(has_rows)
        branch.expect(1 == 1, "one")
        branch.expect(2 + 2 == 5, "five")
    with pytest.raises(KeyError), lake.trial("load") as branch:
        branch.table("shop.orders").append(orders(0, 3))
        raise KeyError("no")
    with pytest.raises(InvalidInput, match="expect takes"), lake.trial("load") as branch:
        branch.expect(7)
    with pytest.raises(Conflict), lake.trial("load") as branch:
        branch.create_table("shop.new", ORDERS)
        lake.create_table("shop.new", ORDERS)
    assert main.scan().count() == 0
    assert lake.branches() == []
    with pytest.raises(FailedPrecondition, match="Only a trial"):
        lake.expect("select true")
    lake.branch("load")
    with pytest.raises(AlreadyExists), lake.trial("load"):
        pass
    assert [branch.name for branch in lake.branches()] == ["load"]
