"""Streams of collectors: offsets, and commits of nurseries."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from uuid import UUID

from moulin._proto.moulin.meta.v1 import common_pb2
from moulin._proto.moulin.meta.v1 import nursery_pb2 as pb
from moulin._proto.moulin.meta.v1 import segment_lookup_pb2 as lookup_pb2
from moulin.errors import InvalidInput
from moulin.meta.codec.id import from_message_id, from_message_ids
from moulin.meta.codec.meta.address import to_message_prefix
from moulin.model.ingest import (
    Advance,
    Checkpoint,
    Frontier,
    RoutedTable,
    SetAside,
    Stream,
    StreamTable,
    TokenRouting,
)
from moulin.storage import paths
from moulin.storage.store import Store


def to_message_stream(store: Store, stream: Stream) -> pb.IngestStreamInfo:
    return pb.IngestStreamInfo(
        stream_id=str(stream.id),
        cloud_stream_prefix=to_message_prefix(store, f"{paths.stream_prefix(stream.id)}/"),
        stopped_at_nanos=stream.stopped_at,
        stopped_offset=stream.stopped_offset,
        tables=[_to_message_stream_table(store, table) for table in stream.tables],
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
        frontier_checkpoints=_to_message_checkpoints(stream.checkpoints),
    )


def _to_message_stream_table(store: Store, table: StreamTable) -> pb.IngestStreamTableInfo:
    return pb.IngestStreamTableInfo(
        table_id=str(table.table_id),
        merged_offset=table.merged_offset,
        merged_ingest_time_nanos=table.merged_time,
        created_at_nanos=table.created_at,
        cloud_merged_segments_prefix=to_message_prefix(store, f"{paths.data_prefix(table.table_id)}/"),
        offset_checkpoints=_to_message_checkpoints(table.checkpoints),
    )


def to_message_position(store: Store, stream: Stream, tables: Collection[UUID]) -> lookup_pb2.StreamPosition:
    """How far a stream is, and how far these tables are beyond that."""
    wanted = set(tables)
    return lookup_pb2.StreamPosition(
        stream_id=str(stream.id),
        frontier_offset=stream.frontier,
        tables=[
            lookup_pb2.TablePosition(table_id=str(table.table_id), merged_offset=table.merged_offset)
            for table in stream.tables
            if table.table_id in wanted
        ],
        cloud_stream_prefix=to_message_prefix(store, f"{paths.stream_prefix(stream.id)}/"),
        stopped_offset=stream.stopped_offset,
    )


def to_message_routed_table(store: Store, table: RoutedTable) -> common_pb2.TableInfo:
    return common_pb2.TableInfo(
        id=str(table.id),
        name=table.name,
        cloud_object_prefix=to_message_prefix(store, f"{paths.data_prefix(table.id)}/"),
        database_id=str(table.database_id),
    )


def from_message_advances(messages: Iterable[pb.StreamOffsetInfo], table_id: UUID) -> tuple[Advance, ...]:
    advances = []
    for message in messages:
        if from_message_id(message.table_id, "table_id") != table_id:
            raise InvalidInput(f"The offset of stream {message.stream_id} is of another table than the segments.")
        stream_id = from_message_id(message.stream_id, "stream_id")
        advances.append(
            Advance(stream_id, message.start_merged_offset, message.new_merged_offset, message.ingest_time_nanos)
        )
    return tuple(advances)


def _to_message_checkpoints(points: Iterable[Checkpoint]) -> list[pb.OffsetCheckpoint]:
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


def to_message_token_routing(token: TokenRouting) -> pb.IngestTokenRoutingInfo:
    return pb.IngestTokenRoutingInfo(
        token_id=str(token.token_id),
        traces_table_id=str(token.routing.traces),
        logs_table_id=str(token.routing.logs),
        metrics_table_id=str(token.routing.metrics),
        database_id=str(token.database_id),
        retired=token.retired,
    )


def from_message_frontier(m: pb.StreamFrontier) -> Frontier:
    return Frontier(
        from_message_id(m.stream_id, "stream_id"),
        m.start_offset,
        m.new_offset,
        m.ingest_time_nanos,
        tuple(from_message_ids(m.table_ids, "table_ids")),
    )


def to_message_set_aside(version: int, one: SetAside) -> pb.SetAside:
    return pb.SetAside(
        stream_id=str(one.stream_id),
        stream_offset=one.offset,
        records=one.records,
        reason=one.reason,
        path=one.path,
        version=version,
    )


def from_message_set_aside(m: pb.SetAside) -> SetAside:
    return SetAside(from_message_id(m.stream_id, "stream_id"), m.stream_offset, m.records, m.reason, m.path)
