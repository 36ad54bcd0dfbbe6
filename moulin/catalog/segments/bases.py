"""Tables with a base: which spans, of which table and at which version, a version of a table is made of.

A clone reads the spans of its base at the version that it was cloned from, besides its own. A change to a segment of
the base masks it in the clone and opens a span of the clone's own, if rows of it stay. The base of a base is nobody's
concern: a clone of a clone has the same base, and copies of the spans and masks that the first one had.
"""

# Decisions: docs/decisions/0410

from __future__ import annotations

from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.catalog.sql.prepared import Prepared
from moulin.formats import messages as pb


class Level(NamedTuple):
    """Spans of `table_id` at `version`, less those that the table `mask_of` had masked at `mask_version`, if any."""

    table_id: UUID
    version: int
    mask_of: UUID | None = None
    mask_version: int = 0

    def parameters(self) -> dict[str, Any]:
        """The values that statements about this level take."""
        own = {"table_id": self.table_id, "version": self.version}
        return own if self.mask_of is None else {**own, "mask_of": self.mask_of, "mask_version": self.mask_version}


def levels(row: Any, version: int) -> list[Level]:
    """What a version of a table is made of; `row` is the table's, or has its `id`, `base_id` and `base_version`."""
    own = Level(row.id, version)
    return [own] if row.base_id is None else [own, Level(row.base_id, row.base_version, row.id, version)]


_BASE = Prepared(
    sa.select(s.tables.c.id, s.tables.c.base_id, s.tables.c.base_version).where(
        s.tables.c.id == sa.bindparam("table_id"), s.tables.c.base_id.is_not(None)
    )
)


def base_level(connection: sa.Connection, table_id: UUID, version: int) -> Level | None:
    """The spans of its base that a table has at `version`; None where it has no base."""
    row = _BASE.first(connection, {"table_id": table_id})
    return None if row is None else levels(row, version)[1]


def in_level(p: sa.FromClause, level: Level) -> tuple[sa.ColumnElement[bool], ...]:
    """The conditions for a span of `p` to be in `level`, with its values in them."""
    at = (p.c.table_id == level.table_id, p.c.added_version <= level.version, p.c.removed_version > level.version)
    if level.mask_of is None:
        return at
    return *at, unmasked(p, level.mask_of, level.mask_version)


def unmasked(p: sa.FromClause, mask_of: Any, mask_version: Any, *around: sa.FromClause) -> sa.ColumnElement[bool]:
    """The condition for a span of `p` not to be masked in the table `mask_of` at `mask_version`.

    `around` are other tables of the query that the last two come from.
    """
    m = s.span_masks
    return ~sa.exists().where(
        m.c.table_id == mask_of, m.c.segment == p.c.segment, m.c.added_version <= mask_version
    ).correlate(p, *around)


def masks(connection: sa.Connection, table_id: UUID) -> list[pb.Mask]:
    """The masks of a table as manifests hold them."""
    m = s.span_masks
    query = sa.select(m.c.segment, m.c.added_version).where(m.c.table_id == table_id).order_by(m.c.segment)
    return [pb.Mask(segment=row.segment, added_version=row.added_version) for row in connection.execute(query)]


def dependents(connection: sa.Connection, table_id: UUID) -> list[int]:
    """The versions of a table that clones read, and that branches compare with: what they began with, on both sides."""
    t, b, c = s.tables, s.branches, s.branch_tables
    cloned = sa.select(t.c.base_version).where(t.c.base_id == table_id)
    listed = sa.select(b.c.version).join(c, c.c.branch_id == b.c.id).where(c.c.source_id == table_id)
    own = sa.select(t.c.created_version).join(c, c.c.own_id == t.c.id).where(t.c.id == table_id)
    return [version for query in (cloned, listed, own) for version in connection.execute(query).scalars()]


def is_needed() -> sa.ColumnElement[bool]:
    """The condition for a row of `tables` to be the base of another, or to own files that others have: segments,
    vectors or column files.

    A branch that began with the table and has no clone of it yet needs it, too.
    """
    t, g, p = s.tables, s.segments, s.segment_spans
    clone = s.tables.alias("clone")
    lent = (
        sa.select(g.c.number)
        .join(p, p.c.segment == g.c.number)
        .where(g.c.table_id == t.c.id, p.c.table_id != t.c.id)
        .correlate(t)
        .exists()
    )
    d, c = s.deletion_vectors, s.branch_tables
    lent_vector = (
        sa.select(d.c.id)
        .join(p, sa.and_(p.c.vector_id == d.c.id, p.c.segment == d.c.segment))
        .where(d.c.table_id == t.c.id, p.c.table_id != t.c.id)
        .correlate(t)
        .exists()
    )
    listed = sa.exists().where(c.c.source_id == t.c.id, c.c.opened.is_(False)).correlate(t)
    f, n = s.column_files, s.column_sets
    lent_columns = (
        sa.select(f.c.path)
        .join(n, n.c.path == f.c.path)
        .join(p, sa.and_(p.c.columns_id == n.c.id, p.c.segment == n.c.segment))
        .where(f.c.table_id == t.c.id, p.c.table_id != t.c.id)
        .correlate(t)
        .exists()
    )
    is_base = sa.exists().where(clone.c.base_id == t.c.id).correlate(t)
    return sa.or_(is_base, lent, lent_vector, lent_columns, listed)


def folders(connection: sa.Connection, table_id: UUID, length: int) -> set[str]:
    """The first `length` letters of the paths of all files that some version of a table has, or of its base.

    A table has files in the folders of others: a clone in that of its base, and one that a branch was published to in
    that of the branch's table.
    """
    base = connection.execute(sa.select(s.tables.c.base_id).where(s.tables.c.id == table_id)).scalar()
    tables = [table_id] if base is None else [table_id, base]
    p, v, g = s.segment_spans, s.deletion_vectors, s.segments
    begins = [sa.func.substr(source.c.path, 1, length) for source in (g, v)]
    files = sa.select(begins[0]).join(p, p.c.segment == g.c.number).where(p.c.table_id.in_(tables)).distinct()
    vectors = sa.select(begins[1]).join(p, p.c.vector_id == v.c.id).where(p.c.table_id.in_(tables)).distinct()
    return {*connection.execute(files).scalars(), *connection.execute(vectors).scalars()}
