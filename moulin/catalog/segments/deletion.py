"""Tombstoned segments whose bytes may go: offered until somebody confirms that they are gone.

They lie in the trash (expiry.py) once no kept version and no pin needs them, and are offered `byte_floor` after that.
A journal is ready when the last input of its compaction is confirmed. Journals of which only the path is known,
after a recovery, are left to the lake's own clean-up.
"""

# Decisions: docs/decisions/0092

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import Pool, chunks
from moulin.errors import FailedPrecondition

BATCH = 1000


@dataclass(frozen=True, slots=True)
class TombstonedSegment:
    """A segment whose object may be deleted; `version` is the one that removed it from its table."""

    number: int
    table_id: UUID
    path: str
    tombstoned_at: int
    version: int


@dataclass(frozen=True, slots=True)
class ReadyJournal:
    """A journal that may be deleted, named by the first output of its merge task."""

    output: int
    path: str


def offered(pool: Pool, limit: int = BATCH) -> list[TombstonedSegment]:
    """Segments to delete now, those that have waited longest first."""
    t = s.trash
    with pool.read() as connection:
        in_grace = sa.exists().where(s.tables.c.id == t.c.table_id, s.tables.c.tombstoned_at.is_not(None))
        named = sa.exists().where(s.segments.c.number == t.c.segment)
        due = sa.and_(t.c.segment.is_not(None), t.c.delete_after <= pool.now(connection), ~in_grace, ~named)
        query = sa.select(t).where(due).order_by(t.c.delete_after, t.c.path).limit(limit)
        return [
            TombstonedSegment(row.segment, row.table_id, row.path, row.tombstoned_at, row.tombstone_version)
            for row in connection.execute(query)
        ]


def confirm(pool: Pool, numbers: Collection[int]) -> tuple[int, list[ReadyJournal]]:
    """Delete the rows of segments deleted from storage; returns how many, and the journals that may now be deleted.

    Unknown ones, and those confirmed before, do not count. Raises FailedPrecondition, with nothing changed, when one is
    still in use or was not offered yet.
    """
    t, g = s.trash, s.segments
    wanted = sorted(set(numbers))
    with pool.unordered() as connection:
        now, gone = pool.now(connection), 0
        for chunk in chunks(wanted):
            kept = connection.execute(sa.select(g.c.number).where(g.c.number.in_(chunk)).limit(1)).scalar()
            early = sa.select(t.c.segment).where(t.c.segment.in_(chunk), t.c.delete_after > now).limit(1)
            if kept is not None:
                raise FailedPrecondition(f"Segment {kept} is still part of a kept version: do not delete it.")
            if (young := connection.execute(early).scalar()) is not None:
                raise FailedPrecondition(f"Segment {young} was tombstoned too recently: wait until it is offered.")
            gone += connection.execute(t.delete().where(t.c.segment.in_(chunk))).rowcount
        return gone, _ready(connection, now)


def _ready(connection: sa.Connection, now: int, outputs: Sequence[int] | None = None) -> list[ReadyJournal]:
    """Journals in the trash of whose inputs none is left, neither there nor in a version."""
    t, p = s.trash, s.segment_spans
    inputs = s.trash.alias("inputs")
    waiting = sa.exists().where(
        inputs.c.table_id == t.c.table_id,
        inputs.c.tombstone_version == t.c.tombstone_version,
        inputs.c.segment.is_not(None),
    )
    unforgotten = sa.exists().where(p.c.table_id == t.c.table_id, p.c.removed_version == t.c.tombstone_version)
    query = (
        sa.select(t.c.output, t.c.path)
        .where(t.c.output.is_not(None), t.c.delete_after <= now, ~waiting, ~unforgotten)
        .order_by(t.c.output)
    )
    query = query.limit(BATCH) if outputs is None else query.where(t.c.output.in_(outputs))
    return [ReadyJournal(row.output, row.path) for row in connection.execute(query)]


def confirm_journals(pool: Pool, outputs: Sequence[int]) -> int:
    """Delete the rows of journals deleted from storage; returns how many."""
    t = s.trash
    with pool.unordered() as connection:
        now = pool.now(connection)
        cleared = 0
        for chunk in chunks(sorted(set(outputs))):
            ready = [journal.path for journal in _ready(connection, now, chunk)]
            cleared += connection.execute(t.delete().where(t.c.path.in_(ready))).rowcount
        return cleared


def trash_state(connection: sa.Connection) -> Any:
    """The numbers of objects waiting for deletion and of failed deletions, and the last error."""
    t = s.trash
    failing = sa.func.sum(sa.case((t.c.failures > 0, 1), else_=0))
    error = sa.func.max(t.c.last_error)
    return connection.execute(
        sa.select(sa.func.count().label("waiting"), failing.label("failing"), error.label("error")).select_from(t)
    ).one()
