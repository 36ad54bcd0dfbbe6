from moulin._proto.moulin.meta.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class StopReason(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    STOP_REASON_UNSPECIFIED: _ClassVar[StopReason]
    STOP_REASON_CLIENT: _ClassVar[StopReason]
    STOP_REASON_TIMEOUT: _ClassVar[StopReason]
STOP_REASON_UNSPECIFIED: StopReason
STOP_REASON_CLIENT: StopReason
STOP_REASON_TIMEOUT: StopReason

class StageSegmentsRequest(_message.Message):
    __slots__ = ("database_id", "table_id", "count")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    table_id: str
    count: int
    def __init__(self, database_id: _Optional[str] = ..., table_id: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class StageSegmentsResponse(_message.Message):
    __slots__ = ("keys",)
    KEYS_FIELD_NUMBER: _ClassVar[int]
    keys: _containers.RepeatedCompositeFieldContainer[_common_pb2.CloudObjectKey]
    def __init__(self, keys: _Optional[_Iterable[_Union[_common_pb2.CloudObjectKey, _Mapping]]] = ...) -> None: ...

class StreamFrontier(_message.Message):
    __slots__ = ("stream_id", "start_offset", "new_offset", "ingest_time_nanos", "table_ids")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    START_OFFSET_FIELD_NUMBER: _ClassVar[int]
    NEW_OFFSET_FIELD_NUMBER: _ClassVar[int]
    INGEST_TIME_NANOS_FIELD_NUMBER: _ClassVar[int]
    TABLE_IDS_FIELD_NUMBER: _ClassVar[int]
    stream_id: str
    start_offset: int
    new_offset: int
    ingest_time_nanos: int
    table_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, stream_id: _Optional[str] = ..., start_offset: _Optional[int] = ..., new_offset: _Optional[int] = ..., ingest_time_nanos: _Optional[int] = ..., table_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class SetAside(_message.Message):
    __slots__ = ("stream_id", "stream_offset", "records", "reason", "path", "version")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    stream_id: str
    stream_offset: int
    records: int
    reason: str
    path: str
    version: int
    def __init__(self, stream_id: _Optional[str] = ..., stream_offset: _Optional[int] = ..., records: _Optional[int] = ..., reason: _Optional[str] = ..., path: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class CommitNurseryBatchRequest(_message.Message):
    __slots__ = ("request_id", "routing_seq", "segments", "frontiers", "set_asides")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    ROUTING_SEQ_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    FRONTIERS_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDES_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    routing_seq: int
    segments: _containers.RepeatedCompositeFieldContainer[_common_pb2.CreateSegment]
    frontiers: _containers.RepeatedCompositeFieldContainer[StreamFrontier]
    set_asides: _containers.RepeatedCompositeFieldContainer[SetAside]
    def __init__(self, request_id: _Optional[str] = ..., routing_seq: _Optional[int] = ..., segments: _Optional[_Iterable[_Union[_common_pb2.CreateSegment, _Mapping]]] = ..., frontiers: _Optional[_Iterable[_Union[StreamFrontier, _Mapping]]] = ..., set_asides: _Optional[_Iterable[_Union[SetAside, _Mapping]]] = ...) -> None: ...

class CommitNurseryBatchResponse(_message.Message):
    __slots__ = ("version", "streams", "meta_response_seq")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    META_RESPONSE_SEQ_FIELD_NUMBER: _ClassVar[int]
    version: int
    streams: _containers.RepeatedCompositeFieldContainer[IngestStreamInfo]
    meta_response_seq: int
    def __init__(self, version: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[IngestStreamInfo, _Mapping]]] = ..., meta_response_seq: _Optional[int] = ...) -> None: ...

class ListSetAsidesRequest(_message.Message):
    __slots__ = ("stream_id",)
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    stream_id: str
    def __init__(self, stream_id: _Optional[str] = ...) -> None: ...

class ListSetAsidesResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[SetAside]
    def __init__(self, items: _Optional[_Iterable[_Union[SetAside, _Mapping]]] = ...) -> None: ...

class GetIngestStreamsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class OffsetCheckpoint(_message.Message):
    __slots__ = ("segment_offset", "stream_offset", "ingest_timestamp_nanos")
    SEGMENT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STREAM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    INGEST_TIMESTAMP_NANOS_FIELD_NUMBER: _ClassVar[int]
    segment_offset: int
    stream_offset: int
    ingest_timestamp_nanos: int
    def __init__(self, segment_offset: _Optional[int] = ..., stream_offset: _Optional[int] = ..., ingest_timestamp_nanos: _Optional[int] = ...) -> None: ...

class OffsetTimestamp(_message.Message):
    __slots__ = ("stream_offset", "ingest_time_nanos")
    STREAM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    INGEST_TIME_NANOS_FIELD_NUMBER: _ClassVar[int]
    stream_offset: int
    ingest_time_nanos: int
    def __init__(self, stream_offset: _Optional[int] = ..., ingest_time_nanos: _Optional[int] = ...) -> None: ...

class IngestStreamTableInfo(_message.Message):
    __slots__ = ("table_id", "merged_offset", "merged_ingest_time_nanos", "created_at_nanos", "cloud_merged_segments_prefix", "offset_checkpoints")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    MERGED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MERGED_INGEST_TIME_NANOS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_NANOS_FIELD_NUMBER: _ClassVar[int]
    CLOUD_MERGED_SEGMENTS_PREFIX_FIELD_NUMBER: _ClassVar[int]
    OFFSET_CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    merged_offset: int
    merged_ingest_time_nanos: int
    created_at_nanos: int
    cloud_merged_segments_prefix: _common_pb2.CloudObjectPrefix
    offset_checkpoints: _containers.RepeatedCompositeFieldContainer[OffsetCheckpoint]
    def __init__(self, table_id: _Optional[str] = ..., merged_offset: _Optional[int] = ..., merged_ingest_time_nanos: _Optional[int] = ..., created_at_nanos: _Optional[int] = ..., cloud_merged_segments_prefix: _Optional[_Union[_common_pb2.CloudObjectPrefix, _Mapping]] = ..., offset_checkpoints: _Optional[_Iterable[_Union[OffsetCheckpoint, _Mapping]]] = ...) -> None: ...

class IngestStreamInfo(_message.Message):
    __slots__ = ("stream_id", "cloud_stream_prefix", "stopped_at_nanos", "stopped_offset", "tables", "known_complete_through_nanos", "deleted_offset", "deleted_ingest_time_nanos", "offset_timestamps", "frontier_offset", "frontier_ingest_time_nanos", "collector_id", "created_at_nanos", "stop_reason", "frontier_checkpoints")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    CLOUD_STREAM_PREFIX_FIELD_NUMBER: _ClassVar[int]
    STOPPED_AT_NANOS_FIELD_NUMBER: _ClassVar[int]
    STOPPED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    KNOWN_COMPLETE_THROUGH_NANOS_FIELD_NUMBER: _ClassVar[int]
    DELETED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELETED_INGEST_TIME_NANOS_FIELD_NUMBER: _ClassVar[int]
    OFFSET_TIMESTAMPS_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_OFFSET_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_INGEST_TIME_NANOS_FIELD_NUMBER: _ClassVar[int]
    COLLECTOR_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_NANOS_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_CHECKPOINTS_FIELD_NUMBER: _ClassVar[int]
    stream_id: str
    cloud_stream_prefix: _common_pb2.CloudObjectPrefix
    stopped_at_nanos: int
    stopped_offset: int
    tables: _containers.RepeatedCompositeFieldContainer[IngestStreamTableInfo]
    known_complete_through_nanos: int
    deleted_offset: int
    deleted_ingest_time_nanos: int
    offset_timestamps: _containers.RepeatedCompositeFieldContainer[OffsetTimestamp]
    frontier_offset: int
    frontier_ingest_time_nanos: int
    collector_id: str
    created_at_nanos: int
    stop_reason: StopReason
    frontier_checkpoints: _containers.RepeatedCompositeFieldContainer[OffsetCheckpoint]
    def __init__(self, stream_id: _Optional[str] = ..., cloud_stream_prefix: _Optional[_Union[_common_pb2.CloudObjectPrefix, _Mapping]] = ..., stopped_at_nanos: _Optional[int] = ..., stopped_offset: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[IngestStreamTableInfo, _Mapping]]] = ..., known_complete_through_nanos: _Optional[int] = ..., deleted_offset: _Optional[int] = ..., deleted_ingest_time_nanos: _Optional[int] = ..., offset_timestamps: _Optional[_Iterable[_Union[OffsetTimestamp, _Mapping]]] = ..., frontier_offset: _Optional[int] = ..., frontier_ingest_time_nanos: _Optional[int] = ..., collector_id: _Optional[str] = ..., created_at_nanos: _Optional[int] = ..., stop_reason: _Optional[_Union[StopReason, str]] = ..., frontier_checkpoints: _Optional[_Iterable[_Union[OffsetCheckpoint, _Mapping]]] = ...) -> None: ...

