"""NurseryService: streams to read, and what was made of them."""

# Decisions: docs/decisions/0083

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

from moulin._proto.moulin.meta.v1 import common_pb2
from moulin._proto.moulin.meta.v1 import nursery_pb2 as pb
from moulin._proto.moulin.meta.v1 import nursery_pb2_grpc as rpc
from moulin.errors import InvalidInput
from moulin.meta.codec.convert import to_id, to_ids, to_key, to_prefix
from moulin.meta.codec.new_segment import to_facts
from moulin.meta.site import Site
from moulin.model.facts import SegmentFacts
from moulin.model.ingest import (
    Advance,
    Checkpoint,
    Frontier,
    NurseryBatch,
    Registration,
    RoutedTable,
    SetAside,
    StopReason,
    Stream,
    StreamTable,
)
from moulin.storage import paths


class NurseryServicer(rpc.NurseryServiceServicer):
    def __init__(self, site: Site) -> None:
        self._site, self._ingest = site, site.catalog.ingest

    def GetIngestStreamsForNursery(
        self, request: pb.GetIngestStreamsRequest, context: Any
    ) -> pb.GetIngestStreamsResponse:
        found = self._ingest.stream_list()
        return pb.GetIngestStreamsResponse(
            streams=map(self._stream, found.streams),
            tables=[self._table(table) for table in found.tables if not table.retired],
            retired_tables=[self._table(table) for table in found.tables if table.retired],
            meta_response_seq=found.response_seq,
            token_routing=[
                pb.IngestTokenRoutingInfo(
                    token_id=str(token.token_id),
                    traces_table_id=str(token.routing.traces),
                    logs_table_id=str(token.routing.logs),
                    metrics_table_id=str(token.routing.metrics),
                    database_id=str(token.database_id),
                    retired=token.retired,
                )
                for token in found.routing
            ],
            stream_list_complete_through_nanos=found.complete_through,
            routing_seq=found.routing_seq,
            version=found.version,
        )

    def MarkStreamStopped(self, request: pb.MarkStreamStoppedRequest, context: Any) -> pb.MarkStreamStoppedResponse:
        reason = int(request.reason)
        self._ingest.stop_stream(
            to_id(request.stream_id, "stream_id"),
            request.final_offset,
            stopped_at=request.stopped_at_nanos or self._site.now(),
            reason=StopReason(reason) if reason in list(StopReason) else StopReason.UNSPECIFIED,
        )
        return pb.MarkStreamStoppedResponse()

    def RegisterMergedSegments(
        self, request: pb.RegisterMergedSegmentsRequest, context: Any
    ) -> pb.RegisterMergedSegmentsResponse:
        database_id = to_id(request.database_id, "database_id")
        if not request.merges:
            raise InvalidInput("A registration brings at least one merge.")
        table_id = to_id(request.merges[0].segment.table_id, "table_id")
        if any(merge.segment.table_id != request.merges[0].segment.table_id for merge in request.merges):
            raise InvalidInput("All merges of a registration are of one table; register others by themselves.")
        facts = self._facts([merge.segment for merge in request.merges])
        result = self._ingest.register_segments(
            database_id,
            table_id,
            [
                Registration(segment, _advances(merge.stream_offsets, table_id))
                for merge, segment in zip(request.merges, facts, strict=True)
            ],
            idle=_advances(request.idle_advances, table_id),
            request_id=request.register_request_id,
        )
        return pb.RegisterMergedSegmentsResponse(
            segment_versions=result.versions,
            streams=map(self._stream, result.streams),
            meta_response_seq=result.response_seq,
        )

    def CommitNurseryBatch(self, request: pb.CommitNurseryBatchRequest, context: Any) -> pb.CommitNurseryBatchResponse:
        segments: dict[UUID, tuple[SegmentFacts, ...]] = {}
        for message, facts in zip(request.segments, self._facts(request.segments), strict=True):
            table_id = to_id(message.table_id, "table_id")
            segments[table_id] = (*segments.get(table_id, ()), facts)
        batch = NurseryBatch(
            segments,
            tuple(
                Frontier(
                    to_id(frontier.stream_id, "stream_id"),
                    frontier.start_offset,
                    frontier.new_offset,
                    frontier.ingest_time_nanos,
                    tuple(to_ids(frontier.table_ids, "table_ids")),
                )
                for frontier in request.frontiers
            ),
            request.routing_seq,
            tuple(
                SetAside(to_id(one.stream_id, "stream_id"), one.stream_offset, one.records, one.reason, one.path)
                for one in request.set_asides
            ),
        )
        result = self._ingest.commit_nursery_batch(batch, request_id=request.request_id)
        return pb.CommitNurseryBatchResponse(
            version=result.versions[-1],
            streams=map(self._stream, result.streams),
            meta_response_seq=result.response_seq,
        )

    def StageSegments(self, request: pb.StageSegmentsRequest, context: Any) -> pb.StageSegmentsResponse:
        database_id, table_id = to_id(request.database_id, "database_id"), to_id(request.table_id, "table_id")
        staged = self._ingest.stage_segments(database_id, table_id, request.count)
        return pb.StageSegmentsResponse(keys=[to_key(self._site.store, path) for path in staged])

    def ListSetAsides(self, request: pb.ListSetAsidesRequest, context: Any) -> pb.ListSetAsidesResponse:
        stream_id = to_id(request.stream_id, "stream_id") if request.HasField("stream_id") else None
        return pb.ListSetAsidesResponse(
            items=[
                pb.SetAside(
                    stream_id=str(one.stream_id),
                    stream_offset=one.offset,
                    records=one.records,
                    reason=one.reason,
                    path=one.path,
                    version=version,
                )
                for version, one in self._ingest.set_asides(stream_id)
            ]
        )

    def UpdateDeletedOffset(
        self, request: pb.UpdateDeletedOffsetRequest, context: Any
    ) -> pb.UpdateDeletedOffsetResponse:
        self._ingest.set_deleted_offset(
            to_id(request.stream_id, "stream_id"), request.deleted_offset, request.deleted_ingest_time_nanos
        )
        return pb.UpdateDeletedOffsetResponse()

    def DeleteIngestStreamTable(
        self, request: pb.DeleteIngestStreamTableRequest, context: Any
    ) -> pb.DeleteIngestStreamTableResponse:
        self._ingest.remove_stream_table(
            to_id(request.stream_id, "stream_id"),
            to_id(request.table_id, "table_id"),
            current_offset=request.current_offset,
            merged_offset=request.merged_offset,
        )
        return pb.DeleteIngestStreamTableResponse()

    def _facts(self, messages: Sequence[common_pb2.CreateSegment]) -> list[SegmentFacts]:
        """The facts of new segments. Reads their files where the messages do not say enough."""
        states = {
            text: self._site.catalog.ingest.target(to_id(text, "table_id"))
            for text in {message.table_id for message in messages}
        }
        return [to_facts(message, states[message.table_id], self._site.store) for message in messages]

    def _stream(self, stream: Stream) -> pb.IngestStreamInfo:
        return pb.IngestStreamInfo(
            stream_id=str(stream.id),
            cloud_stream_prefix=to_prefix(self._site.store, f"{paths.stream_prefix(stream.id)}/"),
            stopped_at_nanos=stream.stopped_at,
            stopped_offset=stream.stopped_offset,
            tables=map(self._stream_table, stream.tables),
            known_complete_through_nanos=stream.known_complete_through,
            deleted_offset=stream.deleted_offset,
            deleted_ingest_time_nanos=stream.deleted_time,
            offset_timestamps=[
                pb.OffsetTimestamp(stream_offset=point.offset, ingest_time_nanos=point.ingest_time)
                for point in _samples(stream)
            ],
            frontier_offset=stream.frontier,
            frontier_ingest_time_nanos=stream.frontier_time,
            collector_id=stream.collector_id,
            created_at_nanos=stream.created_at,
            stop_reason=pb.StopReason.Name(stream.stop_reason),
            frontier_checkpoints=_checkpoints(stream.checkpoints),
        )

    def _stream_table(self, table: StreamTable) -> pb.IngestStreamTableInfo:
        return pb.IngestStreamTableInfo(
            table_id=str(table.table_id),
            merged_offset=table.merged_offset,
            merged_ingest_time_nanos=table.merged_time,
            created_at_nanos=table.created_at,
            cloud_merged_segments_prefix=to_prefix(self._site.store, f"{paths.data_prefix(table.table_id)}/"),
            offset_checkpoints=_checkpoints(table.checkpoints),
        )

    def _table(self, table: RoutedTable) -> common_pb2.TableInfo:
        return common_pb2.TableInfo(
            id=str(table.id),
            name=table.name,
            cloud_object_prefix=to_prefix(self._site.store, f"{paths.data_prefix(table.id)}/"),
            database_id=str(table.database_id),
        )


def _advances(messages: Iterable[pb.StreamOffsetInfo], table_id: UUID) -> tuple[Advance, ...]:
    advances = []
    for message in messages:
        if to_id(message.table_id, "table_id") != table_id:
            raise InvalidInput(f"The offset of stream {message.stream_id} is of another table than the segments.")
        stream_id = to_id(message.stream_id, "stream_id")
        advances.append(
            Advance(stream_id, message.start_merged_offset, message.new_merged_offset, message.ingest_time_nanos)
        )
    return tuple(advances)


def _checkpoints(points: Iterable[Checkpoint]) -> list[pb.OffsetCheckpoint]:
    return [
        pb.OffsetCheckpoint(
            segment_offset=point.version, stream_offset=point.offset, ingest_timestamp_nanos=point.ingest_time
        )
        for point in points
    ]


def _samples(stream: Stream) -> list[Checkpoint]:
    """What is known of the age of offsets: the checkpoints of the stream and of its tables, one for each offset."""
    points = [*stream.checkpoints, *(point for table in stream.tables for point in table.checkpoints)]
    return sorted({point.offset: point for point in points}.values(), key=lambda point: point.offset)
