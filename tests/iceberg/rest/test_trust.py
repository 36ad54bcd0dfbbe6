"""Files of engines taken at the word of their manifests: where they stay, what is read later, and what proves wrong."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import moulin
from moulin.catalog.manifests.recover import recover
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.errors import Corrupt, InvalidInput
from moulin.iceberg.format.avro import read_avro, write_avro
from moulin.lake import Lake
from moulin.storage.store import open_store
from moulin.table.verify import Verification, verify
from tests.iceberg.rest.served import Client, error, pyiceberg_catalog, served

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "name": ["a", "b", None]})


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake", iceberg_verify="manifest") as lake:
        lake.create_database("shop")
        properties = {"format-version": "2", "write.delete.mode": "copy-on-write"}
        lake.create_table("shop.t", [("id", "long"), ("name", "string")], properties=properties)
        yield lake


def _checked(lake: Lake) -> Verification:
    return verify(lake.context, lake.table("shop.t").state())


def _append(
    lake: Lake,
    edit: Callable[[dict[str, Any]], None] | None = None,
    name: str = "t",
    rows: pa.Table = ROWS,
    snapshot: dict[str, Any] | None = None,
    **record: Any,
) -> Any:
    """pyiceberg's append of rows, with changes of what its snapshot, and its manifest of the file, say."""
    with served(lake) as address, Client(address) as client:
        table = pyiceberg_catalog(address).load_table(f"shop.{name}")
        transaction = table.transaction()
        transaction.append(rows)
        updates = [json.loads(one.model_dump_json(by_alias=True)) for one in transaction._updates]
        requirements = [json.loads(one.model_dump_json(by_alias=True)) for one in transaction._requirements]
        made = next(one["snapshot"] for one in updates if one["action"] == "add-snapshot")
        made |= snapshot or {}
        listed, _ = read_avro(Path(made["manifest-list"].removeprefix("file://")).read_bytes(), "")
        manifest = Path(
            next(one for one in listed if one["added_files_count"])["manifest_path"].removeprefix("file://")
        )
        records, header = read_avro(manifest.read_bytes(), "")
        for one in records:
            one["data_file"] |= record
            if edit is not None:
                edit(one["data_file"])
        kept = {key: value for key, value in header.items() if not key.startswith("avro.")}
        manifest.write_bytes(write_avro(json.loads(header["avro.schema"]), records, kept))
        sent = {"requirements": requirements, "updates": updates}
        return client.post(f"/namespaces/shop/tables/{name}", json=sent)


def _stray(tmp_path: Path, lake: Lake) -> Path:
    """A file of an engine below a base path, with the field ids of the table."""
    folder = tmp_path / "landing"
    folder.mkdir()
    lake.add_base(folder, name="landing")
    schema = pa.schema(
        [
            pa.field("id", pa.int64(), metadata={"PARQUET:field_id": "1"}),
            pa.field("name", pa.string(), metadata={"PARQUET:field_id": "2"}),
        ]
    )
    pq.write_table(ROWS.cast(schema), folder / "a.parquet")
    return folder / "a.parquet"


def test_rows_are_there_and_facts_are_those_of_the_manifest(lake: Lake) -> None:
    assert _append(lake).status_code == 200
    table = lake.table("shop.t")
    assert table.scan().to_arrow().to_pylist() == ROWS.to_pylist()
    assert table.scan(where="id = 2").to_arrow().num_rows == 1
    assert not table.scan(where="id = 9").plan().segments
    assert _checked(lake) == Verification(1, {})
    assert _checked(lake).files == 0
    assert check(lake.own_catalog()) == []
    with served(lake) as address:
        assert pyiceberg_catalog(address).load_table("shop.t").scan().to_arrow().num_rows == 3


def test_a_file_below_a_base_path_stays_where_it_is(lake: Lake, tmp_path: Path) -> None:
    file = _stray(tmp_path, lake)
    assert _append(lake, file_path=str(file), file_size_in_bytes=file.stat().st_size).status_code == 200
    table = lake.table("shop.t")
    assert table.scan().to_arrow().to_pylist() == ROWS.to_pylist()
    assert lake.duckdb().sql("select sum(id) from shop.t").fetchall() == [(6,)]
    with served(lake) as address:
        read = pyiceberg_catalog(address).load_table("shop.t")
        assert [task.file.file_path for task in read.scan().plan_files()] == [str(file)]
        assert read.scan().to_arrow().num_rows == 3
        read.delete("id = 2")
    assert sorted(lake.table("shop.t").scan().to_arrow()["id"].to_pylist()) == [1, 3]
    assert _checked(lake).problems == {}
    collect(lake.own_catalog())
    assert file.exists()
    assert check(lake.own_catalog()) == []


