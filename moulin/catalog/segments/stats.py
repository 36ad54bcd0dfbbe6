"""How many segments there are, and how large."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import tables
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.errors import InvalidInput
from moulin.model.layout.size_tier import TIER_STARTS


@dataclass(frozen=True, slots=True)
class Filter:
    """Which segments count: up to a size, and by the age of the commit that added them; ends are included."""

    max_size: int | None = None
    min_age_seconds: int | None = None
    max_age_seconds: int | None = None

    def __post_init__(self) -> None:
        for what, value in (("size", self.max_size), ("age", self.min_age_seconds), ("age", self.max_age_seconds)):
            if value is not None and not 0 <= value < 1 << 62:
                raise InvalidInput(f"The {what} to filter by must be zero or more, not {value}.")

    def versions(self, connection: sa.Connection, now: int) -> tuple[int, int]:
        """The versions whose segments count: after the first, up to the second."""
        v = s.versions
        after, until = 0, s.OPEN
        if self.max_age_seconds is not None:
            before = v.c.timestamp_ns < now - self.max_age_seconds * NANOS
            after = connection.execute(sa.select(sa.func.max(v.c.version)).where(before)).scalar() or 0
        if self.min_age_seconds is not None:
            old = v.c.timestamp_ns <= now - self.min_age_seconds * NANOS
            until = connection.execute(sa.select(sa.func.max(v.c.version)).where(old)).scalar() or 0
        return int(after), int(until)


@dataclass(frozen=True, slots=True)
class Totals:
    """Live segments of live tables and their bytes; `with_tombstoned` counts every segment that is still known."""

    segments: int
    bytes: int
    with_tombstoned: int


@dataclass(frozen=True, slots=True)
class TierStats:
    """The live segments of one tier of size."""

    tier: int
    segments: int
    total: int
    smallest: int
    largest: int
    time_min: int | None
    time_max: int | None


def totals(connection: sa.Connection, table_id: UUID | None) -> Totals:
    t, g = s.tables, s.segments
    sums = sa.select(sa.func.sum(t.c.segments), sa.func.sum(t.c.bytes)).where(t.c.tombstoned_at.is_(None))
    every = sa.select(sa.func.count()).select_from(g)
    if table_id is not None:
        tables.find_by_id(connection, table_id)
        sums, every = sums.where(t.c.id == table_id), every.where(g.c.table_id == table_id)
    live = connection.execute(sums).one()
    return Totals(int(live[0] or 0), int(live[1] or 0), int(connection.execute(every).scalar_one()))


def size_tiers(connection: sa.Connection, table_id: UUID | None, wanted: Filter, now: int) -> list[TierStats]:
    """The tiers that have any segments, smallest first."""
    p, g, t = s.segment_spans, s.segments, s.tables
    after, until = wanted.versions(connection, now)
    steps = [(g.c.size < start, tier) for tier, start in enumerate(TIER_STARTS[1:])]
    tier = sa.case(*steps, else_=len(TIER_STARTS) - 1).label("tier")
    size, low, high = g.c.size, sa.func.min, sa.func.max
    query = (
        sa.select(
            tier, sa.func.count(), sa.func.sum(size), low(size), high(size), low(g.c.time_min), high(g.c.time_max)
        )
        .select_from(p.join(g, g.c.number == p.c.segment).join(t, t.c.id == p.c.table_id))
        .where(p.c.removed_version == s.OPEN, t.c.tombstoned_at.is_(None))
        .where(g.c.added_version > after, g.c.added_version <= until)
        .group_by(tier)
        .order_by(tier)
    )
    if table_id is not None:
        tables.find_by_id(connection, table_id)
        query = query.where(p.c.table_id == table_id)
    if wanted.max_size is not None:
        query = query.where(size <= wanted.max_size)
    return [TierStats(row[0], row[1], int(row[2]), row[3], row[4], row[5], row[6]) for row in connection.execute(query)]


@dataclass(frozen=True, slots=True)
class Compactable:
    """A page of segments that a compaction may take, by partition and time; `last` is where the next page begins."""

    numbers: list[int]
    last: tuple[int, int, int] | None


def compactable(
    connection: sa.Connection,
    table_id: UUID,
    wanted: Filter,
    versions: tuple[int, int],
    *,
    small: int | None,
    least: int,
    limit: int,
    after: tuple[int, int, int] | None = None,
) -> Compactable:
    """Live segments that a filter lets through, that no task has, and of which a partition has at least `least`.

    Segments of a base are left to it. `versions` are those of the filter. With `small`, only segments that are fresh,
    shorter than that or have deleted rows: no compaction is due for others. Costs what the filter lets through, and
    `limit` rows of answer.
    """
    p, g, i = s.segment_spans, s.segments, s.merge_task_inputs
    together = sa.func.count().over(partition_by=p.c.partition_id).label("together")
    fitting = (
        sa.select(p.c.partition_id, p.c.time_min, p.c.segment, together)
        .join(g, g.c.number == p.c.segment)
        .join(i, i.c.segment == p.c.segment, isouter=True)
        .where(p.c.table_id == table_id, g.c.table_id == table_id, p.c.removed_version == s.OPEN, i.c.segment.is_(None))
        .where(p.c.added_version > versions[0], g.c.added_version > versions[0], g.c.added_version <= versions[1])
    )
    if wanted.max_size is not None:
        fitting = fitting.where(g.c.size <= wanted.max_size)
    if small is not None:
        fitting = fitting.where(sa.or_(g.c.level == 0, g.c.size < small, p.c.vector_id != 0))
    found = fitting.subquery()
    order = (found.c.partition_id, found.c.time_min, found.c.segment)
    query = sa.select(*order).where(found.c.together >= least).order_by(*order).limit(limit)
    if after is not None:
        query = query.where(sa.tuple_(*order) > sa.tuple_(*(sa.literal(value, sa.BigInteger) for value in after)))
    rows = connection.execute(query).all()
    last = (rows[-1][0], rows[-1][1], rows[-1][2]) if len(rows) == limit else None
    return Compactable([row.segment for row in rows], last)


def heads(connection: sa.Connection) -> dict[UUID, tuple[int, int]]:
    """Every live table: the last version that changed it, and how many segments it has."""
    t = s.tables
    query = sa.select(t.c.id, t.c.head_version, t.c.segments).where(t.c.tombstoned_at.is_(None))
    return {row.id: (row.head_version, row.segments) for row in connection.execute(query)}


def changed_partitions(connection: sa.Connection, table_id: UUID, since: int) -> set[int]:
    """The partitions with live segments added after a version."""
    p = s.segment_spans
    fresh = sa.and_(p.c.removed_version == s.OPEN, p.c.added_version > since)
    query = sa.select(p.c.partition_id).where(p.c.table_id == table_id, fresh)
    return set(connection.execute(query.distinct()).scalars())
