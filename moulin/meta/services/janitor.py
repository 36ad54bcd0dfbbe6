"""JanitorService: statistics, and merge tasks for operators."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from moulin._proto.moulin.meta.v1 import janitor_pb2 as pb
from moulin._proto.moulin.meta.v1 import janitor_pb2_grpc as rpc
from moulin.catalog.segments.stats import Filter
from moulin.catalog.sql.schema import OPEN
from moulin.errors import InvalidInput
from moulin.meta.codec.id import from_message_id
from moulin.meta.codec.meta.moment import to_message_moment
from moulin.meta.codec.meta.segment import to_message_segment_id
from moulin.meta.site import Site
from moulin.model.layout.size_tier import TIER_STARTS
from moulin.model.merge_task import MergeTask
from moulin.table.compact.planner import create_tasks, rewrite_tasks

_UNCLAIM_SECONDS = 3600


class JanitorServicer(rpc.JanitorServiceServicer):
    def __init__(self, site: Site) -> None:
        self._site, self._tasks = site, site.catalog.maintenance

    def GetJanitorStats(self, request: pb.GetJanitorStatsRequest, context: Any) -> pb.GetJanitorStatsResponse:
        table_id = _table(request)
        totals = self._tasks.totals(table_id)
        tasks, stuck = self._tasks.task_counts(table_id)
        waiting, failing, error = self._tasks.trash_counts()
        return pb.GetJanitorStatsResponse(
            segment_count=totals.segments,
            outstanding_merge_tasks=tasks,
            total_size_bytes=totals.bytes,
            total_compressed_size_bytes=totals.bytes,
            segments_incl_tombstoned=totals.with_tombstoned,
            quarantined_merge_tasks=stuck,
            objects_to_delete=waiting,
            objects_failing=failing,
            deletion_error=error,
            staged_segments=sum(staged.count for staged in self._tasks.staged_segments(table_id)),
        )

    def GetSegmentSizeStats(
        self, request: pb.GetSegmentSizeStatsRequest, context: Any
    ) -> pb.GetSegmentSizeStatsResponse:
        ends = [*map(str, TIER_STARTS[1:]), ""]
        return pb.GetSegmentSizeStatsResponse(
            tiers=[
                pb.SegmentSizeTier(
                    tier=tier.tier,
                    tier_min=str(TIER_STARTS[tier.tier]),
                    tier_max=ends[tier.tier],
                    segment_count=tier.segments,
                    total_size=tier.total,
                    smallest=tier.smallest,
                    largest=tier.largest,
                    avg_size=tier.total // tier.segments,
                    earliest_time=_moment(tier.time_min),
                    latest_time=_moment(tier.time_max),
                )
                for tier in self._tasks.size_tiers(_table(request), _filter(request))
            ]
        )

    def ListMergeTasks(self, request: pb.ListMergeTasksRequest, context: Any) -> pb.ListMergeTasksResponse:
        table_id = _table(request)
        if table_id is not None:
            self._site.catalog.table_entry(table_id)
        return pb.ListMergeTasksResponse(
            tasks=[pb.MergeTaskSummary(**_fields(task)) for task in self._tasks.merge_tasks(table_id)]
        )

    def GetMergeTask(self, request: pb.GetMergeTaskRequest, context: Any) -> pb.GetMergeTaskResponse:
        task_id = from_message_id(request.task_id, "task_id")
        task, figures = self._tasks.merge_task(task_id)
        return pb.GetMergeTaskResponse(
            **_fields(task),
            smallest_segment_size=figures.smallest,
            largest_segment_size=figures.largest,
            smallest_segment_compressed_size=figures.smallest,
            largest_segment_compressed_size=figures.largest,
            earliest_time=_moment(figures.time_min),
            latest_time=_moment(figures.time_max),
            total_size=figures.total,
            total_compressed_size=figures.total,
            segment_ids=[to_message_segment_id(number) for number in self._tasks.merge_task_inputs(task_id)],
        )

    def UnclaimMergeTask(self, request: pb.UnclaimMergeTaskRequest, context: Any) -> pb.UnclaimMergeTaskResponse:
        if request.min_claimed_secs < 0:
            raise InvalidInput(
                f"min_claimed_secs must be zero (meaning an hour) or more, not {request.min_claimed_secs}."
            )
        seconds = request.min_claimed_secs or _UNCLAIM_SECONDS
        return pb.UnclaimMergeTaskResponse(
            unclaimed=self._tasks.unclaim_merge_task(from_message_id(request.task_id, "task_id"), seconds)
        )

    def CreateMergeTasks(self, request: pb.CreateMergeTasksRequest, context: Any) -> pb.CreateMergeTasksResponse:
        made = create_tasks(self._site.lake.context, _table(request), _filter(request))
        return pb.CreateMergeTasksResponse(tasks_created=made.tasks, segments_included=made.segments)

    def RewriteAllSegments(self, request: pb.RewriteAllSegmentsRequest, context: Any) -> pb.RewriteAllSegmentsResponse:
        made = rewrite_tasks(self._site.lake.context, _table(request))
        return pb.RewriteAllSegmentsResponse(tasks_created=made.tasks, segments_included=made.segments)

    def DeleteMergeTask(self, request: pb.DeleteMergeTaskRequest, context: Any) -> pb.DeleteMergeTaskResponse:
        return pb.DeleteMergeTaskResponse(
            deleted=self._tasks.delete_merge_task(from_message_id(request.task_id, "task_id"))
        )


def _table(request: Any) -> UUID | None:
    return from_message_id(request.table_id, "table_id") if request.HasField("table_id") else None


def _filter(request: Any) -> Filter:
    def given(name: str) -> int | None:
        return getattr(request, name) if request.HasField(name) else None

    return Filter(given("max_compressed_size"), given("min_age_secs"), given("max_age_secs"))


def _moment(unix_ns: int | None) -> str:
    return "" if unix_ns is None else to_message_moment(unix_ns)


def _fields(task: MergeTask) -> dict[str, Any]:
    return {
        "task_id": str(task.id),
        "table_id": str(task.table_id),
        "segment_count": task.segments,
        "assigned_to_worker": task.worker or "",
        "created_at": _moment(task.created_at),
        "assigned_at": _moment(task.claimed_at),
        "state": task.state.value,
        "attempt": task.attempt,
        "failures": task.failures,
        "last_error": task.last_error or "",
        "available_at": "" if task.available_at == OPEN else _moment(task.available_at),
    }
