"""Named versions: tags from Python, branches and tags of engines, and what clean-up leaves for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import moulin
from moulin.catalog.manifests.recover import recover
from moulin.catalog.upkeep.gc import collect
from moulin.errors import FailedPrecondition, InvalidInput, NotFound
from moulin.iceberg.check import checker
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake, locate
from moulin.table.table import Table
from tests.iceberg.conftest import rows
from tests.iceberg.rest.served import Client, duckdb_attached, error, pyiceberg_catalog, served

T = "/namespaces/shop/tables/orders"


@pytest.fixture
def address(lake: Lake) -> Iterator[str]:
    with served(lake) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as client:
        yield client


def ids(found: Any) -> list[int]:
    return sorted(found.column("id").to_pylist())


def filled(table: Table, versions: int = 3) -> list[int]:
    """Versions of `table` that have the ids 0, 0 to 1, ..."""
    found = []
    for n in range(versions):
        table.append(rows(n, 1))
        found.append(table.version)
    return found


def commit(client: Client, *updates: dict[str, Any]) -> Any:
    return client.post(T, json={"requirements": [], "updates": list(updates)})


def test_a_tag_names_a_version_until_it_is_dropped(lake: Lake, orders: Table, tmp_path: Path) -> None:
    versions = filled(orders)
    orders.tag("first", versions[0])
    newest = orders.version
    orders.tag("now")
    assert orders.tags() == {"first": versions[0], "now": newest}
    assert ids(orders.at(tag="first").scan().to_arrow()) == [0]
    assert "moulin.ref.first" not in orders.properties
    orders.tag("first", versions[1])
    assert ids(orders.at(tag="first").scan().to_arrow()) == [0, 1]
    assert orders.drop_tag("first").version == orders.version
    with pytest.raises(NotFound, match="'now'"):
        orders.at(tag="first")
    with pytest.raises(NotFound):
        orders.drop_tag("first")
    for bad in ("main", "", "a\nb", "x" * 300):
        with pytest.raises(InvalidInput):
            orders.tag(bad)
    with pytest.raises(InvalidInput, match="one of"):
        orders.at(versions[0], tag="now")
    with pytest.raises(NotFound):
        orders.tag("later", 10**6)
    with pytest.raises(InvalidInput, match="Unknown property"):
        orders.set_properties({"moulin.ref.x": "1"})
    with Lake.open_replica(tmp_path / "lake") as replica:
        assert replica.table("shop.orders").tags() == {"now": newest}


def test_a_tag_outlives_clean_up_and_restore(lake: Lake, orders: Table) -> None:
    versions = filled(orders)
    orders.tag("kept", versions[1])
    orders.restore(versions[0])
    orders.compact(everything=True)
    collect(lake.own_catalog(), history_keep=0, orphan_grace=0, byte_floor=0)
    collect(lake.own_catalog(), history_keep=0, orphan_grace=0, byte_floor=0)
    with pytest.raises(NotFound):
        orders.at(versions[0])
    assert ids(orders.at(tag="kept").scan().to_arrow()) == [0, 1]
    made = project(lake.context, orders.id)
    assert checker.check(made.location, every_snapshot=True) == []
    orders.drop_tag("kept")
    collect(lake.own_catalog(), history_keep=0, orphan_grace=0, byte_floor=0)
    with pytest.raises(NotFound):
        orders.at(versions[1])
    with pytest.raises(NotFound):
        orders.tag("again", versions[1])
    assert ids(orders.scan().to_arrow()) == [0]


def test_a_tag_survives_a_recovery(lake: Lake, orders: Table, tmp_path: Path) -> None:
    versions = filled(orders, 2)
    orders.tag("first", versions[0])
    lake.close()
    for file in (tmp_path / "lake").glob("catalog.sqlite*"):
        file.unlink()
    catalog_uri, store, config = locate(str(tmp_path / "lake"), None, None, None)
    recover(store, catalog_uri, config)
    with moulin.connect(tmp_path / "lake") as again:
        table = again.table("shop.orders")
        assert table.tags() == {"first": versions[0]}
        assert ids(table.at(tag="first").scan().to_arrow()) == [0]


def test_engines_read_tags(lake: Lake, orders: Table, address: str) -> None:
    versions = filled(orders)
    orders.tag("first", versions[0])  # a version that was never projected
    orders.delete_where("id = 0")
    table = pyiceberg_catalog(address).load_table("shop.orders")
    (ref,) = [ref for name, ref in table.refs().items() if name == "first"]
    assert ref.snapshot_ref_type == "tag"
    assert ids(table.scan(snapshot_id=ref.snapshot_id).to_arrow()) == [0]
    assert ids(table.scan().use_ref("first").to_arrow()) == [0]
    assert ids(table.scan().to_arrow()) == [1, 2]
    made = project(lake.context, orders.id)
    assert checker.check(made.location, every_snapshot=True) == []
    connection = duckdb_attached(address)
    query = f"SELECT id FROM ice.shop.orders AT (VERSION => {ref.snapshot_id})"
    assert connection.execute(query).fetchall() == [(0,)]
    connection.close()


def test_engines_make_branches_and_tags(lake: Lake, orders: Table, address: str, client: Client) -> None:
    versions = filled(orders, 1)
    catalog = pyiceberg_catalog(address)
    table = catalog.load_table("shop.orders")
    first = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_tag(first, "v1", max_ref_age_ms=5).create_branch(first, "dev").commit()
    assert orders.tags() == {"dev": versions[0], "v1": versions[0]}
    refs = client.get(T).json()["metadata"]["refs"]
    assert refs["v1"] == {"snapshot-id": first, "type": "tag", "max-ref-age-ms": 5}
    assert refs["dev"] == {"snapshot-id": first, "type": "branch"}
    orders.append(rows(5, 1))
    assert ids(catalog.load_table("shop.orders").scan().use_ref("dev").to_arrow()) == [0]
    table = catalog.load_table("shop.orders")
    table.manage_snapshots().remove_tag("v1").commit()
    assert orders.tags() == {"dev": versions[0]}
    gone = {"action": "remove-snapshot-ref", "ref-name": "none"}
    assert commit(client, gone).status_code == 200
    stale = {"type": "assert-ref-snapshot-id", "ref": "dev", "snapshot-id": None}
    error(client.post(T, json={"requirements": [stale], "updates": []}), 409, "CommitFailedException")
    for bad in ("", "x" * 300):
        update = {"action": "set-snapshot-ref", "ref-name": bad, "type": "tag", "snapshot-id": first}
        error(commit(client, update), 400, "BadRequestException")
    snapshot = {"snapshot-id": 77, "sequence-number": 3, "manifest-list": "file:///x"}
    written = {"action": "set-snapshot-ref", "ref-name": "dev", "type": "branch", "snapshot-id": 77}
    message = error(
        commit(client, {"action": "add-snapshot", "snapshot": snapshot}, written), 400, "BadRequestException"
    )
    assert "branch 'main' alone" in message


def test_rolling_back_is_a_restore(lake: Lake, orders: Table, client: Client) -> None:
    filled(orders, 1)
    first = client.get(T).json()["metadata"]["current-snapshot-id"]
    orders.append(rows(5, 1))
    update = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": first}
    answer = commit(client, update)
    assert answer.status_code == 200, answer.text
    assert ids(orders.scan().to_arrow()) == [0]
    assert orders.history()[0].kind == "restore"
    now = answer.json()["metadata"]["current-snapshot-id"]
    before = orders.version
    assert commit(client, {**update, "snapshot-id": now}).status_code == 200
    assert orders.version == before, "which was the current one"
    keyed = lake.create_table("shop.keyed", [("id", "long", False)], primary_key=["id"])
    keyed.append([{"id": 1}])
    other = "/namespaces/shop/tables/keyed"
    first = client.get(other).json()["metadata"]["current-snapshot-id"]
    keyed.append([{"id": 2}])
    answer = client.post(other, json={"requirements": [], "updates": [{**update, "snapshot-id": first}]})
    assert "table.restore" in error(answer, 400, "BadRequestException")


def test_a_branch_is_fast_forwarded_to_main(lake: Lake, orders: Table, address: str, client: Client) -> None:
    filled(orders, 1)
    catalog = pyiceberg_catalog(address)
    table = catalog.load_table("shop.orders")
    first = table.current_snapshot().snapshot_id
    table.manage_snapshots().create_branch(first, "audit").commit()
    orders.append(rows(5, 1))
    now = client.get(T).json()["metadata"]["current-snapshot-id"]
    moved = {"action": "set-snapshot-ref", "ref-name": "audit", "type": "branch", "snapshot-id": now}
    stands = {"type": "assert-ref-snapshot-id", "ref": "audit", "snapshot-id": first}
    body = {"requirements": [stands], "updates": [moved]}
    assert client.post(T, json=body).status_code == 200
    error(client.post(T, json=body), 409, "CommitFailedException")
    assert ids(catalog.load_table("shop.orders").scan().use_ref("audit").to_arrow()) == [0, 5]
    before = orders.version
    forward = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch", "snapshot-id": now}
    assert commit(client, forward).status_code == 200
    assert orders.version == before, "main is there already"


def test_pyiceberg_rolls_back_and_says_how_long_main_is_kept(lake: Lake, orders: Table, address: str) -> None:
    filled(orders, 1)
    table = pyiceberg_catalog(address).load_table("shop.orders")
    first = table.current_snapshot().snapshot_id
    orders.append(rows(1, 1))
    table.refresh()
    table.manage_snapshots().rollback_to_snapshot(first).commit()
    assert ids(orders.scan().to_arrow()) == [0]
    assert orders.history()[0].kind == "restore"
    with served(lake) as where, Client(where) as client:
        update = {"action": "set-snapshot-ref", "ref-name": "main", "type": "branch"}
        update |= {"snapshot-id": client.get(T).json()["metadata"]["current-snapshot-id"], "min-snapshots-to-keep": 3}
        assert commit(client, update).status_code == 200
        assert orders.properties["history.expire.min-snapshots-to-keep"] == "3"
        for wrong in (0, -1):
            bad = commit(client, {**update, "min-snapshots-to-keep": wrong})
            error(bad, 400, "BadRequestException")


def test_sort_orders_change(lake: Lake, orders: Table, client: Client) -> None:
    filled(orders, 1)
    field = {"transform": "identity", "source-id": 4, "direction": "desc", "null-order": "nulls-last"}
    order = {"action": "add-sort-order", "sort-order": {"order-id": 7, "fields": [field]}}
    answer = commit(client, order, {"action": "set-default-sort-order", "sort-order-id": -1})
    assert answer.status_code == 200, answer.text
    metadata = answer.json()["metadata"]
    assert metadata["default-sort-order-id"] == 2
    assert next(one for one in metadata["sort-orders"] if one["order-id"] == 2)["fields"] == [field]
    orders.append([{**row, "amount": float(row["id"])} for row in rows(10, 3)])
    segments = lake.catalog.segments(orders.id, orders.version)
    assert sorted(segment.facts.sort_order_id for segment in segments) == [1, 2]
    orders.compact(everything=True)
    assert orders.scan(["amount"]).to_arrow()["amount"].to_pylist() == [12.0, 11.0, 10.0, 0.0]
    assert commit(client, {"action": "set-default-sort-order", "sort-order-id": 1}).status_code == 200
    assert orders.state().sort_order_id == 1
    keyed = lake.create_table("shop.keyed", [("id", "long", False)], primary_key=["id"])
    with pytest.raises(FailedPrecondition, match="sorted by it"):
        keyed.set_sort_order(["id desc"])


def test_statistics_files_are_checked_shown_and_kept_while_in_use(lake: Lake, orders: Table, client: Client) -> None:
    filled(orders, 1)
    metadata = client.get(T).json()["metadata"]
    where = f"{metadata['location']}/metadata/20240301-stats.puffin"
    path = f"tables/{orders.id}/metadata/20240301-stats.puffin"
    statistics = {
        "snapshot-id": metadata["current-snapshot-id"],
        "statistics-path": where,
        "file-size-in-bytes": 4,
        "file-footer-size-in-bytes": 2,
        "blob-metadata": [],
    }
    update = {"action": "set-statistics", "snapshot-id": statistics["snapshot-id"], "statistics": statistics}
    assert "not there" in error(commit(client, update), 400, "BadRequestException")
    lake.store.put(path, b"PFA")
    assert "bytes" in error(commit(client, update), 400, "BadRequestException")
    lake.store.put(path, b"PFA1")
    for change in ({"snapshot-id": 5}, {"statistics-path": "file:///etc/passwd"}, {"blob-metadata": "none"}):
        bad = {"action": "set-statistics", "statistics": {**statistics, **change}}
        error(commit(client, bad), 400, "BadRequestException")
    assert commit(client, update).json()["metadata"]["statistics"] == [statistics]
    assert orders.properties.keys() <= {"format-version"}
    collect(lake.own_catalog(), orphan_grace=0, byte_floor=0)
    assert lake.store.exists(path), "it is in use"
    gone = {"action": "remove-statistics", "snapshot-id": statistics["snapshot-id"]}
    assert commit(client, gone).json()["metadata"]["statistics"] == []
    collect(lake.own_catalog(), orphan_grace=0, byte_floor=0)
    assert not lake.store.exists(path)


def test_partition_statistics_files_are_checked_shown_and_kept_while_in_use(
    lake: Lake, orders: Table, client: Client
) -> None:
    filled(orders, 1)
    metadata = client.get(T).json()["metadata"]
    path = f"tables/{orders.id}/metadata/partition-stats-7.parquet"
    statistics = {
        "snapshot-id": metadata["current-snapshot-id"],
        "statistics-path": f"{metadata['location']}/metadata/partition-stats-7.parquet",
        "file-size-in-bytes": 4,
    }
    update = {"action": "set-partition-statistics", "partition-statistics": statistics}
    assert "not there" in error(commit(client, update), 400, "BadRequestException")
    lake.store.put(path, b"PAR1")
    for change in ({"snapshot-id": 5}, {"statistics-path": "file:///etc/passwd"}, {"file-size-in-bytes": 5}):
        bad = {"action": "set-partition-statistics", "partition-statistics": {**statistics, **change}}
        error(commit(client, bad), 400, "BadRequestException")
    made = commit(client, update).json()["metadata"]
    assert (made["partition-statistics"], made["statistics"]) == ([statistics], [])
    assert checker.check(project(lake.context, orders.id).location) == []
    assert orders.properties.keys() <= {"format-version"}
    collect(lake.own_catalog(), orphan_grace=0, byte_floor=0)
    assert lake.store.exists(path), "it is in use"
    gone = {"action": "remove-partition-statistics", "snapshot-id": statistics["snapshot-id"]}
    assert commit(client, gone).json()["metadata"]["partition-statistics"] == []
    collect(lake.own_catalog(), orphan_grace=0, byte_floor=0)
    assert not lake.store.exists(path)


def test_a_ref_is_checked_where_it_is_committed(lake: Lake, orders: Table) -> None:
    from moulin.model.operations import SetProperties
    from moulin.table.commit.change import SettingChange

    filled(orders, 1)
    wrong = [json.dumps({"version": 1, "type": "fork"}), json.dumps({"version": "1", "type": "tag"})]
    for text in ("{}", "no JSON", *wrong):
        change = SettingChange(orders.id, orders.state().version, SetProperties({"moulin.ref.x": text}))
        with pytest.raises(InvalidInput, match="valid tag"):
            lake.context.committer.commit([change])
