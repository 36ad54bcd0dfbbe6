"""Options that several commands share, and opening the lake."""

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
from moulin.storage import paths
from moulin.storage.store import open_store

if TYPE_CHECKING:
    from moulin.lake import Lake


_OFFERED = re.compile(r"\w[\w.@+-]*")


def _databases(context: typer.Context, incomplete: str) -> list[str]:
    return _offered(context, incomplete, lambda lake: (one.name for one in lake.databases()))


def _tables(context: typer.Context, incomplete: str) -> list[str]:
    from moulin.model.names import full_name

    return _offered(context, incomplete, lambda lake: (full_name(one.database, one.name) for one in lake.tables()))


def _views(context: typer.Context, incomplete: str) -> list[str]:
    from moulin.model.names import full_name

    def names(lake: Lake) -> Iterator[str]:
        for database in lake.databases():
            yield from (full_name(database.name, view.name) for view in lake.views(database.name))

    return _offered(context, incomplete, names)


def _branches(context: typer.Context, incomplete: str) -> list[str]:
    return _offered(context, incomplete, lambda lake: (one.name for one in lake.branches()))


def _offered(context: typer.Context, incomplete: str, names: Callable[[Lake], Iterator[str]]) -> list[str]:
    """Names in the lake with this prefix; none if the lake cannot be opened, since completion must not print errors.

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


Json = Annotated[bool, typer.Option("--json", help="Print JSON, for scripts.")]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="database.table", autocompletion=_tables)]
DatabaseName = Annotated[str, typer.Argument(metavar="DATABASE", autocompletion=_databases)]
OneDatabase = Annotated[
    str | None, typer.Argument(metavar="DATABASE", help="Only those of this one.", autocompletion=_databases)
]
ViewName = Annotated[str, typer.Argument(metavar="VIEW", help="database.view", autocompletion=_views)]
BranchName = Annotated[str, typer.Argument(metavar="BRANCH", autocompletion=_branches)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would happen, without changing anything.")]
All = Annotated[bool, typer.Option("--all", help="Include dropped objects that can still be resurrected.")]
Limit = Annotated[
    int | None,
    typer.Option(help="Maximum number of rows; 0 for all. By default some rows on a terminal, and all as JSON."),
]
GrpcPort = Annotated[int, typer.Option(min=0, max=65535, help="OTLP/gRPC; 0 for any free port.")]
HttpPort = Annotated[int, typer.Option(min=0, max=65535, help="OTLP/HTTP and appends; 0 for any free port.")]

OPTIONS_VARIABLE = "MOULIN_STORAGE_OPTIONS"


@dataclass(frozen=True, slots=True)
class Address:
    """The address of the lake, from the options before the command."""

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
            raise InvalidInput("Write a storage option as key=value, or as @FILE for a file with such lines.")
        else:
            options[key] = value
    return options


def _options_in(name: str) -> dict[str, str]:
    """Errors name the file and the line, never its content."""
    try:
        lines = Path(name).read_text(encoding="utf-8").splitlines()
    except (OSError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not a text file"
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
    """The JSON object in MOULIN_STORAGE_OPTIONS. Unlike a command line, other users cannot read it."""
    try:
        found = json.loads(os.environ.get(OPTIONS_VARIABLE) or "{}")
    except ValueError:
        found = None
    if not isinstance(found, dict) or not all(isinstance(value, str) for value in found.values()):
        raise InvalidInput(f'{OPTIONS_VARIABLE} must be a JSON object of strings, such as {{"region": "eu-west-1"}}.')
    return found


def rows_to_read(count: int | None, as_json: bool) -> int | None:
    """How many rows to read, so that the number of rows not shown is known."""
    return count if count is None or as_json else count + COUNTED_ROWS


def rows_to_show(limit: int | None, as_json: bool, usual: int) -> int | None:
    """How many rows a command prints; None for all. JSON is limited only by an explicit limit."""
    if limit is None:
        return None if as_json else usual
    if limit < 0:
        raise InvalidInput(f"--limit must be zero or more, not {limit}.")
    return limit or None


def require_address(context: typer.Context) -> Address:
    address: Address = context.find_root().obj
    if address.lake is None:
        raise InvalidInput("No lake given: use moulin --lake ./lake ..., or set MOULIN_LAKE.")
    return address


@contextmanager
def open_lake(
    context: typer.Context, *, create: bool = False, settings: Mapping[str, Any] | None = None
) -> Iterator[Lake]:
    """The lake of this command, closed afterwards. Only `init` and `demo` create one."""
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
    """Reject the address of a branch for a command that works on the whole lake."""
    _, branch = _split(address)
    if branch is not None:
        raise InvalidInput(
            f"`moulin {command}` works on the lake with all of its branches: remove @{branch} from its address."
        )


def require_lake(address: Address) -> None:
    """Reject a folder without a lake, so that a mistyped path does not create one.

    The catalog in the folder is the lake, wherever its files are. `connect` reports a lost catalog.
    """
    (lake, _), storage = _split(address), address.storage
    if "://" in lake and not lake.startswith("file://"):
        return
    if _is_there(lake, paths.catalog_file(), {}) or _is_there(storage or lake, paths.marker(), address.storage_options):
        return
    place = lake if storage is None else f"{lake} --storage {storage}"
    raise InvalidInput(f"{lake} contains no lake; create one with: moulin --lake {place} init")


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
