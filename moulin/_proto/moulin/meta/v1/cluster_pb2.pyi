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
