from moulin._proto.moulin.meta.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetTombstonedSegmentsForDeletionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetTombstonedSegmentsForDeletionResponse(_message.Message):
    __slots__ = ("segments",)
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedCompositeFieldContainer[TombstonedSegmentInfo]
    def __init__(self, segments: _Optional[_Iterable[_Union[TombstonedSegmentInfo, _Mapping]]] = ...) -> None: ...

class TombstonedSegmentInfo(_message.Message):
    __slots__ = ("segment_id", "table_id", "cloud_object_key", "tombstone_time_nanos", "tombstone_version")
    SEGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    CLOUD_OBJECT_KEY_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_TIME_NANOS_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_VERSION_FIELD_NUMBER: _ClassVar[int]
    segment_id: str
    table_id: str
    cloud_object_key: _common_pb2.CloudObjectKey
    tombstone_time_nanos: int
    tombstone_version: int
    def __init__(self, segment_id: _Optional[str] = ..., table_id: _Optional[str] = ..., cloud_object_key: _Optional[_Union[_common_pb2.CloudObjectKey, _Mapping]] = ..., tombstone_time_nanos: _Optional[int] = ..., tombstone_version: _Optional[int] = ...) -> None: ...

class ConfirmTombstoneDeletionRequest(_message.Message):
    __slots__ = ("segment_ids",)
    SEGMENT_IDS_FIELD_NUMBER: _ClassVar[int]
    segment_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, segment_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ConfirmTombstoneDeletionResponse(_message.Message):
    __slots__ = ("success", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: ConfirmTombstoneDeletionSuccess
    error: ConfirmTombstoneDeletionError
    def __init__(self, success: _Optional[_Union[ConfirmTombstoneDeletionSuccess, _Mapping]] = ..., error: _Optional[_Union[ConfirmTombstoneDeletionError, _Mapping]] = ...) -> None: ...

class ConfirmTombstoneDeletionSuccess(_message.Message):
    __slots__ = ("deleted_count", "journals_ready")
    DELETED_COUNT_FIELD_NUMBER: _ClassVar[int]
    JOURNALS_READY_FIELD_NUMBER: _ClassVar[int]
    deleted_count: int
    journals_ready: _containers.RepeatedCompositeFieldContainer[RewriteJournalReadyForDeletion]
    def __init__(self, deleted_count: _Optional[int] = ..., journals_ready: _Optional[_Iterable[_Union[RewriteJournalReadyForDeletion, _Mapping]]] = ...) -> None: ...

class RewriteJournalReadyForDeletion(_message.Message):
    __slots__ = ("output_segment_id", "journal_key")
    OUTPUT_SEGMENT_ID_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_KEY_FIELD_NUMBER: _ClassVar[int]
    output_segment_id: str
    journal_key: _common_pb2.CloudObjectKey
    def __init__(self, output_segment_id: _Optional[str] = ..., journal_key: _Optional[_Union[_common_pb2.CloudObjectKey, _Mapping]] = ...) -> None: ...

class ConfirmTombstoneDeletionError(_message.Message):
    __slots__ = ("message",)
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    message: str
    def __init__(self, message: _Optional[str] = ...) -> None: ...

class ConfirmRewriteJournalDeletionRequest(_message.Message):
    __slots__ = ("output_segment_ids",)
    OUTPUT_SEGMENT_IDS_FIELD_NUMBER: _ClassVar[int]
    output_segment_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, output_segment_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ConfirmRewriteJournalDeletionResponse(_message.Message):
    __slots__ = ("cleared_count",)
    CLEARED_COUNT_FIELD_NUMBER: _ClassVar[int]
    cleared_count: int
    def __init__(self, cleared_count: _Optional[int] = ...) -> None: ...
