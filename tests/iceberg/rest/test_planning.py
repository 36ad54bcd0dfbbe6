"""Plans of the server: residuals, statistics, indexes, and plans that take long."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import parser as expressions

from moulin.errors import InvalidInput
from moulin.iceberg.rest.scan import pending
from moulin.iceberg.rest.scan import plan as scans
from moulin.iceberg.rest.scan.pending import Plans
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.roles import Role
from moulin.table.table import Table
from tests.iceberg.conftest import rows
from tests.iceberg.rest.served import Client, error, pyiceberg_catalog, served
from tests.iceberg.rest.test_scan_plan import T, compare

SERVER = {"scan-planning-mode": "server"}


@pytest.fixture
def address(lake: Lake) -> Iterator[str]:
    with served(lake) as address:
        yield address


@pytest.fixture
def client(address: str) -> Iterator[Client]:
    with Client(address) as client:
        yield client


def tasks(client: Client, **body: Any) -> list[dict[str, Any]]:
    answer = client.post(f"{T}/plan", json=body)
    assert answer.status_code == 200, answer.text
    found = answer.json()["file-scan-tasks"]
    for task in answer.json()["plan-tasks"]:
        found += client.post(f"{T}/tasks", json={"plan-task": task}).json()["file-scan-tasks"]
    return list(found)


@pytest.mark.parametrize("most", [1, 1000], ids=["in tasks", "at once"])
def test_a_residual_is_what_the_catalog_does_not_know_already(
    orders: Table, client: Client, monkeypatch: pytest.MonkeyPatch, most: int
) -> None:
    monkeypatch.setattr(scans, "FILES", most)
    orders.append(rows(0, 10, "eu"))
    orders.append(rows(10, 10, "us"))
    orders.append(rows(20, 10, None))
    eu, low, mid = compare("eq", "region", "eu"), compare("lt", "id", 100), compare("gt", "id", 14)

    def residuals(condition: Any) -> list[Any]:
        return [task["residual-filter"] for task in tasks(client, filter=condition)]

    both = {"type": "and", "left": eu, "right": compare("gt", "id", 4)}
    assert residuals(eu) == [True]
    assert residuals(low) == [True, True, True]
    assert residuals(both) == [compare("gt", "id", 4)]
    either = {"type": "or", "left": eu, "right": mid}
    assert residuals(either) == [True, mid, True]
    assert residuals({"type": "and", "left": low, "right": mid}) == [mid, True]
    assert residuals({"type": "not", "child": eu}) == [True, {"type": "not", "child": eu}], "null: engines differ"
    unknown = compare("eq", {"type": "transform", "transform": "day", "term": "ts"}, 0)
    assert residuals({"type": "and", "left": eu, "right": unknown}) == [unknown]
    assert all("residual-filter" not in task for task in tasks(client))
    for form in (
        {"type": "eq", "left": {"type": "reference", "name": "region"}, "right": {"type": "literal", "value": "eu"}},
        {"type": "eq", "left": {"type": "reference", "id": 3}, "right": "eu"},
        {
            "type": "in",
            "child": {"type": "reference", "name": "region"},
            "values": [{"type": "literal", "value": "eu"}],
        },
    ):
        assert residuals(form) == [True], form


def test_statistics_are_told_for_the_columns_that_are_asked_for(orders: Table, client: Client) -> None:
    orders.append(rows(0, 10, "eu"))
    orders.append([{"id": 77, "ts": None, "region": None, "amount": float("nan")}])
    assert not any("lower-bounds" in task["data-file"] for task in tasks(client))
    first, second = (task["data-file"] for task in tasks(client, **{"stats-fields": ["id", "amount", "region"]}))
    assert first["lower-bounds"] == {"keys": [1, 3, 4], "values": [0, "eu", 0.0]}
    assert first["upper-bounds"] == {"keys": [1, 3, 4], "values": [9, "eu", 9.0]}
    assert first["value-counts"] == {"keys": [1, 3, 4], "values": [10, 10, 10]}
    assert second["null-value-counts"] == {"keys": [1, 3, 4], "values": [0, 1, 0]}
    assert second["nan-value-counts"]["values"][-1] == 1
    assert second["lower-bounds"] == {"keys": [1], "values": [77]}, "none of a column with NaN"
    assert tasks(client, filter=compare("eq", "id", 77), **{"stats-fields": ["ts"]})[0]["data-file"]["lower-bounds"]
    error(client.post(f"{T}/plan", json={"stats-fields": ["none"]}), 400, "BadRequestException")


def test_indexes_leave_out_files(lake: Lake, orders: Table, client: Client) -> None:
    for start in range(4):
        orders.append([{"id": 4 * n + start, "ts": None, "region": "eu", "amount": 0.0} for n in range(50)])
    assert len(tasks(client, filter=compare("eq", "id", 6))) == 4, "bounds tell nothing"
    orders.create_index("id")
    found = tasks(client, filter=compare("eq", "id", 6))
    assert len(found) == 1
    assert len(tasks(client, filter={"type": "in", "term": "id", "values": [6, 7]})) == 2


VALUES = st.integers(-3, 12)
LEAVES = st.one_of(
    st.builds("id {} {}".format, st.sampled_from(["=", "!=", "<", "<=", ">", ">="]), VALUES),
    st.builds("amount {} {}.5".format, st.sampled_from(["<", ">="]), VALUES),
    st.builds("region = '{}'".format, st.sampled_from(["eu", "us", "xx"])),
    st.builds("id in ({}, {})".format, VALUES, VALUES),
    st.sampled_from(["region is null", "region is not null", "amount is not null", "region like 'e%'"]),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("({} and {})".format, inner, inner),
        st.builds("({} or {})".format, inner, inner),
        st.builds("(not {})".format, inner),
    ),
    max_leaves=5,
)


@pytest.fixture(scope="module")
def planned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Table, Any]]:
    """A partitioned table with indexes and deleted rows, and pyiceberg's view of it."""
    columns = [("id", "long"), ("region", "string"), ("amount", "double")]
    with Lake.open(tmp_path_factory.mktemp("planned") / "lake") as lake:
        lake.create_database("shop")
        table = lake.create_table("shop.t", columns, partition_by=["region"], properties={"format-version": "2"})
        for start in range(0, 10, 2):
            table.append([{"id": n, "region": "eu", "amount": n / 2} for n in range(start, start + 4)])
            table.append([{"id": n, "region": "us", "amount": None} for n in (start, 11 - start)])
        table.create_index("id")
        table.delete_where("id = 4 and region = 'eu'")
        with served(lake) as address:
            yield table, pyiceberg_catalog(address, **SERVER).load_table("shop.t")


