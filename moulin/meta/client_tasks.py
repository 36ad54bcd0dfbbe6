"""Merge tasks over the network, for those who run them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from uuid import UUID

from moulin._proto.moulin.lake.v1 import catalog_pb2 as catalog_pb
from moulin._proto.moulin.lake.v1.catalog_pb2_grpc import CatalogServiceStub
from moulin._proto.moulin.meta.v1 import janitor_pb2, merge_task_pb2
from moulin._proto.moulin.meta.v1.janitor_pb2_grpc import JanitorServiceStub
from moulin._proto.moulin.meta.v1.merge_task_pb2_grpc import MergeTaskServiceStub
from moulin.catalog.merge_tasks import PlannedMerge
from moulin.meta.connection import Connection
from moulin.model.merge_task import ClaimedMerge
from moulin.model.operations import Claim


class ClientTasks:
    """Fills `TaskBackend`. Safe to use from several threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._catalog = connection.stub(CatalogServiceStub)
        self._tasks = connection.stub(MergeTaskServiceStub)
        self._janitor = connection.stub(JanitorServiceStub)

    def create_merge_tasks(
        self, planned: Sequence[PlannedMerge], *, worker: str | None = None, read_version: int = 0
    ) -> list[Claim | None]:
        request = catalog_pb.CreateMergeTasksRequest(
            planned=[
                catalog_pb.PlannedMerge(
                    table_id=str(plan.table_id),
                    inputs=[catalog_pb.Expected(segment=n, vector_id=vector) for n, vector in plan.inputs.items()],
                    level=plan.level,
                )
                for plan in planned
            ],
            worker=worker or "",
            read_version=read_version,
        )
        answer = self._connection.call(self._catalog.CreateMergeTasks, request)
        return [Claim(UUID(claim.task_id), claim.attempt) if claim.task_id else None for claim in answer.claims]

    def claim_merge_task(
        self, worker: str, *, seconds: float | None = None, table_id: UUID | None = None
    ) -> ClaimedMerge | None:
        request = merge_task_pb2.PollForSegmentMergeTaskRequest(
            worker_id=worker,
            lease_seconds=math.ceil(seconds or 0),
            table_id=None if table_id is None else str(table_id),
        )
        answer = self._connection.call(self._tasks.PollForSegmentMergeTask, request)
        if not answer.HasField("task"):
            return None
        task = answer.task
        return ClaimedMerge(
            Claim(UUID(task.task_id), task.attempt),
            UUID(task.table_id),
            task.level,
            {segment.data_file.number: segment.data_file.dv_id for segment in task.segments},
            task.read_version,
            task.lease_until_unix_ns,
            task.first_segment_number,
            task.segment_numbers,
        )

    def renew_merge_task(self, claim: Claim, seconds: float | None = None) -> int:
        request = merge_task_pb2.HeartbeatSegmentMergeTaskRequest(
            task_id=str(claim.task_id), attempt=claim.attempt, lease_seconds=math.ceil(seconds or 0)
        )
        answer = self._connection.call(self._tasks.HeartbeatSegmentMergeTask, request, again=True)
        return int(answer.lease_until_unix_ns)

    def fail_merge_task(self, claim: Claim, message: str) -> None:
        request = merge_task_pb2.FailSegmentMergeTaskRequest(
            task_id=str(claim.task_id), attempt=claim.attempt, error_message=message
        )
        self._connection.call(self._tasks.FailSegmentMergeTask, request, again=True)

    def delete_merge_task(self, task_id: UUID) -> bool:
        request = janitor_pb2.DeleteMergeTaskRequest(task_id=str(task_id))
        return bool(self._connection.call(self._janitor.DeleteMergeTask, request, again=True).deleted)

    def has_merge_tasks(self, table_id: UUID) -> bool:
        request = janitor_pb2.ListMergeTasksRequest(table_id=str(table_id))
        return bool(self._connection.call(self._janitor.ListMergeTasks, request, again=True).tasks)

    def merge_inputs_held(self, numbers: Iterable[int]) -> set[int]:
        request = catalog_pb.ListMergeInputsRequest(numbers=numbers)
        return set(self._connection.call(self._catalog.ListMergeInputs, request, again=True).numbers)
