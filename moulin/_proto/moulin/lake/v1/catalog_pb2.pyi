from moulin._proto.moulin.format.v1 import manifest_pb2 as _manifest_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class EraseRowsRequest(_message.Message):
    __slots__ = ("table_id", "where")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    WHERE_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    where: str
    def __init__(self, table_id: _Optional[str] = ..., where: _Optional[str] = ...) -> None: ...

class EraseRowsResponse(_message.Message):
    __slots__ = ("report_json",)
    REPORT_JSON_FIELD_NUMBER: _ClassVar[int]
    report_json: str
    def __init__(self, report_json: _Optional[str] = ...) -> None: ...

class GetLakeRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetLakeResponse(_message.Message):
    __slots__ = ("id", "storage_uri", "storage_options", "settings", "server_version", "role")
    class StorageOptionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class SettingsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    STORAGE_URI_FIELD_NUMBER: _ClassVar[int]
    STORAGE_OPTIONS_FIELD_NUMBER: _ClassVar[int]
    SETTINGS_FIELD_NUMBER: _ClassVar[int]
    SERVER_VERSION_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    id: str
    storage_uri: str
    storage_options: _containers.ScalarMap[str, str]
    settings: _containers.ScalarMap[str, str]
    server_version: str
    role: str
    def __init__(self, id: _Optional[str] = ..., storage_uri: _Optional[str] = ..., storage_options: _Optional[_Mapping[str, str]] = ..., settings: _Optional[_Mapping[str, str]] = ..., server_version: _Optional[str] = ..., role: _Optional[str] = ...) -> None: ...

class Tombstone(_message.Message):
    __slots__ = ("tombstoned_at", "delete_at")
    TOMBSTONED_AT_FIELD_NUMBER: _ClassVar[int]
    DELETE_AT_FIELD_NUMBER: _ClassVar[int]
    tombstoned_at: int
    delete_at: int
    def __init__(self, tombstoned_at: _Optional[int] = ..., delete_at: _Optional[int] = ...) -> None: ...

class Database(_message.Message):
    __slots__ = ("id", "name", "properties", "created_at", "tombstone")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    properties: _containers.ScalarMap[str, str]
    created_at: int
    tombstone: Tombstone
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ..., created_at: _Optional[int] = ..., tombstone: _Optional[_Union[Tombstone, _Mapping]] = ...) -> None: ...

class Member(_message.Message):
    __slots__ = ("id", "name")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class View(_message.Message):
    __slots__ = ("id", "database", "name", "members", "created_at", "description", "tombstone", "query")
    ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    id: str
    database: str
    name: str
    members: _containers.RepeatedCompositeFieldContainer[Member]
    created_at: int
    description: str
    tombstone: Tombstone
    query: ViewQuery
    def __init__(self, id: _Optional[str] = ..., database: _Optional[str] = ..., name: _Optional[str] = ..., members: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., created_at: _Optional[int] = ..., description: _Optional[str] = ..., tombstone: _Optional[_Union[Tombstone, _Mapping]] = ..., query: _Optional[_Union[ViewQuery, _Mapping]] = ...) -> None: ...

class ViewQuery(_message.Message):
    __slots__ = ("representations", "schema_json", "properties", "version", "history_json")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    REPRESENTATIONS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HISTORY_JSON_FIELD_NUMBER: _ClassVar[int]
    representations: _containers.RepeatedCompositeFieldContainer[ViewRepresentation]
    schema_json: str
    properties: _containers.ScalarMap[str, str]
    version: int
    history_json: str
    def __init__(self, representations: _Optional[_Iterable[_Union[ViewRepresentation, _Mapping]]] = ..., schema_json: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ..., version: _Optional[int] = ..., history_json: _Optional[str] = ...) -> None: ...

class ViewRepresentation(_message.Message):
    __slots__ = ("dialect", "sql")
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    SQL_FIELD_NUMBER: _ClassVar[int]
    dialect: str
    sql: str
    def __init__(self, dialect: _Optional[str] = ..., sql: _Optional[str] = ...) -> None: ...

class TableEntry(_message.Message):
    __slots__ = ("id", "database", "name", "created_at", "head_version", "segments", "rows", "bytes", "tombstone", "database_id", "properties")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    HEAD_VERSION_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    id: str
    database: str
    name: str
    created_at: int
    head_version: int
    segments: int
    rows: int
    bytes: int
    tombstone: Tombstone
    database_id: str
    properties: _containers.ScalarMap[str, str]
    def __init__(self, id: _Optional[str] = ..., database: _Optional[str] = ..., name: _Optional[str] = ..., created_at: _Optional[int] = ..., head_version: _Optional[int] = ..., segments: _Optional[int] = ..., rows: _Optional[int] = ..., bytes: _Optional[int] = ..., tombstone: _Optional[_Union[Tombstone, _Mapping]] = ..., database_id: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ...) -> None: ...

class TableState(_message.Message):
    __slots__ = ("id", "database", "name", "version", "head_version", "created_version", "oldest_version", "created_at", "schemas", "schema_id", "specs", "spec_id", "sort_orders", "sort_order_id", "event_time", "last_column_id", "last_partition_id", "last_sequence", "next_row_id", "properties", "inline", "base_id")
    class SchemasEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    class SpecsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    class SortOrdersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: str
        def __init__(self, key: _Optional[int] = ..., value: _Optional[str] = ...) -> None: ...
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    HEAD_VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATED_VERSION_FIELD_NUMBER: _ClassVar[int]
    OLDEST_VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    SCHEMAS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_ID_FIELD_NUMBER: _ClassVar[int]
    SPECS_FIELD_NUMBER: _ClassVar[int]
    SPEC_ID_FIELD_NUMBER: _ClassVar[int]
    SORT_ORDERS_FIELD_NUMBER: _ClassVar[int]
    SORT_ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_COLUMN_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NEXT_ROW_ID_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    INLINE_FIELD_NUMBER: _ClassVar[int]
    BASE_ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    database: str
    name: str
    version: int
    head_version: int
    created_version: int
    oldest_version: int
    created_at: int
    schemas: _containers.ScalarMap[int, str]
    schema_id: int
    specs: _containers.ScalarMap[int, str]
    spec_id: int
    sort_orders: _containers.ScalarMap[int, str]
    sort_order_id: int
    event_time: int
    last_column_id: int
    last_partition_id: int
    last_sequence: int
    next_row_id: int
    properties: _containers.ScalarMap[str, str]
    inline: int
    base_id: str
    def __init__(self, id: _Optional[str] = ..., database: _Optional[str] = ..., name: _Optional[str] = ..., version: _Optional[int] = ..., head_version: _Optional[int] = ..., created_version: _Optional[int] = ..., oldest_version: _Optional[int] = ..., created_at: _Optional[int] = ..., schemas: _Optional[_Mapping[int, str]] = ..., schema_id: _Optional[int] = ..., specs: _Optional[_Mapping[int, str]] = ..., spec_id: _Optional[int] = ..., sort_orders: _Optional[_Mapping[int, str]] = ..., sort_order_id: _Optional[int] = ..., event_time: _Optional[int] = ..., last_column_id: _Optional[int] = ..., last_partition_id: _Optional[int] = ..., last_sequence: _Optional[int] = ..., next_row_id: _Optional[int] = ..., properties: _Optional[_Mapping[str, str]] = ..., inline: _Optional[int] = ..., base_id: _Optional[str] = ...) -> None: ...

