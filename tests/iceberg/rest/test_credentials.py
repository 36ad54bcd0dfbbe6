"""Vended credentials for a lake on S3, from a token service that the tests run."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import httpx
import pyarrow as pa
import pytest

import moulin
from moulin.iceberg.rest import credentials
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.roles import Role
from moulin.sized_cache import SizedCache
from moulin.storage.sts import Sts
from tests.conftest import S3_KEYS
from tests.iceberg.rest.served import Client, duckdb_connection, error, pyiceberg_catalog, served
from tests.storage.policies import allows

T = "/namespaces/shop/tables/orders"
WANTED = {"X-Iceberg-Access-Delegation": "vended-credentials"}
ROLE = "arn:aws:iam::123456789012:role/engines"
SCHEMA = {"type": "struct", "schema-id": 0, "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}]}


@pytest.fixture
def lent(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The policies of all credentials that are lent."""
    made: list[str] = []
    lend = Sts.lend
    monkeypatch.setattr(credentials, "_lent", SizedCache(100))
    monkeypatch.setattr(Sts, "lend", lambda self, *given: made.append(self.policy(given[0])) or lend(self, *given))
    return made


@pytest.fixture
def lake(tmp_path: Path, s3_url: str, s3_options: dict[str, str]) -> Iterator[Lake]:
    options = {**s3_options, "sts_role_arn": ROLE}
    with moulin.connect(tmp_path / "lake", storage=s3_url, storage_options=options) as lake:
        lake.create_database("shop")
        lake.create_table("shop.orders", [("id", "long")], properties={"format-version": "2"}).append([{"id": 1}])
        lake.create_table("shop.orders2", [("id", "long")]).append([{"id": 2}])
        yield lake


@pytest.fixture
def access(tmp_path: Path) -> AccessFile:
    return AccessFile(tmp_path / "access.toml")


@pytest.fixture
def reader(access: AccessFile) -> str:
    return access.create("reader", Role.READ)


@pytest.fixture
def writer(access: AccessFile) -> str:
    return access.create("writer", Role.WRITE)


@pytest.fixture
def address(lake: Lake, access: AccessFile, reader: str, writer: str, lent: list[str]) -> Iterator[str]:
    with served(lake, access) as address:
        yield address


@pytest.fixture
def clients(address: str, reader: str, writer: str) -> Iterator[tuple[Client, Client]]:
    heads = [{"Authorization": f"Bearer {one}", **WANTED} for one in (reader, writer)]
    with Client(address, headers=heads[0]) as first, Client(address, headers=heads[1]) as second:
        yield first, second


