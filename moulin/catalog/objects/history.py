"""Versions: the history of a table, versions by time, and what became of compacted segments."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import chunks
from moulin.errors import NotFound
from moulin.model.entities import CommitInfo

EXPIRED = "expired"  # the kind of a commit of which only the numbers are still known
PACKED = -1  # the ordinal of a row that stands for many of these
MOST_PACKED = 4096  # sequence numbers in such a row
_FIRST, _STEPS = "first", "steps"  # in its summary


@dataclass(frozen=True, slots=True)
class CompactionOf:
    """A compaction that consumed a segment, and its journals."""

    segment: int
    version: int
    journals: tuple[str, ...]


def of_table(
    connection: sa.Connection, row: Any, limit: int | None, before: tuple[int, int] | None = None
) -> list[CommitInfo]:
    """The kept commits of a table, newest first; with `before`, those that come after that version and ordinal."""
    c = s.table_commits
    query = (
        sa.select(c)
        .where(c.c.table_id == row.id, c.c.version >= row.oldest_version, c.c.kind != EXPIRED)
        .order_by(c.c.version.desc(), c.c.ordinal.desc())
    )
    if before is not None:
        query = query.where(sa.tuple_(c.c.version, c.c.ordinal) < sa.tuple_(*map(sa.literal, before)))
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
        forgotten = connection.execute(sa.select(s.lake.c.created_at)).scalar()
        if forgotten is not None and forgotten <= timestamp_ns:
            raise NotFound("What the lake was at that time was cleaned up: ask for a later one.")
        raise NotFound("The lake has no version as old as that time.")
    return int(found)


def sequence_versions(connection: sa.Connection, table_id: UUID) -> tuple[list[int], list[int]]:
    """Sequence numbers of a table and of its base, ascending, and the version that each was committed as."""
    t = s.tables
    found = own_sequences(connection, table_id)
    base = connection.execute(sa.select(t.c.base_id, t.c.base_version).where(t.c.id == table_id)).first()
    if base is None:
        raise NotFound("The table was dropped and purged.")
    if base.base_id is not None:
        before = own_sequences(connection, base.base_id).items()
        found |= {number: version for number, version in before if version <= base.base_version}
    ordered = sorted(found)
    return ordered, [found[sequence] for sequence in ordered]


def own_sequences(connection: sa.Connection, table_id: UUID) -> dict[int, int]:
    """Sequence numbers that commits of a table gave, and the version of each."""
    c = s.table_commits
    found: dict[int, int] = {}
    packed = sa.select(c.c.summary).where(c.c.table_id == table_id, c.c.ordinal == PACKED)
    for summary in connection.execute(packed.order_by(c.c.version.desc())).scalars():
        found.update(unpack(summary))
    rows = (
        sa.select(c.c.sequence, sa.func.min(c.c.version))
        .where(c.c.table_id == table_id, c.c.ordinal >= 0)
        .group_by(c.c.sequence)
    )
    for sequence, version in connection.execute(rows):
        found[sequence] = min(version, found.get(sequence, version))
    return found


def packed_rows(table_id: UUID, pairs: Sequence[tuple[int, int]]) -> Iterator[dict[str, Any]]:
    """Rows of `table_commits` for sequence numbers, ascending, and the versions that they were committed as."""
    return (
        pack(table_id, chunk, PACKED, version=chunk[-1][1], sequence=chunk[-1][0])
        for chunk in chunks(pairs, MOST_PACKED)
    )


def pack(
    table_id: UUID, pairs: Sequence[tuple[int, int]], ordinal: int, *, version: int, sequence: int
) -> dict[str, Any]:
    """A row of `table_commits` that holds pairs of numbers, of which the first ascend."""
    steps = [step - before for two in pairwise(pairs) for before, step in zip(*two, strict=True)]
    numbers = ("timestamp_ns", "schema_id", "spec_id", "sort_order_id", "snapshot_id", "first_row_id", "added_rows")
    return {
        **dict.fromkeys(numbers, 0),
        "table_id": table_id,
        "version": version,
        "ordinal": ordinal,
        "kind": EXPIRED,
        "sequence": sequence,
        "properties": None,
        "summary": {_FIRST: list(pairs[0]), _STEPS: steps},
    }


def unpack(summary: Mapping[str, Any]) -> dict[int, int]:
    """What `pack` packed, such as sequence number to version."""
    sequence, version = summary[_FIRST]
    steps = summary[_STEPS]
    return dict(zip(accumulate([sequence, *steps[::2]]), accumulate([version, *steps[1::2]]), strict=True))


def compactions_of(connection: sa.Connection, table_id: UUID, numbers: Sequence[int], after: int) -> list[CompactionOf]:
    """The compactions of a table after version `after` that consumed any of the segments, oldest first."""
    m, j = s.merge_inputs, s.journals
    found: list[Any] = []
    for chunk in chunks(numbers):
        query = sa.select(m).where(m.c.segment.in_(chunk), m.c.table_id == table_id, m.c.version > after)
        found.extend(connection.execute(query).all())
    journals: dict[int, tuple[str, ...]] = {}
    for version in {row.version for row in found}:
        query = sa.select(j.c.path).where(j.c.version == version, j.c.table_id == table_id).order_by(j.c.path)
        journals[version] = tuple(connection.execute(query).scalars())
    found.sort(key=lambda row: (row.version, row.segment))
    return [CompactionOf(row.segment, row.version, journals[row.version]) for row in found]
