from moulin._proto.moulin.meta.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class HeartbeatSegmentMergeTaskRequest(_message.Message):
    __slots__ = ("task_id", "attempt", "lease_seconds")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt: int
    lease_seconds: int
    def __init__(self, task_id: _Optional[str] = ..., attempt: _Optional[int] = ..., lease_seconds: _Optional[int] = ...) -> None: ...

class HeartbeatSegmentMergeTaskResponse(_message.Message):
    __slots__ = ("lease_until_unix_ns",)
    LEASE_UNTIL_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    lease_until_unix_ns: int
    def __init__(self, lease_until_unix_ns: _Optional[int] = ...) -> None: ...

class PollForSegmentMergeTaskRequest(_message.Message):
    __slots__ = ("worker_id", "lease_seconds", "table_id")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    lease_seconds: int
    table_id: str
    def __init__(self, worker_id: _Optional[str] = ..., lease_seconds: _Optional[int] = ..., table_id: _Optional[str] = ...) -> None: ...

class PollForSegmentMergeTaskResponse(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: _common_pb2.SegmentMergeTaskInfo
    def __init__(self, task: _Optional[_Union[_common_pb2.SegmentMergeTaskInfo, _Mapping]] = ...) -> None: ...

class CompleteSegmentMergeTaskRequest(_message.Message):
    __slots__ = ("task_id", "merged_segment", "rewrite_journal_relative_path", "attempt", "merged_segments", "rewrite_journal_relative_paths")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    MERGED_SEGMENT_FIELD_NUMBER: _ClassVar[int]
    REWRITE_JOURNAL_RELATIVE_PATH_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    MERGED_SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    REWRITE_JOURNAL_RELATIVE_PATHS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    merged_segment: _common_pb2.CreateSegment
    rewrite_journal_relative_path: str
    attempt: int
    merged_segments: _containers.RepeatedCompositeFieldContainer[_common_pb2.CreateSegment]
    rewrite_journal_relative_paths: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, task_id: _Optional[str] = ..., merged_segment: _Optional[_Union[_common_pb2.CreateSegment, _Mapping]] = ..., rewrite_journal_relative_path: _Optional[str] = ..., attempt: _Optional[int] = ..., merged_segments: _Optional[_Iterable[_Union[_common_pb2.CreateSegment, _Mapping]]] = ..., rewrite_journal_relative_paths: _Optional[_Iterable[str]] = ...) -> None: ...

class CompleteSegmentMergeTaskResponse(_message.Message):
    __slots__ = ("success", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: CompleteSegmentMergeTaskSuccess
    error: CompleteSegmentMergeTaskError
    def __init__(self, success: _Optional[_Union[CompleteSegmentMergeTaskSuccess, _Mapping]] = ..., error: _Optional[_Union[CompleteSegmentMergeTaskError, _Mapping]] = ...) -> None: ...

class CompleteSegmentMergeTaskSuccess(_message.Message):
    __slots__ = ("version", "segment_ids")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_IDS_FIELD_NUMBER: _ClassVar[int]
    version: int
    segment_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, version: _Optional[int] = ..., segment_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class CompleteSegmentMergeTaskError(_message.Message):
    __slots__ = ("message",)
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    message: str
    def __init__(self, message: _Optional[str] = ...) -> None: ...

class FailSegmentMergeTaskRequest(_message.Message):
    __slots__ = ("task_id", "error_message", "attempt")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    error_message: str
    attempt: int
    def __init__(self, task_id: _Optional[str] = ..., error_message: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class FailSegmentMergeTaskResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
