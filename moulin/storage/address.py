"""Addresses of lakes, with an optional branch at the end: `./lake@exp`, `grpc://host:9560@exp`."""

# Decisions: docs/decisions/0415

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from moulin.errors import NotFound
from moulin.model.names import AT, MAIN, check_branch_name, is_branch_name
from moulin.storage import paths
from moulin.storage.store import open_store

_SERVER = re.compile(r"(?P<lake>grpcs?://[^@]+)@(?P<branch>.*)", re.DOTALL)
_POSTGRES = re.compile(
    r"(?P<lake>postgres(?:ql)?(?:\+psycopg)?://[^/?#]*/[^?#]*)@(?P<branch>[^@/?#]*)(?P<rest>[?#].*)?", re.DOTALL
)
_POSTGRES_SCHEMES: Final = ("postgresql://", "postgres://", "postgresql+psycopg://")


def split_branch(address: str, options: Mapping[str, str] | None = None) -> tuple[str, str | None]:
    """The address of a lake without the branch at its end, and the branch; None for main.

    `./lake@exp` is the branch exp of the lake in `./lake`, unless there is a lake in a folder of the whole name, or
    none in `./lake`. `./lake@exp/`, with a slash, is a folder in any case. An address of PostgreSQL has the branch
    after its database (`postgresql://host/db@exp?...`), and writes an @ in the name of the database as %40.
    """
    if AT not in address:
        return address, None
    if (found := _SERVER.fullmatch(address)) or (found := _POSTGRES.fullmatch(address)):
        rest = found.groupdict().get("rest") or ""
        return found["lake"] + rest, _checked(found["branch"])
    if address.startswith((*_POSTGRES_SCHEMES, "grpc://", "grpcs://")):
        return address, None
    lake, _, branch = address.rpartition(AT)
    if lake.endswith("/") or not lake or not is_branch_name(branch):
        return address, None
    if _holds_lake(address, options) or not _holds_lake(lake, options):
        return address, None
    return lake, _checked(branch)


def with_branch(address: str, branch: str) -> str:
    """The address of a branch of the lake at an address."""
    if address.startswith(_POSTGRES_SCHEMES):
        end = min((at for at in map(address.find, "?#") if at >= 0), default=len(address))
        return f"{address[:end]}{AT}{branch}{address[end:]}"
    return f"{address.rstrip('/')}{AT}{branch}"


def _checked(branch: str) -> str | None:
    return None if branch == MAIN else check_branch_name(branch)


def _holds_lake(address: str, options: Mapping[str, str] | None) -> bool:
    """Whether a folder, or a prefix of an object store, holds a lake, or the catalog of one."""
    is_folder = "://" not in address or address.startswith("file://")
    try:
        store = open_store(address, None if is_folder else options, create=False)
        return store.exists(paths.marker()) or (is_folder and store.exists(paths.catalog_file()))
    except NotFound:
        return False


__all__ = ["split_branch", "with_branch"]