@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(CONDITIONS)
def test_rows_of_a_plan_under_its_residuals_are_those_of_a_scan(planned: tuple[Table, Any], condition: str) -> None:
    """pyiceberg plans on the server and filters by residuals."""
    table, there = planned
    expected = table.scan(where=condition).to_arrow().sort_by([("id", "ascending"), ("region", "ascending")])
    found = there.scan(row_filter=expressions.parse(condition.replace("!=", "<>"))).to_arrow()
    found = found.sort_by([("id", "ascending"), ("region", "ascending")])
    assert found.to_pylist() == expected.to_pylist(), condition
    assert there.scan(row_filter=expressions.parse(condition.replace("!=", "<>"))).count() == expected.num_rows


class Slow:
    """Makes planning wait until it is let go."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.go, self.begun, self.error = threading.Event(), threading.Event(), None
        real = scans.plan_segments

        def wait(*given: Any) -> Any:
            self.begun.set()
            assert self.go.wait(30)
            if self.error is not None:
                raise self.error
            return real(*given)

        monkeypatch.setattr(scans, "plan_segments", wait)
        monkeypatch.setattr(pending.Plans.__init__, "__defaults__", (0.05, pending.time.monotonic))


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Iterator[Slow]:
    made = Slow(monkeypatch)
    yield made
    made.go.set()


def settled(client: Client, where: str) -> Any:
    for _ in range(500):
        found = client.get(where).json()
        if found["status"] != "submitted":
            return found
        threading.Event().wait(0.02)
    raise AssertionError("the plan is never made")


def test_a_plan_that_takes_long_is_fetched_by_its_id(slow: Slow, lake: Lake, orders: Table) -> None:
    orders.append(rows(0, 3))
    with served(lake) as address, Client(address) as client:
        submitted = client.post(f"{T}/plan", json={}).json()
        assert submitted["status"] == "submitted"
        where = f"{T}/plan/{submitted['plan-id']}"
        assert client.get(where).json() == {"status": "submitted"}
        slow.go.set()
        found = settled(client, where)
        assert found["status"] == "completed"
        assert len(found["file-scan-tasks"]) == 1
        assert client.get(where).json() == found, "as often as it is asked for"
        assert client.delete(where).status_code == 204
        for gone in (client.get(where), client.delete(where)):
            error(gone, 404, "NoSuchPlanIdException")


def test_a_plan_that_fails_says_why(slow: Slow, lake: Lake, orders: Table) -> None:
    orders.append(rows(0, 3))
    with served(lake) as address, Client(address) as client:
        where = f"{T}/plan/{client.post(f'{T}/plan', json={}).json()['plan-id']}"
        slow.error = InvalidInput("No.")
        slow.go.set()
        failed = settled(client, where)
        assert (failed["status"], failed["error"]["message"], failed["error"]["code"]) == ("failed", "No.", 400)


def test_plans_are_bounded_for_each_caller_and_nobody_elses(
    slow: Slow, lake: Lake, orders: Table, tmp_path: Path
) -> None:
    orders.append(rows(0, 3))
    lake.create_table("shop.other", [("id", "long")])
    access = AccessFile(tmp_path / "access.toml")
    heads = [{"Authorization": f"Bearer {access.create(name, Role.READ)}"} for name in ("ann", "bob")]
    with served(lake, access) as address, Client(address) as client:
        made = [client.post(f"{T}/plan", json={}, headers=heads[0]).json() for _ in range(pending.RUNNING)]
        assert all(one["status"] == "submitted" for one in made)
        refused = client.post(f"{T}/plan", json={}, headers=heads[0])
        error(refused, 503, "ServiceUnavailableException")
        assert client.post(f"{T}/plan", json={}, headers=heads[1]).json()["status"] == "submitted"
        plan = f"/plan/{made[0]['plan-id']}"
        for where, head in ((f"{T}{plan}", heads[1]), (f"/namespaces/shop/tables/other{plan}", heads[0])):
            error(client.get(where, headers=head), 404, "NoSuchPlanIdException")
            error(client.delete(where, headers=head), 404, "NoSuchPlanIdException")
        assert client.delete(f"{T}{plan}", headers=heads[0]).status_code == 204, "a reader cancels what it began"
        assert client.post(f"{T}/plan", json={}, headers=heads[0]).json()["status"] == "submitted"
        error(client.delete(T, headers=heads[0]), 403, "ForbiddenException")


def test_plans_that_nobody_fetches_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    from uuid import uuid4

    now, table = [0.0], uuid4()
    go = threading.Event()

    def begin(plans: Plans, size: int = 10) -> pending.Plan:
        go.clear()
        made = plans.run("ann", table, lambda plan: go.wait(10) and {"x": "x" * size})
        assert isinstance(made, pending.Plan)
        go.set()
        while made.result is None:
            threading.Event().wait(0.005)
        return made

    plans = Plans(0.01, lambda: now[0])
    old = begin(plans)
    assert plans.find("ann", table, old.id) is old
    now[0] += pending.LIFETIME + 1
    with pytest.raises(Exception, match="plan-id"):
        plans.find("ann", table, old.id)
    many = [begin(plans) for _ in range(pending.KEPT + 2)]
    with pytest.raises(Exception, match="plan-id"):
        plans.find("ann", table, many[0].id)
    assert plans.find("ann", table, many[-1].id)
    monkeypatch.setattr(pending, "BYTES", 1000)
    large = begin(plans, 900)
    assert plans.find("ann", table, large.id)
    with pytest.raises(Exception, match="plan-id"):
        plans.find("ann", table, many[5].id)


def test_a_scan_of_everything_says_nothing_of_residuals(orders: Table, client: Client) -> None:
    orders.append(pa.table({"id": [1]}))
    assert [sorted(task) for task in tasks(client)] == [["data-file"]]
