"""`moulin shell`: a prompt on a terminal; in a pipe it runs statements."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import moulin
from moulin.cli.extras import Need, require
from moulin.cli.help import examples
from moulin.cli.options import open_lake
from moulin.cli.output import say
from moulin.cli.query.engines import ENGINES
from moulin.cli.shell.commands import Quit
from moulin.cli.shell.session import Session


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("moulin shell --engine duckdb", "moulin shell --engine duckdb < report.sql"))(shell)


def shell(
    context: typer.Context,
    engine: Annotated[str, typer.Option(metavar="|".join(ENGINES), help="The engine that runs the SQL.")] = "spark",
    keep_going: Annotated[
        bool, typer.Option("--keep-going", help="With input from a pipe: continue after a failed statement.")
    ] = False,
) -> None:
    """An interactive SQL prompt, with history and completion.

    Statements end with `;`. Backslash commands show and set options; `\\?` lists them. If standard input is not a
    terminal, its statements are run, and the first failure exits with 1.
    """
    at_terminal = sys.stdin.isatty()
    if at_terminal:
        require("`moulin shell`", [Need("shell")])
    with open_lake(context) as lake:
        try:
            if not at_terminal:
                session = Session(lake, engine, timing=False)
                if not session.run_lines(iter(sys.stdin), keep_going=keep_going):
                    raise typer.Exit(1)
                return
            from moulin.cli.shell.prompt import Prompt

            prompt = Prompt(lake)
            say(f"moulin {moulin.__version__}, {lake.uri}, {engine}. Statements end with ;  \\? shows help, \\q exits.")
            prompt.run(Session(lake, engine, timing=True, history=prompt.history))
        except Quit:
            return
