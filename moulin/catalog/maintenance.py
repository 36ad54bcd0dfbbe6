"""The part of the catalog that keeps tables in shape: merge tasks, retention, tombstoned and staged segments.

Like the catalog itself it only opens transactions; the nouns have their modules.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import UUID

from moulin.catalog import merge_tasks, staging
from moulin.catalog.engine import Engine
from moulin.catalog.merge_tasks import Begin, PlannedMerge
from moulin.model.merge_task import ClaimedMerge, MergeTask, MergeTaskFigures, StagedSegments
from moulin.model.operations import Claim


class MaintenanceCatalog:
    """Reached as `catalog.maintenance`. Safe to use from several threads."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.config = engine.config

    # Merge tasks

    def create_merge_tasks(
        self, table_id: UUID, planned: Sequence[PlannedMerge], *, worker: str | None = None, read_version: int = 0
    ) -> list[Claim | None]:
        """Make a task of each plan whose inputs are free, None for the others; claimed at once if `worker` is given."""
        seconds = self.config.merge_lease_seconds
        begin = None if worker is None else Begin(worker, seconds, read_version)
        return merge_tasks.create(self.engine, table_id, planned, begin)

    def claim_merge_task(
        self, worker: str, *, seconds: float | None = None, table_id: UUID | None = None
    ) -> ClaimedMerge | None:
        lease = self.config.merge_lease_seconds if seconds is None else seconds
        return merge_tasks.claim(self.engine, worker, lease, table_id)

    def renew_merge_task(self, claim: Claim, seconds: float | None = None) -> int:
        lease = self.config.merge_lease_seconds if seconds is None else seconds
        return merge_tasks.heartbeat(self.engine, claim, lease)

    def fail_merge_task(self, claim: Claim, message: str) -> None:
        merge_tasks.fail(self.engine, claim, message)

    def unclaim_merge_task(self, task_id: UUID, min_seconds: float) -> bool:
        return merge_tasks.unclaim(self.engine, task_id, min_seconds)

    def delete_merge_task(self, task_id: UUID) -> bool:
        return merge_tasks.delete(self.engine, task_id)

    def merge_tasks(self, table_id: UUID | None = None) -> list[MergeTask]:
        """The tasks that are not done, oldest first."""
        with self.engine.read() as connection:
            return merge_tasks.list_all(connection, table_id)

    def merge_task(self, task_id: UUID) -> tuple[MergeTask, MergeTaskFigures]:
        with self.engine.read() as connection:
            return merge_tasks.get(connection, task_id)

    def claimed_merge(self, claim: Claim) -> ClaimedMerge:
        with self.engine.unordered(durable=False) as connection:
            return merge_tasks.claimed_merge(connection, claim)

    def finished_merge(self, claim: Claim) -> tuple[int, list[str]] | None:
        """The version and output paths that a claim was finished with, None when it was not."""
        with self.engine.read() as connection:
            return merge_tasks.finished(connection, claim)

    def merge_inputs_held(self, numbers: Iterable[int]) -> set[int]:
        """Those of the segments that are inputs of a task."""
        with self.engine.read() as connection:
            return merge_tasks.held(connection, numbers)

    def stage_segments(self, table_id: UUID, count: int, owner: str) -> StagedSegments:
        """Segment numbers for uploads that are registered later; see staging.py."""
        return staging.reserve(self.engine, table_id, count, owner, self.config.staged_seconds)

    def staged_segments(self, table_id: UUID | None = None) -> list[StagedSegments]:
        with self.engine.read() as connection:
            return staging.list_all(connection, table_id)