class IngestTokenRoutingInfo(_message.Message):
    __slots__ = ("token_id", "traces_table_id", "logs_table_id", "metrics_table_id", "database_id", "retired")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    TRACES_TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    LOGS_TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    METRICS_TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    RETIRED_FIELD_NUMBER: _ClassVar[int]
    token_id: str
    traces_table_id: str
    logs_table_id: str
    metrics_table_id: str
    database_id: str
    retired: bool
    def __init__(self, token_id: _Optional[str] = ..., traces_table_id: _Optional[str] = ..., logs_table_id: _Optional[str] = ..., metrics_table_id: _Optional[str] = ..., database_id: _Optional[str] = ..., retired: _Optional[bool] = ...) -> None: ...

class GetIngestStreamsResponse(_message.Message):
    __slots__ = ("streams", "tables", "meta_response_seq", "token_routing", "stream_list_complete_through_nanos", "routing_seq", "retired_tables", "version")
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    META_RESPONSE_SEQ_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ROUTING_FIELD_NUMBER: _ClassVar[int]
    STREAM_LIST_COMPLETE_THROUGH_NANOS_FIELD_NUMBER: _ClassVar[int]
    ROUTING_SEQ_FIELD_NUMBER: _ClassVar[int]
    RETIRED_TABLES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    streams: _containers.RepeatedCompositeFieldContainer[IngestStreamInfo]
    tables: _containers.RepeatedCompositeFieldContainer[_common_pb2.TableInfo]
    meta_response_seq: int
    token_routing: _containers.RepeatedCompositeFieldContainer[IngestTokenRoutingInfo]
    stream_list_complete_through_nanos: int
    routing_seq: int
    retired_tables: _containers.RepeatedCompositeFieldContainer[_common_pb2.TableInfo]
    version: int
    def __init__(self, streams: _Optional[_Iterable[_Union[IngestStreamInfo, _Mapping]]] = ..., tables: _Optional[_Iterable[_Union[_common_pb2.TableInfo, _Mapping]]] = ..., meta_response_seq: _Optional[int] = ..., token_routing: _Optional[_Iterable[_Union[IngestTokenRoutingInfo, _Mapping]]] = ..., stream_list_complete_through_nanos: _Optional[int] = ..., routing_seq: _Optional[int] = ..., retired_tables: _Optional[_Iterable[_Union[_common_pb2.TableInfo, _Mapping]]] = ..., version: _Optional[int] = ...) -> None: ...

