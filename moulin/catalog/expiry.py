"""The SQL part of clean-up: removes expired versions, and dropped objects past their grace period.

Objects that only they used go to the trash; upkeep/sweep.py deletes the files later.
"""

# Decisions: docs/decisions/0632

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import refs
from moulin.catalog.segments import bases, column_sets, key_indexes
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.clock import NANOS
from moulin.catalog.sql.draft import Draft, add_rows
from moulin.catalog.sql.pool import chunks
from moulin.catalog.streams import tokens
from moulin.catalog.tasks import merge_tasks
from moulin.model.names import full_name
from moulin.model.tags import MAX_SNAPSHOT_AGE, ExpiredSnapshots, kept_for
from moulin.storage import paths

KEEP_PROPERTY = "moulin.history-keep-seconds"


@dataclass(frozen=True, slots=True)
class Garbage:
    """An unreferenced object in storage; a path that ends with / is a whole folder.

    For segments and journals the trash also has the number and the version that removed it.
    """

    path: str
    size: int
    reason: str
    table_id: UUID | None = None
    segment: int | None = None
    version: int | None = None
    output: int | None = None
    tombstoned_at: int | None = None


@dataclass(frozen=True, slots=True)
class Expired:
    """A table whose older versions can no longer be read."""

    table_id: UUID
    table: str
    oldest_version: int


def oldest_kept(
    connection: sa.Connection, row: Any, now: int, keep_seconds: float, pinned_here: int | None = None
) -> int:
    """The oldest version of a table to keep: the one that was current `keep_seconds` ago, or an older one that is
    pinned, tagged, or kept by Iceberg's rules (`objects/refs.py`). `pinned_here` is the oldest that a running process
    of this machine reads.
    """
    age = kept_for({}, row.properties, MAX_SNAPSHOT_AGE)
    keep = _seconds(row.properties.get(KEEP_PROPERTY), keep_seconds if age is None else age / 1000)
    v = s.versions
    _hold_off_pins(connection)
    before = sa.select(v.c.version).where(v.c.timestamp_ns <= now - int(keep * NANOS))
    kept = connection.execute(
        before.order_by(v.c.timestamp_ns.desc(), v.c.version.desc()).limit(1)
    ).scalar_one_or_none()
    expired = ExpiredSnapshots.of(row.properties).before
    if expired and KEEP_PROPERTY not in row.properties:  # a user setting takes precedence
        kept = max(kept or 0, expired)
    pinned = connection.execute(
        sa.select(sa.func.min(s.pins.c.version)).where(s.pins.c.table_id == row.id, s.pins.c.expires_at > now)
    ).scalar_one()
    candidates = [version for version in (kept, pinned, pinned_here) if version is not None]
    candidates += refs.needed(connection, row, now)
    candidates += bases.dependents(connection, row.id)
    if kept is None:
        return int(row.oldest_version)
    return int(max(row.oldest_version, min([row.head_version, *candidates])))


def _hold_off_pins(connection: sa.Connection) -> None:
    """Waits for concurrent pins, and blocks new ones until it has decided."""
    if connection.dialect.name == "postgresql":
        connection.execute(sa.text("LOCK TABLE pins IN SHARE MODE"))


def _seconds(text: object, default: float) -> float:
    """The value of a property, or None if invalid."""
    try:
        seconds = default if text is None else float(str(text))
    except ValueError:
        return default
    return seconds if math.isfinite(seconds) and seconds >= 0 else default


def expire(draft: Draft, row: Any, database: str, version: int) -> Expired:
    """Mark the versions of a table before `version` as expired. `forget` removes what only they needed."""
    draft.connection.execute(s.tables.update().where(s.tables.c.id == row.id).values(oldest_version=version))
    add_rows(draft, s.tables, [row.id])
    return Expired(row.id, full_name(database, row.name), version)


def forget(
    connection: sa.Connection, table_id: UUID, version: int, limit: int | None = None
) -> tuple[list[Garbage], bool]:
    """Delete the rows of a table that no version from `version` on needs; returns the files that only they used.

    With a `limit` it handles at most that many spans, and returns whether there may be more. It takes no version: an
    ended span is never reopened, and restore copies only spans of kept versions.
    """
    p = s.segment_spans
    over = sa.and_(p.c.table_id == table_id, p.c.removed_version <= version)
    taken = (p.c.id, p.c.segment, p.c.vector_id, p.c.columns_id, p.c.removed_version)
    query = sa.select(*taken).where(over).order_by(p.c.removed_version)
    spans = connection.execute(query if limit is None else query.limit(limit)).all()
    for block in chunks([span.id for span in spans]):
        connection.execute(p.delete().where(p.c.id.in_(block)))
    garbage = _forget_vectors(connection, {span.vector_id for span in spans} - {0})
    unused = column_sets.forget(connection, {span.columns_id for span in spans})
    garbage += [Garbage(path, size, "expired column file") for path, size in unused]
    garbage += _forget_segments(connection, table_id, {span.segment: span.removed_version for span in spans})
    j, m = s.journals, s.merge_inputs
    old = connection.execute(sa.select(j).where(j.c.table_id == table_id, j.c.version <= version)).all()
    garbage += [Garbage(row.path, 0, "expired journal", table_id, None, row.version, row.output or None) for row in old]
    connection.execute(j.delete().where(j.c.table_id == table_id, j.c.version <= version))
    connection.execute(m.delete().where(m.c.table_id == table_id, m.c.version <= version))
    garbage += _forget_indexes(connection, table_id, {span.segment for span in spans})
    garbage += _forget_projections(connection, table_id, version)
    return garbage, len(spans) == limit


