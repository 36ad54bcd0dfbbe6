"""A worker that does merge tasks as they come: claims one, keeps the claim alive, runs it, commits or says why not."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from uuid import UUID

from moulin.catalog.backend import CatalogBackend
from moulin.errors import Conflict, Fenced, MoulinError
from moulin.model.merge_task import ClaimedTask
from moulin.model.operations import Claim
from moulin.table.commit.change import CompactionChange
from moulin.table.compact.job import commit_compaction, compact_group
from moulin.table.compact.picker import Group
from moulin.table.context import Context
from moulin.table.properties import effective
from moulin.table.runner import TaskRunner


@dataclass(frozen=True, slots=True)
class DoneTask:
    """A task that was done: what it took, what it wrote, and the version that committed it."""

    claim: Claim
    version: int
    group: Group
    change: CompactionChange


class CompactionWorker:
    """Does merge tasks of a lake, one at a time. `seconds` is the lease it asks for, and renews while it works."""

    def __init__(
        self, context: Context, name: str, *, seconds: float | None = None, runner: TaskRunner | None = None
    ) -> None:
        self._context, self._name, self._runner = context, name, runner
        self._seconds = context.config.merge_lease_seconds if seconds is None else seconds

    def run_once(self, table_id: UUID | None = None) -> DoneTask | None:
        """Do the next task, of one table or of any; None when there is none. A failure is noted with it, and raised."""
        tasks = self._context.catalog.maintenance
        claimed = tasks.claim_merge_task(self._name, seconds=self._seconds, table_id=table_id)
        if claimed is None:
            return None
        try:
            return self._run(claimed)
        except Fenced:
            raise  # it is no longer this worker's to say anything about
        except BaseException as error:
            reason = error.message if isinstance(error, MoulinError) else f"{type(error).__name__}: {error}"
            tasks.fail_merge_task(claimed.claim, reason)
            raise

    def run_all(self, table_id: UUID | None = None) -> Iterator[DoneTask]:
        """Do all tasks that wait, one after the other."""
        while (done := self.run_once(table_id)) is not None:
            yield done

    def _run(self, claimed: ClaimedTask) -> DoneTask:
        catalog = self._context.catalog
        state = catalog.table_by_id(claimed.table_id)
        live = catalog.segments_by_number(claimed.inputs, state.version)
        if len(live) < len(claimed.inputs):
            raise Conflict("Inputs of the merge task are gone; it is planned again from what there is.")
        group = Group(tuple(live[number] for number in sorted(live)), claimed.level)
        size = effective(catalog.config, state.properties).merge_segment_bytes
        with heartbeats(catalog, claimed.claim, self._seconds):
            change = compact_group(self._context, state, group, size, self._runner, claimed.claim)
        return DoneTask(claimed.claim, commit_compaction(self._context, change).version, group, change)


@contextmanager
def heartbeats(catalog: CatalogBackend, claim: Claim, seconds: float | None = None) -> Iterator[None]:
    """Renew a claim, in the background, for as long as the block lasts."""
    lease = catalog.config.merge_lease_seconds if seconds is None else seconds
    over = threading.Event()

    def beat() -> None:
        while not over.wait(lease / 3):
            try:
                catalog.maintenance.renew_merge_task(claim, lease)
            except Fenced:
                return  # the commit will say so
            except MoulinError:
                continue  # the lease has room for two more tries

    thread = threading.Thread(target=beat, name="moulin-heartbeat", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
