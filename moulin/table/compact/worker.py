"""A worker for merge tasks: claims a task, renews the lease, runs it, and commits or reports the failure.

A worker that is stopped gives its task back at once, so that its inputs do not wait for the end of the lease. One that
is killed cannot: its task is taken over when the lease is over.
"""

# Decisions: docs/decisions/0230

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from uuid import UUID

from moulin.catalog.backend import CatalogBackend
from moulin.errors import Conflict, Fenced, MoulinError, NotFound
from moulin.model.merge_task import ClaimedTask
from moulin.model.operations import Claim
from moulin.table.commit.change import CompactionChange
from moulin.table.compact.job import commit_compaction, compact_group
from moulin.table.compact.picker import Group
from moulin.table.context import Context
from moulin.table.properties import effective
from moulin.table.runner import Stopped, TaskRunner, never

_LONGEST_BEAT = 60.0  # seconds between heartbeats, however long the lease


@dataclass(frozen=True, slots=True)
class DoneTask:
    """A finished task: its inputs, outputs, and version."""

    claim: Claim
    version: int
    group: Group
    change: CompactionChange


class CompactionWorker:
    """Does merge tasks of a lake, one at a time. `seconds` is the lease it asks for, and renews while it works.

    One thread runs it; any may call `stop`. `stopped()` is asked before each slice, and stops it, too.
    """

    def __init__(
        self,
        context: Context,
        name: str,
        *,
        seconds: float | None = None,
        runner: TaskRunner | None = None,
        stopped: Callable[[], bool] = never,
    ) -> None:
        self._context, self._name, self._runner = context, name, runner
        self._stopped = stopped
        self._seconds = context.config.merge_lease_seconds if seconds is None else seconds
        self._stopping = threading.Event()
        self._attempt: tuple[Claim, threading.Event] | None = None
        self._lock = threading.Lock()

    def run_once(self, table_id: UUID | None = None) -> DoneTask | None:
        """Do the next task, of one table or of any; None when there is none, or the worker was stopped.

        A failure is noted with the task, and raised.
        """
        tasks = self._context.catalog.maintenance
        if self._is_stopping():
            return None
        claimed = tasks.claim_merge_task(self._name, seconds=self._seconds, table_id=table_id)
        if claimed is None:
            return None
        try:
            with heartbeats(self._context.catalog, claimed.claim, self._seconds) as lost, self._holding(claimed, lost):
                return self._run(claimed, lambda: lost.is_set() or self._stopped())
        except Fenced:
            if self._is_stopping():
                return None  # `stop` gave it back
            raise  # this worker no longer owns it
        except Stopped:
            give_back(self._context.catalog, claimed.claim)
            if self._is_stopping():
                return None
            raise Fenced(f"Merge task {claimed.claim.task_id} was taken over by another worker.") from None
        except Exception as error:
            reason = error.message if isinstance(error, MoulinError) else f"{type(error).__name__}: {error}"
            with suppress(MoulinError):  # the lease expires; the first error counts
                tasks.fail_merge_task(claimed.claim, reason)
            raise
        except BaseException:  # Ctrl-C: the task is unchanged
            give_back(self._context.catalog, claimed.claim)
            raise

    def run_all(self, table_id: UUID | None = None) -> Iterator[DoneTask]:
        """Run all waiting tasks, one after the other."""
        while (done := self.run_once(table_id)) is not None:
            yield done

    def stop(self) -> None:
        """Give the task back at once, and start no other. The attempt ends before its next slice; nothing is
        committed.
        """
        self._stopping.set()
        with self._lock:
            attempt = self._attempt
        if attempt is not None:
            claim, over = attempt
            over.set()
            give_back(self._context.catalog, claim)

    def _is_stopping(self) -> bool:
        return self._stopping.is_set() or self._stopped()

    @contextmanager
    def _holding(self, claimed: ClaimedTask, over: threading.Event) -> Iterator[None]:
        """Registers the attempt for `stop` while the block runs."""
        with self._lock:
            self._attempt = (claimed.claim, over)
            if self._stopping.is_set():
                over.set()
        try:
            yield
        finally:
            with self._lock:
                self._attempt = None

    def _run(self, claimed: ClaimedTask, stopped: Callable[[], bool]) -> DoneTask:
        catalog = self._context.catalog
        state = catalog.table_by_id(claimed.table_id)
        live = catalog.segments_by_number(claimed.table_id, claimed.inputs, state.version)
        if len(live) < len(claimed.inputs):
            raise Conflict("Inputs of the merge task no longer exist; it will be planned again.")
        group = Group(tuple(live[number] for number in sorted(live)), claimed.level)
        size = effective(catalog.config, state.properties).merge_segment_bytes
        change = compact_group(self._context, state, group, size, self._runner, claimed.claim, stopped)
        return DoneTask(claimed.claim, commit_compaction(self._context, change).version, group, change)


def give_back(catalog: CatalogBackend, claim: Claim) -> None:
    """Release a claim, if it is valid and the catalog is available; otherwise its lease expires."""
    with suppress(MoulinError):
        catalog.maintenance.release_merge_task(claim)


@contextmanager
def heartbeats(catalog: CatalogBackend, claim: Claim, seconds: float | None = None) -> Iterator[threading.Event]:
    """Renew a claim in the background while the block runs. Yields an event that is set if it is lost."""
    lease = catalog.config.merge_lease_seconds if seconds is None else seconds
    over, lost = threading.Event(), threading.Event()

    def beat() -> None:
        while not over.wait(min(lease / 3, _LONGEST_BEAT)):
            try:
                catalog.maintenance.renew_merge_task(claim, lease)
            except (Fenced, NotFound):
                lost.set()  # the attempt stops; its commit would be rejected
                return
            except MoulinError:
                continue  # the lease allows two more attempts

    thread = threading.Thread(target=beat, name="moulin-heartbeat", daemon=True)
    thread.start()
    try:
        yield lost
    finally:
        over.set()
        thread.join()
