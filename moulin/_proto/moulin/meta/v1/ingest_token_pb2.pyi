from moulin._proto.moulin.meta.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RotateIngestTokenRequest(_message.Message):
    __slots__ = ("database_id", "token_id", "overlap_seconds", "expires_in_seconds")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    OVERLAP_SECONDS_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    token_id: str
    overlap_seconds: int
    expires_in_seconds: int
    def __init__(self, database_id: _Optional[str] = ..., token_id: _Optional[str] = ..., overlap_seconds: _Optional[int] = ..., expires_in_seconds: _Optional[int] = ...) -> None: ...

class RotateIngestTokenResponse(_message.Message):
    __slots__ = ("plaintext_token", "token")
    PLAINTEXT_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    plaintext_token: str
    token: IngestTokenInfo
    def __init__(self, plaintext_token: _Optional[str] = ..., token: _Optional[_Union[IngestTokenInfo, _Mapping]] = ...) -> None: ...

class IngestTokenRouting(_message.Message):
    __slots__ = ("traces_table_id", "logs_table_id", "metrics_table_id")
    TRACES_TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    LOGS_TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    METRICS_TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    traces_table_id: str
    logs_table_id: str
    metrics_table_id: str
    def __init__(self, traces_table_id: _Optional[str] = ..., logs_table_id: _Optional[str] = ..., metrics_table_id: _Optional[str] = ...) -> None: ...

class IngestTokenInfo(_message.Message):
    __slots__ = ("id", "name", "created_at", "routing", "token_hint", "database_id", "tombstone", "expires_at_unix_ns")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    ROUTING_FIELD_NUMBER: _ClassVar[int]
    TOKEN_HINT_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_UNIX_NS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    created_at: str
    routing: IngestTokenRouting
    token_hint: str
    database_id: str
    tombstone: _common_pb2.Tombstone
    expires_at_unix_ns: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., created_at: _Optional[str] = ..., routing: _Optional[_Union[IngestTokenRouting, _Mapping]] = ..., token_hint: _Optional[str] = ..., database_id: _Optional[str] = ..., tombstone: _Optional[_Union[_common_pb2.Tombstone, _Mapping]] = ..., expires_at_unix_ns: _Optional[int] = ...) -> None: ...

class CreateIngestTokenRequest(_message.Message):
    __slots__ = ("database_id", "name", "traces_table_id", "logs_table_id", "metrics_table_id", "expires_in_seconds")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TRACES_TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    LOGS_TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    METRICS_TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    name: str
    traces_table_id: str
    logs_table_id: str
    metrics_table_id: str
    expires_in_seconds: int
    def __init__(self, database_id: _Optional[str] = ..., name: _Optional[str] = ..., traces_table_id: _Optional[str] = ..., logs_table_id: _Optional[str] = ..., metrics_table_id: _Optional[str] = ..., expires_in_seconds: _Optional[int] = ...) -> None: ...

class CreateIngestTokenResponse(_message.Message):
    __slots__ = ("plaintext_token", "token")
    PLAINTEXT_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    plaintext_token: str
    token: IngestTokenInfo
    def __init__(self, plaintext_token: _Optional[str] = ..., token: _Optional[_Union[IngestTokenInfo, _Mapping]] = ...) -> None: ...

class ValidateIngestTokenRequest(_message.Message):
    __slots__ = ("plaintext_token",)
    PLAINTEXT_TOKEN_FIELD_NUMBER: _ClassVar[int]
    plaintext_token: str
    def __init__(self, plaintext_token: _Optional[str] = ...) -> None: ...

class ValidateIngestTokenResponse(_message.Message):
    __slots__ = ("token_id", "routing", "database_id")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    ROUTING_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    token_id: str
    routing: IngestTokenRouting
    database_id: str
    def __init__(self, token_id: _Optional[str] = ..., routing: _Optional[_Union[IngestTokenRouting, _Mapping]] = ..., database_id: _Optional[str] = ...) -> None: ...

class DeleteIngestTokenRequest(_message.Message):
    __slots__ = ("database_id", "token_id")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    token_id: str
    def __init__(self, database_id: _Optional[str] = ..., token_id: _Optional[str] = ...) -> None: ...

class DeleteIngestTokenResponse(_message.Message):
    __slots__ = ("tombstone",)
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    tombstone: _common_pb2.Tombstone
    def __init__(self, tombstone: _Optional[_Union[_common_pb2.Tombstone, _Mapping]] = ...) -> None: ...

class ResurrectIngestTokenRequest(_message.Message):
    __slots__ = ("database_id", "token_id")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    token_id: str
    def __init__(self, database_id: _Optional[str] = ..., token_id: _Optional[str] = ...) -> None: ...

class ResurrectIngestTokenResponse(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: IngestTokenInfo
    def __init__(self, token: _Optional[_Union[IngestTokenInfo, _Mapping]] = ...) -> None: ...

class ListIngestTokensRequest(_message.Message):
    __slots__ = ("database_id", "include_deleted")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_DELETED_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    include_deleted: bool
    def __init__(self, database_id: _Optional[str] = ..., include_deleted: _Optional[bool] = ...) -> None: ...

class ListIngestTokensResponse(_message.Message):
    __slots__ = ("tokens",)
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    tokens: _containers.RepeatedCompositeFieldContainer[IngestTokenInfo]
    def __init__(self, tokens: _Optional[_Iterable[_Union[IngestTokenInfo, _Mapping]]] = ...) -> None: ...

class GetIngestTokenRequest(_message.Message):
    __slots__ = ("database_id", "token_id", "include_deleted")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_DELETED_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    token_id: str
    include_deleted: bool
    def __init__(self, database_id: _Optional[str] = ..., token_id: _Optional[str] = ..., include_deleted: _Optional[bool] = ...) -> None: ...

class GetIngestTokenResponse(_message.Message):
    __slots__ = ("token",)
    TOKEN_FIELD_NUMBER: _ClassVar[int]
    token: IngestTokenInfo
    def __init__(self, token: _Optional[_Union[IngestTokenInfo, _Mapping]] = ...) -> None: ...

class UpdateIngestTokenRoutingRequest(_message.Message):
    __slots__ = ("database_id", "token_id", "routing")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    ROUTING_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    token_id: str
    routing: IngestTokenRouting
    def __init__(self, database_id: _Optional[str] = ..., token_id: _Optional[str] = ..., routing: _Optional[_Union[IngestTokenRouting, _Mapping]] = ...) -> None: ...

class UpdateIngestTokenRoutingResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...
