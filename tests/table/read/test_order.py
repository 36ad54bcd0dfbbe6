"""Scans in an order, against a list sorted by Python."""

from __future__ import annotations

import math
from functools import cmp_to_key
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from moulin import Lake
from moulin.errors import InvalidInput
from moulin.table.read import ordered
from moulin.table.table import Table
from tests.table.every_type import VALUES

ORDERS = (
    "ts desc",
    "ts",
    "id",
    "number desc",
    "number",
    "word",
    "word desc, number",
    ["word", "ts desc"],
    ["number desc", "word", "id desc"],
    "later desc",
    "later",
)
WHERES = (None, "number > 2", "word = 'w1' or word is null", "id between 120 and 180", "_position < 40")


@pytest.fixture
def lake(tmp_path: Path) -> Any:
    with Lake.open(str(tmp_path / "lake")) as opened:
        opened.create_database("shop")
        yield opened


@pytest.fixture(autouse=True)
def cut_small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered, "_WHOLE_BYTES", 1)


def some_rows(random: Random, first: int, count: int) -> list[dict[str, Any]]:
    return [
        {
            "id": first + n,
            "ts": None if random.random() < 0.02 else random.randrange(1000),
            "number": random.choice([None, math.nan, -0.0, 0.0, 1.5, 3.0, -math.inf, math.inf, random.random()]),
            "word": random.choice([None, "", "w1", "w2", "wörter", "w" * 40 + str(random.randrange(9))]),
        }
        for n in range(count)
    ]


def to_table(rows: list[dict[str, Any]]) -> pa.Table:
    types = {"id": pa.int64(), "ts": pa.timestamp("us", "UTC"), "number": pa.float64(), "word": pa.string()}
    return pa.table({name: pa.array([row[name] for row in rows], kind) for name, kind in types.items()})


def event_table(lake: Lake, seed: int) -> Table:
    random = Random(seed)
    columns = [("id", "long"), ("ts", "timestamptz"), ("number", "double"), ("word", "string")]
    small = {"write.parquet.page-row-limit": "16", "write.parquet.row-group-limit": "50"}
    table = lake.create_table("shop.events", columns, event_time="ts", properties=small)
    for part in range(6):
        table.append(to_table(some_rows(random, 100 * part, 100)))
    table.delete_where("id between 130 and 150")
    table.add_column("later", "int")
    table.append(pa.Table.from_pylist([{"id": 1000 + n, "later": n % 5} for n in range(60)]))
    return table


def keyed_table(lake: Lake, seed: int) -> Table:
    random = Random(seed)
    columns = [("id", "long"), ("ts", "timestamptz"), ("number", "double"), ("word", "string"), ("later", "int")]
    table = lake.create_table("shop.keyed", columns, primary_key=["id"])
    for part in range(3):
        table.append(to_table(some_rows(random, 60 * part, 100)))
    table.put_batch(to_table(some_rows(random, 150, 80)))
    for key in range(20, 40):
        table.delete(key)
    return table


def rank(value: Any) -> tuple[int, Any]:
    if value is None:
        return (0, 0)
    return (2, 0) if value != value else (1, value)


def keys_of(order_by: Any) -> list[tuple[str, bool]]:
    parts = order_by.split(",") if isinstance(order_by, str) else order_by
    return [(part.split()[0], part.strip().endswith(" desc")) for part in parts]


def in_order(rows: list[dict[str, Any]], order_by: Any) -> list[list[tuple[int, Any]]]:
    """The values that the rows are ordered by, in order."""
    keys = keys_of(order_by)

    def compare(one: dict[str, Any], other: dict[str, Any]) -> int:
        for name, descending in keys:
            a, b = rank(one[name]), rank(other[name])
            if a != b:
                return (1 if descending else -1) if a < b else (-1 if descending else 1)
        return 0

    return [[rank(row[name]) for name, _ in keys] for row in sorted(rows, key=cmp_to_key(compare))]


def same_row(one: dict[str, Any], other: dict[str, Any]) -> bool:
    return {name: rank(value) for name, value in one.items()} == {name: rank(value) for name, value in other.items()}


def check(table: Any, order_by: Any, where: str | None, limit: int | None, columns: list[str] | None = None) -> None:
    plain = table.scan(where=where).to_pylist()
    found = table.scan(columns, where, limit=limit, order_by=order_by).to_pylist()
    wanted = in_order(plain, order_by)[:limit]
    by_id = {row["id"]: row for row in plain}
    assert len({row["id"] for row in found}) == len(found) == len(wanted)
    assert [[rank(by_id[row["id"]][name]) for name, _ in keys_of(order_by)] for row in found] == wanted
    assert all(same_row(row, {name: by_id[row["id"]][name] for name in row}) for row in found)
    assert columns is None or not found or list(found[0]) == columns


