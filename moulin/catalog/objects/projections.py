"""Projections: what was written of a table for Iceberg engines, and the numbers that a new one needs.

A projection is named by the last version that changed the table. The files of one are written first, under fresh names,
and then recorded in one transaction; what a killed or slower writer leaves is named by no row, and clean-up finds it.
"""

# Decisions: docs/decisions/0061

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import tables
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.drivers import upsert
from moulin.catalog.sql.pool import Pool, chunks
from moulin.model.operations import Kind

ENGINE_PREFIX = "iceberg."  # of keys in a commit's summary: what an engine wrote into that of its snapshot
ENGINE = "iceberg-rest"  # in the summary of a commit that an engine made over REST
FIRST = 0  # the parent of the first projection of a line


@dataclass(frozen=True, slots=True)
class Projected:
    """One projection: the version of the table, its Iceberg sequence number, and where its metadata lies."""

    version: int
    sequence: int
    path: str


@dataclass(frozen=True, slots=True)
class DataCommit:
    """The commit that a snapshot stands for: the last one, up to a version, that changed the table's rows or files."""

    version: int
    timestamp_ns: int
    sequence: int
    snapshot_id: int
    parent_snapshot_id: int | None
    schema_id: int
    kinds: frozenset[str]
    first_row_id: int
    added_rows: int
    properties: Mapping[str, str]
    """What the engine that made it wrote into the summary of its snapshot, besides figures."""


def find(pool: Pool, table_id: UUID, format_version: int, version: int) -> Projected | None:
    """The projection of exactly this version."""
    p = s.projections
    return _one(pool, _of(table_id, format_version).where(p.c.version == version))


def before(pool: Pool, table_id: UUID, format_version: int, version: int) -> Projected | None:
    """The newest projection of the line that is older than `version`."""
    p = s.projections
    query = _of(table_id, format_version).where(p.c.version < version, p.c.parent.is_not(None))
    return _one(pool, query.order_by(p.c.version.desc()).limit(1))


def is_newest(pool: Pool, table_id: UUID, format_version: int, version: int) -> bool:
    """Whether no projection of the line is newer than `version`."""
    p = s.projections
    newer = _of(table_id, format_version).where(p.c.version > version, p.c.parent.is_not(None)).limit(1)
    return _one(pool, newer) is None


def newest(pool: Pool) -> list[str]:
    """Where the metadata of the newest projection of each table and format version lies."""
    p = s.projections
    mine = sa.and_(p.c.parent.is_not(None), p.c.table_id.in_(sa.select(s.tables.c.id)))
    last = sa.select(p.c.table_id, p.c.format_version, sa.func.max(p.c.version).label("version")).where(mine)
    found = last.group_by(p.c.table_id, p.c.format_version).subquery()
    same = sa.and_(*(p.c[name] == found.c[name] for name in ("table_id", "format_version", "version")))
    with pool.read() as connection:
        return list(connection.execute(sa.select(p.c.path).join(found, same).order_by(p.c.path)).scalars())


def record(
    pool: Pool,
    table_id: UUID,
    format_version: int,
    made: Projected,
    parent: int | None,
    added: Mapping[str, int],
    removed: Iterable[str] | None,
    erased: int,
) -> bool:
    """Keep a projection: the files `added` for it (with their sizes), and those of its parent that it does without.

    `removed` is None when it shares no file with its parent. `erased` is what `last_erased` was before it was made.

    False when somebody else was first, to project the version or to continue the parent, and when rows were erased
    since. A projection beside the line (`parent` is None) lives as long as its version is kept.
    """
    f = s.projection_files
    until = s.OPEN if parent is not None else made.version + 1
    with pool.unordered(durable=False) as connection:  # what a power cut takes away is made again
        tables.find_by_id(connection, table_id)
        if _last_erased(connection, table_id) != erased:
            return False
        row = {
            "table_id": table_id,
            "format_version": format_version,
            "version": made.version,
            "sequence": made.sequence,
            "parent": parent,
            "path": made.path,
            "created_at": pool.now(connection),
        }
        query = (
            upsert(connection, s.projections).values(row).on_conflict_do_nothing().returning(s.projections.c.version)
        )
        if connection.execute(query).scalar_one_or_none() is None:
            return False
        connection.execute(
            f.insert(),
            [
                {"path": path, "table_id": table_id, "format_version": format_version, "size": size,
                 "added_version": made.version, "removed_version": until}
                for path, size in added.items()
            ],
        )  # fmt: skip
        mine = sa.and_(f.c.table_id == table_id, f.c.format_version == format_version, f.c.removed_version == s.OPEN)
        if removed is None and parent is not None:
            closed = sa.and_(mine, f.c.added_version < made.version)
            connection.execute(f.update().where(closed).values(removed_version=made.version))
        for chunk in chunks(sorted(removed or ())):
            closed = sa.and_(mine, f.c.path.in_(chunk))
            connection.execute(f.update().where(closed).values(removed_version=made.version))
    return True


def last_erased(pool: Pool, table_id: UUID) -> int:
    """The last version that erased rows of a table, 0 if none did: what was made of its facts before holds values."""
    with pool.read() as connection:
        return _last_erased(connection, table_id)


def _last_erased(connection: sa.Connection, table_id: UUID) -> int:
    c = s.table_commits
    query = sa.select(sa.func.max(c.c.version)).where(c.c.table_id == table_id, c.c.kind == Kind.ERASE.value)
    return int(connection.execute(query).scalar() or 0)


