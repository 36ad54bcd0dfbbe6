from moulin._proto.moulin.meta.v1 import common_pb2 as _common_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class RenameViewRequest(_message.Message):
    __slots__ = ("database_id", "view_id", "new_name")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    VIEW_ID_FIELD_NUMBER: _ClassVar[int]
    NEW_NAME_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    view_id: str
    new_name: str
    def __init__(self, database_id: _Optional[str] = ..., view_id: _Optional[str] = ..., new_name: _Optional[str] = ...) -> None: ...

class RenameViewResponse(_message.Message):
    __slots__ = ("view",)
    VIEW_FIELD_NUMBER: _ClassVar[int]
    view: View
    def __init__(self, view: _Optional[_Union[View, _Mapping]] = ...) -> None: ...

class View(_message.Message):
    __slots__ = ("id", "name", "description", "members", "tombstone")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    description: str
    members: _containers.RepeatedCompositeFieldContainer[ViewMember]
    tombstone: _common_pb2.Tombstone
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., description: _Optional[str] = ..., members: _Optional[_Iterable[_Union[ViewMember, _Mapping]]] = ..., tombstone: _Optional[_Union[_common_pb2.Tombstone, _Mapping]] = ...) -> None: ...

class ViewMember(_message.Message):
    __slots__ = ("id", "name")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class CreateViewRequest(_message.Message):
    __slots__ = ("database_id", "name", "table_ids", "description")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TABLE_IDS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    name: str
    table_ids: _containers.RepeatedScalarFieldContainer[str]
    description: str
    def __init__(self, database_id: _Optional[str] = ..., name: _Optional[str] = ..., table_ids: _Optional[_Iterable[str]] = ..., description: _Optional[str] = ...) -> None: ...

class CreateViewResponse(_message.Message):
    __slots__ = ("view",)
    VIEW_FIELD_NUMBER: _ClassVar[int]
    view: View
    def __init__(self, view: _Optional[_Union[View, _Mapping]] = ...) -> None: ...

class GetViewRequest(_message.Message):
    __slots__ = ("database_id", "view_id", "include_deleted")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    VIEW_ID_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_DELETED_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    view_id: str
    include_deleted: bool
    def __init__(self, database_id: _Optional[str] = ..., view_id: _Optional[str] = ..., include_deleted: _Optional[bool] = ...) -> None: ...

class GetViewResponse(_message.Message):
    __slots__ = ("view",)
    VIEW_FIELD_NUMBER: _ClassVar[int]
    view: View
    def __init__(self, view: _Optional[_Union[View, _Mapping]] = ...) -> None: ...

class ListViewsRequest(_message.Message):
    __slots__ = ("database_id", "include_deleted")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_DELETED_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    include_deleted: bool
    def __init__(self, database_id: _Optional[str] = ..., include_deleted: _Optional[bool] = ...) -> None: ...

class ListViewsResponse(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[View]
    def __init__(self, items: _Optional[_Iterable[_Union[View, _Mapping]]] = ...) -> None: ...

class SetViewTablesRequest(_message.Message):
    __slots__ = ("database_id", "view_id", "table_ids")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    VIEW_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_IDS_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    view_id: str
    table_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, database_id: _Optional[str] = ..., view_id: _Optional[str] = ..., table_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class SetViewTablesResponse(_message.Message):
    __slots__ = ("view",)
    VIEW_FIELD_NUMBER: _ClassVar[int]
    view: View
    def __init__(self, view: _Optional[_Union[View, _Mapping]] = ...) -> None: ...

class DeleteViewRequest(_message.Message):
    __slots__ = ("database_id", "view_id")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    VIEW_ID_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    view_id: str
    def __init__(self, database_id: _Optional[str] = ..., view_id: _Optional[str] = ...) -> None: ...

class DeleteViewResponse(_message.Message):
    __slots__ = ("view",)
    VIEW_FIELD_NUMBER: _ClassVar[int]
    view: View
    def __init__(self, view: _Optional[_Union[View, _Mapping]] = ...) -> None: ...

class ResurrectViewRequest(_message.Message):
    __slots__ = ("database_id", "view_id")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    VIEW_ID_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    view_id: str
    def __init__(self, database_id: _Optional[str] = ..., view_id: _Optional[str] = ...) -> None: ...

class ResurrectViewResponse(_message.Message):
    __slots__ = ("view",)
    VIEW_FIELD_NUMBER: _ClassVar[int]
    view: View
    def __init__(self, view: _Optional[_Union[View, _Mapping]] = ...) -> None: ...

class LookupTableOrViewRequest(_message.Message):
    __slots__ = ("database_id", "name", "include_deleted")
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_DELETED_FIELD_NUMBER: _ClassVar[int]
    database_id: str
    name: str
    include_deleted: bool
    def __init__(self, database_id: _Optional[str] = ..., name: _Optional[str] = ..., include_deleted: _Optional[bool] = ...) -> None: ...

class LookupTableOrViewResponse(_message.Message):
    __slots__ = ("table", "view")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    VIEW_FIELD_NUMBER: _ClassVar[int]
    table: LookupTable
    view: LookupView
    def __init__(self, table: _Optional[_Union[LookupTable, _Mapping]] = ..., view: _Optional[_Union[LookupView, _Mapping]] = ...) -> None: ...

class LookupTable(_message.Message):
    __slots__ = ("id", "name")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class LookupView(_message.Message):
    __slots__ = ("id", "name", "members")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    members: _containers.RepeatedCompositeFieldContainer[ViewMember]
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., members: _Optional[_Iterable[_Union[ViewMember, _Mapping]]] = ...) -> None: ...
