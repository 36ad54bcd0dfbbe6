"""MergeTaskService: tasks for workers, and their completion."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from moulin._proto.moulin.meta.v1 import common_pb2
from moulin._proto.moulin.meta.v1 import merge_task_pb2 as pb
from moulin._proto.moulin.meta.v1 import merge_task_pb2_grpc as rpc
from moulin.catalog.commit.table_commit import CommitResult
from moulin.errors import InvalidInput, MoulinError, Unavailable
from moulin.meta.codec.id import from_message_id
from moulin.meta.codec.meta.merge_task import to_message_claimed
from moulin.meta.codec.meta.segment import to_message_segment_id
from moulin.meta.services.new_segment import check_upload, from_message_new_segment, is_upload
from moulin.meta.site import Site
from moulin.model.facts import SegmentFacts
from moulin.model.merge_task import ClaimedTask
from moulin.model.operations import Claim
from moulin.storage import paths
from moulin.storage.segment_source import put_files
from moulin.table.compact.completion import complete, redo

_LONGEST_LEASE = 7 * 86_400
_HASH_BYTES = 32


class MergeTaskServicer(rpc.MergeTaskServiceServicer):
    def __init__(self, site: Site) -> None:
        self._site, self._catalog, self._tasks = site, site.catalog, site.catalog.maintenance

    def PollForSegmentMergeTask(
        self, request: pb.PollForSegmentMergeTaskRequest, context: Any
    ) -> pb.PollForSegmentMergeTaskResponse:
        if not request.worker_id.strip():
            raise InvalidInput("worker_id is required.")
        table_id = from_message_id(request.table_id, "table_id") if request.HasField("table_id") else None
        claimed = self._tasks.claim_merge_task(
            request.worker_id, seconds=self._lease(request.lease_seconds), table_id=table_id
        )
        if claimed is None:
            return pb.PollForSegmentMergeTaskResponse()
        try:
            return pb.PollForSegmentMergeTaskResponse(task=self._message(claimed))
        except MoulinError:
            self._tasks.unclaim_merge_task(claimed.claim.task_id, 0)  # nobody will ever know that it was claimed
            raise

    def HeartbeatSegmentMergeTask(
        self, request: pb.HeartbeatSegmentMergeTaskRequest, context: Any
    ) -> pb.HeartbeatSegmentMergeTaskResponse:
        until = self._tasks.renew_merge_task(_claim(request), self._lease(request.lease_seconds))
        return pb.HeartbeatSegmentMergeTaskResponse(lease_until_unix_ns=until)

    def CompleteSegmentMergeTask(
        self, request: pb.CompleteSegmentMergeTaskRequest, context: Any
    ) -> pb.CompleteSegmentMergeTaskResponse:
        try:
            done, outputs = self._complete(request)
        except Unavailable:
            raise  # unknown: the worker asks again
        except MoulinError as error:
            return pb.CompleteSegmentMergeTaskResponse(error=pb.CompleteSegmentMergeTaskError(message=error.message))
        ids = [to_message_segment_id(facts.number) for facts in outputs]
        return pb.CompleteSegmentMergeTaskResponse(
            success=pb.CompleteSegmentMergeTaskSuccess(version=done.version, segment_ids=ids)
        )

    def FailSegmentMergeTask(
        self, request: pb.FailSegmentMergeTaskRequest, context: Any
    ) -> pb.FailSegmentMergeTaskResponse:
        self._tasks.fail_merge_task(_claim(request), request.error_message)
        return pb.FailSegmentMergeTaskResponse()

    def _complete(self, request: pb.CompleteSegmentMergeTaskRequest) -> tuple[CommitResult, Sequence[SegmentFacts]]:
        claim = _claim(request)
        messages = [request.merged_segment] if request.HasField("merged_segment") else []
        messages += request.merged_segments
        named = [request.rewrite_journal_relative_path, *request.rewrite_journal_relative_paths]
        table_id = self._tasks.table_of_merge_task(claim.task_id)
        for message in messages:
            if from_message_id(message.table_id, "table_id") != table_id:
                raise InvalidInput(
                    f"The merge task is of table {table_id}, but its output is of table {message.table_id}."
                )
            if len(message.audt_hash) != _HASH_BYTES and not message.data_file.sha256:
                raise InvalidInput("An output needs the hash of its file (audt_hash).")
        if any(is_upload(message, table_id, self._site.store) for message in messages):
            return self._redo(claim, table_id, messages)
        state = self._catalog.table_by_id(table_id)
        outputs = [from_message_new_segment(message, state, self._site.store) for message in messages]
        journals = [f"{paths.table_prefix(table_id)}/{name}" for name in named if name]
        return complete(self._site.lake.context, claim, outputs, journals), outputs

    def _redo(
        self, claim: Claim, table_id: UUID, messages: Sequence[common_pb2.CreateSegment]
    ) -> tuple[CommitResult, Sequence[SegmentFacts]]:
        """Complete a task of a worker that knows only the first version of the API, and so writes no lineage."""
        if not all(is_upload(message, table_id, self._site.store) for message in messages):
            raise InvalidInput(
                "The outputs of a merge task must either all have names of the worker, or all staged names."
            )
        rows = 0
        if self._tasks.finished_task(claim) is None:
            rows = sum(check_upload(message, table_id, self._site.store) for message in messages)
        return redo(self._site.lake.context, claim, rows)

    def _lease(self, seconds: int) -> float:
        """The lease that a worker asks for; when it asks for none, the one for workers that know of no heartbeats."""
        if not 0 <= seconds <= _LONGEST_LEASE:
            raise InvalidInput(
                f"lease_seconds must be from 1 to {_LONGEST_LEASE}, or 0 for the server's default, not {seconds}."
            )
        return float(seconds) or self._tasks.config.merge_poll_lease

    def _message(self, claimed: ClaimedTask) -> common_pb2.SegmentMergeTaskInfo:
        inputs = self._tasks.segments_with_vectors(claimed.table_id, claimed.inputs)
        put_files(self._site.store, [segment.facts for segment in inputs])
        properties = self._catalog.table_by_id(claimed.table_id).properties
        return to_message_claimed(self._site.store, claimed, inputs, properties)


def _claim(request: Any) -> Claim:
    if request.attempt < 0:
        raise InvalidInput(f"The number of an attempt must be at least 1, not {request.attempt}.")
    return Claim(from_message_id(request.task_id, "task_id"), request.attempt)
