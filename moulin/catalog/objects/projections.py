"""Projections: what was written of a table for Iceberg engines, and the numbers that a new one needs.

A projection is named by the last version that changed the table. The files of one are written first, under fresh names,
and then recorded in one transaction; what a killed or slower writer leaves is named by no row, and clean-up finds it.
"""

# Decisions: docs/decisions/0061

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects import tables
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.drivers import upsert
from moulin.catalog.sql.pool import Pool, chunks
from moulin.catalog.sql.prepared import Prepared
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


def _of(*conditions: sa.ColumnElement[bool]) -> sa.Select[tuple[int, int, str]]:
    """Projections of a table in a format."""
    p = s.projections.c
    mine = (p.table_id == sa.bindparam("table_id"), p.format_version == sa.bindparam("format_version"))
    return sa.select(p.version, p.sequence, p.path).where(*mine, *conditions)


_VERSION: sa.BindParameter[int] = sa.bindparam("version")
_LINE = s.projections.c.parent.is_not(None)
_EXACT = Prepared(_of(s.projections.c.version == _VERSION))
_BEFORE = Prepared(_of(s.projections.c.version < _VERSION, _LINE).order_by(s.projections.c.version.desc()).limit(1))
_NEWER = Prepared(_of(s.projections.c.version > _VERSION, _LINE).limit(1))


def find(pool: Pool, table_id: UUID, format_version: int, version: int) -> Projected | None:
    """The projection of exactly this version."""
    return _one(pool, _EXACT, table_id, format_version, version)


def before(pool: Pool, table_id: UUID, format_version: int, version: int) -> Projected | None:
    """The newest projection of the line that is older than `version`."""
    return _one(pool, _BEFORE, table_id, format_version, version)


def is_newest(pool: Pool, table_id: UUID, format_version: int, version: int) -> bool:
    """Whether no projection of the line is newer than `version`."""
    return _one(pool, _NEWER, table_id, format_version, version) is None


def newest(pool: Pool) -> list[str]:
    """The location of the metadata of the newest projection of each table and format version."""
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

    False if another process was first, to project the version or to continue the parent, or if rows were erased
    since. A projection beside the line (`parent` is None) lives as long as its version is kept.
    """
    f = s.projection_files
    until = s.OPEN if parent is not None else made.version + 1
    with pool.repeatable() as connection:
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
        rows = [
            {"path": path, "table_id": table_id, "format_version": format_version, "size": size,
             "added_version": made.version, "removed_version": until}
            for path, size in added.items()
        ]  # fmt: skip
        _FILE.run(connection, *rows)
        mine = sa.and_(f.c.table_id == table_id, f.c.format_version == format_version, f.c.removed_version == s.OPEN)
        if removed is None and parent is not None:
            closed = sa.and_(mine, f.c.added_version < made.version)
            connection.execute(f.update().where(closed).values(removed_version=made.version))
        for chunk in chunks(sorted(removed or ())):
            closed = sa.and_(mine, f.c.path.in_(chunk))
            connection.execute(f.update().where(closed).values(removed_version=made.version))
    return True


_FILE = Prepared(s.projection_files.insert())
_ERASED = Prepared(
    sa.select(sa.func.max(s.table_commits.c.version).label("version")).where(
        s.table_commits.c.table_id == sa.bindparam("table_id"), s.table_commits.c.kind == Kind.ERASE.value
    )
)


def last_erased(pool: Pool, table_id: UUID) -> int:
    """The last version that erased rows of a table, 0 if none did: what was made of its facts before holds values."""
    with pool.read() as connection:
        return _last_erased(connection, table_id)


def _last_erased(connection: sa.Connection, table_id: UUID) -> int:
    return int(_ERASED.first(connection, {"table_id": table_id}).version or 0)


def files(pool: Pool, table_id: UUID, format_version: int, version: int) -> dict[str, int]:
    """The files that the projection of a version is made of, with their sizes."""
    mine = {"table_id": table_id, "format_version": format_version, "version": version}
    with pool.read() as connection:
        return {row.path: row.size for row in _FILES.all(connection, mine)}


def _files() -> Prepared:
    f = s.projection_files.c
    mine = (f.table_id == sa.bindparam("table_id"), f.format_version == sa.bindparam("format_version"))
    span = (f.added_version <= _VERSION, f.removed_version > _VERSION)
    return Prepared(sa.select(f.path, f.size).where(*mine, *span))


_FILES = _files()


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


def _commits(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Commits of a table."""
    return sa.select(_C).where(_C.c.table_id == sa.bindparam("table_id"), *conditions)


