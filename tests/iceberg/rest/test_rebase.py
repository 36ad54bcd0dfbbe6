"""Appends that lost a race on a table that rebases them, as plain requests."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moulin.catalog.upkeep.check import check
from moulin.iceberg.format.avro import read_avro, write_avro
from moulin.lake import Lake
from tests.iceberg.rest.served import Client, duckdb_attached, error, served
from tests.iceberg.rest.test_commit import SCHEMA, T, Written

ON = {"moulin.rebase-appends": "true"}


@pytest.fixture
def address(lake: Lake) -> Iterator[str]:
    with served(lake) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as client:
        made = client.post("/namespaces/shop/tables", json={"name": "t", "schema": SCHEMA, "properties": ON})
        assert made.status_code == 200, made.text
        yield client


def ids(lake: Lake) -> list[int]:
    return sorted(lake.table("shop.t").scan(["id"]).to_arrow()["id"].to_pylist())


def test_an_append_that_lost_follows_the_snapshot_that_won(address: str, client: Client, lake: Lake) -> None:
    lake.table("shop.t").append([{"id": 0, "name": "ours"}])
    lost = [Written(address, client, [["a"], [n]]) for n in (1, 2, 3)]
    lake.table("shop.t").append([{"id": 9, "name": "ours"}])
    for one in lost:
        answer = one.send()
        assert answer.status_code == 200, answer.text
        metadata = answer.json()["metadata"]
        assert metadata["current-snapshot-id"] == one.snapshot["snapshot-id"], "the answer shows what was committed"
        now = metadata["snapshots"][-1]
        assert now["parent-snapshot-id"] == metadata["snapshots"][-2]["snapshot-id"]
        assert now["sequence-number"] == metadata["last-sequence-number"] > one.snapshot["sequence-number"]
    assert ids(lake) == [0, 1, 2, 3, 9]
    with duckdb_attached(address) as connection:
        assert connection.execute("select count(*), sum(id) from ice.shop.t").fetchone() == (5, 15)
    assert {one.snapshot["snapshot-id"] for one in lost} <= {
        one["snapshot-id"] for one in client.get(T).json()["metadata"]["snapshots"]
    }
    assert check(lake.own_catalog()) == []


def test_tables_rebase_nothing_unless_they_say_so(address: str, client: Client, lake: Lake) -> None:
    lake.table("shop.t").set_properties({"moulin.rebase-appends": "false"})
    written = Written(address, client)
    lake.table("shop.t").append([{"id": 9, "name": "ours"}])
    error(written.send(), 409, "CommitFailedException")
    assert ids(lake) == [9]
    assert client.get("/config").json()["defaults"]["moulin.table-property.rebase-appends"] == "moulin.rebase-appends"


def test_an_append_that_is_sent_again_is_not_made_again(address: str, client: Client, lake: Lake) -> None:
    written = Written(address, client)
    first = written.send()
    lake.table("shop.t").append([{"id": 9, "name": "ours"}])
    again = written.send()
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json()["metadata"]["current-snapshot-id"] == written.snapshot["snapshot-id"]
    assert ids(lake) == [1, 2, 9]
    written.snapshot["summary"]["note"] = "another request with the same snapshot"
    assert "already" in error(written.send(), 409, "CommitFailedException")


def test_rows_of_an_older_schema_are_taken_when_they_fit(address: str, client: Client, lake: Lake) -> None:
    table = lake.table("shop.t")
    fits, loses, narrow = (Written(address, client, [["a"], [n]]) for n in (1, 2, 3))
    table.append([{"id": 9, "name": "ours"}])
    table.add_column("extra", "long")
    assert fits.send().status_code == 200
    table.drop_column("name")
    assert "column name" in error(loses.send(), 409, "CommitFailedException")
    table.rename_column("id", "number")
    error(narrow.send(), 409, "CommitFailedException")
    assert table.scan(["number", "extra"]).to_arrow().to_pylist() == [
        {"number": 9, "extra": None},
        {"number": 1, "extra": None},
    ]


def test_what_else_a_commit_requires_still_holds(address: str, client: Client, lake: Lake) -> None:
    table = lake.table("shop.t")
    strict, changing = Written(address, client), Written(address, client)
    strict.requirements.append({"type": "assert-current-schema-id", "current-schema-id": 0})
    changing.updates.append({"action": "set-properties", "updates": {"a": "1"}})
    table.append([{"id": 9, "name": "ours"}])
    table.add_column("extra", "long")
    error(strict.send(), 409, "CommitFailedException")
    error(changing.send(), 409, "CommitFailedException")
    assert ids(lake) == [9]


def test_numbers_that_the_history_cannot_have_led_to_are_refused(address: str, client: Client, lake: Lake) -> None:
    lake.table("shop.t").append([{"id": 0, "name": "ours"}])
    written = Written(address, client)
    lake.table("shop.t").append([{"id": 9, "name": "ours"}])
    for changes in ({"sequence-number": 0}, {"sequence-number": 99}, {"parent-snapshot-id": 4711}):
        before = dict(written.snapshot)
        written.snapshot.update(changes)
        error(written.send(), 409, "CommitFailedException")
        written.snapshot.clear()
        written.snapshot.update(before)
    assert ids(lake) == [0, 9]
    assert written.send().status_code == 200


def test_an_append_that_takes_files_away_is_none(address: str, client: Client, lake: Lake) -> None:
    lake.table("shop.t").append([{"id": 0, "name": "ours"}])
    written = Written(address, client)
    path = Path(written.snapshot["manifest-list"].removeprefix("file://"))
    records, header = read_avro(path.read_bytes(), "")
    mine = [one for one in records if one["added_snapshot_id"] == written.snapshot["snapshot-id"]]
    kept = {key: value for key, value in header.items() if not key.startswith("avro.")}
    path.write_bytes(write_avro(json.loads(header["avro.schema"]), mine, kept))
    lake.table("shop.t").append([{"id": 9, "name": "ours"}])
    assert "takes files or rows away" in error(written.send(), 400, "BadRequestException")
    assert ids(lake) == [0, 9]


def test_an_append_to_another_tables_transaction_is_rebased_with_it(address: str, client: Client, lake: Lake) -> None:
    body: dict[str, Any] = {"name": "u", "schema": SCHEMA, "properties": ON}
    assert client.post("/namespaces/shop/tables", json=body).status_code == 200
    written = Written(address, client)
    lake.table("shop.t").append([{"id": 9, "name": "ours"}])
    change = {"identifier": {"namespace": ["shop"], "name": "t"}, "requirements": written.requirements}
    change["updates"] = written.updates
    other = {"identifier": {"namespace": ["shop"], "name": "u"}, "requirements": []}
    other["updates"] = [{"action": "set-properties", "updates": {"seen": "yes"}}]
    assert client.post("/transactions/commit", json={"table-changes": [change, other]}).status_code == 204
    assert ids(lake) == [1, 2, 9]
    assert lake.table("shop.u").properties["seen"] == "yes"
