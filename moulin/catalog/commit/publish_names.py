"""Publishing a branch: its index names and tags are transferred to main.

An index is created on main without files; the publisher covers main's segments afterwards. A tag refers to rows. It is
published if main has a version with these rows: the fork version, or that of the publish.
"""

# Decisions: docs/decisions/0413, docs/decisions/0622

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import sqlalchemy as sa

from moulin.catalog.commit import indexes
from moulin.catalog.commit.table_change import TableChange
from moulin.catalog.sql import schema as s
from moulin.errors import Conflict
from moulin.model.entities import TableState
from moulin.model.ids import new_id
from moulin.model.operations import Kind
from moulin.model.publication import Merged
from moulin.model.schema.values import Schema
from moulin.model.tags import TAG, refs_of

_SAME_ROWS: Final = (
    Kind.COMPACT,
    Kind.SET_PROPERTIES,
    Kind.SET_SORT_ORDER,
    Kind.SET_PARTITIONING,
    Kind.ERASE,  # removes the same rows from every version, including main's
    Kind.CREATE_INDEX,
    Kind.UPDATE_INDEX,
    Kind.DROP_INDEX,
)


def take_indexes(change: TableChange, branch: str, own: TableState, schema: Schema) -> list[str]:
    """Create the indexes of a branch's table on main's; returns the names of the new ones."""
    mine = indexes.list_all(change.connection, change.table_id)
    named = {one.name: one for one in mine}
    known = {(one.kind, one.field_id) for one in mine}
    made = []
    for one in indexes.list_all(change.connection, own.id):
        if (one.kind, one.field_id) in known or schema.find_column_name(one.field_id) is None:
            continue
        if one.name in named:
            other = f"{named[one.name].kind} of {schema.find_column_name(named[one.name].field_id)}"
            raise Conflict(
                f"Table {change.name} has an index {one.name!r} ({other}), and branch {branch} has a different one "
                f"with that name. Drop one of the two, and publish again.",
                requirement=f"index {one.name!r} of {change.name}",
                expected="free",
                found="taken",
            )
        indexes.insert(change, replace(one, id=new_id()))
        made.append(one.name)
    return made


def with_tags(
    connection: sa.Connection,
    merged: Merged,
    main: TableState,
    own: TableState,
    fork: int,
    published: int,
    moved: bool,
) -> Merged:
    """The settings that a publish changes, including the tags of the branch whose rows main has at some version."""
    h = s.table_commits
    quiet = [kind.value for kind in _SAME_ROWS]
    changes = sa.select(h.c.version).where(
        h.c.table_id == own.id, h.c.version > own.created_version, h.c.kind.not_in(quiet)
    )
    versions = sorted(connection.execute(changes).scalars())
    mine, added = refs_of(main.properties), dict[str, str]()
    for ref in refs_of(own.properties).values():
        before = sum(version <= ref.version for version in versions)
        at = fork if before == 0 else published if before == len(versions) and not moved else None
        if ref.kind != TAG or at is None or at < main.oldest_version:
            continue
        known = mine.get(ref.name)
        if known is not None and known.version != at:
            raise Conflict(
                f"Table {main.full_name} has a tag {ref.name!r} of version {known.version}, and the branch has a "
                f"different one with that name. Drop one of the two, and publish again.",
                requirement=f"tag {ref.name!r} of {main.full_name}",
                expected="free",
                found="taken",
            )
        if known is None:
            added[ref.key] = replace(ref, version=at).to_json()
    if not added:
        return merged
    properties: Mapping[str, Any] = main.properties if merged.properties is None else merged.properties
    return replace(merged, properties={**properties, **added}, keys=(*merged.keys, *sorted(added)))


__all__ = ["take_indexes", "with_tags"]
