"""Erase through a server: the client asks, the server erases where the catalog is, and the client signs the report."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import pytest

import moulin
from moulin.catalog.upkeep.check import check
from moulin.errors import FailedPrecondition, InvalidInput, NotFound, PermissionDenied
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.config import ServeConfig
from moulin.meta.roles import Role
from moulin.meta.server.server import build_server
from moulin.table.erase.report import verify
from tests.table.conftest import BACKENDS, OpenLake
from tests.table.erase.planting import ORDERS, SECRET, WHERE, history, holding, order, rows_of, secret
from tests.table.erase.test_erase import plant_events, unchanged

KEY = b"a key of sixteen bytes or more"

in_a_folder = pytest.mark.parametrize("open_lake", BACKENDS[:1], indirect=True)


@pytest.fixture
def served(open_lake: OpenLake) -> Lake:
    """The lake where its catalog is."""
    lake = open_lake()
    lake.create_database("shop")
    return lake


@pytest.fixture
def address(served: Lake) -> Iterator[str]:
    server = build_server(served, ServeConfig(bind="127.0.0.1:0", http_bind="")).start()
    yield f"grpc://{server.address}"
    server.stop(1)


@pytest.fixture
def client(address: str, served: Lake, request: pytest.FixtureRequest) -> Iterator[Lake]:
    options = {"storage_options": request.getfixturevalue("s3_options")} if "s3" in served.store.uri else {}
    with moulin.connect(address, **options) as lake:
        yield lake


def test_a_client_has_the_server_erase_rows_of_every_version_branch_and_clone(served: Lake, client: Lake) -> None:
    plant_events(client)
    client.clone_table("shop.events", "shop.copy", at="before")
    client.table("shop.copy").append([secret(400), order(401)])
    branch = client.branch("exp", expires="7d")
    branch.table("shop.events").append([secret(500), order(501)])
    branch.table("shop.events").delete_where("id = 103")
    names = ["shop.events", "shop.copy", "shop@exp.events"]
    before = history(client, names)
    done = client.table("shop.copy").erase(WHERE, report_key=KEY)
    assert done.complete
    assert done.rows >= 6
    assert holding(served.store) == []
    unchanged(client, names, before)
    unchanged(served, names, before)
    assert not check(served.own_catalog())
    assert verify(done.report, KEY) == "signed with this key"
    assert done.report["tables"] == ["shop.copy", "shop.events", "shop@exp.events"]


def test_rows_are_erased_from_a_branch_through_its_address(served: Lake, client: Lake, address: str) -> None:
    plant_events(client)
    branch = client.branch("exp")
    table = branch.table("shop.events")
    table.append([secret(500), order(501)])
    before = history(client, ["shop.events", "shop@exp.events"])
    assert table.erase(WHERE).rows >= 7
    assert holding(served.store) == []
    unchanged(client, ["shop.events", "shop@exp.events"], before)
    client.publish("exp")
    assert 501 in rows_of(client.table("shop.events"))
    assert not check(served.own_catalog())


def test_rows_that_the_client_has_put_are_erased_and_it_goes_on_putting(served: Lake, client: Lake) -> None:
    table = client.create_table("shop.users", ORDERS, primary_key=["id"])
    beside = client.create_table("shop.others", ORDERS, primary_key=["id"])
    table.put(secret(1))
    table.put(order(2))
    beside.put(order(9))
    assert table.erase(WHERE).rows == 1
    assert holding(served.store) == []
    assert table.get(1) is None
    assert table.get(2) == order(2)
    table.put(secret(1))
    table.put_batch([order(3), order(4)])
    table.delete(4)
    beside.delete(9)
    assert table.get(1) == secret(1)  # a new row of the same person is a new row
    assert rows_of(table).keys() == {1, 2, 3}
    table.close()
    assert rows_of(served.table("shop.users")).keys() == {1, 2, 3}
    assert not check(served.own_catalog())


def test_puts_wait_while_the_server_erases(served: Lake, client: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    table = client.create_table("shop.users", ORDERS, primary_key=["id"])
    table.put(secret(0))
    began, found = threading.Event(), []
    run = client.context.catalog.erase_rows  # type: ignore[attr-defined]

    def slowly(*arguments: Any) -> Any:
        began.set()
        done = run(*arguments)
        found.append(table.get(500))  # none is taken while the server has the regions
        return done

    monkeypatch.setattr(client.context.catalog, "erase_rows", slowly)

    def put() -> None:
        began.wait(10)
        for n in range(500, 510):
            table.put(order(n))

    other = threading.Thread(target=put)
    other.start()
    assert table.erase(WHERE).rows == 1
    other.join(10)
    assert found == [None]
    assert rows_of(table).keys() == {*range(500, 510)}


@in_a_folder
def test_a_closed_table_stays_closed_after_an_erase(served: Lake, client: Lake) -> None:
    table = client.create_table("shop.users", ORDERS, primary_key=["id"])
    table.put(secret(0))
    table.close()
    other = client.table("shop.users")
    assert other.erase(WHERE).rows == 1
    with pytest.raises(moulin.errors.Closed):
        table.put(order(1))
    other.put(order(1))
    assert rows_of(other).keys() == {1}


def test_a_table_that_another_client_has_open_for_puts_is_refused(tmp_path: Path) -> None:
    with moulin.connect(tmp_path / "lake", lock_seconds=0.5) as served:
        served.create_database("shop")
        server = build_server(served, ServeConfig(bind="127.0.0.1:0", http_bind="")).start()
        address = f"grpc://{server.address}"
        with moulin.connect(address) as client, moulin.connect(address) as other:
            table = client.create_table("shop.users", ORDERS, primary_key=["id"])
            theirs = other.table("shop.users")
            theirs.put(secret(1))
            with pytest.raises(FailedPrecondition, match="open for puts"):
                table.erase(WHERE)
            assert theirs.get(1) == secret(1)
            theirs.close()
            assert table.erase(WHERE).rows == 1
        server.stop(1)


@in_a_folder
def test_only_text_goes_to_a_server_and_its_errors_are_those_of_a_lake(client: Lake) -> None:
    table = client.create_table("shop.t", ORDERS)
    table.append([secret(1), order(2)])
    with pytest.raises(InvalidInput, match="SQL text"):
        table.erase(pc.field("id") == 1)
    with pytest.raises(InvalidInput, match="nothing"):
        table.erase("nothing = 1")
    client.drop_table("shop.t")
    with pytest.raises(NotFound):
        table.erase("id = 1")


@in_a_folder
def test_the_log_of_a_server_has_nothing_of_a_condition(client: Lake, caplog: pytest.LogCaptureFixture) -> None:
    table = client.create_table("shop.t", ORDERS)
    with caplog.at_level(logging.DEBUG), pytest.raises(InvalidInput) as caught:
        table.erase(f"email = '{SECRET}' and nothing('{SECRET}') = 1 or '{SECRET}' || ''")
    assert any("EraseRows" in str(vars(record)) for record in caplog.records)
    assert not any(SECRET in str(vars(record)) for record in caplog.records), caught.value


@in_a_folder
def test_an_erase_takes_the_role_admin(served: Lake, tmp_path: Path) -> None:
    access = AccessFile(tmp_path / "lake" / "access.toml")
    tokens = {role: access.create(role.name.lower(), role) for role in (Role.PIPELINE, Role.ADMIN)}
    server = build_server(served, ServeConfig(bind="127.0.0.1:0", http_bind="", auth="on")).start()
    try:
        served.create_table("shop.t", ORDERS).append([secret(1), order(2)])
        worker = moulin.connect(f"grpc://{server.address}", token=tokens[Role.PIPELINE])
        with worker as lake, pytest.raises(PermissionDenied, match="admin"):
            lake.table("shop.t").erase(WHERE)
        with moulin.connect(f"grpc://{server.address}", token=tokens[Role.ADMIN]) as lake:
            assert lake.table("shop.t").erase(WHERE).rows == 1
    finally:
        server.stop(1)