class DropPreview(_message.Message):
    __slots__ = ("database", "tables", "views", "grace_seconds", "tokens")
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    GRACE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    TOKENS_FIELD_NUMBER: _ClassVar[int]
    database: Database
    tables: _containers.RepeatedCompositeFieldContainer[Member]
    views: _containers.RepeatedCompositeFieldContainer[Member]
    grace_seconds: float
    tokens: _containers.RepeatedCompositeFieldContainer[Member]
    def __init__(self, database: _Optional[_Union[Database, _Mapping]] = ..., tables: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., views: _Optional[_Iterable[_Union[Member, _Mapping]]] = ..., grace_seconds: _Optional[float] = ..., tokens: _Optional[_Iterable[_Union[Member, _Mapping]]] = ...) -> None: ...

class CommitInfo(_message.Message):
    __slots__ = ("version", "ordinal", "timestamp_ns", "kind", "schema_id", "spec_id", "sequence", "snapshot_id", "first_row_id", "added_rows", "summary")
    class SummaryEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_NS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_ROW_ID_FIELD_NUMBER: _ClassVar[int]
    ADDED_ROWS_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    version: int
    ordinal: int
    timestamp_ns: int
    kind: str
    schema_id: int
    spec_id: int
    sequence: int
    snapshot_id: int
    first_row_id: int
    added_rows: int
    summary: _containers.ScalarMap[str, str]
    def __init__(self, version: _Optional[int] = ..., ordinal: _Optional[int] = ..., timestamp_ns: _Optional[int] = ..., kind: _Optional[str] = ..., schema_id: _Optional[int] = ..., spec_id: _Optional[int] = ..., sequence: _Optional[int] = ..., snapshot_id: _Optional[int] = ..., first_row_id: _Optional[int] = ..., added_rows: _Optional[int] = ..., summary: _Optional[_Mapping[str, str]] = ...) -> None: ...

class Region(_message.Message):
    __slots__ = ("number", "value", "epoch", "owner", "covered", "generation")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    COVERED_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    number: int
    value: _manifest_pb2.PartitionTuple
    epoch: int
    owner: str
    covered: int
    generation: int
    def __init__(self, number: _Optional[int] = ..., value: _Optional[_Union[_manifest_pb2.PartitionTuple, _Mapping]] = ..., epoch: _Optional[int] = ..., owner: _Optional[str] = ..., covered: _Optional[int] = ..., generation: _Optional[int] = ...) -> None: ...

class DatabaseRef(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class CreateDatabaseRequest(_message.Message):
    __slots__ = ("name", "properties", "if_not_exists")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    IF_NOT_EXISTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    properties: _containers.ScalarMap[str, str]
    if_not_exists: bool
    def __init__(self, name: _Optional[str] = ..., properties: _Optional[_Mapping[str, str]] = ..., if_not_exists: _Optional[bool] = ...) -> None: ...

class BasePath(_message.Message):
    __slots__ = ("id", "name", "uri", "created_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    uri: str
    created_at: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., uri: _Optional[str] = ..., created_at: _Optional[int] = ...) -> None: ...

class BasePathRef(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class ListBasesRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListBasesResponse(_message.Message):
    __slots__ = ("bases",)
    BASES_FIELD_NUMBER: _ClassVar[int]
    bases: _containers.RepeatedCompositeFieldContainer[BasePath]
    def __init__(self, bases: _Optional[_Iterable[_Union[BasePath, _Mapping]]] = ...) -> None: ...

class ListKnownPathsRequest(_message.Message):
    __slots__ = ("table_id", "paths")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    PATHS_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    paths: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, table_id: _Optional[str] = ..., paths: _Optional[_Iterable[str]] = ...) -> None: ...

class ListKnownPathsResponse(_message.Message):
    __slots__ = ("paths",)
    PATHS_FIELD_NUMBER: _ClassVar[int]
    paths: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, paths: _Optional[_Iterable[str]] = ...) -> None: ...

class Branch(_message.Message):
    __slots__ = ("id", "name", "version", "created_at", "expires_at", "tables", "opened", "tombstone", "published_version")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_VERSION_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    version: int
    created_at: int
    expires_at: int
    tables: int
    opened: int
    tombstone: Tombstone
    published_version: int
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., version: _Optional[int] = ..., created_at: _Optional[int] = ..., expires_at: _Optional[int] = ..., tables: _Optional[int] = ..., opened: _Optional[int] = ..., tombstone: _Optional[_Union[Tombstone, _Mapping]] = ..., published_version: _Optional[int] = ...) -> None: ...

class BranchRef(_message.Message):
    __slots__ = ("name",)
    NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    def __init__(self, name: _Optional[str] = ...) -> None: ...

class CreateBranchRequest(_message.Message):
    __slots__ = ("name", "version", "expires_in_seconds", "only")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_IN_SECONDS_FIELD_NUMBER: _ClassVar[int]
    ONLY_FIELD_NUMBER: _ClassVar[int]
    name: str
    version: int
    expires_in_seconds: float
    only: TableIds
    def __init__(self, name: _Optional[str] = ..., version: _Optional[int] = ..., expires_in_seconds: _Optional[float] = ..., only: _Optional[_Union[TableIds, _Mapping]] = ...) -> None: ...

class TableIds(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ListBranchesRequest(_message.Message):
    __slots__ = ("include_dropped",)
    INCLUDE_DROPPED_FIELD_NUMBER: _ClassVar[int]
    include_dropped: bool
    def __init__(self, include_dropped: _Optional[bool] = ...) -> None: ...

class ListBranchesResponse(_message.Message):
    __slots__ = ("branches",)
    BRANCHES_FIELD_NUMBER: _ClassVar[int]
    branches: _containers.RepeatedCompositeFieldContainer[Branch]
    def __init__(self, branches: _Optional[_Iterable[_Union[Branch, _Mapping]]] = ...) -> None: ...

class BranchTable(_message.Message):
    __slots__ = ("source_id", "own_id", "before", "after", "since", "head", "wrote", "beside")
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    OWN_ID_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    WROTE_FIELD_NUMBER: _ClassVar[int]
    BESIDE_FIELD_NUMBER: _ClassVar[int]
    source_id: str
    own_id: str
    before: str
    after: str
    since: int
    head: int
    wrote: bool
    beside: bool
    def __init__(self, source_id: _Optional[str] = ..., own_id: _Optional[str] = ..., before: _Optional[str] = ..., after: _Optional[str] = ..., since: _Optional[int] = ..., head: _Optional[int] = ..., wrote: _Optional[bool] = ..., beside: _Optional[bool] = ...) -> None: ...

class ListBranchTablesResponse(_message.Message):
    __slots__ = ("tables",)
    TABLES_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedCompositeFieldContainer[BranchTable]
    def __init__(self, tables: _Optional[_Iterable[_Union[BranchTable, _Mapping]]] = ...) -> None: ...

class PublishBranchRequest(_message.Message):
    __slots__ = ("name", "tables", "dry_run", "request_id")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    DRY_RUN_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    name: str
    tables: _containers.RepeatedCompositeFieldContainer[TablePublication]
    dry_run: bool
    request_id: str
    def __init__(self, name: _Optional[str] = ..., tables: _Optional[_Iterable[_Union[TablePublication, _Mapping]]] = ..., dry_run: _Optional[bool] = ..., request_id: _Optional[str] = ...) -> None: ...

class TablePublication(_message.Message):
    __slots__ = ("own_id", "head", "commit", "moved", "adopted")
    OWN_ID_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    MOVED_FIELD_NUMBER: _ClassVar[int]
    ADOPTED_FIELD_NUMBER: _ClassVar[int]
    own_id: str
    head: int
    commit: TableCommit
    moved: bool
    adopted: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, own_id: _Optional[str] = ..., head: _Optional[int] = ..., commit: _Optional[_Union[TableCommit, _Mapping]] = ..., moved: _Optional[bool] = ..., adopted: _Optional[_Iterable[int]] = ...) -> None: ...

