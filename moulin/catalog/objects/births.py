"""The versions that created rows: row ids are allocated in order, so each version has a range.

A *step* is a row id and a version: rows from that id up to the next step were created by that version; 0 means an
unknown version. Commits have their steps in `table_commits`. Clean-up packs those of deleted commits into a few rows of
the same table, and never drops a step, because rows may live forever.
"""

# Decisions: docs/decisions/0452

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.objects.history import MOST_PACKED, pack, unpack
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import chunks
from moulin.errors import NotFound
from moulin.formats import messages as pb

BIRTHS = -2  # the ordinal of a row that holds steps
UNKNOWN = 0


def birth_versions(connection: sa.Connection, table_id: UUID) -> tuple[list[int], list[int]]:
    """The steps of a table and of its base: first row ids, ascending, and their versions."""
    t = s.tables
    base = connection.execute(sa.select(t.c.base_id, t.c.base_version).where(t.c.id == table_id)).first()
    if base is None:
        raise NotFound("The table was dropped and purged.")
    found = own_births(connection, table_id)
    if base.base_id is not None:
        before = {first: v for first, v in own_births(connection, base.base_id).items() if v <= base.base_version}
        last = max((first for first, version in before.items() if version != UNKNOWN), default=-1)
        found = {first: version for first, version in before.items() if first <= last} | found
    ordered = sorted(found)
    return ordered, [found[first] for first in ordered]


def own_births(connection: sa.Connection, table_id: UUID) -> dict[int, int]:
    """The steps that the commits of a table made."""
    c = s.table_commits
    packed = sa.select(c.c.summary).where(c.c.table_id == table_id, c.c.ordinal == BIRTHS)
    found: dict[int, int] = {}
    for summary in connection.execute(packed).scalars():
        _join(found, unpack(summary))
    gave = (c.c.table_id == table_id, c.c.ordinal >= 0, c.c.added_rows > 0)
    rows = connection.execute(sa.select(c.c.version, c.c.first_row_id, c.c.added_rows).where(*gave))
    _join(found, steps_of(rows))
    return found


def steps_of(commits: Iterable[Any]) -> dict[int, int]:
    """The steps of rows of `table_commits`: where the ids of each begin, and that after it nothing is known."""
    found: dict[int, int] = {}
    for row in commits:
        if row.added_rows:
            _join(found, {row.first_row_id: row.version, row.first_row_id + row.added_rows: UNKNOWN})
    return found


def _join(found: dict[int, int], more: Mapping[int, int]) -> None:
    for first, version in more.items():
        found[first] = found.get(first) or version


def add_steps(connection: sa.Connection, table_id: UUID, steps: Mapping[int, int]) -> None:
    """Pack more steps, of commits that are forgotten or were those of another table."""
    if not steps:
        return
    c = s.table_commits
    mine = sa.and_(c.c.table_id == table_id, c.c.ordinal == BIRTHS)
    newest = connection.execute(sa.select(c).where(mine).order_by(c.c.version.desc()).limit(1)).first()
    found = dict(steps)
    if newest is not None:
        before = unpack(newest.summary)
        if len(before) < MOST_PACKED:
            _join(found, before)
            connection.execute(c.delete().where(mine, c.c.version == newest.version))
    for row in packed_steps(table_id, found):
        connection.execute(c.insert(), row)


def add_births(manifest: pb.Manifest, steps: Mapping[int, int]) -> None:
    """Steps into a manifest."""
    for first in sorted(steps):
        manifest.birth_row_ids.append(first)
        manifest.birth_versions.append(steps[first])


def read_births(manifest: pb.Manifest) -> dict[int, int]:
    """The steps that a manifest tells of other versions than its own."""
    steps = zip(manifest.birth_row_ids, manifest.birth_versions, strict=True)
    return {first: version for first, version in steps if version != manifest.version}


def packed_steps(table_id: UUID, steps: Mapping[int, int]) -> Iterator[dict[str, Any]]:
    """Rows of `table_commits` that hold steps."""
    last = 0
    for chunk in chunks(sorted(steps.items()), MOST_PACKED):
        # The key of the row: a version of its own, below those of commits that follow.
        last = max(last + 1, *(version for _, version in chunk))
        yield pack(table_id, chunk, BIRTHS, version=last, sequence=0)