@pytest.mark.sample(4)
@pytest.mark.parametrize("make", [event_table, keyed_table])
@pytest.mark.parametrize("where", WHERES)
def test_rows_come_in_the_order_asked_for(lake: Lake, make: Any, where: str | None) -> None:
    table = make(lake, seed=len(where or ""))
    for order_by in ORDERS:
        for limit in (1, 10, 95, 5000, None):
            check(table, order_by, where, limit)
        check(table, order_by, where, 7, ["word", "id"])


def test_a_snapshot_sorts_too(lake: Lake) -> None:
    table = event_table(lake, 5)
    with table.at(version=table.version) as snapshot:
        table.append(pa.table({"id": [1]}))
        check(snapshot, "ts desc", None, 10)
        check(snapshot, "number", "id > 30", None)


def test_a_range_of_keys_can_be_sorted(lake: Lake) -> None:
    table = keyed_table(lake, 3)
    within = table.scan(start=50, end=170).to_pylist()
    found = table.scan(start=50, end=170, order_by="word desc", limit=20).to_pylist()
    assert [[rank(row["word"])] for row in found] == in_order(within, "word desc")[:20]


def test_every_type_can_be_sorted_by(lake: Lake) -> None:
    random = Random(9)
    kinds = {f"c{n}": kind for n, kind in enumerate(VALUES)}
    table = lake.create_table("shop.types", [("id", "long"), *kinds.items()])
    for part in range(3):
        table.append([
            {"id": 50 * part + n, **{c: random.choice([None, *VALUES[kind]]) for c, kind in kinds.items()}}
            for n in range(50)
        ])  # fmt: skip
    for column in kinds:
        for order_by in (column, f"{column} desc", [f"{column} desc", "id"]):
            check(table, order_by, None, 40)


def test_hidden_columns_are_given_in_order(lake: Lake) -> None:
    table = event_table(lake, 2)
    plain = {row["_row_id"]: row for row in table.scan(["_row_id", "_segment", "_position", "id", "ts"]).to_pylist()}
    for row in table.scan(["_position", "_row_id", "_segment", "id", "ts"], order_by="ts desc", limit=30).to_pylist():
        assert row == plain[row["_row_id"]]


def test_a_column_that_is_named_like_a_hidden_one_is_no_harm(lake: Lake) -> None:
    table = lake.create_table("shop.odd", [("id", "long"), ("_position", "long"), ("_segment", "string")])
    table.append([{"id": n, "_position": -n, "_segment": str(n)} for n in range(30)])
    assert table.scan(order_by="_position", limit=2).to_pylist() == [
        {"id": n, "_position": -n, "_segment": str(n)} for n in (29, 28)
    ]


def test_only_segments_that_may_hold_a_better_row_are_read(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = lake.create_table("shop.days", [("id", "long"), ("ts", "timestamp"), ("text", "string")], event_time="ts")
    for day in range(20):
        moments = pa.array([day * 86_400_000_000 + n for n in range(200)], pa.timestamp("us"))
        table.append(pa.table({"id": range(200 * day, 200 * day + 200), "ts": moments, "text": ["x" * 20] * 200}))
    read: list[int] = []
    plain = ordered.UnitReader.slice

    def slices(self: Any, segment: Any, start: int, stop: int) -> pa.Table:
        read.append(segment.facts.number)
        return plain(self, segment, start, stop)

    monkeypatch.setattr(ordered.UnitReader, "slice", slices)
    assert [row["id"] for row in table.scan(order_by="ts desc", limit=10).to_pylist()] == list(range(3999, 3989, -1))
    assert len(set(read)) <= 3
    read.clear()
    assert [row["id"] for row in table.scan(order_by="id", limit=3).to_pylist()] == [0, 1, 2]
    assert len(set(read)) <= 3


@pytest.mark.parametrize("order_by", ["", "nothing", "ts sideways", ["ts", "ts desc"], [], "ts,,id", "tags", [3]])
def test_an_order_that_makes_no_sense_is_rejected(lake: Lake, order_by: Any) -> None:
    table = lake.create_table("shop.t", [("id", "long"), ("ts", "timestamp"), ("tags", "list<string>")])
    with pytest.raises(InvalidInput, match="order_by"):
        table.scan(order_by=order_by)


def test_a_name_with_a_space_or_a_comma_can_be_sorted_by(lake: Lake) -> None:
    table = lake.create_table("shop.names", [("id", "long"), ("a desc", "long"), ("b, c", "long")])
    table.append([{"id": n, "a desc": n % 3, "b, c": -n} for n in range(5)])
    assert [row["id"] for row in table.scan(order_by=["a desc desc", '"id" desc']).to_pylist()] == [2, 4, 1, 3, 0]
    assert [row["id"] for row in table.scan(order_by="b, c", limit=2).to_pylist()] == [4, 3]


def test_key_order_and_another_order_cannot_both_be_asked_for(lake: Lake) -> None:
    table = keyed_table(lake, 1)
    with pytest.raises(InvalidInput, match="order_by"):
        table.scan(order_by="ts", reverse=True)
