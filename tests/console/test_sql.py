"""SQL of the console over its API, on DuckDB in real child processes."""

from __future__ import annotations

import csv
import io
import json
import os
import signal
import time
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import moulin
from moulin.cli.served import Sql
from moulin.errors import PermissionDenied
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.roles import Role
from moulin.meta.server.private import PrivateServer
from tests.console.conftest import Api, Serve
from tests.console.statements import SECONDS, children, follow, refusal, rows, run, start

ENDLESS = "select sum(hash(a.range * b.range)) from range(10000000) a, range(10000000) b"


@pytest.fixture
def api(shop: Lake, serve: Serve) -> Api:
    exact = shop.create_table("shop.exact", [("id", "long", False), ("at", "timestamp_ns"), ("of", "list<string>")])
    exact.append(
        pa.table(
            {
                "id": [2**63 - 1, -(2**63), 7],
                "at": pa.array([1767225600123456789, -1, None], pa.timestamp("ns")),
                "of": pa.array([["a,b", '"'], [], None], pa.list_(pa.string())),
            }
        )
    )
    return serve(shop)


def test_rows_are_those_of_a_scan_and_exact(api: Api, shop: Lake) -> None:
    assert api.json("/sql")["engines"] == ["duckdb"]
    assert rows(api, 'select id, "at", "of" from shop.exact order by id') == [
        [str(-(2**63)), "1969-12-31 23:59:59.999999999", []],
        ["7", None, None],
        [str(2**63 - 1), "2026-01-01 00:00:00.123456789", ["a,b", '"']],
    ]
    scanned = shop.table("shop.orders").scan(columns=["id", "customer"]).to_arrow().sort_by("id").to_pylist()
    found = rows(api, "select id, customer from shop.orders order by id", limit=1000)
    assert found == [[str(row["id"]), row["customer"]] for row in scanned]


def test_an_export_is_the_result(api: Api) -> None:
    found = run(api, 'select id, "at", "of", id as id, \'é"\n\' as text from shop.exact order by id')
    assert found["state"] == "done", found
    path = f"/sql/{found['id']}/export"
    arrow = pa.ipc.open_file(api.get(path, params={"format": "arrow"}).content).read_all()
    assert arrow.column("text").to_pylist() == ['é"\n'] * 3
    assert arrow.column(0).to_pylist() == [-(2**63), 7, 2**63 - 1]
    assert arrow.column(1).cast(pa.int64()).to_pylist() == [-1, None, 1767225600123456789]
    parquet = pq.read_table(io.BytesIO(api.get(path, params={"format": "parquet"}).content))
    assert parquet.schema.names == ["id", "at", "of", "id_2", "text"]
    assert parquet.columns == arrow.columns
    lines = [json.loads(line) for line in api.get(path, params={"format": "ndjson"}).text.splitlines()]
    assert [line["id"] for line in lines] == [line["id_2"] for line in lines] == [-(2**63), 7, 2**63 - 1]
    answer = api.get(path, params={"format": "csv"})
    assert answer.headers["content-disposition"] == 'attachment; filename="result.csv"'
    head, *cells = csv.reader(io.StringIO(answer.text))
    assert head == ["id", "at", "of", "id", "text"]
    assert cells[2] == [str(2**63 - 1), "2026-01-01 00:00:00.123456789", '["a,b", "\\""]', str(2**63 - 1), 'é"\n']
    assert [row[1] for row in cells][1] == ""


def test_results_are_cut_at_rows_and_bytes(shop: Lake, serve: Serve) -> None:
    api = serve(shop, sql=Sql("auto", {"rows": 50, "result_bytes": 1 << 20}))
    found = run(api, "select id from shop.orders", limit=10_000)
    assert (found["rows"], found["more"], found["cut"], found["limit"]) == (50, True, False, 50)
    found = run(api, "select id from shop.orders limit 50")
    assert (found["rows"], found["more"], found["cut"]) == (50, False, False)
    found = run(api, "select repeat('x', 100000) from range(40)")
    assert 0 < found["rows"] < 11
    assert (found["more"], found["cut"]) == (True, True)


