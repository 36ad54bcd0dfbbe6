"""What expires by itself and takes no version: work that one of several processes does, and pinned versions."""

from __future__ import annotations

from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from moulin.catalog.objects.tables import find_by_id, require_kept
from moulin.catalog.objects.tombstones import NANOS
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import Engine
from moulin.errors import NotFound
from moulin.model.ids import new_id

_FORGET = 24 * 3600  # seconds after which a pin that ran out is removed


def take_lease(engine: Engine, name: str, owner: str, seconds: float) -> bool:
    """Whether `owner` does the work `name` for the next `seconds`: it had it already, or nobody has."""
    t = s.leases
    insert = sqlite.insert if engine.is_sqlite else postgresql.insert
    with engine.unordered(durable=False) as connection:
        now = engine.now(connection)
        values = {"name": name, "owner": owner, "expires_at": now + int(seconds * NANOS)}
        # Nobody has it for longer than that from now on: one that was taken under a clock ahead ends in time, too.
        ahead = sa.and_(t.c.name == name, t.c.expires_at > values["expires_at"])
        connection.execute(t.update().where(ahead).values(expires_at=values["expires_at"]))
        query = insert(t).values(values)
        free = sa.or_(t.c.owner == owner, t.c.expires_at <= now)
        changed = {"owner": owner, "expires_at": values["expires_at"]}
        query = query.on_conflict_do_update(index_elements=[t.c.name], set_=changed, where=free)
        return connection.execute(query.returning(t.c.name)).first() is not None


def give_up_lease(engine: Engine, name: str, owner: str) -> None:
    with engine.unordered(durable=False) as connection:
        connection.execute(s.leases.delete().where(s.leases.c.name == name, s.leases.c.owner == owner))


def pin(engine: Engine, table_id: UUID, version: int, seconds: float) -> UUID:
    """Keep a version readable until it is unpinned, or `seconds` after its last renewal."""
    pin_id = new_id()
    with engine.unordered(durable=False) as connection:
        expires_at = engine.now(connection) + int(seconds * NANOS)
        connection.execute(s.pins.insert().values(id=pin_id, table_id=table_id, version=version, expires_at=expires_at))
        # Only now: clean-up holds off new pins while it decides, so what is read here is what it decided.
        require_kept(find_by_id(connection, table_id), version)
    return pin_id


def renew_pin(engine: Engine, pin_id: UUID, seconds: float) -> None:
    with engine.unordered(durable=False) as connection:
        expires_at = engine.now(connection) + int(seconds * NANOS)
        p = s.pins
        done = connection.execute(p.update().where(p.c.id == pin_id).values(expires_at=expires_at))
        if done.rowcount == 0:
            raise NotFound("The pin ran out and was cleaned up; open the version again.")
        row = connection.execute(sa.select(p).where(p.c.id == pin_id)).one()
        require_kept(find_by_id(connection, row.table_id), row.version)


def forget_pins(engine: Engine, now: int) -> None:
    """Remove pins that ran out long ago: their readers died."""
    with engine.unordered(durable=False) as connection:
        connection.execute(s.pins.delete().where(s.pins.c.expires_at <= now - _FORGET * NANOS))


def unpin(engine: Engine, pin_id: UUID) -> None:
    with engine.unordered(durable=False) as connection:
        connection.execute(s.pins.delete().where(s.pins.c.id == pin_id))