def _forget_segments(connection: sa.Connection, table_id: UUID, removed: Mapping[int, int]) -> list[Garbage]:
    """Segments without spans, each with the version that removed it."""
    g, p = s.segments, s.segment_spans
    garbage = []
    for block in chunks(sorted(removed)):
        unused = sa.and_(g.c.number.in_(block), ~sa.exists().where(p.c.segment == g.c.number))
        rows = connection.execute(sa.select(g.c.number, g.c.path, g.c.size).where(unused)).all()
        garbage += [
            Garbage(row.path, row.size, "expired segment", table_id, row.number, removed[row.number])
            for row in rows
            if not paths.is_adopted(row.path)
        ]
        indexes = key_indexes.of_segments(connection, [row.number for row in rows])
        garbage += [Garbage(index.path, index.size, "expired key index") for index in indexes]
        connection.execute(g.delete().where(g.c.number.in_([row.number for row in rows])))
    return garbage


def _forget_indexes(connection: sa.Connection, table_id: UUID, numbers: set[int]) -> list[Garbage]:
    """Remove the coverage of removed segments, and index files that cover no segment any more."""
    c, f, g = s.index_coverage, s.index_files, s.segments
    for block in chunks(sorted(numbers)):
        gone = ~sa.exists().where(g.c.number == c.c.segment)
        connection.execute(c.delete().where(c.c.segment.in_(block), gone))
    idle = sa.and_(f.c.table_id == table_id, ~sa.exists().where(c.c.path == f.c.path))
    rows = connection.execute(sa.select(f.c.path, f.c.size).where(idle)).all()
    connection.execute(f.delete().where(idle))
    return [Garbage(row.path, row.size, "index file not in use") for row in rows]


def _forget_projections(connection: sa.Connection, table_id: UUID, version: int) -> list[Garbage]:
    """Projections of versions that are no longer kept; the newest stays until the next one takes its place."""
    f, p = s.projection_files, s.projections
    old = sa.and_(f.c.table_id == table_id, f.c.removed_version <= version)
    rows = connection.execute(sa.select(f.c.path, f.c.size).where(old)).all()
    if rows:
        connection.execute(f.delete().where(old))
        lost = ~sa.exists().where(f.c.path == p.c.path)
        connection.execute(p.delete().where(p.c.table_id == table_id, lost))
    return [Garbage(row.path, row.size, "expired projection") for row in rows]


def _forget_vectors(connection: sa.Connection, ids: set[int]) -> list[Garbage]:
    d, p = s.deletion_vectors, s.segment_spans
    files: set[str] = set()
    for block in chunks(sorted(ids)):
        unused = sa.and_(d.c.id.in_(block), ~sa.exists().where(p.c.vector_id == d.c.id, p.c.segment == d.c.segment))
        rows = connection.execute(sa.select(d.c.id, d.c.path).where(unused)).all()
        files.update(row.path for row in rows)
        connection.execute(d.delete().where(d.c.id.in_([row.id for row in rows])))
    for names in chunks(sorted(files)):  # a file is deleted with its last vector
        files.difference_update(connection.execute(sa.select(d.c.path).where(d.c.path.in_(names))).scalars())
    return [Garbage(path, 0, "expired deletion vectors") for path in sorted(files)]


def doomed(now: int, read_here: Collection[UUID] = ()) -> sa.ColumnElement[bool]:
    """Tables past their grace period that are not read and not needed by a clone.

    `read_here` are those pinned by running processes.
    """
    t, p = s.tables, s.pins
    is_read = sa.exists().where(p.c.table_id == t.c.id, p.c.expires_at > now)
    return sa.and_(t.c.delete_at <= now, ~is_read, t.c.id.not_in(read_here), ~bases.is_needed())


