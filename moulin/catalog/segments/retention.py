"""Retention: segments whose rows are all older than their table keeps them go, whole, and never early.

A segment has expired when its youngest event is older than the retention. Which ones have is asked of the index on
event time, from the oldest on, so it costs what there is to do. Inputs of a merge task that a worker has
claimed are left alone; the rows it rewrites expire as well.
"""

# Decisions: docs/decisions/0095

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.segments import bases
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import Pool
from moulin.errors import InvalidInput
from moulin.model.names import full_name
from moulin.model.operations import Expected
from moulin.model.table_settings import RETENTION, retention_ns

AT_ONCE = 500  # segments removed by one commit


@dataclass(frozen=True, slots=True)
class Expiring:
    """Segments of a table that its retention has passed, as of a version."""

    table_id: UUID
    table: str
    read_version: int
    segments: tuple[Expected, ...]


def find(pool: Pool, limit: int = AT_ONCE) -> Iterator[Expiring]:
    """For each live table with a retention, up to `limit` segments that have expired; tables with none are left out."""
    with pool.read() as connection:
        t, d = s.tables, s.databases
        rows = connection.execute(
            sa.select(t, d.c.name.label("database"))
            .join(d, d.c.id == t.c.database_id)
            .where(t.c.tombstoned_at.is_(None), d.c.tombstoned_at.is_(None), t.c.event_time.is_not(None))
        ).all()
    for row in rows:
        if RETENTION in row.properties and (found := _find_in(pool, row, limit)) is not None:
            yield found


def _find_in(pool: Pool, row: Any, limit: int) -> Expiring | None:
    try:
        kept = retention_ns(row.properties)
    except InvalidInput:  # an invalid hand-written value: nothing may be deleted early
        return None
    with pool.read() as connection:
        now = pool.now(connection)
        if kept is None or kept >= now:
            return None
        version = int(connection.execute(sa.select(s.counter.c.version)).scalar_one())
        found: list[Expected] = []
        for level, k in product(bases.levels(row, s.OPEN - 1), range(row.time_classes.bit_length())):
            if row.time_classes >> k & 1 and len(found) < limit:
                query = _expired(level, k, now - kept, now).limit(limit - len(found))
                found += [Expected(span.segment, span.vector_id) for span in connection.execute(query)]
    return Expiring(row.id, full_name(row.database, row.name), version, tuple(found)) if found else None


def _expired(level: bases.Level, k: int, before: int, now: int) -> sa.Select[Any]:
    p, i, t = s.segment_spans, s.merge_task_inputs, s.merge_tasks
    in_work = (
        sa.exists()
        .where(i.c.segment == p.c.segment, t.c.id == i.c.task_id)
        .where(t.c.worker.is_not(None), t.c.available_at > now)
    )
    return (
        sa.select(p.c.segment, p.c.vector_id)
        .where(*bases.in_level(p, level), p.c.time_class == k)
        .where(p.c.time_min < before, p.c.time_max < before, ~in_work)
        .order_by(p.c.time_min)
    )
