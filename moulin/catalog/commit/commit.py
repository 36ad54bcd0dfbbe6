"""The commit: checks the preconditions of an operation, applies it, and assigns the version. Called under the counter's
lock; SQL only.

The cost depends on the operation, not on the size of the table. Preconditions are checked one by one: segment,
property, column. If one no longer holds, `model.operations` decides from the change that caused it whether the caller
may rebase or retry.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.commit import arrivals, data, fills, indexes, regions, restore, settings
from moulin.catalog.commit.table_change import TableChange
from moulin.catalog.commit.table_commit import TableCommit
from moulin.catalog.objects import tables
from moulin.catalog.objects.names import NameOrId
from moulin.catalog.objects.new_table import FirstRows, NewTable
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import MOST_DELTAS, SEQUENCES_PER_DELTA, Draft
from moulin.errors import InvalidInput
from moulin.model.entities import TableState
from moulin.model.ids import new_snapshot_id
from moulin.model.operations import AlterSchema, DataOperation, Fill, IndexOperation, Restore, Upsert
from moulin.model.schema.change import CastColumn, ReplaceColumns


def apply(draft: Draft, commits: Sequence[TableCommit]) -> None:
    """Apply all operations as one version, or raise and change nothing."""
    _apply(draft, commits, dict.fromkeys((commit.table_id for commit in commits), 0))


def create(
    draft: Draft,
    database: NameOrId,
    name: str,
    new: NewTable,
    first: FirstRows | None,
    *,
    replaced_for: float | None = None,
) -> TableState:
    """Create a table, with its first rows if given.

    With `replaced_for`, an existing table with the name is dropped, with this grace period in seconds.
    """
    if replaced_for is not None:
        tables.make_way(draft, database, name, grace_seconds=replaced_for)
    table_id = tables.create(draft, database, name, new)
    if first is not None and first.segments:
        fill(draft, table_id, first)
    return tables.made(draft, table_id)


def fill(draft: Draft, table_id: UUID, first: FirstRows) -> None:
    """Add the first rows of a table. REQUIRES: the same version creates it."""
    state = tables.made(draft, table_id)
    keyed = bool(state.schema.identifier_field_ids)
    if keyed:
        regions.begin(draft, table_id, first.regions)
    elif first.regions:
        raise InvalidInput(f"{state.full_name} has no primary key, so it has no regions.")
    operation = Upsert(added=first.segments) if keyed else first.operation
    snapshot = sa.select(s.table_commits.c.snapshot_id).where(s.table_commits.c.table_id == table_id)
    snapshot_id = int(draft.connection.execute(snapshot).scalar_one())
    _apply(draft, [TableCommit(table_id, draft.version, operation, snapshot_id=snapshot_id)], {table_id: 1})


def _apply(draft: Draft, commits: Sequence[TableCommit], ordinals: dict[UUID, int]) -> None:
    """`ordinals` are the numbers of operations of each table already in the version."""
    for commit in commits:
        arrivals.check(commit)
    snapshot_ids = {commit.table_id: commit.snapshot_id or new_snapshot_id() for commit in commits}
    growing = {c.table_id for c in commits if isinstance(c.operation, DataOperation) and c.operation.added}
    numbered = set()
    for commit in commits:
        change = TableChange(draft, commit)
        ordinal = ordinals[commit.table_id]
        ordinals[commit.table_id] = ordinal + 1
        if ordinal == 0:
            if commit.expected_head not in (None, change.row.head_version):
                raise change.stale("the head version", commit.expected_head, change.row.head_version)
            change.add(deltas=1)
            change.updates["head_version"] = draft.version
            change.manifest.previous_snapshot_id = change.row.head_snapshot_id
        if isinstance(commit.operation, DataOperation | Restore) and commit.table_id not in numbered:
            numbered.add(commit.table_id)
            change.add(last_sequence=1)
        regions.advance(change)
        match commit.operation:
            case DataOperation():
                fills.refuse_values(change, commit.operation.added)
                data.apply_data(change, commit.operation)
            case Fill():
                fills.apply_fill(change, commit.operation)
            case Restore():
                restore.apply_restore(change, commit.operation)
            case indexed if isinstance(indexed, IndexOperation):
                indexes.apply_index(change, indexed)
            case _:
                if isinstance(commit.operation, AlterSchema) and commit.table_id in growing:
                    settings.require_schema_as_read(change)
                settings.apply_setting(change, commit.operation)
        row = change.save()
        tables.record_commit(
            draft,
            row,
            ordinal,
            commit.operation.kind.value,
            snapshot_ids[commit.table_id],
            change.row.next_row_id,
            change.added_rows,
            change.summary,
            properties_changed="properties" in change.updates,
        )
        tables.fill_state(change.manifest, row)
        if row.deltas > min(row.last_sequence // SEQUENCES_PER_DELTA, MOST_DELTAS):
            draft.longest_chain = max(draft.longest_chain, row.deltas - row.inline)
    for commit in commits:
        if isinstance(commit.operation, AlterSchema) and any(
            isinstance(c, CastColumn | ReplaceColumns) for c in commit.operation.changes
        ):
            data.require_cast(TableChange(draft, commit))
            settings.require_sources(TableChange(draft, commit))
