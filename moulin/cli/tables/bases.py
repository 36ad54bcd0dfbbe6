"""`moulin base`: other storage locations for data files."""

from __future__ import annotations

from typing import Annotated

import typer

from moulin.cli.help import examples
from moulin.cli.options import Json, open_lake
from moulin.cli.output import say, show_rows
from moulin.cli.values import moment

app = typer.Typer(
    help="Base paths: other storage locations for data files.",
    no_args_is_help=True,
    epilog=examples("moulin base add ./cold --name cold", "moulin base list", "moulin base drop archive"),
)

BaseName = Annotated[str, typer.Argument(metavar="NAME")]


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="base")


@app.command(epilog=examples("moulin base add ./cold --name cold"))
def add(
    context: typer.Context,
    uri: Annotated[str, typer.Argument(metavar="URI", help="A folder, or an object store such as s3://archive/lake.")],
    name: Annotated[str, typer.Option(help="The name of the base path.")],
    as_json: Json = False,
) -> None:
    """Register a base path. Its storage options come from MOULIN_BASE_OPTIONS (a JSON object by name) and are not
    stored.
    """
    with open_lake(context) as lake:
        made = lake.add_base(uri, name=name)
        say(f"Base path {made.name} is {made.uri}.", as_json, id=made.id, name=made.name, uri=made.uri)


@app.command("list", epilog=examples("moulin base list"))
def list_all(context: typer.Context, as_json: Json = False) -> None:
    """List base paths."""
    with open_lake(context) as lake:
        rows = [{"name": one.name, "uri": one.uri, "created": moment(one.created_at)} for one in lake.bases()]
        show_rows(rows, as_json, empty="No base paths; register one with: moulin base add URI --name NAME")


@app.command(epilog=examples("moulin base drop archive"))
def drop(context: typer.Context, name: BaseName, as_json: Json = False) -> None:
    """Remove a base path; rejected while a file below it is in use. No file is deleted."""
    with open_lake(context) as lake:
        gone = lake.drop_base(name)
        say(f"Base path {gone.name} is removed; its files were not changed.", as_json, name=gone.name, uri=gone.uri)
