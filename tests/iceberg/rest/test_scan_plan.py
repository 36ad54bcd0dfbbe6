"""Scan planning through REST: the files that a filter needs, and what engines make of the answer."""

from __future__ import annotations

import base64
import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from moulin.iceberg.rest.scan import plan as scans
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.roles import Role
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


def files(client: Client, **body: Any) -> list[str]:
    """The data files of a plan, after all of its tasks were fetched."""
    answer = client.post(f"{T}/plan", json=body)
    assert answer.status_code == 200, answer.text
    plan = answer.json()
    assert plan["status"] == "completed"
    found = plan["file-scan-tasks"]
    for task in plan["plan-tasks"]:
        more = client.post(f"{T}/tasks", json={"plan-task": task})
        assert more.status_code == 200, more.text
        found += more.json()["file-scan-tasks"]
    return sorted(task["data-file"]["file-path"] for task in found)


def current(client: Client) -> int:
    """The snapshot of the newest version."""
    return int(client.get(T).json()["metadata"]["current-snapshot-id"])


def compare(kind: str, term: Any, value: Any) -> dict[str, Any]:
    return {"type": kind, "term": term, "value": value}


def test_filters_leave_out_files(lake: Lake, orders: Table, client: Client) -> None:
    for place, region in enumerate(("eu", "us", None)):
        orders.append(rows(place * 10, 10, region))
    every = files(client)
    assert len(every) == 3
    eu, us, none = every
    where = [
        (compare("eq", "region", "eu"), [eu]),
        (compare("not-eq", "region", "eu"), [us, none]),
        ({"type": "is-null", "term": "region"}, [none]),
        ({"type": "not", "child": {"type": "is-null", "term": "region"}}, [eu, us]),
        ({"type": "in", "term": "region", "values": ["us", "xx"]}, [us]),
        ({"type": "not-in", "term": "region", "values": ["us"]}, [eu, none]),
        (compare("starts-with", "region", "e"), [eu]),
        (compare("gt", "id", 15), [us, none]),
        ({"type": "and", "left": compare("gt", "id", 5), "right": compare("lt-eq", "id", 9)}, [eu]),
        ({"type": "or", "left": compare("lt", "id", 3), "right": compare("gt-eq", "id", 29)}, [eu, none]),
        ({"type": "not", "child": compare("lt", "ID", 15)}, [us, none]),
        (compare("eq", "ts", "2024-03-02T00:00:00+00:00"), []),
        (compare("lt", "ts", 1_709_251_200_000_001), every),
        (compare("lt", "ts", 1_709_251_200_000_000), []),
        (False, []),
        ({"type": "true"}, every),
        (compare("eq", {"type": "transform", "transform": "day", "term": "ts"}, 0), every),
        ({"type": "not", "child": {"type": "and", "left": compare("eq", "region", "eu"),
          "right": compare("eq", {"type": "transform", "transform": "day", "term": "ts"}, 0)}}, every),
        (compare("eq", "id", "no number"), every),
    ]  # fmt: skip
    for condition, expected in where:
        assert files(client, filter=condition) == expected, condition
    assert files(client, **{"snapshot-id": current(client)}) == every


def test_scans_that_make_no_sense_are_refused(lake: Lake, orders: Table, client: Client) -> None:
    assert files(client) == []
    orders.append(rows(0, 1))
    snapshot = current(client)
    deep: Any = True
    for _ in range(200):
        deep = {"type": "not", "child": deep}
    for body in (
        {"filter": compare("eq", "none", 1)},
        {"filter": {"type": "between", "term": "id"}},
        {"filter": "id = 1"},
        {"filter": compare("eq", 7, 1)},
        {"filter": deep},
        {"snapshot-id": 77},
        {"select": ["none"]},
        {"start-snapshot-id": 1, "end-snapshot-id": 2},
        {"start-snapshot-id": snapshot},
        {"end-snapshot-id": snapshot},
        {"start-snapshot-id": snapshot, "end-snapshot-id": snapshot, "snapshot-id": snapshot},
    ):
        error(client.post(f"{T}/plan", json=body), 400, "BadRequestException")
    error(client.post("/namespaces/shop/tables/none/plan", json={}), 404, "NoSuchTableException")
    for task in ("x", "", "eJw="):
        error(client.post(f"{T}/tasks", json={"plan-task": task}), 404, "NoSuchPlanTaskException")
    for value in ("1e999", "NaN", '"\\ud800"'):  # JSON of Python's, which no plan has
        forged = f'["{orders.id}",{orders.version},[1],{{"type":"eq","term":"id","value":{value}}},false,0,[]]'
        task = base64.urlsafe_b64encode(zlib.compress(forged.encode())).decode()
        error(client.post(f"{T}/tasks", json={"plan-task": task}), 404, "NoSuchPlanTaskException")


