"""`moulin changes`: the change feed of a table."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from moulin.cli.help import examples
from moulin.cli.options import Json, Limit, TableName, open_lake
from moulin.cli.query.formats import write
from moulin.cli.query.forms import FormatName, OutputFile, chosen_format
from moulin.cli.query.results import Result


def register(root: typer.Typer) -> None:
    root.command(
        epilog=examples(
            "moulin changes shop.orders --since 3",
            "moulin changes shop.orders --since 3 --format csv --output changes.csv",
        )
    )(changes)


def changes(
    context: typer.Context,
    name: TableName,
    since: Annotated[int, typer.Option(help="Show changes after this version.")],
    until: Annotated[int | None, typer.Option(help="Show changes up to this version; by default the newest.")] = None,
    net: Annotated[bool, typer.Option("--net", help="Show only the net changes between the two versions.")] = False,
    limit: Limit = None,
    kind: FormatName = "table",
    output: OutputFile = None,
    as_json: Json = False,
) -> None:
    """Show the change feed of a table: inserts, updates with both values, deletes."""
    kind = chosen_format(kind, output, as_json)
    with open_lake(context) as lake:
        feed = lake.table(name).changes(since, until, net=net)
        empty = f"No rows of {name} changed after version {feed.since}, up to {feed.until}."
        with closing(feed.to_batches()) as batches:  # closed early, it lets go of its pin while the lake is open
            write(Result(feed.schema, batches), kind, output, limit, empty=empty)
