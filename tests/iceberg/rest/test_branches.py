"""A branch as a catalog of its own: engines name it in their warehouse, and main is left alone."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
from pyiceberg.types import StringType

from moulin.iceberg.check.checker import check
from moulin.iceberg.check.metadata_files import Files
from moulin.iceberg.projection.projection import project
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.roles import Role
from tests.iceberg.conftest import COLUMNS, rows
from tests.iceberg.rest.served import Client, duckdb_attached, error, pyiceberg_catalog, served


@pytest.fixture
def address(lake: Lake) -> Iterator[str]:
    lake.create_table("shop.orders", COLUMNS, properties={"format-version": "2"}).append(rows(0, 5))
    lake.create_table("shop.kept", COLUMNS).append(rows(0, 3))
    lake.table("shop.orders").tag("monday")
    lake.branch("exp")
    with served(lake) as found:
        yield found


def _ids(lake: Lake, name: str = "shop.orders") -> list[int]:
    return sorted(lake.table(name).scan().to_arrow()["id"].to_pylist())


def _main(lake: Lake) -> dict[str, Any]:
    """What main shows: its tables, and the metadata and counters of each."""
    states = {one.name: lake.table(f"shop.{one.name}").state() for one in lake.tables("shop")}
    found = {name: (state.head_version, state.last_sequence, state.next_row_id) for name, state in states.items()}
    return {**found, "metadata": [project(lake.context, state.id).metadata for state in states.values()]}


def test_pyiceberg_works_on_a_branch_and_main_is_left_alone(lake: Lake, address: str) -> None:
    before = _main(lake)
    branch = pyiceberg_catalog(address, warehouse="lake@exp")
    table = branch.load_table("shop.orders")
    assert table.scan().to_arrow().num_rows == 5
    table.append(
        table.scan().to_arrow().slice(0, 1).set_column(0, "id", pa.array([99])).cast(table.schema().as_arrow())
    )
    with pytest.warns(UserWarning, match="copy-on-write"):
        table.delete("id < 2")
    with table.update_schema() as change:
        change.add_column("note", StringType())
    branch.create_namespace("lab")
    branch.create_table("lab.made", table.schema())
    branch.rename_table("shop.kept", "lab.moved")
    branch.create_namespace("empty")
    branch.drop_namespace("empty")
    branch.create_table("shop.brief", table.schema())
    branch.drop_table("shop.brief")
    assert _ids(lake.open_branch("exp")) == [2, 3, 4, 99]
    assert sorted(branch.list_namespaces()) == [("lab",), ("shop",)]
    assert sorted(branch.list_tables("lab")) == [("lab", "made"), ("lab", "moved")]
    assert _main(lake) == before
    main = pyiceberg_catalog(address, warehouse="lake")
    assert main.list_namespaces() == [("shop",)]
    assert main.load_table("shop.orders").scan().to_arrow().num_rows == 5
    with pytest.raises((NoSuchTableError, NoSuchNamespaceError)):
        main.load_table("lab.made")
    own = lake.open_branch("exp")
    assert check(project(own.context, own.table("shop.orders").id).location, Files(lake.store)) == []


def test_duckdb_works_on_a_branch_and_main_is_left_alone(lake: Lake, address: str) -> None:
    before = _main(lake)
    connection = duckdb_attached(address, "lake@exp")
    run = connection.execute
    assert run("SELECT count(*) FROM ice.shop.orders").fetchall() == [(5,)]
    run("DELETE FROM ice.shop.orders WHERE id = 1")
    run("INSERT INTO ice.shop.orders SELECT 50, ts, region, amount FROM ice.shop.orders WHERE id = 2")
    run("CREATE TABLE ice.shop.made AS SELECT 1 AS id")
    run("DROP TABLE ice.shop.kept")
    assert run("SELECT id FROM ice.shop.orders ORDER BY id").fetchall() == [(0,), (2,), (3,), (4,), (50,)]
    assert _ids(lake.open_branch("exp")) == [0, 2, 3, 4, 50]
    assert [one.name for one in lake.open_branch("exp").tables("shop")] == ["made", "orders"]
    assert _main(lake) == before
    connection.close()


def test_the_warehouse_says_which_branch(lake: Lake, address: str) -> None:
    with Client(address) as client:
        for warehouse, prefix in [("lake@exp", "@exp"), ("s3://b/lake@exp", "@exp"), ("lake", None), ("x@main", None)]:
            found = client.get("/config", params={"warehouse": warehouse}).json()
            assert found["overrides"].get("prefix") == prefix
        message = error(client.get("/config", params={"warehouse": "lake@nope"}), 404, "NotFoundException")
        assert message.startswith("Branch 'nope' does not exist")
        for path in ("/@nope/namespaces", "/@exp%2F..%2Fx/namespaces", f"/@{'x' * 5000}/namespaces", "/@/namespaces"):
            assert client.get(path).status_code in (400, 404)
        assert client.get("/@exp/namespaces").json() == client.get("/%40exp/namespaces").json()
        assert client.get("/@main/namespaces").json() == client.get("/namespaces").json()
        assert client.get("/@exp/namespaces/shop@other/tables").status_code == 404
        refs = client.get("/namespaces/shop/tables/orders").json()["metadata"]["refs"]
        assert set(refs) == {"main", "monday"}
        lake.drop_branch("exp")
        assert client.get("/@exp/namespaces").status_code == 404


def test_an_idempotency_key_of_main_is_another_one_on_a_branch(lake: Lake, address: str) -> None:
    key = {"Idempotency-Key": "0198f0a4-7a40-7cc3-98e5-0d5fd3c4f001"}
    update = {"requirements": [], "updates": [{"action": "set-properties", "updates": {"owner": "me"}}]}
    with Client(address, headers=key) as client:
        assert client.post("/@exp/namespaces/shop/tables/orders", json=update).status_code == 200
    with served(lake) as again, Client(again, headers=key) as client:
        assert client.post("/namespaces/shop/tables/orders", json=update).status_code == 200
    assert lake.table("shop.orders").properties["owner"] == "me"


def test_a_token_that_reads_reads_a_branch_and_changes_nothing(lake: Lake, address: str, tmp_path: Any) -> None:
    access = AccessFile(tmp_path / "access.toml")
    token = access.create("reader", Role.READ)
    with served(lake, access) as guarded, Client(guarded, headers={"Authorization": f"Bearer {token}"}) as client:
        assert client.get("/@exp/namespaces/shop/tables/orders").status_code == 200
        assert client.post("/@exp/namespaces/shop/tables/orders/plan", json={}).status_code == 200
        error(client.delete("/@exp/namespaces/shop/tables/orders"), 403, "ForbiddenException")


def test_a_branch_is_published_over_rest(lake: Lake, address: str) -> None:
    branch = lake.open_branch("exp")
    branch.table("shop.orders").delete_where("id = 1")
    with Client(address) as client:
        would = client.post("/@exp/publish", json={"dry-run": True}).json()
        assert (would["dry-run"], _ids(lake)) == (True, [0, 1, 2, 3, 4])
        done = client.post("/@exp/publish", json={}).json()
        assert done["tables"] == [{"name": "shop.orders", "kind": "changed", "inserted": 0, "updated": 0, "deleted": 1}]
        assert (_ids(lake), lake.version) == ([0, 2, 3, 4], done["version"])
        error(client.post("/@exp/publish", json={}), 404, "NotFoundException")
        lake.branch("late").table("shop.orders").update({"amount": "1.0"}, "id = 2")
        lake.table("shop.orders").update({"amount": "2.0"}, "id = 2")
        error(client.post("/@late/publish", json={}), 409, "CommitFailedException")
        error(client.post("/@main/publish", json={}), 400, "BadRequestException")


@pytest.mark.parametrize("engine", ["pyiceberg", "duckdb"])
def test_an_example_writes_audits_and_publishes(lake: Lake, engine: str, tmp_path: Path) -> None:
    columns = [("id", "long"), ("amount", "double")]
    orders = lake.create_table("shop.orders", columns, properties={"format-version": "2"})
    orders.append([{"id": 1, "amount": 9.5}])
    lake.branch("nightly")
    script = Path(__file__).parents[3] / "examples" / "publish" / f"with_{engine}.py"
    with served(lake) as where:
        done = subprocess.run(
            [sys.executable, str(script), where], capture_output=True, text=True, timeout=120, check=False, cwd=tmp_path
        )
    assert done.returncode == 0, done.stderr[-2000:]
    assert re.fullmatch(r"version \d+ has 3 orders\n", done.stdout)
    assert _ids(lake) == [1, 100, 101]
