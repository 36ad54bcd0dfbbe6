"""`moulin branch`: branches of the lake."""

# Decisions: docs/decisions/0415

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from moulin.cli.documents import write_document
from moulin.cli.help import examples
from moulin.cli.options import All, BranchName, DryRun, Json, open_lake
from moulin.cli.output import say, say_dropped, show_rows
from moulin.cli.progress import progress
from moulin.cli.values import moment
from moulin.model.entities import Branch

if TYPE_CHECKING:
    from moulin.table.branch_diff import TableDiff

app = typer.Typer(
    help="Branches: writable copies of the lake that copy no data.",
    no_args_is_help=True,
    epilog=examples("moulin branch create trial --expires 7d", "moulin branch list", "moulin branch diff exp"),
)


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="branch")


@app.command(epilog=examples("moulin branch create trial --expires 7d"))
def create(
    context: typer.Context,
    name: BranchName,
    at: Annotated[
        str | None, typer.Option(help="A version, or a time such as 2026-01-31 12:00; by default now.")
    ] = None,
    expires: Annotated[str | None, typer.Option(help="Lifetime: 90m, 36h, 7d or 2w; unlimited by default.")] = None,
    table: Annotated[
        list[str] | None, typer.Option(metavar="TABLE", help="A table to include; may be repeated. By default all.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Create a branch: a writable copy of the lake that copies no data."""
    with open_lake(context) as lake:
        lake.branch(name, at=int(at) if at is not None and at.isdecimal() else at, expires=expires, tables=table)
        made = lake.catalog.branch(name)
        say(
            f"Created branch {name} at version {made.version}, with {made.tables} tables. "
            f"To use it, append @{name} to the lake's address.",
            as_json,
            **_described(made),
        )


@app.command("list", epilog=examples("moulin branch list"))
def list_all(context: typer.Context, everything: All = False, as_json: Json = False) -> None:
    """List branches."""
    with open_lake(context) as lake:
        rows = [
            {
                **_described(one),
                **({"gone_at": moment(one.tombstone.delete_at) if one.tombstone else None} if everything else {}),
            }
            for one in lake.branches(include_dropped=everything)
        ]
        show_rows(rows, as_json, empty="No branches yet; create one with: moulin branch create NAME")


def _described(branch: Branch) -> dict[str, object]:
    return {
        "name": branch.name,
        "version": branch.version,
        "created": moment(branch.created_at),
        "expires": moment(branch.expires_at),
        "tables": branch.tables,
        "opened": branch.opened,
    }


@app.command(epilog=examples("moulin branch diff exp"))
def diff(context: typer.Context, name: BranchName, as_json: Json = False) -> None:
    """Show the changes of a branch: tables, columns, and numbers of rows."""
    with open_lake(context) as lake:
        rows = map(_difference, lake.open_branch(name).diff().tables)
        show_rows(rows, as_json, empty=f"Branch {name} has no changes.")


@app.command(epilog=examples("moulin branch publish exp --dry-run", "moulin branch publish exp"))
def publish(context: typer.Context, name: BranchName, dry_run: DryRun = False, as_json: Json = False) -> None:
    """Apply the changes of a branch to main, as one version for all tables, or fail on a conflict and change
    nothing.
    """
    with open_lake(context) as lake:
        with progress(f"Publishing {name}", quiet=as_json, lake=lake):
            done = lake.publish(name, dry_run=dry_run)
        rows = [_difference(table) for table in done.tables]
        if as_json:
            write_document({"version": done.version, "dry_run": dry_run, "tables": rows})
            return
        verb = "would be published as" if dry_run else "is published as"
        show_rows(
            rows,
            as_json,
            title=f"Branch {name} {verb} version {done.version}",
            empty=f"Branch {name} changed no table.",
        )


def _difference(table: TableDiff) -> dict[str, object]:
    return {
        "table": table.name,
        "kind": table.kind,
        "renamed_from": table.before,
        "inserted": table.inserted,
        "updated": table.updated,
        "deleted": table.deleted,
        "columns": list(table.schema),
    }


@app.command(epilog=examples("moulin branch drop exp"))
def drop(context: typer.Context, name: BranchName, as_json: Json = False) -> None:
    """Drop a branch with all its changes. It can be resurrected until its grace period ends."""
    with open_lake(context) as lake:
        dropped = lake.drop_branch(name)
        say_dropped("Branch", "branch", name, dropped.tombstone, as_json)


@app.command(epilog=examples("moulin branch resurrect done"))
def resurrect(context: typer.Context, name: BranchName, as_json: Json = False) -> None:
    """Restore a dropped branch, with all its changes."""
    with open_lake(context) as lake:
        lake.resurrect_branch(name)
        say(f"Branch {name} is restored.", as_json, **_described(lake.catalog.branch(name)))
