"""`moulin backfill`: folders of files into a table, on Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from moulin.cli.help import examples
from moulin.cli.options import Json, TableName, open_lake, parse_options
from moulin.cli.output import say
from moulin.cli.progress import progress
from moulin.cli.values import size

if TYPE_CHECKING:
    from moulin.table.ports import BatchLoaded


def register(root: typer.Typer) -> None:
    root.command(epilog=examples("moulin backfill shop.orders ./exports"))(backfill)


def backfill(
    context: typer.Context,
    name: TableName,
    path: Annotated[str, typer.Argument(metavar="PATH", help="A folder, a file, or s3://bucket/prefix.")],
    kind: Annotated[
        str | None, typer.Option("--format", help="parquet, csv or ndjson, if file extensions do not tell.")
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="The name under which loaded files are remembered; by default the address.")
    ] = None,
    batch_bytes: Annotated[int | None, typer.Option(help="Size of the files in one version, in bytes.")] = None,
    changed: Annotated[
        str, typer.Option(help="What to do with files that changed after they were loaded: error or skip.")
    ] = "error",
    path_option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of PATH's object store; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Load files into a table, each once. Run it again after an interruption, or when there are new files."""
    with open_lake(context) as lake, progress(f"Loading into {name}", quiet=as_json) as bar:

        def loaded(batch: BatchLoaded) -> None:
            bar.say(f"Loading into {name}: batch {batch.number}")
            bar.of(batch.bytes_done, batch.bytes_total, "bytes")

        done = lake.table(name).backfill(
            path,
            format=kind,
            source=source,
            storage_options=parse_options(path_option or []) or None,
            batch_bytes=batch_bytes,
            changed=changed,
            progress=loaded,
        )
    sentence = (
        f"{done.files:,} files ({size(done.bytes)}) became {done.rows:,} rows of {name} in {done.batches:,} versions, "
        f"at version {done.version}; {done.loaded_before:,} files were already loaded."
    )
    if done.changed:
        sentence += f" {len(done.changed):,} files changed since they were loaded and were skipped."
    if done.ignored:
        sentence += f" {done.ignored:,} files of unknown type were ignored."
    say(
        sentence,
        as_json,
        version=done.version,
        batches=done.batches,
        files=done.files,
        rows=done.rows,
        bytes=done.bytes,
        loaded_before=done.loaded_before,
        changed=list(done.changed),
        ignored=done.ignored,
    )
