"""Which objects in storage a row names: what the lake owns, and nobody deletes while the row is there."""

# Decisions: docs/decisions/0192

from __future__ import annotations

from collections.abc import Collection, Sequence
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.segments import key_indexes
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import Pool, chunks
from moulin.model.tags import PARTITION_STATISTICS_PREFIX, STATISTICS_PREFIX, statistics_of
from moulin.storage import paths
from moulin.storage.file_kinds import FileKind, identify


def in_use(connection: sa.Connection, every: Sequence[str]) -> set[str]:
    """The paths among `every` that a segment, deletion vector, column file, journal, index, projection or
    statistics has."""
    used: set[str] = set()
    for chunk in chunks(every):
        used |= _named(connection, chunk) | _statistics(connection, chunk)
    return used


def in_trash(connection: sa.Connection, every: Sequence[str]) -> set[str]:
    """The paths among `every` that wait for deletion, by themselves or with the folder of their table."""
    t = s.trash
    found: set[str] = set()
    for chunk in chunks(every):
        found.update(connection.execute(sa.select(t.c.path).where(t.c.path.in_(chunk))).scalars())
    folders = tuple(connection.execute(sa.select(t.c.path).where(t.c.path.like("%/"))).scalars())
    return found.union(path for path in every if folders and path.startswith(folders))


def leftovers(pool: Pool, table_ids: Collection[UUID], candidates: Sequence[str]) -> list[str]:
    """Those of `candidates` that an engine wrote for these tables and that the lake does not use.

    What has the shape of the lake's own files stays, whether or not a row names it yet.
    """
    known = {path: found for path in candidates if (found := identify(path)) is not None}
    theirs = [path for path, found in known.items() if found.kind is FileKind.ENGINE_FILE and found.owner in table_ids]
    with pool.read() as connection:
        kept = in_use(connection, theirs) | in_trash(connection, theirs)
    return [path for path in theirs if path not in kept]


def _named(connection: sa.Connection, every: Sequence[str]) -> set[str]:
    numbers = {found[1] for path in every if (found := paths.parse_segment_path(path))}
    indexed = {
        found[1] for path in every if (found := paths.parse_segment_path(paths.parse_key_index_path(path) or ""))
    }
    g = s.segments
    files = {index.path for index in key_indexes.of_segments(connection, indexed)}
    if numbers:
        files.update(connection.execute(sa.select(g.c.path).where(g.c.number.in_(numbers))).scalars())
    used = files.intersection(every)
    sources = (s.deletion_vectors, s.column_files, s.journals, s.index_files, s.projection_files)
    named = sa.union_all(*(sa.select(source.c.path).where(source.c.path.in_(every)) for source in sources))
    return used.union(connection.execute(named).scalars())


def _statistics(connection: sa.Connection, every: Sequence[str]) -> set[str]:
    """The paths among `every` that are statistics which an engine attached to a snapshot."""
    tables = {table_id for path in every if (table_id := paths.parse_engine_path(path)) is not None}
    if not tables:
        return set()
    rows = connection.execute(sa.select(s.tables.c.properties).where(s.tables.c.id.in_(tables))).scalars().all()
    prefixes = (STATISTICS_PREFIX, PARTITION_STATISTICS_PREFIX)
    files = (one for has in rows for prefix in prefixes for one in statistics_of(has, prefix).values())
    named = [str(one["statistics-path"]) for one in files]
    return {path for path in every if any(name.endswith(f"/{path}") for name in named)}
