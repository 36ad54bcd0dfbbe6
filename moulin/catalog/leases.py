"""What expires by itself and takes no version: reserved merge inputs, and pinned versions."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql, sqlite

from moulin.catalog import schema as s
from moulin.catalog.engine import Engine, chunks
from moulin.catalog.tables import find_by_id, require_kept
from moulin.catalog.tombstones import NANOS
from moulin.errors import NotFound
from moulin.model.ids import new_id


def reserve_inputs(engine: Engine, owner: str, numbers: Sequence[int], seconds: float) -> list[int]:
    """Reserve segments for a merge; returns those that were free (or whose reservation had run out)."""
    r = s.reservations
    granted: list[int] = []
    wanted = sorted(set(numbers))  # in one order, so that two who want the same do not wait for each other in turn
    insert = sqlite.insert if engine.is_sqlite else postgresql.insert
    with engine.unordered(durable=False) as connection:
        now = engine.now(connection)
        connection.execute(r.delete().where(r.c.expires_at <= now))
        expires_at = now + int(seconds * NANOS)
        for chunk in chunks(wanted):
            rows = [{"segment": number, "owner": owner, "expires_at": expires_at} for number in chunk]
            query = insert(r).values(rows).on_conflict_do_nothing().returning(r.c.segment)
            granted.extend(connection.execute(query).scalars())
    return sorted(granted)


def release_inputs(engine: Engine, owner: str) -> None:
    """Give up what `owner` still has reserved."""
    with engine.unordered(durable=False) as connection:
        connection.execute(s.reservations.delete().where(s.reservations.c.owner == owner))


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


def unpin(engine: Engine, pin_id: UUID) -> None:
    with engine.unordered(durable=False) as connection:
        connection.execute(s.pins.delete().where(s.pins.c.id == pin_id))
