"""What engines say of how long snapshots and names for them are kept, as versions of the lake that clean-up leaves.

The rules are Iceberg's: a branch keeps so many of its snapshots at least, and those up to an age; a name goes when its
snapshot is too old. What a ref does not say, properties of the table say for all.
"""

# Decisions: docs/decisions/0503

from __future__ import annotations

from typing import Any

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.model.tags import BRANCH, MAX_REF_AGE, MAX_SNAPSHOT_AGE, MIN_SNAPSHOTS, Ref, kept_for, refs_of

_MILLI = 1_000_000


def lapsed(connection: sa.Connection, row: Any, now: int) -> list[Ref]:
    """The names of a table whose snapshots are older than the names may become."""
    found = []
    for ref in refs_of(row.properties).values():
        age = kept_for(ref.options, row.properties, MAX_REF_AGE)
        made = None if age is None else _made(connection, row.id, ref.version)
        if age is not None and made is not None and made < now - age * _MILLI:
            found.append(ref)
    return found


def needed(connection: sa.Connection, row: Any, now: int) -> list[int]:
    """The oldest versions that the names of a table need, and that main needs for the snapshots it must keep."""
    versions = []
    for ref in refs_of(row.properties).values():
        versions.append(ref.version)
        if ref.kind == BRANCH:
            versions += _behind(connection, row, ref, now)
    least = kept_for({}, row.properties, MIN_SNAPSHOTS)
    if least is not None:
        versions.append(_nth(connection, row, row.head_version, least))
    return versions


def _behind(connection: sa.Connection, row: Any, ref: Ref, now: int) -> list[int]:
    """What a branch keeps of the snapshots before the one that it names."""
    least = kept_for(ref.options, row.properties, MIN_SNAPSHOTS)
    age = kept_for(ref.options, row.properties, MAX_SNAPSHOT_AGE)
    found = [] if least is None else [_nth(connection, row, ref.version, least)]
    if age is not None:
        c = s.table_commits
        young = sa.select(sa.func.min(c.c.version)).where(
            c.c.table_id == row.id, c.c.version <= ref.version, c.c.ordinal >= 0, c.c.timestamp_ns >= now - age * _MILLI
        )
        found += [version for version in connection.execute(young).scalars() if version is not None]
    return found


def _nth(connection: sa.Connection, row: Any, version: int, count: int) -> int:
    """The version that made the oldest of the last `count` snapshots up to `version`."""
    c = s.table_commits
    made = sa.select(sa.func.min(c.c.version)).where(
        c.c.table_id == row.id, c.c.version <= version, c.c.sequence > 0, c.c.ordinal >= 0
    )
    newest = made.group_by(c.c.sequence).order_by(c.c.sequence.desc()).offset(count - 1).limit(1)
    found = connection.execute(newest).scalar_one_or_none()
    return int(row.oldest_version if found is None else found)


def _made(connection: sa.Connection, table_id: Any, version: int) -> int | None:
    """The time of the snapshot of a version; None if unknown."""
    c = s.table_commits
    at = sa.select(c.c.sequence).where(c.c.table_id == table_id, c.c.version <= version, c.c.ordinal >= 0)
    sequence = connection.execute(at.order_by(c.c.version.desc(), c.c.ordinal.desc()).limit(1)).scalar_one_or_none()
    if sequence is None:
        return None
    first = sa.select(sa.func.min(c.c.timestamp_ns)).where(
        c.c.table_id == table_id, c.c.sequence == sequence, c.c.ordinal >= 0
    )
    return connection.execute(first).scalar_one_or_none()
