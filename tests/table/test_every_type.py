"""Values of every type, alone and inside structs, lists and maps, through everything that writes and reads rows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.iceberg.check.checker import check
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from moulin.table.table import Table
from tests.table.every_type import VALUES, columns, row, shown


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with moulin.connect(tmp_path_factory.mktemp("every-type") / "lake") as lake:
        lake.create_database("shop")
        yield lake


def rows(table: Table, **options: Any) -> dict[int, dict[str, Any]]:
    found = sorted(table.scan(**options).to_arrow().to_pylist(), key=lambda one: one["id"])
    return {one["id"]: shown(one) for one in found}


def expected(kind: str, numbers: dict[int, int | None]) -> dict[int, dict[str, Any]]:
    """The rows by id; `numbers` says which of the type's values each has, None for nulls."""
    return {number: shown(row(kind, number, index)) for number, index in numbers.items()}


@pytest.mark.parametrize("kind", list(VALUES))
def test_rows_of_an_event_table_are_what_was_appended(kind: str, lake: Lake, tmp_path: Path) -> None:
    name = f"shop.event_{list(VALUES).index(kind)}"
    table = lake.create_table(name, columns(kind))
    table.append([row(kind, 1, 0), row(kind, 2, None), row(kind, 3, 1)])
    table.append(table.scan().to_arrow().slice(0, 1).set_column(0, "id", [[4]]))
    table.delete_where("id = 3")
    left = {1: 0, 2: None, 4: 0}
    assert rows(table) == expected(kind, left)
    assert rows(table, where="plain is not null", columns=["id", "struct", "list"]).keys() == {1, 4}
    table.compact(everything=True)
    assert rows(table) == expected(kind, left)
    table.overwrite([row(kind, 9, 1)], where="id = 4")
    assert rows(table) == expected(kind, {1: 0, 2: None, 9: 1})
    made = project(lake.context, table.id)
    assert check(made.location) == []
    assert check(table.export_iceberg(str(tmp_path / "copy"), copy=True).metadata_location) == []


@pytest.mark.parametrize("kind", list(VALUES))
def test_rows_of_a_keyed_table_are_what_was_put(kind: str, lake: Lake) -> None:
    name = f"shop.keyed_{list(VALUES).index(kind)}"
    table = lake.create_table(name, columns(kind), primary_key=["id"])
    table.put(row(kind, 1, 0))
    table.put_batch([row(kind, 2, None), row(kind, 3, 1)])
    assert shown(table.get(1)) == shown(row(kind, 1, 0)), "from the memtable"
    table.flush()
    assert shown(table.get(3)) == shown(row(kind, 3, 1)), "from a segment"
    table.append([row(kind, 3, 0), row(kind, 4, 0)])
    assert rows(table) == expected(kind, {1: 0, 2: None, 3: 0, 4: 0})
    table.compact(everything=True)
    table.put(row(kind, 1, 1))
    assert rows(table) == expected(kind, {1: 1, 2: None, 3: 0, 4: 0})
    table.merge([row(kind, 1, None), row(kind, 5, 1)])
    table.merge(table.scan(where="id = 5").to_arrow())
    table.merge([row(kind, 2, 1)], when_matched_set={"struct": "source.struct", "map": "source.map"})
    merged = expected(kind, {1: None, 2: None, 3: 0, 4: 0, 5: 1})
    merged[2] |= {name: value for name, value in shown(row(kind, 2, 1)).items() if name in ("struct", "map")}
    assert rows(table) == merged
    assert check(project(lake.context, table.id).location) == []


@pytest.mark.parametrize("column", ["plain", "struct.a"])
def test_uuids_are_compared_and_merged_by(column: str, lake: Lake) -> None:
    table = lake.create_table(f"shop.by_{column[0]}", columns("uuid"), primary_key=["id"])
    table.append([row("uuid", 1, 0), row("uuid", 2, 1)])
    assert rows(table, where=f"{column} = '{VALUES['uuid'][1]}'") == expected("uuid", {2: 1})
    done = table.merge(
        [row("uuid", 1, 0), row("uuid", 2, 0)],
        when_matched="delete",
        when_matched_if=f"source.{column} = target.{column}",
    )
    assert rows(table) == expected("uuid", {2: 1}), done


def test_a_merge_takes_python_values_as_an_append_does(lake: Lake) -> None:
    """Columns of the table have its types, whatever their values suggest; every row may bring columns."""
    columns = [("id", "long", False), ("m", "map<string, int>"), ("u", "uuid"), ("n", "int")]
    table = lake.create_table("shop.python", columns, primary_key=["id"])
    text = str(VALUES["uuid"][0])
    table.merge([{"id": 1}, {"id": 2, "m": {"a": 1}}, {"id": 3, "u": text, "n": 7}])
    found = table.scan(columns=["id", "n", "m"]).to_arrow().to_pylist()
    assert sorted(found, key=lambda one: one["id"]) == [
        {"id": 1, "n": None, "m": None},
        {"id": 2, "n": None, "m": [("a", 1)]},
        {"id": 3, "n": 7, "m": None},
    ]
    assert str(table.get(3)["u"]) == text
    table.merge({"id": [1], "m": [{"b": 2}], "x": [5]}, when_matched_set={"n": "source.x", "m": "source.m"})
    assert dict(table.get(1)["m"]) == {"b": 2}
    assert table.get(1)["n"] == 5
    with pytest.raises(moulin.errors.InvalidInput, match="Column x of the source"):
        table.merge([{"id": 1, "x": 5}, {"id": 2, "x": "five"}], when_matched_set={"n": "source.x"})