class ListDatabasesRequest(_message.Message):
    __slots__ = ("include_dropped", "branch")
    INCLUDE_DROPPED_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    include_dropped: bool
    branch: str
    def __init__(self, include_dropped: _Optional[bool] = ..., branch: _Optional[str] = ...) -> None: ...

class ListDatabasesResponse(_message.Message):
    __slots__ = ("databases",)
    DATABASES_FIELD_NUMBER: _ClassVar[int]
    databases: _containers.RepeatedCompositeFieldContainer[Database]
    def __init__(self, databases: _Optional[_Iterable[_Union[Database, _Mapping]]] = ...) -> None: ...

class RenameDatabaseRequest(_message.Message):
    __slots__ = ("name", "new_name")
    NAME_FIELD_NUMBER: _ClassVar[int]
    NEW_NAME_FIELD_NUMBER: _ClassVar[int]
    name: str
    new_name: str
    def __init__(self, name: _Optional[str] = ..., new_name: _Optional[str] = ...) -> None: ...

class DropDatabaseRequest(_message.Message):
    __slots__ = ("name", "cascade", "immediate")
    NAME_FIELD_NUMBER: _ClassVar[int]
    CASCADE_FIELD_NUMBER: _ClassVar[int]
    IMMEDIATE_FIELD_NUMBER: _ClassVar[int]
    name: str
    cascade: bool
    immediate: bool
    def __init__(self, name: _Optional[str] = ..., cascade: _Optional[bool] = ..., immediate: _Optional[bool] = ...) -> None: ...

