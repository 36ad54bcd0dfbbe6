"""Registered tables: dropped ones come back, foreign ones are copied, and nothing outside of the storage is read."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import moulin
from moulin.catalog.upkeep.check import check
from moulin.lake import Lake
from moulin.table.table import Table
from tests.iceberg.conftest import COLUMNS, rows
from tests.iceberg.rest.served import Client, error, pyiceberg_catalog, served


@pytest.fixture
def client(lake: Lake) -> Iterator[Client]:
    with served(lake) as address, Client(address) as client:
        yield client


@pytest.fixture(params=["2", "3"], ids=["v2", "v3"])
def foreign(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Table]:
    """A table of another lake."""
    with moulin.connect(tmp_path / "other") as other:
        other.create_database("far")
        properties = {"format-version": request.param, "owner": "me"}
        yield other.create_table("far.orders", COLUMNS, partition_by=["region"], properties=properties)


def register(client: Client, name: str, where: str, **more: Any) -> httpx.Response:
    return client.post("/namespaces/shop/register", json={"name": name, "metadata-location": where, **more})


def ids(lake: Lake, name: str) -> list[int]:
    return sorted(lake.table(f"shop.{name}").scan().to_arrow()["id"].to_pylist())


SECRET = "s3cr3t"


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (f"root:{SECRET}:0:0\n", "it is not JSON"),
        (f'{{"{SECRET}": "{SECRET}"}}', "format version 1, 2 or 3"),
        (f'{{"format-version": "{SECRET}"}}', "format version 1, 2 or 3"),
        (f'"{SECRET}"', "format version 1, 2 or 3"),
        (f'{{"format-version": 2, "location": ["{SECRET}"], "{SECRET}": 1}}', "its field"),
        (f'{{"format-version": 2, "location": "x", "properties": {{"{SECRET}": {{"{SECRET}": 1}}}}}}', "its field"),
        (f"\udcff{SECRET}", "it is not text"),
    ],
)
def test_an_error_quotes_nothing_of_a_file_that_is_no_metadata(
    lake: Lake, client: Client, content: str, said: str
) -> None:
    lake.store.put("far/access.toml", content.encode(errors="surrogateescape"))
    where = f"{lake.store.uri}/far/access.toml"
    answer = register(client, "stolen", where)
    assert SECRET not in answer.text
    assert said in error(answer, 400, "BadRequestException")


def test_a_dropped_table_comes_back(lake: Lake, orders: Table, client: Client) -> None:
    path = "/namespaces/shop/tables/orders"
    orders.append(rows(0, 3))
    first = client.get(path).json()["metadata-location"]
    orders.append(rows(3, 2))
    where = client.get(path).json()["metadata-location"]
    assert "rename it" in error(register(client, "again", where), 409, "AlreadyExistsException")
    assert client.delete(path).status_code == 204
    answer = register(client, "again", where)
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata"]["table-uuid"] == str(orders.id)
    assert ids(lake, "again") == [0, 1, 2, 3, 4]
    error(register(client, "again", where), 409, "AlreadyExistsException")
    client.delete("/namespaces/shop/tables/again")
    assert register(client, "older", first).status_code == 200
    assert ids(lake, "older") == [0, 1, 2]
    client.delete("/namespaces/shop/tables/older", params={"purgeRequested": "true"})


def test_a_foreign_table_is_copied(lake: Lake, foreign: Table, client: Client, tmp_path: Path) -> None:
    foreign.append(rows(0, 5))
    foreign.append(rows(5, 5, None))
    foreign.delete_where("id in (1, 7)")
    foreign.rename_column("amount", "price")
    foreign.add_column("note", "string")
    made = foreign.export_iceberg(tmp_path / "lake" / "imports" / "orders", copy=True)
    before = set((tmp_path / "lake" / "imports").rglob("*"))
    answer = register(client, "copy", made.metadata_location)
    assert answer.status_code == 200, answer.text
    assert answer.json()["metadata"]["table-uuid"] != str(foreign.id)
    copied = lake.table("shop.copy")
    assert copied.scan().to_arrow().sort_by("id") == foreign.scan().to_arrow().sort_by("id")
    assert copied.properties["owner"] == "me"
    assert copied.state().spec.fields == foreign.state().spec.fields
    assert copied.scan(where="region = 'eu'").count() == 4
    copied.append([{"id": 100, "region": "us"}])
    assert set((tmp_path / "lake" / "imports").rglob("*")) == before
    assert check(lake.own_catalog()) == []


def test_metadata_that_cannot_be_registered_is_refused(
    lake: Lake, client: Client, foreign: Table, tmp_path: Path
) -> None:
    foreign.append(rows(0, 2))
    outside = foreign.export_iceberg(tmp_path / "elsewhere", copy=True)
    inside = tmp_path / "lake" / "imports"
    bare = foreign.export_iceberg(inside / "bare")  # names files of another place
    broken = inside / "broken.metadata.json"
    broken.write_text("{}")
    for where in (
        outside.metadata_location,
        bare.metadata_location,
        f"file://{broken}",
        f"file://{inside}/none.metadata.json",
        f"file://{inside}/../../../etc/passwd",
        "s3://bucket/x.metadata.json",
        "/etc/passwd",
    ):
        error(register(client, "new", where), 400, "BadRequestException")
    with moulin.connect(tmp_path / "third") as third:
        third.create_database("far")
        keyed = third.create_table("far.keyed", [("id", "long", False)], primary_key=["id"])
        keyed.append([{"id": 1}])
        made = keyed.export_iceberg(inside / "keyed", copy=True)
    assert "a key twice" in error(register(client, "new", made.metadata_location), 400, "BadRequestException")
    error(register(client, "new", made.metadata_location, overwrite=True), 400, "BadRequestException")
    error(client.post("/namespaces/shop/register", json={"name": "x"}), 400, "BadRequestException")
    assert lake.tables("shop") == []


def test_pyiceberg_registers_a_table_and_reads_its_rows(lake: Lake, foreign: Table, tmp_path: Path) -> None:
    foreign.append(rows(0, 2))
    made = foreign.export_iceberg(tmp_path / "lake" / "imports" / "orders", copy=True)
    with served(lake) as address:
        table = pyiceberg_catalog(address).register_table("shop.copy", made.metadata_location)
        assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [0, 1]
