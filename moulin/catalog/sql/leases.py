"""Leases: work that one of several processes does, such as the janitor's. They take no version and expire."""

from __future__ import annotations

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.sql.drivers import upsert
from moulin.catalog.sql.pool import Pool


def take(pool: Pool, name: str, owner: str, seconds: float) -> bool:
    """Whether `owner` gets the lease `name` for the next `seconds`: it is free, or `owner` has it already."""
    t = s.leases
    with pool.unordered(durable=False) as connection:
        now = pool.now(connection)
        values = {"name": name, "owner": owner, "expires_at": now + int(seconds * NANOS)}
        # Limits the lease to this duration, even if it was taken under a fast clock.
        ahead = sa.and_(t.c.name == name, t.c.expires_at > values["expires_at"])
        connection.execute(t.update().where(ahead).values(expires_at=values["expires_at"]))
        query = upsert(connection, t).values(values)
        free = sa.or_(t.c.owner == owner, t.c.expires_at <= now)
        changed = {"owner": owner, "expires_at": values["expires_at"]}
        query = query.on_conflict_do_update(index_elements=[t.c.name], set_=changed, where=free)
        return connection.execute(query.returning(t.c.name)).first() is not None


def give_up(pool: Pool, name: str, owner: str) -> None:
    with pool.unordered(durable=False) as connection:
        connection.execute(s.leases.delete().where(s.leases.c.name == name, s.leases.c.owner == owner))