class TableId(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class TableRef(_message.Message):
    __slots__ = ("database", "name")
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    database: str
    name: str
    def __init__(self, database: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class CloneTableRequest(_message.Message):
    __slots__ = ("source_id", "database", "name", "version")
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    source_id: str
    database: str
    name: str
    version: int
    def __init__(self, source_id: _Optional[str] = ..., database: _Optional[str] = ..., name: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class CreateTableRequest(_message.Message):
    __slots__ = ("database", "name", "schema_json", "last_column_id", "spec_json", "last_partition_id", "sort_order_json", "event_time", "properties", "first", "regions", "replace")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    LAST_COLUMN_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_JSON_FIELD_NUMBER: _ClassVar[int]
    LAST_PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    SORT_ORDER_JSON_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    database: str
    name: str
    schema_json: str
    last_column_id: int
    spec_json: str
    last_partition_id: int
    sort_order_json: str
    event_time: int
    properties: _containers.ScalarMap[str, str]
    first: TableCommit
    regions: _containers.RepeatedCompositeFieldContainer[Region]
    replace: bool
    def __init__(self, database: _Optional[str] = ..., name: _Optional[str] = ..., schema_json: _Optional[str] = ..., last_column_id: _Optional[int] = ..., spec_json: _Optional[str] = ..., last_partition_id: _Optional[int] = ..., sort_order_json: _Optional[str] = ..., event_time: _Optional[int] = ..., properties: _Optional[_Mapping[str, str]] = ..., first: _Optional[_Union[TableCommit, _Mapping]] = ..., regions: _Optional[_Iterable[_Union[Region, _Mapping]]] = ..., replace: _Optional[bool] = ...) -> None: ...

class ListTablesRequest(_message.Message):
    __slots__ = ("database", "include_dropped")
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_DROPPED_FIELD_NUMBER: _ClassVar[int]
    database: str
    include_dropped: bool
    def __init__(self, database: _Optional[str] = ..., include_dropped: _Optional[bool] = ...) -> None: ...

class ListTablesResponse(_message.Message):
    __slots__ = ("tables",)
    TABLES_FIELD_NUMBER: _ClassVar[int]
    tables: _containers.RepeatedCompositeFieldContainer[TableEntry]
    def __init__(self, tables: _Optional[_Iterable[_Union[TableEntry, _Mapping]]] = ...) -> None: ...

class LoadTableRequest(_message.Message):
    __slots__ = ("name", "id", "version")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    name: TableRef
    id: str
    version: int
    def __init__(self, name: _Optional[_Union[TableRef, _Mapping]] = ..., id: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class RenameTableRequest(_message.Message):
    __slots__ = ("database", "name", "new_database", "new_name")
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NEW_DATABASE_FIELD_NUMBER: _ClassVar[int]
    NEW_NAME_FIELD_NUMBER: _ClassVar[int]
    database: str
    name: str
    new_database: str
    new_name: str
    def __init__(self, database: _Optional[str] = ..., name: _Optional[str] = ..., new_database: _Optional[str] = ..., new_name: _Optional[str] = ...) -> None: ...

class ReplaceTableRequest(_message.Message):
    __slots__ = ("database", "name", "replacement")
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REPLACEMENT_FIELD_NUMBER: _ClassVar[int]
    database: str
    name: str
    replacement: str
    def __init__(self, database: _Optional[str] = ..., name: _Optional[str] = ..., replacement: _Optional[str] = ...) -> None: ...

class DropTableRequest(_message.Message):
    __slots__ = ("database", "name", "immediate")
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IMMEDIATE_FIELD_NUMBER: _ClassVar[int]
    database: str
    name: str
    immediate: bool
    def __init__(self, database: _Optional[str] = ..., name: _Optional[str] = ..., immediate: _Optional[bool] = ...) -> None: ...

class CreateViewRequest(_message.Message):
    __slots__ = ("database", "name", "members", "description", "query", "replace", "expected")
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    REPLACE_FIELD_NUMBER: _ClassVar[int]
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    database: str
    name: str
    members: _containers.RepeatedScalarFieldContainer[str]
    description: str
    query: ViewQuery
    replace: bool
    expected: int
    def __init__(self, database: _Optional[str] = ..., name: _Optional[str] = ..., members: _Optional[_Iterable[str]] = ..., description: _Optional[str] = ..., query: _Optional[_Union[ViewQuery, _Mapping]] = ..., replace: _Optional[bool] = ..., expected: _Optional[int] = ...) -> None: ...

class SetViewPropertiesRequest(_message.Message):
    __slots__ = ("database", "name", "updates", "removals")
    class UpdatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    REMOVALS_FIELD_NUMBER: _ClassVar[int]
    database: str
    name: str
    updates: _containers.ScalarMap[str, str]
    removals: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, database: _Optional[str] = ..., name: _Optional[str] = ..., updates: _Optional[_Mapping[str, str]] = ..., removals: _Optional[_Iterable[str]] = ...) -> None: ...

class SetViewMembersRequest(_message.Message):
    __slots__ = ("database", "name", "members")
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    database: str
    name: str
    members: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, database: _Optional[str] = ..., name: _Optional[str] = ..., members: _Optional[_Iterable[str]] = ...) -> None: ...

class ListViewsRequest(_message.Message):
    __slots__ = ("database", "include_dropped")
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    INCLUDE_DROPPED_FIELD_NUMBER: _ClassVar[int]
    database: str
    include_dropped: bool
    def __init__(self, database: _Optional[str] = ..., include_dropped: _Optional[bool] = ...) -> None: ...

class ListViewsResponse(_message.Message):
    __slots__ = ("views",)
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    views: _containers.RepeatedCompositeFieldContainer[View]
    def __init__(self, views: _Optional[_Iterable[_Union[View, _Mapping]]] = ...) -> None: ...

class RenameViewRequest(_message.Message):
    __slots__ = ("database", "name", "new_name", "new_database")
    DATABASE_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    NEW_NAME_FIELD_NUMBER: _ClassVar[int]
    NEW_DATABASE_FIELD_NUMBER: _ClassVar[int]
    database: str
    name: str
    new_name: str
    new_database: str
    def __init__(self, database: _Optional[str] = ..., name: _Optional[str] = ..., new_name: _Optional[str] = ..., new_database: _Optional[str] = ...) -> None: ...

class CommitRequest(_message.Message):
    __slots__ = ("changes", "request_id", "digest")
    CHANGES_FIELD_NUMBER: _ClassVar[int]
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    changes: _containers.RepeatedCompositeFieldContainer[TableCommit]
    request_id: str
    digest: bytes
    def __init__(self, changes: _Optional[_Iterable[_Union[TableCommit, _Mapping]]] = ..., request_id: _Optional[str] = ..., digest: _Optional[bytes] = ...) -> None: ...

class CommitResponse(_message.Message):
    __slots__ = ("version", "timestamp_ns", "replayed", "digest")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_NS_FIELD_NUMBER: _ClassVar[int]
    REPLAYED_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    version: int
    timestamp_ns: int
    replayed: bool
    digest: bytes
    def __init__(self, version: _Optional[int] = ..., timestamp_ns: _Optional[int] = ..., replayed: _Optional[bool] = ..., digest: _Optional[bytes] = ...) -> None: ...

class TableCommit(_message.Message):
    __slots__ = ("table_id", "read_version", "summary", "regions", "data", "restore", "alter_schema", "set_properties", "set_partitioning", "create_index", "update_index", "drop_index", "set_sort_order", "fill")
    class SummaryEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    READ_VERSION_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    RESTORE_FIELD_NUMBER: _ClassVar[int]
    ALTER_SCHEMA_FIELD_NUMBER: _ClassVar[int]
    SET_PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    SET_PARTITIONING_FIELD_NUMBER: _ClassVar[int]
    CREATE_INDEX_FIELD_NUMBER: _ClassVar[int]
    UPDATE_INDEX_FIELD_NUMBER: _ClassVar[int]
    DROP_INDEX_FIELD_NUMBER: _ClassVar[int]
    SET_SORT_ORDER_FIELD_NUMBER: _ClassVar[int]
    FILL_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    read_version: int
    summary: _containers.ScalarMap[str, str]
    regions: _containers.RepeatedCompositeFieldContainer[RegionUse]
    data: DataOperation
    restore: Restore
    alter_schema: AlterSchema
    set_properties: SetProperties
    set_partitioning: SetPartitioning
    create_index: CreateIndex
    update_index: UpdateIndex
    drop_index: DropIndex
    set_sort_order: SetSortOrder
    fill: Fill
    def __init__(self, table_id: _Optional[str] = ..., read_version: _Optional[int] = ..., summary: _Optional[_Mapping[str, str]] = ..., regions: _Optional[_Iterable[_Union[RegionUse, _Mapping]]] = ..., data: _Optional[_Union[DataOperation, _Mapping]] = ..., restore: _Optional[_Union[Restore, _Mapping]] = ..., alter_schema: _Optional[_Union[AlterSchema, _Mapping]] = ..., set_properties: _Optional[_Union[SetProperties, _Mapping]] = ..., set_partitioning: _Optional[_Union[SetPartitioning, _Mapping]] = ..., create_index: _Optional[_Union[CreateIndex, _Mapping]] = ..., update_index: _Optional[_Union[UpdateIndex, _Mapping]] = ..., drop_index: _Optional[_Union[DropIndex, _Mapping]] = ..., set_sort_order: _Optional[_Union[SetSortOrder, _Mapping]] = ..., fill: _Optional[_Union[Fill, _Mapping]] = ...) -> None: ...

class RegionUse(_message.Message):
    __slots__ = ("number", "epoch", "covered", "reached")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    COVERED_FIELD_NUMBER: _ClassVar[int]
    REACHED_FIELD_NUMBER: _ClassVar[int]
    number: int
    epoch: int
    covered: int
    reached: int
    def __init__(self, number: _Optional[int] = ..., epoch: _Optional[int] = ..., covered: _Optional[int] = ..., reached: _Optional[int] = ...) -> None: ...

class DataOperation(_message.Message):
    __slots__ = ("kind", "added", "removed", "vectors", "added_vectors", "journals", "journal_outputs", "claim", "everything")
    KIND_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    ADDED_VECTORS_FIELD_NUMBER: _ClassVar[int]
    JOURNALS_FIELD_NUMBER: _ClassVar[int]
    JOURNAL_OUTPUTS_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    EVERYTHING_FIELD_NUMBER: _ClassVar[int]
    kind: str
    added: _containers.RepeatedCompositeFieldContainer[_manifest_pb2.DataFileRef]
    removed: _containers.RepeatedCompositeFieldContainer[Expected]
    vectors: _containers.RepeatedCompositeFieldContainer[NewVector]
    added_vectors: _containers.RepeatedCompositeFieldContainer[Vector]
    journals: _containers.RepeatedScalarFieldContainer[str]
    journal_outputs: _containers.RepeatedScalarFieldContainer[int]
    claim: Claim
    everything: bool
    def __init__(self, kind: _Optional[str] = ..., added: _Optional[_Iterable[_Union[_manifest_pb2.DataFileRef, _Mapping]]] = ..., removed: _Optional[_Iterable[_Union[Expected, _Mapping]]] = ..., vectors: _Optional[_Iterable[_Union[NewVector, _Mapping]]] = ..., added_vectors: _Optional[_Iterable[_Union[Vector, _Mapping]]] = ..., journals: _Optional[_Iterable[str]] = ..., journal_outputs: _Optional[_Iterable[int]] = ..., claim: _Optional[_Union[Claim, _Mapping]] = ..., everything: _Optional[bool] = ...) -> None: ...

class Fill(_message.Message):
    __slots__ = ("files", "claim")
    FILES_FIELD_NUMBER: _ClassVar[int]
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    files: _containers.RepeatedCompositeFieldContainer[_manifest_pb2.ColumnFileRef]
    claim: Claim
    def __init__(self, files: _Optional[_Iterable[_Union[_manifest_pb2.ColumnFileRef, _Mapping]]] = ..., claim: _Optional[_Union[Claim, _Mapping]] = ...) -> None: ...

class Expected(_message.Message):
    __slots__ = ("segment", "vector_id")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    VECTOR_ID_FIELD_NUMBER: _ClassVar[int]
    segment: int
    vector_id: int
    def __init__(self, segment: _Optional[int] = ..., vector_id: _Optional[int] = ...) -> None: ...

class Vector(_message.Message):
    __slots__ = ("id", "segment", "path", "offset", "length", "cardinality")
    ID_FIELD_NUMBER: _ClassVar[int]
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    CARDINALITY_FIELD_NUMBER: _ClassVar[int]
    id: int
    segment: int
    path: str
    offset: int
    length: int
    cardinality: int
    def __init__(self, id: _Optional[int] = ..., segment: _Optional[int] = ..., path: _Optional[str] = ..., offset: _Optional[int] = ..., length: _Optional[int] = ..., cardinality: _Optional[int] = ...) -> None: ...

class NewVector(_message.Message):
    __slots__ = ("expected", "vector")
    EXPECTED_FIELD_NUMBER: _ClassVar[int]
    VECTOR_FIELD_NUMBER: _ClassVar[int]
    expected: Expected
    vector: Vector
    def __init__(self, expected: _Optional[_Union[Expected, _Mapping]] = ..., vector: _Optional[_Union[Vector, _Mapping]] = ...) -> None: ...

class Restore(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class AlterSchema(_message.Message):
    __slots__ = ("changes_json",)
    CHANGES_JSON_FIELD_NUMBER: _ClassVar[int]
    changes_json: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, changes_json: _Optional[_Iterable[str]] = ...) -> None: ...

class SetProperties(_message.Message):
    __slots__ = ("updates", "removals")
    class UpdatesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    UPDATES_FIELD_NUMBER: _ClassVar[int]
    REMOVALS_FIELD_NUMBER: _ClassVar[int]
    updates: _containers.ScalarMap[str, str]
    removals: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, updates: _Optional[_Mapping[str, str]] = ..., removals: _Optional[_Iterable[str]] = ...) -> None: ...

class SetPartitioning(_message.Message):
    __slots__ = ("fields",)
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    fields: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, fields: _Optional[_Iterable[str]] = ...) -> None: ...

