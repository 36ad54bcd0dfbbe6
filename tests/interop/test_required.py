"""Columns that became required: Iceberg engines read the new snapshot by the new schema and older ones by their own."""

from __future__ import annotations

from pathlib import Path

import pytest

import moulin
from moulin.iceberg.check.checker import check
from moulin.iceberg.projection.projection import project
from tests.interop.engines import duckdb, duckdb_connection, polars, pyiceberg


@pytest.mark.parametrize("version", ["2", "3"])
def test_engines_read_a_column_that_became_required(tmp_path: Path, version: str) -> None:
    from pyiceberg.table import StaticTable

    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        columns = [("id", "long", False), ("x", "string"), ("s", "struct<a: int>")]
        table = lake.create_table("shop.t", columns, properties={"format-version": version})
        table.append([{"id": 1, "x": "a", "s": {"a": 1}}, {"id": 2, "x": None, "s": None}])
        older = project(lake.context, table.id)
        table.delete_where("x is null")
        table.set_required("x")
        table.set_required("s")
        table.append([{"id": 3, "x": "c", "s": {"a": 3}}])
        made = project(lake.context, table.id)
        assert check(made.location, every_snapshot=True) == []
        wanted = [{"id": 1, "x": "a", "s": {"a": 1}}, {"id": 3, "x": "c", "s": {"a": 3}}]
        for engine in (duckdb, pyiceberg, polars):
            found = engine(made.location)
            assert sorted(found.to_pylist(), key=lambda row: row["id"]) == wanted, engine
        static = StaticTable.from_metadata(made.location)
        assert [field.required for field in static.schema().fields] == [True, True, True]
        before = static.schemas()[min(static.schemas())]
        assert not before.find_field("x").required
        first = static.snapshots()[0]
        old = static.scan(snapshot_id=first.snapshot_id).to_arrow()
        assert sorted(old["x"].to_pylist(), key=str) == [None, "a"]
        assert old.schema.field("x").nullable
        assert pyiceberg(older.location).num_rows == 2
        count = (
            duckdb_connection()
            .execute(f"SELECT count(*) FROM iceberg_scan('{made.location}') WHERE x IS NULL")
            .fetchone()
        )
        assert count == (0,)
