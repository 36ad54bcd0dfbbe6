"""Tables of other formats where they lie: what their own libraries read is what the lake reads."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import deltalake
import fastavro
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from pyroaring import BitMap64

import moulin
from moulin.catalog.objects.new_table import FirstRows
from moulin.errors import AlreadyExists, Corrupt, InvalidInput, NotFound, Unsupported
from moulin.formats import deletion_vector
from moulin.lake import Lake
from moulin.model.operations import Append
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
    feature = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["later"], "writerFeatures": ["later"]}
    for action, reason in (
        ({"protocol": feature}, "uses later"),
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


@pytest.mark.parametrize("version", ["2", "3"])
def test_rows_that_an_iceberg_table_lost_stay_gone(whole: Lake, tmp_path: Path, version: str) -> None:
    from pyiceberg.table import StaticTable

    lake = whole
    properties = {"format-version": version}
    table = lake.create_table("shop.own", [("id", "long"), ("name", "string")], properties=properties)
    table.append(rows(0, 10).select(["id", "name"]))
    table.append(rows(10, 10).select(["id", "name"]))
    table.append(rows(20, 3).select(["id", "name"]))
    table.delete_where("id in (3, 4, 9, 12)")
    table.delete_where("id = 5")
    exported = table.export_iceberg(tmp_path / "theirs", copy=True)
    expected = StaticTable.from_metadata(exported.metadata_location).scan().to_arrow()
    mine = lake.import_table(tmp_path / "theirs", "shop.mine")
    assert same(mine.scan().to_arrow(), expected)
    assert (mine.scan().count(), len(expected)) == (18, 18)
    again = mine.export_iceberg(tmp_path / "again")
    assert same(StaticTable.from_metadata(again.metadata_location).scan().to_arrow(), expected)
    with moulin.connect(tmp_path / "lake", read_only=True) as replica:
        assert same(replica.table("shop.mine").scan().to_arrow(), expected)
    mine.delete_where("id = 0")
    mine.append(rows(30, 1).select(["id", "name"]))
    assert sorted(mine.scan(columns=["id"]).to_arrow()["id"].to_pylist()) == [
        1,
        2,
        6,
        7,
        8,
        *range(10, 12),
        *range(13, 23),
        30,
    ]
    mine.compact(everything=True)
    assert mine.scan().count() == 18


def test_equality_deletes_of_an_iceberg_table_are_refused(whole: Lake, tmp_path: Path) -> None:
    table = whole.create_table("shop.own", [("id", "long")], properties={"format-version": "2"})
    table.append(rows(0, 10).select(["id"]))
    table.delete_where("id = 3")
    table.export_iceberg(tmp_path / "theirs", copy=True)
    for path in (tmp_path / "theirs" / "metadata").glob("*.avro"):
        with path.open("rb") as source:
            reader = fastavro.reader(source)
            records, schema = list(reader), reader.writer_schema
        if any("data_file" in record and record["data_file"]["content"] for record in records):
            for record in records:
                record["data_file"]["content"] = 2
            with path.open("wb") as target:
                fastavro.writer(target, schema, records)
    with pytest.raises(Unsupported, match="equality deletes"):
        whole.import_table(tmp_path / "theirs", "shop.never")


def _delta_with(place: Path, vector: dict[str, Any]) -> None:
    """Have the log of a Delta table of one file say that the file has a vector; the newer action comes first."""
    file = next(place.glob("*.parquet"))
    added = {"path": file.name, "partitionValues": {}, "size": file.stat().st_size, "deletionVector": vector}
    number = len(list((place / "_delta_log").glob("*.json")))
    actions = [{"add": added}, {"remove": {"path": file.name, "dataChange": True}}]
    (place / "_delta_log" / f"{number:020}.json").write_text("\n".join(map(json.dumps, actions)))


# The example of Delta's protocol, and the rows that Delta's own tests read from it.
INLINE = {
    "storageType": "i",
    "pathOrInlineDv": "^Bg9^0rr910000000000iXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L",
    "sizeInBytes": 44,
    "cardinality": 6,
}
# Where the protocol says that this vector lies.
IN_FILE = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4, "cardinality": 6}
FILE = "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


@pytest.mark.parametrize("open_lake", [*BACKENDS, SERVED], indirect=True)
@pytest.mark.parametrize("kind", ["inline", "file"])
def test_rows_that_a_delta_table_lost_stay_gone(lake: Lake, tmp_path: Path, kind: str) -> None:
    place = tmp_path / "delta"
    deltalake.write_deltalake(str(place), rows(0, 40))
    gone = [3, 4, 7, 11, 18, 29]
    if kind == "inline":
        _delta_with(place, INLINE)
    else:
        blob = deletion_vector.encode(BitMap64(gone))
        (place / "ab").mkdir()
        (place / FILE).write_bytes(b"\x01???" + blob + b"the next")
        _delta_with(place, {**IN_FILE, "sizeInBytes": len(blob) - 8})
    mine = lake.import_table(place, "shop.delta")
    expected = rows(0, 40).filter(~pc.is_in(pc.field("id"), pa.array(gone)))
    assert same(mine.scan().to_arrow(), expected)
    assert mine.scan().count() == 34
    mine.delete_where("id < 10")
    assert mine.scan().count() == 27
    mine.restore(mine.history()[-1].version)
    assert same(mine.scan().to_arrow(), expected)


@FOLDER
def test_a_damaged_deletion_vector_of_a_delta_table_is_refused(lake: Lake, tmp_path: Path) -> None:
    place = tmp_path / "delta"
    deltalake.write_deltalake(str(place), rows(0, 40))
    before = {path: path.read_bytes() for path in (place / "_delta_log").iterdir()}
    blob = deletion_vector.encode(BitMap64([1, 50]))
    (place / "ab").mkdir()
    (place / FILE).write_bytes(b"\x01???" + blob)
    outside = {**IN_FILE, "sizeInBytes": len(blob) - 8, "cardinality": 2}
    for vector, error, reason in (
        ({**INLINE, "cardinality": 5}, Corrupt, "has 6 positions, not 5"),
        ({**INLINE, "pathOrInlineDv": "~" * 55}, Corrupt, "not in base 85"),
        ({**INLINE, "sizeInBytes": 400}, Corrupt, "should have 400 bytes"),
        ({**INLINE, "storageType": "p"}, Unsupported, "outside of its folder"),
        ({"storageType": "u"}, Corrupt, "which is not valid"),
        ({**IN_FILE, "pathOrInlineDv": "short", "sizeInBytes": 40}, Corrupt, "no UUID"),
        (IN_FILE, Corrupt, "no size"),
        ({**IN_FILE, "sizeInBytes": 4000}, Corrupt, "should have 4000 bytes"),
        (outside, InvalidInput, "Row 50 of .* is deleted"),
    ):
        _delta_with(place, vector)
        with pytest.raises(error, match=reason):
            lake.import_table(place, "shop.delta")
        for path in (place / "_delta_log").iterdir():
            path.unlink() if path not in before else path.write_bytes(before[path])
    assert lake.tables("shop") == []


@FOLDER
def test_a_server_that_overlooks_deleted_rows_keeps_no_table(
    lake: Lake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = tmp_path / "delta"
    deltalake.write_deltalake(str(place), rows(0, 40))
    _delta_with(place, INLINE)
    monkeypatch.setattr(FirstRows, "operation", property(lambda first: Append(added=first.segments)))
    with pytest.raises(Unsupported, match="upgrade its moulin"):
        lake.import_table(place, "shop.delta")
    assert lake.tables("shop") == []


@FOLDER
def test_files_of_which_no_row_is_left_are_left_out(lake: Lake, tmp_path: Path) -> None:
    place = tmp_path / "delta"
    deltalake.write_deltalake(str(place), rows(0, 2))
    blob = deletion_vector.encode(BitMap64([0, 1]))
    (place / "ab").mkdir()
    (place / FILE).write_bytes(b"\x01???" + blob)
    _delta_with(place, {**IN_FILE, "sizeInBytes": len(blob) - 8, "cardinality": 2})
    mine = lake.import_table(place, "shop.delta")
    assert (mine.scan().count(), mine.stats().segments) == (0, 0)


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
