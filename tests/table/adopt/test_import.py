"""Tables of other formats where they lie: what their own libraries read is what the lake reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import moulin
from moulin.errors import AlreadyExists, InvalidInput, NotFound, Unsupported
from moulin.lake import Lake
from tests.table.conftest import BACKENDS, SERVED

START = datetime(2026, 1, 1, tzinfo=UTC)
FOLDER = pytest.mark.parametrize("open_lake", BACKENDS[:1], indirect=True)


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    struct = pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))])
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "name": [None if n % 5 == 0 else f"n{n}" for n in numbers],
            "ts": pa.array([START + timedelta(minutes=n) for n in numbers], pa.timestamp("us", "UTC")),
            "day": pa.array([date(2026, 1, 1 + n % 2) for n in numbers]),
            "deep": pa.array([{"a": n, "b": [str(n)] * (n % 3)} for n in numbers], struct),
            "m": pa.array([[("k", n)] for n in numbers], pa.map_(pa.string(), pa.int64())),
        }
    )


def same(found: Any, expected: pa.Table) -> bool:
    names = expected.column_names
    one, other = found.select(names).sort_by("id").to_pylist(), expected.sort_by("id").to_pylist()
    return one == other


@pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)
def test_a_delta_table_is_imported_where_it_lies(lake: Lake, tmp_path: Path) -> None:
    place = str(tmp_path / "delta")
    deltalake.write_deltalake(place, rows(0, 20), partition_by=["day"])
    deltalake.write_deltalake(place, rows(20, 10), mode="append")
    table = deltalake.DeltaTable(place)
    table.delete("id < 4")
    before = {path: path.read_bytes() for path in Path(place).rglob("*.parquet")}
    mine = lake.import_table(place, "shop.delta")
    expected = deltalake.DeltaTable(place).to_pyarrow_table()
    assert same(mine.scan().to_arrow(), expected)
    assert [str(f.transform) for f in mine.state().spec.fields] == ["identity"]
    mine.delete_where("id = 7")
    mine.append(rows(50, 1))
    assert mine.scan().count() == expected.num_rows
    assert {path: path.read_bytes() for path in Path(place).rglob("*.parquet")} == before
    with pytest.raises(AlreadyExists):
        lake.import_table(place, "shop.delta")


@FOLDER
def test_a_delta_log_is_read_from_its_checkpoint(lake: Lake, tmp_path: Path) -> None:
    place = str(tmp_path / "delta")
    deltalake.write_deltalake(place, rows(0, 5))
    deltalake.write_deltalake(place, rows(5, 5), mode="append")
    deltalake.DeltaTable(place).create_checkpoint()
    deltalake.write_deltalake(place, rows(10, 5), mode="append")
    for name in ("00000000000000000000.json", "00000000000000000001.json"):
        (Path(place) / "_delta_log" / name).unlink()
    assert same(lake.import_table(place, "shop.delta").scan().to_arrow(), rows(0, 15))


@FOLDER
def test_what_a_delta_log_says_and_is_not_known_is_refused(lake: Lake, tmp_path: Path) -> None:
    place = tmp_path / "delta"
    deltalake.write_deltalake(str(place), rows(0, 5))
    log = place / "_delta_log" / "00000000000000000001.json"
    file = next(place.glob("*.parquet")).name
    feature = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["later"], "writerFeatures": ["later"]}
    for action, reason in (
        ({"protocol": feature}, "uses later"),
        ({"add": {"path": file, "partitionValues": {}, "size": 1, "deletionVector": {"storageType": "u"}}}, "vectors"),
        ({"add": {"path": "s3://else/where.parquet", "partitionValues": {}, "size": 1}}, "outside of its folder"),
    ):
        log.write_text(json.dumps(action))
        with pytest.raises(Unsupported, match=reason):
            lake.import_table(place, "shop.delta")
    log.write_text(json.dumps({"add": {"path": "../../x.parquet", "partitionValues": {}, "size": 1}}))
    with pytest.raises((InvalidInput, NotFound)):
        lake.import_table(place, "shop.delta")
    assert lake.tables("shop") == []


@pytest.fixture
def whole(tmp_path: Path) -> Iterator[Lake]:
    """A lake that can export."""
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        yield lake


def test_an_iceberg_table_is_imported_where_it_lies(whole: Lake, tmp_path: Path) -> None:
    lake = whole
    from pyiceberg.catalog.memory import InMemoryCatalog
    from pyiceberg.partitioning import PartitionField, PartitionSpec
    from pyiceberg.schema import Schema
    from pyiceberg.transforms import DayTransform
    from pyiceberg.types import LongType, NestedField, StringType, TimestamptzType

    catalog = InMemoryCatalog("theirs", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("n")
    fields = (
        NestedField(1, "id", LongType()),
        NestedField(2, "name", StringType()),
        NestedField(3, "ts", TimestamptzType()),
    )
    spec = PartitionSpec(PartitionField(3, 1000, DayTransform(), "ts_day"))
    theirs = catalog.create_table("n.t", Schema(*fields), partition_spec=spec)
    plain = rows(0, 3000).select(["id", "name", "ts"])
    theirs.append(plain.slice(0, 2000))
    with theirs.update_schema() as change:
        change.rename_column("name", "title")
        change.add_column("more", LongType())
    more = plain.slice(2000).rename_columns(["id", "title", "ts"]).append_column("more", pa.array(range(1000)))
    theirs.append(more)
    expected = theirs.scan().to_arrow()
    mine = lake.import_table(theirs.metadata_location.removeprefix("file://"), "shop.ice")
    assert same(mine.scan().to_arrow(), expected)
    assert mine.scan(where="ts >= '2026-01-02T00:00:00Z' and more > 10").count() == (
        theirs.scan(row_filter="ts >= '2026-01-02T00:00:00+00:00' and more > 10").to_arrow().num_rows
    )
    folder = theirs.location().removeprefix("file://")
    assert same(lake.import_table(folder, "shop.folder").scan().to_arrow(), expected)
    exported = mine.export_iceberg(tmp_path / "exported")
    from pyiceberg.table import StaticTable

    assert same(StaticTable.from_metadata(exported.metadata_location).scan().to_arrow(), expected)


def test_an_iceberg_table_with_deleted_rows_apart_is_refused(whole: Lake, tmp_path: Path) -> None:
    lake = whole
    table = lake.create_table("shop.own", [("id", "long"), ("name", "string")])
    table.append(rows(0, 10).select(["id", "name"]))
    exported = table.export_iceberg(tmp_path / "one", copy=True)
    again = lake.import_table(str(tmp_path / "one"), "shop.again")
    assert same(again.scan().to_arrow(), rows(0, 10).select(["id", "name"]))
    table.delete_where("id = 3")
    table.export_iceberg(tmp_path / "two", copy=True)
    with pytest.raises(Unsupported, match="deleted rows in files of their own"):
        lake.import_table(tmp_path / "two", "shop.never")
    assert exported.files


@pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)
def test_a_partitioned_folder_is_imported_where_it_lies(lake: Lake, tmp_path: Path) -> None:
    place, expected = tmp_path / "hive", rows(0, 40)
    partitioning = ds.partitioning(pa.schema([("day", pa.date32())]), flavor="hive")
    ds.write_dataset(expected, place, format="parquet", partitioning=partitioning)
    mine = lake.import_table(place, "shop.hive")
    assert same(mine.scan().to_arrow(), expected)
    assert [field.name for field in mine.state().spec.fields] == ["day"]
    assert mine.scan(where="day = date '2026-01-02'").count() == 20


@FOLDER
def test_other_sources_are_refused(lake: Lake, tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        lake.import_table(tmp_path / "nowhere", "shop.x")
    (tmp_path / "empty").mkdir()
    with pytest.raises(NotFound, match="no Parquet files"):
        lake.import_table(tmp_path / "empty", "shop.x")
    with pytest.raises(InvalidInput, match="not from 'csv'"):
        lake.import_table(tmp_path / "empty", "shop.x", format="csv")


@FOLDER
def test_a_lance_table_is_copied(lake: Lake, tmp_path: Path) -> None:
    lance = pytest.importorskip("lance", reason="pylance comes with the benchmarks alone: it is large")
    expected = rows(0, 10).select(["id", "name", "ts"])
    lance.write_dataset(expected, str(tmp_path / "t.lance"))
    assert same(lake.import_table(tmp_path / "t.lance", "shop.lance").scan().to_arrow(), expected)
    with pytest.raises(NotFound):
        lake.import_table(tmp_path / "none.lance", "shop.other")
