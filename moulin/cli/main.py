"""The command line: `moulin --lake URI COMMAND ...`.

Errors are one sentence; exit 0, 1 for an error, 2 for wrong usage.
"""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

import moulin
from moulin.cli.demo.demo import demo
from moulin.cli.options import Address, Json, open_lake, parse_options
from moulin.cli.output import complain, say
from moulin.cli.services import ingest, pipeline, serve, tokens
from moulin.cli.services.up import up
from moulin.cli.tables import data, databases, index, tables, views
from moulin.cli.tables.feed import changes
from moulin.cli.tables.get import get
from moulin.cli.upkeep import maintenance
from moulin.cli.upkeep.backfill import backfill
from moulin.cli.upkeep.mirror import mirror
from moulin.errors import MoulinError

app = typer.Typer(
    name="moulin",
    help="A lakehouse engine: rows in, sorted Parquet out, one SQL transaction per commit.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.add_typer(databases.app, name="db")
app.add_typer(tables.app, name="table")
app.add_typer(views.app, name="view")
app.add_typer(index.app, name="index")
app.add_typer(tokens.app, name="token")
app.add_typer(serve.access, name="access")
app.add_typer(ingest.app, name="ingest")
data.register(app)
maintenance.register(app)
app.command()(backfill)
app.command()(get)
ingest.register(app)
pipeline.register(app)
app.command()(serve.serve)
app.command()(changes)
app.command()(mirror)
app.command()(demo)
app.command()(up)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"moulin {moulin.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    lake: Annotated[
        str | None, typer.Option(envvar="MOULIN_LAKE", help="A folder, postgresql://... or grpc://...")
    ] = None,
    storage: Annotated[
        str | None, typer.Option(envvar="MOULIN_STORAGE", help="Where files lie, when not in the lake's folder.")
    ] = None,
    storage_option: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="An option of the object store; may be repeated.")
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    context.obj = Address(lake, storage, parse_options(storage_option or []))


@app.command()
def init(
    context: typer.Context,
    otel: Annotated[bool, typer.Option(help="Also make tables for telemetry, and a token to write to them.")] = False,
    as_json: Json = False,
) -> None:
    """Make a lake."""
    with open_lake(context, create=True) as lake:
        if not otel:
            sentence = f"The lake in {lake.store.uri} is ready, at version {lake.version}."
            say(sentence, as_json, storage=lake.store.uri, version=lake.version)
            return
        from moulin.ingest.setup import set_up

        made = set_up(lake)
        shown = made.token or "one was made before; `moulin token rotate` makes another"
        say(
            f"The lake in {lake.store.uri} takes telemetry into {', '.join(made.tables)}.\n"
            f"Ingest token, shown only now:\n{shown}",
            as_json,
            storage=lake.store.uri,
            version=lake.version,
            database=made.database,
            tables=list(made.tables),
            token=made.token,
        )


def main() -> None:
    """The `moulin` script."""
    try:
        code = app(standalone_mode=False)
        sys.exit(code if isinstance(code, int) else 0)
    except MoulinError as error:
        _fail(error.message, 1)
    except typer.Abort:
        _fail("Stopped.", 1)
    except KeyboardInterrupt:
        _fail("Stopped.", 130)
    except BrokenPipeError:  # the reader of a pipe, such as `head`, has gone
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except Exception as error:
        if hasattr(error, "format_message"):  # wrong usage, as click reports it
            _fail(f"{error.format_message()} Try `moulin --help`.", 2)
        if os.environ.get("MOULIN_DEBUG"):
            raise
        _fail(f"Unexpected {type(error).__name__}: {error}. Set MOULIN_DEBUG=1 to see where.", 1)


def _fail(sentence: str, code: int) -> None:
    complain(sentence)
    sys.exit(code)


if __name__ == "__main__":
    main()
