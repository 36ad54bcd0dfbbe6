"""Commands that move rows: append, scan, delete."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from moulin.cli.options import Json, Limit, TableName, open_lake, rows_to_read, rows_to_show
from moulin.cli.output import progress, say, show_limited
from moulin.cli.query.rows import rows_of
from moulin.cli.tables.files import check_files, read_files

WhereOption = Annotated[str | None, typer.Option(help="A condition, such as \"amount > 10 and region = 'eu'\".")]


def register(app: typer.Typer) -> None:
    app.command()(append)
    app.command()(scan)
    app.command()(delete)


def append(
    context: typer.Context,
    name: TableName,
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="parquet, csv or ndjson; - for standard input")],
    kind: Annotated[
        str | None, typer.Option("--format", help="parquet, csv or ndjson, when the ending does not show it.")
    ] = None,
    request_id: Annotated[str | None, typer.Option(help="Append once, however often this is run.")] = None,
    as_json: Json = False,
) -> None:
    """Append the rows of files, all in one version."""
    with open_lake(context) as lake, progress(f"Appending to {name}", quiet=as_json) as bar:
        check_files(files)
        table = lake.table(name)
        task = bar.task_ids[0]

        def done(rows: int) -> None:
            bar.update(task, description=f"Appending to {name}: {rows:,} rows")

        outcome = table.append(read_files(files, kind, table.state().schema, done), request_id=request_id)
        values = {"version": outcome.version, "rows": outcome.rows_added}
    rows = "1 more row" if outcome.rows_added == 1 else f"{outcome.rows_added:,} more rows"
    say(f"{name} has {rows}, at version {outcome.version}.", as_json, **values)


def scan(
    context: typer.Context,
    name: TableName,
    columns: Annotated[list[str] | None, typer.Option("--column", help="A column to show; may be repeated.")] = None,
    where: WhereOption = None,
    version: Annotated[int | None, typer.Option(help="An older version.")] = None,
    limit: Limit = None,
    as_json: Json = False,
) -> None:
    """Show rows of a table, without Spark."""
    with open_lake(context) as lake:
        table, count = lake.table(name), rows_to_show(limit, as_json, usual=20)
        found = table.scan(columns or None, where, version, rows_to_read(count, as_json))
        total = None if where is not None or as_json or count is None else table.scan(version=version).count()
        with closing(found.to_batches()) as batches:
            show_limited(
                rows_of(batches), as_json, count, total=total, empty="No rows match." if where else f"{name} is empty."
            )


def delete(
    context: typer.Context,
    name: TableName,
    where: Annotated[str, typer.Option(help="Which rows to delete.")],
    dry_run: Annotated[bool, typer.Option(help="Only count them.")] = False,
    as_json: Json = False,
) -> None:
    """Delete the rows that match a condition."""
    with open_lake(context) as lake:
        table = lake.table(name)
        if dry_run:
            rows = table.scan(where=where).count()
            say(f"{rows:,} rows of {name} match.", as_json, rows=rows)
            return
        outcome = table.delete_where(where)
        values = {"version": outcome.version, "rows": outcome.rows_deleted}
        say(f"{outcome.rows_deleted:,} rows of {name} are deleted, at version {outcome.version}.", as_json, **values)
