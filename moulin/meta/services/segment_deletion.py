"""SegmentDeletionService: for external deletion of files, if the lake does not delete them itself."""

from __future__ import annotations

from typing import Any

from moulin._proto.moulin.meta.v1 import segment_deletion_pb2 as pb
from moulin._proto.moulin.meta.v1 import segment_deletion_pb2_grpc as rpc
from moulin.catalog.upkeep import clocks
from moulin.errors import FailedPrecondition
from moulin.meta.codec.meta.address import to_message_key
from moulin.meta.codec.meta.segment import from_message_segment_ids, to_message_segment_id
from moulin.meta.site import Site

_MAX_IDS = 10_000


class SegmentDeletionServicer(rpc.SegmentDeletionServiceServicer):
    def __init__(self, site: Site) -> None:
        self._store, self._segments, self._pool = site.store, site.catalog.maintenance, site.catalog.pool

    def GetTombstonedSegmentsForDeletion(
        self, request: pb.GetTombstonedSegmentsForDeletionRequest, context: Any
    ) -> pb.GetTombstonedSegmentsForDeletionResponse:
        offered = self._segments.tombstoned_segments()
        if offered:
            clocks.agreed(self._pool, self._store)
        return pb.GetTombstonedSegmentsForDeletionResponse(
            segments=[
                pb.TombstonedSegmentInfo(
                    segment_id=to_message_segment_id(segment.number),
                    table_id=str(segment.table_id),
                    cloud_object_key=to_message_key(self._store, segment.path),
                    tombstone_time_nanos=segment.tombstoned_at,
                    tombstone_version=segment.version,
                )
                for segment in offered
            ]
        )

    def ConfirmTombstoneDeletion(
        self, request: pb.ConfirmTombstoneDeletionRequest, context: Any
    ) -> pb.ConfirmTombstoneDeletionResponse:
        numbers = from_message_segment_ids(request.segment_ids, "segment_ids", _MAX_IDS)
        try:
            count, journals = self._segments.confirm_deleted(numbers)
        except FailedPrecondition as error:
            return pb.ConfirmTombstoneDeletionResponse(error=pb.ConfirmTombstoneDeletionError(message=error.message))
        ready = [
            pb.RewriteJournalReadyForDeletion(
                output_segment_id=to_message_segment_id(journal.output),
                journal_key=to_message_key(self._store, journal.path),
            )
            for journal in journals
        ]
        return pb.ConfirmTombstoneDeletionResponse(
            success=pb.ConfirmTombstoneDeletionSuccess(deleted_count=count, journals_ready=ready)
        )

    def ConfirmRewriteJournalDeletion(
        self, request: pb.ConfirmRewriteJournalDeletionRequest, context: Any
    ) -> pb.ConfirmRewriteJournalDeletionResponse:
        numbers = from_message_segment_ids(request.output_segment_ids, "output_segment_ids", _MAX_IDS)
        cleared = self._segments.confirm_journals_deleted(numbers)
        return pb.ConfirmRewriteJournalDeletionResponse(cleared_count=cleared)