_C = s.table_commits
_SEQUENCE: sa.BindParameter[int] = sa.bindparam("sequence")
_LAST = Prepared(_commits(_C.c.version <= _VERSION).order_by(_C.c.version.desc(), _C.c.ordinal.desc()).limit(1))


def _first_of() -> Prepared:
    """The commits of the version that took a sequence number."""
    c = _C.alias()
    mine = (c.c.table_id == sa.bindparam("table_id"), c.c.version <= _VERSION, c.c.sequence == _SEQUENCE)
    first = sa.select(sa.func.min(c.c.version)).where(*mine).scalar_subquery()
    return Prepared(_commits(_C.c.version == first).order_by(_C.c.ordinal))


_FIRST_OF = _first_of()
_EARLIER = Prepared(
    _commits(_C.c.sequence < _SEQUENCE, _C.c.sequence > 0, _C.c.snapshot_id > 0)
    .order_by(_C.c.sequence.desc(), _C.c.version)
    .limit(1)
)


def data_commit(pool: Pool, table_id: UUID, version: int) -> DataCommit | None:
    """The commit of the newest sequence number at `version`; None when no rows were ever written by then."""
    at = {"table_id": table_id, "version": version}
    with pool.read() as connection:
        last = _LAST.first(connection, at)
        if last.sequence == 0:
            return None
        same = _FIRST_OF.all(connection, {**at, "sequence": last.sequence})
        first = next(one for one in same if one.sequence == last.sequence)
        before = _EARLIER.first(connection, {"table_id": table_id, "sequence": last.sequence})
        earlier = None if before is None else before.snapshot_id
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
    between = {"table_id": table_id, "after": after, "before": before}
    with pool.read() as connection:
        return [row.version for row in _BY_ENGINES.all(connection, between)]


def _by_engines() -> Prepared:
    between = (_C.c.version > sa.bindparam("after"), _C.c.version < sa.bindparam("before"))
    made = sa.cast(_C.c.summary, sa.Text).like(f"%{ENGINE}%")
    mine = _C.c.table_id == sa.bindparam("table_id")
    return Prepared(sa.select(_C.c.version).where(mine, *between, made).distinct().order_by(_C.c.version))


_BY_ENGINES = _by_engines()


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


_NEWEST = Prepared(
    sa.select(sa.func.max(_C.c.timestamp_ns).label("value")).where(
        _C.c.table_id == sa.bindparam("table_id"), _C.c.version <= _VERSION
    )
)


def commit_time(pool: Pool, table_id: UUID, version: int) -> int:
    """When the table was last changed, up to `version`, in Unix nanoseconds."""
    with pool.read() as connection:
        return int(_NEWEST.first(connection, {"table_id": table_id, "version": version}).value)


def oldest_projectable(pool: Pool, table_id: UUID) -> int:
    """The oldest version that a projection can still be continued from or travelled to."""
    with pool.read() as connection:
        row = _OLDEST.first(connection, {"table_id": table_id})
        if row is None:
            tables.find_by_id(connection, table_id)  # says why
        return int(row.value or row.oldest)


def _oldest() -> Prepared:
    t = s.tables.c
    last = sa.select(sa.func.max(_C.c.version)).where(_C.c.table_id == t.id, _C.c.version <= t.oldest_version)
    value = last.correlate(s.tables).scalar_subquery().label("value")
    mine = (t.id == sa.bindparam("table_id"), t.tombstoned_at.is_(None))
    return Prepared(sa.select(t.oldest_version.label("oldest"), value).where(*mine))


_OLDEST = _oldest()


def _one(pool: Pool, query: Prepared, table_id: UUID, format_version: int, version: int) -> Projected | None:
    with pool.read() as connection:
        row = query.first(connection, {"table_id": table_id, "format_version": format_version, "version": version})
    return None if row is None else Projected(row.version, row.sequence, row.path)
