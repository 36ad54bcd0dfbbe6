"""Tables that begin anew: REPLACE TABLE and CREATE OR REPLACE TABLE of engines, with any columns, spec and order."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from moulin.errors import FailedPrecondition
from moulin.lake import Lake
from tests.iceberg.rest.served import Client, error, pyiceberg_catalog, served

OTHER = {
    "type": "struct",
    "fields": [
        {"id": 1, "name": "id", "required": False, "type": "string"},
        {"id": 3, "name": "need", "required": True, "type": "int", "doc": "a must"},
    ],
}
SPEC = {"spec-id": 1, "fields": [{"source-id": 3, "field-id": 1000, "transform": "bucket[4]", "name": "b"}]}
ORDER = {
    "order-id": 1,
    "fields": [
        {"source-id": 3, "transform": "bucket[4]", "direction": "asc", "null-order": "nulls-first"},
        {"source-id": 3, "transform": "identity", "direction": "asc", "null-order": "nulls-first"},
    ],
}
REPLACE: list[dict[str, Any]] = [
    {"action": "remove-snapshot-ref", "ref-name": "main"},
    {"action": "add-schema", "schema": OTHER},
    {"action": "set-current-schema", "schema-id": -1},
    {"action": "add-spec", "spec": SPEC},
    {"action": "set-default-spec", "spec-id": -1},
    {"action": "add-sort-order", "sort-order": ORDER},
    {"action": "set-default-sort-order", "sort-order-id": -1},
    {"action": "set-properties", "updates": {"made": "anew"}},
]


@pytest.fixture
def client(lake: Lake) -> Any:
    table = lake.create_table("shop.t", [("id", "long"), ("name", "string")], properties={"format-version": "2"})
    table.append({"id": [1, 2], "name": ["a", "b"]})
    with served(lake) as address, Client(address) as made:
        yield made


def _replace(client: Client, updates: list[dict[str, Any]]) -> Any:
    return client.post("/namespaces/shop/tables/t", json={"requirements": [], "updates": updates})


def test_a_replaced_table_has_other_columns_and_no_rows_and_its_history(client: Client, lake: Lake) -> None:
    before = lake.table("shop.t").version
    uuid = str(lake.table("shop.t").id)
    metadata = _replace(client, REPLACE).json()["metadata"]
    assert metadata["table-uuid"] == uuid
    current = next(one for one in metadata["schemas"] if one["schema-id"] == metadata["current-schema-id"])
    assert current["fields"] == OTHER["fields"]
    assert metadata["partition-specs"][-1] == SPEC
    assert metadata["sort-orders"][-1] == ORDER
    assert metadata["properties"]["made"] == "anew"
    table = lake.table("shop.t")
    assert table.scan().to_arrow().num_rows == 0
    table.append({"id": ["x", "y"], "need": [1, 2]})
    assert sorted(table.scan().to_arrow()["id"].to_pylist()) == ["x", "y"]
    assert lake.table("shop.t").at(before).scan().to_arrow()["name"].to_pylist() == ["a", "b"]


def test_rows_come_with_the_new_columns_in_one_version(client: Client, lake: Lake) -> None:
    address = str(client.base_url).removesuffix("/v1/")
    table = pyiceberg_catalog(address).load_table("shop.t")
    table.metadata = table.metadata.model_copy(update={"current_snapshot_id": None, "snapshots": [], "refs": {}})
    transaction = table.transaction()
    transaction.append(pa.table({"id": pa.array([7], pa.int64()), "name": ["new"]}))
    updates = [one.model_dump(mode="json", by_alias=True) for one in transaction._updates]
    for one in updates:
        if one["action"] == "add-snapshot":
            one["snapshot"]["sequence-number"] = 1  # as of an engine that lost a race: it follows nothing
    version = lake.version
    assert _replace(client, [REPLACE[0], *updates]).status_code == 200
    assert lake.version == version + 1
    assert lake.table("shop.t").scan().to_arrow().to_pylist() == [{"id": 7, "name": "new"}]
    assert pyiceberg_catalog(address).load_table("shop.t").scan().to_arrow()["id"].to_pylist() == [7]


def test_columns_of_an_empty_table_may_become_any_others(client: Client, lake: Lake) -> None:
    lake.create_table("shop.empty", [("old", "long")])
    schema = {"type": "struct", "fields": [{"id": 2, "name": "need", "required": True, "type": "int"}]}
    updates = [{"action": "add-schema", "schema": schema}, {"action": "set-current-schema", "schema-id": -1}]
    sent = {"requirements": [], "updates": updates}
    assert client.post("/namespaces/shop/tables/empty", json=sent).status_code == 200
    lake.table("shop.empty").append({"need": [5]})
    assert pc.sum(lake.table("shop.empty").scan().to_arrow()["need"]).as_py() == 5


def test_a_column_that_partitioning_rested_on_keeps_its_type(client: Client, lake: Lake) -> None:
    lake.table("shop.t").set_partitioning(["id"])
    said = error(_replace(client, REPLACE), 400, "BadRequestException")
    assert "Column id keeps its type" in said
    assert lake.table("shop.t").scan().to_arrow().num_rows == 2


def test_what_the_table_rests_on_is_not_replaced_away(client: Client, lake: Lake) -> None:
    lake.table("shop.t").set_sort_order(["name"])
    updates = [one for one in REPLACE if "sort-order" not in one["action"]]
    said = error(_replace(client, updates), 400, "BadRequestException")
    assert "Column name of shop.t cannot be dropped" in said


def test_main_does_not_go_by_itself(client: Client, lake: Lake) -> None:
    for more in ([], [{"action": "set-properties", "updates": {"a": "b"}}]):
        said = error(_replace(client, [REPLACE[0], *more]), 400, "BadRequestException")
        assert "The branch 'main' of shop.t stays" in said
    assert lake.table("shop.t").scan().to_arrow().num_rows == 2


def test_a_change_feed_across_a_replacement_is_refused(client: Client, lake: Lake) -> None:
    table = lake.table("shop.t")
    since = table.version - 1
    assert _replace(client, REPLACE).status_code == 200
    replaced = lake.table("shop.t").version
    lake.table("shop.t").append({"id": ["x"], "need": [1]})
    table = lake.table("shop.t")
    for net in (False, True):
        with pytest.raises(FailedPrecondition, match="id was long and is now string"):
            table.changes(since + net, net=net).to_arrow()
    assert table.changes(replaced).to_pylist()[0]["id"] == "x"
    assert table.changes(since, replaced - 1).to_pylist()[0]["name"] == "a"


def test_a_keyed_table_is_not_replaced(client: Client, lake: Lake) -> None:
    lake.create_table("shop.keyed", [("id", "long"), ("v", "string")], primary_key=["id"])
    sent = {"requirements": [], "updates": REPLACE}
    assert "primary key" in error(client.post("/namespaces/shop/tables/keyed", json=sent), 400, "BadRequestException")
