"""A lake behind a server is a lake: the same methods, the same errors, the files read and written directly."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

import moulin
from moulin.catalog.commit.table_commit import TableCommit
from moulin.errors import (
    AlreadyExists,
    Closed,
    FailedPrecondition,
    Fenced,
    InvalidInput,
    NotFound,
    Unavailable,
)
from moulin.lake import Lake
from moulin.meta.codec.errors import kind_of
from moulin.meta.config import ServeConfig
from moulin.meta.server.server import MetaServer, build_server
from moulin.model.operations import SetProperties
from tests.contract.samples import make_table
from tests.meta.conftest import LOOPBACK

ROOT = Path(__file__).parents[3]
COLUMNS = [("id", "long", False), ("name", "string", True), ("day", "date", True)]


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Lake]:
    with Lake.open(tmp_path / "lake", settings={"history_keep": 3600}) as opened:
        yield opened


@pytest.fixture
def server(served: Lake) -> Iterator[MetaServer]:
    server = build_server(served, LOOPBACK).start()
    yield server
    server.stop(1)


@pytest.fixture
def lake(server: MetaServer) -> Iterator[Lake]:
    with moulin.connect(f"grpc://{server.address}") as opened:
        yield opened


def rows(*ids: int) -> list[dict[str, Any]]:
    return [{"id": n, "name": f"n{n}", "day": None} for n in ids]


def ids(table: Any, **options: Any) -> list[int]:
    return sorted(table.scan(columns=["id"], **options).to_arrow()["id"].to_pylist())


def test_an_event_table_works_from_its_first_row_to_its_history(lake: Lake, served: Lake) -> None:
    lake.create_database("shop")
    table = lake.create_table("shop.orders", COLUMNS, partition_by=["bucket(4, id)"], sort_by=["id"])
    first = table.append(rows(*range(20))).version
    table.append(rows(20, 21))
    assert table.delete_where("id < 5").rows_deleted == 5
    assert ids(table) == list(range(5, 22))
    assert ids(table, where="id = 7") == [7]
    assert table.compact().merges > 0
    assert ids(table) == list(range(5, 22))
    assert ids(table, version=first) == list(range(20))
    table.add_column("price", "double")
    table.set_properties({"owner": "me"})
    table.overwrite([{"id": 1, "name": "one"}], where="id = 9")
    assert ids(table, where="id < 9") == [1, *range(5, 9)]
    assert [c.kind for c in table.history()] == [c.kind for c in served.table("shop.orders").history()]
    assert {c["_change_type"] for c in table.changes(first).to_arrow().to_pylist()} >= {"delete", "insert"}
    done = table.restore(first)
    assert (done.rows_added, done.rows_deleted, done.rows_updated) == (6, 3, 0)
    assert ids(table) == ids(served.table("shop.orders")) == list(range(20))


def test_a_keyed_table_is_put_read_and_flushed_through_a_server(lake: Lake, served: Lake) -> None:
    lake.create_database("shop")
    table = lake.create_table("shop.users", COLUMNS, primary_key=["id"])
    table.put_batch(rows(1, 2, 3))
    table.put({"id": 2, "name": "two", "day": None})
    table.delete(3)
    assert table.get(2) == {"id": 2, "name": "two", "day": None}
    table.flush()
    assert [row and row["name"] for row in table.get_many([1, 2, 3])] == ["n1", "two", None]
    assert ids(table) == ids(served.table("shop.users")) == [1, 2]
    with pytest.raises(Fenced, match="is open in process"):
        served.table("shop.users").put({"id": 5, "name": "five", "day": None})


def test_a_transaction_commits_several_tables_in_one_version(lake: Lake) -> None:
    lake.create_database("shop")
    for name in ("a", "b"):
        lake.create_table(f"shop.{name}", COLUMNS)
    with lake.transaction() as transaction:
        transaction.table("shop.a").append(rows(1))
        transaction.table("shop.b").append(rows(2))
    assert lake.table("shop.a").history(1)[0].version == lake.table("shop.b").history(1)[0].version == lake.version


def test_errors_are_those_of_the_server(lake: Lake, served: Lake) -> None:
    lake.create_database("shop")
    lake.create_table("shop.t", COLUMNS)
    lake.create_view("shop.v", ["t"])
    for make in (
        lambda it: it.table("shop.none"),
        lambda it: it.create_database("shop"),
        lambda it: it.drop_database("shop"),
        lambda it: it.drop_table("shop.t"),
        lambda it: it.table("shop.t").at(version=10**9),
        lambda it: it.table("shop.t").add_column("id", "long"),
        lambda it: it.rename_table("shop.t", "shop.v"),
        lambda it: it.replace_table("shop.t", "shop.none"),
        lambda it: it.replace_table("shop.v", "shop.t"),
        lambda it: it.create_table("shop.orc", COLUMNS, properties={"write.format.default": "orc"}),
        lambda it: it.table("shop.t").set_properties({"write.parquet.compression-codec": "lzo"}),
    ):
        told = []
        for one in (lake, served):
            with pytest.raises((NotFound, AlreadyExists, FailedPrecondition, InvalidInput)) as error:
                make(one)
            told.append((kind_of(error.value), error.value.message))
        assert told[0] == told[1]


@pytest.mark.parametrize(
    "call",
    [
        lambda it: it.create_database("\ud800"),
        lambda it: it.create_database(None),
        lambda it: it.version_at(1 << 70),
        lambda it: it.table("d", "t", 1 << 64),
        lambda it: it.reserve_segments(-1),
        lambda it: it.reserve_segments(1 << 64),
        lambda it: it.commit([]),
    ],
)
def test_what_cannot_be_sent_is_the_callers_mistake(lake: Lake, call: Any) -> None:
    with pytest.raises((InvalidInput, NotFound)):
        call(lake.catalog)


def test_settings_are_the_servers_unless_given(server: MetaServer, monkeypatch: pytest.MonkeyPatch) -> None:
    uri = f"grpc://{server.address}"
    with moulin.connect(uri) as lake:
        assert lake.config.history_keep == 3600
    with moulin.connect(uri, history_keep=60) as lake:
        assert lake.config.history_keep == 60
    monkeypatch.setenv("MOULIN_HISTORY_KEEP", "70")
    with moulin.connect(uri) as lake:
        assert lake.config.history_keep == 70
    with pytest.raises(InvalidInput):
        moulin.connect(uri, histry_keep=1)


@pytest.mark.parametrize("uri", ["grpc://", "grpc://h:x", "grpc://u:p@h", "grpc://h/path", "grpcs://h?x=1"])
def test_a_malformed_address_is_refused(uri: str) -> None:
    with pytest.raises(InvalidInput):
        moulin.connect(uri)


def test_a_server_that_is_not_there_is_unavailable() -> None:
    with pytest.raises(Unavailable, match="cannot be reached"):
        moulin.connect("grpc://127.0.0.1:1")


def test_a_closed_lake_refuses_every_call(lake: Lake) -> None:
    catalog = lake.catalog
    lake.close()
    with pytest.raises(Closed):
        _ = lake.version
    with pytest.raises(Closed):
        catalog.version()


def test_the_catalog_itself_is_not_given_out_through_a_server(lake: Lake) -> None:
    with pytest.raises(FailedPrecondition, match="not through a server"):
        lake.own_catalog()


def test_a_commit_whose_answer_was_lost_is_made_once(server: MetaServer, served: Lake) -> None:
    """The first answer never arrives. The client asks again, and the change is there once."""
    catalog = served.own_catalog()
    state = make_table(catalog)
    with moulin.connect(f"grpc://{server.address}") as lake:
        commit, sent = lake.catalog._stub.Commit, []  # type: ignore[attr-defined]

        class Lost(grpc.RpcError):
            def code(self) -> grpc.StatusCode:
                return grpc.StatusCode.UNAVAILABLE

            def details(self) -> str:
                return "Socket closed"

            def trailing_metadata(self) -> tuple[()]:
                return ()

        def lose_first(request: Any, **given: Any) -> Any:
            sent.append(request.request_id)
            answer = commit(request, **given)
            if len(sent) == 1:
                raise Lost
            return answer

        lake.catalog._stub.Commit = lose_first  # type: ignore[attr-defined]
        change = TableCommit(state.id, state.version, SetProperties({"a": "b"}))
        result = lake.catalog.commit([change])
    assert (result.version, result.replayed) == (state.version + 1, False)
    assert len(sent) == 2
    assert len(set(sent)) == 1
    assert catalog.version() == state.version + 1


def test_tags_and_sort_orders_work_through_a_server(server: MetaServer, served: Lake) -> None:
    state = make_table(served.own_catalog(), name="tagged")
    with moulin.connect(f"grpc://{server.address}") as lake:
        table = lake.table(state.full_name)
        table.tag("made", state.version)
        column = state.schema.fields[0].name
        table.set_sort_order([f"{column} desc"])
        assert table.tags() == {"made": state.version}
        assert table.at(tag="made").version == state.version
    now = served.table(state.full_name)
    assert now.tags() == {"made": state.version}
    assert [field.direction.value for field in now.state().sort_order.fields] == ["desc"]


def test_many_clients_count_without_losing_one(server: MetaServer, served: Lake) -> None:
    state = make_table(served.own_catalog())

    def count(_: int) -> None:
        with moulin.connect(f"grpc://{server.address}") as lake:
            for _ in range(4):
                while True:
                    now = lake.catalog.table_by_id(state.id)
                    value = {"n": str(int(now.properties.get("n", "0")) + 1)}
                    try:
                        lake.catalog.commit([TableCommit(state.id, now.version, SetProperties(value))])
                        break
                    except moulin.errors.Conflict:
                        continue

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(8)))
    assert served.own_catalog().table_by_id(state.id).properties["n"] == "32"


def test_the_serving_process_logs_answers_health_and_finishes_running_calls(tmp_path: Path) -> None:
    """`moulin serve` as it is run: structured logs, health over HTTP, a call that runs is finished on SIGTERM."""
    with Lake.open(tmp_path / "lake") as made:
        make_table(made.own_catalog())
    command = [sys.executable, "-m", "moulin.cli.main", "--lake", str(tmp_path / "lake"), "serve"]
    command += ["--bind", "127.0.0.1:0", "--http-bind", "127.0.0.1:0"]
    environ = {**os.environ, "PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ)
    try:
        import json
        import urllib.request

        lines = iter(process.stderr or [])
        serving = next(line for line in map(json.loads, lines) if line["message"] == "serving")
        with urllib.request.urlopen(f"http://127.0.0.1{serving['http']}/healthz") as answer:
            assert json.load(answer)["status"] == "ok"
        with moulin.connect(f"grpc://{serving['grpc']}") as lake, Lake.open(tmp_path / "lake") as beside:
            with beside.own_catalog().pool.write():
                running = threading.Thread(target=lambda: lake.create_database("last"))
                running.start()
                time.sleep(0.5)
                process.send_signal(signal.SIGTERM)
                time.sleep(0.5)
                assert process.poll() is None, "a call is running"
            running.join()
            assert process.wait(30) == 0
            assert "last" in {database.name for database in beside.databases()}
        rest = [json.loads(line) for line in lines]
        assert rest[-1]["message"] == "stopped"
        assert rest[-1]["drained"] is True
    finally:
        process.kill()
        process.communicate()


def test_the_server_checks_properties_too(lake: Lake, served: Lake) -> None:
    """A client of another kind may send what ours would have refused."""
    state = make_table(served.own_catalog())
    for name in ("moulin.retention", "retention-ns"):
        with pytest.raises(InvalidInput, match="Did you mean 'moulin"):
            lake.catalog.commit([TableCommit(state.id, state.version, SetProperties({name: "5"}))])
    assert served.own_catalog().table_by_id(state.id).properties == state.properties


def test_another_cluster_at_the_same_address_is_noticed(tmp_path: Path) -> None:
    """CL-13. A client that is connected does not go on with another lake when that one takes over the address."""
    with Lake.open(tmp_path / "a") as first, Lake.open(tmp_path / "b") as second:
        server = build_server(first, LOOPBACK).start()
        bind = server.address
        with moulin.connect(f"grpc://{bind}") as lake:
            lake.create_database("here")
            server.stop(0)
            server = build_server(second, ServeConfig(bind=bind, http_bind="")).start()
            try:
                with pytest.raises(FailedPrecondition, match="check the address"):
                    lake.create_database("there")
            finally:
                server.stop(0)
        assert second.databases() == []


def test_an_export_through_a_server_is_told_where_to_export(lake: Lake, tmp_path: Path) -> None:
    lake.create_database("out")
    table = lake.create_table("out.t", [("id", "long")], primary_key=["id"])
    table.put({"id": 1})
    with pytest.raises(FailedPrecondition, match=r"open the lake by its folder or database, or read .* Iceberg REST"):
        table.export_iceberg(tmp_path / "export")
    assert not (tmp_path / "export").exists()
