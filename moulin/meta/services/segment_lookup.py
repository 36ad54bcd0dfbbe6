"""SegmentLookupService: segments for queries and caches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from moulin._proto.moulin.meta.v1 import common_pb2
from moulin._proto.moulin.meta.v1 import segment_lookup_pb2 as pb
from moulin._proto.moulin.meta.v1 import segment_lookup_pb2_grpc as rpc
from moulin.catalog.segments.lookup import MAX_LIMIT, FoundSegment
from moulin.meta.codec.id import from_message_id
from moulin.meta.codec.meta.moment import from_message_range
from moulin.meta.codec.meta.segment import from_message_segment_ids, to_message_segments
from moulin.meta.codec.meta.stream import to_message_position
from moulin.meta.site import Site
from moulin.storage.segment_source import put_files

_MAX_IDS = MAX_LIMIT


class SegmentLookupServicer(rpc.SegmentLookupServiceServicer):
    def __init__(self, site: Site) -> None:
        self._store, self._segments = site.store, site.catalog.maintenance

    def FindSegments(self, request: pb.FindSegmentsRequest, context: Any) -> pb.FindSegmentsResponse:
        times = from_message_range(request.time_range, "time_range") if request.HasField("time_range") else None
        page = self._segments.find_segments(
            from_message_id(request.database_id, "database_id"),
            request.table_names,
            times,
            limit=request.limit,
            cursor=request.cursor or None,
        )
        return pb.FindSegmentsResponse(
            segments=self._delivered(page.segments),
            page=pb.PagedResponse(next_cursor=page.next_cursor),
            current_version=page.version,
            stream_positions=[to_message_position(self._store, stream, page.tables) for stream in page.streams],
            routing_seq=page.routing_seq,
        )

    def GetSegmentsByIds(self, request: pb.GetSegmentsByIdsRequest, context: Any) -> pb.GetSegmentsByIdsResponse:
        numbers = from_message_segment_ids(request.segment_ids, "segment_ids", _MAX_IDS)
        found = {segment.number: segment for segment in self._segments.segments_by_number(numbers)}
        known = [found[number] for number in dict.fromkeys(numbers) if number in found]
        return pb.GetSegmentsByIdsResponse(segments=self._delivered(known))

    def ListWarmCandidates(self, request: pb.ListWarmCandidatesRequest, context: Any) -> pb.ListWarmCandidatesResponse:
        page = self._segments.newest_segments(limit=request.limit, cursor=request.cursor or None)
        return pb.ListWarmCandidatesResponse(
            segments=self._delivered(page.segments),
            page=pb.PagedResponse(next_cursor=page.next_cursor),
        )

    def _delivered(self, found: Sequence[FoundSegment]) -> Iterator[common_pb2.SegmentInfo]:
        """Segments whose files are in storage: those who ask here read them there."""
        put_files(self._store, found)
        return to_message_segments(self._store, found)
