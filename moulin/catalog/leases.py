"""What expires by itself and takes no version: reserved merge inputs, and pinned versions."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog import schema as s
from moulin.catalog.engine import Engine
from moulin.catalog.tombstones import NANOS
from moulin.errors import NotFound
from moulin.model.ids import new_id


def reserve_inputs(engine: Engine, owner: str, numbers: Sequence[int], seconds: float) -> list[int]:
    """Reserve segments for a merge; returns those that were free (or whose reservation had run out)."""
    r = s.reservations
    granted: list[int] = []
    with engine.unordered() as connection:
        now = engine.now(connection)
        connection.execute(r.delete().where(r.c.expires_at <= now))
        for start in range(0, len(numbers), 500):
            block = list(numbers[start : start + 500])
            taken = set(connection.execute(sa.select(r.c.segment).where(r.c.segment.in_(block))).scalars())
            granted.extend(number for number in block if number not in taken)
        if granted:
            expires_at = now + int(seconds * NANOS)
            connection.execute(
                r.insert(), [{"segment": number, "owner": owner, "expires_at": expires_at} for number in granted]
            )
    return granted


def release_inputs(engine: Engine, owner: str) -> None:
    """Give up what `owner` still has reserved."""
    with engine.unordered() as connection:
        connection.execute(s.reservations.delete().where(s.reservations.c.owner == owner))


def pin(engine: Engine, table_id: UUID, version: int, seconds: float) -> UUID:
    """Keep a version readable until it is unpinned, or `seconds` after its last renewal."""
    pin_id = new_id()
    with engine.unordered() as connection:
        oldest = connection.execute(sa.select(s.tables.c.oldest_version).where(s.tables.c.id == table_id)).scalar_one()
        if version < oldest:
            raise NotFound(f"Version {version} was cleaned up; the oldest that can still be read is {oldest}.")
        expires_at = engine.now(connection) + int(seconds * NANOS)
        connection.execute(
            s.pins.insert().values(id=pin_id, table_id=table_id, version=version, expires_at=expires_at)
        )
    return pin_id


def renew_pin(engine: Engine, pin_id: UUID, seconds: float) -> None:
    with engine.unordered() as connection:
        expires_at = engine.now(connection) + int(seconds * NANOS)
        done = connection.execute(s.pins.update().where(s.pins.c.id == pin_id).values(expires_at=expires_at))
        if done.rowcount == 0:
            raise NotFound("The pin ran out and was cleaned up; open the version again.")


def unpin(engine: Engine, pin_id: UUID) -> None:
    with engine.unordered() as connection:
        connection.execute(s.pins.delete().where(s.pins.c.id == pin_id))
