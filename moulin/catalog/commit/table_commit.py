"""What a caller hands to a commit and gets back: the operation on one table, its result, and the refusal."""

# Decisions: docs/decisions/0380

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from moulin.errors import Conflict
from moulin.model.conflicts import Verdict
from moulin.model.operations import Append, Operation, RegionUse


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
    # It compacts inline segments alone: its manifest follows theirs, in the background.
    of_inline: bool = False

    @property
    def may_lag(self) -> bool:
        """Whether its manifest may be published in the background: it adds inline segments alone, or compacts them."""
        operation = self.operation
        appends = isinstance(operation, Append) and all(facts.inline is not None for facts in operation.added)
        return appends or self.of_inline


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