class SetSortOrder(_message.Message):
    __slots__ = ("fields",)
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    fields: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, fields: _Optional[_Iterable[str]] = ...) -> None: ...

class IndexFile(_message.Message):
    __slots__ = ("path", "size", "entries", "segments")
    PATH_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    path: str
    size: int
    entries: int
    segments: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, path: _Optional[str] = ..., size: _Optional[int] = ..., entries: _Optional[int] = ..., segments: _Optional[_Iterable[int]] = ...) -> None: ...

class CreateIndex(_message.Message):
    __slots__ = ("id", "name", "kind", "field_id", "files")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    FIELD_ID_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    kind: str
    field_id: int
    files: _containers.RepeatedCompositeFieldContainer[IndexFile]
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., kind: _Optional[str] = ..., field_id: _Optional[int] = ..., files: _Optional[_Iterable[_Union[IndexFile, _Mapping]]] = ...) -> None: ...

class UpdateIndex(_message.Message):
    __slots__ = ("id", "name", "files")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    files: _containers.RepeatedCompositeFieldContainer[IndexFile]
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., files: _Optional[_Iterable[_Union[IndexFile, _Mapping]]] = ...) -> None: ...

class DropIndex(_message.Message):
    __slots__ = ("id", "name")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ...) -> None: ...

class FindCommitRequest(_message.Message):
    __slots__ = ("request_id",)
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    def __init__(self, request_id: _Optional[str] = ...) -> None: ...

class FindCommitResponse(_message.Message):
    __slots__ = ("commit",)
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    commit: CommitResponse
    def __init__(self, commit: _Optional[_Union[CommitResponse, _Mapping]] = ...) -> None: ...

class ReserveSegmentsRequest(_message.Message):
    __slots__ = ("count",)
    COUNT_FIELD_NUMBER: _ClassVar[int]
    count: int
    def __init__(self, count: _Optional[int] = ...) -> None: ...

class ReserveSegmentsResponse(_message.Message):
    __slots__ = ("first",)
    FIRST_FIELD_NUMBER: _ClassVar[int]
    first: int
    def __init__(self, first: _Optional[int] = ...) -> None: ...

class GetVersionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetVersionAtRequest(_message.Message):
    __slots__ = ("timestamp_ns",)
    TIMESTAMP_NS_FIELD_NUMBER: _ClassVar[int]
    timestamp_ns: int
    def __init__(self, timestamp_ns: _Optional[int] = ...) -> None: ...

class VersionResponse(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class ListHistoryRequest(_message.Message):
    __slots__ = ("table_id", "limit")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    limit: int
    def __init__(self, table_id: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class ListHistoryResponse(_message.Message):
    __slots__ = ("commits",)
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    commits: _containers.RepeatedCompositeFieldContainer[CommitInfo]
    def __init__(self, commits: _Optional[_Iterable[_Union[CommitInfo, _Mapping]]] = ...) -> None: ...

class ListSequenceVersionsResponse(_message.Message):
    __slots__ = ("sequences", "versions")
    SEQUENCES_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    sequences: _containers.RepeatedScalarFieldContainer[int]
    versions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, sequences: _Optional[_Iterable[int]] = ..., versions: _Optional[_Iterable[int]] = ...) -> None: ...

class WriteManifestsRequest(_message.Message):
    __slots__ = ("table_ids",)
    TABLE_IDS_FIELD_NUMBER: _ClassVar[int]
    table_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, table_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class ListBirthVersionsResponse(_message.Message):
    __slots__ = ("first_row_ids", "versions")
    FIRST_ROW_IDS_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    first_row_ids: _containers.RepeatedScalarFieldContainer[int]
    versions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, first_row_ids: _Optional[_Iterable[int]] = ..., versions: _Optional[_Iterable[int]] = ...) -> None: ...

class ListSegmentsRequest(_message.Message):
    __slots__ = ("table_id", "version", "partitions", "time_from", "time_to", "with_time_range", "with_columns", "columns")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    TIME_FROM_FIELD_NUMBER: _ClassVar[int]
    TIME_TO_FIELD_NUMBER: _ClassVar[int]
    WITH_TIME_RANGE_FIELD_NUMBER: _ClassVar[int]
    WITH_COLUMNS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    version: int
    partitions: Partitions
    time_from: int
    time_to: int
    with_time_range: bool
    with_columns: bool
    columns: FieldIds
    def __init__(self, table_id: _Optional[str] = ..., version: _Optional[int] = ..., partitions: _Optional[_Union[Partitions, _Mapping]] = ..., time_from: _Optional[int] = ..., time_to: _Optional[int] = ..., with_time_range: _Optional[bool] = ..., with_columns: _Optional[bool] = ..., columns: _Optional[_Union[FieldIds, _Mapping]] = ...) -> None: ...

class FieldIds(_message.Message):
    __slots__ = ("ids",)
    IDS_FIELD_NUMBER: _ClassVar[int]
    ids: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, ids: _Optional[_Iterable[int]] = ...) -> None: ...

