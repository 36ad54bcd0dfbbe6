"""`moulin changes`: what happened to the rows of a table."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from moulin.cli.options import Json, Limit, TableName, open_lake, rows_to_show
from moulin.cli.output import show_limited
from moulin.cli.query.rows import rows_of


def register(root: typer.Typer) -> None:
    root.command()(changes)


def changes(
    context: typer.Context,
    name: TableName,
    since: Annotated[int, typer.Option(help="The version to start after.")],
    until: Annotated[int | None, typer.Option(help="The last version to show; the newest, when not given.")] = None,
    net: Annotated[bool, typer.Option("--net", help="Compare the two ends, not version by version.")] = False,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Show the change feed of a table: inserts, updates with both values, deletes."""
    count = rows_to_show(limit, as_json, usual=100)
    with open_lake(context) as lake:
        feed = lake.table(name).changes(since, until, net=net)
        empty = f"No row of {name} changed in the versions after {feed.since}, up to {feed.until}."
        with closing(feed.to_batches()) as batches:  # closed early, it lets go of its pin while the lake is open
            show_limited(rows_of(batches), as_json, count, empty=empty)
