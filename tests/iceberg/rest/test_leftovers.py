"""What a commit over REST leaves behind, and what it must leave alone: files that the lake itself has and needs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from moulin.catalog.upkeep.check import check
from moulin.catalog.upkeep.gc import collect
from moulin.iceberg.format.avro import read_avro, write_avro
from moulin.lake import Lake
from tests.iceberg.rest.served import Client, duckdb_attached, served
from tests.iceberg.rest.test_commit import SCHEMA, T, Written, commit


@pytest.fixture
def address(lake: Lake) -> Iterator[str]:
    with served(lake) as address:
        yield address


@pytest.fixture(params=["2", "3"], ids=["v2", "v3"])
def client(address: str, lake: Lake, request: pytest.FixtureRequest) -> Iterator[Client]:
    """A table of ten rows, three of them deleted, that was loaded by an engine; in both format versions."""
    with Client(address) as client:
        properties = {"format-version": request.param}
        body = {"name": "t", "schema": SCHEMA, "properties": properties}
        assert client.post("/namespaces/shop/tables", json=body).status_code == 200
        table = lake.table("shop.t")
        table.append([{"id": n, "name": "x"} for n in range(10)])
        table.delete_where("id < 3")
        assert client.get(T).status_code == 200
        yield client


def files(lake: Lake) -> set[str]:
    return {info.path for info in lake.store.list("tables")}


def local(where: str) -> Path:
    return Path(where.removeprefix("file://"))


def ids(address: str) -> list[int]:
    """The rows as DuckDB reads them through the catalog."""
    with duckdb_attached(address) as connection:
        return sorted(row[0] for row in connection.execute("select id from ice.shop.t").fetchall())


def sound(lake: Lake, address: str, before: set[str], expected: list[int]) -> None:
    assert before <= files(lake), f"gone: {before - files(lake)}"
    assert ids(address) == expected
    assert check(lake.own_catalog()) == []


def follow(client: Client, manifest_list: str | None = None) -> httpx.Response:
    """A snapshot that follows the current one, with this manifest list, or with that of the current one."""
    metadata = client.get(T).json()["metadata"]
    now = metadata["snapshots"][-1]
    snapshot = {**now, "snapshot-id": 4711, "parent-snapshot-id": now["snapshot-id"]}
    snapshot["sequence-number"] = metadata["last-sequence-number"] + 1
    snapshot["manifest-list"] = manifest_list or now["manifest-list"]
    if "next-row-id" in metadata:
        snapshot["first-row-id"] = metadata["next-row-id"]
    updates: list[Any] = [
        {"action": "add-snapshot", "snapshot": snapshot},
        {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": 4711},
    ]
    return commit(client, updates)


def test_a_second_copy_of_the_delete_manifest_takes_no_live_file_with_it(
    lake: Lake, client: Client, address: str
) -> None:
    before = files(lake)
    where = local(client.get(T).json()["metadata"]["snapshots"][-1]["manifest-list"])
    records, header = read_avro(where.read_bytes(), "")
    deletes = next(one for one in records if one["content"] == 1)
    copy = where.with_name("copy-m0.avro")
    copy.write_bytes(local(deletes["manifest_path"]).read_bytes())
    records.append({**deletes, "manifest_path": f"file://{copy}"})
    kept = {key: value for key, value in header.items() if not key.startswith("avro.")}
    mine = where.with_name("snap-of-mine.avro")
    mine.write_bytes(write_avro(json.loads(header["avro.schema"]), records, kept))
    answer = follow(client, f"file://{mine}")
    assert answer.status_code == 200, answer.text
    sound(lake, address, before, list(range(3, 10)))
    assert not copy.exists(), "what the commit itself brought goes"
    assert not mine.exists()
    collect(lake.own_catalog(), byte_floor=0, orphan_grace=0)
    assert ids(address) == list(range(3, 10))


def test_a_snapshot_that_names_the_current_manifest_list_takes_no_live_file_with_it(
    lake: Lake, client: Client, address: str
) -> None:
    before = files(lake)
    answer = follow(client)
    assert answer.status_code == 200, answer.text
    sound(lake, address, before, list(range(3, 10)))


@pytest.mark.parametrize("client", ["2"], indirect=True)  # pyiceberg writes no others
def test_what_the_engine_wrote_goes(lake: Lake, client: Client, address: str) -> None:
    written = Written(address, client, [["new"], [77]])
    before = files(lake)
    assert written.send().status_code == 200
    brought = before - files(lake)
    assert {path.rpartition(".")[2] for path in brought} == {"parquet", "avro"}
    assert all("_moulin_segment" not in path for path in brought)


@pytest.mark.sample(3)
@pytest.mark.parametrize("kind", ["metadata.json", "snap-", "m.avro", "all"])
def test_a_lost_file_of_a_projection_is_made_again(
    lake: Lake, client: Client, address: str, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("moulin.iceberg.projection.projection.LOOK_SECONDS", 0.0)
    metadata = next(info.path for info in lake.store.list("tables")).split("/")[1]
    folder = f"tables/{metadata}/metadata"
    found = [info.path for info in lake.store.list(folder)]
    lost = {
        "metadata.json": [path for path in found if path.endswith(".metadata.json")],
        "snap-": [path for path in found if "/snap-" in path],
        "m.avro": [path for path in found if path.endswith(".avro") and "/snap-" not in path],
        "all": found,
    }[kind]
    assert lost
    lake.store.delete(lost)
    with served(lake) as another:
        assert ids(another) == list(range(3, 10))
        lake.table("shop.t").append([{"id": 10, "name": "y"}])
        assert ids(another) == list(range(3, 11))
    collect(lake.own_catalog(), history_keep=0, byte_floor=0, orphan_grace=0)
    assert ids(address) == list(range(3, 11))
