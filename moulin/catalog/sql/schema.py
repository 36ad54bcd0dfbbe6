"""The SQL schema on one page. Changing it needs a migration in `migrations/` and a new `FORMAT`.

State lives in spans: a row of `segment_spans` says that a segment, with one deletion vector, belongs to the table from
`added_version` until `removed_version`. Everything else about a segment never changes. `OPEN` stands for "not removed".
"""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Dialect,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    SmallInteger,
    String,
    Table,
    TypeDecorator,
    UniqueConstraint,
    Uuid,
    text,
)
from sqlalchemy.types import TypeEngine

FORMAT = 1  # the lake format that this version writes; a higher one found is refused
OPEN = (1 << 63) - 1
MAIN = 0  # the number of the main branch
IS_OPEN = f"removed_version = {OPEN}"  # the condition of indexes over what is live now


class Id(TypeDecorator[uuid.UUID]):
    """A UUID in 16 bytes: PostgreSQL's own type, a blob on SQLite."""

    impl = LargeBinary
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> TypeEngine[Any]:
        return dialect.type_descriptor(Uuid() if dialect.name == "postgresql" else LargeBinary(16))

    def process_bind_param(self, value: uuid.UUID | None, dialect: Dialect) -> Any:
        return value if value is None or dialect.name == "postgresql" else value.bytes

    def process_result_value(self, value: Any, dialect: Dialect) -> uuid.UUID | None:
        return value if value is None or isinstance(value, uuid.UUID) else uuid.UUID(bytes=value)


metadata = MetaData()
_serial = BigInteger().with_variant(Integer, "sqlite")  # SQLite numbers rows itself only for INTEGER keys

lake = Table(
    "lake",
    metadata,
    Column("id", SmallInteger, primary_key=True),
    Column("uuid", Id, nullable=False),
    Column("format", Integer, nullable=False),
    Column("storage", String, nullable=False),  # uri without secrets
    Column("incarnation", BigInteger, nullable=False),  # raised by every recovery
    Column("created_at", BigInteger, nullable=False),
)

# One row per life of the catalog. Versions between `continues_from` and `first_version` belong to a life that was lost.
incarnations = Table(
    "incarnations",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("continues_from", BigInteger, nullable=False),  # the last version of the life before
    Column("first_version", BigInteger, nullable=False),
    Column("started_at", BigInteger, nullable=False),
)

