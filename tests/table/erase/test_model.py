"""Random histories against a dict model: an erase takes the matching rows out of every version, and nothing else."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.lake import Lake
from tests.table.erase.planting import ORDERS, history, order, rows_of

SHAPES: list[dict[str, Any]] = [
    {},
    {"sort_by": ["user", "id desc"]},
    {"partition_by": ["day"], "properties": {"moulin.inline-bytes": "3000"}},
    {"primary_key": ["id"]},
    {"primary_key": ["id"], "partition_by": ["day"]},
]


def step(lake: Lake, name: str, keyed: bool, choose: random.Random, numbers: Any) -> None:
    """One random change of a table."""
    table = lake.table(name)
    known = [*rows_of(table)]
    some = choose.sample(known, min(len(known), choose.randint(1, 4)))
    listed = ", ".join(map(str, some)) or "-1"
    match choose.randrange(10):
        case 0 | 1:
            table.append([order(next(numbers), user=choose.randrange(6)) for _ in range(choose.randint(1, 12))])
        case 2:
            table.delete_where(f"id in ({listed})")
        case 3:
            table.update(
                set={"user": choose.randrange(6), "note": f"'n{choose.randrange(9)}'"}, where=f"id in ({listed})"
            )
        case 4:
            table.compact(everything=choose.random() < 0.5)
        case 5 if keyed:
            for number in some:
                table.put(order(number, user=choose.randrange(6)))
            table.flush()
        case 6:
            table.restore(choose.choice(table.history()).version)
        case 7:
            table.add_column(f"c{next(numbers)}", "long", from_sql=choose.choice(["user", "user + id", "day"]))
        case 8:
            added = [column for column in table.schema.names if column.startswith("c")]
            if added:
                table.drop_column(choose.choice(added))
        case 9:
            table.fold()
        case _:
            table.tag(f"t{table.version}")


def matching(rows: dict[int, dict[str, Any]], user: int) -> dict[int, dict[str, Any]]:
    return {key: row for key, row in rows.items() if row["user"] != user}


def run(folder: Path, shape: dict[str, Any], seed: int, steps: int) -> None:
    choose = random.Random(seed)
    with moulin.connect(folder) as lake:
        lake.create_database("shop")
        keyed, names = "primary_key" in shape, ["shop.t"]
        numbers = iter(range(10**6))
        lake.create_table("shop.t", ORDERS, **shape).append([order(next(numbers), user=n % 6) for n in range(20)])
        for number in range(steps):
            step(lake, choose.choice(names), keyed, choose, numbers)
            if number == steps // 2:
                lake.clone_table("shop.t", "shop.c")
                names.append("shop.c")
        for user in choose.sample(range(6), 2):
            before = history(lake, names)
            ids = {
                (at, row["id"]): row["_row_id"]
                for at in before
                for row in lake.table(at[0]).scan(["id", "_row_id"], version=at[1]).to_pylist()
            }
            lake.table(choose.choice(names)).erase(f"user = {user}")
            after = history(lake, names)
            assert {at: after[at] for at in before} == {at: matching(rows, user) for at, rows in before.items()}
            for at in before:
                for row in lake.table(at[0]).scan(["id", "_row_id"], version=at[1]).to_pylist():
                    assert row["_row_id"] == ids[at, row["id"]]
            for _ in range(3):
                step(lake, choose.choice(names), keyed, choose, numbers)
        assert not check(lake.own_catalog())
        newest = {name: rows_of(lake.table(name)) for name in names}
        collect(lake.own_catalog(), history_keep=0, byte_floor=0, orphan_grace=0)
        assert newest == {name: rows_of(lake.table(name)) for name in names}
        assert not check(lake.own_catalog())
        for name in names:
            lake.table(name).close()


def test_histories_without_the_erased_rows(tmp_path: Path) -> None:
    run(tmp_path / "lake", SHAPES[3], 7, 5)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("shape", SHAPES, ids=range(len(SHAPES)))
def test_many_histories_without_the_erased_rows(tmp_path: Path, shape: dict[str, Any], seed: int) -> None:
    run(tmp_path / "lake", shape, seed, 25)
