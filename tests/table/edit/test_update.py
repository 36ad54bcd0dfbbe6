"""`table.update`: new values for the rows that match, here and in slices, on event tables and keyed ones."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from moulin.errors import InvalidInput
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.table.edit import update as update_module
from moulin.table.table import Table
from tests.table.conftest import rows
from tests.table.edit.conftest import Row, kinds, make_table, replayed, with_ids

ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.integers(0, 9),
            "g": st.none() | st.integers(0, 3),
            "a": st.none() | st.integers(-5, 5),
            "s": st.none() | st.sampled_from(["x", "Y"]),
        }
    ),
    min_size=1,
    max_size=6,
)

WHERES = {
    None: lambda row: True,
    "g = 1": lambda row: row["g"] == 1,
    "a > 0 and s = 'x'": lambda row: row["a"] is not None and row["a"] > 0 and row["s"] == "x",
    "s is null or id < 3": lambda row: row["s"] is None or row["id"] < 3,
    "id = 77": lambda row: False,
}


def _plus(*values: int | None) -> int | None:
    return None if None in values else sum(value for value in values if value is not None)


SETS: list[tuple[dict[str, Any], Any]] = [
    ({"a": "a * 2", "s": None}, lambda r: {"a": None if r["a"] is None else r["a"] * 2, "s": None}),
    ({"a": "g", "g": "a"}, lambda r: {"a": r["g"], "g": r["a"]}),
    ({"a": "a + g + id"}, lambda r: {"a": _plus(r["a"], r["g"], r["id"])}),
    ({"s": "upper(s)"}, lambda r: {"s": r["s"] and r["s"].upper()}),
    ({"s": "'new'", "g": 7}, lambda r: {"s": "new", "g": 7}),
]


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    parts=st.lists(ROWS, min_size=1, max_size=3),
    where=st.sampled_from(list(WHERES)),
    change=st.sampled_from(SETS),
    keyed=st.booleans(),
    sliced=st.booleans(),
)
def test_an_update_does_what_a_loop_over_dicts_does(
    folder_lake: Lake, parts: list[list[Row]], where: str | None, change: tuple[Any, Any], keyed: bool, sliced: bool
) -> None:
    table = make_table(folder_lake, parts, **({"primary_key": ["id"]} if keyed else {"partition_by": ["g"]}))
    before, since = with_ids(table), table.version
    given_values, expected = change
    chosen = {number for number, row in before.items() if WHERES[where](row)}
    with ExitStack() as stack:
        if sliced:
            stack.enter_context(patch("moulin.table.edit.slices._SLICE_BYTES", 1))
            stack.enter_context(patch("moulin.table.edit.slices._HELD_BYTES", 0))
        outcome = table.update(given_values, where)
    assert (outcome.rows_updated, outcome.rows_added, outcome.rows_deleted) == (len(chosen), 0, 0)
    after = with_ids(table)
    assert after == {n: {**row, **expected(row)} if n in chosen else row for n, row in before.items()}
    assert replayed(table, before, since) == after
    assert set(kinds(table, since)) <= {"update_before", "update_after"}
    assert (table.version > since) == bool(chosen)


def test_an_update_keeps_row_ids_and_shows_in_the_feed(orders: Table) -> None:
    orders.append(rows(0, 5))
    before = {row["id"]: row["_row_id"] for row in orders.scan(columns=["id", "_row_id"]).to_pylist()}
    since = orders.version
    outcome = orders.update(set={"amount": "amount * 2", "region": None}, where="id = 3")
    assert (outcome.version, outcome.rows_updated) == (orders.version, 1)
    (found,) = orders.scan(columns=["region", "amount", "_row_id"], where="id = 3").to_pylist()
    assert found == {"region": None, "amount": 6.0, "_row_id": before[3]}
    assert kinds(orders, since) == ["update_after", "update_before"]


def test_an_update_sees_what_was_put(lake: Lake) -> None:
    table = lake.create_table("shop.items", [("id", "long", False), ("name", "string")], primary_key=["id"])
    table.put({"id": 1, "name": "a"})
    assert table.update({"name": "upper(name)"}).rows_updated == 1
    assert table.get(1) == {"id": 1, "name": "A"}


def test_values_of_python_are_values(lake: Lake) -> None:
    schema = [
        ("id", "long", False),
        ("day", "date"),
        ("ts", "timestamptz"),
        ("price", "decimal(9, 2)"),
        ("tags", pa.list_(pa.string())),
        ("data", "binary"),
    ]
    table = lake.create_table("shop.typed", schema)
    table.append([{"id": 1}, {"id": 2}])
    values = {
        "day": date(2024, 5, 31),
        "ts": datetime(2024, 5, 31, 12, tzinfo=UTC),
        "price": Decimal("1.50"),
        "tags": ["a", "b"],
        "data": b"\x00",
    }
    table.update(values, where="id = 1")
    assert table.scan(where="id = 1").to_pylist() == [{"id": 1, **values}]
    table.update({"day": "'2024-06-01'", "price": "price * 3", "tags": None}, where="id = 1")
    (found,) = table.scan(where="id = 1").to_pylist()
    assert (found["day"], found["price"], found["tags"]) == (date(2024, 6, 1), Decimal("4.50"), None)


def test_an_update_reads_only_segments_that_may_match(orders: Table) -> None:
    for part in range(4):
        orders.append(rows(10 * part, 5))
    seen: list[int] = []
    cut = update_module.cut

    def watched(segments: Any) -> Any:
        seen.append(len(segments))
        return cut(segments)

    with patch.object(update_module, "cut", watched):
        orders.update({"amount": 0.0}, where="id = 21")
        orders.create_index("region")
        orders.update({"amount": 1.0}, where="region = 'nowhere'")
        orders.update({"amount": 2.0})
    assert seen[0] == 1
    assert seen[1] < seen[2]


def test_an_update_of_few_rows_writes_one_segment(orders: Table, many_slices: None) -> None:
    for part in range(4):
        orders.append(rows(10 * part, 5))
    before = orders.stats().segments
    with patch("moulin.table.edit.slices._HELD_BYTES", 1 << 20):
        orders.update({"amount": 0.0}, where="id in (1, 11, 21, 31)")
    assert orders.stats().segments == before + 1


def test_an_update_is_computed_again_when_its_rows_changed(orders: Table) -> None:
    orders.append(rows(0, 3))
    raced: list[int] = []
    plan = update_module.segments_for

    def slowly(context: Any, state: TableState, predicate: Any) -> Any:
        found = plan(context, state, predicate)
        if not raced:
            raced.append(1)
            other = threading.Thread(target=lambda: orders.update({"amount": 100.0}, where="id = 1"))
            other.start()
            other.join()
        return found

    with patch.object(update_module, "segments_for", slowly):
        orders.update({"amount": "amount + 1"})
    assert sorted(row["amount"] for row in orders.scan().to_pylist()) == [1.0, 3.0, 101.0]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "set must be a dict"),
        (["amount"], "set must be a dict"),
        ({"amout": 1}, "'amout'.* Did you mean 'amount'"),
        ({"amount": "total * 2"}, "set of amount: .*'total'"),
        ({"region": "concat(region, 'x')"}, r'the function concat.*lake\.sql\("update shop\.orders set \.\.\."\)'),
        ({"region": "paid"}, "set of region.*its own quotes"),
        ({"amount": "region"}, "Column amount: values of Arrow type string"),
        ({"amount": "'much'"}, "set of amount: 'much'"),
        ({"amount": object()}, "set of amount"),
        ({"id": None}, "set of id: it is null or missing, but required"),
        ({"id": "null"}, "Column id of shop.*: it is null.* for the row with _segment = "),
        ({"id": "id * 9223372036854775807"}, "set of id cannot be computed"),
    ],
)
def test_bad_values_are_refused_by_name(orders: Table, values: Any, message: str) -> None:
    orders.append(rows(0, 3))
    before = orders.version
    with pytest.raises(InvalidInput, match=message):
        orders.update(values)
    assert orders.version == before


def test_a_key_cannot_be_updated(lake: Lake) -> None:
    table = lake.create_table("shop.items", [("id", "long", False), ("name", "string")], primary_key=["id"])
    with pytest.raises(InvalidInput, match="part of the key"):
        table.update({"id": "id + 1"})
