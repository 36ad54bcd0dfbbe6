"""Pins: versions of tables that readers keep from clean-up. They take no version and expire by themselves."""

from __future__ import annotations

from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects.tables import find_by_id, require_kept
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.sql.pool import Pool
from moulin.errors import NotFound
from moulin.model.ids import new_id

_FORGET = 24 * 3600  # seconds after which an expired pin is removed


def pin(pool: Pool, table_id: UUID, version: int, seconds: float) -> UUID:
    """Keep a version readable until it is unpinned, or `seconds` after its last renewal."""
    pin_id = new_id()
    with pool.unordered(durable=False) as connection:
        expires_at = pool.now(connection) + int(seconds * NANOS)
        connection.execute(s.pins.insert().values(id=pin_id, table_id=table_id, version=version, expires_at=expires_at))
        # Only now: clean-up holds off new pins while it decides, so what is read here is what it decided.
        require_kept(find_by_id(connection, table_id), version)
    return pin_id


def renew(pool: Pool, pin_id: UUID, seconds: float) -> None:
    with pool.unordered(durable=False) as connection:
        expires_at = pool.now(connection) + int(seconds * NANOS)
        p = s.pins
        done = connection.execute(p.update().where(p.c.id == pin_id).values(expires_at=expires_at))
        if done.rowcount == 0:
            raise NotFound("The pin has expired: open the version again.")
        row = connection.execute(sa.select(p).where(p.c.id == pin_id)).one()
        require_kept(find_by_id(connection, row.table_id), row.version)


def forget_pins(pool: Pool, now: int) -> None:
    """Remove pins that expired long ago: their readers are dead."""
    with pool.unordered(durable=False) as connection:
        connection.execute(s.pins.delete().where(s.pins.c.expires_at <= now - _FORGET * NANOS))


def unpin(pool: Pool, pin_id: UUID) -> None:
    with pool.unordered(durable=False) as connection:
        connection.execute(s.pins.delete().where(s.pins.c.id == pin_id))
