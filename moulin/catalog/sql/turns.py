"""Turns: a queue of writers with a conflict on a table, stored as rows of `leases`.

A ticket is a writer's place in the queues of some tables. It *waits*, or it *has the turn*: its writer was told to read
the table again and to come back. A writer that does not use its turn causes a lapse, which is remembered for a while.
"""

# Decisions: docs/decisions/0511

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.sql.drivers import upsert
from moulin.catalog.sql.pool import Pool
from moulin.catalog.sql.prepared import Prepared

_TURN, _LAPSE = "turn", "lapse"
_WAITS: Final = 0
# LIKE, as databases differ in how they order punctuation; there are few leases.
_OF_TABLE = Prepared(sa.select(s.leases).where(s.leases.c.name.like(sa.bindparam("pattern"))))


@dataclass(frozen=True, slots=True)
class Ticket:
    """A place in a queue. `turns` counts the turns of its writer; 0 while it waits for the first."""

    name: str
    turns: int
    token: str
    client: str


def new_ticket(now: int) -> str:
    """The name of a ticket that is taken now; names sort by time."""
    return f"{now:020d}-{secrets.token_hex(8)}"


def queue(pool: Pool, table: str) -> list[Ticket]:
    """The tickets of a table that have not expired, in order."""
    with pool.read() as connection:
        rows = _rows(connection, _TURN, table)
        now = pool.now(connection) if rows else 0
        return [_ticket(row.name, row.owner) for row in rows if row.expires_at > now]


def take(
    pool: Pool, tables: Sequence[str], token: str, client: str, seconds: float, *, most: int, most_of_token: int
) -> str | None:
    """A new ticket at the end of the queues; None when they are full, or hold too many of this token."""
    with pool.unordered(durable=False) as connection:
        now = pool.now(connection)
        for table in tables:
            _forget_expired(connection, table, now)
            waiting = _queue(connection, table, now)
            if len(waiting) >= most or sum(one.token == token for one in waiting) >= most_of_token:
                return None
        name = new_ticket(now)
        _put(connection, tables, Ticket(name, _WAITS, token, client), now + int(seconds * NANOS))
        return name


def renew(pool: Pool, tables: Sequence[str], ticket: Ticket, seconds: float) -> None:
    """Keep a ticket for some seconds from now on, as it is given here."""
    with pool.unordered(durable=False) as connection:
        _put(connection, tables, ticket, pool.now(connection) + int(seconds * NANOS))


def leave(pool: Pool, tables: Sequence[str], name: str) -> None:
    with pool.unordered(durable=False) as connection:
        names = [_name(_TURN, table, name) for table in tables]
        connection.execute(s.leases.delete().where(s.leases.c.name.in_(names)))


def lapses(pool: Pool, table: str, token: str) -> int:
    """How often writers of a token recently did not use their turn."""
    with pool.unordered(durable=False) as connection:
        now = pool.now(connection)
        _forget_expired(connection, table, now)
        rows = _rows(connection, _LAPSE, table)
        return sum(row.owner == token and row.expires_at > now for row in rows)


def _queue(connection: sa.Connection, table: str, now: int) -> list[Ticket]:
    rows = _rows(connection, _TURN, table)
    return [_ticket(row.name, row.owner) for row in rows if row.expires_at > now]


def _ticket(name: str, owner: str) -> Ticket:
    turns, token, client = owner.split(" ", 2)
    return Ticket(name.rpartition(":")[2], int(turns), token, client)


def _put(connection: sa.Connection, tables: Sequence[str], ticket: Ticket, expires_at: int) -> None:
    owner = f"{ticket.turns} {ticket.token} {ticket.client}"
    for table in tables:
        row = {"name": _name(_TURN, table, ticket.name), "owner": owner, "expires_at": expires_at}
        query = upsert(connection, s.leases).values(row)
        connection.execute(query.on_conflict_do_update(index_elements=[s.leases.c.name], set_=row))


LAPSE_SECONDS: Final = 60


def _forget_expired(connection: sa.Connection, table: str, now: int) -> None:
    """Delete expired rows. A ticket whose writer had the turn becomes a lapse of its token."""
    gone = []
    for kind in (_TURN, _LAPSE):
        rows = [row for row in _rows(connection, kind, table) if row.expires_at <= now]
        gone += [row.name for row in rows]
        for row in rows if kind == _TURN else ():
            ticket = _ticket(row.name, row.owner)
            if ticket.turns:
                lapse = {"name": _name(_LAPSE, table, ticket.name), "owner": ticket.token}
                lapse_until = row.expires_at + LAPSE_SECONDS * NANOS
                query = upsert(connection, s.leases).values(**lapse, expires_at=lapse_until)
                connection.execute(query.on_conflict_do_nothing())
    if gone:
        connection.execute(s.leases.delete().where(s.leases.c.name.in_(gone)))


def _name(kind: str, table: str, ticket: str) -> str:
    return f"{kind}:{table}:{ticket}"


def _rows(connection: sa.Connection, kind: str, table: str) -> list[Any]:
    """The rows of a table, in the order of their tickets."""
    rows = _OF_TABLE.all(connection, {"pattern": f"{kind}:{table}:%"})
    return sorted(rows, key=lambda row: str(row.name))


__all__ = ["Ticket", "lapses", "leave", "queue", "renew", "take"]