def test_a_file_that_is_not_there_is_named_by_readers_and_by_the_check(lake: Lake, tmp_path: Path) -> None:
    _stray(tmp_path, lake)
    missing = tmp_path / "landing" / "never.parquet"
    assert _append(lake, file_path=str(missing)).status_code == 200
    with pytest.raises(Exception, match=r"never\.parquet"):
        lake.table("shop.t").scan().to_arrow()
    ((path, reason),) = _checked(lake).problems.items()
    assert path.endswith("never.parquet")
    assert "never.parquet" in reason
    with pytest.raises(Corrupt, match=r"never\.parquet of shop\.t is in quarantine"):
        lake.table("shop.t").scan(where="id = 77").to_arrow()


def _no_nulls(record: dict[str, Any]) -> None:
    for one in record["null_value_counts"]:
        one["value"] = 0


def _high_bound(record: dict[str, Any]) -> None:
    for one in record["lower_bounds"]:
        if one["key"] == 1:
            one["value"] = (2).to_bytes(8, "little")


def _wide_bounds(record: dict[str, Any]) -> None:
    """A bound that is right, and none that a footer has."""
    for one in record["upper_bounds"]:
        if one["key"] == 2:
            one["value"] = b"zz"


def _short_bounds(record: dict[str, Any]) -> None:
    """Bounds of one letter, as if they had been cut, between which no name lies."""
    for name in ("lower_bounds", "upper_bounds"):
        for one in record[name]:
            if one["key"] == 2:
                one["value"] = b"z"


@pytest.mark.parametrize(
    ("edit", "reason"),
    [
        (_no_nulls, "values or nulls of its column name"),
        (_high_bound, "lower bound of its column id"),
        (_short_bounds, "lower bound of its column name"),
    ],
)
def test_a_manifest_that_lied_is_found_and_reads_refuse(lake: Lake, edit: Any, reason: str) -> None:
    assert _append(lake, edit).status_code == 200
    ((_, found),) = _checked(lake).problems.items()
    assert reason in found
    for where in (None, "id = 1", "id = 99"):
        with pytest.raises(Corrupt, match="in quarantine"):
            lake.table("shop.t").scan(where=where).to_arrow()
    assert _checked(lake).problems, "what is in quarantine is named again"
    with served(lake) as address:
        read = pyiceberg_catalog(address).load_table("shop.t")
        read.overwrite(ROWS)
    assert lake.table("shop.t").scan().to_arrow().num_rows == 3


def _few_nans(record: dict[str, Any]) -> None:
    record["nan_value_counts"] = [{"key": 1, "value": 0}]


def _low_bound(record: dict[str, Any]) -> None:
    record["upper_bounds"] = [{"key": 1, "value": struct.pack("<d", 1.0)}]


@pytest.mark.parametrize(("edit", "reason"), [(_few_nans, "number of NaNs"), (_low_bound, "upper bound")])
def test_lies_about_floats_are_found_though_their_footers_say_nothing(lake: Lake, edit: Any, reason: str) -> None:
    lake.create_table("shop.f", [("x", "double")], properties={"format-version": "2"})
    rows = pa.table({"x": [1.0, 2.0, float("nan")]})
    assert _append(lake, name="f", rows=rows).status_code == 200
    assert verify(lake.context, lake.table("shop.f").state()) == Verification(1, {})
    assert _append(lake, edit, name="f", rows=rows).status_code == 200
    ((_, found),) = verify(lake.context, lake.table("shop.f").state()).problems.items()
    assert f"{reason} of its column x" in found


def test_a_wrong_count_of_rows_is_found_when_the_file_is_opened(lake: Lake, tmp_path: Path) -> None:
    file = _stray(tmp_path, lake)
    short = tmp_path / "landing" / "short.parquet"
    pq.write_table(pq.read_table(file).slice(0, 2), short)
    assert _append(lake, file_path=str(short), file_size_in_bytes=short.stat().st_size).status_code == 200
    with pytest.raises(Corrupt, match="has 2 rows, and the engine that committed it said 3"):
        lake.table("shop.t").scan().to_arrow()


def test_bounds_that_cannot_be_read_are_refused_at_once(lake: Lake) -> None:
    def cut(record: dict[str, Any]) -> None:
        record["lower_bounds"][0]["value"] = b"x"

    assert "bound" in error(_append(lake, cut), 400, "BadRequestException")
    assert lake.table("shop.t").scan().to_arrow().num_rows == 0


