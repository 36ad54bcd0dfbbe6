"""SQL of the console on Spark: one child, which is started, used, refused, cancelled, killed and started again."""

from __future__ import annotations

import json
import os
import signal
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from moulin.cli.served import Sql
from moulin.lake import Lake
from tests.console.conftest import Api, Serve
from tests.console.statements import SECONDS, children, follow, refusal, rows, run, start

ENDLESS = "select sum(hash(a.id * b.id)) from range(10000000) a, range(10000000) b"
DANGEROUS = (
    "select transform(id) using 'sh -c id' as (x) from shop.orders",
    "select * from text.`/etc/hostname`",
    "select * from parquet.`/etc/hostname`",
    "select reflect('java.lang.System', 'getProperty', 'java.home')",
    "select java_method('java.lang.System', 'getenv', 'HOME')",
    "select try_reflect('java.lang.System', 'getProperty', 'java.home')",
    "select input_file_name() from shop.orders",
    "select _metadata.file_path from shop.orders",
    "select * from read_files('/etc/passwd')",
    "select ${env:HOME}",
    "create table shop.stolen as select 1 as x",
    "drop table shop.orders",
    "delete from shop.orders",
    "insert into shop.orders select * from shop.orders",
    "set spark.sql.runSQLOnFiles = true",
    "add jar '/tmp/x.jar'",
    "cache table shop.orders",
    "call gc()",
    "select 1; drop table shop.orders",
)


@pytest.mark.spark
def test_a_spark_child_runs_safe_statements_and_can_be_killed(
    shop: Lake, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    monkeypatch.setenv("MOULIN_SPARK_MEMORY", "1g")
    wide = shop.create_table("shop.wide", [("id", "long"), ("at", "timestamptz")], event_time="at")
    for day in range(1, 6):
        wide.append([{"id": 2**63 - day, "at": datetime(2026, 1, day, tzinfo=UTC)}])
    api = serve(shop, sql=Sql("on"))
    assert api.json("/sql")["engines"] == ["spark", "duckdb"]
    _it_answers_exactly(api, shop)
    _it_plans(api)
    for text in DANGEROUS:
        said = refusal(api, text, engine="spark")
        assert said.startswith(("PermissionDenied: ", "InvalidInput: ")), (text, said)
        assert "/" not in said.replace("/etc/", "").replace("/tmp/", ""), said
    error = run(api, "select id,\n  nosuch from shop.orders", engine="spark")["error"]
    assert (error["line"], error["column"]) == (2, 3)
    _it_is_cancelled(api)
    _it_is_replaced(api)


def _it_answers_exactly(api: Api, shop: Lake) -> None:
    found = rows(api, "select id, customer from shop.orders order by id", engine="spark")
    scanned = shop.table("shop.orders").scan(columns=["id", "customer"]).to_arrow().sort_by("id").to_pylist()
    assert found == [[str(row["id"]), row["customer"]] for row in scanned]
    assert rows(api, "select max(id) from shop.wide", engine="spark") == [[str(2**63 - 1)]]
    before = shop.table("shop.orders").tags()["before"]
    assert rows(api, "select count(*) from shop.orders", engine="spark", version=before) == [["200"]]
    assert rows(api, f"select count(*) from shop.orders version as of {before}", engine="spark") == [["200"]]
    cut = run(api, "select id from range(1000000) order by id", engine="spark", limit=7)
    assert (cut["rows"], cut["more"], cut["cut"]) == (7, True, False)
    (child,) = [pid for pid, started in children().items() if started]
    for pid in (child, *children()[child]):
        assert b"hidden" not in Path(f"/proc/{pid}/environ").read_bytes()


def _it_plans(api: Api) -> None:
    found = run(api, "select id from shop.wide where at >= timestamp '2026-01-04T00:00:00Z'", engine="spark")
    plan = api.json(f"/sql/{found['id']}/plan")
    assert plan["shares"] == [{"table": "shop.wide", "read": 2, "total": 5}]
    assert plan["steps"]
    assert "Location" not in json.dumps(plan)
    assert "file:" not in json.dumps(plan)


def _it_is_cancelled(api: Api) -> None:
    number = start(api, ENDLESS, engine="spark")
    follow(api, number, lambda found: found["progress"] is not None)
    began = time.monotonic()
    api.delete(f"/sql/{number}")
    assert follow(api, number)["state"] == "cancelled"
    assert time.monotonic() - began < 5
    assert rows(api, "select 1 + 1", engine="spark") == [[2]]


def _it_is_replaced(api: Api) -> None:
    number = start(api, ENDLESS, engine="spark")
    follow(api, number, lambda found: found["progress"] is not None)
    ((child, (jvm, *_)),) = [(pid, started) for pid, started in children().items() if started]
    os.kill(jvm, signal.SIGKILL)
    assert "is gone" in follow(api, number)["error"]["message"]
    end = time.monotonic() + SECONDS
    while child in children():
        assert time.monotonic() < end
        time.sleep(0.02)
    assert rows(api, "select 1 + 1", engine="spark") == [[2]]
