"""`moulin db`: databases."""

from __future__ import annotations

from typing import Annotated

import typer

from moulin.cli.help import examples
from moulin.cli.options import All, DatabaseName, DryRun, Json, open_lake
from moulin.cli.output import say, say_dropped, show_rows
from moulin.cli.values import moment

app = typer.Typer(
    help="Databases.",
    no_args_is_help=True,
    epilog=examples("moulin db create sales", "moulin db list", "moulin db rename shop store"),
)


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="db")


@app.command(epilog=examples("moulin db create sales"))
def create(
    context: typer.Context,
    name: DatabaseName,
    if_not_exists: Annotated[bool, typer.Option(help="Do nothing if it exists.")] = False,
    as_json: Json = False,
) -> None:
    """Create a database."""
    with open_lake(context) as lake:
        made = lake.create_database(name, if_not_exists=if_not_exists)
        say(f"Created database {made.name}.", as_json, id=made.id, name=made.name)


@app.command("list", epilog=examples("moulin db list"))
def list_all(context: typer.Context, everything: All = False, as_json: Json = False) -> None:
    """List databases."""
    with open_lake(context) as lake:
        rows = [
            {
                "name": d.name,
                "tables": len(lake.tables(d.name)) if d.tombstone is None else 0,
                "views": len(lake.views(d.name)) if d.tombstone is None else 0,
                "created": moment(d.created_at),
                **({"gone_at": moment(d.tombstone.delete_at) if d.tombstone else None} if everything else {}),
            }
            for d in lake.databases(include_dropped=everything)
        ]
        show_rows(rows, as_json, empty="No databases yet; create one with: moulin db create NAME")


@app.command(epilog=examples("moulin db rename shop store"))
def rename(context: typer.Context, name: DatabaseName, new_name: str, as_json: Json = False) -> None:
    """Rename a database."""
    with open_lake(context) as lake:
        made = lake.rename_database(name, new_name)
        say(f"Database {name} is now {new_name}.", as_json, id=made.id, name=made.name)


@app.command(epilog=examples("moulin db drop shop --dry-run", "moulin db drop shop --cascade"))
def drop(
    context: typer.Context,
    name: DatabaseName,
    cascade: Annotated[bool, typer.Option(help="Drop all its tables and views too.")] = False,
    immediate: Annotated[bool, typer.Option(help="Drop at once and permanently, without a grace period.")] = False,
    dry_run: DryRun = False,
    as_json: Json = False,
) -> None:
    """Drop a database. It can be resurrected until its grace period ends."""
    with open_lake(context) as lake:
        if dry_run:
            preview = lake.preview_drop_database(name)
            rows = [{"kind": "table", "name": m.name} for m in preview.tables]
            rows += [{"kind": "view", "name": m.name} for m in preview.views]
            rows += [{"kind": "token", "name": m.name} for m in preview.tokens]
            show_rows(rows, as_json, title=f"Dropping {name} would also drop", empty=f"Database {name} is empty.")
            return
        dropped = lake.drop_database(name, cascade=cascade, immediate=immediate)
        say_dropped("Database", "db", name, dropped.tombstone, as_json)


@app.command(epilog=examples("moulin db resurrect old"))
def resurrect(context: typer.Context, name: DatabaseName, as_json: Json = False) -> None:
    """Restore a dropped database, with its tables and views."""
    with open_lake(context) as lake:
        found = lake.resurrect_database(name)
        say(f"Database {name} is restored.", as_json, id=found.id, name=found.name)
