"""Who takes part in the cluster right now. Heartbeats take no version, and are not recovered.

Rows are shared by all servers of a lake, so each answers for all. A server that starts forgets those that only it had
heard of before.
"""

# Decisions: docs/decisions/0086

from __future__ import annotations

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.sql.drivers import upsert
from moulin.catalog.sql.pool import Pool
from moulin.errors import InvalidInput
from moulin.model.ingest import Member, MemberKind

_MAX_TEXT = 1024
_MAX_WEIGHT = (1 << 32) - 1


def beat(pool: Pool, server: str, member_id: str, kind: MemberKind, endpoint: str, weight: int) -> None:
    """Note a member, or that it is still there. What it says of itself replaces what it said before."""
    for what, text in (("id", member_id), ("endpoint", endpoint)):
        if not text.strip() or len(text) > _MAX_TEXT or "\0" in text:
            raise InvalidInput(f"A member needs an {what} of 1 to {_MAX_TEXT} characters.")
    if not 0 <= weight <= _MAX_WEIGHT:
        raise InvalidInput(f"A member's weight must be from 0 to {_MAX_WEIGHT}, not {weight}.")
    m = s.members
    with pool.unordered(durable=False) as connection:
        now = pool.now(connection)
        insert = upsert(connection, m)
        values = {"server": server, "kind": int(kind), "endpoint": endpoint, "weight": weight}
        later = sa.case((m.c.heartbeat_at > now, m.c.heartbeat_at), else_=now)
        connection.execute(
            insert.values(id=member_id, heartbeat_at=now, **values).on_conflict_do_update(
                index_elements=[m.c.id], set_={**values, "heartbeat_at": later}
            )
        )


def list_live(connection: sa.Connection, now: int, ttl_seconds: float, kind: MemberKind | None) -> list[Member]:
    """Members heard of within `ttl_seconds`, by id; of one kind, or all."""
    m = s.members
    query = sa.select(m).where(m.c.heartbeat_at > now - int(ttl_seconds * NANOS)).order_by(m.c.id)
    if kind is not None:
        query = query.where(m.c.kind == int(kind))
    rows = connection.execute(query)
    return [Member(row.id, MemberKind(row.kind), row.endpoint, row.weight, row.heartbeat_at) for row in rows]


def forget(pool: Pool, server: str, ttl_seconds: float) -> None:
    """Forget what a server had heard of, and everyone who is long gone."""
    m = s.members
    with pool.unordered(durable=False) as connection:
        gone = pool.now(connection) - int(ttl_seconds * NANOS)
        connection.execute(m.delete().where(sa.or_(m.c.server == server, m.c.heartbeat_at <= gone)))
