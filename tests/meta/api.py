"""Every call of the services in one place, with shortcuts for what tests make most."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any
from uuid import UUID

import grpc

from moulin._proto.moulin.meta.v1 import (
    cluster_pb2,
    cluster_pb2_grpc,
    common_pb2,
    database_pb2,
    database_pb2_grpc,
    ingest_token_pb2,
    ingest_token_pb2_grpc,
    ingestion_pb2,
    ingestion_pb2_grpc,
    nursery_pb2,
    nursery_pb2_grpc,
    table_pb2,
    table_pb2_grpc,
    view_pb2,
    view_pb2_grpc,
)
from moulin.formats import manifest as codec
from moulin.model.facts import LiveSegment, SegmentFacts
from moulin.storage import paths
from tests.meta.conftest import Live, name

SECOND = 1_000_000_000
NOBODY = "00000000-0000-7000-8000-000000000000"
_SERVICES = (
    (database_pb2, database_pb2_grpc.DatabaseServiceStub),
    (table_pb2, table_pb2_grpc.TableServiceStub),
    (view_pb2, view_pb2_grpc.ViewServiceStub),
    (cluster_pb2, cluster_pb2_grpc.ClusterServiceStub),
    (ingestion_pb2, ingestion_pb2_grpc.IngestionServiceStub),
    (ingest_token_pb2, ingest_token_pb2_grpc.IngestTokenServiceStub),
    (nursery_pb2, nursery_pb2_grpc.NurseryServiceStub),
)
_REQUESTS = {"GetIngestStreamsForNursery": "GetIngestStreamsRequest"}


class Api:
    """`api.CreateDatabase(name="x")` calls the service that has such a call."""

    def __init__(self, live: Live, channel: grpc.Channel | None = None) -> None:
        self.live = live
        self._channel = channel or live.channel
        self._stubs = [(messages, stub(self._channel)) for messages, stub in _SERVICES]

    def another(self) -> Api:
        """The same calls through a connection of their own."""
        options = [("grpc.use_local_subchannel_pool", 1)]
        return Api(self.live, grpc.insecure_channel(self.live.server.address, options))

    def close(self) -> None:
        self._channel.close()

    def __getattr__(self, call: str) -> Any:
        for messages, stub in self._stubs:
            if hasattr(stub, call):
                request = getattr(messages, _REQUESTS.get(call, f"{call}Request"))
                return lambda **fields: getattr(stub, call)(request(**fields), timeout=30)
        raise AttributeError(call)

    def database(self, called: str | None = None) -> str:
        made: str = self.CreateDatabase(name=called or name("db")).database.id
        return made

    def table(self, database_id: str, called: str | None = None) -> str:
        made: str = self.CreateTable(database_id=database_id, name=called or name("t")).id
        return made

    def tables(self, count: int) -> tuple[str, list[str]]:
        """A database of its own with so many tables."""
        database_id = self.database()
        return database_id, [self.table(database_id) for _ in range(count)]

    def view(self, database_id: str, table_ids: Sequence[str], called: str | None = None) -> str:
        made = self.CreateView(database_id=database_id, name=called or name("v"), table_ids=table_ids)
        view_id: str = made.view.id
        return view_id

    def token(self, database_id: str, *table_ids: str, called: str | None = None) -> tuple[str, str]:
        """Id and plaintext of a token to one table, or to three."""
        targets = table_ids if len(table_ids) == 3 else table_ids * 3
        fields = dict(zip(("traces_table_id", "logs_table_id", "metrics_table_id"), targets, strict=True))
        made = self.CreateIngestToken(database_id=database_id, name=called or name("tok"), **fields)
        return made.token.id, made.plaintext_token

    def stream(self, plaintext: str, collector: str | None = None) -> str:
        made = self.RegisterForStream(ingest_token=plaintext, collector_id=collector or name("collector"))
        stream_id: str = made.stream_id
        return stream_id

    def ingest(self, tables: int = 1) -> tuple[str, list[str], str]:
        """A database, its tables, and a stream to the first of them."""
        database_id, table_ids = self.tables(tables)
        return database_id, table_ids, self.stream(self.token(database_id, table_ids[0])[1])

    def segment(self, database_id: str, table_id: str, rows: int = 10, **fields: Any) -> common_pb2.CreateSegment:
        """A segment without rows in it: with `data_file`, the server looks whether it is there, and not inside."""
        key = self.StageSegments(database_id=database_id, table_id=table_id, count=1).keys[0]
        path = f"{key.prefix.prefix}/{key.key}"
        parsed = paths.parse_segment_path(path)
        assert parsed is not None
        self.live.lake.store.put(path, bytes(100))
        digest = hashlib.sha256(path.encode()).digest()
        facts = SegmentFacts(parsed[1], path, rows, 100, 0, 0, 0, (), digest, time_min=1, time_max=2)
        message = common_pb2.CreateSegment(
            table_id=table_id,
            cloud_object_key=key,
            number_of_events=rows,
            compressed_size_bytes=100,
            data_file=codec.segment_to_ref(LiveSegment(facts, 0, 0, 0), codec.ADDED),
        )
        message.MergeFrom(common_pb2.CreateSegment(**fields))
        return message

    def offset(
        self, stream_id: str, table_id: str, start: int, new: int, time: int = SECOND
    ) -> nursery_pb2.StreamOffsetInfo:
        return nursery_pb2.StreamOffsetInfo(
            stream_id=stream_id,
            table_id=table_id,
            start_merged_offset=start,
            new_merged_offset=new,
            ingest_time_nanos=time,
        )

    def merge(self, database_id: str, table_id: str, *offsets: Any) -> nursery_pb2.MergeRegistration:
        segment = self.segment(database_id, table_id)
        return nursery_pb2.MergeRegistration(segment=segment, stream_offsets=offsets)

    def register(
        self, database_id: str, table_id: str, stream_id: str, start: int, new: int, time: int = SECOND
    ) -> nursery_pb2.RegisterMergedSegmentsResponse:
        """One segment from one stream."""
        merge = self.merge(database_id, table_id, self.offset(stream_id, table_id, start, new, time))
        answer: nursery_pb2.RegisterMergedSegmentsResponse = self.RegisterMergedSegments(
            database_id=database_id, merges=[merge], register_request_id=name("request")
        )
        return answer

    def stream_info(self, stream_id: str) -> nursery_pb2.IngestStreamInfo | None:
        found = [s for s in self.GetIngestStreamsForNursery().streams if s.stream_id == stream_id]
        return found[0] if found else None

    def live_segments(self, table_id: str) -> int:
        catalog = self.live.catalog
        return len(catalog.segments(UUID(table_id), catalog.version()))
