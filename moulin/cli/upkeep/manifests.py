"""`moulin manifest`: writes full manifests."""

from __future__ import annotations

from typing import Annotated

import typer

from moulin.cli.help import examples
from moulin.cli.options import Json, open_lake
from moulin.cli.output import say
from moulin.cli.progress import progress

app = typer.Typer(
    help="Manifests: versions stored as files, from which a lost catalog can be rebuilt.",
    no_args_is_help=True,
    epilog=examples("moulin manifest write"),
)


def register(root: typer.Typer) -> None:
    root.add_typer(app, name="manifest")


@app.callback()
def _group() -> None:
    """Manifests: versions stored as files, from which a lost catalog can be rebuilt."""


@app.command(epilog=examples("moulin manifest write", "moulin manifest write shop.orders"))
def write(
    context: typer.Context,
    tables: Annotated[list[str] | None, typer.Argument(metavar="[TABLE]...", show_default=False)] = None,
    as_json: Json = False,
) -> None:
    """Write full manifests of the given tables; without names, of every table and of the lake."""
    with open_lake(context) as lake, progress("Writing manifests", quiet=as_json):
        version = lake.write_manifests(*(tables or ()))
    what = f"of {', '.join(tables)}" if tables else "of the lake and of every table"
    say(f"Wrote full manifests {what}, at version {version}.", as_json, version=version)
