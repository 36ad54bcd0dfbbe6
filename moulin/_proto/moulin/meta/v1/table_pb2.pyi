from moulin._proto.moulin.meta.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class BqlType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    BQL_TYPE_BOOL: _ClassVar[BqlType]
    BQL_TYPE_INT: _ClassVar[BqlType]
    BQL_TYPE_LONG: _ClassVar[BqlType]
    BQL_TYPE_REAL: _ClassVar[BqlType]
    BQL_TYPE_STRING: _ClassVar[BqlType]
    BQL_TYPE_DATETIME: _ClassVar[BqlType]
    BQL_TYPE_TIMESPAN: _ClassVar[BqlType]
    BQL_TYPE_GUID: _ClassVar[BqlType]
    BQL_TYPE_DYNAMIC: _ClassVar[BqlType]
BQL_TYPE_BOOL: BqlType
BQL_TYPE_INT: BqlType
BQL_TYPE_LONG: BqlType
BQL_TYPE_REAL: BqlType
BQL_TYPE_STRING: BqlType
BQL_TYPE_DATETIME: BqlType
BQL_TYPE_TIMESPAN: BqlType
BQL_TYPE_GUID: BqlType
BQL_TYPE_DYNAMIC: BqlType

class RenameTableRequest(_message.Message):
    __slots__ = ("database_id", "table_id", "new_name", "new_database_id")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    NEW_NAME_FIELD_NUMBER: _ClassVar[int]
    NEW_DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    table_id: str
    new_name: str
    new_database_id: str
    def __init__(self, database_id: _Optional[str] = ..., table_id: _Optional[str] = ..., new_name: _Optional[str] = ..., new_database_id: _Optional[str] = ...) -> None: ...

class RenameTableResponse(_message.Message):
    __slots__ = ("table",)
    TABLE_FIELD_NUMBER: _ClassVar[int]
    table: Table
    def __init__(self, table: _Optional[_Union[Table, _Mapping]] = ...) -> None: ...

class Column(_message.Message):
    __slots__ = ("name", "type")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: BqlType
    def __init__(self, name: _Optional[str] = ..., type: _Optional[_Union[BqlType, str]] = ...) -> None: ...

class CreateTableRequest(_message.Message):
    __slots__ = ("database_id", "name")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    name: str
    def __init__(self, database_id: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class CreateTableResponse(_message.Message):
    __slots__ = ("id", "name", "database_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    database_id: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., database_id: _Optional[str] = ...) -> None: ...

class GetTableRequest(_message.Message):
    __slots__ = ("database_id", "table_id", "include_deleted")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_DELETED_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    table_id: str
    include_deleted: bool
    def __init__(self, database_id: _Optional[str] = ..., table_id: _Optional[str] = ..., include_deleted: _Optional[bool] = ...) -> None: ...

class GetTableResponse(_message.Message):
    __slots__ = ("id", "name", "database_id", "retention_ns", "max_merge_time_span_ns", "tombstone", "effective_max_merge_time_span_ns")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    RETENTION_NS_FIELD_NUMBER: _ClassVar[int]
    MAX_MERGE_TIME_SPAN_NS_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_MAX_MERGE_TIME_SPAN_NS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    database_id: str
    retention_ns: int
    max_merge_time_span_ns: int
    tombstone: _common_pb2.Tombstone
    effective_max_merge_time_span_ns: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., database_id: _Optional[str] = ..., retention_ns: _Optional[int] = ..., max_merge_time_span_ns: _Optional[int] = ..., tombstone: _Optional[_Union[_common_pb2.Tombstone, _Mapping]] = ..., effective_max_merge_time_span_ns: _Optional[int] = ...) -> None: ...

class ListTablesRequest(_message.Message):
    __slots__ = ("database_id", "include_deleted")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_DELETED_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    include_deleted: bool
    def __init__(self, database_id: _Optional[str] = ..., include_deleted: _Optional[bool] = ...) -> None: ...

class ListTablesResponse(_message.Message):
    __slots__ = ("items", "grace_window_seconds")
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    GRACE_WINDOW_SECONDS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Table]
    grace_window_seconds: int
    def __init__(self, items: _Optional[_Iterable[_Union[Table, _Mapping]]] = ..., grace_window_seconds: _Optional[int] = ...) -> None: ...

class Table(_message.Message):
    __slots__ = ("id", "name", "database_id", "retention_ns", "max_merge_time_span_ns", "tombstone", "effective_max_merge_time_span_ns")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    RETENTION_NS_FIELD_NUMBER: _ClassVar[int]
    MAX_MERGE_TIME_SPAN_NS_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_MAX_MERGE_TIME_SPAN_NS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    database_id: str
    retention_ns: int
    max_merge_time_span_ns: int
    tombstone: _common_pb2.Tombstone
    effective_max_merge_time_span_ns: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., database_id: _Optional[str] = ..., retention_ns: _Optional[int] = ..., max_merge_time_span_ns: _Optional[int] = ..., tombstone: _Optional[_Union[_common_pb2.Tombstone, _Mapping]] = ..., effective_max_merge_time_span_ns: _Optional[int] = ...) -> None: ...

class DeleteTableRequest(_message.Message):
    __slots__ = ("database_id", "table_id", "immediate")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    IMMEDIATE_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    table_id: str
    immediate: bool
    def __init__(self, database_id: _Optional[str] = ..., table_id: _Optional[str] = ..., immediate: _Optional[bool] = ...) -> None: ...

