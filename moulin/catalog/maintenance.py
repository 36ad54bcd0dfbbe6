"""The part of the catalog for maintenance: merge tasks, retention, tombstoned and staged segments.

Like the catalog itself it only opens transactions; other modules implement them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from moulin.catalog.segments import bases, deletion, live, retention, staging, stats
from moulin.catalog.segments import lookup as search
from moulin.catalog.segments.deletion import ReadyJournal, TombstonedSegment
from moulin.catalog.segments.lookup import FoundSegment, Page
from moulin.catalog.segments.retention import Expiring
from moulin.catalog.segments.stats import Compactable, Filter, TierStats, Totals
from moulin.catalog.sql import leases
from moulin.catalog.sql.pool import Pool
from moulin.catalog.streams import streams
from moulin.catalog.tasks import claims, merge_tasks, task_list
from moulin.catalog.tasks.merge_tasks import Begin, PlannedTask
from moulin.model.facts import LiveSegment
from moulin.model.merge_task import ClaimedTask, MergeTask, MergeTaskFigures, StagedSegments
from moulin.model.operations import Claim


class MaintenanceCatalog:
    """Reached as `catalog.maintenance`. Safe to use from several threads."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool
        self.config = pool.config

    # Merge tasks

    def create_merge_tasks(
        self,
        planned: Sequence[PlannedTask],
        *,
        worker: str | None = None,
        read_version: int = 0,
        seconds: float | None = None,
    ) -> list[Claim | None]:
        """Create a task for each plan whose inputs are free, None for the others; claimed at once if `worker` is
        given.
        """
        lease = self.config.merge_lease_seconds if seconds is None else seconds
        begin = None if worker is None else Begin(worker, lease, read_version)
        return merge_tasks.create(self.pool, planned, begin)

    def claim_merge_task(
        self, worker: str, *, seconds: float | None = None, table_id: UUID | None = None
    ) -> ClaimedTask | None:
        lease = self.config.merge_lease_seconds if seconds is None else seconds
        return claims.claim(self.pool, worker, lease, table_id)

    def renew_merge_task(self, claim: Claim, seconds: float | None = None) -> int:
        lease = self.config.merge_lease_seconds if seconds is None else seconds
        return claims.heartbeat(self.pool, claim, lease)

    def fail_merge_task(self, claim: Claim, message: str) -> None:
        claims.fail(self.pool, claim, message)

    def unclaim_merge_task(self, task_id: UUID, min_seconds: float) -> bool:
        return claims.unclaim(self.pool, task_id, min_seconds)

    def release_merge_task(self, claim: Claim) -> bool:
        """Make a task available at once, without a failure; attempt 0 takes it from any worker."""
        return claims.release(self.pool, claim)

    def delete_merge_task(self, task_id: UUID, attempt: int | None = None) -> bool:
        """Delete a task and free its inputs; with `attempt`, only if that is the newest."""
        return merge_tasks.delete(self.pool, task_id, attempt)

    def merge_tasks(self, table_id: UUID | None = None) -> list[MergeTask]:
        """The unfinished tasks, oldest first."""
        with self.pool.read() as connection:
            return task_list.list_all(connection, table_id)

    def merge_task(self, task_id: UUID) -> tuple[MergeTask, MergeTaskFigures]:
        with self.pool.read() as connection:
            return task_list.get(connection, task_id)

    def merge_task_inputs(self, task_id: UUID) -> list[int]:
        with self.pool.read() as connection:
            return task_list.inputs(connection, task_id)

    def table_of_merge_task(self, task_id: UUID) -> UUID:
        """The table of a task, including finished tasks."""
        with self.pool.read() as connection:
            return task_list.table_of(connection, task_id)

    def claimed_task(self, claim: Claim) -> ClaimedTask:
        with self.pool.unordered(durable=False) as connection:
            return claims.claimed_task(connection, claim)

    def finished_task(self, claim: Claim) -> tuple[int, list[str]] | None:
        """The version and output paths of a finished claim; None if it is not finished."""
        with self.pool.read() as connection:
            return task_list.finished(connection, claim)

    def tables_to_plan(self) -> dict[UUID, tuple[int, int]]:
        """Every live table: the last version that changed it, and how many segments it has."""
        with self.pool.read() as connection:
            return stats.heads(connection)

    def changed_partitions(self, table_id: UUID, since: int) -> set[int]:
        """The partitions with live segments added after a version."""
        with self.pool.read() as connection:
            return stats.changed_partitions(connection, table_id, since)

    def take_lease(self, name: str, owner: str, seconds: float) -> bool:
        """Whether `owner` gets the lease `name` for the next `seconds`."""
        return leases.take(self.pool, name, owner, seconds)

    def give_up_lease(self, name: str, owner: str) -> None:
        leases.give_up(self.pool, name, owner)

    def prune_merge_tasks(self) -> int:
        """Delete old finished tasks; returns how many."""
        return merge_tasks.prune(self.pool, self.config.merge_task_keep)

    def expiring_segments(self) -> Iterator[Expiring]:
        """Segments past their retention, table by table, a limited number of each."""
        return retention.find(self.pool)

    def merge_inputs_held(self, numbers: Iterable[int]) -> set[int]:
        """Those of the segments that are inputs of a task."""
        with self.pool.read() as connection:
            return merge_tasks.held(connection, numbers)

    def segments_with_vectors(self, table_id: UUID, vectors: Mapping[int, int]) -> list[LiveSegment]:
        """Segments of a table, by number, with the deletion vectors (0: none) that a claim saw them with."""
        with self.pool.read() as connection:
            return live.with_vectors(connection, table_id, vectors)

    def staged_segments(self, table_id: UUID | None = None) -> list[StagedSegments]:
        with self.pool.read() as connection:
            return staging.list_all(connection, table_id)

    # Segments: searched, counted, deleted

    def find_segments(
        self,
        database_id: UUID,
        names: Sequence[str],
        time_range: tuple[int, int] | None = None,
        *,
        limit: int = 0,
        cursor: str | None = None,
    ) -> Page:
        """Live segments of tables, in pages. The first page also returns the offset of each stream.

        Both are read in one snapshot: records past that offset are in no segment of the version.
        """
        with self.pool.read() as connection:
            page = search.find(connection, database_id, names, time_range, limit, cursor)
            return page if cursor else replace(page, streams=streams.not_retired(connection))

    def table_of_segments(self, numbers: Sequence[int]) -> UUID | None:
        """The table of the first existing of these segments."""
        with self.pool.read() as connection:
            return search.owner(connection, numbers)

    def segments_by_number(self, numbers: Iterable[int]) -> list[FoundSegment]:
        """Includes segments that only an older version has."""
        with self.pool.read() as connection:
            return search.by_number(connection, numbers)

    def newest_segments(self, *, limit: int = 0, cursor: str | None = None) -> Page:
        with self.pool.read() as connection:
            return search.newest_first(connection, limit, cursor)

    def totals(self, table_id: UUID | None = None) -> Totals:
        with self.pool.read() as connection:
            return stats.totals(connection, table_id)

    def size_tiers(self, table_id: UUID | None, wanted: Filter) -> list[TierStats]:
        with self.pool.read() as connection:
            return stats.size_tiers(connection, table_id, wanted, self.pool.now(connection))

    def compactable_segments(
        self,
        table_id: UUID,
        wanted: Filter,
        *,
        small: int | None,
        least: int,
        limit: int,
        after: tuple[int, int, int] | None,
    ) -> Compactable:
        with self.pool.read() as connection:
            versions = wanted.versions(connection, self.pool.now(connection))
            return stats.compactable(
                connection, table_id, wanted, versions, small=small, least=least, limit=limit, after=after
            )

    def folders(self, table_id: UUID, length: int) -> set[str]:
        """The first `length` letters of the paths of all files that some version of a table has, or of its base."""
        with self.pool.read() as connection:
            return bases.folders(connection, table_id, length)

    def task_counts(self, table_id: UUID | None = None) -> tuple[int, int]:
        """The numbers of unfinished and of quarantined merge tasks."""
        with self.pool.read() as connection:
            return task_list.count(connection, table_id)

    def trash_counts(self) -> tuple[int, int, str]:
        """The numbers of objects waiting for deletion and of failed deletions, and one error."""
        with self.pool.read() as connection:
            row = deletion.trash_state(connection)
            return int(row.waiting), int(row.failing or 0), row.error or ""

    def tombstoned_segments(self) -> list[TombstonedSegment]:
        return deletion.offered(self.pool)

    def confirm_deleted(self, numbers: Collection[int]) -> tuple[int, list[ReadyJournal]]:
        return deletion.confirm(self.pool, numbers)

    def confirm_journals_deleted(self, outputs: Sequence[int]) -> int:
        return deletion.confirm_journals(self.pool, outputs)
