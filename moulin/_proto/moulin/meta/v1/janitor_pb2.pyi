from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetSegmentSizeStatsRequest(_message.Message):
    __slots__ = ("max_compressed_size", "min_age_secs", "max_age_secs", "table_id")
    MAX_COMPRESSED_SIZE_FIELD_NUMBER: _ClassVar[int]
    MIN_AGE_SECS_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_SECS_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    max_compressed_size: int
    min_age_secs: int
    max_age_secs: int
    table_id: str
    def __init__(self, max_compressed_size: _Optional[int] = ..., min_age_secs: _Optional[int] = ..., max_age_secs: _Optional[int] = ..., table_id: _Optional[str] = ...) -> None: ...

class SegmentSizeTier(_message.Message):
    __slots__ = ("tier", "tier_min", "tier_max", "segment_count", "total_size", "smallest", "largest", "avg_size", "earliest_time", "latest_time")
    TIER_FIELD_NUMBER: _ClassVar[int]
    TIER_MIN_FIELD_NUMBER: _ClassVar[int]
    TIER_MAX_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    TOTAL_SIZE_FIELD_NUMBER: _ClassVar[int]
    SMALLEST_FIELD_NUMBER: _ClassVar[int]
    LARGEST_FIELD_NUMBER: _ClassVar[int]
    AVG_SIZE_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_TIME_FIELD_NUMBER: _ClassVar[int]
    LATEST_TIME_FIELD_NUMBER: _ClassVar[int]
    tier: int
    tier_min: str
    tier_max: str
    segment_count: int
    total_size: int
    smallest: int
    largest: int
    avg_size: int
    earliest_time: str
    latest_time: str
    def __init__(self, tier: _Optional[int] = ..., tier_min: _Optional[str] = ..., tier_max: _Optional[str] = ..., segment_count: _Optional[int] = ..., total_size: _Optional[int] = ..., smallest: _Optional[int] = ..., largest: _Optional[int] = ..., avg_size: _Optional[int] = ..., earliest_time: _Optional[str] = ..., latest_time: _Optional[str] = ...) -> None: ...

class GetSegmentSizeStatsResponse(_message.Message):
    __slots__ = ("tiers",)
    TIERS_FIELD_NUMBER: _ClassVar[int]
    tiers: _containers.RepeatedCompositeFieldContainer[SegmentSizeTier]
    def __init__(self, tiers: _Optional[_Iterable[_Union[SegmentSizeTier, _Mapping]]] = ...) -> None: ...

class GetJanitorStatsRequest(_message.Message):
    __slots__ = ("table_id",)
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    def __init__(self, table_id: _Optional[str] = ...) -> None: ...

class GetJanitorStatsResponse(_message.Message):
    __slots__ = ("segment_count", "outstanding_merge_tasks", "total_size_bytes", "total_compressed_size_bytes", "segments_incl_tombstoned")
    SEGMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    OUTSTANDING_MERGE_TASKS_FIELD_NUMBER: _ClassVar[int]
    TOTAL_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOTAL_COMPRESSED_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_INCL_TOMBSTONED_FIELD_NUMBER: _ClassVar[int]
    segment_count: int
    outstanding_merge_tasks: int
    total_size_bytes: int
    total_compressed_size_bytes: int
    segments_incl_tombstoned: int
    def __init__(self, segment_count: _Optional[int] = ..., outstanding_merge_tasks: _Optional[int] = ..., total_size_bytes: _Optional[int] = ..., total_compressed_size_bytes: _Optional[int] = ..., segments_incl_tombstoned: _Optional[int] = ...) -> None: ...

class ListMergeTasksRequest(_message.Message):
    __slots__ = ("table_id",)
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    def __init__(self, table_id: _Optional[str] = ...) -> None: ...

