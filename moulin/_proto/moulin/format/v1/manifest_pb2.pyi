from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DataFileRef(_message.Message):
    __slots__ = ("path", "file_size", "num_rows", "level", "seq_min", "seq_max", "key_min", "key_max", "dv_path", "dv_offset", "dv_length", "status", "format", "number", "schema_id", "spec_id", "partition", "sort_order_id", "sha256", "columns", "time_min", "time_max", "has_lineage", "first_row_id", "sequence", "added_version", "dv_id", "dv_cardinality", "since_version", "dv_version", "region", "index_size", "owner", "adopted", "dv_adopted", "columns_id", "column_files")
    PATH_FIELD_NUMBER: _ClassVar[int]
    FILE_SIZE_FIELD_NUMBER: _ClassVar[int]
    NUM_ROWS_FIELD_NUMBER: _ClassVar[int]
    LEVEL_FIELD_NUMBER: _ClassVar[int]
    SEQ_MIN_FIELD_NUMBER: _ClassVar[int]
    SEQ_MAX_FIELD_NUMBER: _ClassVar[int]
    KEY_MIN_FIELD_NUMBER: _ClassVar[int]
    KEY_MAX_FIELD_NUMBER: _ClassVar[int]
    DV_PATH_FIELD_NUMBER: _ClassVar[int]
    DV_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DV_LENGTH_FIELD_NUMBER: _ClassVar[int]
    STATUS_FIELD_NUMBER: _ClassVar[int]
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    SORT_ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    TIME_MIN_FIELD_NUMBER: _ClassVar[int]
    TIME_MAX_FIELD_NUMBER: _ClassVar[int]
    HAS_LINEAGE_FIELD_NUMBER: _ClassVar[int]
    FIRST_ROW_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    ADDED_VERSION_FIELD_NUMBER: _ClassVar[int]
    DV_ID_FIELD_NUMBER: _ClassVar[int]
    DV_CARDINALITY_FIELD_NUMBER: _ClassVar[int]
    SINCE_VERSION_FIELD_NUMBER: _ClassVar[int]
    DV_VERSION_FIELD_NUMBER: _ClassVar[int]
    REGION_FIELD_NUMBER: _ClassVar[int]
    INDEX_SIZE_FIELD_NUMBER: _ClassVar[int]
    OWNER_FIELD_NUMBER: _ClassVar[int]
    ADOPTED_FIELD_NUMBER: _ClassVar[int]
    DV_ADOPTED_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_ID_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FILES_FIELD_NUMBER: _ClassVar[int]
    path: str
    file_size: int
    num_rows: int
    level: int
    seq_min: int
    seq_max: int
    key_min: bytes
    key_max: bytes
    dv_path: str
    dv_offset: int
    dv_length: int
    status: int
    format: int
    number: int
    schema_id: int
    spec_id: int
    partition: _containers.RepeatedCompositeFieldContainer[PartitionValue]
    sort_order_id: int
    sha256: bytes
    columns: SegmentColumns
    time_min: int
    time_max: int
    has_lineage: bool
    first_row_id: int
    sequence: int
    added_version: int
    dv_id: int
    dv_cardinality: int
    since_version: int
    dv_version: int
    region: int
    index_size: int
    owner: bytes
    adopted: bool
    dv_adopted: bool
    columns_id: int
    column_files: _containers.RepeatedCompositeFieldContainer[ColumnFileRef]
    def __init__(self, path: _Optional[str] = ..., file_size: _Optional[int] = ..., num_rows: _Optional[int] = ..., level: _Optional[int] = ..., seq_min: _Optional[int] = ..., seq_max: _Optional[int] = ..., key_min: _Optional[bytes] = ..., key_max: _Optional[bytes] = ..., dv_path: _Optional[str] = ..., dv_offset: _Optional[int] = ..., dv_length: _Optional[int] = ..., status: _Optional[int] = ..., format: _Optional[int] = ..., number: _Optional[int] = ..., schema_id: _Optional[int] = ..., spec_id: _Optional[int] = ..., partition: _Optional[_Iterable[_Union[PartitionValue, _Mapping]]] = ..., sort_order_id: _Optional[int] = ..., sha256: _Optional[bytes] = ..., columns: _Optional[_Union[SegmentColumns, _Mapping]] = ..., time_min: _Optional[int] = ..., time_max: _Optional[int] = ..., has_lineage: _Optional[bool] = ..., first_row_id: _Optional[int] = ..., sequence: _Optional[int] = ..., added_version: _Optional[int] = ..., dv_id: _Optional[int] = ..., dv_cardinality: _Optional[int] = ..., since_version: _Optional[int] = ..., dv_version: _Optional[int] = ..., region: _Optional[int] = ..., index_size: _Optional[int] = ..., owner: _Optional[bytes] = ..., adopted: _Optional[bool] = ..., dv_adopted: _Optional[bool] = ..., columns_id: _Optional[int] = ..., column_files: _Optional[_Iterable[_Union[ColumnFileRef, _Mapping]]] = ...) -> None: ...

