"""Branches of a lake, as users have them: whole lakes that copy nothing and that main does not see."""

from __future__ import annotations

import random
from datetime import timedelta
from typing import Any

import pytest

from moulin.errors import Closed, InvalidInput, NotFound
from moulin.lake import Lake
from moulin.table.branching import seconds_of
from tests.table.conftest import BACKENDS, SERVED

everywhere = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)

ORDERS = [("id", "long", False), ("amount", "double")]


def orders(first: int, last: int) -> list[dict[str, Any]]:
    return [{"id": n, "amount": n / 2} for n in range(first, last)]


def found(table: Any) -> dict[int, float]:
    rows = table.scan().to_arrow().to_pylist()
    assert len({row["id"] for row in rows}) == len(rows)
    return {row["id"]: row["amount"] for row in rows}


@everywhere
def test_a_branch_is_a_lake_of_its_own(lake: Lake) -> None:
    lake.create_table("shop.orders", ORDERS).append(orders(0, 10))
    keyed = lake.create_table("shop.users", ORDERS, primary_key=["id"])
    keyed.put({"id": 1, "amount": 1.0})
    branch = lake.branch("exp", expires="7d")
    assert branch.table("shop.users").get(1) == {"id": 1, "amount": 1.0}
    branch.table("shop.orders").append(orders(10, 12))
    branch.table("shop.orders").delete_where("id = 3")
    branch.table("shop.users").put({"id": 1, "amount": 99.0})
    branch.table("shop.orders").add_column("note", "string")
    branch.create_table("shop.new", ORDERS).append(orders(0, 1))
    assert found(branch.table("shop.orders")).keys() == {*range(12)} - {3}
    assert found(lake.table("shop.orders")).keys() == {*range(10)}
    assert branch.table("shop.users").get(1) == {"id": 1, "amount": 99.0}
    assert keyed.get(1) == {"id": 1, "amount": 1.0}
    assert "note" not in lake.table("shop.orders").scan().to_arrow().column_names
    assert [entry.name for entry in lake.tables("shop")] == ["orders", "users"]
    assert found(lake.table("shop@exp.orders")) == found(branch.table("shop.orders"))
    assert lake.open_branch("exp") is branch
    branch.table("shop.orders").compact()
    assert found(branch.table("shop.orders")).keys() == {*range(12)} - {3}
    lake.drop_branch("exp")
    with pytest.raises(Closed):
        branch.tables("shop")
    with pytest.raises(NotFound):
        lake.open_branch("exp")
    assert found(lake.resurrect_branch("exp").table("shop.users")) == {1: 99.0}


@everywhere
def test_a_list_of_tables_counts_what_an_unopened_table_has_on_the_branch(lake: Lake) -> None:
    table = lake.create_table("shop.orders", ORDERS)
    table.append(orders(0, 10))
    table.delete_where("id < 3")
    branch = lake.branch("exp")
    before = table.version
    table.append(orders(10, 60))
    (entry,) = branch.tables("shop")
    assert (entry.rows, entry.segments) == (7, 1)
    assert entry.head_version <= before + 1
    assert branch.table("shop.orders").scan().count() == 7
    (opened,) = branch.tables("shop")
    assert (opened.rows, opened.segments, opened.bytes) == (entry.rows, entry.segments, entry.bytes)


@everywhere
def test_lines_of_puts_and_deletes_are_those_of_dictionaries(lake: Lake) -> None:
    table = lake.create_table("shop.kv", ORDERS, primary_key=["id"])
    lines: dict[str, tuple[Any, dict[int, float]]] = {"main": (table, {})}
    chance = random.Random(7)
    for step in range(120):
        name = chance.choice(list(lines))
        rows, model = lines[name]
        key = chance.randrange(12)
        match chance.randrange(8):
            case 0 if len(lines) < 4:
                fresh = f"b{len(lines)}"
                lines[fresh] = (lake.branch(fresh).table("shop.kv"), dict(lines["main"][1]))
            case 1 | 2:
                rows.delete(key)
                model.pop(key, None)
            case 3:
                rows.flush()
            case 4:
                rows.compact()
            case _:
                rows.put({"id": key, "amount": float(step)})
                model[key] = float(step)
    for rows, model in lines.values():
        assert found(rows) == model


@everywhere
def test_main_drops_and_purges_a_table_and_the_branch_still_reads(lake: Lake) -> None:
    lake.create_table("shop.orders", ORDERS).append(orders(0, 10))
    lake.create_table("shop.other", ORDERS).append(orders(0, 5))
    branch = lake.branch("exp")
    branch.table("shop.orders").delete_where("id < 2")
    for name in ("orders", "other"):
        lake.drop_table(f"shop.{name}", immediate=True)
    assert found(branch.table("shop.orders")).keys() == {*range(2, 10)}
    assert found(branch.table("shop.other")).keys() == {*range(5)}


@pytest.mark.parametrize(
    ("given", "seconds"), [(None, None), ("90m", 5400), ("7d", 604800), (30, 30), (timedelta(hours=1), 3600)]
)
def test_how_long_a_branch_lives_is_said_in_words_or_numbers(given: Any, seconds: float | None) -> None:
    assert seconds_of(given) == seconds


@pytest.mark.parametrize("given", ["7", "d", "7y", "-7d", "", True, [7]])
def test_a_time_that_means_nothing_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput, match="7d"):
        seconds_of(given)