class Partition(_message.Message):
    __slots__ = ("spec_id", "value")
    SPEC_ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    spec_id: int
    value: _manifest_pb2.PartitionTuple
    def __init__(self, spec_id: _Optional[int] = ..., value: _Optional[_Union[_manifest_pb2.PartitionTuple, _Mapping]] = ...) -> None: ...

class Partitions(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ...) -> None: ...

class ListPartitionsRequest(_message.Message):
    __slots__ = ("table_id", "limit")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    limit: int
    def __init__(self, table_id: _Optional[str] = ..., limit: _Optional[int] = ...) -> None: ...

class PartitionPage(_message.Message):
    __slots__ = ("partitions",)
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    partitions: _containers.RepeatedCompositeFieldContainer[Partition]
    def __init__(self, partitions: _Optional[_Iterable[_Union[Partition, _Mapping]]] = ...) -> None: ...

class SegmentPage(_message.Message):
    __slots__ = ("segments",)
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    segments: _containers.RepeatedCompositeFieldContainer[_manifest_pb2.DataFileRef]
    def __init__(self, segments: _Optional[_Iterable[_Union[_manifest_pb2.DataFileRef, _Mapping]]] = ...) -> None: ...

class GetSegmentsRequest(_message.Message):
    __slots__ = ("numbers", "version", "table_id")
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    numbers: _containers.RepeatedScalarFieldContainer[int]
    version: int
    table_id: str
    def __init__(self, numbers: _Optional[_Iterable[int]] = ..., version: _Optional[int] = ..., table_id: _Optional[str] = ...) -> None: ...

class CountRowsRequest(_message.Message):
    __slots__ = ("table_id", "version")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    version: int
    def __init__(self, table_id: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class CountRowsResponse(_message.Message):
    __slots__ = ("rows",)
    ROWS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    def __init__(self, rows: _Optional[int] = ...) -> None: ...

class ListMergesRequest(_message.Message):
    __slots__ = ("numbers", "after", "table_id")
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    numbers: _containers.RepeatedScalarFieldContainer[int]
    after: int
    table_id: str
    def __init__(self, numbers: _Optional[_Iterable[int]] = ..., after: _Optional[int] = ..., table_id: _Optional[str] = ...) -> None: ...

class ListMergesResponse(_message.Message):
    __slots__ = ("merges",)
    MERGES_FIELD_NUMBER: _ClassVar[int]
    merges: _containers.RepeatedCompositeFieldContainer[MergeOf]
    def __init__(self, merges: _Optional[_Iterable[_Union[MergeOf, _Mapping]]] = ...) -> None: ...

class MergeOf(_message.Message):
    __slots__ = ("segment", "version", "journals")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    JOURNALS_FIELD_NUMBER: _ClassVar[int]
    segment: int
    version: int
    journals: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, segment: _Optional[int] = ..., version: _Optional[int] = ..., journals: _Optional[_Iterable[str]] = ...) -> None: ...

class ChangeRange(_message.Message):
    __slots__ = ("table_id", "since", "until", "limit", "net")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    UNTIL_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    NET_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    since: int
    until: int
    limit: int
    net: bool
    def __init__(self, table_id: _Optional[str] = ..., since: _Optional[int] = ..., until: _Optional[int] = ..., limit: _Optional[int] = ..., net: _Optional[bool] = ...) -> None: ...

class ListChangedVersionsResponse(_message.Message):
    __slots__ = ("versions",)
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    versions: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, versions: _Optional[_Iterable[int]] = ...) -> None: ...

class SegmentChange(_message.Message):
    __slots__ = ("before", "after")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    before: _manifest_pb2.DataFileRef
    after: _manifest_pb2.DataFileRef
    def __init__(self, before: _Optional[_Union[_manifest_pb2.DataFileRef, _Mapping]] = ..., after: _Optional[_Union[_manifest_pb2.DataFileRef, _Mapping]] = ...) -> None: ...

class CommitNumbers(_message.Message):
    __slots__ = ("sequence", "version", "timestamp_ns")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_NS_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    version: int
    timestamp_ns: int
    def __init__(self, sequence: _Optional[int] = ..., version: _Optional[int] = ..., timestamp_ns: _Optional[int] = ...) -> None: ...

class VersionChange(_message.Message):
    __slots__ = ("version", "timestamp_ns", "next_row_id", "segments", "commits")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_NS_FIELD_NUMBER: _ClassVar[int]
    NEXT_ROW_ID_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    version: int
    timestamp_ns: int
    next_row_id: int
    segments: _containers.RepeatedCompositeFieldContainer[SegmentChange]
    commits: _containers.RepeatedCompositeFieldContainer[CommitNumbers]
    def __init__(self, version: _Optional[int] = ..., timestamp_ns: _Optional[int] = ..., next_row_id: _Optional[int] = ..., segments: _Optional[_Iterable[_Union[SegmentChange, _Mapping]]] = ..., commits: _Optional[_Iterable[_Union[CommitNumbers, _Mapping]]] = ...) -> None: ...

class Claim(_message.Message):
    __slots__ = ("task_id", "attempt")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt: int
    def __init__(self, task_id: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class PlannedMerge(_message.Message):
    __slots__ = ("table_id", "inputs", "level", "kind")
    class InputsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    inputs: _containers.ScalarMap[int, int]
    level: int
    kind: str
    def __init__(self, table_id: _Optional[str] = ..., inputs: _Optional[_Mapping[int, int]] = ..., level: _Optional[int] = ..., kind: _Optional[str] = ...) -> None: ...

class CreateMergeTasksRequest(_message.Message):
    __slots__ = ("planned", "worker", "read_version", "seconds")
    PLANNED_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    READ_VERSION_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    planned: _containers.RepeatedCompositeFieldContainer[PlannedMerge]
    worker: str
    read_version: int
    seconds: float
    def __init__(self, planned: _Optional[_Iterable[_Union[PlannedMerge, _Mapping]]] = ..., worker: _Optional[str] = ..., read_version: _Optional[int] = ..., seconds: _Optional[float] = ...) -> None: ...

class CreateMergeTasksResponse(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[CreatedMergeTask]
    def __init__(self, tasks: _Optional[_Iterable[_Union[CreatedMergeTask, _Mapping]]] = ...) -> None: ...

class CreatedMergeTask(_message.Message):
    __slots__ = ("claim",)
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ...) -> None: ...

class ClaimMergeTaskRequest(_message.Message):
    __slots__ = ("worker", "seconds", "table_id")
    WORKER_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    worker: str
    seconds: float
    table_id: str
    def __init__(self, worker: _Optional[str] = ..., seconds: _Optional[float] = ..., table_id: _Optional[str] = ...) -> None: ...

class ClaimMergeTaskResponse(_message.Message):
    __slots__ = ("task",)
    TASK_FIELD_NUMBER: _ClassVar[int]
    task: ClaimedMerge
    def __init__(self, task: _Optional[_Union[ClaimedMerge, _Mapping]] = ...) -> None: ...

class ClaimedMerge(_message.Message):
    __slots__ = ("claim", "table_id", "level", "inputs", "read_version", "lease_until", "first_number", "numbers")
    class InputsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    READ_VERSION_FIELD_NUMBER: _ClassVar[int]
    LEASE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    FIRST_NUMBER_FIELD_NUMBER: _ClassVar[int]
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    table_id: str
    level: int
    inputs: _containers.ScalarMap[int, int]
    read_version: int
    lease_until: int
    first_number: int
    numbers: int
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ..., table_id: _Optional[str] = ..., level: _Optional[int] = ..., inputs: _Optional[_Mapping[int, int]] = ..., read_version: _Optional[int] = ..., lease_until: _Optional[int] = ..., first_number: _Optional[int] = ..., numbers: _Optional[int] = ...) -> None: ...

