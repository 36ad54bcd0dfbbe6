from moulin._proto.moulin.meta.v1 import common_pb2 as _common_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RegisterForStreamRequest(_message.Message):
    __slots__ = ("collector_string", "collector_id", "ingest_token")
    COLLECTOR_STRING_FIELD_NUMBER: _ClassVar[int]
    COLLECTOR_ID_FIELD_NUMBER: _ClassVar[int]
    INGEST_TOKEN_FIELD_NUMBER: _ClassVar[int]
    collector_string: str
    collector_id: str
    ingest_token: str
    def __init__(self, collector_string: _Optional[str] = ..., collector_id: _Optional[str] = ..., ingest_token: _Optional[str] = ...) -> None: ...

class StreamConfig(_message.Message):
    __slots__ = ("cloud_object_prefix", "flush_timeout_ms", "max_segment_size_bytes")
    CLOUD_OBJECT_PREFIX_FIELD_NUMBER: _ClassVar[int]
    FLUSH_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_SEGMENT_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    cloud_object_prefix: _common_pb2.CloudObjectPrefix
    flush_timeout_ms: int
    max_segment_size_bytes: int
    def __init__(self, cloud_object_prefix: _Optional[_Union[_common_pb2.CloudObjectPrefix, _Mapping]] = ..., flush_timeout_ms: _Optional[int] = ..., max_segment_size_bytes: _Optional[int] = ...) -> None: ...

class RegisterForStreamResponse(_message.Message):
    __slots__ = ("stream_id", "config", "token_id")
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    CONFIG_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    stream_id: str
    config: StreamConfig
    token_id: str
    def __init__(self, stream_id: _Optional[str] = ..., config: _Optional[_Union[StreamConfig, _Mapping]] = ..., token_id: _Optional[str] = ...) -> None: ...