class ColumnFileRef(_message.Message):
    __slots__ = ("segment", "path", "file_size", "sha256", "field_ids", "columns")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    FILE_SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    FIELD_IDS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    segment: int
    path: str
    file_size: int
    sha256: bytes
    field_ids: _containers.RepeatedScalarFieldContainer[int]
    columns: SegmentColumns
    def __init__(self, segment: _Optional[int] = ..., path: _Optional[str] = ..., file_size: _Optional[int] = ..., sha256: _Optional[bytes] = ..., field_ids: _Optional[_Iterable[int]] = ..., columns: _Optional[_Union[SegmentColumns, _Mapping]] = ...) -> None: ...

class PartitionValue(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: bytes
    def __init__(self, value: _Optional[bytes] = ...) -> None: ...

class PartitionTuple(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedCompositeFieldContainer[PartitionValue]
    def __init__(self, values: _Optional[_Iterable[_Union[PartitionValue, _Mapping]]] = ...) -> None: ...

class SegmentColumns(_message.Message):
    __slots__ = ("columns", "split_offsets", "inline", "adopted")
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    SPLIT_OFFSETS_FIELD_NUMBER: _ClassVar[int]
    INLINE_FIELD_NUMBER: _ClassVar[int]
    ADOPTED_FIELD_NUMBER: _ClassVar[int]
    columns: _containers.RepeatedCompositeFieldContainer[ColumnFacts]
    split_offsets: _containers.RepeatedScalarFieldContainer[int]
    inline: bytes
    adopted: AdoptedFile
    def __init__(self, columns: _Optional[_Iterable[_Union[ColumnFacts, _Mapping]]] = ..., split_offsets: _Optional[_Iterable[int]] = ..., inline: _Optional[bytes] = ..., adopted: _Optional[_Union[AdoptedFile, _Mapping]] = ...) -> None: ...

class AdoptedFile(_message.Message):
    __slots__ = ("owner", "field_ids", "constants", "modified_ns", "etag", "hidden_keys", "other_ids", "location", "unread")
    OWNER_FIELD_NUMBER: _ClassVar[int]
    FIELD_IDS_FIELD_NUMBER: _ClassVar[int]
    CONSTANTS_FIELD_NUMBER: _ClassVar[int]
    MODIFIED_NS_FIELD_NUMBER: _ClassVar[int]
    ETAG_FIELD_NUMBER: _ClassVar[int]
    HIDDEN_KEYS_FIELD_NUMBER: _ClassVar[int]
    OTHER_IDS_FIELD_NUMBER: _ClassVar[int]
    LOCATION_FIELD_NUMBER: _ClassVar[int]
    UNREAD_FIELD_NUMBER: _ClassVar[int]
    owner: bytes
    field_ids: _containers.RepeatedScalarFieldContainer[int]
    constants: _containers.RepeatedCompositeFieldContainer[ConstantColumn]
    modified_ns: int
    etag: str
    hidden_keys: _containers.RepeatedScalarFieldContainer[int]
    other_ids: bool
    location: str
    unread: bool
    def __init__(self, owner: _Optional[bytes] = ..., field_ids: _Optional[_Iterable[int]] = ..., constants: _Optional[_Iterable[_Union[ConstantColumn, _Mapping]]] = ..., modified_ns: _Optional[int] = ..., etag: _Optional[str] = ..., hidden_keys: _Optional[_Iterable[int]] = ..., other_ids: _Optional[bool] = ..., location: _Optional[str] = ..., unread: _Optional[bool] = ...) -> None: ...

class ConstantColumn(_message.Message):
    __slots__ = ("field_id", "value")
    FIELD_ID_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    field_id: int
    value: bytes
    def __init__(self, field_id: _Optional[int] = ..., value: _Optional[bytes] = ...) -> None: ...

class ColumnFacts(_message.Message):
    __slots__ = ("field_id", "values", "nulls", "nans", "size", "lower", "upper")
    FIELD_ID_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    NULLS_FIELD_NUMBER: _ClassVar[int]
    NANS_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    LOWER_FIELD_NUMBER: _ClassVar[int]
    UPPER_FIELD_NUMBER: _ClassVar[int]
    field_id: int
    values: int
    nulls: int
    nans: int
    size: int
    lower: bytes
    upper: bytes
    def __init__(self, field_id: _Optional[int] = ..., values: _Optional[int] = ..., nulls: _Optional[int] = ..., nans: _Optional[int] = ..., size: _Optional[int] = ..., lower: _Optional[bytes] = ..., upper: _Optional[bytes] = ...) -> None: ...

class DeleteFileRef(_message.Message):
    __slots__ = ("path", "file_size", "content")
    PATH_FIELD_NUMBER: _ClassVar[int]
    FILE_SIZE_FIELD_NUMBER: _ClassVar[int]
    CONTENT_FIELD_NUMBER: _ClassVar[int]
    path: str
    file_size: int
    content: int
    def __init__(self, path: _Optional[str] = ..., file_size: _Optional[int] = ..., content: _Optional[int] = ...) -> None: ...

class Manifest(_message.Message):
    __slots__ = ("snapshot_id", "sequence_number", "schema_id", "partition_spec_id", "data_files", "delete_files", "previous_snapshot_id", "table_uuid", "last_updated_ms", "properties", "last_column_id", "version", "reader_features", "writer_features", "lake_uuid", "incarnation", "timestamp_ns", "kind", "tables", "lake", "commits", "table", "journals", "merge_inputs", "sequence_versions", "regions", "indexes", "index_files", "dropped_indexes", "masks", "databases", "table_entries", "views", "purged", "requests", "state", "ingest_tokens", "streams", "set_asides", "routing_changed", "branches", "branch_tables", "base_paths", "adopted_files", "erasures", "birth_row_ids", "birth_versions", "writer", "checksum")
    class PropertiesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class SequenceVersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: int
        value: int
        def __init__(self, key: _Optional[int] = ..., value: _Optional[int] = ...) -> None: ...
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_NUMBER_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_ID_FIELD_NUMBER: _ClassVar[int]
    PARTITION_SPEC_ID_FIELD_NUMBER: _ClassVar[int]
    DATA_FILES_FIELD_NUMBER: _ClassVar[int]
    DELETE_FILES_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    TABLE_UUID_FIELD_NUMBER: _ClassVar[int]
    LAST_UPDATED_MS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_FIELD_NUMBER: _ClassVar[int]
    LAST_COLUMN_ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    READER_FEATURES_FIELD_NUMBER: _ClassVar[int]
    WRITER_FEATURES_FIELD_NUMBER: _ClassVar[int]
    LAKE_UUID_FIELD_NUMBER: _ClassVar[int]
    INCARNATION_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_NS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    LAKE_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    TABLE_FIELD_NUMBER: _ClassVar[int]
    JOURNALS_FIELD_NUMBER: _ClassVar[int]
    MERGE_INPUTS_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    INDEXES_FIELD_NUMBER: _ClassVar[int]
    INDEX_FILES_FIELD_NUMBER: _ClassVar[int]
    DROPPED_INDEXES_FIELD_NUMBER: _ClassVar[int]
    MASKS_FIELD_NUMBER: _ClassVar[int]
    DATABASES_FIELD_NUMBER: _ClassVar[int]
    TABLE_ENTRIES_FIELD_NUMBER: _ClassVar[int]
    VIEWS_FIELD_NUMBER: _ClassVar[int]
    PURGED_FIELD_NUMBER: _ClassVar[int]
    REQUESTS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    INGEST_TOKENS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    SET_ASIDES_FIELD_NUMBER: _ClassVar[int]
    ROUTING_CHANGED_FIELD_NUMBER: _ClassVar[int]
    BRANCHES_FIELD_NUMBER: _ClassVar[int]
    BRANCH_TABLES_FIELD_NUMBER: _ClassVar[int]
    BASE_PATHS_FIELD_NUMBER: _ClassVar[int]
    ADOPTED_FILES_FIELD_NUMBER: _ClassVar[int]
    ERASURES_FIELD_NUMBER: _ClassVar[int]
    BIRTH_ROW_IDS_FIELD_NUMBER: _ClassVar[int]
    BIRTH_VERSIONS_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    CHECKSUM_FIELD_NUMBER: _ClassVar[int]
    snapshot_id: int
    sequence_number: int
    schema_id: int
    partition_spec_id: int
    data_files: _containers.RepeatedCompositeFieldContainer[DataFileRef]
    delete_files: _containers.RepeatedCompositeFieldContainer[DeleteFileRef]
    previous_snapshot_id: int
    table_uuid: str
    last_updated_ms: int
    properties: _containers.ScalarMap[str, str]
    last_column_id: int
    version: int
    reader_features: int
    writer_features: int
    lake_uuid: bytes
    incarnation: int
    timestamp_ns: int
    kind: str
    tables: _containers.RepeatedScalarFieldContainer[bytes]
    lake: bool
    commits: _containers.RepeatedCompositeFieldContainer[Commit]
    table: TableState
    journals: _containers.RepeatedScalarFieldContainer[str]
    merge_inputs: _containers.RepeatedScalarFieldContainer[int]
    sequence_versions: _containers.ScalarMap[int, int]
    regions: _containers.RepeatedCompositeFieldContainer[Region]
    indexes: _containers.RepeatedCompositeFieldContainer[Index]
    index_files: _containers.RepeatedCompositeFieldContainer[IndexFile]
    dropped_indexes: _containers.RepeatedScalarFieldContainer[bytes]
    masks: _containers.RepeatedCompositeFieldContainer[Mask]
    databases: _containers.RepeatedCompositeFieldContainer[Database]
    table_entries: _containers.RepeatedCompositeFieldContainer[TableEntry]
    views: _containers.RepeatedCompositeFieldContainer[View]
    purged: _containers.RepeatedScalarFieldContainer[bytes]
    requests: _containers.RepeatedCompositeFieldContainer[Request]
    state: LakeState
    ingest_tokens: _containers.RepeatedCompositeFieldContainer[IngestToken]
    streams: _containers.RepeatedCompositeFieldContainer[Stream]
    set_asides: _containers.RepeatedCompositeFieldContainer[SetAside]
    routing_changed: bool
    branches: _containers.RepeatedCompositeFieldContainer[Branch]
    branch_tables: _containers.RepeatedCompositeFieldContainer[BranchTable]
    base_paths: _containers.RepeatedCompositeFieldContainer[BasePath]
    adopted_files: _containers.RepeatedScalarFieldContainer[bytes]
    erasures: _containers.RepeatedCompositeFieldContainer[Erasure]
    birth_row_ids: _containers.RepeatedScalarFieldContainer[int]
    birth_versions: _containers.RepeatedScalarFieldContainer[int]
    writer: str
    checksum: int
    def __init__(self, snapshot_id: _Optional[int] = ..., sequence_number: _Optional[int] = ..., schema_id: _Optional[int] = ..., partition_spec_id: _Optional[int] = ..., data_files: _Optional[_Iterable[_Union[DataFileRef, _Mapping]]] = ..., delete_files: _Optional[_Iterable[_Union[DeleteFileRef, _Mapping]]] = ..., previous_snapshot_id: _Optional[int] = ..., table_uuid: _Optional[str] = ..., last_updated_ms: _Optional[int] = ..., properties: _Optional[_Mapping[str, str]] = ..., last_column_id: _Optional[int] = ..., version: _Optional[int] = ..., reader_features: _Optional[int] = ..., writer_features: _Optional[int] = ..., lake_uuid: _Optional[bytes] = ..., incarnation: _Optional[int] = ..., timestamp_ns: _Optional[int] = ..., kind: _Optional[str] = ..., tables: _Optional[_Iterable[bytes]] = ..., lake: _Optional[bool] = ..., commits: _Optional[_Iterable[_Union[Commit, _Mapping]]] = ..., table: _Optional[_Union[TableState, _Mapping]] = ..., journals: _Optional[_Iterable[str]] = ..., merge_inputs: _Optional[_Iterable[int]] = ..., sequence_versions: _Optional[_Mapping[int, int]] = ..., regions: _Optional[_Iterable[_Union[Region, _Mapping]]] = ..., indexes: _Optional[_Iterable[_Union[Index, _Mapping]]] = ..., index_files: _Optional[_Iterable[_Union[IndexFile, _Mapping]]] = ..., dropped_indexes: _Optional[_Iterable[bytes]] = ..., masks: _Optional[_Iterable[_Union[Mask, _Mapping]]] = ..., databases: _Optional[_Iterable[_Union[Database, _Mapping]]] = ..., table_entries: _Optional[_Iterable[_Union[TableEntry, _Mapping]]] = ..., views: _Optional[_Iterable[_Union[View, _Mapping]]] = ..., purged: _Optional[_Iterable[bytes]] = ..., requests: _Optional[_Iterable[_Union[Request, _Mapping]]] = ..., state: _Optional[_Union[LakeState, _Mapping]] = ..., ingest_tokens: _Optional[_Iterable[_Union[IngestToken, _Mapping]]] = ..., streams: _Optional[_Iterable[_Union[Stream, _Mapping]]] = ..., set_asides: _Optional[_Iterable[_Union[SetAside, _Mapping]]] = ..., routing_changed: _Optional[bool] = ..., branches: _Optional[_Iterable[_Union[Branch, _Mapping]]] = ..., branch_tables: _Optional[_Iterable[_Union[BranchTable, _Mapping]]] = ..., base_paths: _Optional[_Iterable[_Union[BasePath, _Mapping]]] = ..., adopted_files: _Optional[_Iterable[bytes]] = ..., erasures: _Optional[_Iterable[_Union[Erasure, _Mapping]]] = ..., birth_row_ids: _Optional[_Iterable[int]] = ..., birth_versions: _Optional[_Iterable[int]] = ..., writer: _Optional[str] = ..., checksum: _Optional[int] = ...) -> None: ...

class BasePath(_message.Message):
    __slots__ = ("id", "name", "uri", "created_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    URI_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    name: str
    uri: str
    created_at: int
    def __init__(self, id: _Optional[bytes] = ..., name: _Optional[str] = ..., uri: _Optional[str] = ..., created_at: _Optional[int] = ...) -> None: ...

class Erasure(_message.Message):
    __slots__ = ("id", "version", "tables", "segments", "vectors", "removed", "deleted", "column_files", "regions")
    ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    VECTORS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    DELETED_FIELD_NUMBER: _ClassVar[int]
    COLUMN_FILES_FIELD_NUMBER: _ClassVar[int]
    REGIONS_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    version: int
    tables: _containers.RepeatedScalarFieldContainer[bytes]
    segments: _containers.RepeatedCompositeFieldContainer[DataFileRef]
    vectors: _containers.RepeatedCompositeFieldContainer[ErasedVector]
    removed: _containers.RepeatedScalarFieldContainer[int]
    deleted: _containers.RepeatedScalarFieldContainer[str]
    column_files: _containers.RepeatedCompositeFieldContainer[ErasedColumnFile]
    regions: _containers.RepeatedCompositeFieldContainer[ErasedRegion]
    def __init__(self, id: _Optional[bytes] = ..., version: _Optional[int] = ..., tables: _Optional[_Iterable[bytes]] = ..., segments: _Optional[_Iterable[_Union[DataFileRef, _Mapping]]] = ..., vectors: _Optional[_Iterable[_Union[ErasedVector, _Mapping]]] = ..., removed: _Optional[_Iterable[int]] = ..., deleted: _Optional[_Iterable[str]] = ..., column_files: _Optional[_Iterable[_Union[ErasedColumnFile, _Mapping]]] = ..., regions: _Optional[_Iterable[_Union[ErasedRegion, _Mapping]]] = ...) -> None: ...

class ErasedRegion(_message.Message):
    __slots__ = ("table", "number", "value")
    TABLE_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    table: bytes
    number: int
    value: bytes
    def __init__(self, table: _Optional[bytes] = ..., number: _Optional[int] = ..., value: _Optional[bytes] = ...) -> None: ...

class ErasedColumnFile(_message.Message):
    __slots__ = ("before", "after")
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    before: str
    after: ColumnFileRef
    def __init__(self, before: _Optional[str] = ..., after: _Optional[_Union[ColumnFileRef, _Mapping]] = ...) -> None: ...

class ErasedVector(_message.Message):
    __slots__ = ("segment", "before", "id", "path", "offset", "length", "cardinality")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    OFFSET_FIELD_NUMBER: _ClassVar[int]
    LENGTH_FIELD_NUMBER: _ClassVar[int]
    CARDINALITY_FIELD_NUMBER: _ClassVar[int]
    segment: int
    before: int
    id: int
    path: str
    offset: int
    length: int
    cardinality: int
    def __init__(self, segment: _Optional[int] = ..., before: _Optional[int] = ..., id: _Optional[int] = ..., path: _Optional[str] = ..., offset: _Optional[int] = ..., length: _Optional[int] = ..., cardinality: _Optional[int] = ...) -> None: ...

class Branch(_message.Message):
    __slots__ = ("id", "name", "version", "created_at", "expires_at", "tombstone", "published_version", "began_json")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    PUBLISHED_VERSION_FIELD_NUMBER: _ClassVar[int]
    BEGAN_JSON_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    name: str
    version: int
    created_at: int
    expires_at: int
    tombstone: Tombstone
    published_version: int
    began_json: str
    def __init__(self, id: _Optional[bytes] = ..., name: _Optional[str] = ..., version: _Optional[int] = ..., created_at: _Optional[int] = ..., expires_at: _Optional[int] = ..., tombstone: _Optional[_Union[Tombstone, _Mapping]] = ..., published_version: _Optional[int] = ..., began_json: _Optional[str] = ...) -> None: ...

class BranchTable(_message.Message):
    __slots__ = ("branch_id", "source_id", "database_id", "name", "own_id", "opened")
    BRANCH_ID_FIELD_NUMBER: _ClassVar[int]
    SOURCE_ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    OWN_ID_FIELD_NUMBER: _ClassVar[int]
    OPENED_FIELD_NUMBER: _ClassVar[int]
    branch_id: bytes
    source_id: bytes
    database_id: bytes
    name: str
    own_id: bytes
    opened: bool
    def __init__(self, branch_id: _Optional[bytes] = ..., source_id: _Optional[bytes] = ..., database_id: _Optional[bytes] = ..., name: _Optional[str] = ..., own_id: _Optional[bytes] = ..., opened: _Optional[bool] = ...) -> None: ...

class Mask(_message.Message):
    __slots__ = ("segment", "added_version")
    SEGMENT_FIELD_NUMBER: _ClassVar[int]
    ADDED_VERSION_FIELD_NUMBER: _ClassVar[int]
    segment: int
    added_version: int
    def __init__(self, segment: _Optional[int] = ..., added_version: _Optional[int] = ...) -> None: ...

class Commit(_message.Message):
    __slots__ = ("version", "ordinal", "timestamp_ns", "kind", "schema_id", "spec_id", "sort_order_id", "sequence", "snapshot_id", "first_row_id", "added_rows", "properties_json", "summary_json")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    TIMESTAMP_NS_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_ID_FIELD_NUMBER: _ClassVar[int]
    SORT_ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SNAPSHOT_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_ROW_ID_FIELD_NUMBER: _ClassVar[int]
    ADDED_ROWS_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_JSON_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_JSON_FIELD_NUMBER: _ClassVar[int]
    version: int
    ordinal: int
    timestamp_ns: int
    kind: str
    schema_id: int
    spec_id: int
    sort_order_id: int
    sequence: int
    snapshot_id: int
    first_row_id: int
    added_rows: int
    properties_json: str
    summary_json: str
    def __init__(self, version: _Optional[int] = ..., ordinal: _Optional[int] = ..., timestamp_ns: _Optional[int] = ..., kind: _Optional[str] = ..., schema_id: _Optional[int] = ..., spec_id: _Optional[int] = ..., sort_order_id: _Optional[int] = ..., sequence: _Optional[int] = ..., snapshot_id: _Optional[int] = ..., first_row_id: _Optional[int] = ..., added_rows: _Optional[int] = ..., properties_json: _Optional[str] = ..., summary_json: _Optional[str] = ...) -> None: ...

class TableState(_message.Message):
    __slots__ = ("created_version", "oldest_version", "schema_id", "spec_id", "sort_order_id", "event_time", "last_column_id", "last_partition_id", "last_sequence", "next_row_id", "properties_json", "schemas", "specs", "sort_orders", "base_id", "base_version")
    CREATED_VERSION_FIELD_NUMBER: _ClassVar[int]
    OLDEST_VERSION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_ID_FIELD_NUMBER: _ClassVar[int]
    SPEC_ID_FIELD_NUMBER: _ClassVar[int]
    SORT_ORDER_ID_FIELD_NUMBER: _ClassVar[int]
    EVENT_TIME_FIELD_NUMBER: _ClassVar[int]
    LAST_COLUMN_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_PARTITION_ID_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    NEXT_ROW_ID_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_JSON_FIELD_NUMBER: _ClassVar[int]
    SCHEMAS_FIELD_NUMBER: _ClassVar[int]
    SPECS_FIELD_NUMBER: _ClassVar[int]
    SORT_ORDERS_FIELD_NUMBER: _ClassVar[int]
    BASE_ID_FIELD_NUMBER: _ClassVar[int]
    BASE_VERSION_FIELD_NUMBER: _ClassVar[int]
    created_version: int
    oldest_version: int
    schema_id: int
    spec_id: int
    sort_order_id: int
    event_time: int
    last_column_id: int
    last_partition_id: int
    last_sequence: int
    next_row_id: int
    properties_json: str
    schemas: _containers.RepeatedCompositeFieldContainer[Setting]
    specs: _containers.RepeatedCompositeFieldContainer[Setting]
    sort_orders: _containers.RepeatedCompositeFieldContainer[Setting]
    base_id: bytes
    base_version: int
    def __init__(self, created_version: _Optional[int] = ..., oldest_version: _Optional[int] = ..., schema_id: _Optional[int] = ..., spec_id: _Optional[int] = ..., sort_order_id: _Optional[int] = ..., event_time: _Optional[int] = ..., last_column_id: _Optional[int] = ..., last_partition_id: _Optional[int] = ..., last_sequence: _Optional[int] = ..., next_row_id: _Optional[int] = ..., properties_json: _Optional[str] = ..., schemas: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., specs: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., sort_orders: _Optional[_Iterable[_Union[Setting, _Mapping]]] = ..., base_id: _Optional[bytes] = ..., base_version: _Optional[int] = ...) -> None: ...

class Setting(_message.Message):
    __slots__ = ("id", "json")
    ID_FIELD_NUMBER: _ClassVar[int]
    JSON_FIELD_NUMBER: _ClassVar[int]
    id: int
    json: str
    def __init__(self, id: _Optional[int] = ..., json: _Optional[str] = ...) -> None: ...

class Region(_message.Message):
    __slots__ = ("number", "value", "epoch", "covered", "generation")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    COVERED_FIELD_NUMBER: _ClassVar[int]
    GENERATION_FIELD_NUMBER: _ClassVar[int]
    number: int
    value: bytes
    epoch: int
    covered: int
    generation: int
    def __init__(self, number: _Optional[int] = ..., value: _Optional[bytes] = ..., epoch: _Optional[int] = ..., covered: _Optional[int] = ..., generation: _Optional[int] = ...) -> None: ...

class Index(_message.Message):
    __slots__ = ("id", "name", "kind", "field_id", "created_version", "created_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    FIELD_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    name: str
    kind: str
    field_id: int
    created_version: int
    created_at: int
    def __init__(self, id: _Optional[bytes] = ..., name: _Optional[str] = ..., kind: _Optional[str] = ..., field_id: _Optional[int] = ..., created_version: _Optional[int] = ..., created_at: _Optional[int] = ...) -> None: ...

class IndexFile(_message.Message):
    __slots__ = ("index_id", "path", "file_size", "entries", "added_version", "segments")
    INDEX_ID_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    FILE_SIZE_FIELD_NUMBER: _ClassVar[int]
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    ADDED_VERSION_FIELD_NUMBER: _ClassVar[int]
    SEGMENTS_FIELD_NUMBER: _ClassVar[int]
    index_id: bytes
    path: str
    file_size: int
    entries: int
    added_version: int
    segments: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, index_id: _Optional[bytes] = ..., path: _Optional[str] = ..., file_size: _Optional[int] = ..., entries: _Optional[int] = ..., added_version: _Optional[int] = ..., segments: _Optional[_Iterable[int]] = ...) -> None: ...

class Tombstone(_message.Message):
    __slots__ = ("tombstoned_at", "delete_at")
    TOMBSTONED_AT_FIELD_NUMBER: _ClassVar[int]
    DELETE_AT_FIELD_NUMBER: _ClassVar[int]
    tombstoned_at: int
    delete_at: int
    def __init__(self, tombstoned_at: _Optional[int] = ..., delete_at: _Optional[int] = ...) -> None: ...

class Database(_message.Message):
    __slots__ = ("id", "name", "properties_json", "created_at", "tombstone", "branch_id", "origin_id")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_JSON_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    BRANCH_ID_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_ID_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    name: str
    properties_json: str
    created_at: int
    tombstone: Tombstone
    branch_id: bytes
    origin_id: bytes
    def __init__(self, id: _Optional[bytes] = ..., name: _Optional[str] = ..., properties_json: _Optional[str] = ..., created_at: _Optional[int] = ..., tombstone: _Optional[_Union[Tombstone, _Mapping]] = ..., branch_id: _Optional[bytes] = ..., origin_id: _Optional[bytes] = ...) -> None: ...

class TableEntry(_message.Message):
    __slots__ = ("id", "database_id", "name", "created_at", "created_version", "tombstone", "oldest_version", "head_version")
    ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    CREATED_VERSION_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    OLDEST_VERSION_FIELD_NUMBER: _ClassVar[int]
    HEAD_VERSION_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    database_id: bytes
    name: str
    created_at: int
    created_version: int
    tombstone: Tombstone
    oldest_version: int
    head_version: int
    def __init__(self, id: _Optional[bytes] = ..., database_id: _Optional[bytes] = ..., name: _Optional[str] = ..., created_at: _Optional[int] = ..., created_version: _Optional[int] = ..., tombstone: _Optional[_Union[Tombstone, _Mapping]] = ..., oldest_version: _Optional[int] = ..., head_version: _Optional[int] = ...) -> None: ...

class View(_message.Message):
    __slots__ = ("id", "database_id", "name", "description", "created_at", "tombstone", "members", "query")
    ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    MEMBERS_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    database_id: bytes
    name: str
    description: str
    created_at: int
    tombstone: Tombstone
    members: _containers.RepeatedScalarFieldContainer[bytes]
    query: ViewQuery
    def __init__(self, id: _Optional[bytes] = ..., database_id: _Optional[bytes] = ..., name: _Optional[str] = ..., description: _Optional[str] = ..., created_at: _Optional[int] = ..., tombstone: _Optional[_Union[Tombstone, _Mapping]] = ..., members: _Optional[_Iterable[bytes]] = ..., query: _Optional[_Union[ViewQuery, _Mapping]] = ...) -> None: ...

class ViewQuery(_message.Message):
    __slots__ = ("version", "representations", "schema_json", "properties_json", "history_json")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    REPRESENTATIONS_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_JSON_FIELD_NUMBER: _ClassVar[int]
    PROPERTIES_JSON_FIELD_NUMBER: _ClassVar[int]
    HISTORY_JSON_FIELD_NUMBER: _ClassVar[int]
    version: int
    representations: _containers.RepeatedCompositeFieldContainer[ViewRepresentation]
    schema_json: str
    properties_json: str
    history_json: str
    def __init__(self, version: _Optional[int] = ..., representations: _Optional[_Iterable[_Union[ViewRepresentation, _Mapping]]] = ..., schema_json: _Optional[str] = ..., properties_json: _Optional[str] = ..., history_json: _Optional[str] = ...) -> None: ...

class ViewRepresentation(_message.Message):
    __slots__ = ("dialect", "sql")
    DIALECT_FIELD_NUMBER: _ClassVar[int]
    SQL_FIELD_NUMBER: _ClassVar[int]
    dialect: str
    sql: str
    def __init__(self, dialect: _Optional[str] = ..., sql: _Optional[str] = ...) -> None: ...

class IngestToken(_message.Message):
    __slots__ = ("id", "database_id", "name", "traces_table_id", "logs_table_id", "metrics_table_id", "created_at", "tombstone", "secrets")
    ID_FIELD_NUMBER: _ClassVar[int]
    DATABASE_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    TRACES_TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    LOGS_TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    METRICS_TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    TOMBSTONE_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    database_id: bytes
    name: str
    traces_table_id: bytes
    logs_table_id: bytes
    metrics_table_id: bytes
    created_at: int
    tombstone: Tombstone
    secrets: _containers.RepeatedCompositeFieldContainer[TokenSecret]
    def __init__(self, id: _Optional[bytes] = ..., database_id: _Optional[bytes] = ..., name: _Optional[str] = ..., traces_table_id: _Optional[bytes] = ..., logs_table_id: _Optional[bytes] = ..., metrics_table_id: _Optional[bytes] = ..., created_at: _Optional[int] = ..., tombstone: _Optional[_Union[Tombstone, _Mapping]] = ..., secrets: _Optional[_Iterable[_Union[TokenSecret, _Mapping]]] = ...) -> None: ...

class TokenSecret(_message.Message):
    __slots__ = ("selector", "hash", "hint", "created_at", "expires_at")
    SELECTOR_FIELD_NUMBER: _ClassVar[int]
    HASH_FIELD_NUMBER: _ClassVar[int]
    HINT_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    selector: str
    hash: bytes
    hint: str
    created_at: int
    expires_at: int
    def __init__(self, selector: _Optional[str] = ..., hash: _Optional[bytes] = ..., hint: _Optional[str] = ..., created_at: _Optional[int] = ..., expires_at: _Optional[int] = ...) -> None: ...

class Stream(_message.Message):
    __slots__ = ("id", "collector_id", "description", "token_id", "created_at", "stopped_at", "stopped_offset", "stop_reason", "frontier", "frontier_time", "deleted_offset", "deleted_time", "retired_at", "tables", "frontier_version")
    ID_FIELD_NUMBER: _ClassVar[int]
    COLLECTOR_ID_FIELD_NUMBER: _ClassVar[int]
    DESCRIPTION_FIELD_NUMBER: _ClassVar[int]
    TOKEN_ID_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    STOPPED_AT_FIELD_NUMBER: _ClassVar[int]
    STOPPED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    STOP_REASON_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_TIME_FIELD_NUMBER: _ClassVar[int]
    DELETED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    DELETED_TIME_FIELD_NUMBER: _ClassVar[int]
    RETIRED_AT_FIELD_NUMBER: _ClassVar[int]
    TABLES_FIELD_NUMBER: _ClassVar[int]
    FRONTIER_VERSION_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    collector_id: str
    description: str
    token_id: bytes
    created_at: int
    stopped_at: int
    stopped_offset: int
    stop_reason: int
    frontier: int
    frontier_time: int
    deleted_offset: int
    deleted_time: int
    retired_at: int
    tables: _containers.RepeatedCompositeFieldContainer[StreamTable]
    frontier_version: int
    def __init__(self, id: _Optional[bytes] = ..., collector_id: _Optional[str] = ..., description: _Optional[str] = ..., token_id: _Optional[bytes] = ..., created_at: _Optional[int] = ..., stopped_at: _Optional[int] = ..., stopped_offset: _Optional[int] = ..., stop_reason: _Optional[int] = ..., frontier: _Optional[int] = ..., frontier_time: _Optional[int] = ..., deleted_offset: _Optional[int] = ..., deleted_time: _Optional[int] = ..., retired_at: _Optional[int] = ..., tables: _Optional[_Iterable[_Union[StreamTable, _Mapping]]] = ..., frontier_version: _Optional[int] = ...) -> None: ...

class StreamTable(_message.Message):
    __slots__ = ("table_id", "merged_offset", "merged_time", "created_at", "version")
    TABLE_ID_FIELD_NUMBER: _ClassVar[int]
    MERGED_OFFSET_FIELD_NUMBER: _ClassVar[int]
    MERGED_TIME_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    table_id: bytes
    merged_offset: int
    merged_time: int
    created_at: int
    version: int
    def __init__(self, table_id: _Optional[bytes] = ..., merged_offset: _Optional[int] = ..., merged_time: _Optional[int] = ..., created_at: _Optional[int] = ..., version: _Optional[int] = ...) -> None: ...

class SetAside(_message.Message):
    __slots__ = ("version", "ordinal", "stream_id", "stream_offset", "records", "reason", "path", "created_at")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    STREAM_ID_FIELD_NUMBER: _ClassVar[int]
    STREAM_OFFSET_FIELD_NUMBER: _ClassVar[int]
    RECORDS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    version: int
    ordinal: int
    stream_id: bytes
    stream_offset: int
    records: int
    reason: str
    path: str
    created_at: int
    def __init__(self, version: _Optional[int] = ..., ordinal: _Optional[int] = ..., stream_id: _Optional[bytes] = ..., stream_offset: _Optional[int] = ..., records: _Optional[int] = ..., reason: _Optional[str] = ..., path: _Optional[str] = ..., created_at: _Optional[int] = ...) -> None: ...

class Request(_message.Message):
    __slots__ = ("id", "version", "created_at", "versions", "digest")
    ID_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    id: str
    version: int
    created_at: int
    versions: int
    digest: bytes
    def __init__(self, id: _Optional[str] = ..., version: _Optional[int] = ..., created_at: _Optional[int] = ..., versions: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class LakeState(_message.Message):
    __slots__ = ("created_at", "clock_ns", "response_seq", "reserves", "incarnations")
    class ReservesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    CREATED_AT_FIELD_NUMBER: _ClassVar[int]
    CLOCK_NS_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_SEQ_FIELD_NUMBER: _ClassVar[int]
    RESERVES_FIELD_NUMBER: _ClassVar[int]
    INCARNATIONS_FIELD_NUMBER: _ClassVar[int]
    created_at: int
    clock_ns: int
    response_seq: int
    reserves: _containers.ScalarMap[str, int]
    incarnations: _containers.RepeatedCompositeFieldContainer[Incarnation]
    def __init__(self, created_at: _Optional[int] = ..., clock_ns: _Optional[int] = ..., response_seq: _Optional[int] = ..., reserves: _Optional[_Mapping[str, int]] = ..., incarnations: _Optional[_Iterable[_Union[Incarnation, _Mapping]]] = ...) -> None: ...

class Incarnation(_message.Message):
    __slots__ = ("number", "continues_from", "first_version", "started_at")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CONTINUES_FROM_FIELD_NUMBER: _ClassVar[int]
    FIRST_VERSION_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    number: int
    continues_from: int
    first_version: int
    started_at: int
    def __init__(self, number: _Optional[int] = ..., continues_from: _Optional[int] = ..., first_version: _Optional[int] = ..., started_at: _Optional[int] = ...) -> None: ...
