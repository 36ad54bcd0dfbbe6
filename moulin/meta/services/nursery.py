"""NurseryService: streams to read, and registration of their segments."""

# Decisions: docs/decisions/0083

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any
from uuid import UUID

from moulin._proto.moulin.meta.v1 import common_pb2
from moulin._proto.moulin.meta.v1 import nursery_pb2 as pb
from moulin._proto.moulin.meta.v1 import nursery_pb2_grpc as rpc
from moulin.errors import InvalidInput
from moulin.meta.codec.id import from_message_id
from moulin.meta.codec.meta.address import from_message_key, to_message_key
from moulin.meta.codec.meta.stream import (
    from_message_advances,
    from_message_frontier,
    from_message_set_aside,
    to_message_routed_table,
    to_message_set_aside,
    to_message_stream,
    to_message_token_routing,
)
from moulin.meta.services.new_segment import from_message_new_segment, is_upload
from moulin.meta.site import Site
from moulin.model.facts import SegmentFacts
from moulin.model.ingest import (
    NurseryBatch,
    NurseryResult,
    Registration,
    StopReason,
    Stream,
)


class NurseryServicer(rpc.NurseryServiceServicer):
    def __init__(self, site: Site) -> None:
        self._site, self._ingest = site, site.catalog.ingest

    def GetIngestStreamsForNursery(
        self, request: pb.GetIngestStreamsRequest, context: Any
    ) -> pb.GetIngestStreamsResponse:
        found, store = self._ingest.stream_list(), self._site.store
        return pb.GetIngestStreamsResponse(
            streams=self._streams(found.streams),
            tables=[to_message_routed_table(store, table) for table in found.tables if not table.retired],
            retired_tables=[to_message_routed_table(store, table) for table in found.tables if table.retired],
            meta_response_seq=found.response_seq,
            token_routing=map(to_message_token_routing, found.routing),
            stream_list_complete_through_nanos=found.complete_through,
            routing_seq=found.routing_seq,
            version=found.version,
        )

    def MarkStreamStopped(self, request: pb.MarkStreamStoppedRequest, context: Any) -> pb.MarkStreamStoppedResponse:
        reason = int(request.reason)
        self._ingest.stop_stream(
            from_message_id(request.stream_id, "stream_id"),
            request.final_offset,
            stopped_at=request.stopped_at_nanos or self._site.now(),
            reason=StopReason(reason) if reason in list(StopReason) else StopReason.UNSPECIFIED,
        )
        return pb.MarkStreamStoppedResponse()

    def RegisterMergedSegments(
        self, request: pb.RegisterMergedSegmentsRequest, context: Any
    ) -> pb.RegisterMergedSegmentsResponse:
        database_id = from_message_id(request.database_id, "database_id")
        if not request.merges:
            raise InvalidInput("A registration needs at least one entry in merges.")
        table_id = from_message_id(request.merges[0].segment.table_id, "table_id")
        if any(part.segment.table_id != request.merges[0].segment.table_id for part in request.merges):
            raise InvalidInput("All entries in merges must be of one table: register other tables separately.")
        result = self._registered(request, table_id) or self._register(request, database_id, table_id)
        return pb.RegisterMergedSegmentsResponse(
            segment_versions=result.versions,
            streams=self._streams(result.streams),
            meta_response_seq=result.response_seq,
        )

    def _registered(self, request: pb.RegisterMergedSegmentsRequest, table_id: UUID) -> NurseryResult | None:
        """The answer to a registration of uploads that was committed before: each try would copy them elsewhere."""
        if not self._uploads(request, table_id):
            return None
        moves = [m for part in request.merges for m in from_message_advances(part.stream_offsets, table_id)]
        moves += from_message_advances(request.idle_advances, table_id)
        return self._ingest.registered(request.register_request_id, _digest(request), moves)

    def _register(self, request: pb.RegisterMergedSegmentsRequest, database_id: UUID, table_id: UUID) -> NurseryResult:
        uploads = self._uploads(request, table_id)
        sources = [from_message_key(self._site.store, part.segment.cloud_object_key) for part in request.merges]
        if uploads and len(set(sources)) != len(sources):
            raise InvalidInput("Two entries in merges have the same object.")

        def stage() -> str:
            return self._ingest.stage_segments(database_id, table_id, 1)[0]

        facts = self._facts([part.segment for part in request.merges], stage)
        return self._ingest.register_segments(
            database_id,
            table_id,
            [
                Registration(
                    segment,
                    from_message_advances(part.stream_offsets, table_id),
                    source if index in uploads else "",
                )
                for index, (part, segment, source) in enumerate(zip(request.merges, facts, sources, strict=True))
            ],
            idle=from_message_advances(request.idle_advances, table_id),
            request_id=request.register_request_id,
            digest=_digest(request) if uploads else None,
        )

    def _uploads(self, request: pb.RegisterMergedSegmentsRequest, table_id: UUID) -> set[int]:
        """Those of the merges whose segments lie under names that are not ours."""
        store = self._site.store
        return {index for index, part in enumerate(request.merges) if is_upload(part.segment, table_id, store)}

    def CommitNurseryBatch(self, request: pb.CommitNurseryBatchRequest, context: Any) -> pb.CommitNurseryBatchResponse:
        segments: dict[UUID, tuple[SegmentFacts, ...]] = {}
        for message, facts in zip(request.segments, self._facts(request.segments), strict=True):
            table_id = from_message_id(message.table_id, "table_id")
            segments[table_id] = (*segments.get(table_id, ()), facts)
        batch = NurseryBatch(
            segments,
            tuple(map(from_message_frontier, request.frontiers)),
            request.routing_seq,
            tuple(map(from_message_set_aside, request.set_asides)),
        )
        result = self._ingest.commit_nursery_batch(batch, request_id=request.request_id)
        return pb.CommitNurseryBatchResponse(
            version=result.versions[-1],
            streams=self._streams(result.streams),
            meta_response_seq=result.response_seq,
        )

    def StageSegments(self, request: pb.StageSegmentsRequest, context: Any) -> pb.StageSegmentsResponse:
        database_id, table_id = (
            from_message_id(request.database_id, "database_id"),
            from_message_id(request.table_id, "table_id"),
        )
        staged = self._ingest.stage_segments(database_id, table_id, request.count)
        return pb.StageSegmentsResponse(keys=[to_message_key(self._site.store, path) for path in staged])

    def ListSetAsides(self, request: pb.ListSetAsidesRequest, context: Any) -> pb.ListSetAsidesResponse:
        stream_id = from_message_id(request.stream_id, "stream_id") if request.HasField("stream_id") else None
        return pb.ListSetAsidesResponse(
            items=[to_message_set_aside(version, one) for version, one in self._ingest.set_asides(stream_id)]
        )

    def UpdateDeletedOffset(
        self, request: pb.UpdateDeletedOffsetRequest, context: Any
    ) -> pb.UpdateDeletedOffsetResponse:
        self._ingest.set_deleted_offset(
            from_message_id(request.stream_id, "stream_id"), request.deleted_offset, request.deleted_ingest_time_nanos
        )
        return pb.UpdateDeletedOffsetResponse()

    def DeleteIngestStreamTable(
        self, request: pb.DeleteIngestStreamTableRequest, context: Any
    ) -> pb.DeleteIngestStreamTableResponse:
        self._ingest.remove_stream_table(
            from_message_id(request.stream_id, "stream_id"),
            from_message_id(request.table_id, "table_id"),
            current_offset=request.current_offset,
            merged_offset=request.merged_offset,
        )
        return pb.DeleteIngestStreamTableResponse()

    def _facts(
        self, messages: Sequence[common_pb2.CreateSegment], stage: Callable[[], str] | None = None
    ) -> list[SegmentFacts]:
        """The facts of new segments. Reads their files where the messages do not say enough."""
        states = {
            text: self._site.catalog.ingest.target(from_message_id(text, "table_id"))
            for text in {message.table_id for message in messages}
        }
        store = self._site.store
        return [from_message_new_segment(message, states[message.table_id], store, stage) for message in messages]

    def _streams(self, streams: Iterable[Stream]) -> Iterator[pb.IngestStreamInfo]:
        return (to_message_stream(self._site.store, stream) for stream in streams)


def _digest(request: pb.RegisterMergedSegmentsRequest) -> bytes:
    """Tells whether a request id stands for the same registration of uploads as before."""
    return hashlib.sha256(request.SerializeToString(deterministic=True)).digest()