class MarkStreamStoppedRequest(_message.Message):
    __slots__ = ("stream_id", "stopped_at_nanos", "final_offset", "reason")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    STOPPED_AT_NANOS_FIELD_NUMBER: _ClassVar[int]
    FINAL_OFFSET_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    stream_id: str
    stopped_at_nanos: int
    final_offset: int
    reason: StopReason
    def __init__(self, stream_id: _Optional[str] = ..., stopped_at_nanos: _Optional[int] = ..., final_offset: _Optional[int] = ..., reason: _Optional[_Union[StopReason, str]] = ...) -> None: ...

class MarkStreamStoppedResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class StreamOffsetInfo(_message.Message):
    __slots__ = ("stream_id", "table_id", "new_merged_offset", "ingest_time_nanos", "start_merged_offset")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    NEW_MERGED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    INGEST_TIME_NANOS_FIELD_NUMBER: _ClassVar[int]
    START_MERGED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    stream_id: str
    table_id: str
    new_merged_offset: int
    ingest_time_nanos: int
    start_merged_offset: int
    def __init__(self, stream_id: _Optional[str] = ..., table_id: _Optional[str] = ..., new_merged_offset: _Optional[int] = ..., ingest_time_nanos: _Optional[int] = ..., start_merged_offset: _Optional[int] = ...) -> None: ...

