"""Tables whose location an engine chooses: which are taken, what lies there, and what clean-up leaves alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from uuid import UUID

import pyarrow as pa
import pytest

import moulin
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.errors import Corrupt
from moulin.iceberg.check.checker import check as check_iceberg
from moulin.iceberg.check.metadata_files import Files
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
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
