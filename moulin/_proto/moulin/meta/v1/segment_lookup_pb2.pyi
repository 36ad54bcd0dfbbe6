from moulin._proto.moulin.meta.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class FindSegmentsRequest(_message.Message):
    __slots__ = ("time_range", "table_names", "limit", "cursor", "database_id")
    TIME_RANGE_FIELD_NUMBER: _ClassVar[int]
    TABLE_NAMES_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    time_range: _common_pb2.TimeRange
    table_names: _containers.RepeatedScalarFieldContainer[str]
    limit: int
    cursor: str
    database_id: str
    def __init__(self, time_range: _Optional[_Union[_common_pb2.TimeRange, _Mapping]] = ..., table_names: _Optional[_Iterable[str]] = ..., limit: _Optional[int] = ..., cursor: _Optional[str] = ..., database_id: _Optional[str] = ...) -> None: ...

class PagedResponse(_message.Message):
    __slots__ = ("next_cursor",)
    NEXT_CURSOR_FIELD_NUMBER: _ClassVar[int]
    next_cursor: str
    def __init__(self, next_cursor: _Optional[str] = ...) -> None: ...

class FindSegmentsResponse(_message.Message):
    __slots__ = ("segments", "page", "current_version")
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    CURRENT_VERSION_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedCompositeFieldContainer[_common_pb2.SegmentInfo]
    page: PagedResponse
    current_version: int
    def __init__(self, segments: _Optional[_Iterable[_Union[_common_pb2.SegmentInfo, _Mapping]]] = ..., page: _Optional[_Union[PagedResponse, _Mapping]] = ..., current_version: _Optional[int] = ...) -> None: ...

class GetSegmentsByIdsRequest(_message.Message):
    __slots__ = ("segment_ids",)
    SEGMENT_IDS_FIELD_NUMBER: _ClassVar[int]
    segment_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, segment_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class GetSegmentsByIdsResponse(_message.Message):
    __slots__ = ("segments",)
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedCompositeFieldContainer[_common_pb2.SegmentInfo]
    def __init__(self, segments: _Optional[_Iterable[_Union[_common_pb2.SegmentInfo, _Mapping]]] = ...) -> None: ...

class ListWarmCandidatesRequest(_message.Message):
    __slots__ = ("limit", "cursor")
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    limit: int
    cursor: str
    def __init__(self, limit: _Optional[int] = ..., cursor: _Optional[str] = ...) -> None: ...

class ListWarmCandidatesResponse(_message.Message):
    __slots__ = ("segments", "page")
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    PAGE_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedCompositeFieldContainer[_common_pb2.SegmentInfo]
    page: PagedResponse
    def __init__(self, segments: _Optional[_Iterable[_Union[_common_pb2.SegmentInfo, _Mapping]]] = ..., page: _Optional[_Union[PagedResponse, _Mapping]] = ...) -> None: ...
