"""`moulin mcp`: serves the tools over the Model Context Protocol, on standard input and output."""

# Decisions: docs/decisions/0672

from __future__ import annotations

import functools
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

import moulin
from moulin.cli.agents.read_only import read_only
from moulin.cli.agents.tools import Bounds, Tools
from moulin.cli.help import examples
from moulin.cli.options import open_lake
from moulin.errors import MoulinError

_INSTRUCTIONS = """A lake of tables. Call list_tables and describe_table before you query. A query is one
SELECT; names are database.table. Results are truncated: aggregate in SQL instead of fetching all rows."""


def register(root: typer.Typer) -> None:
    lines = ("moulin --lake ./lake mcp", "moulin --lake ./lake mcp --engine spark --rows 200")
    root.command("mcp", epilog=examples(*lines))(serve)


def serve(
    context: typer.Context,
    engine: Annotated[str, typer.Option(metavar="duckdb|spark", help="What runs the queries.")] = "duckdb",
    rows: Annotated[int, typer.Option(min=1, help="Maximum number of rows in a result.")] = 1_000,
    answer_bytes: Annotated[int, typer.Option(min=1_000, help="Maximum size of a result, in bytes of JSON.")] = 256
    << 10,
    seconds: Annotated[float, typer.Option(min=0.1, help="Time limit of a query, in seconds.")] = 30.0,
) -> None:
    """Serve the lake to AI agents over standard input and output (MCP): list, describe and query tables, read-only."""
    with open_lake(context) as lake, tempfile.TemporaryDirectory(prefix="moulin-mcp-") as folder:
        ran = read_only(engine, lake, Path(folder))
        server(Tools(lake, ran, Bounds(rows, answer_bytes, seconds)), engine).run("stdio")


def server(tools: Tools, engine: str) -> Any:
    """The tools as an MCP server. Each tool runs in a thread, so that the server still answers pings."""
    import anyio.to_thread
    from mcp.server.fastmcp import FastMCP
    from mcp.server.fastmcp.exceptions import ToolError
    from mcp.types import ToolAnnotations

    made = FastMCP("moulin", instructions=_INSTRUCTIONS, log_level="ERROR")
    made._mcp_server.version = moulin.__version__
    reads = ToolAnnotations(readOnlyHint=True, idempotentHint=True, openWorldHint=False)

    async def call(tool: Callable[..., dict[str, Any]], *arguments: Any) -> dict[str, Any]:
        try:
            return await anyio.to_thread.run_sync(functools.partial(tool, *arguments))
        except MoulinError as error:
            raise ToolError(error.message) from None

    @made.tool(annotations=reads)
    async def list_tables(database: str | None = None) -> dict[str, Any]:
        """List tables and views, of one database or of all, with their sizes."""
        return await call(tools.list_tables, database)

    @made.tool(annotations=reads)
    async def describe_table(name: str) -> dict[str, Any]:
        """Describe a table (database.table): columns with types, key, partitioning, size, newest commits. Or a view."""
        return await call(tools.describe, name)

    dialect = "DuckDB" if engine == "duckdb" else "Spark"

    @made.tool(annotations=reads, description=f"Run one SELECT in {dialect}'s SQL; it cannot change anything.")
    async def query(sql: str, max_rows: int | None = None) -> dict[str, Any]:
        return await call(tools.query, sql, max_rows)

    return made


__all__ = ["register", "serve", "server"]
