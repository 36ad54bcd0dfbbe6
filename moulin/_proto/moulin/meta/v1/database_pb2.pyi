from moulin._proto.moulin.meta.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class GetDatabaseRequest(_message.Message):
    __slots__ = ("database_id", "name", "include_deleted")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_DELETED_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    name: str
    include_deleted: bool
    def __init__(self, database_id: _Optional[str] = ..., name: _Optional[str] = ..., include_deleted: _Optional[bool] = ...) -> None: ...

class GetDatabaseResponse(_message.Message):
    __slots__ = ("database",)
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    database: Database
    def __init__(self, database: _Optional[_Union[Database, _Mapping]] = ...) -> None: ...

class RenameDatabaseRequest(_message.Message):
    __slots__ = ("database_id", "new_name")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    NEW_NAME_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    new_name: str
    def __init__(self, database_id: _Optional[str] = ..., new_name: _Optional[str] = ...) -> None: ...

class RenameDatabaseResponse(_message.Message):
    __slots__ = ("database",)
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    database: Database
    def __init__(self, database: _Optional[_Union[Database, _Mapping]] = ...) -> None: ...

class ListTombstonesRequest(_message.Message):
    __slots__ = ("database_id",)
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    def __init__(self, database_id: _Optional[str] = ...) -> None: ...

class TombstonedObject(_message.Message):
    __slots__ = ("kind", "id", "name", "database_id", "tombstone")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    kind: str
    id: str
    name: str
    database_id: str
    tombstone: _common_pb2.Tombstone
    def __init__(self, kind: _Optional[str] = ..., id: _Optional[str] = ..., name: _Optional[str] = ..., database_id: _Optional[str] = ..., tombstone: _Optional[_Union[_common_pb2.Tombstone, _Mapping]] = ...) -> None: ...

class ListTombstonesResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[TombstonedObject]
    def __init__(self, items: _Optional[_Iterable[_Union[TombstonedObject, _Mapping]]] = ...) -> None: ...

class Database(_message.Message):
    __slots__ = ("id", "name", "tombstone")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    tombstone: _common_pb2.Tombstone
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., tombstone: _Optional[_Union[_common_pb2.Tombstone, _Mapping]] = ...) -> None: ...

class CreateDatabaseRequest(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class CreateDatabaseResponse(_message.Message):
    __slots__ = ("database",)
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    database: Database
    def __init__(self, database: _Optional[_Union[Database, _Mapping]] = ...) -> None: ...

class ListDatabasesRequest(_message.Message):
    __slots__ = ("include_deleted",)
    INCLUDE_DELETED_FIELD_NUMBER: _ClassVar[int]
    include_deleted: bool
    def __init__(self, include_deleted: _Optional[bool] = ...) -> None: ...

class ListDatabasesResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Database]
    def __init__(self, items: _Optional[_Iterable[_Union[Database, _Mapping]]] = ...) -> None: ...

class DeleteDatabaseRequest(_message.Message):
    __slots__ = ("database_id", "cascade", "immediate")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    CASCADE_FIELD_NUMBER: _ClassVar[int]
    IMMEDIATE_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    cascade: bool
    immediate: bool
    def __init__(self, database_id: _Optional[str] = ..., cascade: _Optional[bool] = ..., immediate: _Optional[bool] = ...) -> None: ...

class DeleteDatabaseResponse(_message.Message):
    __slots__ = ("database",)
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    database: Database
    def __init__(self, database: _Optional[_Union[Database, _Mapping]] = ...) -> None: ...

class ResurrectDatabaseRequest(_message.Message):
    __slots__ = ("database_id",)
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    def __init__(self, database_id: _Optional[str] = ...) -> None: ...

class ResurrectDatabaseResponse(_message.Message):
    __slots__ = ("database",)
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    database: Database
    def __init__(self, database: _Optional[_Union[Database, _Mapping]] = ...) -> None: ...

class PreviewDeleteDatabaseRequest(_message.Message):
    __slots__ = ("database_id",)
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    def __init__(self, database_id: _Optional[str] = ...) -> None: ...

class DeletableChild(_message.Message):
    __slots__ = ("id", "name")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class PreviewDeleteDatabaseResponse(_message.Message):
    __slots__ = ("tables", "views", "ingest_tokens", "grace_window_seconds")
    TABLES_FIELD_NUMBER: _ClassVar[int]
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    INGEST_TOKENS_FIELD_NUMBER: _ClassVar[int]
    GRACE_WINDOW_SECONDS_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedCompositeFieldContainer[DeletableChild]
    views: _containers.RepeatedCompositeFieldContainer[DeletableChild]
    ingest_tokens: _containers.RepeatedCompositeFieldContainer[DeletableChild]
    grace_window_seconds: int
    def __init__(self, tables: _Optional[_Iterable[_Union[DeletableChild, _Mapping]]] = ..., views: _Optional[_Iterable[_Union[DeletableChild, _Mapping]]] = ..., ingest_tokens: _Optional[_Iterable[_Union[DeletableChild, _Mapping]]] = ..., grace_window_seconds: _Optional[int] = ...) -> None: ...
