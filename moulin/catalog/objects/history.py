"""Versions: the history of a table, versions by time, and what became of compacted segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import chunks
from moulin.errors import NotFound
from moulin.model.entities import CommitInfo

EXPIRED = "expired"  # the kind of a commit of which only the numbers are still known


@dataclass(frozen=True, slots=True)
class CompactionOf:
    """A compaction that consumed a segment, and its journals."""

    segment: int
    version: int
    journals: tuple[str, ...]


def of_table(connection: sa.Connection, row: Any, limit: int | None) -> list[CommitInfo]:
    """The kept commits of a table, newest first."""
    c = s.table_commits
    query = (
        sa.select(c)
        .where(c.c.table_id == row.id, c.c.version >= row.oldest_version, c.c.kind != EXPIRED)
        .order_by(c.c.version.desc(), c.c.ordinal.desc())
    )
    rows = connection.execute(query if limit is None else query.limit(limit))
    return [
        CommitInfo(
            r.version,
            r.ordinal,
            r.timestamp_ns,
            r.kind,
            r.schema_id,
            r.spec_id,
            r.sequence,
            r.snapshot_id,
            r.first_row_id,
            r.added_rows,
            {key: str(value) for key, value in r.summary.items()},
        )
        for r in rows
    ]


def version_at(connection: sa.Connection, timestamp_ns: int) -> int:
    """The newest version of the lake that was committed at or before a time."""
    v = s.versions
    found = connection.execute(
        sa.select(v.c.version)
        .where(v.c.timestamp_ns <= timestamp_ns)
        .order_by(v.c.timestamp_ns.desc(), v.c.version.desc())
        .limit(1)
    ).scalar_one_or_none()
    if found is None:
        raise NotFound("The lake has no version as old as that time.")
    return int(found)


def sequence_versions(connection: sa.Connection, table_id: UUID) -> tuple[list[int], list[int]]:
    """Sequence numbers of a table, ascending, and the version that each was committed as."""
    c = s.table_commits
    rows = connection.execute(
        sa.select(c.c.sequence, sa.func.min(c.c.version))
        .where(c.c.table_id == table_id)
        .group_by(c.c.sequence)
        .order_by(c.c.sequence)
    ).all()
    return [row[0] for row in rows], [row[1] for row in rows]


def compactions_of(connection: sa.Connection, numbers: Sequence[int], after: int) -> list[CompactionOf]:
    """The compactions after version `after` that consumed any of the segments, oldest first."""
    m, j = s.merge_inputs, s.journals
    found: list[Any] = []
    for chunk in chunks(numbers):
        query = sa.select(m).where(m.c.segment.in_(chunk), m.c.version > after)
        found.extend(connection.execute(query).all())
    journals: dict[tuple[int, UUID], tuple[str, ...]] = {}
    for version, table_id in {(row.version, row.table_id) for row in found}:
        query = sa.select(j.c.path).where(j.c.version == version, j.c.table_id == table_id).order_by(j.c.path)
        journals[version, table_id] = tuple(connection.execute(query).scalars())
    found.sort(key=lambda row: (row.version, row.segment))
    return [CompactionOf(row.segment, row.version, journals[row.version, row.table_id]) for row in found]
