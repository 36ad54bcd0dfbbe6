"""The commands of `moulin`, each loaded when it is called: help shows this list and imports none of them."""

# Decisions: docs/decisions/0208, docs/decisions/0244

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from moulin.cli.extras import Need, require

_SERVE, _SPARK, _CONNECT = Need("serve"), Need("spark"), Need("connect")
_ENGINES = tuple(Need(name, only_with="engine", value=name) for name in ("spark", "duckdb"))
_WITH_SPARK, _UNLESS_NO_SPARK = Need("spark", only_with="spark"), Need("spark", but_not_with="no_spark")


class Entry(NamedTuple):
    """`register(app)` of the module adds the command. `help` is the first paragraph of the command's own help.

    `needs` are the extras that it, or a command of its group, requires. A command that is `whole`
    works on the lake with all of its branches, and rejects the address of a branch.
    """

    module: str
    help: str
    hidden: bool = False
    needs: tuple[Need, ...] = ()
    whole: bool = False


COMMANDS: Mapping[str, Entry] = MappingProxyType(
    {
        "append": Entry("tables.data", "Append the rows of files to a table, in one version."),
        "scan": Entry("tables.data", "Print rows of a table, without Spark."),
        "delete": Entry("tables.data", "Delete the rows that match a condition."),
        "sql": Entry(
            "query.sql", "Run SQL over the lake: on Spark, or in DuckDB, which needs no Java.", needs=_ENGINES
        ),
        "shell": Entry("shell.shell", "An interactive SQL prompt, with history and completion.", needs=_ENGINES),
        "compact": Entry(
            "upkeep.maintenance",
            "Compact a table: rewrite new, small and partly deleted segments into fewer, sorted ones.",
            needs=(_WITH_SPARK,),
        ),
        "merge": Entry(
            "upkeep.maintenance",
            "Compact a table: rewrite new, small and partly deleted segments into fewer, sorted ones.",
            hidden=True,
            needs=(_WITH_SPARK,),
        ),
        "gc": Entry(
            "upkeep.maintenance",
            "Clean up: purge dropped objects, remove old versions, delete unreferenced files.",
            whole=True,
        ),
        "erase": Entry(
            "upkeep.erase",
            "Erase rows from every version, branch and clone of a table, and from storage. This cannot be undone.",
        ),
        "check": Entry(
            "upkeep.maintenance",
            "Verify every row and every file against the catalog. Exits with 1 if something is wrong.",
            whole=True,
        ),
        "recover": Entry(
            "upkeep.maintenance",
            "Rebuild a lost catalog from the manifests in storage. Stops at a missing or damaged manifest and "
            "reports it.",
            whole=True,
        ),
        "backfill": Entry(
            "upkeep.backfill",
            "Load files into a table, each once. Run it again after an interruption, or when there are new files.",
            needs=(_SPARK,),
        ),
        "history": Entry(
            "tables.history",
            "Show the versions of the lake, newest first, with the changes in each.",
            whole=True,
        ),
        "completion": Entry(
            "completion",
            "Print a shell completion script for commands, options, and names of databases and tables.",
            whole=True,
        ),
        "get": Entry("tables.get", "Show the row with a key. Exits with 1 if there is none."),
        "collect": Entry(
            "services.ingest",
            "Receive telemetry (OTLP) and rows until stopped. On Ctrl-C, store everything received, then exit.",
            needs=(_SERVE,),
            whole=True,
        ),
        "nursery": Entry(
            "services.pipeline",
            "Load what collectors stored into tables, exactly once. Several may run on one lake.",
            needs=(_SERVE, _UNLESS_NO_SPARK),
            whole=True,
        ),
        "worker": Entry(
            "services.pipeline",
            "Run the merge tasks (compactions) that the janitor plans, and resume interrupted column fills.",
            needs=(_UNLESS_NO_SPARK,),
            whole=True,
        ),
        "janitor": Entry(
            "services.pipeline",
            "Enforce retention, plan compaction and clean up. If several run on one lake, one of them is active.",
            needs=(_SERVE,),
            whole=True,
        ),
        "serve": Entry(
            "services.serve",
            "Serve the lake: gRPC on 9560, HTTP and the console on 8181. SIGTERM finishes running calls, then stops.",
            needs=(_SERVE,),
            whole=True,
        ),
        "mcp": Entry(
            "agents.server",
            "Serve the lake to AI agents over standard input and output (MCP): list, describe and query tables, "
            "read-only.",
            needs=(Need("mcp"), *_ENGINES),
        ),
        "sql-server": Entry(
            "services.sql_server",
            "Serve SQL to Spark Connect clients, with tokens of `moulin access`. Ctrl-C or SIGTERM stops.",
            needs=(_SERVE, _SPARK, _CONNECT),
            whole=True,
        ),
        "changes": Entry("tables.feed", "Show the change feed of a table: inserts, updates with both values, deletes."),
        "mirror": Entry(
            "upkeep.mirror", "Copy the lake to TARGET and keep the copy up to date, until stopped.", whole=True
        ),
        "demo": Entry(
            "demo.demo",
            "A tour: load, query, update, delete, time travel, compaction, telemetry, and recovery of a lost catalog.",
            needs=(_SERVE, _SPARK),
            whole=True,
        ),
        "up": Entry(
            "services.up",
            "Run server, janitor, collector, nursery and compaction until Ctrl-C. Crashed processes are restarted.",
            needs=(_SERVE, _UNLESS_NO_SPARK),
            whole=True,
        ),
        "init": Entry("init", "Create a lake.", whole=True),
        "db": Entry("tables.databases", "Databases."),
        "branch": Entry("tables.branches", "Branches: writable copies of the lake that copy no data.", whole=True),
        "table": Entry("tables.tables", "Tables."),
        "base": Entry("tables.bases", "Base paths: other storage locations for data files."),
        "view": Entry(
            "tables.views", "Views: ordered unions of tables, and queries.", needs=(Need("spark", only_with="sql"),)
        ),
        "manifest": Entry(
            "upkeep.manifests", "Manifests: versions stored as files, from which a lost catalog can be rebuilt."
        ),
        "index": Entry("tables.index", "Secondary indexes.", needs=(_WITH_SPARK,)),
        "token": Entry("services.tokens", "Ingest tokens: who may send telemetry, and to which tables.", whole=True),
        "access": Entry(
            "services.serve",
            "Access tokens: who may call the server, and with which role.",
            needs=(_SERVE,),
            whole=True,
        ),
        "task": Entry("upkeep.tasks", "Merge tasks: compactions that are waiting or running.", whole=True),
        "ingest": Entry("services.ingest", "Data received by collectors.", whole=True),
    }
)


class LazyGroup(TyperGroup):
    """A group of commands, each loaded when it is called."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, entry in COMMANDS.items():
            self.add_command(TyperCommand(name, help=entry.help, hidden=entry.hidden))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in COMMANDS:
            self.add_command(load(args[0]), args[0])
        return super().resolve_command(ctx, args)


def load(name: str) -> Any:
    """A command or group as registered by its module; it checks its requirements before it runs."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.callback()(lambda: None)  # so that a module of one command makes a group, too
    importlib.import_module(f"moulin.cli.{COMMANDS[name].module}").register(app)
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    _guard(command, f"moulin {name}", COMMANDS[name].needs)
    return command


def _guard(command: Any, path: str, needs: tuple[Need, ...]) -> None:
    """Make a command, or those of a group, check their requirements when run, but not for --help."""
    for name, one in getattr(command, "commands", {}).items():
        _guard(one, f"{path} {name}", needs)
    if hasattr(command, "commands") or not needs:
        return
    run = command.callback

    @functools.wraps(run)
    def checked(**options: Any) -> Any:
        require(f"`{path}`", [need for need in needs if need.applies(options)])
        return run(**options)

    command.callback = checked


__all__ = ["COMMANDS", "Entry", "LazyGroup", "load"]
