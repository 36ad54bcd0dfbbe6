"""A write through `format("moulin")`: planned, run in tasks and committed by three processes that share this value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyspark.sql.types import StructType

from moulin.errors import InvalidInput, MoulinError, NotFound
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.facts import SegmentFacts
from moulin.model.operations import Kind
from moulin.pipeline.runner import named_error
from moulin.pipeline.write.writer import FrameJob, HeldRows
from moulin.table.bulk.commit import commit_overwrite, commit_upsert, plan_bulk
from moulin.table.bulk.writer import BulkPlan, RegionRun, write_bulk
from moulin.table.commit.change import DataChange
from moulin.table.keyed.tables import keyed_table
from moulin.table.write.append import AppendPlan, append_rows
from moulin.table.write.writes import Outcome

WRITE_OPTIONS = ("mode", "duplicates")
Part = SegmentFacts | RegionRun  # what a task writes: segments of an event table, runs of a keyed one


@dataclass(frozen=True, slots=True)
class Failed:
    """An error that another try of a task would meet again. The commit raises it: there Spark shows it as it is."""

    name: str
    message: str


Written = Sequence[Part] | HeldRows | Failed
AppendJob = FrameJob[AppendPlan, SegmentFacts]
BulkJob = FrameJob[BulkPlan, RegionRun]


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """What the options say of how rows go in: "mode" append or upsert, "duplicates" error or last."""

    upserts: bool = False
    keeps_last: bool = False

    @classmethod
    def of(cls, options: Mapping[str, str]) -> WriteOptions:
        mode, duplicates = options.get("mode") or "append", options.get("duplicates") or "error"
        if mode not in ("append", "upsert"):
            raise InvalidInput(
                f'The option mode must be append or upsert, not {mode!r}; to replace all, .mode("overwrite").'
            )
        if duplicates not in ("error", "last"):
            raise InvalidInput(f"The option duplicates must be error or last, not {duplicates!r}.")
        return cls(mode == "upsert", duplicates == "last")


@dataclass(frozen=True, slots=True)
class SourceWrite:
    """One write into one table. A keyed table is upserted into, however the write calls it."""

    table_id: UUID
    version: int
    job: AppendJob | BulkJob
    overwrite: bool

    @classmethod
    def plan(
        cls, lake: Lake, state: TableState, columns: StructType, options: WriteOptions, *, overwrite: bool = False
    ) -> SourceWrite:
        """Check what is asked for, and reserve what the tasks need."""
        keyed = keyed_table(lake.context, state.id)
        if keyed is None:
            if options.upserts or options.keeps_last:
                raise InvalidInput(
                    f"Table {state.full_name} has no primary key: the options mode=upsert and duplicates are only "
                    f"for keyed tables."
                )
            append = AppendPlan.of(lake.context, state)
            job = FrameJob.of(lake.context, append_rows, append, columns)
            return cls(state.id, state.version, job, overwrite)
        if options.upserts and overwrite:
            raise InvalidInput('The option mode=upsert needs .mode("append"), not overwrite.')
        plan = plan_bulk(
            lake.context, keyed, duplicates="last" if options.keeps_last else "error", replaces_all=overwrite
        )
        return cls(state.id, state.version, FrameJob.of(lake.context, write_bulk, plan, columns), overwrite)

    def write(self, task: int, batches: Iterable[pa.RecordBatch]) -> Written:
        """Write the rows of one task, or hand them over when they are few."""
        pa.set_cpu_count(1)
        try:
            return self.job.write(task, batches)
        except MoulinError as error:
            if error.retryable:
                raise
            return Failed(type(error).__name__, error.message)

    def gather(self, written: Mapping[int, Written]) -> Sequence[Part]:
        """What the tasks wrote, in their order, and what they handed over, written here. Raises what stopped a task."""
        done = {}
        for task in sorted(written):
            one = written[task]
            if isinstance(one, Failed):
                raise named_error(one.name, one.message)
            done[task] = one
        job: FrameJob[Any, Any] = self.job
        return job.gather(done)

    def commit(
        self,
        lake: Lake,
        parts: Sequence[Part],
        *,
        request_id: str | None = None,
        digest: bytes | None = None,
        summary: Mapping[str, str] | None = None,
    ) -> Outcome | None:
        """One version of what the tasks wrote; none when they wrote nothing and nothing is replaced.

        None too when the request id was committed before.
        """
        if not parts and not self.overwrite:
            return None
        if request_id is not None and lake.catalog.committed(request_id):
            return None
        plan = self.job.plan
        if isinstance(plan, AppendPlan):
            kind = Kind.OVERWRITE if self.overwrite else Kind.APPEND
            added = tuple(part for part in parts if isinstance(part, SegmentFacts))
            change = DataChange(
                self.table_id, self.version, kind, added, everything=self.overwrite, summary=dict(summary or {})
            )
            done = lake.context.committer.commit([change], request_id=request_id, digest=digest)
            return None if done.replayed else Outcome(done.version, sum(facts.rows for facts in added))
        keyed = keyed_table(lake.context, self.table_id)
        if keyed is None:
            raise NotFound("The table no longer has a primary key: start the write again.")
        runs = [part for part in parts if isinstance(part, RegionRun)]
        if self.overwrite:
            return commit_overwrite(lake.context, keyed, plan, runs)
        return commit_upsert(lake.context, keyed, plan, runs, request_id=request_id, digest=digest, summary=summary)
