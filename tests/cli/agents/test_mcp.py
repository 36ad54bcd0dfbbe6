"""`moulin mcp` as the protocol's own client sees it: tools, bounds, and what a query must not do."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import anyio
import pyarrow as pa
import pytest
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

import moulin

MOULIN = "from moulin.cli.main import main; main()"


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    with moulin.connect(tmp_path / "lake") as lake:
        lake.create_database("shop")
        columns = [("id", "long", False), ("region", "string"), ("amount", "double")]
        orders = lake.create_table("shop.orders", columns, primary_key=["id"])
        orders.append(pa.table({"id": range(500), "region": ["eu", "us"] * 250, "amount": [1.5] * 500}))
        lake.create_table("shop.returns", columns)
        lake.create_view("shop.all", ["orders", "returns"], description="Both")
    return tmp_path / "lake"


Asked = Callable[[ClientSession], Coroutine[Any, Any, None]]


def asking(lake: Path, work: Asked, *options: str) -> None:
    """Runs `work` with a session of a server that was just started."""
    server = StdioServerParameters(command=sys.executable, args=["-c", MOULIN, "--lake", str(lake), "mcp", *options])

    async def run() -> None:
        with anyio.fail_after(60):
            async with stdio_client(server) as streams, ClientSession(*streams) as session:
                started = await session.initialize()
                assert (started.serverInfo.name, started.serverInfo.version) == ("moulin", moulin.__version__)
                await work(session)

    anyio.run(run)


async def answer(session: ClientSession, tool: str, **arguments: Any) -> Any:
    found = await session.call_tool(tool, arguments)
    assert not found.isError, found.content
    return json.loads(found.content[0].text)  # type: ignore[union-attr]


async def refusal(session: ClientSession, tool: str, **arguments: Any) -> str:
    found = await session.call_tool(tool, arguments)
    assert found.isError, found.content
    return str(found.content[0].text)  # type: ignore[union-attr]


def test_an_agent_lists_describes_and_queries(lake: Path) -> None:
    async def work(session: ClientSession) -> None:
        tools = {tool.name: tool for tool in (await session.list_tools()).tools}
        assert set(tools) == {"list_tables", "describe_table", "query"}
        assert all(tool.annotations and tool.annotations.readOnlyHint for tool in tools.values())
        listed = await answer(session, "list_tables")
        assert [(one["name"], one["kind"]) for one in listed["tables"]] == [
            ("shop.orders", "table"),
            ("shop.returns", "table"),
            ("shop.all", "view"),
        ]
        described = await answer(session, "describe_table", name="shop.orders")
        assert described["rows"] == 500
        assert [one["name"] for one in described["columns"] if one["primary_key"]] == ["id"]
        view = await answer(session, "describe_table", name="shop.all")
        assert view["tables"] == ["shop.orders", "shop.returns"]
        sql = "select region, count(*) as n, sum(amount) as total from shop.orders group by region order by region"
        found = await answer(session, "query", sql=sql)
        assert found["rows"] == [
            {"region": "eu", "n": 250, "total": 375.0},
            {"region": "us", "n": 250, "total": 375.0},
        ]
        assert [one["name"] for one in found["columns"]] == ["region", "n", "total"]
        with moulin.connect(lake) as other:
            other.table("shop.orders").put({"id": 900, "region": "ap", "amount": 2.0})
            other.table("shop.orders").flush()
        found = await answer(session, "query", sql="select count(*) as n from shop.orders")
        assert found["rows"] == [{"n": 501}], "each query sees the newest version"

    asking(lake, work)


def test_a_table_with_deleted_rows_is_read(lake: Path) -> None:
    """Deleted rows are numbers in a file beside the statement, which the confined connection has to reach."""
    with moulin.connect(lake) as opened:
        opened.table("shop.orders").flush()
        opened.table("shop.orders").delete_where("id < 100")

    async def work(session: ClientSession) -> None:
        found = await answer(session, "query", sql="select count(*) as n, min(id) as least from shop.orders")
        assert found["rows"] == [{"n": 400, "least": 100}]

    asking(lake, work)


def test_answers_are_bounded_in_rows_bytes_and_time(lake: Path) -> None:
    async def work(session: ClientSession) -> None:
        found = await answer(session, "query", sql="select * from shop.orders")
        assert (len(found["rows"]), found["truncated"]) == (100, True)
        found = await answer(session, "query", sql="select * from shop.orders", max_rows=10)
        assert (len(found["rows"]), found["truncated"]) == (10, True)
        found = await answer(session, "query", sql="select repeat('x', 1000) as x from shop.orders")
        assert found["truncated"]
        wide = f"select {', '.join(f'1 as column_{number}' for number in range(1000))}"
        assert "name fewer of them" in await refusal(session, "query", sql=wide)
        assert len(json.dumps(found["rows"])) <= 10_000
        long = "select count(*) from range(1000000000) a, range(1000000000) b where hash(a.range, b.range) = 1"
        assert "took longer than 1 seconds" in await refusal(session, "query", sql=long)
        assert (await answer(session, "query", sql="select 1 as n"))["rows"] == [{"n": 1}]
        assert "at most 100,000 characters" in await refusal(session, "query", sql="select 1 " + " " * 100_000)

    asking(lake, work, "--rows", "100", "--answer-bytes", "10000", "--seconds", "1")


@pytest.mark.parametrize("engine", ["duckdb", pytest.param("spark", marks=pytest.mark.long)])
def test_a_query_reads_the_lake_and_nothing_else(lake: Path, engine: str, tmp_path: Path) -> None:
    secret = tmp_path / "secret.csv"
    secret.write_text("a\nt0psecret\n")
    before = {path: path.read_bytes() for path in (lake / "manifests").iterdir()}
    statements = [
        f"select * from '{secret}'",
        f"select * from read_csv('{secret}')",
        f"select * from read_text('{secret}')",
        f"select * from csv.`{secret}`",
        f"copy (select 1) to '{tmp_path}/written.csv'",
        "delete from shop.orders",
        "drop table shop.orders",
        "create table shop.x as select 1 as id",
        "attach ':memory:' as other",
        "install httpfs",
        "set memory_limit = '100GB'",
        "select 1; select 2",
        "select getenv('HOME')",
        "select * from duckdb_settings()",
        "select reflect('java.lang.System', 'getenv', 'HOME')",
        ") ; drop table shop.orders; --",
        "select 1) union all (select 2",
    ]

    async def work(session: ClientSession) -> None:
        for statement in statements:
            assert "t0psecret" not in await refusal(session, "query", sql=statement), statement
        found = await answer(session, "query", sql="select count(*) as n from shop.orders")
        assert found["rows"] == [{"n": 500}]

    asking(lake, work, "--engine", engine, *(["--seconds", "60"] if engine == "spark" else []))
    assert not (tmp_path / "written.csv").exists()
    assert {path: path.read_bytes() for path in (lake / "manifests").iterdir()} == before


def test_errors_are_sentences(lake: Path) -> None:
    async def work(session: ClientSession) -> None:
        assert "shop.nothing" in await refusal(session, "describe_table", name="shop.nothing")
        assert "nope" in await refusal(session, "query", sql="select nope from shop.orders")
        assert "database.table" in await refusal(session, "describe_table", name="orders")

    asking(lake, work)