class RenewMergeTaskRequest(_message.Message):
    __slots__ = ("claim", "seconds")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    seconds: float
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ..., seconds: _Optional[float] = ...) -> None: ...

class RenewMergeTaskResponse(_message.Message):
    __slots__ = ("lease_until",)
    LEASE_UNTIL_FIELD_NUMBER: _ClassVar[int]
    lease_until: int
    def __init__(self, lease_until: _Optional[int] = ...) -> None: ...

class FailMergeTaskRequest(_message.Message):
    __slots__ = ("claim", "message")
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    message: str
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ..., message: _Optional[str] = ...) -> None: ...

class FailMergeTaskResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ReleaseMergeTaskRequest(_message.Message):
    __slots__ = ("claim",)
    CLAIM_FIELD_NUMBER: _ClassVar[int]
    claim: Claim
    def __init__(self, claim: _Optional[_Union[Claim, _Mapping]] = ...) -> None: ...

class ReleaseMergeTaskResponse(_message.Message):
    __slots__ = ("released",)
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    released: bool
    def __init__(self, released: _Optional[bool] = ...) -> None: ...

class MergeTaskId(_message.Message):
    __slots__ = ("task_id", "attempt")
    TASK_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    task_id: str
    attempt: int
    def __init__(self, task_id: _Optional[str] = ..., attempt: _Optional[int] = ...) -> None: ...

class GetMergeTaskResponse(_message.Message):
    __slots__ = ("task", "inputs", "smallest", "largest", "total", "time_min", "time_max")
    TASK_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    SMALLEST_FIELD_NUMBER: _ClassVar[int]
    LARGEST_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    TIME_MIN_FIELD_NUMBER: _ClassVar[int]
    TIME_MAX_FIELD_NUMBER: _ClassVar[int]
    task: MergeTask
    inputs: _containers.RepeatedScalarFieldContainer[int]
    smallest: int
    largest: int
    total: int
    time_min: int
    time_max: int
    def __init__(self, task: _Optional[_Union[MergeTask, _Mapping]] = ..., inputs: _Optional[_Iterable[int]] = ..., smallest: _Optional[int] = ..., largest: _Optional[int] = ..., total: _Optional[int] = ..., time_min: _Optional[int] = ..., time_max: _Optional[int] = ...) -> None: ...

class DeleteMergeTaskResponse(_message.Message):
    __slots__ = ("deleted",)
    DELETED_FIELD_NUMBER: _ClassVar[int]
    deleted: bool
    def __init__(self, deleted: _Optional[bool] = ...) -> None: ...

class ListMergeTasksRequest(_message.Message):
    __slots__ = ("table_id",)
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    def __init__(self, table_id: _Optional[str] = ...) -> None: ...

class ListMergeTasksResponse(_message.Message):
    __slots__ = ("tasks",)
    TASKS_FIELD_NUMBER: _ClassVar[int]
    tasks: _containers.RepeatedCompositeFieldContainer[MergeTask]
    def __init__(self, tasks: _Optional[_Iterable[_Union[MergeTask, _Mapping]]] = ...) -> None: ...

class MergeTask(_message.Message):
    __slots__ = ("id", "table_id", "state", "level", "segments", "created_at", "available_at", "worker", "claimed_at", "attempt", "failures", "last_error")
    ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    AVAILABLE_AT_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    CLAIMED_AT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    LAST_ERROR_FIELD_NUMBER: _ClassVar[int]
    id: str
    table_id: str
    state: str
    level: int
    segments: int
    created_at: int
    available_at: int
    worker: str
    claimed_at: int
    attempt: int
    failures: int
    last_error: str
    def __init__(self, id: _Optional[str] = ..., table_id: _Optional[str] = ..., state: _Optional[str] = ..., level: _Optional[int] = ..., segments: _Optional[int] = ..., created_at: _Optional[int] = ..., available_at: _Optional[int] = ..., worker: _Optional[str] = ..., claimed_at: _Optional[int] = ..., attempt: _Optional[int] = ..., failures: _Optional[int] = ..., last_error: _Optional[str] = ...) -> None: ...

class ListHeldInputsRequest(_message.Message):
    __slots__ = ("numbers",)
    NUMBERS_FIELD_NUMBER: _ClassVar[int]
    numbers: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, numbers: _Optional[_Iterable[int]] = ...) -> None: ...

class ListHeldInputsResponse(_message.Message):
    __slots__ = ("held",)
    HELD_FIELD_NUMBER: _ClassVar[int]
    held: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, held: _Optional[_Iterable[int]] = ...) -> None: ...

class PinRequest(_message.Message):
    __slots__ = ("table_id", "version")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    version: int
    def __init__(self, table_id: _Optional[str] = ..., version: _Optional[int] = ...) -> None: ...

class PinResponse(_message.Message):
    __slots__ = ("pin_id",)
    PIN_ID_FIELD_NUMBER: _ClassVar[int]
    pin_id: str
    def __init__(self, pin_id: _Optional[str] = ...) -> None: ...

class PinId(_message.Message):
    __slots__ = ("pin_id",)
    PIN_ID_FIELD_NUMBER: _ClassVar[int]
    pin_id: str
    def __init__(self, pin_id: _Optional[str] = ...) -> None: ...

class RenewPinResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class UnpinResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetRegionNumberRequest(_message.Message):
    __slots__ = ("table_id", "value")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    value: _manifest_pb2.PartitionTuple
    def __init__(self, table_id: _Optional[str] = ..., value: _Optional[_Union[_manifest_pb2.PartitionTuple, _Mapping]] = ...) -> None: ...

class GetRegionNumberResponse(_message.Message):
    __slots__ = ("number", "region")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    number: int
    region: Region
    def __init__(self, number: _Optional[int] = ..., region: _Optional[_Union[Region, _Mapping]] = ...) -> None: ...

class ClaimRegionRequest(_message.Message):
    __slots__ = ("table_id", "number", "owner")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    number: int
    owner: str
    def __init__(self, table_id: _Optional[str] = ..., number: _Optional[int] = ..., owner: _Optional[str] = ...) -> None: ...

class ListRegionsResponse(_message.Message):
    __slots__ = ("regions",)
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    regions: _containers.RepeatedCompositeFieldContainer[Region]
    def __init__(self, regions: _Optional[_Iterable[_Union[Region, _Mapping]]] = ...) -> None: ...

class GetRegionEpochRequest(_message.Message):
    __slots__ = ("table_id", "number")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    number: int
    def __init__(self, table_id: _Optional[str] = ..., number: _Optional[int] = ...) -> None: ...

class GetRegionEpochResponse(_message.Message):
    __slots__ = ("epoch",)
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    epoch: int
    def __init__(self, epoch: _Optional[int] = ...) -> None: ...

