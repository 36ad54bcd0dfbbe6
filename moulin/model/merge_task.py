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


LAPSED = "lapsed"
"""How a claimed task is shown whose lease ran out."""


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

    def seconds_left(self, now: int) -> float | None:
        """How long it cannot be claimed: until a back-off or a lease ends. None when it can, or must be released."""
        seconds = (self.available_at - now) / 1e9
        return seconds if self.state is not TaskState.QUARANTINED and seconds > 0 else None

    def shown_state(self, now: int) -> str:
        """The state as operators see it: `lapsed` for a claim whose lease ran out."""
        lapsed = self.state is TaskState.CLAIMED and self.seconds_left(now) is None
        return LAPSED if lapsed else self.state.value


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
