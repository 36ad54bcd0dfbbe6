"""The commit: check what an operation expects, apply it, and number it. Called under the counter's lock; SQL only.

Cost follows what the operation touches, never how large the table is. What it expects is checked thing by thing:
segment, property, column. When one no longer holds, the verdict of `model.operations` on what changed that thing
meanwhile says what the caller may do about it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.commit import arrivals, data, indexes, regions, restore, settings
from moulin.catalog.objects import tables
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import Draft
from moulin.errors import Conflict, InvalidInput
from moulin.model.ids import new_snapshot_id
from moulin.model.operations import (
    DataOperation,
    IndexOperation,
    Kind,
    Operation,
    RegionUse,
    Restore,
    Verdict,
    strongest,
    verdict,
)


@dataclass(frozen=True, slots=True)
class TableCommit:
    """One operation on one table, prepared from what `read_version` showed."""

    table_id: UUID
    read_version: int
    operation: Operation
    summary: Mapping[str, str] = field(default_factory=dict)
    regions: tuple[RegionUse, ...] = ()
    # What was acknowledged before a table was dropped still goes into it, so that resurrecting brings back everything.
    into_dropped: bool = False
    # What engines of other formats ask for: that nothing changed the table since, and the id of their snapshot.
    expected_head: int | None = None
    snapshot_id: int | None = None


@dataclass(frozen=True, slots=True)
class CommitResult:
    """`replayed` says that the request id had been committed before, as `version`; nothing was done now.

    `digest` is the one that was given with the request id when it was committed.
    """

    version: int
    timestamp_ns: int
    replayed: bool = False
    digest: bytes | None = None


class Stale(Conflict):
    """What the operation expected no longer holds. `verdict` says whether a rebase or another try can help."""

    def __init__(self, message: str, verdict: Verdict, **detail: Any) -> None:
        super().__init__(message, **detail)
        self.verdict = verdict


class TableChange:
    """One operation on one table of the version being committed: the table's row, its manifest, what both become."""

    def __init__(self, draft: Draft, commit: TableCommit) -> None:
        self.draft = draft
        self.connection = draft.connection
        self.commit = commit
        self.row = tables.find_by_id(
            draft.connection, commit.table_id, dropped_after=draft.now if commit.into_dropped else None
        )
        self.name = f"{self.row.database}.{self.row.name}"
        if not 0 <= commit.read_version <= draft.version:
            raise InvalidInput(f"A commit is prepared from a version up to {draft.version}, not {commit.read_version}.")
        self.manifest = draft.table(commit.table_id)
        self.updates: dict[str, Any] = {}
        self.added_rows = 0
        self.summary: dict[str, str] = dict(commit.summary)

    @property
    def table_id(self) -> UUID:
        return self.commit.table_id

    def since(self, versions: Collection[int] | None = None) -> list[Any]:
        """What was committed to the table after the operation's read version; all of it, or what `versions` did."""
        c = s.table_commits
        query = sa.select(c).where(
            c.c.table_id == self.table_id,
            c.c.version > self.commit.read_version,
            c.c.version < self.draft.version,
            c.c.kind.in_([kind.value for kind in Kind]),
        )
        if versions is not None:
            query = query.where(c.c.version.in_(versions))
        return list(self.connection.execute(query.order_by(c.c.version, c.c.ordinal)))

    def stale(
        self, requirement: str, expected: object, found: object, versions: Collection[int] | None = None
    ) -> Stale:
        """The error for something that is no longer as it was read; `versions` are those that changed it, if known."""
        kind = self.commit.operation.kind
        meetings = [(verdict(kind, Kind(row.kind)), row) for row in self.since(versions)]
        decision = strongest([outcome for outcome, _ in meetings])
        if decision is Verdict.COMMUTES:
            decision = Verdict.CONFLICT
        winner = next((row for outcome, row in meetings if outcome is decision), None)
        by = f" by the {winner.kind} of version {winner.version}" if winner else ""
        return Stale(
            f"The {kind} of {self.name} lost a race: {requirement} was expected to be {expected} and is {found}{by}. "
            "Read the table again and retry.",
            decision,
            requirement=requirement,
            expected=expected,
            found=found,
            winner=winner.version if winner else None,
        )

    def add(self, **sums: int) -> None:
        """Add to sums kept in the table's row."""
        for name, amount in sums.items():
            self.updates[name] = self.updates.get(name, getattr(self.row, name)) + amount

    def save(self) -> Any:
        """Store what changed; returns the table's row as it is now."""
        if self.updates:
            row = s.tables.c.id == self.table_id
            self.connection.execute(s.tables.update().where(row).values(self.updates))
        return SimpleNamespace(**{**self.row._mapping, **self.updates})

    def count(self, key: str, amount: int) -> None:
        """Add to a figure of the commit's summary."""
        if amount:
            self.summary[key] = str(int(self.summary.get(key, "0")) + amount)


def apply(draft: Draft, commits: Sequence[TableCommit]) -> None:
    """Apply all operations as one version, or raise and leave nothing."""
    for commit in commits:
        arrivals.check(commit)
    snapshot_ids = {commit.table_id: commit.snapshot_id or new_snapshot_id() for commit in commits}
    ordinals = dict.fromkeys(snapshot_ids, 0)
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
            change.manifest.previous_snapshot_id = _head_snapshot(change)
        if isinstance(commit.operation, DataOperation | Restore) and commit.table_id not in numbered:
            numbered.add(commit.table_id)
            change.add(last_sequence=1)
        regions.advance(change)
        match commit.operation:
            case DataOperation():
                data.apply_data(change, commit.operation)
            case Restore():
                restore.apply_restore(change, commit.operation)
            case indexed if isinstance(indexed, IndexOperation):
                indexes.apply_index(change, indexed)
            case _:
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
        draft.longest_chain = max(draft.longest_chain, row.deltas)


def _head_snapshot(change: TableChange) -> int:
    c = s.table_commits
    query = sa.select(c.c.snapshot_id).where(c.c.table_id == change.table_id, c.c.version == change.row.head_version)
    return int(change.connection.execute(query.limit(1)).scalar_one())
