"""Filtered reads while columns are widened and a restore makes them narrow again: bounds fit the schema of now."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pytest

import moulin
from moulin.iceberg.check.checker import check
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from moulin.table.table import Table
from tests.interop.engines import duckdb_connection

DAYS = [date(2024, 1, 1), date(2024, 1, 5), date(2024, 1, 9)]
COLUMNS: dict[str, tuple[str, str, list[Any]]] = {
    "int": ("int", "long", [1, 5, 9]),
    "float": ("float", "double", [1.5, 5.5, 9.5]),
    "date": ("date", "timestamp", DAYS),
    "date to nanoseconds": ("date", "timestamp_ns", DAYS),
    "decimal": ("decimal(5, 2)", "decimal(20, 2)", [Decimal("1.00"), Decimal("5.00"), Decimal("9.00")]),
}
STORIES = {
    "appended": "append project widen project append project",
    "restored": "append widen append project restore project append project",
    "deleted": "append append widen delete project restore project append project",
    "compacted": "append append widen project compact project restore project delete project",
    "only the schema": "append widen project restore project",
}


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lake]:
    with moulin.connect(tmp_path_factory.mktemp("widening") / "lake") as lake:
        lake.create_database("shop")
        yield lake


def ask(engine: str, location: str, least: Any) -> list[int]:
    """The ids of rows whose v is at least this, as an engine finds them by bounds."""
    if engine == "duckdb":
        found = duckdb_connection().execute(f"SELECT id FROM iceberg_scan('{location}') WHERE v >= ?", [least])
        return sorted(row[0] for row in found.fetchall())
    if engine == "pyiceberg":
        from pyiceberg.expressions import GreaterThanOrEqual
        from pyiceberg.table import StaticTable

        value = least.isoformat() if isinstance(least, date) else least
        scan = StaticTable.from_metadata(location).scan(GreaterThanOrEqual("v", value), ("id",))
        return sorted(scan.to_arrow()["id"].to_pylist())
    import polars as pl

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that a planner which is not installed would be quicker
        return sorted(pl.scan_iceberg(location).filter(pl.col("v") >= least).select("id").collect()["id"].to_list())


def assert_found(lake: Lake, table: Table, least: Any) -> None:
    made = project(lake.context, table.id)
    assert check(made.location, every_snapshot=True) == []
    rows = table.scan().to_arrow().to_pylist()
    promoted = isinstance(rows[0]["v"], datetime)
    if promoted:
        least = datetime(least.year, least.month, least.day)
    expected = sorted(row["id"] for row in rows if row["v"] >= least)
    engines = ["duckdb"] if promoted else ["duckdb", "pyiceberg", "polars"]  # the others read no date as a timestamp
    for engine in engines:
        assert ask(engine, made.location, least) == expected, engine


PARTITIONED = [(column, True) for column in COLUMNS if "date" not in column]  # by days, it cannot become a timestamp


@pytest.mark.sample(14)
@pytest.mark.parametrize("story", list(STORIES))
@pytest.mark.parametrize(("column", "partitioned"), [*((column, False) for column in COLUMNS), *PARTITIONED])
def test_filters_find_rows_of_widened_and_restored_columns(
    column: str, story: str, partitioned: bool, lake: Lake
) -> None:
    narrow, wide, values = COLUMNS[column]
    name = f"shop.{column}_{story}_{partitioned}".replace(" ", "_")
    table = lake.create_table(
        name, [("id", "long", False), ("v", narrow)], partition_by=["v"] if partitioned else [],
        properties={"format-version": "3" if partitioned or narrow == "date" else "2"},
    )  # fmt: skip
    first: int | None = None
    for step in STORIES[story].split():
        match step:
            case "append":
                rows = table.scan().to_arrow().num_rows
                table.append([{"id": rows + index, "v": value} for index, value in enumerate(values)])
                first = first or lake.catalog.version()
            case "widen":
                table.widen_column("v", wide)
            case "delete":
                table.delete_where("id = 0")
            case "compact":
                table.compact(everything=True)
            case "restore":
                assert first is not None
                table.restore(first)
            case "project":
                assert_found(lake, table, values[1])


def test_values_that_only_the_wide_column_held_are_removed_with_their_files(lake: Lake) -> None:
    table = lake.create_table("shop.huge", [("id", "long", False), ("v", "int")], partition_by=["v"])
    table.append([{"id": 1, "v": 1}, {"id": 2, "v": None}])
    first = lake.catalog.version()
    table.widen_column("v", "long")
    table.append([{"id": 3, "v": 2**40}, {"id": 4, "v": 4}])
    assert check(project(lake.context, table.id).location) == []
    table.restore(first)
    made = project(lake.context, table.id)
    assert check(made.location) == []
    assert (
        ask("duckdb", made.location, 0) == ask("pyiceberg", made.location, 0) == ask("polars", made.location, 0) == [1]
    )
