"""`moulin changes`: what happened to the rows of a table."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated, Any

import typer

from moulin.cli.options import Json, TableName, open_lake
from moulin.cli.output import console, show_rows
from moulin.errors import InvalidInput


def register(root: typer.Typer) -> None:
    root.command()(changes)


def changes(
    context: typer.Context,
    name: TableName,
    since: Annotated[int, typer.Option(help="The version to start after.")],
    until: Annotated[int | None, typer.Option(help="The last version to show; the newest, when not given.")] = None,
    net: Annotated[bool, typer.Option("--net", help="Compare the two ends, not version by version.")] = False,
    limit: Annotated[int, typer.Option(help="How many rows to show.")] = 100,
    as_json: Json = False,
) -> None:
    """Show the change feed of a table: inserts, updates with both values, deletes."""
    if limit < 0:
        raise InvalidInput(f"--limit must be zero or more, not {limit}.")
    from moulin.model.rows.nano_datetime import to_rows

    with open_lake(context) as lake:
        feed = lake.table(name).changes(since, until, net=net)
        rows: list[dict[str, Any]] = []
        with closing(feed.to_batches()) as batches:  # closed early, it lets go of its pin while the lake is open
            for batch in batches:
                rows += to_rows(batch.slice(0, limit + 1 - len(rows)))
                if len(rows) > limit:
                    break
    empty = f"No row of {name} changed in the versions after {feed.since}, up to {feed.until}."
    show_rows(rows[:limit], as_json, empty=empty)
    if len(rows) > limit and not as_json:
        console.print(f"[dim]The first {limit} rows; --limit shows more.[/dim]")
