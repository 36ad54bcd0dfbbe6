"""Snapshots that engines expire over REST: what is shown at once, and what clean-up deletes then."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import moulin
from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.errors import NotFound
from moulin.iceberg.check.checker import check as check_iceberg
from moulin.iceberg.check.metadata_files import Files
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from tests.iceberg.rest.served import Client, error, pyiceberg_catalog, served


@pytest.fixture
def lake(tmp_path: Path) -> Iterator[Lake]:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        lake.create_table(
            "shop.t", [("id", "long")], properties={"format-version": "2", "write.delete.mode": "copy-on-write"}
        )
        yield lake


@pytest.fixture
def address(lake: Lake) -> Iterator[str]:
    with served(lake) as address:
        yield address


@pytest.fixture
def table(address: str) -> Any:
    """Five snapshots: each has one row more than the one before it, and the last lacks row 0."""
    table = pyiceberg_catalog(address).load_table("shop.t")
    for number in range(4):
        table.append(pa.table({"id": pa.array([number], pa.int64())}))
    table.delete("id = 0")
    return table


def _ids(table: Any) -> list[int]:
    return [one.snapshot_id for one in table.snapshots()]


def _rows(lake: Lake, version: int) -> list[int]:
    return sorted(lake.table("shop.t").as_of(version).scan().to_arrow()["id"].to_pylist())


def _version(table: Any, snapshot_id: int) -> int:
    return int(table.snapshot_by_id(snapshot_id).summary["moulin.version"])


def test_the_oldest_snapshots_go_and_clean_up_deletes_their_files(lake: Lake, table: Any) -> None:
    ids = _ids(table)
    versions = [_version(table, one) for one in ids]
    files = {one.facts.path for one in lake.catalog.segments(lake.table("shop.t").id, versions[0])}
    table.maintenance.expire_snapshots().by_ids(ids[:4]).commit()
    assert _ids(table.refresh()) == ids[4:]
    assert _rows(lake, versions[2]) == [0, 1, 2]
    collect(lake.own_catalog(), byte_floor=0)
    with pytest.raises(NotFound):
        _rows(lake, versions[2])
    assert _rows(lake, versions[4]) == [1, 2, 3]
    assert not any(lake.store.exists(path) for path in files)
    assert check(lake.own_catalog()) == []
    assert check_iceberg(project(lake.context, lake.table("shop.t").id).location, Files(lake.store)) == []
    table.append(pa.table({"id": pa.array([9], pa.int64())}))
    assert len(_ids(table)) == 2
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 2, 3, 9]


def test_a_snapshot_between_others_is_hidden_and_its_version_stays(lake: Lake, table: Any) -> None:
    ids = _ids(table)
    versions = [_version(table, one) for one in ids]
    table.maintenance.expire_snapshots().by_ids([ids[0], ids[2]]).commit()
    assert _ids(table.refresh()) == [ids[1], ids[3], ids[4]]
    collect(lake.own_catalog())
    assert _rows(lake, versions[2]) == [0, 1, 2]
    with pytest.raises(NotFound):
        _rows(lake, versions[0])
    table.append(pa.table({"id": pa.array([9], pa.int64())}))
    assert _ids(table)[:3] == [ids[1], ids[3], ids[4]]


def test_a_property_of_the_table_keeps_versions_that_an_engine_expired(lake: Lake, table: Any) -> None:
    ids = _ids(table)
    first = _version(table, ids[0])
    lake.table("shop.t").set_properties({"moulin.history-keep-seconds": "86400"})
    table.refresh().maintenance.expire_snapshots().by_ids(ids[:4]).commit()
    assert _ids(table.refresh()) == ids[4:]
    collect(lake.own_catalog())
    assert _rows(lake, first) == [0]


def test_named_snapshots_stay(lake: Lake, address: str, table: Any) -> None:
    ids = _ids(table)
    table.manage_snapshots().create_tag(ids[1], "audit").commit()
    with Client(address) as client:
        for removed, name in ((ids[1], "audit"), (ids[4], "main")):
            body = {"requirements": [], "updates": [{"action": "remove-snapshots", "snapshot-ids": [removed]}]}
            message = error(client.post("/namespaces/shop/tables/t", json=body), 400, "BadRequestException")
            assert f"is named '{name}', and stays" in message
        body["updates"][0]["snapshot-ids"] = ["x"]
        error(client.post("/namespaces/shop/tables/t", json=body), 400, "BadRequestException")
        own = {"action": "set-properties", "updates": {"moulin.expired-before": "99"}}
        error(
            client.post("/namespaces/shop/tables/t", json={"requirements": [], "updates": [own]}),
            400,
            "BadRequestException",
        )
    version = _version(table, ids[1])
    table.maintenance.expire_snapshots().by_ids([ids[0], ids[2], ids[3]]).commit()
    assert sorted(_ids(table.refresh())) == sorted([ids[1], ids[4]])
    collect(lake.own_catalog())
    assert _rows(lake, version) == [0, 1]
