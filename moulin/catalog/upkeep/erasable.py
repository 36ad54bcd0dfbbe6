"""What an erase has to look at: tables that share segments, and each segment with all that ever showed it."""

# Decisions: docs/decisions/0440

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.catalog import Catalog
from moulin.catalog.commit.erase import family_of, unused_partitions
from moulin.catalog.objects import tables
from moulin.catalog.objects.history import EXPIRED
from moulin.catalog.segments.live import Shared, with_any_vector
from moulin.catalog.sql import schema as s
from moulin.model.entities import TableState

Columns = tuple[UUID, int]
"""A table, and the id of a schema of it."""

Sight = tuple[Columns, int]
"""With which columns, and which set of column files, a kept version shows a segment."""


@dataclass(frozen=True, slots=True)
class Relatives:
    """Tables that share segments, as one snapshot shows them, with the schemas of their kept versions.

    `partitions` are those that no segment has. `replaced` are dropped tables that had the same name.
    """

    version: int
    states: Mapping[UUID, TableState]
    dropped: frozenset[UUID]
    columns: tuple[Columns, ...]
    partitions: frozenset[int]
    replaced: tuple[UUID, ...]


def relatives(catalog: Catalog, table_id: UUID) -> Relatives:
    """A table, and all that share segments with it; dropped ones, too."""
    t, c = s.tables, s.table_commits
    with catalog.pool.read() as connection:
        rows = {one: tables.find_by_id(connection, one, dropped_after=-1) for one in family_of(connection, table_id)}
        states = {one: tables.load(connection, row) for one, row in rows.items()}
        kept = sa.select(c.c.table_id, c.c.schema_id).where(c.c.table_id.in_(rows), c.c.kind != EXPIRED).distinct()
        mine = rows[table_id]
        same = sa.and_(t.c.database_id == mine.database_id, t.c.name == mine.name, t.c.id.not_in(rows))
        return Relatives(
            int(connection.execute(sa.select(s.counter.c.version)).scalar_one()),
            states,
            frozenset(one for one, row in rows.items() if row.tombstoned_at is not None),
            tuple((row.table_id, row.schema_id) for row in connection.execute(kept)),
            unused_partitions(connection, rows),
            tuple(connection.execute(sa.select(t.c.id).where(same)).scalars()),
        )


def has_in_summary(catalog: Catalog, table_ids: Collection[UUID], key: str) -> bool:
    """Whether a commit of some tables, which may be dropped, has a key in its summary."""
    c = s.table_commits
    named = sa.cast(c.c.summary, sa.Text).contains(f'"{key}"', autoescape=True)
    query = sa.select(c.c.version).where(c.c.table_id.in_(table_ids), named).limit(1)
    with catalog.pool.read() as connection:
        return connection.execute(query).first() is not None


def shown(catalog: Catalog, table_ids: Collection[UUID]) -> dict[int, set[Sight]]:
    """The segments of some tables, with the columns and column files of every kept version that shows them."""
    p, m, c, t = s.segment_spans, s.span_masks, s.table_commits, s.tables
    found: dict[int, set[Sight]] = defaultdict(set)
    with catalog.pool.read() as connection:
        changes: dict[UUID, list[tuple[int, int]]] = defaultdict(list)
        mine = sa.select(c.c.table_id, c.c.version, c.c.schema_id).where(c.c.table_id.in_(table_ids))
        for row in connection.execute(mine.where(c.c.kind != EXPIRED).order_by(c.c.version, c.c.ordinal)):
            if not (known := changes[row.table_id]) or known[-1][1] != row.schema_id:
                known.append((row.version, row.schema_id))
        based = sa.select(t.c.id, t.c.base_id, t.c.base_version).where(t.c.base_id.is_not(None), t.c.id.in_(table_ids))
        clones = connection.execute(based).all()
        masked = sa.select(m).where(m.c.table_id.in_(table_ids))
        masks = {(row.table_id, row.segment): row.added_version for row in connection.execute(masked)}
        query = sa.select(p.c.segment, p.c.columns_id, p.c.table_id, p.c.added_version, p.c.removed_version)
        for segment, beside, table_id, added, removed in connection.execute(query.where(p.c.table_id.in_(table_ids))):
            columns = _columns(changes, table_id, added, removed)
            for clone in clones:
                if clone.base_id == table_id and added <= clone.base_version < removed:
                    columns |= _columns(changes, clone.id, 0, masks.get((clone.id, segment), s.OPEN))
            found[segment].update((one, beside) for one in columns)
    return dict(found)


def _columns(changes: Mapping[UUID, Sequence[tuple[int, int]]], table_id: UUID, start: int, stop: int) -> set[Columns]:
    """The columns that the versions of a table from `start` to before `stop` have; `changes` say since when."""
    mine = changes.get(table_id, ())
    before = [schema_id for version, schema_id in mine if version <= start]
    inside = [schema_id for version, schema_id in mine if start < version < stop]
    return {(table_id, schema_id) for schema_id in (*before[-1:], *inside)}


def load(catalog: Catalog, numbers: Sequence[int]) -> list[Shared]:
    """Segments by number, with every deletion vector and column file that a span of theirs has."""
    with catalog.pool.read() as connection:
        return with_any_vector(connection, numbers)


__all__ = ["Columns", "Relatives", "Shared", "Sight", "load", "relatives", "shown"]
