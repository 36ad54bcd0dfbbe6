"""Turns of writers: commits to one table are serialized, and a writer with a conflict is next.

A writer with a conflict gets a ticket in the catalog's queue, which all servers of a lake share. Its 409 is delayed
until its ticket is first. Then it has the turn: other commits wait, for at most `LEASE_SECONDS`, while it reloads the
table and retries. So its second attempt usually succeeds. A writer is identified by a cookie, or by its token and
connection.

A turn is not a lock: only the requirements of a commit decide whether it is accepted. So every wait has a timeout,
queues are short, and a token whose writers do not retry gets no more turns for a while.
"""

# Decisions: docs/decisions/0511

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Final
from weakref import WeakValueDictionary

from fastapi import Request
from fastapi.responses import Response
from starlette.concurrency import run_in_threadpool

from moulin.catalog.commit.table_commit import Stale
from moulin.catalog.sql import turns
from moulin.catalog.sql.pool import Pool
from moulin.catalog.sql.turns import Ticket
from moulin.iceberg.rest.errors import COMMIT_FAILED, RestError, commit_failed
from moulin.lake import Lake

LEASE_SECONDS: Final = 5.0  # time to reload the table and retry
_KEEP_SECONDS: Final = 5.0  # lifetime of a ticket with a waiting request; renewed
_RENEW_SECONDS: Final = 1.5
_LONGEST_WAIT: Final = 20.0
_LOCAL_WAIT: Final = 30.0
_MOST_TURNS: Final = 3  # of one ticket
_MOST_TICKETS: Final = 64  # of one table
_MOST_OF_TOKEN: Final = 48
_MOST_LAPSES: Final = 3  # of a token and table within turns.LAPSE_SECONDS
_COOKIE: Final = "moulin-turn"


class Turns:
    """The running commits of one server, by table. They run in order of arrival."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def alone(self, tables: Sequence[str]) -> AsyncIterator[None]:
        """Without another commit of this server to these tables, unless one takes too long."""
        held: list[asyncio.Lock] = []
        locks = [self._locks.setdefault(table, asyncio.Lock()) for table in tables]
        try:
            for lock in locks:
                try:
                    async with asyncio.timeout(_LOCAL_WAIT):
                        await lock.acquire()
                except TimeoutError:
                    break
                held.append(lock)
            yield
        finally:
            for lock in held:
                lock.release()


@dataclass(slots=True)
class _Writer:
    """A request that commits, and its ticket, if it has one."""

    request: Request
    pool: Pool
    tables: tuple[str, ...]
    token: str
    client: str
    ticket: Ticket | None = None
    renewed: float = 0.0
    until: float = field(default_factory=lambda: time.monotonic() + _LONGEST_WAIT)

    async def position(self) -> int:
        """The number of tickets before this writer; 0 if it may commit."""
        queues = [await run_in_threadpool(turns.queue, self.pool, table) for table in self.tables]
        if self.ticket is None:
            self.ticket = next((mine for queue in queues if (mine := self._mine(queue)) is not None), None)
        if self.ticket is None:
            return max(map(len, queues))
        name = self.ticket.name
        return max(sum(one.name < name for one in queue) for queue in queues)

    def _mine(self, queue: Sequence[Ticket]) -> Ticket | None:
        """The ticket that this writer had before."""
        told = self.request.cookies.get(_COOKIE)
        mine = [one for one in queue if one.token == self.token]
        found = next((one for one in mine if one.name == told), None)
        return found or next((one for one in mine if one.client == self.client), None)

    async def take_ticket(self) -> bool:
        """Whether this writer has a ticket now."""
        if self.ticket is None:
            taken = await run_in_threadpool(
                lambda: turns.take(
                    self.pool,
                    self.tables,
                    self.token,
                    self.client,
                    _KEEP_SECONDS,
                    most=_MOST_TICKETS,
                    most_of_token=_MOST_OF_TOKEN,
                )
            )
            self.ticket = None if taken is None else Ticket(taken, 0, self.token, self.client)
            self.renewed = time.monotonic()
        return self.ticket is not None

    async def wait(self) -> bool:
        """Wait until no ticket is before this writer's; False when that takes too long, or nobody waits for it."""
        while (before := await self.position()) > 0:
            if time.monotonic() > self.until or await self.request.is_disconnected():
                return False
            if self.ticket is not None and time.monotonic() > self.renewed + _RENEW_SECONDS:
                self.renewed = time.monotonic()
                await run_in_threadpool(turns.renew, self.pool, self.tables, self.ticket, _KEEP_SECONDS)
            await asyncio.sleep(min(0.03 * before, 0.3))
        return True

    async def leave(self) -> None:
        if self.ticket is not None:
            await run_in_threadpool(turns.leave, self.pool, self.tables, self.ticket.name)
            self.ticket = None

    async def lost(self) -> dict[str, str]:
        """The headers for a writer with a conflict: when to retry, and whether it then has the turn."""
        if not await self._may_have_turns() or not await self.take_ticket():
            await self.leave()
            return {"Retry-After": "1"}
        if not await self.wait():
            await self.leave()
            return {"Retry-After": "1"}
        assert self.ticket is not None
        self.ticket = replace(self.ticket, turns=self.ticket.turns + 1)
        await run_in_threadpool(turns.renew, self.pool, self.tables, self.ticket, LEASE_SECONDS)
        kept = f"{_COOKIE}={self.ticket.name}; Max-Age={int(LEASE_SECONDS)}; Path=/; HttpOnly; SameSite=Strict"
        return {"Retry-After": "0", "Set-Cookie": kept}

    async def _may_have_turns(self) -> bool:
        if self.ticket is not None and self.ticket.turns >= _MOST_TURNS:
            return False
        counts = [await run_in_threadpool(turns.lapses, self.pool, table, self.token) for table in self.tables]
        return max(counts) < _MOST_LAPSES


