"""The command line: `moulin --lake URI COMMAND ...`.

Errors are one sentence; exit 0, 1 for an error, 2 for wrong usage.
"""

from __future__ import annotations

import atexit
import gc
import os
import sys
from typing import Annotated, Any

import typer

import moulin
from moulin.cli.commands import COMMANDS, LazyGroup
from moulin.cli.completion import VARIABLE, answer_shells
from moulin.cli.documents import ReaderGone, flush
from moulin.cli.help import examples
from moulin.cli.options import Address, options_of_environment, parse_options, require_main
from moulin.cli.output import complain, say
from moulin.errors import MoulinError

_INTERRUPTED = 130  # what typer makes of Ctrl-C

app = typer.Typer(
    name="moulin",
    cls=LazyGroup,
    help="A lakehouse engine with Parquet files, SQL transactions, and Iceberg-compatible tables.",
    no_args_is_help=True,
    add_completion=False,
    epilog=examples(
        "moulin --lake ./lake init",
        'moulin --lake ./lake sql "select 1" --engine duckdb',
        "moulin --lake postgresql://host/catalog --storage s3://bucket/lake table list shop",
    ),
    pretty_exceptions_enable=False,
)


def _version(wanted: bool) -> None:
    if wanted:
        say(f"moulin {moulin.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    context: typer.Context,
    lake: Annotated[
        str | None,
        typer.Option(
            envvar="MOULIN_LAKE", help="A folder, postgresql://... or grpc://...; append @BRANCH for a branch."
        ),
    ] = None,
    storage: Annotated[
        str | None, typer.Option(envvar="MOULIN_STORAGE", help="Storage of the files, if not the lake's folder.")
    ] = None,
    storage_option: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY=VALUE",
            help="A key=value option of the object store, or @FILE with one per line; may be repeated. "
            "Keep secrets in such a file or in MOULIN_STORAGE_OPTIONS (a JSON object), not on a command line.",
        ),
    ] = None,
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    context.obj = Address(lake, storage, {**options_of_environment(), **parse_options(storage_option or [])})
    command = context.invoked_subcommand
    if command is not None and command in COMMANDS and COMMANDS[command].whole:
        require_main(context.obj, command)


def main(name: str = "moulin") -> None:
    """The `moulin` script; `name` is what the user typed to start it."""
    _start_quickly()
    if VARIABLE in os.environ:
        answer_shells()
    try:
        code = app(prog_name=name, standalone_mode=False)
        flush()
    except MoulinError as error:
        _fail(error.message, 1)
    except typer.Abort:
        _fail("Stopped.", 1)
    except ReaderGone:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        what = "The system reports" if error.filename is None else f"{error.filename} cannot be used"
        _fail(f"{what}: {error.strerror or error}.", 1)
    except Exception as error:
        if hasattr(error, "format_message"):  # wrong usage, as click reports it
            _fail(_usage(error), 2)
        if os.environ.get("MOULIN_DEBUG"):
            raise
        said = str(error).partition("\n")[0][:300]
        _fail(f"Unexpected {type(error).__name__}: {said}. Set MOULIN_DEBUG=1 to see where.", 1)
    if code == _INTERRUPTED:
        _fail("Stopped.", _INTERRUPTED)
    sys.exit(code if isinstance(code, int) else 0)


def _usage(error: Any) -> str:
    """The error message of a wrong command line, with the help to read."""
    path = getattr(getattr(error, "ctx", None), "command_path", None) or "moulin"
    message = error.format_message().rstrip(".")
    return f"{message}{'' if message.endswith('?') else '.'} Try `{path} --help`."


def _start_quickly() -> None:
    """Make start and exit faster: fewer garbage collections, no threads for linear algebra.

    At exit everything is frozen, so the interpreter does not search it for cycles. The
    handler is registered before an engine is loaded, so it runs after the engine's own.
    """
    gc.set_threshold(50_000)
    atexit.register(gc.freeze)
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # its C++ part prints a line of its own for what we report


def _fail(sentence: str, code: int) -> None:
    complain(sentence)
    sys.exit(code)


if __name__ == "__main__":
    main()
