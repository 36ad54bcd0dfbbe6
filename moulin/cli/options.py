"""Options that several commands share, and the lake they speak of."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import typer

import moulin
from moulin.errors import InvalidInput, NotFound
from moulin.storage import paths
from moulin.storage.store import open_store

if TYPE_CHECKING:
    from moulin.lake import Lake

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
TableName = Annotated[str, typer.Argument(metavar="TABLE", help="database.table")]
DatabaseName = Annotated[str, typer.Argument(metavar="DATABASE")]
ViewName = Annotated[str, typer.Argument(metavar="VIEW", help="database.view")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would happen, and change nothing.")]
All = Annotated[bool, typer.Option("--all", help="Also what was dropped and is in its grace window.")]


@dataclass(frozen=True, slots=True)
class Address:
    """Where the lake is, from the options before the command."""

    lake: str | None
    storage: str | None
    storage_options: dict[str, str]


def parse_options(pairs: list[str]) -> dict[str, str]:
    """`key=value` options of an object store."""
    options = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise InvalidInput("A storage option is written key=value.")
        options[key] = value
    return options


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
    if not create:
        require_lake(address)
    with moulin.connect(
        address.lake, storage=address.storage, storage_options=address.storage_options or None, **settings or {}
    ) as lake:
        yield lake


def require_lake(address: Address) -> None:
    """Refuse a folder that holds no lake, so that a mistyped path does not make one.

    The catalog in the folder is the lake, wherever its files lie. One that is lost is left to `connect`, which says so.
    """
    lake, storage = address.lake or "", address.storage
    if "://" in lake and not lake.startswith("file://"):
        return
    if _is_there(lake, paths.catalog_file(), {}) or _is_there(storage or lake, paths.marker(), address.storage_options):
        return
    place = lake if storage is None else f"{lake} --storage {storage}"
    raise InvalidInput(f"{lake} holds no lake; make one with: moulin --lake {place} init")


def _is_there(root: str, name: str, options: dict[str, str]) -> bool:
    try:
        return open_store(root, options or None, create=False).exists(name)
    except NotFound:
        return False
