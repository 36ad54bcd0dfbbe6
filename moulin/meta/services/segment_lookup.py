"""SegmentLookupService: segments for queries and caches."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any
from uuid import UUID

from moulin._proto.moulin.meta.v1 import segment_lookup_pb2 as pb
from moulin._proto.moulin.meta.v1 import segment_lookup_pb2_grpc as rpc
from moulin.catalog.segments.search import MAX_LIMIT
from moulin.meta.codec.convert import check_range, to_id, to_prefix
from moulin.meta.codec.segment_info import to_infos, to_numbers
from moulin.meta.site import Site
from moulin.model.ingest import Stream
from moulin.storage import paths

_MAX_IDS = MAX_LIMIT


class SegmentLookupServicer(rpc.SegmentLookupServiceServicer):
    def __init__(self, site: Site) -> None:
        self._store, self._segments = site.store, site.catalog.maintenance

    def FindSegments(self, request: pb.FindSegmentsRequest, context: Any) -> pb.FindSegmentsResponse:
        times = check_range(request.time_range, "time_range") if request.HasField("time_range") else None
        page = self._segments.find_segments(
            to_id(request.database_id, "database_id"),
            request.table_names,
            times,
            limit=request.limit,
            cursor=request.cursor or None,
        )
        return pb.FindSegmentsResponse(
            segments=to_infos(self._store, page.segments),
            page=pb.PagedResponse(next_cursor=page.next_cursor),
            current_version=page.version,
            stream_positions=[self._position(stream, set(page.tables)) for stream in page.streams],
            routing_seq=page.routing_seq,
        )

    def _position(self, stream: Stream, tables: Collection[UUID]) -> pb.StreamPosition:
        return pb.StreamPosition(
            stream_id=str(stream.id),
            frontier_offset=stream.frontier,
            tables=[
                pb.TablePosition(table_id=str(table.table_id), merged_offset=table.merged_offset)
                for table in stream.tables
                if table.table_id in tables
            ],
            cloud_stream_prefix=to_prefix(self._store, f"{paths.stream_prefix(stream.id)}/"),
            stopped_offset=stream.stopped_offset,
        )

    def GetSegmentsByIds(self, request: pb.GetSegmentsByIdsRequest, context: Any) -> pb.GetSegmentsByIdsResponse:
        numbers = to_numbers(request.segment_ids, "segment_ids", _MAX_IDS)
        found = {segment.number: segment for segment in self._segments.segments_by_number(numbers)}
        known = [found[number] for number in dict.fromkeys(numbers) if number in found]
        return pb.GetSegmentsByIdsResponse(segments=to_infos(self._store, known))

    def ListWarmCandidates(self, request: pb.ListWarmCandidatesRequest, context: Any) -> pb.ListWarmCandidatesResponse:
        page = self._segments.newest_segments(limit=request.limit, cursor=request.cursor or None)
        return pb.ListWarmCandidatesResponse(
            segments=to_infos(self._store, page.segments),
            page=pb.PagedResponse(next_cursor=page.next_cursor),
        )
