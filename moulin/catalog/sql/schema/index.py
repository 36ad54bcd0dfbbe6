"""What is derived from segments: secondary indexes, and projections for Iceberg engines."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, SmallInteger, String, Table, UniqueConstraint

from moulin.catalog.sql.schema.base import Id, metadata

# Secondary indexes. Their files hold what never changes, so coverage has no versions: a segment is covered by one file
# of an index or by none, for every reader.
indexes = Table(
    "indexes",
    metadata,
    Column("id", Id, primary_key=True),
    Column("table_id", Id, ForeignKey("tables.id"), nullable=False),
    Column("name", String, nullable=False),
    Column("kind", String, nullable=False),
    Column("field_id", Integer, nullable=False),
    Column("created_version", BigInteger, nullable=False),
    Column("created_at", BigInteger),
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
# All of it can be made again, so it takes no version and is not recovered.
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
