"""Commands that keep a lake in shape: merge, gc, check, recover."""

from __future__ import annotations

from typing import Annotated

import typer

from moulin.catalog.check import check as check_catalog
from moulin.catalog.gc import collect
from moulin.catalog.recover import recover as recover_catalog
from moulin.cli.options import DryRun, Json, TableName, open_lake, require_address
from moulin.cli.output import console, progress, say, show_json, show_rows, show_values, size
from moulin.lake import locate


def register(app: typer.Typer) -> None:
    app.command()(merge)
    app.command()(gc)
    app.command()(check)
    app.command()(recover)


def merge(
    context: typer.Context,
    name: TableName,
    everything: Annotated[bool, typer.Option(help="All segments, also those that are well already.")] = False,
    spark: Annotated[bool, typer.Option(help="Run the tasks on Spark.")] = False,
    as_json: Json = False,
) -> None:
    """Merge fresh, small and worn segments of a table."""
    with open_lake(context) as lake, progress(f"Merging {name}", quiet=as_json) as bar:
        if spark:
            lake.spark()
        task = bar.task_ids[0]
        done = lake.table(name).compact(
            everything=everything, progress=lambda part, all_: bar.update(task, completed=part, total=all_)
        )
    if done.merges == 0:
        say(f"{name} has nothing worth merging.", as_json, merges=0, version=done.version)
        return
    say(
        f"{name}: {done.segments_in:,} segments ({size(done.bytes_in)}) became {done.segments_out:,} "
        f"({size(done.bytes_out)}), at version {done.version}.",
        as_json,
        version=done.version,
        merges=done.merges,
        segments_in=done.segments_in,
        segments_out=done.segments_out,
        bytes_in=done.bytes_in,
        bytes_out=done.bytes_out,
    )
