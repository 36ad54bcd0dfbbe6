from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class MemberKind(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MEMBER_KIND_UNSPECIFIED: _ClassVar[MemberKind]
    MEMBER_KIND_QWS_CLOUD: _ClassVar[MemberKind]
    MEMBER_KIND_QWS_NURSERY: _ClassVar[MemberKind]
MEMBER_KIND_UNSPECIFIED: MemberKind
MEMBER_KIND_QWS_CLOUD: MemberKind
MEMBER_KIND_QWS_NURSERY: MemberKind

class GetConfigurationRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetConfigurationResponse(_message.Message):
    __slots__ = ("cluster_id", "lake_id", "database_grace_seconds", "table_grace_seconds", "view_grace_seconds", "ingest_token_grace_seconds", "tombstone_min_age_seconds", "max_merge_time_span_ns", "member_ttl_seconds", "baby_segment_keep_seconds", "checkpoint_keep_seconds", "history_keep_seconds", "orphan_grace_seconds", "merge_lease_seconds", "flush_timeout_ms", "max_segment_size_bytes", "token_recheck_seconds", "now_unix_ns")
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    LAKE_ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_GRACE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TABLE_GRACE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    VIEW_GRACE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    INGEST_TOKEN_GRACE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_MIN_AGE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MAX_MERGE_TIME_SPAN_NS_FIELD_NUMBER: _ClassVar[int]
    MEMBER_TTL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BABY_SEGMENT_KEEP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_KEEP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    HISTORY_KEEP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ORPHAN_GRACE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MERGE_LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    FLUSH_TIMEOUT_MS_FIELD_NUMBER: _ClassVar[int]
    MAX_SEGMENT_SIZE_BYTES_FIELD_NUMBER: _ClassVar[int]
    TOKEN_RECHECK_SECONDS_FIELD_NUMBER: _ClassVar[int]
    NOW_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    lake_id: str
    database_grace_seconds: int
    table_grace_seconds: int
    view_grace_seconds: int
    ingest_token_grace_seconds: int
    tombstone_min_age_seconds: int
    max_merge_time_span_ns: int
    member_ttl_seconds: int
    baby_segment_keep_seconds: int
    checkpoint_keep_seconds: int
    history_keep_seconds: int
    orphan_grace_seconds: int
    merge_lease_seconds: int
    flush_timeout_ms: int
    max_segment_size_bytes: int
    token_recheck_seconds: int
    now_unix_ns: int
    def __init__(self, cluster_id: _Optional[str] = ..., lake_id: _Optional[str] = ..., database_grace_seconds: _Optional[int] = ..., table_grace_seconds: _Optional[int] = ..., view_grace_seconds: _Optional[int] = ..., ingest_token_grace_seconds: _Optional[int] = ..., tombstone_min_age_seconds: _Optional[int] = ..., max_merge_time_span_ns: _Optional[int] = ..., member_ttl_seconds: _Optional[int] = ..., baby_segment_keep_seconds: _Optional[int] = ..., checkpoint_keep_seconds: _Optional[int] = ..., history_keep_seconds: _Optional[int] = ..., orphan_grace_seconds: _Optional[int] = ..., merge_lease_seconds: _Optional[int] = ..., flush_timeout_ms: _Optional[int] = ..., max_segment_size_bytes: _Optional[int] = ..., token_recheck_seconds: _Optional[int] = ..., now_unix_ns: _Optional[int] = ...) -> None: ...

class RegisterMemberRequest(_message.Message):
    __slots__ = ("id", "kind", "endpoint", "weight")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: MemberKind
    endpoint: str
    weight: int
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[_Union[MemberKind, str]] = ..., endpoint: _Optional[str] = ..., weight: _Optional[int] = ...) -> None: ...

class RegisterMemberResponse(_message.Message):
    __slots__ = ("cluster_id",)
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    cluster_id: str
    def __init__(self, cluster_id: _Optional[str] = ...) -> None: ...

class ListMembersRequest(_message.Message):
    __slots__ = ("kind",)
    KIND_FIELD_NUMBER: _ClassVar[int]
    kind: MemberKind
    def __init__(self, kind: _Optional[_Union[MemberKind, str]] = ...) -> None: ...

class MemberRecord(_message.Message):
    __slots__ = ("id", "kind", "endpoint", "last_heartbeat_nanos", "weight")
    ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    ENDPOINT_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARTBEAT_NANOS_FIELD_NUMBER: _ClassVar[int]
    WEIGHT_FIELD_NUMBER: _ClassVar[int]
    id: str
    kind: MemberKind
    endpoint: str
    last_heartbeat_nanos: int
    weight: int
    def __init__(self, id: _Optional[str] = ..., kind: _Optional[_Union[MemberKind, str]] = ..., endpoint: _Optional[str] = ..., last_heartbeat_nanos: _Optional[int] = ..., weight: _Optional[int] = ...) -> None: ...

class ListMembersResponse(_message.Message):
    __slots__ = ("members", "cluster_id")
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    CLUSTER_ID_FIELD_NUMBER: _ClassVar[int]
    members: _containers.RepeatedCompositeFieldContainer[MemberRecord]
    cluster_id: str
    def __init__(self, members: _Optional[_Iterable[_Union[MemberRecord, _Mapping]]] = ..., cluster_id: _Optional[str] = ...) -> None: ...
