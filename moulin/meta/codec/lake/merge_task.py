"""Merge tasks and claims of them."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.meta.codec.id import from_message_id
from moulin.model.merge_task import ClaimedTask, MergeTask, MergeTaskFigures, TaskState
from moulin.model.operations import Claim


def to_message_claim(claim: Claim) -> pb.Claim:
    return pb.Claim(task_id=str(claim.task_id), attempt=claim.attempt)


def from_message_claim(m: pb.Claim) -> Claim:
    return Claim(from_message_id(m.task_id, "task_id"), m.attempt)


def to_message_claimed(claimed: ClaimedTask) -> pb.ClaimedMerge:
    return pb.ClaimedMerge(
        claim=to_message_claim(claimed.claim),
        table_id=str(claimed.table_id),
        level=claimed.level,
        inputs=dict(claimed.inputs),
        read_version=claimed.read_version,
        lease_until=claimed.lease_until,
        first_number=claimed.first_number,
        numbers=claimed.numbers,
    )


def from_message_claimed(m: pb.ClaimedMerge) -> ClaimedTask:
    return ClaimedTask(
        from_message_claim(m.claim),
        UUID(m.table_id),
        m.level,
        dict(sorted(m.inputs.items())),
        m.read_version,
        m.lease_until,
        m.first_number,
        m.numbers,
    )


def to_message_task(task: MergeTask) -> pb.MergeTask:
    return pb.MergeTask(
        id=str(task.id),
        table_id=str(task.table_id),
        state=task.state.value,
        level=task.level,
        segments=task.segments,
        created_at=task.created_at,
        available_at=task.available_at,
        worker=task.worker,
        claimed_at=task.claimed_at,
        attempt=task.attempt,
        failures=task.failures,
        last_error=task.last_error,
    )


def from_message_task(m: pb.MergeTask) -> MergeTask:
    return MergeTask(
        UUID(m.id),
        UUID(m.table_id),
        TaskState(m.state),
        m.level,
        m.segments,
        m.created_at,
        m.available_at,
        m.worker if m.HasField("worker") else None,
        m.claimed_at if m.HasField("claimed_at") else None,
        m.attempt,
        m.failures,
        m.last_error if m.HasField("last_error") else None,
    )


def to_message_task_details(
    task: MergeTask, figures: MergeTaskFigures, inputs: Sequence[int]
) -> pb.GetMergeTaskResponse:
    return pb.GetMergeTaskResponse(
        task=to_message_task(task),
        inputs=inputs,
        smallest=figures.smallest,
        largest=figures.largest,
        total=figures.total,
        time_min=figures.time_min,
        time_max=figures.time_max,
    )


def from_message_task_details(m: pb.GetMergeTaskResponse) -> tuple[MergeTask, MergeTaskFigures]:
    times = (m.time_min if m.HasField("time_min") else None, m.time_max if m.HasField("time_max") else None)
    return from_message_task(m.task), MergeTaskFigures(m.smallest, m.largest, m.total, *times)
