"""The arguments and results of a commit: the operation on one table, its result, and the rejection."""

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
    """One operation on one table, prepared from `read_version`."""

    table_id: UUID
    read_version: int
    operation: Operation
    summary: Mapping[str, str] = field(default_factory=dict)
    regions: tuple[RegionUse, ...] = ()
    # Records acknowledged before a table was dropped are still added, so that resurrecting restores everything.
    into_dropped: bool = False
    # For Iceberg engines: the expected head version, and the id of their snapshot.
    expected_head: int | None = None
    snapshot_id: int | None = None
    # It compacts inline segments alone: its manifest follows theirs, in the background.
    of_inline: bool = False

    @property
    def may_lag(self) -> bool:
        """Whether its manifest may be published in the background: it only adds or compacts inline segments."""
        operation = self.operation
        appends = isinstance(operation, Append) and all(facts.inline is not None for facts in operation.added)
        return appends or self.of_inline


@dataclass(frozen=True, slots=True)
class CommitResult:
    """`replayed` means that the request id was already committed, as `version`; nothing was done.

    `digest` is the one stored with the request id.
    """

    version: int
    timestamp_ns: int
    replayed: bool = False
    digest: bytes | None = None


class Stale(Conflict):
    """A precondition of the operation no longer holds. `verdict` says whether a rebase or a retry can succeed."""

    def __init__(self, message: str, verdict: Verdict, **detail: Any) -> None:
        super().__init__(message, **detail)
        self.verdict = verdict
