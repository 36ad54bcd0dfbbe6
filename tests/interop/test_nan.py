"""NaN in other engines: a filter that may skip files and row groups finds what the same engine finds by reading all."""

from __future__ import annotations

import math
import warnings

import polars as pl
import pyarrow.dataset as ds
import pytest
from pyiceberg.table import StaticTable

from moulin.iceberg.check.checker import check
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from tests.iceberg.conftest import lake as lake  # a fixture
from tests.interop.engines import ENGINES, duckdb_connection

VALUES = [1.0, math.nan, None, -2.5, 3.0]
CONDITIONS = ["x > 5", "x >= 5", "x = 'nan'", "x <> 1", "x < 5", "x <= 5", "x > 2", "f > 5", "f = 'nan'"]


def _duckdb(source: str, condition: str) -> list[int]:
    found = duckdb_connection().execute(f"select id from {source} where {condition} order by id").fetchall()
    return [row[0] for row in found]


def _polars(frame: pl.LazyFrame, condition: str) -> list[int]:
    column, operator, text = condition.split(" ")
    value = float(text.strip("'"))
    x = pl.col(column)
    made = {">": x > value, ">=": x >= value, "=": x == value, "<>": x != value, "<": x < value, "<=": x <= value}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return sorted(frame.filter(made[operator]).select("id").collect()["id"].to_list())


@pytest.fixture(params=["appended", "merged"])
def made(request: pytest.FixtureRequest, lake: Lake) -> tuple[str, list[str]]:
    """The location of a table's metadata, and its files."""
    schema = [("id", "long", False), ("x", "double"), ("f", "float")]
    table = lake.create_table("shop.floats", schema)
    for first in (0, 10):
        table.append([{"id": first + n, "x": value, "f": VALUES[n - 1]} for n, value in enumerate(VALUES)])
    table.append([{"id": 100, "x": 1.0, "f": 1.0}])
    if request.param == "merged":
        table.compact(everything=True)
    found = lake.catalog.segments(table.id, lake.version)
    files = [str(lake.store.local_path(segment.facts.path)) for segment in found]
    return project(lake.context, table.id).location, files


@pytest.mark.parametrize("condition", CONDITIONS)
def test_duckdb_finds_nan(made: tuple[str, list[str]], condition: str) -> None:
    location, files = made
    duckdb_connection().execute(f"create or replace temp table everything as from read_parquet({files})")
    wanted = _duckdb("everything", condition)
    assert _duckdb(f"read_parquet({files})", condition) == wanted
    assert _duckdb(f"iceberg_scan('{location}')", condition) == wanted


@pytest.mark.parametrize("condition", CONDITIONS)
def test_polars_finds_nan(made: tuple[str, list[str]], condition: str) -> None:
    location, files = made
    wanted = _polars(pl.read_parquet(files).lazy(), condition)
    assert _polars(pl.scan_parquet(files), condition) == wanted
    assert _polars(pl.scan_iceberg(location), condition) == wanted
    assert _polars(pl.scan_iceberg(location, reader_override="native"), condition) == wanted


@pytest.mark.parametrize("condition", CONDITIONS)
def test_datafusion_finds_nan(made: tuple[str, list[str]], condition: str) -> None:
    from datafusion import SessionContext

    for file in made[1]:
        context = SessionContext()
        context.register_record_batches("t", [ds.dataset(file).to_table().to_batches()])
        query = f"select id from t where {condition}".replace("'nan'", "cast('nan' as double)")
        wanted = sorted(context.sql(query).to_arrow_table().column(0).to_pylist())
        pruned = SessionContext()
        pruned.register_parquet("t", file)
        assert sorted(pruned.sql(query).to_arrow_table().column(0).to_pylist()) == wanted, file


def test_pyiceberg_and_arrow_find_nan(made: tuple[str, list[str]]) -> None:
    location, files = made
    table = StaticTable.from_metadata(location)
    assert sorted(table.scan("x is nan").to_arrow()["id"].to_pylist()) == [1, 11]
    assert sorted(table.scan("x < 5").to_arrow()["id"].to_pylist()) == [0, 3, 4, 10, 13, 14, 100]
    assert sorted(ds.dataset(files).to_table(filter=ds.field("x").is_nan())["id"].to_pylist()) == [1, 11]


@pytest.mark.parametrize("kind", ["double", "float"])
@pytest.mark.parametrize("version", ["2", "3"])
def test_deleted_rows_of_nan_partitions_stay_deleted(lake: Lake, version: str, kind: str) -> None:
    """NaN equals nothing: a reader that looks for deletes by partition must find them by path."""
    properties = {"format-version": version}
    table = lake.create_table("shop.t", [("id", "long"), ("x", kind)], partition_by=["x"], properties=properties)
    values = [1.0, math.nan, math.inf, -math.inf, 0.0, None]
    table.append([{"id": n * 10 + half, "x": value} for n, value in enumerate(values) for half in range(3)])
    for deleted in ("id = 11", "id in (10, 20, 30, 40, 50)"):
        table.delete_where(deleted)
        made = project(lake.context, table.id)
        expected = sorted(table.scan().to_arrow()["id"].to_pylist())
        assert check(made.location) == []
        for engine, read in ENGINES.items():
            assert sorted(read(made.location)["id"].to_pylist()) == expected, engine
