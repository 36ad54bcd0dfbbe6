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

    `needs` are the extras without which it, or a command of its group, cannot do its work. A command that is `whole`
    is about the lake with all of its branches, and takes no branch in the lake's address.
    """

    module: str
    help: str
    hidden: bool = False
    needs: tuple[Need, ...] = ()
    whole: bool = False


COMMANDS: Mapping[str, Entry] = MappingProxyType(
    {
        "append": Entry("tables.data", "Append the rows of files, all in one version."),
        "scan": Entry("tables.data", "Show rows of a table, without Spark."),
        "delete": Entry("tables.data", "Delete the rows that match a condition."),
        "sql": Entry(
            "query.sql", "Run SQL over the lake: on Spark, or in DuckDB, which needs no Java.", needs=_ENGINES
        ),
        "shell": Entry("shell.shell", "A prompt for SQL over the lake, with history and completion.", needs=_ENGINES),
        "compact": Entry(
            "upkeep.maintenance",
            "Compact a table: rewrite fresh, small and worn segments into fewer, sorted ones.",
            needs=(_WITH_SPARK,),
        ),
        "merge": Entry(
            "upkeep.maintenance",
            "Compact a table: rewrite fresh, small and worn segments into fewer, sorted ones.",
            hidden=True,
            needs=(_WITH_SPARK,),
        ),
        "gc": Entry(
            "upkeep.maintenance",
            "Clean up: purge what was dropped, forget old versions, delete files that nothing names.",
            whole=True,
        ),
        "erase": Entry(
            "upkeep.erase",
            "Erase rows from every version, branch and clone of a table, and from storage. They cannot come back.",
        ),
        "check": Entry(
            "upkeep.maintenance",
            "Check every row and every file against what was recorded; exit 1 when something is wrong.",
            whole=True,
        ),
        "recover": Entry(
            "upkeep.maintenance",
            "Rebuild a lost catalog from the manifests in storage; stops at a missing or damaged one and names it.",
            whole=True,
        ),
        "backfill": Entry(
            "upkeep.backfill",
            "Load files into a table, each once: run it again when it was interrupted, or when there are new files.",
            needs=(_SPARK,),
        ),
        "history": Entry(
            "tables.history",
            "Show the versions of the lake, newest first, and what each did to which table.",
            whole=True,
        ),
        "completion": Entry(
            "completion",
            "Print a script that has a shell complete commands, options, and the names of databases and tables.",
            whole=True,
        ),
        "get": Entry("tables.get", "Show the row of a key; exit 1 if it does not exist."),
        "collect": Entry(
            "services.ingest",
            "Take telemetry (OTLP) and rows from senders, until stopped; Ctrl-C stores what was taken first.",
            needs=(_SERVE,),
            whole=True,
        ),
        "nursery": Entry(
            "services.pipeline",
            "Take what collectors stored into tables, exactly once. Any number may run on one lake.",
            needs=(_SERVE, _UNLESS_NO_SPARK),
            whole=True,
        ),
        "worker": Entry(
            "services.pipeline",
            "Compact: do merge tasks as the janitor plans them, and go on with fills of columns that were killed.",
            needs=(_UNLESS_NO_SPARK,),
            whole=True,
        ),
        "janitor": Entry(
            "services.pipeline",
            "Enforce retention, plan compaction and clean up. One of those that run on a lake does the work.",
            needs=(_SERVE,),
            whole=True,
        ),
        "serve": Entry(
            "services.serve",
            "Serve the lake: gRPC on 9560, HTTP and the console on 8181. SIGTERM drains and stops.",
            needs=(_SERVE,),
            whole=True,
        ),
        "mcp": Entry(
            "agents.server",
            "Serve the lake to agents on standard input and output (MCP): list tables, describe them, query read-only.",
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
            "The tour: load, query, delete and correct, travel back, compact, take telemetry, "
            "lose the catalog and recover.",
            needs=(_SERVE, _SPARK),
            whole=True,
        ),
        "up": Entry(
            "services.up",
            "Run server and janitor, collector, nursery and compaction, until Ctrl-C. What dies is started again.",
            needs=(_SERVE, _UNLESS_NO_SPARK),
            whole=True,
        ),
        "init": Entry("init", "Make a lake.", whole=True),
        "db": Entry("tables.databases", "Databases."),
        "branch": Entry("tables.branches", "Branches: lakes of their own that copy nothing.", whole=True),
        "table": Entry("tables.tables", "Tables."),
        "base": Entry("tables.bases", "Base paths: roots beside the lake's own, below which data files may lie."),
        "view": Entry(
            "tables.views", "Views: ordered unions of tables, and queries.", needs=(Need("spark", only_with="sql"),)
        ),
        "manifest": Entry("upkeep.manifests", "Manifests: versions as files, from which a catalog can be recovered."),
        "index": Entry("tables.index", "Secondary indexes.", needs=(_WITH_SPARK,)),
        "token": Entry(
            "services.tokens", "Ingest tokens: who may send telemetry, and to which tables it goes.", whole=True
        ),
        "access": Entry(
            "services.serve", "Tokens for the server itself: who may call it, and what.", needs=(_SERVE,), whole=True
        ),
        "task": Entry("upkeep.tasks", "Merge tasks: compactions that wait for a worker, or that one has.", whole=True),
        "ingest": Entry("services.ingest", "What came in through collectors.", whole=True),
    }
)


class LazyGroup(TyperGroup):
    """A group whose commands stand for themselves in help, and are loaded when they are called."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        for name, entry in COMMANDS.items():
            self.add_command(TyperCommand(name, help=entry.help, hidden=entry.hidden))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        if args and args[0] in COMMANDS:
            self.add_command(load(args[0]), args[0])
        return super().resolve_command(ctx, args)


def load(name: str) -> Any:
    """A command, or a group of them, as its module registers it; it looks for what it needs before it does anything."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.callback()(lambda: None)  # so that a module of one command makes a group, too
    importlib.import_module(f"moulin.cli.{COMMANDS[name].module}").register(app)
    command = typer.main.get_command(app).commands[name]  # type: ignore[attr-defined]
    _guard(command, f"moulin {name}", COMMANDS[name].needs)
    return command


def _guard(command: Any, path: str, needs: tuple[Need, ...]) -> None:
    """Have a command, and those of a group, look for what they need when they are run; not for their help."""
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
