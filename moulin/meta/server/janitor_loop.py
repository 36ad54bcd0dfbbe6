"""The janitor: regular maintenance of a lake, by one of its servers.

Segments past their retention are tombstoned, compactions are planned, and clean-up purges, expires and deletes. Each
step continues where an earlier one stopped. A failed step does not prevent the others: it is reported, logged, and
retried next time.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from uuid import UUID

from moulin.catalog.commit.table_commit import Stale, TableCommit
from moulin.catalog.segments.retention import AT_ONCE
from moulin.catalog.upkeep import clocks
from moulin.catalog.upkeep.collection import Collection
from moulin.catalog.upkeep.gc import collect
from moulin.errors import FailedPrecondition, MoulinError, NotFound
from moulin.lake import Lake
from moulin.model.ids import new_id
from moulin.model.names import full_name
from moulin.model.operations import Trim
from moulin.table.compact.planner import create_due_tasks
from moulin.table.verify import verify

log = logging.getLogger("moulin.janitor")

_LEASE = "janitor"
_LARGE = 10_000  # above this number of segments, only changed partitions are planned again
_NANOS = 1_000_000_000


@dataclass(slots=True)
class Report:
    """What one round did."""

    expired: dict[str, int] = field(default_factory=dict)  # segments by table
    tasks: int = 0
    collection: Collection | None = None
    failures: list[str] = field(default_factory=list)


class Janitor:
    """Runs by itself between `start` and `stop`, or once with `run_once`. Several servers may each have one."""

    def __init__(self, lake: Lake) -> None:
        self._lake, self._catalog = lake, lake.own_catalog()
        self._owner = str(new_id())
        self._planned: dict[UUID, int] = {}
        self._collected = self._swept = 0
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.last: Report | None = None

    def start(self) -> Janitor:
        self._thread = threading.Thread(target=self._loop, name="moulin-janitor", daemon=True)
        self._thread.start()
        return self

    def stop(self) -> None:
        """End after the step that runs, and let another server take over at once."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()
        try:
            self._catalog.maintenance.give_up_lease(_LEASE, self._owner)
        except MoulinError as error:
            log.warning("lease not released", extra={"error": error.message})

    def run_once(self) -> Report | None:
        """Do what is due; None when another server is the janitor."""
        steps: tuple[tuple[str, Callable[[Report], None]], ...] = (
            ("retention", self._expire),
            ("compaction planning", self._plan),
            ("clean-up", self._collect),
        )
        report = Report()
        for name, step in steps:
            if self._over.is_set():
                break
            try:
                if not self._catalog.maintenance.take_lease(_LEASE, self._owner, self._lake.config.janitor_lease):
                    return None
                step(report)
            except Exception as error:  # noqa: BLE001 - one step that fails stops no other
                report.failures.append(f"{name}: {_reason(error)}")
        for failure in report.failures:
            log.error("janitor failed", extra={"error": failure})
        self.last = report
        return report

    def _loop(self) -> None:
        while not self._over.wait(self._lake.config.janitor_interval):
            try:
                self.run_once()
            except Exception:
                log.exception("janitor failed in a way it should not")

    def _expire(self, report: Report) -> None:
        """Removes whole segments, a limited number per commit. A segment that changed is checked again next time."""
        more = True
        while more and not self._over.is_set():
            more = False
            for number, found in enumerate(self._catalog.maintenance.expiring_segments()):
                if number == 0:
                    clocks.agreed(self._catalog.pool, self._catalog.store)  # rows are not removed by a wrong clock
                trim = TableCommit(found.table_id, found.read_version, Trim(removed=found.segments))
                try:
                    self._catalog.commit([trim])
                except (Stale, NotFound) as error:
                    log.info(
                        "retention conflicted with another commit", extra={"table": found.table, "error": error.message}
                    )
                    continue
                except Exception as error:  # noqa: BLE001 - one table that fails stops no other
                    report.failures.append(f"retention of {found.table}: {_reason(error)}")
                    continue
                report.expired[found.table] = report.expired.get(found.table, 0) + len(found.segments)
                more = more or len(found.segments) == AT_ONCE

    def _plan(self, report: Report) -> None:
        """Tables that changed since they were last planned."""
        maintenance = self._catalog.maintenance
        heads = maintenance.tables_to_plan()
        for table_id, (head, count) in heads.items():
            since = self._planned.get(table_id)
            if since == head or count < 2:
                continue
            try:
                segments = None
                if since is not None and count > _LARGE:
                    changed = maintenance.changed_partitions(table_id, since)
                    version = self._catalog.version()
                    segments = self._catalog.segments(table_id, version, partition_ids=changed, with_columns=False)
                report.tasks += create_due_tasks(self._lake.context, table_id, segments).tasks
                self._planned[table_id] = head
            except NotFound:
                continue  # dropped in the meantime
            except Exception as error:  # noqa: BLE001 - one table that fails stops no other
                report.failures.append(f"compaction planning of {table_id}: {_reason(error)}")
        self._planned = {table_id: head for table_id, head in self._planned.items() if table_id in heads}
        maintenance.prune_merge_tasks()

    def _collect(self, report: Report) -> None:
        config = self._lake.config
        with self._catalog.pool.read() as connection:
            now = self._catalog.pool.now(connection)
        if now - self._collected < config.gc_interval * _NANOS:
            return
        orphans = now - self._swept >= config.orphan_interval * _NANOS
        self._verify(report)  # before clean-up forgets which commits were believed
        try:
            report.collection = collect(self._catalog, orphans=orphans)
        except FailedPrecondition:
            self._collected = now  # clocks do not come together within seconds
            raise
        report.failures += [f"clean-up: {failure}" for failure in report.collection.failures]
        self._collected = now
        self._swept = now if orphans else self._swept

    def _verify(self, report: Report) -> None:
        """Read files that were taken at the word of an engine's manifest."""
        for database in self._lake.databases():
            for table in self._lake.tables(database.name):
                try:
                    found = verify(self._lake.context, self._catalog.table_by_id(table.id))
                except MoulinError as error:
                    report.failures.append(f"files of {full_name(database.name, table.name)}: {_reason(error)}")
                    continue
                report.failures += [f"{path} is in quarantine: {why}" for path, why in found.problems.items()]


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, MoulinError) else repr(error)
