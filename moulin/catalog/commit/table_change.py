"""The working state of a commit for one table, which every kind of operation changes."""

from __future__ import annotations

from collections.abc import Collection
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.commit.table_commit import Stale, TableCommit
from moulin.catalog.objects import tables
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import Draft
from moulin.catalog.sql.prepared import Prepared
from moulin.errors import InvalidInput
from moulin.formats import messages as pb
from moulin.model.conflicts import Verdict, strongest, verdict
from moulin.model.names import full_name
from moulin.model.operations import Kind

_UPDATE = Prepared(s.tables.update().where(s.tables.c.id == sa.bindparam("changed_table")))


class TableChange:
    """One operation on one table of the version being committed: the table's row and its manifest."""

    def __init__(self, draft: Draft, commit: TableCommit) -> None:
        self.draft = draft
        self.connection = draft.connection
        self.commit = commit
        self.row = tables.find_by_id(
            draft.connection, commit.table_id, dropped_after=draft.now if commit.into_dropped else None
        )
        self.name = full_name(self.row.database, self.row.name)
        if not 0 <= commit.read_version <= draft.version:
            raise InvalidInput(f"A commit must be based on a version up to {draft.version}, not {commit.read_version}.")
        self.manifest = draft.table(commit.table_id)
        self.updates: dict[str, Any] = {}
        self.added_rows = 0
        self.summary: dict[str, str] = dict(commit.summary)

    @property
    def table_id(self) -> UUID:
        return self.commit.table_id

    @property
    def past_is_forgotten(self) -> bool:
        """Whether clean-up may have deleted commits since the operation's read version."""
        oldest: int = self.row.oldest_version
        return self.commit.read_version < oldest

    def since(self, versions: Collection[int] | None = None) -> list[Any]:
        """The commits to the table after the operation's read version; all, or those of `versions`."""
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
        """The error for a changed precondition; `versions` are those that changed it, if known."""
        kind = self.commit.operation.kind
        meetings = [(verdict(kind, Kind(row.kind)), row) for row in self.since(versions)]
        decision = strongest([outcome for outcome, _ in meetings])
        if self.past_is_forgotten:
            decision = strongest([decision, Verdict.RETRY])
        if decision is Verdict.COMMUTES:
            decision = Verdict.CONFLICT
        winner = next((row for outcome, row in meetings if outcome is decision), None)
        by = f" by the {winner.kind} of version {winner.version}" if winner else ""
        return Stale(
            f"The {kind} of {self.name} conflicts with another commit: {requirement} was expected to be {expected} "
            f"and is {found}{by}. "
            "Read the table again and retry.",
            decision,
            requirement=requirement,
            expected=expected,
            found=found,
            winner=winner.version if winner else None,
        )

    def erased_since(self) -> set[int]:
        """The versions after the operation's read version that erased rows of the table."""
        found = {row.version for row in self.since() if row.kind == Kind.ERASE}
        return found | self._forgotten_erasures() if self.past_is_forgotten else found

    def _forgotten_erasures(self) -> set[int]:
        """The same from the erasures themselves, which are kept when clean-up deletes commits."""
        e = s.erasures
        query = sa.select(e.c.version, e.c.data).where(e.c.version > self.commit.read_version, e.c.data.is_not(None))
        mine = self.table_id.bytes
        return {row.version for row in self.connection.execute(query) if mine in pb.Erasure.FromString(row.data).tables}

    def require_nothing_erased(self) -> None:
        """Reject files made from rows that may have been erased since."""
        if erased := self.erased_since():
            raise self.stale("the rows that it read", "there", "erased in part", erased)

    def add(self, **sums: int) -> None:
        """Add to sums kept in the table's row."""
        for name, amount in sums.items():
            self.updates[name] = self.updates.get(name, getattr(self.row, name)) + amount

    def save(self) -> Any:
        """Store the changes; returns the new row of the table."""
        if self.updates:
            _UPDATE.run(self.connection, {"changed_table": self.table_id, **self.updates})
        return SimpleNamespace(**{**self.row._mapping, **self.updates})

    def count(self, key: str, amount: int) -> None:
        """Add to a figure of the commit's summary."""
        if amount:
            self.summary[key] = str(int(self.summary.get(key, "0")) + amount)