class ListMergeTasksResponse(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[MergeTaskSummary]
    def __init__(self, tasks: _Optional[_Iterable[_Union[MergeTaskSummary, _Mapping]]] = ...) -> None: ...

class MergeTaskSummary(_message.Message):
    __slots__ = ("task_id", "table_id", "segment_count", "assigned_to_worker", "created_at", "assigned_at")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_TO_WORKER_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_AT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    table_id: str
    segment_count: int
    assigned_to_worker: str
    created_at: str
    assigned_at: str
    def __init__(self, task_id: _Optional[str] = ..., table_id: _Optional[str] = ..., segment_count: _Optional[int] = ..., assigned_to_worker: _Optional[str] = ..., created_at: _Optional[str] = ..., assigned_at: _Optional[str] = ...) -> None: ...

class GetMergeTaskRequest(_message.Message):
    __slots__ = ("task_id",)
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    def __init__(self, task_id: _Optional[str] = ...) -> None: ...

class UnclaimMergeTaskRequest(_message.Message):
    __slots__ = ("task_id", "min_claimed_secs")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    MIN_CLAIMED_SECS_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    min_claimed_secs: int
    def __init__(self, task_id: _Optional[str] = ..., min_claimed_secs: _Optional[int] = ...) -> None: ...

class UnclaimMergeTaskResponse(_message.Message):
    __slots__ = ("unclaimed",)
    UNCLAIMED_FIELD_NUMBER: _ClassVar[int]
    unclaimed: bool
    def __init__(self, unclaimed: _Optional[bool] = ...) -> None: ...

class CreateMergeTasksRequest(_message.Message):
    __slots__ = ("max_compressed_size", "min_age_secs", "max_age_secs", "table_id")
    MAX_COMPRESSED_SIZE_FIELD_NUMBER: _ClassVar[int]
    MIN_AGE_SECS_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_SECS_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    max_compressed_size: int
    min_age_secs: int
    max_age_secs: int
    table_id: str
    def __init__(self, max_compressed_size: _Optional[int] = ..., min_age_secs: _Optional[int] = ..., max_age_secs: _Optional[int] = ..., table_id: _Optional[str] = ...) -> None: ...

class CreateMergeTasksResponse(_message.Message):
    __slots__ = ("tasks_created", "segments_included")
    TASKS_CREATED_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_INCLUDED_FIELD_NUMBER: _ClassVar[int]
    tasks_created: int
    segments_included: int
    def __init__(self, tasks_created: _Optional[int] = ..., segments_included: _Optional[int] = ...) -> None: ...

class GetMergeTaskResponse(_message.Message):
    __slots__ = ("task_id", "table_id", "segment_count", "assigned_to_worker", "created_at", "smallest_segment_size", "largest_segment_size", "smallest_segment_compressed_size", "largest_segment_compressed_size", "earliest_time", "latest_time", "total_size", "total_compressed_size", "assigned_at")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_COUNT_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_TO_WORKER_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    SMALLEST_SEGMENT_SIZE_FIELD_NUMBER: _ClassVar[int]
    LARGEST_SEGMENT_SIZE_FIELD_NUMBER: _ClassVar[int]
    SMALLEST_SEGMENT_COMPRESSED_SIZE_FIELD_NUMBER: _ClassVar[int]
    LARGEST_SEGMENT_COMPRESSED_SIZE_FIELD_NUMBER: _ClassVar[int]
    EARLIEST_TIME_FIELD_NUMBER: _ClassVar[int]
    LATEST_TIME_FIELD_NUMBER: _ClassVar[int]
    TOTAL_SIZE_FIELD_NUMBER: _ClassVar[int]
    TOTAL_COMPRESSED_SIZE_FIELD_NUMBER: _ClassVar[int]
    ASSIGNED_AT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    table_id: str
    segment_count: int
    assigned_to_worker: str
    created_at: str
    smallest_segment_size: int
    largest_segment_size: int
    smallest_segment_compressed_size: int
    largest_segment_compressed_size: int
    earliest_time: str
    latest_time: str
    total_size: int
    total_compressed_size: int
    assigned_at: str
    def __init__(self, task_id: _Optional[str] = ..., table_id: _Optional[str] = ..., segment_count: _Optional[int] = ..., assigned_to_worker: _Optional[str] = ..., created_at: _Optional[str] = ..., smallest_segment_size: _Optional[int] = ..., largest_segment_size: _Optional[int] = ..., smallest_segment_compressed_size: _Optional[int] = ..., largest_segment_compressed_size: _Optional[int] = ..., earliest_time: _Optional[str] = ..., latest_time: _Optional[str] = ..., total_size: _Optional[int] = ..., total_compressed_size: _Optional[int] = ..., assigned_at: _Optional[str] = ...) -> None: ...

class RewriteAllSegmentsRequest(_message.Message):
    __slots__ = ("table_id",)
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    def __init__(self, table_id: _Optional[str] = ...) -> None: ...

class RewriteAllSegmentsResponse(_message.Message):
    __slots__ = ("tasks_created", "segments_included")
    TASKS_CREATED_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_INCLUDED_FIELD_NUMBER: _ClassVar[int]
    tasks_created: int
    segments_included: int
    def __init__(self, tasks_created: _Optional[int] = ..., segments_included: _Optional[int] = ...) -> None: ...

class DeleteMergeTaskRequest(_message.Message):
    __slots__ = ("task_id",)
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    def __init__(self, task_id: _Optional[str] = ...) -> None: ...

class DeleteMergeTaskResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    def __init__(self, deleted: _Optional[bool] = ...) -> None: ...
