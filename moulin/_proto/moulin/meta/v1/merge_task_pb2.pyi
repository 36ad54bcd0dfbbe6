from moulin._proto.moulin.meta.v1 import common_pb2 as _common_pb2
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PollForSegmentMergeTaskRequest(_message.Message):
    __slots__ = ("worker_id",)
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    def __init__(self, worker_id: _Optional[str] = ...) -> None: ...

class PollForSegmentMergeTaskResponse(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: _common_pb2.SegmentMergeTaskInfo
    def __init__(self, task: _Optional[_Union[_common_pb2.SegmentMergeTaskInfo, _Mapping]] = ...) -> None: ...

class CompleteSegmentMergeTaskRequest(_message.Message):
    __slots__ = ("task_id", "merged_segment", "rewrite_journal_relative_path")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    MERGED_SEGMENT_FIELD_NUMBER: _ClassVar[int]
    REWRITE_JOURNAL_RELATIVE_PATH_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    merged_segment: _common_pb2.CreateSegment
    rewrite_journal_relative_path: str
    def __init__(self, task_id: _Optional[str] = ..., merged_segment: _Optional[_Union[_common_pb2.CreateSegment, _Mapping]] = ..., rewrite_journal_relative_path: _Optional[str] = ...) -> None: ...

class CompleteSegmentMergeTaskResponse(_message.Message):
    __slots__ = ("success", "error")
    SUCCESS_FIELD_NUMBER: _ClassVar[int]
    ERROR_FIELD_NUMBER: _ClassVar[int]
    success: CompleteSegmentMergeTaskSuccess
    error: CompleteSegmentMergeTaskError
    def __init__(self, success: _Optional[_Union[CompleteSegmentMergeTaskSuccess, _Mapping]] = ..., error: _Optional[_Union[CompleteSegmentMergeTaskError, _Mapping]] = ...) -> None: ...

class CompleteSegmentMergeTaskSuccess(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class CompleteSegmentMergeTaskError(_message.Message):
    __slots__ = ("message",)
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    message: str
    def __init__(self, message: _Optional[str] = ...) -> None: ...

class FailSegmentMergeTaskRequest(_message.Message):
    __slots__ = ("task_id", "error_message")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ERROR_MESSAGE_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    error_message: str
    def __init__(self, task_id: _Optional[str] = ..., error_message: _Optional[str] = ...) -> None: ...

class FailSegmentMergeTaskResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
