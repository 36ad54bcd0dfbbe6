"""Tables whose location an engine chooses: which are taken, what lies there, and what clean-up leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest

import moulin
from moulin.catalog.manifests.recover import recover
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.errors import Corrupt
from moulin.iceberg.check.checker import check as check_iceberg
from moulin.iceberg.check.metadata_files import Files
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from moulin.storage.store import open_store
from moulin.table.verify import verify
from tests.iceberg.rest.served import Client, duckdb_attached, error, pyiceberg_catalog, served

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
SCHEMA = {"type": "struct", "fields": [{"id": 1, "name": "id", "type": "long", "required": False}]}
WHERE = "/namespaces/shop/tables"


@pytest.fixture(params=["all", "sample", "manifest"])
def lake(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake", iceberg_verify=request.param) as lake:
        lake.create_database("shop")
        (tmp_path / "landing").mkdir()
        lake.add_base(tmp_path / "landing", name="landing")
        yield lake


@pytest.fixture
def address(lake: Lake) -> Iterator[str]:
    with served(lake) as address:
        yield address


def _ids(lake: Lake) -> list[int]:
    return sorted(lake.table("shop.t").scan().to_arrow()["id"].to_pylist())


def _files(folder: Path) -> set[str]:
    return {one.name for one in folder.rglob("*.parquet")}


def test_files_of_engines_stay_below_the_location(lake: Lake, address: str, tmp_path: Path) -> None:
    place = tmp_path / "landing" / "t"
    catalog = pyiceberg_catalog(address)
    properties = {"write.delete.mode": "copy-on-write"}
    table = catalog.create_table("shop.t", ROWS.schema, location=str(place), properties=properties)
    assert table.location() == str(place)
    table.append(ROWS)
    table.append(ROWS)
    written = _files(place)
    assert len(written) == 2
    assert _ids(lake) == [1, 1, 2, 2, 3, 3]
    lake.table("shop.t").append({"id": [9]})
    assert sorted(table.refresh().scan().to_arrow()["id"].to_pylist()) == [1, 1, 2, 2, 3, 3, 9]
    table.delete("id = 2")
    assert _ids(lake) == [1, 1, 3, 3, 9]
    with duckdb_attached(address) as duckdb:
        assert duckdb.execute("SELECT sum(id) FROM ice.shop.t").fetchall() == [(17,)]
    assert verify(lake.context, lake.table("shop.t").state()).problems == {}
    lake.table("shop.t").compact(everything=True)
    lake.table("shop.t").set_properties({"moulin.history-keep-seconds": "0"})
    collect(lake.own_catalog())
    assert written <= _files(place), "files of engines are theirs to delete"
    assert _ids(lake) == [1, 1, 3, 3, 9]
    assert check(lake.own_catalog()) == []
    assert check_iceberg(project(lake.context, lake.table("shop.t").id).location, Files(lake.store)) == []
    lake.drop_table("shop.t", immediate=True)
    collect(lake.own_catalog())
    assert written <= _files(place)


def test_locations_outside_of_base_paths_are_refused(lake: Lake, address: str, tmp_path: Path) -> None:
    refused = {
        f"{tmp_path}/other/t": "moulin base add",
        f"{tmp_path}/landingx/t": "moulin base add",
        f"{tmp_path}/lake/warehouse/t": "moulin base add",
        f"{tmp_path}/landing/../other": "holds an empty part",
        f"{tmp_path}/landing/moulin/{UUID(int=7)}/x": "keeps segments",
        "warehouse/t": "is relative",
        "s3://bucket/t": "moulin base add",
    }
    with Client(address) as client:
        for where, reason in refused.items():
            for more in ({}, {"stage-create": True}):
                body = {"name": "t", "schema": SCHEMA, "location": where, **more}
                assert reason in error(client.post(WHERE, json=body), 400, "BadRequestException"), where
        assert client.post(WHERE, json={"name": "t", "schema": SCHEMA}).status_code == 200
        for where, reason in refused.items():
            body = {"requirements": [], "updates": [{"action": "set-location", "location": where}]}
            assert reason in error(client.post(f"{WHERE}/t", json=body), 400, "BadRequestException"), where


def test_a_table_with_rows_gets_another_location_and_its_own_again(lake: Lake, address: str, tmp_path: Path) -> None:
    with Client(address) as client:
        made = client.post(WHERE, json={"name": "t", "schema": SCHEMA}).json()["metadata"]["location"]
        pyiceberg_catalog(address).load_table("shop.t").append(ROWS)
        for where in (f"file:{tmp_path}/landing/t", made):
            body = {"requirements": [], "updates": [{"action": "set-location", "location": where}]}
            assert client.post(f"{WHERE}/t", json=body).json()["metadata"]["location"] == where
            table = pyiceberg_catalog(address).load_table("shop.t")
            table.append(ROWS)
            assert table.location() == where
    assert _ids(lake) == sorted([1, 2, 3] * 3)
    assert len(_files(tmp_path / "landing")) == 1
    clone = lake.clone_table("shop.t", "shop.c")
    assert project(lake.context, clone.id).metadata["location"].endswith(str(clone.id))


def test_statistics_may_lie_below_the_location(lake: Lake, address: str, tmp_path: Path) -> None:
    place = tmp_path / "landing" / "t"
    table = pyiceberg_catalog(address).create_table("shop.t", ROWS.schema, location=str(place))
    table.append(ROWS)
    file = place / "metadata" / "a.stats"
    file.write_bytes(b"PFA1")
    snapshot_id = table.current_snapshot().snapshot_id
    given = {
        "snapshot-id": snapshot_id,
        "statistics-path": str(file),
        "file-size-in-bytes": 4,
        "file-footer-size-in-bytes": 4,
        "blob-metadata": [],
    }
    with Client(address) as client:
        body = {"requirements": [], "updates": [{"action": "set-statistics", "statistics": given}]}
        answer = client.post(f"{WHERE}/t", json=body)
    assert answer.json()["metadata"]["statistics"][0]["statistics-path"] == str(file)


def test_a_file_that_was_replaced_after_it_was_read_is_not_read_again(lake: Lake, address: str, tmp_path: Path) -> None:
    place = tmp_path / "landing" / "t"
    pyiceberg_catalog(address).create_table("shop.t", ROWS.schema, location=str(place)).append(ROWS)
    (file,) = place.rglob("*.parquet")
    file.write_bytes(file.read_bytes()[:-1] + b"X")
    with pytest.raises(Corrupt):
        lake.table("shop.t").scan().to_arrow()


def test_a_location_stays_through_recovery_at_another_address(lake: Lake, address: str, tmp_path: Path) -> None:
    place = str(tmp_path / "landing" / "t")
    pyiceberg_catalog(address).create_table("shop.t", ROWS.schema, location=place).append(ROWS)
    lake.close()
    moved = tmp_path / "moved"
    (tmp_path / "lake").rename(moved)
    for name in ("catalog.sqlite", "catalog.sqlite-wal", "catalog.sqlite-shm"):
        (moved / name).unlink(missing_ok=True)
    recover(open_store(str(moved)), f"sqlite:///{moved / 'catalog.sqlite'}", lake.config)
    with moulin.connect(moved) as found, served(found) as again:
        table = pyiceberg_catalog(again).load_table("shop.t")
        assert table.location() == place
        assert table.metadata_location.startswith(f"file://{moved}/")
        table.append(ROWS)
        assert table.scan().to_arrow().num_rows == found.table("shop.t").count() == 6


def test_engines_delete_rows_of_files_below_the_location(lake: Lake, address: str, tmp_path: Path) -> None:
    place = tmp_path / "landing" / "t"
    for version in (2, 3):
        properties = {"format-version": str(version), "write.delete.mode": "merge-on-read"}
        with Client(address) as client:
            body = {"name": f"t{version}", "schema": SCHEMA, "location": f"{place}{version}", "properties": properties}
            assert client.post(WHERE, json=body).status_code == 200
        with duckdb_attached(address) as duckdb:
            duckdb.execute(f"INSERT INTO ice.shop.t{version} SELECT * FROM range(10)")
            duckdb.execute(f"DELETE FROM ice.shop.t{version} WHERE id % 2 = 0")
            duckdb.execute(f"UPDATE ice.shop.t{version} SET id = 30 WHERE id = 3")
        found = lake.table(f"shop.t{version}")
        assert sorted(found.scan().to_arrow()["id"].to_pylist()) == [1, 5, 7, 9, 30]
        assert verify(lake.context, found.state()).problems == {}
        assert check_iceberg(project(lake.context, found.id).location, Files(lake.store)) == []


def test_keys_of_rows_below_the_location_are_found(lake: Lake, address: str, tmp_path: Path) -> None:
    fields = [{"id": 1, "name": "id", "type": "long", "required": True}]
    schema = {"type": "struct", "fields": fields, "identifier-field-ids": [1]}
    place = str(tmp_path / "landing" / "t")
    with Client(address) as client:
        assert client.post(WHERE, json={"name": "t", "schema": schema, "location": place}).status_code == 200
    rows = pa.table(
        {"id": pa.array([2, 1], pa.int64())}, schema=pa.schema([pa.field("id", pa.int64(), nullable=False)])
    )
    table = pyiceberg_catalog(address).load_table("shop.t")
    table.append(rows)
    table.append(rows)
    assert _ids(lake) == [1, 2]
    assert lake.table("shop.t").get(2) == {"id": 2}


def test_a_base_path_that_is_not_there_is_not_made(lake: Lake, address: str, tmp_path: Path) -> None:
    (tmp_path / "later").mkdir()
    lake.add_base(tmp_path / "later", name="later")
    (tmp_path / "later").rmdir()
    with Client(address) as client:
        body = {"name": "t", "schema": SCHEMA, "location": str(tmp_path / "later" / "t")}
        assert client.post(WHERE, json=body).status_code == 200
    assert not (tmp_path / "later").exists()


def test_a_file_that_was_deleted_comes_back(lake: Lake, address: str, tmp_path: Path) -> None:
    place = tmp_path / "landing" / "t"
    properties = {"write.delete.mode": "copy-on-write"}
    table = pyiceberg_catalog(address).create_table("shop.t", ROWS.schema, location=str(place), properties=properties)
    table.append(ROWS)
    (file,) = place.rglob("*.parquet")
    table.delete("id > 0")
    assert _ids(lake) == []
    table.refresh().add_files([str(file)])
    assert _ids(lake) == [1, 2, 3]
