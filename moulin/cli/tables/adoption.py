"""`moulin table adopt`, `import` and `move`: files in other places."""

from __future__ import annotations

from typing import Annotated

import typer

from moulin.cli.help import examples
from moulin.cli.options import Json, TableName, open_lake
from moulin.cli.output import say
from moulin.cli.progress import progress
from moulin.cli.values import size


def register(app: typer.Typer) -> None:
    """Add the commands to those of `moulin table`."""
    app.command(epilog=examples("moulin table adopt shop.orders ./exports"))(adopt)
    app.command("import", epilog=examples("moulin table import ./exports shop.imported"))(import_table)
    app.command(epilog=examples("moulin table move shop.orders --base archive"))(move)


def adopt(
    context: typer.Context,
    name: TableName,
    source: Annotated[
        list[str], typer.Argument(metavar="SOURCE...", help="A folder, a file or a pattern; or several files.")
    ],
    by: Annotated[
        str, typer.Option(help="Match columns by name or by id; auto: by id if the files have field ids.")
    ] = "auto",
    ignore_extra: Annotated[bool, typer.Option(help="Ignore columns that the table lacks.")] = False,
    hive: Annotated[bool, typer.Option(help="Take partition values from folders such as day=2026-01-01.")] = True,
    skip_known: Annotated[bool, typer.Option(help="Skip files that the table has or had.")] = False,
    again: Annotated[bool, typer.Option(help="Adopt files again that the table had before.")] = False,
    as_json: Json = False,
) -> None:
    """Add existing Parquet files to a table in place, without copying them."""
    with open_lake(context) as lake, progress(f"Adopting files into {name}", quiet=as_json, lake=lake):
        done = lake.table(name).adopt(
            source[0] if len(source) == 1 else source,
            by=by,
            extra="ignore" if ignore_extra else "error",
            hive=hive,
            skip_known=skip_known,
            again=again,
        )
    say(
        f"Adopted {done.files:,} files into {name}, with {done.rows:,} rows ({size(done.bytes)}). Skipped: "
        f"{done.known:,} known files, {done.empty:,} files without rows.",
        as_json,
        version=done.version,
        files=done.files,
        rows=done.rows,
        bytes=done.bytes,
        known=done.known,
        empty=done.empty,
    )


def import_table(
    context: typer.Context,
    source: Annotated[str, typer.Argument(metavar="SOURCE", help="The folder of a table, or a metadata.json.")],
    name: TableName,
    format: Annotated[str | None, typer.Option(help="iceberg, delta, parquet or lance; detected by default.")] = None,
    primary_key: Annotated[
        list[str] | None,
        typer.Option(metavar="COLUMN", help="A column of the primary key, in order; keys must be unique."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a table from an Iceberg table, a Delta table or a folder of Parquet files, in place."""
    with open_lake(context) as lake, progress(f"Importing {source}", quiet=as_json, lake=lake):
        made = lake.import_table(source, name, format=format, primary_key=primary_key or ())
        rows, version = made.scan().count(), made.state().version
    say(f"Table {name} has the {rows:,} rows of {source}.", as_json, table=name, rows=rows, version=version)


def move(
    context: typer.Context,
    name: TableName,
    base: Annotated[str, typer.Option(help="The name of a base path; see `moulin base`.")],
    where: Annotated[
        str | None, typer.Option(help="Move segments in which all rows match; by default all segments.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Move whole segments of a table to a base path. After a crash, run it again to continue."""
    with open_lake(context) as lake, progress(f"Moving segments of {name}", quiet=as_json) as bar:
        done = lake.table(name).move(where, base=base, progress=bar.of)
    say(
        f"{done.segments:,} segments of {name} are now in {base}: {done.rows:,} rows, {size(done.bytes)}.",
        as_json,
        version=done.version,
        segments=done.segments,
        rows=done.rows,
        bytes=done.bytes,
    )
