"""Maintenance commands: compact, gc, check, recover."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from moulin.catalog.manifests.recover import recover as recover_catalog
from moulin.catalog.upkeep.check import Finding
from moulin.catalog.upkeep.check import check as check_catalog
from moulin.catalog.upkeep.gc import collect
from moulin.cli.documents import write_document
from moulin.cli.help import examples
from moulin.cli.options import DryRun, Json, TableName, open_lake, require_address
from moulin.cli.output import console, say, show_rows, show_values, warn
from moulin.cli.progress import progress
from moulin.cli.values import Bytes, size
from moulin.deprecation import warn_renamed
from moulin.lake import Lake, locate
from moulin.table.keyed.left_logs import regions_in_logs
from moulin.table.verify import verify


def register(app: typer.Typer) -> None:
    app.command(epilog=examples("moulin compact shop.orders", "moulin compact shop.orders --everything"))(compact)
    app.command("merge", hidden=True, epilog=examples("moulin compact shop.orders"))(_merge)
    app.command(epilog=examples("moulin gc --dry-run", "moulin gc --history-keep 604800"))(gc)
    app.command(epilog=examples("moulin check --quick", "moulin check --iceberg shop.orders"))(check)
    app.command(epilog=examples("moulin recover"))(recover)


def compact(
    context: typer.Context,
    name: TableName,
    everything: Annotated[
        bool, typer.Option(help="Rewrite all segments, including those that need no compaction.")
    ] = False,
    spark: Annotated[bool, typer.Option(help="Run the tasks on Spark.")] = False,
    as_json: Json = False,
) -> None:
    """Compact a table: rewrite new, small and partly deleted segments into fewer, sorted ones."""
    with interrupted_by_sigterm(), open_lake(context) as lake, progress(f"Compacting {name}", quiet=as_json) as bar:
        if spark:
            lake.spark()
        done = lake.table(name).compact(everything=everything, progress=bar.of)
    if done.merges == 0:
        say(f"{name} needs no compaction.", as_json, merges=0, version=done.version)
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


@contextmanager
def interrupted_by_sigterm() -> Iterator[None]:
    """Treat SIGTERM like Ctrl-C in the block, so that claimed tasks are given back before the process ends."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


@wraps(compact)
def _merge(*arguments: Any, **options: Any) -> None:
    """The old name of `compact`, for one release."""
    warn(warn_renamed("`moulin merge`", "`moulin compact`"))
    compact(*arguments, **options)


