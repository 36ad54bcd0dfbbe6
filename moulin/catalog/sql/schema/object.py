"""Databases, tables with their settings and commits, views, branches, and base paths."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Boolean, Column, ForeignKey, Index, Integer, SmallInteger, String, Table

from moulin.catalog.sql.schema.base import Id, metadata, partial_index

databases = Table(
    "databases",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", String, nullable=False),
    Column("properties", JSON, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("tombstoned_at", BigInteger),
    Column("delete_at", BigInteger),
    # Of a database of a branch: the branch, and the database of main that it began as, if it did.
    Column("branch_id", Id, index=True),
    Column("origin_id", Id),
    partial_index("databases_live_name", "name", unique=True, where="tombstoned_at IS NULL"),
)

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
    Column("inline", BigInteger, nullable=False, server_default="0"),  # those of the live segments that are inline
    Column("time_classes", BigInteger, nullable=False),  # bit k: a span of time class k was ever added
    Column("deltas", BigInteger, nullable=False),  # delta manifests since the last full one
    Column("tombstoned_at", BigInteger),
    Column("delete_at", BigInteger),
    # Of a clone: the table whose segments at `base_version` it reads besides its own, unless a mask hides them.
    Column("base_id", Id, index=True),
    Column("base_version", BigInteger),
    partial_index("tables_live_name", "database_id", "name", unique=True, where="tombstoned_at IS NULL"),
)

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
    # Of a query; a union has null in all of these.
    Column("representations", JSON(none_as_null=True)),  # a list of {"dialect": ..., "sql": ...}
    Column("schema_json", String),
    Column("properties", JSON(none_as_null=True)),
    Column("query_version", Integer),
    Column("history_json", String),  # its versions, once there was more than the first one or an engine made it
    partial_index("views_live_name", "database_id", "name", unique=True, where="tombstoned_at IS NULL"),
)

view_members = Table(
    "view_members",
    metadata,
    Column("view_id", Id, ForeignKey("views.id"), primary_key=True),
    Column("ordinal", Integer, primary_key=True),
    Column("table_id", Id, nullable=False, index=True),
)

base_paths = Table(
    "base_paths",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", String, nullable=False, unique=True),
    Column("uri", String, nullable=False, unique=True),  # without credentials
    Column("created_at", BigInteger, nullable=False),
)

branches = Table(
    "branches",
    metadata,
    Column("id", Id, primary_key=True),
    Column("name", String, nullable=False),
    Column("version", BigInteger, nullable=False),  # of main that the branch began at
    Column("created_at", BigInteger, nullable=False),
    Column("expires_at", BigInteger),
    Column("tombstoned_at", BigInteger),
    Column("delete_at", BigInteger),
    Column("published_version", BigInteger),  # the version of main that has what the branch did
    # What the databases and views of main were when the branch began, by the ids of the branch's own: see
    # commit/publish_objects.py.
    Column("began", JSON(none_as_null=True)),
    partial_index("branches_live_name", "name", unique=True, where="tombstoned_at IS NULL"),
)

# The tables of main that a branch began with. The table `own_id` is the branch's own, a
# clone of it, once it was opened.
branch_tables = Table(
    "branch_tables",
    metadata,
    Column("branch_id", Id, ForeignKey("branches.id"), primary_key=True),
    Column("source_id", Id, primary_key=True),
    Column("database_id", Id, nullable=False),  # of the branch
    Column("name", String, nullable=False),
    Column("own_id", Id, nullable=False, unique=True),
    Column("opened", Boolean, nullable=False),
    Index("branch_tables_source", "source_id"),
    Index("branch_tables_name", "database_id", "name"),
)
