"""IngestionService: a collector gets its stream."""

from __future__ import annotations

from typing import Any

from moulin._proto.moulin.meta.v1 import ingestion_pb2 as pb
from moulin._proto.moulin.meta.v1 import ingestion_pb2_grpc as rpc
from moulin.meta.codec.meta.address import to_message_prefix
from moulin.meta.site import Site
from moulin.storage import paths


class IngestionServicer(rpc.IngestionServiceServicer):
    def __init__(self, site: Site) -> None:
        self._site = site

    def RegisterForStream(self, request: pb.RegisterForStreamRequest, context: Any) -> pb.RegisterForStreamResponse:
        site = self._site
        found = site.catalog.ingest.register_stream(
            request.ingest_token, request.collector_id, request.collector_string
        )
        return pb.RegisterForStreamResponse(
            stream_id=str(found.stream.id),
            config=pb.StreamConfig(
                cloud_object_prefix=to_message_prefix(site.store, f"{paths.stream_prefix(found.stream.id)}/"),
                flush_timeout_ms=max(1, int(site.config.stream_flush_seconds * 1000)),
                max_segment_size_bytes=site.config.stream_segment_bytes,
            ),
            token_id=str(found.token.id),
        )
