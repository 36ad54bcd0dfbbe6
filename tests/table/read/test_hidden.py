"""Hidden columns in scans, and rows by their row ids."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from moulin.errors import InvalidInput
from moulin.formats.segment.decoder import Decoder
from moulin.lake import Lake
from moulin.table.table import Table
from tests.table.conftest import BACKENDS, SERVED

HIDDEN = ["_row_id", "_last_updated_version", "_segment", "_position", "_created_version"]

everywhere = pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)


@pytest.fixture(params=[(), ("id",)], ids=["event", "keyed"])
def table(request: pytest.FixtureRequest, lake: Lake) -> Table:
    columns = [("id", "long", False), ("name", "string")]
    return lake.create_table("shop.things", columns, primary_key=request.param)


def some(first: int, count: int) -> list[dict[str, Any]]:
    return [{"id": n, "name": f"n{n}"} for n in range(first, first + count)]


def from_the_feed(table: Table) -> dict[int, tuple[int, int]]:
    """Row id and version of every row that lives, by id, as the change feed has them."""
    found: dict[int, tuple[int, int]] = {}
    for row in table.changes(table.state().created_version).to_arrow().to_pylist():
        if row["_change_type"] in ("insert", "update_after"):
            found[row["id"]] = (row["_row_id"], row["_version"])
        elif row["_change_type"] == "delete":
            found.pop(row["id"], None)
    return found


@everywhere
def test_a_row_knows_the_version_that_made_it(table: Table) -> None:
    born: dict[int, int] = {}
    for first in (0, 10, 20):
        version = table.append(some(first, 10)).version
        born |= dict.fromkeys(range(first, first + 10), version)
    table.update(set={"name": "upper(name)"}, where="id in (3, 14, 25)")
    keyed = bool(table.state().schema.identifier_field_ids)
    if keyed:
        version = table.append(some(8, 3) + some(40, 2)).version
        born |= dict.fromkeys((40, 41), version)

    def found() -> dict[int, int]:
        return {row["id"]: row["_created_version"] for row in table.scan(["id", "_created_version"]).to_pylist()}

    assert found() == born
    table.compact(everything=True)
    assert found() == born
    table.delete_where("id = 5")
    table.append(some(5, 1))
    born[5] = table.version
    assert found() == born
    late = table.scan(["id"], where=f"_created_version >= {born[20]} and id < 30").to_pylist()
    assert sorted(row["id"] for row in late) == [5, *range(20, 30)]
    if keyed:
        table.put({"id": 77, "name": "new"})
        assert found() == born | {77: None}
        table.flush()
        assert found()[77] == table.version


@everywhere
def test_hidden_columns_come_when_they_are_named(table: Table) -> None:
    for first in (0, 10, 20):
        table.append(some(first, 10))
    table.delete_where("id = 5")
    if table.state().schema.identifier_field_ids:
        table.append(some(7, 1))
    wanted = from_the_feed(table)
    for _ in range(2):
        rows = table.scan(["id", *HIDDEN]).to_pylist()
        assert {row["id"]: (row["_row_id"], row["_last_updated_version"]) for row in rows} == wanted
        live = {s.facts.number: s for s in table.scan().plan().segments}
        assert {row["_segment"] for row in rows} == set(live)
        assert all(0 <= row["_position"] < live[row["_segment"]].facts.rows for row in rows)
        assert len({(row["_segment"], row["_position"]) for row in rows}) == len(rows)
        assert table.scan().schema.names == ["id", "name"]
        table.compact(everything=True)


def test_a_where_may_name_hidden_columns(table: Table) -> None:
    for first in (0, 10, 20):
        table.append(some(first, 10))
    table.delete_where("id = 15")
    every = {row["id"]: row for row in table.scan(["id", *HIDDEN]).to_pylist()}
    segment = every[12]["_segment"]

    def ids(where: Any, **options: Any) -> list[int]:
        found = table.scan(["id"], where=where, **options)
        assert found.count() == found.to_arrow().num_rows
        return sorted(found.to_arrow()["id"].to_pylist())

    assert ids("_row_id = 12") == [12]
    assert ids(f"_segment = {segment} and _position < 3") == [10, 11, 12]
    assert ids(f"_segment = {segment} and name like '%8'") == [18]
    assert ids("_row_id in (15, 16, 99) or id = 1") == [1, 16]
    assert ids(f"_last_updated_version >= {every[25]['_last_updated_version']} and _position = 5") == [25]
    assert ids(pa.compute.field("_row_id") < 2) == [0, 1]
    assert ids("_ROW_ID = 3") == [3]
    assert ids("_row_id is null") == []
    plan = table.scan(where=f"_segment = {segment}").plan()
    assert [s.facts.number for s in plan.segments] == [segment]
    assert len(table.scan(where="_row_id = 3").plan().segments) == 1
    table.compact(everything=True)
    assert ids("_row_id = 12 or _row_id = 15") == [12]
    if table.state().schema.identifier_field_ids:
        assert ids("_row_id < 3", ordered=True) == [0, 1, 2]
        assert ids("_row_id < 30", start=10, end=12) == [10, 11]


def test_rows_that_are_only_in_a_log_have_no_hidden_values(lake: Lake) -> None:
    table = lake.create_table("shop.keyed", [("id", "long", False), ("name", "string")], primary_key=["id"])
    table.append(some(0, 3))
    table.put({"id": 1, "name": "put"})
    rows = table.scan(["id", *HIDDEN], where="_row_id is null").to_pylist()
    assert rows == [{"id": 1, **dict.fromkeys(HIDDEN)}]
    assert sorted(table.scan(["id"], where="_row_id >= 0").to_arrow()["id"].to_pylist()) == [0, 2]
    assert table.take([1]).to_pylist() == [{"id": 1, "name": "put"}]


def test_a_column_of_such_a_name_keeps_it(lake: Lake) -> None:
    table = lake.create_table("shop.own", [("_segment", "string"), ("_position", "long")])
    table.append([{"_segment": "s", "_position": 4}])
    assert table.scan(["_segment", "_position", "_row_id"], where="_segment = 's' and _row_id = 0").to_pylist() == [
        {"_segment": "s", "_position": 4, "_row_id": 0}
    ]
    with pytest.raises(InvalidInput, match="no column '_segmen'"):
        table.scan(["_segmen"])


@everywhere
def test_rows_are_taken_by_row_id_in_the_order_asked_for(table: Table) -> None:
    for first in (0, 10, 20):
        table.append(some(first, 10))
    table.delete_where("id in (5, 6)")
    if table.state().schema.identifier_field_ids:
        table.append([{"id": 7, "name": "n7"}, {"id": 40, "name": "n40"}])
    row_ids = {n: found[0] for n, found in from_the_feed(table).items()}
    for _ in range(2):
        asked = [25, 3, 14, 3, 7, *([40] if 40 in row_ids else [])]
        took = table.take([row_ids[n] for n in asked])
        assert took.to_pylist() == [{"id": n, "name": f"n{n}"} for n in asked]
        assert took.schema == table.schema
        assert table.take([5, 10**12, -1, 3]).to_pylist() == [{"id": 3, "name": "n3"}], "deleted and unknown ids"
        assert table.take([]).num_rows == 0
        everything = table.take(np.array(sorted(row_ids.values())), columns=["_row_id", "id"])
        assert dict(zip(*(everything[name].to_pylist() for name in ("id", "_row_id")), strict=True)) == row_ids
        table.compact(everything=True)


def test_what_was_updated_is_taken_as_it_is_and_as_it_was(lake: Lake) -> None:
    table = lake.create_table("shop.keyed", [("id", "long", False), ("name", "string")], primary_key=["id"])
    before = table.append(some(0, 3)).version
    table.append([{"id": 1, "name": "new"}])
    assert table.take(pa.array([1])).to_pylist() == [{"id": 1, "name": "new"}]
    assert table.at(before).take([1]).to_pylist() == [{"id": 1, "name": "n1"}]


def test_only_segments_and_row_groups_with_the_rows_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Lake.open(tmp_path / "lake") as lake:
        lake.create_database("shop")
        properties = {"write.parquet.row-group-limit": "100"}
        table = lake.create_table("shop.t", [("id", "long", False), ("name", "string")], properties=properties)
        for first in range(0, 3000, 1000):
            table.append(some(first, 1000))
        opened: list[str] = []
        inner = type(table._context.store).reader

        def counted(self: Any, path: str, size: int | None = None, etag: str = "") -> Any:
            opened.append(path)
            return inner(self, path, size, etag)

        monkeypatch.setattr(type(table._context.store), "reader", counted)
        assert table.take([1500, 1501])["id"].to_pylist() == [1500, 1501]
        assert len(set(opened)) == 1
        table.compact(everything=True)
        decoded: list[int] = []
        decode = Decoder.at

        def counting(self: Any, positions: Any, leaves: Any) -> Any:
            decoded.append(len(positions))
            return decode(self, positions, leaves)

        monkeypatch.setattr(Decoder, "at", counting)
        assert table.take([2999])["id"].to_pylist() == [2999]
        assert sum(decoded) <= 200, "of 3000 rows in 30 row groups, those of one are read"


@pytest.mark.parametrize("wrong", ["12", 5, [1.5], [None], ["a"], [True, "x"]])
def test_row_ids_are_whole_numbers(lake: Lake, orders: Table, wrong: Any) -> None:
    with pytest.raises(InvalidInput, match="row ids|Row ids"):
        orders.take(wrong)
