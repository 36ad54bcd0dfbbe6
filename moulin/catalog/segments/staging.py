"""Staged segments: numbers handed to somebody who uploads files now and registers them later.

While the hand-out lasts, clean-up leaves the files alone. When it is over, what was not registered is swept, without a
listing of the whole lake: the number says in which folder to look.
"""

# Decisions: docs/decisions/0094

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.sql.pool import Pool, take
from moulin.errors import InvalidInput
from moulin.model.merge_task import StagedSegments

MAX_COUNT = 10_000
_AT_ONCE = 20


def reserve(pool: Pool, table_id: UUID, count: int, owner: str, seconds: float) -> StagedSegments:
    """Allocate `count` segment numbers of a table for `seconds`."""
    if not 1 <= count <= MAX_COUNT:
        raise InvalidInput(f"From 1 to {MAX_COUNT} segments can be staged at once, not {count}.")
    with pool.unordered() as connection:
        first, now = take(connection, "segment", count), pool.now(connection)
        until = now + int(seconds * NANOS)
        stage(connection, first, count, table_id, owner, now, until)
    pool.note_reserved(first, count)
    return StagedSegments(first, count, table_id, owner, now, until)


def stage(
    connection: sa.Connection, first: int, count: int, table_id: UUID, owner: str, now: int, expires_at: int
) -> None:
    """Record numbers that were just allocated."""
    row = {"first": first, "numbers": count, "table_id": table_id, "owner": owner}
    connection.execute(s.staged_segments.insert().values({**row, "created_at": now, "expires_at": expires_at}))


def list_all(connection: sa.Connection, table_id: UUID | None = None) -> list[StagedSegments]:
    """The allocated numbers, oldest first."""
    t = s.staged_segments
    query = sa.select(t).order_by(t.c.created_at, t.c.first)
    return [
        _to_staged(row)
        for row in connection.execute(query if table_id is None else query.where(t.c.table_id == table_id))
    ]


def due(connection: sa.Connection, before: int) -> list[StagedSegments]:
    """Some of those that expired before a time."""
    t = s.staged_segments
    query = sa.select(t).where(t.c.expires_at <= before).order_by(t.c.expires_at, t.c.first).limit(_AT_ONCE)
    return [_to_staged(row) for row in connection.execute(query)]


def _to_staged(row: Any) -> StagedSegments:
    return StagedSegments(row.first, row.numbers, row.table_id, row.owner, row.created_at, row.expires_at)


def forget(connection: sa.Connection, staged: Sequence[StagedSegments]) -> None:
    t = s.staged_segments
    connection.execute(t.delete().where(t.c.first.in_([one.first for one in staged])))


def live_ranges(connection: sa.Connection, now: int) -> list[range]:
    """The currently allocated numbers."""
    t = s.staged_segments
    rows = connection.execute(sa.select(t.c.first, t.c.numbers).where(t.c.expires_at > now))
    return [range(row.first, row.first + row.numbers) for row in rows]