def gc(
    context: typer.Context,
    dry_run: DryRun = False,
    history_keep: Annotated[float | None, typer.Option(help="Keep versions for this many seconds.")] = None,
    orphan_grace: Annotated[
        float | None, typer.Option(help="Keep unreferenced files younger than this many seconds.")
    ] = None,
    byte_floor: Annotated[float | None, typer.Option(help="Keep garbage younger than this many seconds.")] = None,
    full_manifests: Annotated[
        bool,
        typer.Option(
            "--full-manifests", help="Write full manifests first, so that a lost older manifest is no longer needed."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Clean up: purge dropped objects, remove old versions, delete unreferenced files."""
    with open_lake(context) as lake, progress("Cleaning up", quiet=as_json):
        if full_manifests and not dry_run:
            lake.own_catalog().publisher.write_every_full()
        if not dry_run:
            _believed_files(lake)  # before clean-up forgets which commits were believed
        done = collect(
            lake.own_catalog(),
            dry_run=dry_run,
            history_keep=history_keep,
            orphan_grace=orphan_grace,
            byte_floor=byte_floor,
        )
    values = {
        "purged": done.purged,
        "expired": {found.table: found.oldest_version for found in done.expired},
        "to_the_trash": len(done.trashed),
        "deleted_files": len(done.deleted),
        "deleted_bytes": Bytes(done.bytes_deleted),
        "waiting_in_the_trash": done.waiting,
        "failures": done.failures,
    }
    if as_json:
        files = {"files": [g.path for g in done.deleted], "trash": [g.path for g in done.trashed]}
        write_document({**values, "dry_run": dry_run, **files})
        if done.failures:
            raise typer.Exit(1)
        return
    if dry_run:
        console.print("[dim]Dry run: nothing was changed. The following would happen.[/dim]")
    show_values(values, False)
    if done.failures:
        raise typer.Exit(1)


def check(
    context: typer.Context,
    quick: Annotated[bool, typer.Option("--quick", help="Check only sizes, without reading every file.")] = False,
    iceberg: Annotated[
        str | None,
        typer.Option(
            metavar="PATH|TABLE", help="Check an Iceberg table instead: its folder or metadata, or database.table."
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Verify every row and every file against the catalog. Exits with 1 if something is wrong."""
    from moulin.iceberg.check.projections import check_projections
    from moulin.ingest.check_streams import check_streams

    if iceberg is not None:
        _check_iceberg(context, iceberg, quick, as_json)
        return
    with open_lake(context) as lake, progress("Checking", quiet=as_json) as bar:
        catalog = lake.own_catalog()
        findings = check_catalog(
            catalog,
            data=not quick,
            progress=bar.of,
        )
        findings += check_streams(catalog, data=not quick)
        if not quick:
            findings += check_projections(catalog)
            findings += _believed_files(lake)
    rows = [{"rule": f.rule, "where": f.where, "found": f.found} for f in findings]
    show_rows(rows, as_json, empty="No problems found.")
    if findings:
        raise typer.Exit(1)


def _believed_files(lake: Lake) -> list[Finding]:
    """Verify files that were committed by an engine without verification; wrong ones are quarantined."""
    found: list[Finding] = []
    for database in lake.databases():
        for table in lake.tables(database.name):
            state = lake.catalog.table_by_id(table.id)
            for path, reason in verify(lake.context, state).problems.items():
                found.append(Finding("a file is as its manifest said", path, reason))
    return found


def _check_iceberg(context: typer.Context, what: str, quick: bool, as_json: bool) -> None:
    """Check any Iceberg table, ours or not, against the specification."""
    from moulin.iceberg.check.checker import as_rows
    from moulin.iceberg.check.checker import check as check_iceberg
    from moulin.iceberg.check.metadata_files import Files
    from moulin.iceberg.projection.projection import project

    with progress(f"Checking {what}", quiet=as_json):
        if "/" in what or what.endswith(".json") or Path(what).is_dir():
            found = check_iceberg(what, data=not quick)
        else:
            with open_lake(context) as lake:
                made = project(lake.context, lake.table(what).id)
                found = check_iceberg(made.location, Files(lake.store), data=not quick)
    show_rows(as_rows(found), as_json, empty="No problems found: the table follows the Iceberg specification.")
    if found:
        raise typer.Exit(1)


def recover(
    context: typer.Context,
    to_version: Annotated[int | None, typer.Option(help="Recover this version instead of the newest.")] = None,
    discard_newer: Annotated[
        bool, typer.Option("--discard-newer", help="Discard the versions after it; their manifests are set aside.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Rebuild a lost catalog from the manifests in storage. Stops at a missing or damaged manifest and reports it."""
    address = require_address(context)
    assert address.lake is not None
    uri, store, config = locate(address.lake, address.storage, address.storage_options or None, None)
    with progress("Reading manifests", quiet=as_json) as bar:
        found = recover_catalog(
            store,
            uri,
            config,
            progress=bar.of,
            to_version=to_version,
            discard_newer=discard_newer,
            find_regions=partial(regions_in_logs, store, config),
        )
    values = {
        "version": found.version,
        "databases": found.databases,
        "tables": found.tables,
        "views": found.views,
        "segments": found.segments,
        "goes_on_with_version": found.first_version,
        "left_out": found.incomplete,
        "ignored": list(found.ignored),
        "set_aside": list(found.set_aside),
    }
    if not as_json:
        console.print(f"Recovered the catalog at version {found.version}.")
    show_values(values, as_json)
