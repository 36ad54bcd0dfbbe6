"""What tests of merge tasks share: tables of small segments, and a worker that has nothing but storage and stubs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from uuid import UUID

from moulin._proto.moulin.meta.v1 import (
    common_pb2,
    janitor_pb2,
    janitor_pb2_grpc,
    merge_task_pb2,
    merge_task_pb2_grpc,
)
from moulin.formats import manifest as codec
from moulin.meta.codec.meta.address import to_message_key
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.table.compact.kernel import compact_slice
from moulin.table.compact.picker import Group, cut
from moulin.table.table import Table
from moulin.table.write.layout import Layout
from tests.meta.conftest import Live, name

HOUR = 3600 * 10**9
START = 1_699_990_000 * 10**9  # some hours before the clock of the tests
COLUMNS = [("id", "long"), ("ts", "timestamptz")]


@dataclass
class Shop:
    """A database of its own with one table, and the stubs that the tests of compactions use."""

    live: Live
    table: Table
    database_id: UUID

    @property
    def tasks(self) -> merge_task_pb2_grpc.MergeTaskServiceStub:
        return self.live.stub(merge_task_pb2_grpc.MergeTaskServiceStub)

    @property
    def janitor(self) -> janitor_pb2_grpc.JanitorServiceStub:
        return self.live.stub(janitor_pb2_grpc.JanitorServiceStub)

    @property
    def id(self) -> UUID:
        return self.table.state().id

    def fill(self, segments: int, rows: int = 4, start: int = START, step: int = 60 * 10**9) -> None:
        """Segments of a minute each, one after the other."""
        first = sum(1 for _ in self.ids())
        for n in range(segments):
            micros = (start + n * step) // 1000
            batch = [{"id": first + n * rows + k, "ts": _moment(micros + k * 1_000_000)} for k in range(rows)]
            self.table.append(batch)

    def ids(self) -> list[int]:
        return sorted(self.table.scan(columns=["id"]).to_arrow().column("id").to_pylist())

    def create(self, **filters: int) -> janitor_pb2.CreateMergeTasksResponse:
        return self.janitor.CreateMergeTasks(janitor_pb2.CreateMergeTasksRequest(table_id=str(self.id), **filters))

    def poll(self, worker: str = "w", **more: Any) -> common_pb2.SegmentMergeTaskInfo | None:
        asked = merge_task_pb2.PollForSegmentMergeTaskRequest(worker_id=worker, table_id=str(self.id), **more)
        answer = self.tasks.PollForSegmentMergeTask(asked)
        return answer.task if answer.HasField("task") else None

    def claim(self, worker: str = "w", **more: Any) -> common_pb2.SegmentMergeTaskInfo:
        task = self.poll(worker, **more)
        assert task is not None
        return task

    def complete(
        self, task: common_pb2.SegmentMergeTaskInfo, **changes: Any
    ) -> merge_task_pb2.CompleteSegmentMergeTaskResponse:
        """Merge as a worker would, and say so."""
        request = self.merge(task)
        for field, value in changes.items():
            setattr(request, field, value)
        return self.tasks.CompleteSegmentMergeTask(request)

    def merge(
        self, task: common_pb2.SegmentMergeTaskInfo, *, outputs: int = 1, level: int | None = None
    ) -> merge_task_pb2.CompleteSegmentMergeTaskRequest:
        """Write the outputs and the journal of a task; what is returned completes it."""
        state = self.table.state()
        inputs = tuple(codec.ref_to_segment(segment.data_file) for segment in task.segments)
        size = sum(s.facts.size for s in inputs)
        slices = cut(
            self.live.lake.store,
            Layout.of(state),
            Group(inputs, task.level if level is None else level),
            segment_bytes=max(1, size // outputs),
            cores=1,
            numbers=range(task.first_segment_number, task.first_segment_number + min(task.segment_numbers, outputs)),
        )
        results = [compact_slice(work) for work in slices]
        added = [self.message(facts) for result in results for facts in result.added]
        request = merge_task_pb2.CompleteSegmentMergeTaskRequest(
            task_id=task.task_id,
            attempt=task.attempt,
            rewrite_journal_relative_paths=[relative(result.journal) for result in results],
        )
        if added:
            request.merged_segment.CopyFrom(added[0])
            request.merged_segments.extend(added[1:])
        return request

    def message(self, facts: SegmentFacts) -> common_pb2.CreateSegment:
        message = common_pb2.CreateSegment(
            table_id=str(self.id),
            compressed_size_bytes=facts.size,
            number_of_events=facts.rows,
            cloud_object_key=to_message_key(self.live.lake.store, facts.path),
            audt_hash=facts.sha256,
            data_file=codec.segment_to_ref(LiveSegment(facts, 0, 0, 0), codec.ADDED),
        )
        if facts.time_min is not None and facts.time_max is not None:
            message.time_range.start_time, message.time_range.end_time = facts.time_min, facts.time_max
        return message

    def list(self) -> Sequence[janitor_pb2.MergeTaskSummary]:
        return self.janitor.ListMergeTasks(janitor_pb2.ListMergeTasksRequest(table_id=str(self.id))).tasks

    def get(self, task_id: str) -> janitor_pb2.GetMergeTaskResponse:
        return self.janitor.GetMergeTask(janitor_pb2.GetMergeTaskRequest(task_id=task_id))


def open_shop(live: Live, **options: Any) -> Shop:
    database = live.lake.create_database(name("shop"))
    options = {"event_time": "ts", **options}
    table = live.lake.create_table(f"{database.name}.t", options.pop("columns", COLUMNS), **options)
    return Shop(live, table, database.id)


def relative(journal: str) -> str:
    """A journal's path below the folder of its table."""
    return "/".join(journal.split("/")[2:])


def _moment(micros: int) -> Any:
    from datetime import UTC, datetime, timedelta

    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=micros)