@pytest.mark.parametrize("verify", ["all", "manifest"])
def test_files_that_an_engine_encrypted_are_refused(lake: Lake, verify: str) -> None:
    lake.table("shop.t").set_properties({"moulin.verify": verify})
    assert "is encrypted" in error(_append(lake, key_metadata=b"k"), 400, "BadRequestException")


def test_with_all_a_manifest_that_lies_is_refused(lake: Lake) -> None:
    lake.table("shop.t").set_properties({"moulin.verify": "all"})
    error(_append(lake, record_count=4), 400, "BadRequestException")
    assert _append(lake).status_code == 200
    assert _checked(lake) == Verification()


def test_with_sample_the_first_file_of_a_commit_is_read(lake: Lake, tmp_path: Path) -> None:
    lake.table("shop.t").set_properties({"moulin.verify": "sample"})
    file = _stray(tmp_path, lake)
    size = file.stat().st_size
    error(_append(lake, file_path=str(file), file_size_in_bytes=size + 1), 400, "BadRequestException")
    assert _append(lake, file_path=str(file), file_size_in_bytes=size).status_code == 200
    assert lake.table("shop.t").scan().to_arrow().num_rows == 3


def _as(engine: str, version: str) -> dict[str, dict[str, str]]:
    return {"summary": {"operation": "append", "engine-name": engine, "engine-version": version}}


def test_a_writer_is_read_until_its_files_were_right_once(lake: Lake) -> None:
    table = lake.table("shop.t")
    table.set_properties({"moulin.verify": "new-writers"})
    error(_append(lake, record_count=4), 400, "BadRequestException")
    assert _append(lake).status_code == 200
    assert _checked(lake) == Verification(), "it was read at its commit"
    assert _append(lake, _short_bounds).status_code == 200, "it is known now, and believed"
    ((_, found),) = _checked(lake).problems.items()
    assert "lower bound" in found


def test_another_engine_release_or_column_is_a_new_writer(lake: Lake) -> None:
    table = lake.table("shop.t")
    table.set_properties({"moulin.verify": "new-writers"})
    for release in ("1", "2"):
        error(_append(lake, snapshot=_as("spark", release), record_count=4), 400, "BadRequestException")
        assert _append(lake, snapshot=_as("spark", release)).status_code == 200
        assert _append(lake, _wide_bounds, snapshot=_as("spark", release)).status_code == 200
    table.add_column("more", "string")
    error(_append(lake, snapshot=_as("spark", "2"), record_count=4), 400, "BadRequestException")


def test_no_writer_is_known_any_more_when_one_proves_wrong(lake: Lake) -> None:
    lake.table("shop.t").set_properties({"moulin.verify": "new-writers"})
    for engine in ("spark", "flink"):
        assert _append(lake, snapshot=_as(engine, "1")).status_code == 200
    assert _append(lake, _short_bounds, snapshot=_as("spark", "1")).status_code == 200
    assert _checked(lake).problems
    error(_append(lake, snapshot=_as("flink", "1"), record_count=4), 400, "BadRequestException")


def test_files_outside_of_every_base_path_are_refused(lake: Lake, tmp_path: Path) -> None:
    said = error(_append(lake, file_path=str(tmp_path / "x.parquet")), 400, "BadRequestException")
    assert "does not lie below" in said


def test_an_engine_cannot_say_how_it_is_trusted(lake: Lake) -> None:
    with served(lake) as address, Client(address) as client:
        update = {"action": "set-properties", "updates": {"moulin.verify": "manifest"}}
        sent = {"requirements": [], "updates": [update]}
        assert "is the lake's to set" in error(
            client.post("/namespaces/shop/tables/t", json=sent), 400, "BadRequestException"
        )
    with pytest.raises(InvalidInput, match="one of all, new-writers, sample, manifest"):
        lake.table("shop.t").set_properties({"moulin.verify": "never"})


def test_recovery_keeps_what_is_known_of_unread_files(lake: Lake, tmp_path: Path) -> None:
    file = _stray(tmp_path, lake)
    assert _append(lake, file_path=str(file), file_size_in_bytes=file.stat().st_size).status_code == 200
    lake.close()
    for name in ("catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"):
        (tmp_path / "lake" / name).unlink(missing_ok=True)
    recover(open_store(str(tmp_path / "lake")), f"sqlite:///{tmp_path / 'lake' / 'catalog.sqlite'}", lake.config)
    with moulin.connect(tmp_path / "lake", iceberg_verify="manifest") as found:
        assert found.table("shop.t").scan().to_arrow().to_pylist() == ROWS.to_pylist()
        assert _checked(found) == Verification(1, {})
