"""Shared by routes: roles, the lake, cursors, and ETags."""

# Decisions: docs/decisions/0531

from __future__ import annotations

import base64
import binascii
import json
import secrets
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Protocol, TypeVar
from uuid import UUID

from anyio import from_thread
from fastapi import Depends, Query, Request, Response

from moulin.catalog.catalog import Catalog
from moulin.console.sql.statements import Statements
from moulin.console.telemetry import Telemetry
from moulin.errors import InvalidInput, NotFound, Unavailable
from moulin.ingest.flow import FlowWatch
from moulin.lake import Lake
from moulin.model.names import full_name
from moulin.network.callers import Caller, Role
from moulin.table.table import Table

ROLE = "x-moulin-role"
OPEN = "none"
MOST_READS = 4
MOST_WAITING = 20
"""How many requests wait for a turn to read. Each of them holds one of the forty threads that answer everybody."""
_READ_WAIT = 5.0
READ_SECONDS = 20.0
"""How long rows are read for one request."""
Item = TypeVar("Item")


class KeptToken(Protocol):
    """A token of the server, as it is kept."""

    @property
    def name(self) -> str: ...
    @property
    def role(self) -> Role: ...
    @property
    def expires(self) -> Any: ...


class Tokens(Protocol):
    """The access tokens of a server."""

    def tokens(self) -> Sequence[KeptToken]: ...
    def create(self, name: str, role: Role, days: float | None = None) -> str: ...
    def rotate(self, name: str, days: float | None = None) -> str: ...
    def revoke(self, name: str) -> None: ...


class Authority(Protocol):
    """Says who has a token; `access` are the tokens that the server keeps itself."""

    @property
    def access(self) -> Tokens | None: ...
    def authenticate(self, token: str) -> Caller: ...


class EngineReads(Protocol):
    """What one engine does with a table; `reason` says why it does not read it."""

    @property
    def engine(self) -> str: ...
    @property
    def version(self) -> str: ...
    @property
    def reads(self) -> bool: ...
    @property
    def reason(self) -> str | None: ...


Readers = Callable[[Lake, UUID], Iterable[EngineReads]]
Functions = Callable[[str], Sequence[str]]
"""The functions that statements may call in an engine."""


@dataclass(frozen=True)
class Console:
    """What the routes of one server share. Without an `authority`, the server asks for no tokens, and without `sql`
    it runs no statements."""

    lake: Lake
    authority: Authority | None
    stopping: threading.Event
    readers: Readers | None
    flow: FlowWatch
    sql: Statements | None = None
    functions: Functions | None = None
    boot: str = field(default_factory=lambda: secrets.token_hex(6))
    reads: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MOST_READS))
    waiting: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(MOST_WAITING))

    @cached_property
    def telemetry(self) -> Telemetry:
        return Telemetry(self.lake)

    @contextmanager
    def reading(self, request: Request) -> Iterator[Callable[[], None]]:
        """For as long as rows are read: few callers at a time, so that the rest of the server goes on.

        The value is called between steps, and raises Unavailable when the time is over or the client is gone.
        """
        end = time.monotonic() + READ_SECONDS

        def go_on() -> None:
            if time.monotonic() > end:
                raise Unavailable(f"This takes longer than {READ_SECONDS:g} seconds: read it with a program instead.")
            if from_thread.run(request.is_disconnected):
                raise Unavailable("The client has disconnected.")

        self._take_turn()
        try:
            go_on()
            yield go_on
        finally:
            self.reads.release()

    def _take_turn(self) -> None:
        if self.reads.acquire(blocking=False):
            return
        if not self.waiting.acquire(blocking=False):
            raise Unavailable(f"{MOST_READS} others read rows, and {MOST_WAITING} wait: ask again in a moment.")
        try:
            if not self.reads.acquire(timeout=_READ_WAIT):
                raise Unavailable(f"{MOST_READS} other callers are reading rows: retry in a moment.")
        finally:
            self.waiting.release()


def takes(role: Role | None) -> dict[str, Any]:
    """Options of a route: the role that it takes, None for an open one. It is in the API's description, too."""
    return {"openapi_extra": {ROLE: OPEN if role is None else role.name.lower()}}


def _console(request: Request) -> Console:
    found: Console = request.app.state.console
    return found


ConsoleOf = Annotated[Console, Depends(_console)]


def _catalog(console: ConsoleOf) -> Catalog:
    return console.lake.own_catalog()


CatalogOf = Annotated[Catalog, Depends(_catalog)]


def table_of(console: Console, table_id: UUID, *, to_change: bool = False) -> Table:
    """A table by id, also one of a branch; read-only unless `to_change`, so that looking touches no log of a writer."""
    entry = console.lake.own_catalog().table_entry(table_id)
    found = console.lake.table(full_name(entry.database, entry.name), read_only=not to_change)
    if found.id != table_id:  # the name belongs to another table now
        raise NotFound(f"Table {full_name(entry.database, entry.name)} was replaced: search for it again.")
    return found


class NotModified(Exception):
    """The client has the answer already."""

    def __init__(self, tag: str) -> None:
        self.tag = tag


def _versioned(request: Request, response: Response, console: ConsoleOf) -> None:
    """The tag of an answer that one version of the lake gives. It is read first: what follows is as new, or newer."""
    tag = f'"{console.boot}-{console.lake.version}"'
    if tag in [one.strip().removeprefix("W/") for one in request.headers.get("if-none-match", "").split(",")]:
        raise NotModified(tag)
    response.headers["ETag"] = tag


BY_VERSION = [Depends(_versioned)]
"""Dependencies of a route whose answer changes with the version of the lake alone."""

SearchText = Annotated[str, Query(max_length=200, pattern=r"^[^\x00]*$")]
"""Text to look for in names."""
Cursor = Annotated[str | None, Query(max_length=4096, description="next_cursor of the page before.")]
Limit = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
USUAL = 200


def to_cursor(*key: Any) -> str:
    text = json.dumps(key, ensure_ascii=False, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode("utf-8", "surrogatepass")).decode().rstrip("=")


def from_cursor(cursor: str | None, *kinds: type) -> tuple[Any, ...] | None:
    """The key that a cursor was made of; InvalidInput for one that this API did not give."""
    if cursor is None:
        return None
    try:
        data = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
        key = json.loads(data.decode("utf-8", "surrogatepass"))
    except (ValueError, binascii.Error, RecursionError):
        key = None
    fits = isinstance(key, list) and len(key) == len(kinds)
    if not fits or any(type(one) is not kind for one, kind in zip(key, kinds, strict=True)):
        raise InvalidInput("Unknown cursor: pass back the next_cursor of the previous page unchanged.")
    if not all(_can_be_stored(one) for one in key):
        raise InvalidInput("Unknown cursor: pass back the next_cursor of the previous page unchanged.")
    return tuple(key)


def _can_be_stored(value: object) -> bool:
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 63
    return isinstance(value, str) and "\0" not in value and not any("\ud800" <= one <= "\udfff" for one in value)


def page_of(
    items: Sequence[Item], cursor: str | None, limit: int, key: Callable[[Item], tuple[Any, ...]], *kinds: type
) -> tuple[list[Item], str | None]:
    """A page of what is in memory already, in the order of `key`, which is unique; and the cursor of the next one."""
    after = from_cursor(cursor, *kinds)
    ordered = sorted((one for one in items if after is None or key(one) > after), key=key)
    page = ordered[:limit]
    return page, to_cursor(*key(page[-1])) if len(ordered) > limit else None