class DeleteTableResponse(_message.Message):
    __slots__ = ("tombstoned", "blocked")
    TOMBSTONED_FIELD_NUMBER: _ClassVar[int]
    BLOCKED_FIELD_NUMBER: _ClassVar[int]
    tombstoned: Table
    blocked: TableReferences
    def __init__(self, tombstoned: _Optional[_Union[Table, _Mapping]] = ..., blocked: _Optional[_Union[TableReferences, _Mapping]] = ...) -> None: ...

class TableReferences(_message.Message):
    __slots__ = ("views", "ingest_tokens")
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    INGEST_TOKENS_FIELD_NUMBER: _ClassVar[int]
    views: _containers.RepeatedCompositeFieldContainer[ViewReference]
    ingest_tokens: _containers.RepeatedCompositeFieldContainer[IngestTokenReference]
    def __init__(self, views: _Optional[_Iterable[_Union[ViewReference, _Mapping]]] = ..., ingest_tokens: _Optional[_Iterable[_Union[IngestTokenReference, _Mapping]]] = ...) -> None: ...

class ResurrectTableRequest(_message.Message):
    __slots__ = ("database_id", "table_id")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    table_id: str
    def __init__(self, database_id: _Optional[str] = ..., table_id: _Optional[str] = ...) -> None: ...

class ResurrectTableResponse(_message.Message):
    __slots__ = ("table",)
    TABLE_FIELD_NUMBER: _ClassVar[int]
    table: Table
    def __init__(self, table: _Optional[_Union[Table, _Mapping]] = ...) -> None: ...

class ViewReference(_message.Message):
    __slots__ = ("id", "name", "other_members", "tombstone")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OTHER_MEMBERS_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    other_members: _containers.RepeatedCompositeFieldContainer[TableRef]
    tombstone: _common_pb2.Tombstone
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., other_members: _Optional[_Iterable[_Union[TableRef, _Mapping]]] = ..., tombstone: _Optional[_Union[_common_pb2.Tombstone, _Mapping]] = ...) -> None: ...

class IngestTokenReference(_message.Message):
    __slots__ = ("id", "name", "signals", "tombstone")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SIGNALS_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    signals: _containers.RepeatedScalarFieldContainer[str]
    tombstone: _common_pb2.Tombstone
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., signals: _Optional[_Iterable[str]] = ..., tombstone: _Optional[_Union[_common_pb2.Tombstone, _Mapping]] = ...) -> None: ...

class TableRef(_message.Message):
    __slots__ = ("id", "name")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class SetShardingFieldsRequest(_message.Message):
    __slots__ = ("database_id", "table_id", "fields")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    table_id: str
    fields: _containers.RepeatedCompositeFieldContainer[_common_pb2.ShardingField]
    def __init__(self, database_id: _Optional[str] = ..., table_id: _Optional[str] = ..., fields: _Optional[_Iterable[_Union[_common_pb2.ShardingField, _Mapping]]] = ...) -> None: ...

class SetShardingFieldsResponse(_message.Message):
    __slots__ = ("fields",)
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    fields: _containers.RepeatedCompositeFieldContainer[_common_pb2.ShardingField]
    def __init__(self, fields: _Optional[_Iterable[_Union[_common_pb2.ShardingField, _Mapping]]] = ...) -> None: ...

class GetShardingFieldsRequest(_message.Message):
    __slots__ = ("database_id", "table_id", "include_deleted")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_DELETED_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    table_id: str
    include_deleted: bool
    def __init__(self, database_id: _Optional[str] = ..., table_id: _Optional[str] = ..., include_deleted: _Optional[bool] = ...) -> None: ...

class GetShardingFieldsResponse(_message.Message):
    __slots__ = ("fields",)
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    fields: _containers.RepeatedCompositeFieldContainer[_common_pb2.ShardingField]
    def __init__(self, fields: _Optional[_Iterable[_Union[_common_pb2.ShardingField, _Mapping]]] = ...) -> None: ...

class SetTableRetentionRequest(_message.Message):
    __slots__ = ("database_id", "table_id", "retention_ns")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    RETENTION_NS_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    table_id: str
    retention_ns: int
    def __init__(self, database_id: _Optional[str] = ..., table_id: _Optional[str] = ..., retention_ns: _Optional[int] = ...) -> None: ...

class SetTableRetentionResponse(_message.Message):
    __slots__ = ("retention_ns",)
    RETENTION_NS_FIELD_NUMBER: _ClassVar[int]
    retention_ns: int
    def __init__(self, retention_ns: _Optional[int] = ...) -> None: ...

class SetTableMaxMergeTimeSpanRequest(_message.Message):
    __slots__ = ("database_id", "table_id", "max_merge_time_span_ns")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    MAX_MERGE_TIME_SPAN_NS_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    table_id: str
    max_merge_time_span_ns: int
    def __init__(self, database_id: _Optional[str] = ..., table_id: _Optional[str] = ..., max_merge_time_span_ns: _Optional[int] = ...) -> None: ...

class SetTableMaxMergeTimeSpanResponse(_message.Message):
    __slots__ = ("max_merge_time_span_ns", "effective_max_merge_time_span_ns")
    MAX_MERGE_TIME_SPAN_NS_FIELD_NUMBER: _ClassVar[int]
    EFFECTIVE_MAX_MERGE_TIME_SPAN_NS_FIELD_NUMBER: _ClassVar[int]
    max_merge_time_span_ns: int
    effective_max_merge_time_span_ns: int
    def __init__(self, max_merge_time_span_ns: _Optional[int] = ..., effective_max_merge_time_span_ns: _Optional[int] = ...) -> None: ...