def load(client: Client, where: str = T, **headers: str) -> Any:
    answer = client.get(where, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def key(lake: Lake, name: str, rest: str) -> tuple[str, str]:
    """Bucket and key of a file of a table."""
    bucket, _, prefix = lake.store.uri.removeprefix("s3://").partition("/")
    return bucket, f"{prefix}/tables/{lake.table(name).id}/{rest}"


def test_a_table_comes_with_credentials_for_its_files_alone(
    lake: Lake, clients: tuple[Client, Client], lent: list[str]
) -> None:
    found = load(clients[0])
    (one,) = found["storage-credentials"]
    assert one["prefix"] == found["metadata"]["location"] + "/"
    assert found["config"]["s3.session-token"] == one["config"]["s3.session-token"]
    assert int(one["config"]["s3.session-token-expires-at-ms"]) > time.time() * 1000
    assert one["config"]["client.refresh-credentials-endpoint"] == f"v1{T}/credentials"
    load(clients[1])
    read, write = lent
    for policy in (read, write):
        assert allows(policy, "s3:GetObject", *key(lake, "shop.orders", "data/x.parquet"))
        assert not allows(policy, "s3:GetObject", *key(lake, "shop.orders2", "data/x.parquet"))
        assert not allows(policy, "s3:PutObject", *key(lake, "shop.orders2", "data/x.parquet"))
    assert not allows(read, "s3:PutObject", *key(lake, "shop.orders", "data/x.parquet"))
    assert allows(write, "s3:PutObject", *key(lake, "shop.orders", "data/x.parquet"))
    assert not allows(write, "s3:PutObject", *key(lake, "shop.orders", "metadata/00001-x.metadata.json"))


def test_nobody_gets_credentials_without_asking(lake: Lake, address: str, writer: str, lent: list[str]) -> None:
    with Client(address, headers={"Authorization": f"Bearer {writer}"}) as client:
        assert load(client)["config"] == {}
        assert "storage-credentials" not in load(client)
        signing = load(client, **{"X-Iceberg-Access-Delegation": "remote-signing"})
        assert signing["config"] == {}
        assert lent == []
        found = client.get(f"{T}/credentials").json()["storage-credentials"]
        assert len(found) == len(lent) == 1, "whoever asks for credentials by name need not say it twice"


def test_created_and_staged_tables_come_with_credentials(clients: tuple[Client, Client], lent: list[str]) -> None:
    for name, staged in (("made", False), ("staged", True)):
        body = {"name": name, "schema": SCHEMA, "stage-create": staged}
        error(clients[0].post("/namespaces/shop/tables", json=body), 403, "ForbiddenException")
        assert len(lent) == staged
        found = clients[1].post("/namespaces/shop/tables", json=body).json()
        (one,) = found["storage-credentials"]
        assert one["prefix"] == found["metadata"]["location"] + "/"
        for place in ("s3://other/place", "s3://other", "file:///etc", found["metadata"]["location"] + "2"):
            wished = clients[1].post("/namespaces/shop/tables", json={**body, "name": "x", "location": place})
            error(wished, 400, "BadRequestException")
        assert len(lent) == 1 + staged, "nothing is lent for an address that a client sent"


def test_credentials_are_renewed_and_old_ones_are_not_confirmed(
    clients: tuple[Client, Client], lent: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = time.time()
    monkeypatch.setattr(credentials.time, "time", lambda: clock)

    def renewed() -> Any:
        (one,) = clients[0].get(f"{T}/credentials").json()["storage-credentials"]
        return one["config"]["s3.access-key-id"]

    load(clients[0])  # projects it
    first = clients[0].get(T)
    tag = {"If-None-Match": first.headers["etag"]}
    assert clients[0].get(T, headers=tag).status_code == 304
    assert renewed() == first.json()["config"]["s3.access-key-id"]
    plain = clients[0].get(T, headers={"X-Iceberg-Access-Delegation": ""}).headers["etag"]
    assert clients[0].get(T, headers={"If-None-Match": plain}).status_code == 200, "that answer had none"
    assert clients[1].get(T, headers=tag).status_code == 200, "another caller has other credentials"
    clock += 1900
    assert renewed() != first.json()["config"]["s3.access-key-id"], "they have lived for half of their time"
    again = clients[0].get(T, headers=tag)
    assert again.status_code == 200
    assert again.json()["config"]["s3.access-key-id"] != first.json()["config"]["s3.access-key-id"]


def test_files_in_folders_of_other_tables_are_covered(
    lake: Lake, clients: tuple[Client, Client], lent: list[str]
) -> None:
    """A clone, a branch, and a table that a branch was published to."""
    for number in range(3, 6):
        lake.table("shop.orders").append([{"id": number}])
    lake.table("shop.orders").compact(everything=True)
    lake.clone_table("shop.orders", "shop.copy")
    with lake.branch("exp") as branch:
        branch.table("shop.orders").append(pa.table({"id": range(100, 20_000)}))
        branch.table("shop.orders").delete_where("id = 4")
    read = clients[0]

    def covered(where: str) -> None:
        found = load(read, where)
        plan = read.post(f"{where}/plan", json={}).json()
        files = [task["data-file"]["file-path"] for task in plan["file-scan-tasks"]]
        files += [one["file-path"] for one in plan["delete-files"]] + [found["metadata-location"]]
        files += [one["manifest-list"] for one in found["metadata"]["snapshots"]]
        assert files
        for file in files:
            bucket, _, path = file.removeprefix("s3://").partition("/")
            assert allows(lent[-1], "s3:GetObject", bucket, path), file
        assert not allows(lent[-1], "s3:GetObject", *key(lake, "shop.orders2", "data/x.parquet"))

    covered("/namespaces/shop/tables/copy")
    covered(f"/@exp{T}")
    lake.publish("exp")
    covered(T)


def test_engines_read_and_write_with_nothing_but_a_token(lake: Lake, address: str, reader: str, writer: str) -> None:
    catalog = pyiceberg_catalog(address, token=writer)
    catalog.load_table("shop.orders").append(pa.table({"id": pa.array([7], pa.int64())}))
    table = pyiceberg_catalog(address, token=reader).load_table("shop.orders")
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == [1, 7]
    assert "s3.session-token" in table.io.properties
    assert table.io.properties["s3.access-key-id"] != S3_KEYS["access_key_id"]


def test_duckdb_reads_with_nothing_but_a_token(lake: Lake, address: str, reader: str) -> None:
    connection = duckdb_connection()
    connection.execute(f"ATTACH 'lake' AS ice (TYPE iceberg, ENDPOINT '{address}', TOKEN '{reader}')")
    assert connection.sql("SELECT id FROM ice.shop.orders").fetchall() == [(1,)]
    connection.close()


def test_a_token_service_that_fails_is_said(
    lake: Lake, clients: tuple[Client, Client], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    sts = lake.store.sts
    assert sts is not None
    with caplog.at_level(logging.DEBUG):
        found = load(clients[0])
        monkeypatch.setattr(sts, "_address", "http://127.0.0.1:1/")
        message = error(clients[1].get(T), 503, "ServiceUnavailableException")
        refused = clients[1].post("/namespaces/shop/tables", json={"name": "late", "schema": SCHEMA})
        error(refused, 503, "ServiceUnavailableException")
    assert [one.name for one in lake.tables("shop")].count("late") == 0, "nothing is made that is not answered for"
    hidden = [
        S3_KEYS["secret_access_key"],
        found["config"]["s3.secret-access-key"],
        found["config"]["s3.session-token"],
    ]
    logged = [f"{one.getMessage()} {vars(one)}" for one in caplog.records if one.name.startswith("moulin")]
    assert not any(secret in text for secret in hidden for text in [*logged, message])


def test_secrets_are_in_no_object_of_the_lake(lake: Lake, clients: tuple[Client, Client]) -> None:
    config = load(clients[1])["config"]
    hidden = [config[name].encode() for name in ("s3.secret-access-key", "s3.session-token")]
    objects = [lake.store.get(info.path) for info in lake.store.list()]
    assert objects
    assert not any(secret in data for secret in hidden for data in objects)


def test_credentials_of_another_branchs_table_or_no_table_are_not_lent(
    lake: Lake, clients: tuple[Client, Client], lent: list[str]
) -> None:
    with lake.branch("exp") as branch:
        branch.create_table("shop.hidden", [("id", "long")])
    ask = clients[0].get
    error(ask("/namespaces/shop/tables/hidden/credentials"), 404, "NoSuchTableException")
    assert ask("/@exp/namespaces/shop/tables/hidden/credentials").status_code == 200
    error(ask("/@none/namespaces/shop/tables/hidden/credentials"), 404, "NotFoundException")
    for name in (
        "..%2Forders",
        "orders%2F..%2Forders2",
        "%2e%2e",
        "*",
        "orders%3Fx",
        "",
        str(UUID(int=0)),
        "orders%00",
    ):
        answer: httpx.Response = ask(f"/namespaces/shop/tables/{name}/credentials")
        assert answer.status_code >= 400, (name, answer.text)
    assert len(lent) == 1, "for the table of the branch, through the branch"
