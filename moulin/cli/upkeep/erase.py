"""`moulin erase`: erases rows from every version, and verifies its reports."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from moulin.cli.help import examples
from moulin.cli.options import Json, open_lake
from moulin.cli.output import say, warn
from moulin.cli.progress import progress
from moulin.errors import InvalidInput
from moulin.table.erase.report import key_of, verify


def register(app: typer.Typer) -> None:
    app.command(epilog=examples('moulin erase shop.orders --where "id = 2" --yes --report report.json'))(erase)


def erase(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="TABLE", help="database.table")] = None,
    where: Annotated[str | None, typer.Option(help="An SQL condition on the columns.")] = None,
    report: Annotated[Path | None, typer.Option(help="Write the report to this file.")] = None,
    key_file: Annotated[
        Path | None,
        typer.Option(help="The file with the key that signs or verifies the report; otherwise MOULIN_ERASE_KEY."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")] = False,
    verified: Annotated[
        Path | None, typer.Option("--verify", help="Verify the signature of a report, and do nothing else.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Erase rows from every version, branch and clone of a table, and from storage. This cannot be undone."""
    key = key_of(_read(key_file).strip() if key_file is not None else None)
    if verified is not None:
        say(f"{verified}: {verify(_document(verified), key)}.", as_json, verified=True)
        return
    if name is None or where is None:
        raise InvalidInput("Give a table and --where, or a report with --verify.")
    if not yes:
        typer.confirm(f"Erase these rows of {name} from every version, for good?", abort=True)
    with open_lake(context) as lake, progress(f"Erasing rows of {name}", quiet=as_json, lake=lake):
        done = lake.table(name).erase(where, report_key=key)
    if report is not None:
        report.write_text(json.dumps(done.report, indent=1) + "\n")
    for left in (*done.report.get("pending", []), *done.report["in_flight"]):
        warn(f"Left: {left}")
    say(
        f"{name}: {done.rows:,} stored rows erased, {done.segments:,} segments rewritten or removed, "
        f"{done.files:,} files deleted, at version {done.version}."
        + ("" if done.complete else " The erase is not complete: see the report, and run it again."),
        as_json,
        version=done.version,
        rows=done.rows,
        segments=done.segments,
        files=done.files,
        complete=done.complete,
        report=done.report,
    )


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise InvalidInput(f"{path} cannot be read: {error.strerror}.") from None


def _document(path: Path) -> object:
    try:
        return json.loads(_read(path))
    except ValueError:
        raise InvalidInput(f"{path} is not JSON.") from None