DANGEROUS = (
    "select * from read_csv('/etc/passwd')",
    "select * from read_text('/etc/hostname')",
    "select * from read_blob('/etc/hostname')",
    "select * from '/etc/passwd'",
    'select * from "/etc/passwd"',
    "select * from glob('/etc/*')",
    "select * from parquet_scan('/etc/passwd')",
    "from query('select 1')",
    "from query_table('shop.orders')",
    "attach '/tmp/x.db'",
    "copy shop.orders to '/tmp/stolen.csv'",
    "copy (select 1) to '/tmp/stolen.csv'",
    "pragma database_list",
    "pragma enable_external_access",
    "install httpfs",
    "load httpfs",
    "set memory_limit = '100GB'",
    "set enable_external_access = true",
    "create table x as select 1",
    "drop view shop.orders",
    "export database '/tmp/x'",
    "call pragma_version()",
    "select getenv('HOME')",
    "select current_setting('temp_directory')",
    "select getvariable('moulin_declares')",
    "select * from duckdb_settings()",
    "select * from duckdb_secrets()",
    "select * from information_schema.tables",
    "select * from pg_catalog.pg_tables",
    "select * from sqlite_master",
    "select * from moulin_table('shop.orders')",
    "with x as (select * from read_csv('/etc/passwd')) select * from x",
    "select (select content from read_text('/etc/hostname'))",
    "select * from shop.orders where id in (select 1 from glob('/etc/*'))",
    "describe shop.orders",
    "select transform(id) using 'sh -c id' from shop.orders",
    "select * from text.`/etc/hostname`",
    "select reflect('java.lang.System', 'getProperty', 'java.home')",
    "select java_method('java.lang.System', 'getProperty', 'java.home')",
    "explain analyze select 1",
    "select 1; attach '/tmp/x.db'",
    "/* x */ attach '/tmp/x.db'",
)


def test_dangerous_statements_are_refused(api: Api) -> None:
    for text in DANGEROUS:
        said = refusal(api, text)
        assert said.startswith(("PermissionDenied: ", "InvalidInput: ")), (text, said)
    assert not Path("/tmp/stolen.csv").exists()
    assert rows(api, "select count(*) from shop.orders") == [["190"]]


def test_the_connection_reads_no_file_even_if_the_check_let_a_statement_through(shop: Lake, tmp_path: Path) -> None:
    from moulin.duck.safe import SafeDuck

    safe = SafeDuck(shop, tmp_path, memory_bytes=1 << 28)
    safe.run("select 1")
    connection = safe._connection
    assert connection is not None
    for text in (*DANGEROUS[:3], "attach '/tmp/x.db'", "copy (select 1) to '/tmp/stolen.csv'", "install httpfs"):
        with pytest.raises(duckdb.PermissionException):
            connection.execute(text)
    with pytest.raises(duckdb.InvalidInputException, match="locked"):
        connection.execute("set enable_external_access = true")


def test_a_mistake_names_line_and_column(api: Api) -> None:
    error = run(api, "select id,\n  nosuch\nfrom shop.orders")["error"]
    assert (error["line"], error["column"]) == (2, 3)
    error = run(api, "select 'é',\n from from shop.orders")["error"]
    assert (error["line"], error["column"]) == (2, 7)
    assert "LINE" not in error["message"]


def test_a_cancelled_statement_ends_in_seconds_and_the_next_one_runs(api: Api) -> None:
    number = start(api, ENDLESS)
    follow(api, number, lambda found: found["state"] == "running")
    began = time.monotonic()
    assert api.delete(f"/sql/{number}").status_code == 200
    assert follow(api, number)["state"] == "cancelled"
    assert time.monotonic() - began < 5
    assert rows(api, "select 1 + 1") == [[2]]


def test_a_statement_that_takes_too_long_is_stopped(shop: Lake, serve: Serve) -> None:
    api = serve(shop, sql=Sql("auto", {"seconds": 1.0}))
    assert refusal(api, ENDLESS).startswith("Unavailable: The statement took longer than 1 seconds")
    assert rows(api, "select 1 + 1") == [[2]]


def test_a_killed_child_is_reported_and_replaced(api: Api) -> None:
    number = start(api, ENDLESS)
    follow(api, number, lambda found: found["state"] == "running")
    (pid,) = children()
    os.kill(pid, signal.SIGKILL)
    error = follow(api, number)["error"]
    assert "is gone (it was killed" in error["message"]
    assert rows(api, "select 1 + 1") == [[2]]
    assert pid not in children()


def test_two_statements_run_and_a_third_waits(api: Api) -> None:
    running = [start(api, ENDLESS) for _ in range(2)]
    for number in running:
        follow(api, number, lambda found: found["state"] == "running")
    third = start(api, "select 1")
    time.sleep(0.2)
    assert api.json(f"/sql/{third}")["state"] == "waiting"
    api.delete(f"/sql/{running[0]}")
    assert follow(api, third)["state"] == "done"
    api.delete(f"/sql/{running[1]}")
    follow(api, running[1])


def test_a_statement_belongs_to_its_token(shop: Lake, serve: Serve, tmp_path: Path) -> None:
    access = AccessFile(tmp_path / "access.toml")
    ann, bob = access.create("ann", Role.READ), access.create("bob", Role.ADMIN)
    api = serve(shop, access, ann)
    number = run(api, "select 1")["id"]
    with Api(api.port, bob) as other, Api(api.port) as stranger:
        for call in (other.get, other.delete):
            assert call(f"/sql/{number}").status_code == 404
        for part in ("rows", "plan", "export"):
            assert other.get(f"/sql/{number}/{part}").status_code == 404
        assert stranger.post("/sql", json={"text": "select 1"}).status_code == 401
    assert api.get(f"/sql/{number}/rows").status_code == 200
    access.revoke("ann")
    assert api.get(f"/sql/{number}/rows").status_code == 401