@pytest.mark.parametrize("most", [1, 1000], ids=["in tasks", "at once"])
def test_a_scan_between_two_snapshots_lists_what_was_appended(
    lake: Lake, orders: Table, client: Client, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(scans, "FILES", most)
    orders.append(rows(0, 10))
    first = current(client)
    known = set(files(client))
    orders.append(rows(10, 10, "us"))  # never projected by itself
    orders.append(rows(20, 10, None))
    second = current(client)
    us, none = sorted(set(files(client)) - known)
    orders.append(rows(30, 10))
    orders.delete_where("id in (3, 13, 33)")
    orders.set_properties({"owner": "me"})
    orders.compact(everything=True)
    third = current(client)

    def between(start: int, end: int, **more: Any) -> list[str]:
        return files(client, **{"start-snapshot-id": start, "end-snapshot-id": end}, **more)

    assert between(first, second) == [us, none]
    assert between(first, second, filter=compare("eq", "region", "us")) == [us]
    assert between(first, second, filter=compare("gt", "id", 25)) == [none]
    assert between(first, second, filter=compare("lt", "id", 5)) == []
    later = between(second, third)
    assert len(later) == 1, "neither what a compaction wrote, nor without what it rewrote"
    assert between(first, third) == sorted([us, none, *later])
    assert between(third, third) == []
    plan = client.post(f"{T}/plan", json={"start-snapshot-id": first, "end-snapshot-id": third}).json()
    assert plan["delete-files"] == []
    assert [task["data-file"]["record-count"] for task in plan["file-scan-tasks"]] == [10] * min(most, 3)
    body = {"start-snapshot-id": third, "end-snapshot-id": first}
    assert "younger" in error(client.post(f"{T}/plan", json=body), 400, "BadRequestException")
    orders.overwrite(rows(50, 1), where="id = 5")
    body = {"start-snapshot-id": third, "end-snapshot-id": current(client)}
    assert "not an append (overwrite)" in error(client.post(f"{T}/plan", json=body), 400, "BadRequestException")


def test_an_append_that_deletes_its_own_rows_is_no_plain_append(lake: Lake, address: str, client: Client) -> None:
    orders = lake.create_table("shop.orders", [("id", "long")])
    orders.append([{"id": 0}])
    first = current(client)
    connection = duckdb_attached(address)
    connection.execute("BEGIN; INSERT INTO ice.shop.orders SELECT range FROM range(10, 15)")
    connection.execute("DELETE FROM ice.shop.orders WHERE id = 12; COMMIT")
    connection.close()
    assert sorted(orders.scan().to_arrow()["id"].to_pylist()) == [0, 10, 11, 13, 14]
    body = {"start-snapshot-id": first, "end-snapshot-id": current(client)}
    assert "deleted at once" in error(client.post(f"{T}/plan", json=body), 400, "BadRequestException")


def test_plan_tasks_of_another_table_are_refused(
    lake: Lake, orders: Table, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(scans, "FILES", 2)
    for n in range(5):
        orders.append(rows(n, 1))
    assert len(files(client)) == 5
    (task, _) = client.post(f"{T}/plan", json={}).json()["plan-tasks"]
    lake.create_table("shop.other", [("id", "long")])
    error(client.post("/namespaces/shop/tables/other/tasks", json={"plan-task": task}), 404, "NoSuchPlanTaskException")
    orders.compact(everything=True)
    again = client.post(f"{T}/tasks", json={"plan-task": task})
    assert again.status_code == 200, "its version is kept"


def test_pyiceberg_lets_the_server_plan(lake: Lake, orders: Table, address: str) -> None:
    for place, region in enumerate(("eu", "us", "xx")):  # pyiceberg takes no null in a tuple
        orders.append(rows(place * 10, 10, region))
    orders.delete_where("id in (0, 3, 6, 13, 27)")
    table = pyiceberg_catalog(address, **{"scan-planning-mode": "server"}).load_table("shop.orders")
    for condition in (None, "region = 'eu'", "region = 'xx' or id > 14", "id < 5 and not (region = 'us')"):
        scan = table.scan(row_filter=condition) if condition else table.scan()
        expected = orders.scan(where=condition).to_arrow()["id"].to_pylist()
        assert sorted(scan.to_arrow()["id"].to_pylist()) == sorted(expected), condition
    assert len(list(table.scan(row_filter="region = 'eu'").plan_files())) == 1


def test_an_older_snapshot_is_planned_with_its_own_rows(lake: Lake, orders: Table, address: str) -> None:
    orders.append(rows(0, 4))
    orders.delete_where("id = 1")
    catalog = pyiceberg_catalog(address, **{"scan-planning-mode": "server"})
    first = catalog.load_table("shop.orders").current_snapshot().snapshot_id
    orders.delete_where("id = 2")
    orders.rename_column("amount", "price")
    table = catalog.load_table("shop.orders")
    assert sorted(table.scan(snapshot_id=first).to_arrow()["id"].to_pylist()) == [0, 2, 3]
    assert sorted(table.scan(row_filter="price >= 3").to_arrow()["id"].to_pylist()) == [3]


def test_the_endpoints_are_announced(client: Client) -> None:
    endpoints = client.get("/config").json()["endpoints"]
    for name in ("plan", "tasks"):
        assert f"POST /v1/{{prefix}}/namespaces/{{namespace}}/tables/{{table}}/{name}" in endpoints


def test_reading_takes_the_role_read(lake: Lake, orders: Table, tmp_path: Path) -> None:
    """Also for tables whose names are those of endpoints: a commit to one is no report."""
    access = AccessFile(tmp_path / "access")
    token = access.create("reader", Role.READ)
    lake.create_database("tables")
    lake.create_table("tables.metrics", [("id", "long")])
    with served(lake, access) as address, Client(address, headers={"Authorization": f"Bearer {token}"}) as client:
        assert client.post(f"{T}/plan", json={}).status_code == 200
        for path in ("/namespaces/tables/tables/metrics", T, f"{T}/plan/metrics"):
            error(client.post(path, json={"requirements": [], "updates": []}), 403, "ForbiddenException")


def test_partitions_of_nan_and_infinity_are_planned(lake: Lake, client: Client) -> None:
    """As text, which JSON has a form for; a request with Python's own spelling of them is refused."""
    table = lake.create_table("shop.floats", [("id", "long"), ("x", "double")], partition_by=["x"])
    values = [1.5, math.nan, math.inf, -math.inf, None]
    table.append([{"id": n * 2 + half, "x": value} for n, value in enumerate(values) for half in (0, 1)])
    table.delete_where("id in (0, 2, 4)")
    answer = client.post("/namespaces/shop/tables/floats/plan", json={})
    assert answer.status_code == 200, answer.text
    found = [task["data-file"]["partition"][0] for task in answer.json()["file-scan-tasks"]]
    assert sorted(map(str, found)) == ["-Infinity", "1.5", "Infinity", "NaN", "None"]
    assert [one["partition"] for one in answer.json()["delete-files"]] == [[1.5], ["NaN"], ["Infinity"]]
    far = b'{"filter": {"type": "eq", "term": "x", "value": 1e999}}'
    refused = client.post("/namespaces/shop/tables/floats/plan", content=far)
    assert "out of range" in error(refused, 400, "BadRequestException")
    body = b'{"filter": {"type": "eq", "term": "x", "value": NaN}}'
    refused = client.post("/namespaces/shop/tables/floats/plan", content=body)
    assert "send it as text" in error(refused, 400, "BadRequestException")