def files(pool: Pool, table_id: UUID, format_version: int, version: int) -> dict[str, int]:
    """The files that the projection of a version is made of, with their sizes."""
    f = s.projection_files
    span = sa.and_(f.c.added_version <= version, f.c.removed_version > version)
    mine = sa.and_(f.c.table_id == table_id, f.c.format_version == format_version, span)
    with pool.read() as connection:
        return {row.path: row.size for row in connection.execute(sa.select(f.c.path, f.c.size).where(mine))}


def forget(pool: Pool, table_id: UUID, format_version: int) -> None:
    """Forget every projection of a table in this format: one lost a file or names another address, and others may too.

    Clean-up deletes their remaining files once the present version is no longer kept.
    """
    f, p = s.projection_files, s.projections
    with pool.unordered() as connection:
        head = tables.find_by_id(connection, table_id).head_version
        mine = sa.and_(f.c.table_id == table_id, f.c.format_version == format_version, f.c.removed_version > head)
        connection.execute(f.update().where(mine).values(removed_version=head))
        connection.execute(p.delete().where(p.c.table_id == table_id, p.c.format_version == format_version))


def data_commit(pool: Pool, table_id: UUID, version: int) -> DataCommit | None:
    """The commit of the newest sequence number at `version`; None when no rows were ever written by then."""
    c = s.table_commits
    with pool.read() as connection:
        mine = sa.select(c).where(c.c.table_id == table_id, c.c.version <= version)
        last = connection.execute(mine.order_by(c.c.version.desc(), c.c.ordinal.desc()).limit(1)).one()
        if last.sequence == 0:
            return None
        first = connection.execute(
            mine.where(c.c.sequence == last.sequence).order_by(c.c.version, c.c.ordinal).limit(1)
        ).one()
        same = connection.execute(
            sa.select(c).where(c.c.table_id == table_id, c.c.version == first.version).order_by(c.c.ordinal)
        ).all()
        earlier = connection.execute(
            sa.select(c.c.snapshot_id)
            .where(c.c.table_id == table_id, c.c.sequence < last.sequence, c.c.sequence > 0, c.c.snapshot_id > 0)
            .order_by(c.c.sequence.desc(), c.c.version)
            .limit(1)
        ).scalar_one_or_none()
    return DataCommit(
        first.version,
        first.timestamp_ns,
        last.sequence,
        first.snapshot_id,
        earlier,
        same[-1].schema_id,
        frozenset(row.kind for row in same),
        same[0].first_row_id,
        sum(row.added_rows for row in same),
        {
            key.removeprefix(ENGINE_PREFIX): str(value)
            for row in same
            for key, value in row.summary.items()
            if key.startswith(ENGINE_PREFIX)
        },
    )


def engine_versions(pool: Pool, table_id: UUID, after: int, before: int) -> list[int]:
    """The versions between two others that engines made of a table: they look for their snapshots in its metadata."""
    c = s.table_commits
    made = sa.cast(c.c.summary, sa.Text).like(f"%{ENGINE}%")
    query = sa.select(c.c.version).where(c.c.table_id == table_id, c.c.version > after, c.c.version < before, made)
    with pool.read() as connection:
        return list(connection.execute(query.distinct().order_by(c.c.version)).scalars())


def snapshot_ids(pool: Pool, table_id: UUID, sequences: Iterable[int]) -> dict[int, int]:
    """The snapshot id of the commit of each sequence number, where that is still known."""
    c = s.table_commits
    found: dict[int, int] = {}
    with pool.read() as connection:
        for chunk in chunks(sorted(set(sequences))):
            query = sa.select(c.c.sequence, c.c.snapshot_id).where(c.c.table_id == table_id, c.c.sequence.in_(chunk))
            query = query.where(c.c.snapshot_id > 0)
            for row in connection.execute(query.order_by(c.c.version.desc())):
                found[row.sequence] = row.snapshot_id
    return found


def column_facts(pool: Pool, numbers: Sequence[int]) -> dict[int, bytes]:
    """The encoded column facts of segments, by number, where they are still known."""
    g = s.segments
    found: dict[int, bytes] = {}
    with pool.read() as connection:
        for chunk in chunks(sorted(numbers)):
            rows = connection.execute(sa.select(g.c.number, g.c.facts).where(g.c.number.in_(chunk)))
            found.update((row[0], row[1]) for row in rows)
    return found


def commit_time(pool: Pool, table_id: UUID, version: int) -> int:
    """When the table was last changed, up to `version`, in Unix nanoseconds."""
    c = s.table_commits
    with pool.read() as connection:
        query = sa.select(sa.func.max(c.c.timestamp_ns)).where(c.c.table_id == table_id, c.c.version <= version)
        return int(connection.execute(query).scalar_one())


def oldest_projectable(pool: Pool, table_id: UUID) -> int:
    """The oldest version that a projection can still be continued from or travelled to."""
    c = s.table_commits
    with pool.read() as connection:
        row = tables.find_by_id(connection, table_id)
        query = sa.select(sa.func.max(c.c.version)).where(c.c.table_id == table_id, c.c.version <= row.oldest_version)
        return int(connection.execute(query).scalar_one() or row.oldest_version)


def _of(table_id: UUID, format_version: int) -> sa.Select[tuple[int, int, str]]:
    p = s.projections
    return sa.select(p.c.version, p.c.sequence, p.c.path).where(
        p.c.table_id == table_id, p.c.format_version == format_version
    )


def _one(pool: Pool, query: sa.Select[tuple[int, int, str]]) -> Projected | None:
    with pool.read() as connection:
        row = connection.execute(query).first()
    return None if row is None else Projected(row.version, row.sequence, row.path)
