"""Deletes the rows of expired versions in `table_commits` and `versions`.

Of a table stay: the commits from its oldest kept version on, the one that made that version what it is, the one whose
snapshot it shows, which version wrote the rows that are still there (`_last_updated_version`), and which made each row
(`_created_version`), many in one row.
Of the lake stay: the versions from the oldest history that some table keeps on, those that a table was last changed by,
and those that a segment came with, whose age may be asked for. No row that is deleted here is changed by a commit.
"""

# Decisions: docs/decisions/0235

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import births, history
from moulin.catalog.segments import bases
from moulin.catalog.segments.bases import Level
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import chunks


def forget_commits(connection: sa.Connection, table_id: UUID, oldest: int, limit: int | None = None) -> bool:
    """Delete the commits of a table that no version from `oldest` on needs; whether there may be more than `limit`."""
    c = s.table_commits
    mine = c.c.table_id == table_id
    newest_old = sa.select(c).where(mine, c.c.version <= oldest).order_by(c.c.version.desc(), c.c.ordinal.desc())
    base = connection.execute(newest_old.limit(1).with_for_update()).first()  # one clean-up at a time
    if base is None or base.ordinal < 0:
        return False
    shown = sa.select(sa.func.min(c.c.version)).where(mine, c.c.sequence == base.sequence, c.c.ordinal >= 0)
    kept = (base.version, connection.execute(shown).scalar_one())
    gone = sa.and_(mine, c.c.version < base.version, c.c.version.not_in(kept), c.c.ordinal >= 0)
    columns = (c.c.version, c.c.ordinal, c.c.sequence, c.c.first_row_id, c.c.added_rows)
    query = sa.select(*columns).where(gone).order_by(c.c.version, c.c.ordinal)
    rows = connection.execute(query if limit is None else query.limit(limit)).all()
    if not rows:
        return False
    _keep_properties(connection, table_id, base)
    _pack(connection, table_id, rows)
    births.add_steps(connection, table_id, births.steps_of(rows))
    last = rows[-1]
    done = sa.or_(c.c.version < last.version, sa.and_(c.c.version == last.version, c.c.ordinal <= last.ordinal))
    connection.execute(c.delete().where(gone, done))
    return len(rows) == limit


def _keep_properties(connection: sa.Connection, table_id: UUID, base: Any) -> None:
    """The settings at the oldest kept version, which an older commit may have made."""
    c = s.table_commits
    last = (
        sa.select(c.c.version, c.c.properties)
        .where(c.c.table_id == table_id, c.c.version <= base.version, c.c.properties.is_not(sa.null()))
        .order_by(c.c.version.desc(), c.c.ordinal.desc())
    )
    found = connection.execute(last.limit(1)).first()
    if found is not None and found.version < base.version:
        this = sa.and_(c.c.table_id == table_id, c.c.version == base.version, c.c.ordinal == base.ordinal)
        connection.execute(c.update().where(this).values(properties=found.properties))


def _pack(connection: sa.Connection, table_id: UUID, rows: Collection[Any]) -> None:
    """Keep which version each sequence number was given in, as far as rows of them are still there."""
    c = s.table_commits
    ranges = _sequences_in_use(connection, table_id)
    packed = sa.and_(c.c.table_id == table_id, c.c.ordinal == history.PACKED)
    connection.execute(c.delete().where(packed, c.c.sequence < ranges[0][0] if ranges else sa.true()))
    newest = connection.execute(sa.select(c).where(packed).order_by(c.c.version.desc()).limit(1)).first()
    found: dict[int, int] = {}
    if newest is not None:
        before = history.unpack(newest.summary)
        if len(before) < history.MOST_PACKED:
            found = before
            connection.execute(c.delete().where(packed, c.c.version == newest.version))
    for row in rows:
        if row.sequence > 0:
            found.setdefault(row.sequence, row.version)
    starts = [first for first, _ in ranges]
    pairs = [
        (one, found[one]) for one in sorted(found) if (at := bisect_right(starts, one)) and one <= ranges[at - 1][1]
    ]
    for packed_row in history.packed_rows(table_id, pairs):
        connection.execute(c.insert(), packed_row)


def _sequences_in_use(connection: sa.Connection, table_id: UUID) -> list[tuple[int, int]]:
    """The ranges, ascending and apart, in which lie all sequence numbers that rows of a table have."""
    g, p = s.segments, s.segment_spans
    base = bases.base_level(connection, table_id, 0)
    mine = p.c.table_id == table_id
    if base is not None:
        mine = sa.or_(mine, sa.and_(*bases.in_level(p, Level(base.table_id, base.version))))
    own = sa.select(p.c.sequence, p.c.sequence).where(mine)  # of rows that have none stored
    stored = sa.select(g.c.seq_min, g.c.seq_max).join(p, p.c.segment == g.c.number).where(mine, g.c.has_lineage)
    query = sa.union(own, stored)
    ranges: list[tuple[int, int]] = []
    for start, end in sorted(tuple(row) for row in connection.execute(query)):
        if ranges and start <= ranges[-1][1] + 1:
            ranges[-1] = (ranges[-1][0], max(end, ranges[-1][1]))
        else:
            ranges.append((start, end))
    return ranges


def past_versions(connection: sa.Connection, limit: int | None = None) -> list[int]:
    """Versions that nothing asks for the time of any more, in ascending order; at most `limit`.

    Little is read where there is little to forget: segments that came with different versions keep those.
    """
    v, t, p = s.versions, s.tables, s.segment_spans
    with_history = sa.select(sa.func.min(t.c.oldest_version)).where(t.c.oldest_version < t.c.head_version)
    before = connection.execute(with_history).scalar()
    if before is None:  # no table changed since the oldest version that is kept of it
        before = connection.execute(sa.select(sa.func.max(t.c.oldest_version))).scalar() or 0
    older = connection.execute(sa.select(sa.func.count()).select_from(v).where(v.c.version < before)).scalar_one()
    segments = connection.execute(sa.select(sa.func.coalesce(sa.func.sum(t.c.segments), 0))).scalar_one()
    if older <= int(segments) * 9 // 8:
        return []
    needed: set[int] = set()
    for column in (t.c.head_version, t.c.oldest_version, t.c.base_version, p.c.added_version):
        needed.update(connection.execute(sa.select(column).where(column < before).distinct()).scalars())
    every = connection.execute(sa.select(v.c.version).where(v.c.version < before).order_by(v.c.version)).scalars()
    gone: list[int] = []
    for version in every:
        if version not in needed:
            gone.append(version)
            if len(gone) == limit:
                break
    return gone


def delete_versions(connection: sa.Connection, gone: Collection[int]) -> None:
    for chunk in chunks(sorted(gone)):
        connection.execute(s.versions.delete().where(s.versions.c.version.in_(chunk)))
