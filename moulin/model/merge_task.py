"""Merge tasks as the catalog answers with them, and what is staged for uploads."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from moulin.model.operations import Claim


class TaskState(StrEnum):
    """Where a merge task stands. A claimed one whose lease ran out may be claimed by another worker."""

    WAITING = "waiting"
    CLAIMED = "claimed"
    QUARANTINED = "quarantined"
    DONE = "done"


@dataclass(frozen=True, slots=True)
class MergeTask:
    """Segments to rewrite. `available_at` is when it can be claimed (again): the end of a back-off, or of a lease."""

    id: UUID
    table_id: UUID
    state: TaskState
    level: int
    segments: int
    created_at: int
    available_at: int
    worker: str | None
    claimed_at: int | None
    attempt: int
    failures: int
    last_error: str | None


@dataclass(frozen=True, slots=True)
class MergeTaskFigures:
    """Sums over the inputs of a merge task; times are Unix nanoseconds, None when no input has any."""

    smallest: int
    largest: int
    total: int
    time_min: int | None
    time_max: int | None


@dataclass(frozen=True, slots=True)
class ClaimedTask:
    """A merge task that a worker has: its inputs, each with the deletion vector seen (0: none), as of `read_version`.

    `first_number` starts a block of `numbers` segment numbers for the outputs.
    """

    claim: Claim
    table_id: UUID
    level: int
    inputs: Mapping[int, int]
    read_version: int
    lease_until: int
    first_number: int
    numbers: int


@dataclass(frozen=True, slots=True)
class StagedSegments:
    """Segment numbers handed out for uploads that are registered later."""

    first: int
    count: int
    table_id: UUID
    owner: str
    created_at: int
    expires_at: int
