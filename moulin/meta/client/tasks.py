"""Merge tasks through CatalogService."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin._proto.moulin.lake.v1.catalog_pb2_grpc import CatalogServiceStub
from moulin.catalog.tasks.merge_tasks import PlannedTask
from moulin.errors import Unsupported
from moulin.meta.client.connection import Connection
from moulin.meta.codec.lake.merge_task import (
    from_message_claim,
    from_message_claimed,
    from_message_task,
    from_message_task_details,
    to_message_claim,
)
from moulin.model.merge_task import ClaimedTask, MergeTask, MergeTaskFigures
from moulin.model.operations import Claim


class ClientTasks:
    """Fills `TaskBackend`. Safe to use from several threads."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._stub = connection.stub(CatalogServiceStub)

    def _call(self, name: str, request: Any, *, again: bool = False) -> Any:
        return self._connection.call(getattr(self._stub, name), request, again=again)

    def create_merge_tasks(
        self,
        planned: Sequence[PlannedTask],
        *,
        worker: str | None = None,
        read_version: int = 0,
        seconds: float | None = None,
    ) -> list[Claim | None]:
        plans = [
            pb.PlannedMerge(table_id=str(p.table_id), inputs=dict(p.inputs), level=p.level, kind=p.kind)
            for p in planned
        ]
        request = pb.CreateMergeTasksRequest(planned=plans, worker=worker, read_version=read_version, seconds=seconds)
        made = self._call("CreateMergeTasks", request).tasks
        return [from_message_claim(task.claim) if task.HasField("claim") else None for task in made]

    def claim_merge_task(
        self, worker: str, *, seconds: float | None = None, table_id: UUID | None = None
    ) -> ClaimedTask | None:
        scope = None if table_id is None else str(table_id)
        found = self._call("ClaimMergeTask", pb.ClaimMergeTaskRequest(worker=worker, seconds=seconds, table_id=scope))
        return from_message_claimed(found.task) if found.HasField("task") else None

    def renew_merge_task(self, claim: Claim, seconds: float | None = None) -> int:
        request = pb.RenewMergeTaskRequest(claim=to_message_claim(claim), seconds=seconds)
        return int(self._call("RenewMergeTask", request, again=True).lease_until)

    def fail_merge_task(self, claim: Claim, message: str) -> None:
        self._call("FailMergeTask", pb.FailMergeTaskRequest(claim=to_message_claim(claim), message=message))

    def release_merge_task(self, claim: Claim) -> bool:
        request = pb.ReleaseMergeTaskRequest(claim=to_message_claim(claim))
        try:
            return bool(self._call("ReleaseMergeTask", request, again=True).released)
        except Unsupported:  # an older server can take a task back as a failure only
            self.fail_merge_task(claim, "It was released.")
            return True

    def delete_merge_task(self, task_id: UUID, attempt: int | None = None) -> bool:
        request = pb.MergeTaskId(task_id=str(task_id), attempt=attempt)
        return bool(self._call("DeleteMergeTask", request, again=True).deleted)

    def merge_tasks(self, table_id: UUID | None = None) -> list[MergeTask]:
        scope = None if table_id is None else str(table_id)
        found = self._call("ListMergeTasks", pb.ListMergeTasksRequest(table_id=scope), again=True)
        return list(map(from_message_task, found.tasks))

    def merge_task(self, task_id: UUID) -> tuple[MergeTask, MergeTaskFigures]:
        return from_message_task_details(self._details(task_id))

    def merge_task_inputs(self, task_id: UUID) -> list[int]:
        return list(self._details(task_id).inputs)

    def _details(self, task_id: UUID) -> pb.GetMergeTaskResponse:
        found: pb.GetMergeTaskResponse = self._call("GetMergeTask", pb.MergeTaskId(task_id=str(task_id)), again=True)
        return found

    def merge_inputs_held(self, numbers: Iterable[int]) -> set[int]:
        found = self._call("ListHeldInputs", pb.ListHeldInputsRequest(numbers=list(numbers)), again=True)
        return set(found.held)
