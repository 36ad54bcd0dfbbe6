"""What foreign engines read of tables that evolved, of columns that were cast, and of versions of transactions."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest

import moulin
from moulin.iceberg.check.checker import check
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from moulin.table.table import Table
from tests.interop.engines import ENGINES


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with moulin.connect(tmp_path_factory.mktemp("evolution") / "lake") as lake:
        lake.create_database("shop")
        yield lake


def in_order(table: pa.Table) -> list[dict[str, Any]]:
    return sorted(table.to_pylist(), key=lambda row: row["id"])


def assert_read(lake: Lake, table: Table) -> None:
    made = project(lake.context, table.id)
    assert check(made.location, every_snapshot=True) == []
    wanted = in_order(table.scan().to_arrow())
    for name in ("duckdb", "pyiceberg"):
        found = ENGINES[name](made.location)
        assert found.column_names == table.schema.names, name
        assert in_order(found) == wanted, name


@pytest.mark.parametrize("key", [[], ["id"]], ids=["event", "keyed"])
def test_engines_read_what_evolved(lake: Lake, key: list[str]) -> None:
    columns = [("id", "int", False), ("price", "float"), ("at", "struct<x: int>")]
    table = lake.create_table(f"shop.evolved{len(key)}", columns, primary_key=key)
    table.append([{"id": 1, "price": 1.5, "at": {"x": 1}}])
    assert_read(lake, table)
    table.append([{"id": 2**40, "note": "n", "at": {"x": 2, "y": "new"}}], evolve=True)
    assert_read(lake, table)
    table.append(pa.table({"id": [3], "price": pa.array([0.1]), "tags": [["a"]]}), evolve=True)
    assert_read(lake, table)
    table.compact(everything=True)
    assert_read(lake, table)


@pytest.mark.parametrize("key", [[], ["id"]], ids=["event", "keyed"])
def test_engines_read_what_was_cast_now_and_before(lake: Lake, key: list[str]) -> None:
    columns = [("id", "long", False), ("text", "string"), ("number", "long"), ("last", "string")]
    table = lake.create_table(f"shop.cast{len(key)}", columns, primary_key=key)
    for first in (0, 3):
        table.append([{"id": n, "text": str(n), "number": n, "last": "x"} for n in range(first, first + 3)])
    table.delete_where("id = 1")
    before = table.version
    assert_read(lake, table)
    table.cast_column("text", "int")
    assert_read(lake, table)
    table.cast_column("number", "int")
    table.append([{"id": 9, "text": 9, "number": 9}])
    assert_read(lake, table)
    table.restore(before)
    assert_read(lake, table)


def test_engines_read_versions_of_transactions(lake: Lake) -> None:
    tables = [
        lake.create_table(f"shop.tx{len(key)}", [("id", "int", False), ("name", "string")], primary_key=key)
        for key in ([], ["id"])
    ]
    for table in tables:
        table.append([{"id": n, "name": f"n{n}"} for n in range(5)])
    with lake.transaction() as tx:
        for name in ("shop.tx0", "shop.tx1"):
            tx.table(name).append([{"id": 7, "name": "seven"}, {"id": 8, "name": "eight"}])
            tx.table(name).add_column("level", "long", default=5)
            tx.table(name).append([{"id": 9, "level": 1}])
            tx.table(name).delete_where("id in (2, 8)")
            tx.table(name).rename_column("name", "label")
            tx.table(name).widen_column("id", "long")
    for table in tables:
        assert_read(lake, table)