def purge(
    draft: Draft, now: int, recheck_seconds: float, read_here: Collection[UUID] = (), *, offer: bool = False
) -> tuple[list[str], list[Garbage]]:
    """Purge dropped objects past their grace period; returns their names and folders.

    With `offer`, the segments and journals of the tables are returned too, for the deletion service. A database stays
    until its last table, view and token are purged: one dropped before it may have a later end, and a token is needed
    as long as streams may contain its records.
    """
    connection = draft.connection
    _hold_off_pins(connection)
    names: list[str] = []
    garbage: list[Garbage] = []
    for kind, source, over in (
        ("view", s.views, s.views.c.delete_at <= now),
        ("table", s.tables, doomed(now, read_here)),
    ):
        for row in connection.execute(sa.select(source).where(over)).all():
            names.append(f"{kind} {row.name}")
            draft.lake().purged.append(row.id.bytes)
            if source is s.tables:
                garbage.append(Garbage(f"{paths.table_prefix(row.id)}/", row.bytes, "purged table"))
                left = _purge_table(connection, row.id)
                garbage += of_dropped(connection, row, left) if offer else elsewhere(row.id, left)
                draft.reroute()
            else:
                connection.execute(s.view_members.delete().where(s.view_members.c.view_id == row.id))
                connection.execute(s.views.delete().where(s.views.c.id == row.id))
    names += _purge_tokens(draft, now, recheck_seconds)
    d = s.databases
    empty = [~sa.exists().where(source.c.database_id == d.c.id) for source in (s.views, s.ingest_tokens, s.tables)]
    for row in connection.execute(sa.select(d).where(d.c.delete_at <= now, *empty)).all():
        names.append(f"database {row.name}")
        draft.lake().purged.append(row.id.bytes)
        connection.execute(d.delete().where(d.c.id == row.id))
    return names, garbage


def _purge_tokens(draft: Draft, now: int, recheck_seconds: float) -> list[str]:
    t, k = s.ingest_tokens, s.token_secrets
    gone = draft.connection.execute(sa.select(t).where(tokens.purgeable(now, recheck_seconds))).all()
    for row in gone:
        draft.connection.execute(k.delete().where(k.c.token_id == row.id))
        draft.connection.execute(t.delete().where(t.c.id == row.id))
        draft.lake().purged.append(row.id.bytes)
        draft.reroute()
    return [f"ingest token {row.name}" for row in gone]


def elsewhere(table_id: UUID, garbage: Sequence[Garbage]) -> list[Garbage]:
    """Files of a purged table in folders of other tables, which it took over from a branch."""
    return [one for one in garbage if not one.path.startswith(f"{paths.table_prefix(table_id)}/")]


def of_dropped(connection: sa.Connection, row: Any, garbage: Sequence[Garbage]) -> list[Garbage]:
    """The segments and journals among the files of a dropped table; its live segments are removed by the drop."""
    v = s.versions
    drop = sa.select(sa.func.max(v.c.version)).where(v.c.timestamp_ns <= row.tombstoned_at)
    found = connection.execute(drop).scalar()
    version = row.head_version if found is None else found
    return [
        replace(one, version=version, tombstoned_at=row.tombstoned_at) if one.version == s.OPEN else one
        for one in garbage
        if one.segment is not None or one.output is not None
    ]


def _purge_table(connection: sa.Connection, table_id: UUID) -> list[Garbage]:
    garbage, _ = forget(connection, table_id, s.OPEN)
    merge_tasks.delete_of_table(connection, table_id)
    for source in (
        s.pins,
        s.staged_segments,
        s.stream_checkpoints,
        s.stream_tables,
        s.projections,
        s.projection_files,
        s.regions,
        s.index_coverage,
        s.index_files,
        s.indexes,
        s.span_masks,
        s.adopted_files,
        s.partitions,
        s.table_commits,
        s.table_schemas,
        s.table_specs,
        s.table_sort_orders,
    ):
        connection.execute(source.delete().where(source.c.table_id == table_id))
    connection.execute(s.tables.delete().where(s.tables.c.id == table_id))
    return garbage


def throw_away(connection: sa.Connection, garbage: Sequence[Garbage], delete_after: int) -> None:
    """Put objects into the trash; objects already in it keep their date."""
    t, v = s.trash, s.versions
    known: set[str] = set()
    for block in chunks([g.path for g in garbage]):
        known.update(connection.execute(sa.select(t.c.path).where(t.c.path.in_(block))).scalars())
    times: dict[int, int] = {}
    for versions in chunks(sorted({g.version for g in garbage if g.version is not None})):
        found = connection.execute(sa.select(v.c.version, v.c.timestamp_ns).where(v.c.version.in_(versions)))
        times.update({row.version: row.timestamp_ns for row in found})
    rows = [
        {
            "path": g.path,
            "size": g.size,
            "reason": g.reason,
            "delete_after": delete_after,
            "failures": 0,
            "table_id": g.table_id,
            "segment": g.segment,
            "tombstone_version": g.version,
            "tombstoned_at": g.tombstoned_at or (None if g.version is None else times.get(g.version)),
            "output": g.output,
        }
        for g in {g.path: g for g in garbage}.values()
        if g.path not in known
    ]
    if rows:
        connection.execute(t.insert(), rows)
