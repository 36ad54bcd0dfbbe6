"""Streams and routing, as one snapshot."""

from __future__ import annotations

from uuid import UUID

from moulin._proto.moulin.lake.v1 import catalog_pb2 as pb
from moulin.model.ingest import RoutedTable, Routing, StopReason, Stream, StreamList, StreamTable, TokenRouting


def to_message_streams(listed: StreamList) -> pb.GetStreamsResponse:
    return pb.GetStreamsResponse(
        version=listed.version,
        routing_seq=listed.routing_seq,
        complete_through=listed.complete_through,
        streams=map(_to_message_stream, listed.streams),
        tables=[
            pb.RoutedTable(id=str(table.id), database_id=str(table.database_id), name=table.name, retired=table.retired)
            for table in listed.tables
        ],
        routing=[
            pb.TokenRouting(
                token_id=str(one.token_id),
                database_id=str(one.database_id),
                traces_table_id=str(one.routing.traces),
                logs_table_id=str(one.routing.logs),
                metrics_table_id=str(one.routing.metrics),
                retired=one.retired,
            )
            for one in listed.routing
        ],
    )


def from_message_streams(message: pb.GetStreamsResponse) -> StreamList:
    return StreamList(
        streams=tuple(map(_from_message_stream, message.streams)),
        tables=tuple(
            RoutedTable(UUID(table.id), UUID(table.database_id), table.name, table.retired) for table in message.tables
        ),
        routing=tuple(
            TokenRouting(
                UUID(one.token_id),
                UUID(one.database_id),
                Routing(UUID(one.traces_table_id), UUID(one.logs_table_id), UUID(one.metrics_table_id)),
                one.retired,
            )
            for one in message.routing
        ),
        version=message.version,
        response_seq=0,
        routing_seq=message.routing_seq,
        complete_through=message.complete_through,
    )


def _to_message_stream(stream: Stream) -> pb.StreamState:
    return pb.StreamState(
        id=str(stream.id),
        collector_id=stream.collector_id,
        description=stream.description,
        token_id=str(stream.token_id),
        created_at=stream.created_at,
        frontier=stream.frontier,
        frontier_time=stream.frontier_time,
        deleted_offset=stream.deleted_offset,
        deleted_time=stream.deleted_time,
        stopped_at=stream.stopped_at,
        stopped_offset=stream.stopped_offset,
        stop_reason=int(stream.stop_reason),
        tables=[
            pb.StreamTable(
                table_id=str(table.table_id),
                merged_offset=table.merged_offset,
                merged_time=table.merged_time,
                created_at=table.created_at,
            )
            for table in stream.tables
        ],
    )


def _from_message_stream(message: pb.StreamState) -> Stream:
    return Stream(
        UUID(message.id),
        message.collector_id,
        message.description,
        UUID(message.token_id),
        message.created_at,
        message.frontier,
        message.frontier_time,
        message.deleted_offset,
        message.deleted_time,
        message.stopped_at if message.HasField("stopped_at") else None,
        message.stopped_offset if message.HasField("stopped_offset") else None,
        StopReason(message.stop_reason),
        tables=tuple(
            StreamTable(UUID(table.table_id), table.merged_offset, table.merged_time, table.created_at)
            for table in message.tables
        ),
    )
