"""`moulin branch`: lines of versions beside main's."""

# Decisions: docs/decisions/0415

from __future__ import annotations

from typing import Annotated

import typer

from moulin.cli.options import All, Json, open_lake
from moulin.cli.output import moment, say, show_rows
from moulin.model.entities import Branch

app = typer.Typer(help="Branches: lakes of their own that copy nothing.", no_args_is_help=True)

BranchName = Annotated[str, typer.Argument(metavar="BRANCH")]


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="branch")


@app.command()
def create(
    context: typer.Context,
    name: BranchName,
    at: Annotated[
        str | None, typer.Option(help="A version, or a time such as 2026-01-31 12:00; now by default.")
    ] = None,
    expires: Annotated[
        str | None, typer.Option(help="How long it lives: 90m, 36h, 7d or 2w; for ever by default.")
    ] = None,
    table: Annotated[
        list[str] | None, typer.Option(metavar="TABLE", help="A table to begin with; may be repeated. By default all.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Begin a branch: a lake of its own over the tables of main, which are not copied."""
    with open_lake(context) as lake:
        lake.branch(name, at=int(at) if at is not None and at.isdecimal() else at, expires=expires, tables=table)
        made = lake.catalog.branch(name)
        say(
            f"Branch {name} begins at version {made.version}, with {made.tables} tables. "
            f"To work on it, add @{name} to the lake's address.",
            as_json,
            **_described(made),
        )


@app.command("list")
def list_all(context: typer.Context, everything: All = False, as_json: Json = False) -> None:
    """List branches."""
    with open_lake(context) as lake:
        rows = [
            {
                **_described(one),
                **({"gone at": moment(one.tombstone.delete_at) if one.tombstone else None} if everything else {}),
            }
            for one in lake.branches(include_dropped=everything)
        ]
        show_rows(rows, as_json, empty="No branches yet; make one with: moulin branch create NAME")


def _described(branch: Branch) -> dict[str, object]:
    return {
        "name": branch.name,
        "version": branch.version,
        "created": moment(branch.created_at),
        "expires": moment(branch.expires_at),
        "tables": branch.tables,
        "opened": branch.opened,
    }


@app.command()
def drop(context: typer.Context, name: BranchName, as_json: Json = False) -> None:
    """Drop a branch with all that was written to it; it can be brought back until its grace window ends."""
    with open_lake(context) as lake:
        dropped = lake.drop_branch(name)
        until = moment(dropped.tombstone.delete_at) if dropped.tombstone else None
        say(f"Branch {name} is dropped; `moulin branch resurrect {name}` works until {until}.", as_json, until=until)


@app.command()
def resurrect(context: typer.Context, name: BranchName, as_json: Json = False) -> None:
    """Bring a dropped branch back, with all that was written to it."""
    with open_lake(context) as lake:
        lake.resurrect_branch(name)
        say(f"Branch {name} is back.", as_json, **_described(lake.catalog.branch(name)))
