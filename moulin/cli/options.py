"""Options that several commands share, and the lake they speak of."""

# Decisions: docs/decisions/0243

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import moulin
from moulin.cli.output import COUNTED_ROWS, print_logs
from moulin.errors import InvalidInput, NotFound
from moulin.model.names import full_name
from moulin.storage import paths
from moulin.storage.store import open_store

if TYPE_CHECKING:
    from moulin.lake import Lake


_OFFERED = re.compile(r"\w[\w.@+-]*")


def _databases(context: typer.Context, incomplete: str) -> list[str]:
    return _offered(context, incomplete, lambda lake: (one.name for one in lake.databases()))


def _tables(context: typer.Context, incomplete: str) -> list[str]:
    return _offered(context, incomplete, lambda lake: (full_name(one.database, one.name) for one in lake.tables()))


def _views(context: typer.Context, incomplete: str) -> list[str]:
    def names(lake: Lake) -> Iterator[str]:
        for database in lake.databases():
            yield from (full_name(database.name, view.name) for view in lake.views(database.name))

    return _offered(context, incomplete, names)


def _branches(context: typer.Context, incomplete: str) -> list[str]:
    return _offered(context, incomplete, lambda lake: (one.name for one in lake.branches()))


def _offered(context: typer.Context, incomplete: str, names: Callable[[Lake], Iterator[str]]) -> list[str]:
    """What the lake has that begins so; nothing when it cannot be asked: whoever presses Tab wants no error.

    A name that a shell might read as a command is not offered: others gave it, and zsh evaluates what it is offered.
    """
    root = context.find_root()
    try:
        options = {**options_of_environment(), **parse_options(root.params.get("storage_option") or [])}
        root.obj = Address(root.params.get("lake"), root.params.get("storage"), options)
        with open_lake(context) as lake:
            return [name for name in names(lake) if name.startswith(incomplete) and _OFFERED.fullmatch(name)]
    except Exception:  # noqa: BLE001 - see above
        return []


Json = Annotated[bool, typer.Option("--json", help="Print a JSON document, for scripts.")]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="database.table", autocompletion=_tables)]
DatabaseName = Annotated[str, typer.Argument(metavar="DATABASE", autocompletion=_databases)]
OneDatabase = Annotated[
    str | None, typer.Argument(metavar="DATABASE", help="Only those of this one.", autocompletion=_databases)
]
ViewName = Annotated[str, typer.Argument(metavar="VIEW", help="database.view", autocompletion=_views)]
BranchName = Annotated[str, typer.Argument(metavar="BRANCH", autocompletion=_branches)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and change nothing.")]
All = Annotated[bool, typer.Option("--all", help="Also what was dropped and is in its grace window.")]
Limit = Annotated[
    int | None, typer.Option(help="How many rows to show, 0 for all; when not given, some for people and all as JSON.")
]
GrpcPort = Annotated[int, typer.Option(min=0, max=65535, help="OTLP/gRPC; 0 for any free port.")]
HttpPort = Annotated[int, typer.Option(min=0, max=65535, help="OTLP/HTTP and appends; 0 for any free port.")]

OPTIONS_VARIABLE = "MOULIN_STORAGE_OPTIONS"


@dataclass(frozen=True, slots=True)
class Address:
    """Where the lake is, from the options before the command."""

    lake: str | None
    storage: str | None
    storage_options: dict[str, str] = field(repr=False)


def parse_options(pairs: Sequence[str]) -> dict[str, str]:
    """`key=value` options of an object store; `@FILE` names a file with one on each line, for those that are secret."""
    options: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if pair.startswith("@") and not equals:
            options.update(_options_in(pair[1:]))
        elif not equals or not key:
            raise InvalidInput("A storage option is written key=value, or @FILE for a file with such lines.")
        else:
            options[key] = value
    return options


def _options_in(name: str) -> dict[str, str]:
    """Errors name the file and the line, never what is written there."""
    try:
        lines = Path(name).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise InvalidInput(f"The file of storage options {name} cannot be read: {why}.") from None
    options: dict[str, str] = {}
    for number, line in enumerate(map(str.strip, lines), 1):
        key, equals, value = line.partition("=")
        if line and not line.startswith("#"):
            if not equals or not key.strip():
                raise InvalidInput(f"Line {number} of {name} is not key=value.")
            options[key.strip()] = value.strip()
    return options


def options_of_environment() -> dict[str, str]:
    """What MOULIN_STORAGE_OPTIONS says, a JSON object of texts. Unlike a command line, others cannot read it."""
    try:
        found = json.loads(os.environ.get(OPTIONS_VARIABLE) or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise InvalidInput(f'{OPTIONS_VARIABLE} takes a JSON object of texts, such as {{"region": "eu-west-1"}}.')
    return found


def rows_to_read(count: int | None, as_json: bool) -> int | None:
    """How many rows to ask for, so that people can be told how many are not shown."""
    return count if count is None or as_json else count + COUNTED_ROWS


def rows_to_show(limit: int | None, as_json: bool, usual: int) -> int | None:
    """How many rows a command prints; None for all. JSON is cut only by a limit that was asked for."""
    if limit is None:
        return None if as_json else usual
    if limit < 0:
        raise InvalidInput(f"--limit must be zero or more, not {limit}.")
    return limit or None


def require_address(context: typer.Context) -> Address:
    address: Address = context.find_root().obj
    if address.lake is None:
        raise InvalidInput("Say which lake: moulin --lake ./lake ..., or set MOULIN_LAKE.")
    return address


@contextmanager
def open_lake(
    context: typer.Context, *, create: bool = False, settings: Mapping[str, Any] | None = None
) -> Iterator[Lake]:
    """The lake of this command, closed afterwards. Only `init` and `demo` make one."""
    address = require_address(context)
    assert address.lake is not None
    print_logs()
    if not create:
        require_lake(address)
    with moulin.connect(
        address.lake, storage=address.storage, storage_options=address.storage_options or None, **settings or {}
    ) as lake:
        yield lake


def require_main(address: Address, command: str) -> None:
    """Refuse the address of a branch for a command that is about the whole lake."""
    _, branch = _split(address)
    if branch is not None:
        raise InvalidInput(
            f"`moulin {command}` is about the lake with all of its branches: leave @{branch} out of its address."
        )


def require_lake(address: Address) -> None:
    """Refuse a folder that holds no lake, so that a mistyped path does not make one.

    The catalog in the folder is the lake, wherever its files lie. One that is lost is left to `connect`, which says so.
    """
    (lake, _), storage = _split(address), address.storage
    if "://" in lake and not lake.startswith("file://"):
        return
    if _is_there(lake, paths.catalog_file(), {}) or _is_there(storage or lake, paths.marker(), address.storage_options):
        return
    place = lake if storage is None else f"{lake} --storage {storage}"
    raise InvalidInput(f"{lake} holds no lake; make one with: moulin --lake {place} init")


def _split(address: Address) -> tuple[str, str | None]:
    """Where the lake is, and the branch of it."""
    lake = address.lake or ""
    if "@" not in lake:
        return lake, None
    from moulin.storage.address import split_branch  # help and most commands do not need it

    return split_branch(lake, address.storage_options)


def _is_there(root: str, name: str, options: dict[str, str]) -> bool:
    try:
        return open_store(root, options or None, create=False).exists(name)
    except NotFound:
        return False
