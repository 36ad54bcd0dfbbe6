"""Namespaces of several levels, and names with dots: each is one database or table, however it is written."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.errors import FailedPrecondition, InvalidInput
from moulin.lake import Lake
from tests.iceberg.conftest import COLUMNS, rows
from tests.iceberg.rest.served import Client, duckdb_attached, error, pyiceberg_catalog, served


@pytest.fixture
def address(lake: Lake) -> Iterator[str]:
    with served(lake) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as client:
        yield client


def _make(client: Client, *levels: str) -> None:
    assert client.post("/namespaces", json={"namespace": list(levels)}).json()["namespace"] == list(levels)


def _listed(client: Client, parent: str | None = None) -> Any:
    return client.get("/namespaces", params={} if parent is None else {"parent": parent}).json()["namespaces"]


def test_levels_are_databases_below_databases(client: Client, lake: Lake) -> None:
    for levels in (("a",), ("a", "b"), ("a", "b", "c"), ("a", "d")):
        _make(client, *levels)
    assert [one.name for one in lake.databases()] == ["a", "a.b", "a.b.c", "a.d", "shop"]
    assert _listed(client) == [["a"], ["shop"]]
    assert _listed(client, "a") == [["a", "b"], ["a", "d"]]
    assert _listed(client, "a\x1fb") == [["a", "b", "c"]]
    assert client.head("/namespaces/a%1Fb%1Fc").status_code == 204
    assert client.get("/namespaces/a%1Fd").json() == {"namespace": ["a", "d"], "properties": {}}
    assert "is not empty" in error(client.delete("/namespaces/a%1Fb"), 409, "NamespaceNotEmptyException")
    assert client.delete("/namespaces/a%1Fb%1Fc").status_code == 204
    assert client.delete("/namespaces/a%1Fb").status_code == 204
    assert _listed(client, "a") == [["a", "d"]]


def test_pages_list_every_level_once(client: Client, lake: Lake) -> None:
    for name in ("a", "a.x", "a.y", "a.z", "b"):
        lake.create_database(name)
    seen, token = [], ""
    while token is not None:
        answer = client.get("/namespaces", params={"parent": "a", "pageToken": token, "pageSize": 2}).json()
        seen, token = seen + answer["namespaces"], answer["next-page-token"]
    assert seen == [["a", "x"], ["a", "y"], ["a", "z"]]


def test_a_level_needs_those_above_it(client: Client) -> None:
    missing = error(client.post("/namespaces", json={"namespace": ["a", "b"]}), 404, "NoSuchNamespaceException")
    assert missing == "Namespace does not exist: a"
    for levels in ([], ["a", ""], ["", "a"], ["a/b"], ["a`"], [7]):
        error(client.post("/namespaces", json={"namespace": levels}), 400, "BadRequestException")


def test_a_name_with_dots_is_one_level_until_there_is_one_above(client: Client, lake: Lake) -> None:
    _make(client, "new.db")
    assert _listed(client) == [["new.db"], ["shop"]]
    _make(client, "new")
    assert (_listed(client), _listed(client, "new")) == ([["new"], ["shop"]], [["new", "db"]])
    for spelled in ("new.db", "new%1Fdb"):
        assert client.head(f"/namespaces/{spelled}").status_code == 204
    error(client.post("/namespaces", json={"namespace": ["new", "db"]}), 409, "AlreadyExistsException")


def test_properties_of_a_level_are_set_and_removed(client: Client) -> None:
    _make(client, "a")
    _make(client, "a", "b")
    where = "/namespaces/a%1Fb/properties"
    assert client.post(where, json={"updates": {"owner": "me", "k": "1"}}).json()["updated"] == ["k", "owner"]
    answer = client.post(where, json={"updates": {}, "removals": ["k", "none"]}).json()
    assert (answer["removed"], answer["missing"]) == (["k"], ["none"])
    assert client.get("/namespaces/a%1Fb").json()["properties"] == {"owner": "me"}
    assert client.get("/namespaces/a").json()["properties"] == {}


def test_a_branch_is_named_by_the_prefix_alone(client: Client, lake: Lake) -> None:
    lake.branch("exp")
    refused = error(client.post("/namespaces", json={"namespace": ["x@exp"]}), 400, "BadRequestException")
    assert "warehouse=lake@BRANCH" in refused
    for where in ("/namespaces/shop@exp", "/namespaces/shop@exp/tables", "/@exp/namespaces/shop@exp"):
        error(client.get(where), 404, "NoSuchNamespaceException")
    body = {"name": "t", "schema": {"type": "struct", "fields": []}}
    error(client.post("/namespaces/shop@exp/tables", json=body), 404, "NoSuchNamespaceException")
    assert _listed(client) == [["shop"]]
    with lake.open_branch("exp") as exp:
        assert [one.name for one in exp.databases()] == ["shop"]


def test_levels_of_a_branch_are_its_own(client: Client, lake: Lake) -> None:
    lake.create_database("a")
    lake.create_database("a.b")
    lake.create_table("`a.b`.t", COLUMNS)
    lake.branch("exp")
    client.base_url = client.base_url.join("@exp/")
    assert (_listed(client), _listed(client, "a")) == ([["a"], ["shop"]], [["a", "b"]])
    error(client.delete("/namespaces/a"), 409, "NamespaceNotEmptyException")
    found = client.get("/namespaces/a%1Fb/tables").json()["identifiers"]
    assert found == [{"namespace": ["a", "b"], "name": "t"}]
    assert lake.table("`a.b`.t@exp").count() == 0
    lake.drop_branch("exp")
    assert [one.name for one in lake.databases()] == ["a", "a.b", "shop"]


def test_pyiceberg_and_duckdb_write_into_levels(address: str, lake: Lake) -> None:
    catalog = pyiceberg_catalog(address)
    catalog.create_namespace(("a",))
    catalog.create_namespace(("a", "b"))
    lake.create_table("`a.b`.t", COLUMNS, properties={"format-version": "2"})
    lake.table("`a.b`.t").append(rows(0, 3))
    table = catalog.load_table(("a", "b", "t"))
    table.append(table.scan().to_arrow())
    assert lake.table("`a.b`.t").count() == 6
    assert catalog.list_tables(("a", "b")) == [("a", "b", "t")]
    catalog.rename_table(("a", "b", "t"), ("a", "ta.ble"))
    assert catalog.list_tables("a") == [("a", "ta.ble")]
    duckdb = duckdb_attached(address)
    duckdb.execute('CREATE TABLE ice."a.b".u AS SELECT 1::BIGINT AS id')
    duckdb.close()
    assert lake.table("`a.b`.u").scan().to_pylist() == [{"id": 1}]
    assert lake.table("a.`ta.ble`").name == "a.`ta.ble`"


def test_a_database_with_others_below_it_stays(lake: Lake) -> None:
    lake.create_database("a")
    lake.create_database("a.b")
    lake.create_database("ab.c")
    for change in (lambda: lake.drop_database("a", cascade=True), lambda: lake.rename_database("a", "z")):
        with pytest.raises(FailedPrecondition, match=r"others below it, 'a\.b': (drop|rename) those first"):
            change()
    lake.rename_database("a.b", "z.b")
    lake.drop_database("a")


def test_names_with_dots_are_quoted_in_duckdb_and_on_the_command_line(tmp_path: Path, lake: Lake) -> None:
    lake.create_database("a.b")
    table = lake.create_table("`a.b`.`or.ders`", COLUMNS)
    table.append(rows(0, 2))
    assert table.state().full_name == "`a.b`.`or.ders`"
    assert lake.duckdb().sql('SELECT count(*) FROM "a.b"."or.ders"').fetchall() == [(2,)]
    with pytest.raises(InvalidInput, match="has 3 parts, not two.*put a name with dots between backquotes"):
        lake.table("a.b.orders")
    with moulin.connect(tmp_path / "lake") as again:
        assert [(one.database, one.name) for one in again.tables("a.b")] == [("a.b", "or.ders")]