class MergeRegistration(_message.Message):
    __slots__ = ("segment", "stream_offsets")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    STREAM_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    segment: _common_pb2.CreateSegment
    stream_offsets: _containers.RepeatedCompositeFieldContainer[StreamOffsetInfo]
    def __init__(self, segment: _Optional[_Union[_common_pb2.CreateSegment, _Mapping]] = ..., stream_offsets: _Optional[_Iterable[_Union[StreamOffsetInfo, _Mapping]]] = ...) -> None: ...

class RegisterMergedSegmentsRequest(_message.Message):
    __slots__ = ("database_id", "merges", "idle_advances", "register_request_id")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    MERGES_FIELD_NUMBER: _ClassVar[int]
    IDLE_ADVANCES_FIELD_NUMBER: _ClassVar[int]
    REGISTER_REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    merges: _containers.RepeatedCompositeFieldContainer[MergeRegistration]
    idle_advances: _containers.RepeatedCompositeFieldContainer[StreamOffsetInfo]
    register_request_id: str
    def __init__(self, database_id: _Optional[str] = ..., merges: _Optional[_Iterable[_Union[MergeRegistration, _Mapping]]] = ..., idle_advances: _Optional[_Iterable[_Union[StreamOffsetInfo, _Mapping]]] = ..., register_request_id: _Optional[str] = ...) -> None: ...

class RegisterMergedSegmentsResponse(_message.Message):
    __slots__ = ("segment_versions", "streams", "meta_response_seq")
    SEGMENT_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    META_RESPONSE_SEQ_FIELD_NUMBER: _ClassVar[int]
    segment_versions: _containers.RepeatedScalarFieldContainer[int]
    streams: _containers.RepeatedCompositeFieldContainer[IngestStreamInfo]
    meta_response_seq: int
    def __init__(self, segment_versions: _Optional[_Iterable[int]] = ..., streams: _Optional[_Iterable[_Union[IngestStreamInfo, _Mapping]]] = ..., meta_response_seq: _Optional[int] = ...) -> None: ...

class UpdateDeletedOffsetRequest(_message.Message):
    __slots__ = ("stream_id", "deleted_offset", "deleted_ingest_time_nanos")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    DELETED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELETED_INGEST_TIME_NANOS_FIELD_NUMBER: _ClassVar[int]
    stream_id: str
    deleted_offset: int
    deleted_ingest_time_nanos: int
    def __init__(self, stream_id: _Optional[str] = ..., deleted_offset: _Optional[int] = ..., deleted_ingest_time_nanos: _Optional[int] = ...) -> None: ...

class UpdateDeletedOffsetResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DeleteIngestStreamTableRequest(_message.Message):
    __slots__ = ("stream_id", "table_id", "current_offset", "merged_offset")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    CURRENT_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MERGED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    stream_id: str
    table_id: str
    current_offset: int
    merged_offset: int
    def __init__(self, stream_id: _Optional[str] = ..., table_id: _Optional[str] = ..., current_offset: _Optional[int] = ..., merged_offset: _Optional[int] = ...) -> None: ...

class DeleteIngestStreamTableResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
