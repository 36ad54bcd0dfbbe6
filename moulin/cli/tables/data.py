"""Commands that move rows: append, scan, delete."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer

from moulin.cli.help import examples
from moulin.cli.options import Json, Limit, TableName, open_lake
from moulin.cli.output import say
from moulin.cli.progress import progress
from moulin.cli.query.formats import rows_wanted, write
from moulin.cli.query.forms import FormatName, OutputFile, chosen_format
from moulin.cli.query.results import Result
from moulin.cli.tables.files import check_files, read_files

WhereOption = Annotated[str | None, typer.Option(help="A condition, such as \"amount > 10 and region = 'eu'\".")]

_USUAL_ROWS = 20


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("moulin append shop.orders orders.csv", "moulin append shop.orders - < orders.ndjson"))(
        append
    )
    app.command(
        epilog=examples(
            "moulin scan shop.orders --where \"amount > 10 and region = 'eu'\" --limit 5",
            "moulin scan shop.orders --format parquet --output rows.parquet",
        )
    )(scan)
    app.command(
        epilog=examples(
            "moulin delete shop.orders --where \"region = 'us'\" --dry-run",
            "moulin delete shop.orders --where \"region = 'us'\"",
        )
    )(delete)


def append(
    context: typer.Context,
    name: TableName,
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="parquet, csv or ndjson files; - for standard input")
    ],
    kind: Annotated[
        str | None, typer.Option("--format", help="parquet, csv or ndjson, if the file extension does not tell.")
    ] = None,
    request_id: Annotated[
        str | None, typer.Option(help="Append only once, even if the command is repeated with the same id.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Append the rows of files to a table, in one version."""
    with open_lake(context) as lake, progress(f"Appending to {name}", quiet=as_json) as bar:
        check_files(files)
        table = lake.table(name)
        outcome = table.append(read_files(files, kind, table.state().schema, bar.rows), request_id=request_id)
        values = {"version": outcome.version, "rows": outcome.rows_added}
    rows = "1 row" if outcome.rows_added == 1 else f"{outcome.rows_added:,} rows"
    say(f"Appended {rows} to {name}, at version {outcome.version}.", as_json, **values)


def scan(
    context: typer.Context,
    name: TableName,
    columns: Annotated[list[str] | None, typer.Option("--column", help="A column to show; may be repeated.")] = None,
    where: WhereOption = None,
    version: Annotated[int | None, typer.Option(help="Read an older version.")] = None,
    limit: Limit = None,
    kind: FormatName = "table",
    output: OutputFile = None,
    as_json: Json = False,
) -> None:
    """Print rows of a table, without Spark."""
    kind = chosen_format(kind, output, as_json)
    with open_lake(context) as lake:
        table, wanted = lake.table(name), rows_wanted(kind, output, limit, usual=_USUAL_ROWS)
        found = table.scan(columns or None, where, version, wanted)
        counted = where is None and (kind == "table" or output is not None)
        total = table.scan(version=version).count() if counted else None
        empty = "No rows match." if where else f"{name} is empty."
        with closing(found.to_batches()) as batches:
            write(Result(found.schema, batches), kind, output, limit, total=total, usual=_USUAL_ROWS, empty=empty)


def delete(
    context: typer.Context,
    name: TableName,
    where: Annotated[str, typer.Option(help="The rows to delete.")],
    dry_run: Annotated[bool, typer.Option(help="Only count the rows.")] = False,
    as_json: Json = False,
) -> None:
    """Delete the rows that match a condition."""
    with open_lake(context) as lake:
        table = lake.table(name)
        if dry_run:
            rows = table.scan(where=where).count()
            say(f"{rows:,} rows of {name} match.", as_json, version=None, rows=rows)
            return
        with progress(f"Deleting rows of {name}", quiet=as_json, lake=lake):
            outcome = table.delete_where(where)
        values = {"version": outcome.version, "rows": outcome.rows_deleted}
        say(f"Deleted {outcome.rows_deleted:,} rows of {name}, at version {outcome.version}.", as_json, **values)