def test_a_statement_reads_the_version_that_is_asked_for(api: Api, shop: Lake) -> None:
    before = shop.table("shop.orders").tags()["before"]
    assert rows(api, "select count(*) from shop.orders", version=str(before)) == [["200"]]
    text = "with o as (select * from shop.orders) select count(*) from o join shop.orders p using (id)"
    assert rows(api, text, version=before) == [["200"]]
    assert rows(api, text) == [["190"]]


def test_a_plan_says_how_much_of_a_table_is_read(api: Api) -> None:
    number = run(api, "select customer, count(*) from shop.orders where id > 100 group by customer")["id"]
    plan = api.json(f"/sql/{number}/plan")
    assert plan["shares"] == [{"table": "shop.orders", "read": 8, "total": 8}]

    def leaves(step: Any) -> list[Any]:
        return [leaf for one in step["inputs"] for leaf in leaves(one)] or [step]

    assert "id>100" in json.dumps(leaves(plan["steps"][0]))
    assert "/" not in json.dumps(plan)
    failed = run(api, "select nosuch from shop.orders")["id"]
    assert api.get(f"/sql/{failed}/plan").status_code == 400


def test_a_child_has_no_secrets_in_its_environment_and_may_only_read(
    shop: Lake, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden-1")
    monkeypatch.setenv("MOULIN_STORAGE_OPTIONS", '{"secret": "hidden-2"}')
    monkeypatch.delenv("MOULIN_STORAGE_OPTIONS")
    api = serve(shop)
    assert rows(api, "select 1") == [[1]]
    (pid,) = children()
    assert b"hidden" not in Path(f"/proc/{pid}/environ").read_bytes()
    assert b"grpc" not in Path(f"/proc/{pid}/cmdline").read_bytes()
    door = PrivateServer(shop, Role.READ)
    try:
        with moulin.connect(door.address, token=door.token) as behind:
            assert behind.table("shop.orders").scan().count() == 190
            with pytest.raises(PermissionDenied):
                behind.create_database("mine")
    finally:
        door.stop()


def test_children_end_with_the_server(shop: Lake, serve: Serve) -> None:
    api = serve(shop)
    assert rows(api, "select 1") == [[1]]
    assert children()
    assert api.server is not None
    api.server.stop()
    end = time.monotonic() + SECONDS
    while children():
        assert time.monotonic() < end
        time.sleep(0.02)


def test_a_server_may_run_no_sql(shop: Lake, serve: Serve) -> None:
    api = serve(shop, sql=Sql("off"))
    assert api.json("/sql")["engines"] == []
    answer = api.post("/sql", json={"text": "select 1"})
    assert (answer.status_code, "moulin serve --sql" in answer.text) == (412, True)


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"text": 1},
        {"text": "select 1", "limit": 0},
        {"text": "select 1", "version": -1},
        {"text": "select 1", "engine": "sh"},
        {"text": "select 1", "user": "x"},
        {"text": "  "},
        {"text": "x" * (1 << 18)},
    ],
)
def test_a_request_that_does_not_fit_is_refused(shop: Lake, serve: Serve, body: dict[str, Any]) -> None:
    assert serve(shop).post("/sql", json=body).status_code == 400


def complete(api: Api, before: str, after: str = "", engine: str = "duckdb") -> tuple[str, list[str]]:
    answer = api.post("/sql/complete", json={"before": before, "after": after, "engine": engine})
    assert answer.status_code == 200, answer.text
    found = answer.json()
    return found["replaced"], [f"{one['kind']} {one['text']}" for one in found["items"]]


def test_completion_knows_the_catalog(api: Api) -> None:
    found = complete(api, "select * from sho")[1]
    assert found[0] == "database shop"
    assert "table shop.exact" in found
    replaced, found = complete(api, "select * from shop.or")
    assert (replaced, found[0]) == ("or", "table orders")
    assert complete(api, "select o.cust", " from shop.orders o") == ("cust", ["column customer"])
    assert complete(api, "select cu", " from shop.orders")[1][0] == "column customer"
    assert "function median" in complete(api, "select med")[1]
    assert complete(api, "select a", " from shop.exact")[1][0] == 'column "at"'
    assert complete(api, 'select "a', " from shop.exact")[1][0] == 'column "at"'
    assert "keyword where" in complete(api, "select * from shop.orders whe")[1]
    assert complete(api, "select `cu", " from shop.orders", "spark")[1] == ["column customer"]
    assert "function percentile_approx" in complete(api, "select percentile_a", engine="spark")[1]


def test_completion_is_silent_in_quotes_and_comments(api: Api) -> None:
    for before in ("select 'or", "select 1 -- or", "select /* or", "select * from shop.nosuch."):
        assert complete(api, before)[1] == []