class ReleaseRegionRequest(_message.Message):
    __slots__ = ("table_id", "number", "epoch")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    number: int
    epoch: int
    def __init__(self, table_id: _Optional[str] = ..., number: _Optional[int] = ..., epoch: _Optional[int] = ...) -> None: ...

class ReleaseRegionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListClaimedTablesRequest(_message.Message):
    __slots__ = ("branch",)
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    branch: str
    def __init__(self, branch: _Optional[str] = ...) -> None: ...

class ListClaimedTablesResponse(_message.Message):
    __slots__ = ("table_ids",)
    TABLE_IDS_FIELD_NUMBER: _ClassVar[int]
    table_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, table_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class IndexInfo(_message.Message):
    __slots__ = ("index", "files", "bytes", "segments")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    index: _manifest_pb2.Index
    files: int
    bytes: int
    segments: int
    def __init__(self, index: _Optional[_Union[_manifest_pb2.Index, _Mapping]] = ..., files: _Optional[int] = ..., bytes: _Optional[int] = ..., segments: _Optional[int] = ...) -> None: ...

class ListIndexesResponse(_message.Message):
    __slots__ = ("indexes",)
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    indexes: _containers.RepeatedCompositeFieldContainer[IndexInfo]
    def __init__(self, indexes: _Optional[_Iterable[_Union[IndexInfo, _Mapping]]] = ...) -> None: ...

class ListIndexCoverageRequest(_message.Message):
    __slots__ = ("table_id", "segments", "fields")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    FIELDS_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    segments: _containers.RepeatedScalarFieldContainer[int]
    fields: FieldIds
    def __init__(self, table_id: _Optional[str] = ..., segments: _Optional[_Iterable[int]] = ..., fields: _Optional[_Union[FieldIds, _Mapping]] = ...) -> None: ...

class ListIndexCoverageResponse(_message.Message):
    __slots__ = ("covering",)
    COVERING_FIELD_NUMBER: _ClassVar[int]
    covering: _containers.RepeatedCompositeFieldContainer[Covering]
    def __init__(self, covering: _Optional[_Iterable[_Union[Covering, _Mapping]]] = ...) -> None: ...

class Covering(_message.Message):
    __slots__ = ("index", "path", "size", "segments")
    INDEX_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    index: _manifest_pb2.Index
    path: str
    size: int
    segments: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, index: _Optional[_Union[_manifest_pb2.Index, _Mapping]] = ..., path: _Optional[str] = ..., size: _Optional[int] = ..., segments: _Optional[_Iterable[int]] = ...) -> None: ...

class GetWrittenBytesRequest(_message.Message):
    __slots__ = ("table_id", "after")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    after: int
    def __init__(self, table_id: _Optional[str] = ..., after: _Optional[int] = ...) -> None: ...

class GetWrittenBytesResponse(_message.Message):
    __slots__ = ("bytes",)
    class BytesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    BYTES_FIELD_NUMBER: _ClassVar[int]
    bytes: _containers.ScalarMap[int, int]
    def __init__(self, bytes: _Optional[_Mapping[int, int]] = ...) -> None: ...

class GetPublishedVersionRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetPublishedVersionResponse(_message.Message):
    __slots__ = ("version",)
    VERSION_FIELD_NUMBER: _ClassVar[int]
    version: int
    def __init__(self, version: _Optional[int] = ...) -> None: ...

class GetStreamsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetStreamsResponse(_message.Message):
    __slots__ = ("version", "routing_seq", "complete_through", "streams", "tables", "routing")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ROUTING_SEQ_FIELD_NUMBER: _ClassVar[int]
    COMPLETE_THROUGH_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    ROUTING_FIELD_NUMBER: _ClassVar[int]
    version: int
    routing_seq: int
    complete_through: int
    streams: _containers.RepeatedCompositeFieldContainer[StreamState]
    tables: _containers.RepeatedCompositeFieldContainer[RoutedTable]
    routing: _containers.RepeatedCompositeFieldContainer[TokenRouting]
    def __init__(self, version: _Optional[int] = ..., routing_seq: _Optional[int] = ..., complete_through: _Optional[int] = ..., streams: _Optional[_Iterable[_Union[StreamState, _Mapping]]] = ..., tables: _Optional[_Iterable[_Union[RoutedTable, _Mapping]]] = ..., routing: _Optional[_Iterable[_Union[TokenRouting, _Mapping]]] = ...) -> None: ...

class StreamState(_message.Message):
    __slots__ = ("id", "collector_id", "description", "token_id", "created_at", "frontier", "frontier_time", "deleted_offset", "deleted_time", "stopped_at", "stopped_offset", "stop_reason", "tables")
    ID_FIELD_NUMBER: _ClassVar[int]
    COLLECTOR_ID_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_TIME_FIELD_NUMBER: _ClassVar[int]
    DELETED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELETED_TIME_FIELD_NUMBER: _ClassVar[int]
    STOPPED_AT_FIELD_NUMBER: _ClassVar[int]
    STOPPED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    id: str
    collector_id: str
    description: str
    token_id: str
    created_at: int
    frontier: int
    frontier_time: int
    deleted_offset: int
    deleted_time: int
    stopped_at: int
    stopped_offset: int
    stop_reason: int
    tables: _containers.RepeatedCompositeFieldContainer[StreamTable]
    def __init__(self, id: _Optional[str] = ..., collector_id: _Optional[str] = ..., description: _Optional[str] = ..., token_id: _Optional[str] = ..., created_at: _Optional[int] = ..., frontier: _Optional[int] = ..., frontier_time: _Optional[int] = ..., deleted_offset: _Optional[int] = ..., deleted_time: _Optional[int] = ..., stopped_at: _Optional[int] = ..., stopped_offset: _Optional[int] = ..., stop_reason: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[StreamTable, _Mapping]]] = ...) -> None: ...

class StreamTable(_message.Message):
    __slots__ = ("table_id", "merged_offset", "merged_time", "created_at")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    MERGED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MERGED_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    table_id: str
    merged_offset: int
    merged_time: int
    created_at: int
    def __init__(self, table_id: _Optional[str] = ..., merged_offset: _Optional[int] = ..., merged_time: _Optional[int] = ..., created_at: _Optional[int] = ...) -> None: ...

class RoutedTable(_message.Message):
    __slots__ = ("id", "database_id", "name", "retired")
    ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RETIRED_FIELD_NUMBER: _ClassVar[int]
    id: str
    database_id: str
    name: str
    retired: bool
    def __init__(self, id: _Optional[str] = ..., database_id: _Optional[str] = ..., name: _Optional[str] = ..., retired: _Optional[bool] = ...) -> None: ...

class TokenRouting(_message.Message):
    __slots__ = ("token_id", "database_id", "traces_table_id", "logs_table_id", "metrics_table_id", "retired")
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    TRACES_TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    LOGS_TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    METRICS_TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    RETIRED_FIELD_NUMBER: _ClassVar[int]
    token_id: str
    database_id: str
    traces_table_id: str
    logs_table_id: str
    metrics_table_id: str
    retired: bool
    def __init__(self, token_id: _Optional[str] = ..., database_id: _Optional[str] = ..., traces_table_id: _Optional[str] = ..., logs_table_id: _Optional[str] = ..., metrics_table_id: _Optional[str] = ..., retired: _Optional[bool] = ...) -> None: ...