# One row. Every mutation locks it first; see sql/pool.py.
counter = Table(
    "counter",
    metadata,
    Column("id", SmallInteger, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("response_seq", BigInteger, nullable=False),
    Column("clock_ns", BigInteger, nullable=False),
    Column("deltas", BigInteger, nullable=False),  # lake manifests since the last full one
    Column("routing_seq", BigInteger, nullable=False, server_default="0"),  # the version that changed routing last
)

# Numbers handed out in blocks before files are written; never reused.
reserves = Table(
    "reserves", metadata, Column("name", String, primary_key=True), Column("next", BigInteger, nullable=False)
)

databases = Table(
    "databases",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", String, nullable=False),
    Column("properties", JSON, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("tombstoned_at", BigInteger),
    Column("delete_at", BigInteger),
    Index("databases_live_name", "name", unique=True, sqlite_where=text("tombstoned_at IS NULL"),
          postgresql_where=text("tombstoned_at IS NULL")),
)  # fmt: skip

tables = Table(
    "tables",
    metadata,
    Column("id", Id, primary_key=True),
    Column("database_id", Id, ForeignKey("databases.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("created_version", BigInteger, nullable=False),
    Column("head_version", BigInteger, nullable=False),  # the last version that changed this table
    Column("oldest_version", BigInteger, nullable=False),  # versions before it were cleaned up
    Column("schema_id", Integer, nullable=False),
    Column("spec_id", Integer, nullable=False),
    Column("sort_order_id", Integer, nullable=False),
    Column("event_time", Integer),  # field id
    Column("last_column_id", Integer, nullable=False),
    Column("last_partition_id", Integer, nullable=False),
    Column("last_sequence", BigInteger, nullable=False),
    Column("next_row_id", BigInteger, nullable=False),
    Column("properties", JSON, nullable=False),
    Column("segments", BigInteger, nullable=False),  # live ones at the head, and their live rows and bytes
    Column("rows", BigInteger, nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("time_classes", BigInteger, nullable=False),  # bit k: a span of time class k was ever added
    Column("deltas", BigInteger, nullable=False),  # delta manifests since the last full one
    Column("tombstoned_at", BigInteger),
    Column("delete_at", BigInteger),
    Index("tables_live_name", "database_id", "name", unique=True, sqlite_where=text("tombstoned_at IS NULL"),
          postgresql_where=text("tombstoned_at IS NULL")),
)  # fmt: skip

table_schemas = Table(
    "table_schemas",
    metadata,
    Column("table_id", Id, ForeignKey("tables.id"), primary_key=True),
    Column("schema_id", Integer, primary_key=True),
    Column("json", String, nullable=False),
)
table_specs = Table(
    "table_specs",
    metadata,
    Column("table_id", Id, ForeignKey("tables.id"), primary_key=True),
    Column("spec_id", Integer, primary_key=True),
    Column("json", String, nullable=False),
)
table_sort_orders = Table(
    "table_sort_orders",
    metadata,
    Column("table_id", Id, ForeignKey("tables.id"), primary_key=True),
    Column("sort_order_id", Integer, primary_key=True),
    Column("json", String, nullable=False),
)

views = Table(
    "views",
    metadata,
    Column("id", Id, primary_key=True),
    Column("database_id", Id, ForeignKey("databases.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("description", String),
    Column("created_at", BigInteger, nullable=False),
    Column("tombstoned_at", BigInteger),
    Column("delete_at", BigInteger),
    Index("views_live_name", "database_id", "name", unique=True, sqlite_where=text("tombstoned_at IS NULL"),
          postgresql_where=text("tombstoned_at IS NULL")),
)  # fmt: skip
view_members = Table(
    "view_members",
    metadata,
    Column("view_id", Id, ForeignKey("views.id"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("table_id", Id, nullable=False, index=True),
)

# Ingest tokens say to which tables the three signals go. A token may have several secrets: rotation gives it a new one
# while the old one still counts. Only hashes are kept; `selector` is the public part of a plaintext.
ingest_tokens = Table(
    "ingest_tokens",
    metadata,
    Column("id", Id, primary_key=True),
    Column("database_id", Id, ForeignKey("databases.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("traces_table_id", Id, nullable=False),
    Column("logs_table_id", Id, nullable=False),
    Column("metrics_table_id", Id, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("tombstoned_at", BigInteger),
    Column("delete_at", BigInteger),
    Index("ingest_tokens_live_name", "database_id", "name", unique=True,
          sqlite_where=text("tombstoned_at IS NULL"), postgresql_where=text("tombstoned_at IS NULL")),
)  # fmt: skip
token_secrets = Table(
    "token_secrets",
    metadata,
    Column("selector", String, primary_key=True),
    Column("token_id", Id, ForeignKey("ingest_tokens.id"), nullable=False, index=True),
    Column("hash", LargeBinary, nullable=False),
    Column("hint", String, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
)

# Streams of collectors. Everything up to `frontier` is in segments of whatever tables it belongs to; a row of
# `stream_tables` says that one table is further. What is up to `deleted_offset` is gone from storage.
streams = Table(
    "streams",
    metadata,
    Column("id", Id, primary_key=True),
    Column("collector_id", String, nullable=False),
    Column("description", String, nullable=False),
    Column("token_id", Id, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("stopped_at", BigInteger),
    Column("stopped_offset", BigInteger),
    Column("stop_reason", SmallInteger, nullable=False),
    Column("frontier", BigInteger, nullable=False),
    Column("frontier_time", BigInteger, nullable=False),
    Column("deleted_offset", BigInteger, nullable=False),
    Column("deleted_time", BigInteger, nullable=False),
    Column("retired_at", BigInteger),
    Index("streams_active", "collector_id", unique=True, sqlite_where=text("stopped_at IS NULL"),
          postgresql_where=text("stopped_at IS NULL")),
)  # fmt: skip
stream_tables = Table(
    "stream_tables",
    metadata,
    Column("stream_id", Id, ForeignKey("streams.id"), primary_key=True),
    Column("table_id", Id, primary_key=True, index=True),
    Column("merged_offset", BigInteger, nullable=False),
    Column("merged_time", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)
# Which version brought a stream how far: the frontier (no table), or one table.
stream_checkpoints = Table(
    "stream_checkpoints",
    metadata,
    Column("id", _serial, primary_key=True, autoincrement=True),
    Column("stream_id", Id, ForeignKey("streams.id"), nullable=False),
    Column("table_id", Id),
    Column("version", BigInteger, nullable=False),
    Column("stream_offset", BigInteger, nullable=False),
    Column("ingest_time", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Index("stream_checkpoints_place", "stream_id", "table_id", "version"),
)
# What the nursery could not read, and moved past: the object of a stream, or rows of it, and where they were put.
set_asides = Table(
    "set_asides",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    Column("stream_id", Id, nullable=False),
    Column("stream_offset", BigInteger, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("reason", String, nullable=False),
    Column("path", String, nullable=False),
    Column("created_at", BigInteger, nullable=False),
)

versions = Table(
    "versions",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("timestamp_ns", BigInteger, nullable=False, index=True),
    Column("kind", String, nullable=False),
)

# One row per operation of a version on a table, with the table's settings after it.
table_commits = Table(
    "table_commits",
    metadata,
    Column("table_id", Id, ForeignKey("tables.id"), primary_key=True),
    Column("version", BigInteger, primary_key=True),
    Column("ordinal", SmallInteger, primary_key=True),
    Column("timestamp_ns", BigInteger, nullable=False),
    Column("kind", String, nullable=False),
    Column("schema_id", Integer, nullable=False),
    Column("spec_id", Integer, nullable=False),
    Column("sort_order_id", Integer, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("snapshot_id", BigInteger, nullable=False),
    Column("first_row_id", BigInteger, nullable=False),
    Column("added_rows", BigInteger, nullable=False),
    Column("properties", JSON(none_as_null=True)),  # all of them, when this commit changed any
    Column("summary", JSON, nullable=False),
    Index("table_commits_sequence", "table_id", "sequence"),
)

partitions = Table(
    "partitions",
    metadata,
    Column("id", _serial, primary_key=True, autoincrement=True),
    Column("table_id", Id, ForeignKey("tables.id"), nullable=False),
    Column("spec_id", Integer, nullable=False),
    Column("tuple", LargeBinary, nullable=False),
    UniqueConstraint("table_id", "spec_id", "tuple"),
)

segments = Table(
    "segments",
    metadata,
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("table_id", Id, ForeignKey("tables.id"), nullable=False),
    Column("path", String, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("level", SmallInteger, nullable=False),
    Column("schema_id", Integer, nullable=False),
    Column("partition_id", _serial, ForeignKey("partitions.id"), nullable=False),
    Column("sort_order_id", Integer, nullable=False),
    Column("sha256", LargeBinary, nullable=False),
    Column("facts", LargeBinary, nullable=False),  # column facts and split offsets, see formats/manifest.py
    Column("time_min", BigInteger),
    Column("time_max", BigInteger),
    Column("has_lineage", Boolean, nullable=False),
    Column("seq_min", BigInteger, nullable=False),
    Column("seq_max", BigInteger, nullable=False),
    Column("key_min", LargeBinary),
    Column("key_max", LargeBinary),
    Column("region", BigInteger, nullable=False, server_default="0"),
    Column("index_size", BigInteger, nullable=False, server_default="0"),
    Column("first_row_id", BigInteger, nullable=False),
    Column("sequence", BigInteger, nullable=False),
    Column("added_version", BigInteger, nullable=False),
)

segment_spans = Table(
    "segment_spans",
    metadata,
    Column("id", _serial, primary_key=True, autoincrement=True),
    Column("table_id", Id, nullable=False),
    Column("branch", Integer, nullable=False),
    Column("segment", BigInteger, ForeignKey("segments.number"), nullable=False),
    Column("vector_id", BigInteger, nullable=False),  # 0: no row is deleted
    Column("added_version", BigInteger, nullable=False),
    Column("removed_version", BigInteger, nullable=False),
    # Copies of facts of the segment, so that one index answers a time range or a partition. See segments/live.py.
    Column("partition_id", _serial, nullable=False),
    Column("time_class", SmallInteger, nullable=False),
    Column("time_min", BigInteger, nullable=False),
    Column("time_max", BigInteger, nullable=False, server_default="0"),
    Index("spans_segment", "segment", "removed_version"),
    Index("spans_time", "table_id", "branch", "time_class", "time_min", "removed_version"),
    Index("spans_partition", "table_id", "branch", "partition_id", "removed_version"),
    Index("spans_removed", "table_id", "branch", "removed_version", "added_version"),
    Index("spans_warm", "time_max", "segment", sqlite_where=text(IS_OPEN), postgresql_where=text(IS_OPEN)),
)

# What SQLite's planner should believe about the spans of a large table: rows in all, then rows per distinct value of
# the index's first column, first two columns, and so on. Without it, it takes an index by the number of its columns.
SPAN_STATISTICS = {
    "spans_segment": "1000000 2 1",
    "spans_time": "1000000 1000000 1000000 200000 2 1",
    "spans_partition": "1000000 1000000 1000000 100 20",
    "spans_removed": "1000000 1000000 1000000 500000 10",
    "spans_warm": "1000000 2 1",
}

deletion_vectors = Table(
    "deletion_vectors",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("table_id", Id, nullable=False),
    Column("segment", BigInteger, nullable=False, index=True),
    Column("path", String, nullable=False, index=True),
    Column("offset", BigInteger, nullable=False),
    Column("length", BigInteger, nullable=False),
    Column("cardinality", BigInteger, nullable=False),
    Column("added_version", BigInteger, nullable=False),
)

# Which merges consumed a segment, and where the journals of a merge lie.
merge_inputs = Table(
    "merge_inputs",
    metadata,
    Column("segment", BigInteger, primary_key=True, autoincrement=False),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("table_id", Id, nullable=False),
    Index("merge_inputs_version", "table_id", "version"),
)
journals = Table(
    "journals",
    metadata,
    Column("path", String, primary_key=True),
    Column("table_id", Id, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("output", BigInteger, nullable=False, server_default="0"),  # its first output; 0 after a recovery
    Index("journals_version", "table_id", "version"),
)

# Who may write a region of a keyed table, and how far its log is in segments. `number` 0 is that of a table without a
# region spec; `value` is what the spec gives for every key of the region.
regions = Table(
    "regions",
    metadata,
    Column("table_id", Id, ForeignKey("tables.id"), primary_key=True),
    Column("number", BigInteger, primary_key=True, autoincrement=False),
    Column("value", LargeBinary, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("owner", String, nullable=False),
    Column("covered", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
    UniqueConstraint("table_id", "value"),
)

# Secondary indexes. Their files hold what never changes, so coverage has no versions: a segment is covered by one file
# of an index or by none, whoever reads it.
indexes = Table(
    "indexes",
    metadata,
    Column("id", Id, primary_key=True),
    Column("table_id", Id, ForeignKey("tables.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("field_id", Integer, nullable=False),
    Column("created_version", BigInteger, nullable=False),
    UniqueConstraint("table_id", "name"),
)
index_files = Table(
    "index_files",
    metadata,
    Column("path", String, primary_key=True),
    Column("table_id", Id, nullable=False, index=True),
    Column("index_id", Id, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("entries", BigInteger, nullable=False),
    Column("added_version", BigInteger, nullable=False),
)
index_coverage = Table(
    "index_coverage",
    metadata,
    Column("index_id", Id, primary_key=True),
    Column("segment", BigInteger, primary_key=True, autoincrement=False),
    Column("table_id", Id, nullable=False, index=True),
    Column("path", String, nullable=False, index=True),
)

# What was written for Iceberg engines. A projection continues its `parent`, which has one successor at most: so the
# projections of a table form one line. One of an older version, asked for later, stands beside the line: no parent.
# Its files have spans like segments: a projection is made of those with `added_version` <= it < `removed_version`.
# All of it can be made anew, so it takes no version and is not recovered.
projections = Table(
    "projections",
    metadata,
    Column("table_id", Id, primary_key=True),
    Column("format_version", SmallInteger, primary_key=True),
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("sequence", BigInteger, nullable=False),
    Column("parent", BigInteger),
    Column("path", String, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    UniqueConstraint("table_id", "format_version", "parent"),
)
projection_files = Table(
    "projection_files",
    metadata,
    Column("path", String, primary_key=True),
    Column("table_id", Id, nullable=False),
    Column("format_version", SmallInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("added_version", BigInteger, nullable=False),
    Column("removed_version", BigInteger, nullable=False),
    Index("projection_files_removed", "table_id", "removed_version"),
)

# Merge tasks, leases and pins take no version and are not recovered.
#
# A task can be claimed from `available_at` on: its creation, the end of a back-off, or the end of a lease; never (OPEN)
# when it is done or in quarantine. A claim raises `attempt`, which fences the ones before.
merge_tasks = Table(
    "merge_tasks",
    metadata,
    Column("id", Id, primary_key=True),
    Column("table_id", Id, nullable=False, index=True),
    Column("created_at", BigInteger, nullable=False),
    Column("level", SmallInteger, nullable=False),
    Column("available_at", BigInteger, nullable=False, index=True),
    Column("worker", String),
    Column("claimed_at", BigInteger),
    Column("attempt", Integer, nullable=False),
    Column("failures", Integer, nullable=False),
    Column("last_error", String),
    Column("read_version", BigInteger, nullable=False),  # what the claim saw, and the numbers reserved for its outputs
    Column("first_number", BigInteger, nullable=False),
    Column("numbers", Integer, nullable=False),
    Column("finished_version", BigInteger),
    Column("outputs", JSON(none_as_null=True)),
)
# A segment is an input of one task at most.
merge_task_inputs = Table(
    "merge_task_inputs",
    metadata,
    Column("segment", BigInteger, primary_key=True, autoincrement=False),
    Column("task_id", Id, ForeignKey("merge_tasks.id"), nullable=False, index=True),
    Column("vector_id", BigInteger, nullable=False),  # as the claim saw it
)
# Segment numbers handed to somebody who uploads files and registers them later.
staged_segments = Table(
    "staged_segments",
    metadata,
    Column("first", BigInteger, primary_key=True, autoincrement=False),
    Column("numbers", Integer, nullable=False),
    Column("table_id", Id, nullable=False),
    Column("owner", String, nullable=False, index=True),
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False, index=True),
)
# Work that one of several processes does, such as the janitor's.
leases = Table(
    "leases",
    metadata,
    Column("name", String, primary_key=True),
    Column("owner", String, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)
pins = Table(
    "pins",
    metadata,
    Column("id", Id, primary_key=True),
    Column("table_id", Id, nullable=False, index=True),
    Column("version", BigInteger, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
)

# Who takes part right now, as heartbeats say. `server` is the one that heard of it: a restart of it forgets its own.
members = Table(
    "members",
    metadata,
    Column("id", String, primary_key=True),
    Column("server", String, nullable=False),
    Column("kind", SmallInteger, nullable=False),
    Column("endpoint", String, nullable=False),
    Column("weight", BigInteger, nullable=False),
    Column("heartbeat_at", BigInteger, nullable=False),
)

# Idempotency keys. A commit may take a run of `versions` versions that ends with `version`; `digest` is that of what
# was asked for, where a key given again with another request must be told.
requests = Table(
    "requests",
    metadata,
    Column("id", String, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False, index=True),
    Column("versions", Integer, nullable=False, server_default="1"),
    Column("digest", LargeBinary),
)

# Manifest bytes of committed versions that are not in storage yet, and objects in storage that wait for deletion.
outbox = Table(
    "outbox",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("path", String, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)
trash = Table(
    "trash",
    metadata,
    Column("path", String, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("reason", String, nullable=False),
    Column("delete_after", BigInteger, nullable=False, index=True),
    Column("failures", Integer, nullable=False),
    Column("last_error", String),
    # Of a segment: its table and number, and since when no new read has seen it. Of a journal: the merge's version and
    # the number of the first output.
    Column("table_id", Id),
    Column("segment", BigInteger, index=True),
    Column("tombstoned_at", BigInteger),
    Column("tombstone_version", BigInteger),
    Column("output", BigInteger, index=True),
    Index("trash_merge", "table_id", "tombstone_version"),
)