async def in_turn(
    request: Request, lake: Lake, tables: Sequence[tuple[str, str]], run: Callable[[], Response]
) -> Response:
    """The answer of `run`, which commits to `tables`, when it is the turn of this writer."""
    local: Turns = request.app.state.turns
    names = tuple(sorted({_table_key(lake, *table) for table in tables}))
    writer = _Writer(request, lake.own_catalog().pool, names, _token(request), _client(request))
    must_wait, overdue, lost, answer = False, False, None, None
    while answer is None and lost is None:
        if must_wait:
            if not await writer.take_ticket():
                raise _with(commit_failed("Too many writers wait for this table: try again."), {"Retry-After": "1"})
            overdue = not await writer.wait()
        async with local.alone(names):
            must_wait = not overdue and await writer.position() > 0
            if must_wait:
                continue
            try:
                answer = await run_in_threadpool(run)
            except (RestError, Stale) as error:
                lost = _lost_race(error)
                if lost is None:
                    await writer.leave()
                    raise
    if lost is not None:  # the 409 waits here for the turn, while others commit
        raise _with(lost, await writer.lost())
    await writer.leave()
    assert answer is not None
    return answer


def _with(error: RestError, headers: dict[str, str]) -> RestError:
    error.headers = headers
    return error


def _lost_race(error: RestError | Stale) -> RestError | None:
    """The 409 of a commit with a conflict; None for other errors."""
    if isinstance(error, Stale):
        return commit_failed(error.message)
    return error if error.kind == COMMIT_FAILED else None


def _table_key(lake: Lake, database: str, table: str) -> str:
    text = f"{lake.on_branch or ''}/{database}/{table}"
    return hashlib.sha256(text.encode()).hexdigest()[:24]


def _token(request: Request) -> str:
    return hashlib.sha256(request.headers.get("authorization", "").encode()).hexdigest()[:24]


def _client(request: Request) -> str:
    client = request.client
    return "" if client is None else f"{client.host}:{client.port}"


__all__ = ["Turns", "in_turn"]
