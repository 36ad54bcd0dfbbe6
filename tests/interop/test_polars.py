"""polars writes through the REST catalog, and the lake, DuckDB and pyiceberg see what it wrote."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import polars as pl
import pytest

from moulin.catalog.upkeep.check import check as check_catalog
from moulin.iceberg.check.checker import check
from moulin.iceberg.check.metadata_files import Files
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from tests.iceberg.conftest import COLUMNS
from tests.iceberg.conftest import lake as lake  # a fixture
from tests.iceberg.rest.served import duckdb_attached, pyiceberg_catalog, served

START = datetime(2024, 3, 1, tzinfo=UTC)
PARTITIONS = {
    "plain": [],
    "identity": ["region"],
    "transforms": ["bucket(3, id)", "day(ts)", "truncate(1, region)"],
}
pytestmark = [
    pytest.mark.filterwarnings("ignore:Merge on read is not yet supported"),
    pytest.mark.filterwarnings("ignore:Iceberg scan planning with the polars_iceberg plugin"),
]


@pytest.fixture
def address(lake: Lake) -> Iterator[str]:
    with served(lake) as address:
        yield address


def frame(*ids: int, region: str | None = "eu") -> pl.DataFrame:
    columns = {"id": pl.Int64, "ts": pl.Datetime("us", "UTC"), "region": pl.String, "amount": pl.Float64}
    rows = [(n, START.replace(day=1 + n % 28), region, None if n % 3 == 0 else n / 2) for n in ids]
    return pl.DataFrame(rows, columns, orient="row")


def make(lake: Lake, **options: Any) -> None:
    lake.create_table("shop.orders", COLUMNS, properties={"format-version": "2"}, **options)


def assert_seen(lake: Lake, address: str, *expected: pl.DataFrame) -> None:
    """The rows are in the lake, and in what DuckDB and pyiceberg read; nothing is wrong with the files."""
    wanted = pl.concat(expected).sort("id").rows()
    table = lake.table("shop.orders")
    names = ["id", "ts", "region", "amount"]
    ours = pl.from_arrow(table.scan(names).to_arrow())
    assert isinstance(ours, pl.DataFrame)
    assert ours.sort("id").rows() == wanted
    theirs = pl.scan_iceberg(pyiceberg_catalog(address).load_table("shop.orders")).select(names).collect()
    assert theirs.sort("id").rows() == wanted
    connection = duckdb_attached(address)
    try:
        found = connection.execute("SELECT id, region, amount FROM ice.shop.orders ORDER BY id").fetchall()
    finally:
        connection.close()
    assert found == [(n, region, amount) for n, _, region, amount in wanted]
    assert check(project(lake.context, table.id).location, Files(lake.store)) == []
    assert check_catalog(lake.own_catalog()) == []


@pytest.mark.parametrize("partitions", PARTITIONS.values(), ids=PARTITIONS.keys())
def test_polars_appends_and_overwrites(lake: Lake, address: str, partitions: list[str]) -> None:
    make(lake, partition_by=partitions, event_time="ts")
    table = pyiceberg_catalog(address).load_table("shop.orders")
    frame(1, 2, 3).write_iceberg(table, mode="append")
    frame(40, 50, region="us").write_iceberg(table, mode="append")
    lake.table("shop.orders").delete_where("id = 2")
    frame(60, region=None).write_iceberg(table, mode="append")  # told 409 first: the table has moved on
    assert_seen(lake, address, frame(1, 3), frame(40, 50, region="us"), frame(60, region=None))
    frame(7, 8).write_iceberg(table, mode="overwrite")
    assert_seen(lake, address, frame(7, 8))


@pytest.mark.parametrize("partitions", PARTITIONS.values(), ids=PARTITIONS.keys())
def test_polars_sinks_append_and_overwrite(lake: Lake, address: str, partitions: list[str]) -> None:
    make(lake, partition_by=partitions, event_time="ts")
    table = pyiceberg_catalog(address).load_table("shop.orders")
    mixed = pl.concat([frame(3, 2, 1), frame(40, 50, region="us"), frame(60, region=None)])
    mixed.lazy().sink_iceberg(table, mode="append")
    lake.table("shop.orders").delete_where("id = 2")
    frame(4).lazy().sink_iceberg(table, mode="append")
    assert_seen(lake, address, frame(1, 3, 4), frame(40, 50, region="us"), frame(60, region=None))
    kept = frame(40, 50, region="us")
    table.refresh()
    frame(9).lazy().sink_iceberg(table, mode="overwrite", overwrite_filter=pl.col("id") < 40)
    assert_seen(lake, address, frame(9), kept, frame(60, region=None))
    frame(7, 8).lazy().sink_iceberg(table, mode="overwrite")
    assert_seen(lake, address, frame(7, 8))


def test_partitions_are_overwritten(lake: Lake, address: str) -> None:
    make(lake, partition_by=["region"])
    table = pyiceberg_catalog(address).load_table("shop.orders")
    pl.concat([frame(1, 2), frame(3, 4, region="us")]).lazy().sink_iceberg(table, mode="append")
    frame(5, region="us").lazy().sink_iceberg(table, mode="overwrite", partition_overwrite="dynamic")
    assert_seen(lake, address, frame(1, 2), frame(5, region="us"))


def test_polars_deletes_rows(lake: Lake, address: str) -> None:
    make(lake, partition_by=["region"])
    table = pyiceberg_catalog(address).load_table("shop.orders")
    pl.concat([frame(1, 2), frame(3, 4, region="us")]).lazy().sink_iceberg(table, mode="append")
    pl.delete_iceberg(table, pl.col("id").is_in([2, 3]))
    assert_seen(lake, address, frame(1), frame(4, region="us"))


def test_a_sink_knows_its_snapshots(lake: Lake, address: str) -> None:
    """polars looks for its own mark in summaries, to write nothing twice; also for a frame without rows."""
    make(lake)
    table = pyiceberg_catalog(address).load_table("shop.orders")
    frame(1).lazy().sink_iceberg(table, mode="append", snapshot_properties={"job": "nightly"})
    frame().lazy().sink_iceberg(table, mode="append")
    first, second = (one.summary.additional_properties for one in table.refresh().snapshots())
    assert first["job"] == "nightly"
    assert first["polars.sink-uuid"] != second["polars.sink-uuid"]
    assert_seen(lake, address, frame(1))
    ours = lake.table("shop.orders")
    assert [segment.facts.rows for segment in lake.catalog.segments(ours.id, ours.version)] == [1]


def test_tables_are_made_and_widened(lake: Lake, address: str) -> None:
    catalog = pyiceberg_catalog(address)
    made = {"create_if_not_exists": True, "create_namespace_if_not_exists": True, "catalog": catalog}
    pl.LazyFrame({"id": [1], "name": ["a"]}).sink_iceberg("fresh.people", mode="append", **made)
    more = pl.LazyFrame({"id": [2], "name": ["b"], "age": pl.Series([7], dtype=pl.Int32)})
    more.sink_iceberg(catalog.load_table("fresh.people"), mode="append", schema_mode="merge")
    rows = lake.table("fresh.people").scan().to_arrow().sort_by("id").to_pylist()
    assert rows == [{"id": 1, "name": "a", "age": None}, {"id": 2, "name": "b", "age": 7}]
    version = lake.table("fresh.people").version
    other = pl.LazyFrame({"word": ["x"], "id": ["text now"]})
    other.sink_iceberg(catalog.load_table("fresh.people"), mode="overwrite", schema_mode="overwrite")
    people = lake.table("fresh.people")
    assert people.scan().to_arrow().to_pylist() == [{"word": "x", "id": "text now"}]
    assert people.at(version).scan().count() == 2
    assert check(project(lake.context, people.id).location, Files(lake.store)) == []


def test_rows_that_polars_appends_to_a_keyed_table_replace_those_of_their_keys(lake: Lake, address: str) -> None:
    make(lake, primary_key=["id"])
    lake.table("shop.orders").append([{"id": 1}, {"id": 2}])
    lake.table("shop.orders").close()  # a table that is open for puts takes no rows from engines
    table = pyiceberg_catalog(address).load_table("shop.orders")
    frame(1).lazy().sink_iceberg(table, mode="append")
    regions = lake.table("shop.orders").scan(["id", "region"], order_by=["id"]).to_arrow()["region"].to_pylist()
    assert regions == ["eu", None]
