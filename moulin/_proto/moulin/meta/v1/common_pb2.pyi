from moulin._proto.moulin.format.v1 import manifest_pb2 as _manifest_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Tombstone(_message.Message):
    __slots__ = ("tombstoned_at_unix_ns", "delete_at_unix_ns")
    TOMBSTONED_AT_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    DELETE_AT_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    tombstoned_at_unix_ns: int
    delete_at_unix_ns: int
    def __init__(self, tombstoned_at_unix_ns: _Optional[int] = ..., delete_at_unix_ns: _Optional[int] = ...) -> None: ...

class CloudBucket(_message.Message):
    __slots__ = ("endpoint", "bucket", "region", "path", "provider")
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    PROVIDER_FIELD_NUMBER: _ClassVar[int]
    endpoint: str
    bucket: str
    region: str
    path: str
    provider: str
    def __init__(self, endpoint: _Optional[str] = ..., bucket: _Optional[str] = ..., region: _Optional[str] = ..., path: _Optional[str] = ..., provider: _Optional[str] = ...) -> None: ...

class CloudObjectPrefix(_message.Message):
    __slots__ = ("bucket", "prefix")
    BUCKET_FIELD_NUMBER: _ClassVar[int]
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    bucket: CloudBucket
    prefix: str
    def __init__(self, bucket: _Optional[_Union[CloudBucket, _Mapping]] = ..., prefix: _Optional[str] = ...) -> None: ...

class CloudObjectKey(_message.Message):
    __slots__ = ("prefix", "key")
    PREFIX_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    prefix: CloudObjectPrefix
    key: str
    def __init__(self, prefix: _Optional[_Union[CloudObjectPrefix, _Mapping]] = ..., key: _Optional[str] = ...) -> None: ...

class TimeRange(_message.Message):
    __slots__ = ("start_time", "end_time")
    START_TIME_FIELD_NUMBER: _ClassVar[int]
    END_TIME_FIELD_NUMBER: _ClassVar[int]
    start_time: int
    end_time: int
    def __init__(self, start_time: _Optional[int] = ..., end_time: _Optional[int] = ...) -> None: ...

class CreateSegment(_message.Message):
    __slots__ = ("table_id", "time_range", "size_bytes", "compressed_size_bytes", "number_of_events", "cloud_object_key", "audt_hash", "audt_algo", "ingest_time_range", "data_file")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    TIME_RANGE_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMPRESSED_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    NUMBER_OF_EVENTS_FIELD_NUMBER: _ClassVar[int]
    CLOUD_OBJECT_KEY_FIELD_NUMBER: _ClassVar[int]
    AUDT_HASH_FIELD_NUMBER: _ClassVar[int]
    AUDT_ALGO_FIELD_NUMBER: _ClassVar[int]
    INGEST_TIME_RANGE_FIELD_NUMBER: _ClassVar[int]
    DATA_FILE_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    time_range: TimeRange
    size_bytes: int
    compressed_size_bytes: int
    number_of_events: int
    cloud_object_key: CloudObjectKey
    audt_hash: bytes
    audt_algo: int
    ingest_time_range: TimeRange
    data_file: _manifest_pb2.DataFileRef
    def __init__(self, table_id: _Optional[str] = ..., time_range: _Optional[_Union[TimeRange, _Mapping]] = ..., size_bytes: _Optional[int] = ..., compressed_size_bytes: _Optional[int] = ..., number_of_events: _Optional[int] = ..., cloud_object_key: _Optional[_Union[CloudObjectKey, _Mapping]] = ..., audt_hash: _Optional[bytes] = ..., audt_algo: _Optional[int] = ..., ingest_time_range: _Optional[_Union[TimeRange, _Mapping]] = ..., data_file: _Optional[_Union[_manifest_pb2.DataFileRef, _Mapping]] = ...) -> None: ...

class SegmentInfo(_message.Message):
    __slots__ = ("id", "time_range", "size_bytes", "compressed_size_bytes", "number_of_events", "table_id", "cloud_object_key", "audt_hash", "audt_algo", "ingest_time_range")
    ID_FIELD_NUMBER: _ClassVar[int]
    TIME_RANGE_FIELD_NUMBER: _ClassVar[int]
    SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    COMPRESSED_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    NUMBER_OF_EVENTS_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    CLOUD_OBJECT_KEY_FIELD_NUMBER: _ClassVar[int]
    AUDT_HASH_FIELD_NUMBER: _ClassVar[int]
    AUDT_ALGO_FIELD_NUMBER: _ClassVar[int]
    INGEST_TIME_RANGE_FIELD_NUMBER: _ClassVar[int]
    id: str
    time_range: TimeRange
    size_bytes: int
    compressed_size_bytes: int
    number_of_events: int
    table_id: str
    cloud_object_key: CloudObjectKey
    audt_hash: bytes
    audt_algo: int
    ingest_time_range: TimeRange
    def __init__(self, id: _Optional[str] = ..., time_range: _Optional[_Union[TimeRange, _Mapping]] = ..., size_bytes: _Optional[int] = ..., compressed_size_bytes: _Optional[int] = ..., number_of_events: _Optional[int] = ..., table_id: _Optional[str] = ..., cloud_object_key: _Optional[_Union[CloudObjectKey, _Mapping]] = ..., audt_hash: _Optional[bytes] = ..., audt_algo: _Optional[int] = ..., ingest_time_range: _Optional[_Union[TimeRange, _Mapping]] = ...) -> None: ...

class ShardingField(_message.Message):
    __slots__ = ("field_name", "weight")
    FIELD_NAME_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    field_name: str
    weight: float
    def __init__(self, field_name: _Optional[str] = ..., weight: _Optional[float] = ...) -> None: ...

class SegmentMergeTaskInfo(_message.Message):
    __slots__ = ("task_id", "table_id", "segments", "cloud_object_prefix", "sharding_fields")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    CLOUD_OBJECT_PREFIX_FIELD_NUMBER: _ClassVar[int]
    SHARDING_FIELDS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    table_id: str
    segments: _containers.RepeatedCompositeFieldContainer[SegmentInfo]
    cloud_object_prefix: CloudObjectPrefix
    sharding_fields: _containers.RepeatedCompositeFieldContainer[ShardingField]
    def __init__(self, task_id: _Optional[str] = ..., table_id: _Optional[str] = ..., segments: _Optional[_Iterable[_Union[SegmentInfo, _Mapping]]] = ..., cloud_object_prefix: _Optional[_Union[CloudObjectPrefix, _Mapping]] = ..., sharding_fields: _Optional[_Iterable[_Union[ShardingField, _Mapping]]] = ...) -> None: ...

class TableInfo(_message.Message):
    __slots__ = ("id", "name", "cloud_object_prefix", "database_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CLOUD_OBJECT_PREFIX_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    cloud_object_prefix: CloudObjectPrefix
    database_id: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., cloud_object_prefix: _Optional[_Union[CloudObjectPrefix, _Mapping]] = ..., database_id: _Optional[str] = ...) -> None: ...
