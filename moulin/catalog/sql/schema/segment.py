"""Segments and the versions they are live in, deletion vectors, compactions, and the regions of keyed tables.

A row of `segment_spans` says that a segment, with one deletion vector, belongs to a table from `added_version` until
`removed_version`, and how it joined that table: its first row id, its sequence number and the version. Everything else
about a segment never changes.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    SmallInteger,
    String,
    Table,
    UniqueConstraint,
    false,
)

from moulin.catalog.sql.schema.base import IS_OPEN, Id, metadata, partial_index, serial

IN_BASE_PATH = "path LIKE 'bases/%'"
"""The condition of the index over segments whose files lie below a base path; see storage/paths.py."""

partitions = Table(
    "partitions",
    metadata,
    Column("id", serial, primary_key=True, autoincrement=True),
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
    Column("partition_id", serial, ForeignKey("partitions.id"), nullable=False),
    Column("sort_order_id", Integer, nullable=False),
    Column("sha256", LargeBinary, nullable=False),
    Column("facts", LargeBinary, nullable=False),  # column facts and split offsets, see formats/manifest.py
    Column("inline", Boolean, nullable=False, server_default=false()),  # the file itself is in `facts`
    Column("time_min", BigInteger),
    Column("time_max", BigInteger),
    Column("has_lineage", Boolean, nullable=False),
    Column("seq_min", BigInteger, nullable=False),
    Column("seq_max", BigInteger, nullable=False),
    Column("key_min", LargeBinary),
    Column("key_max", LargeBinary),
    Column("region", BigInteger, nullable=False, server_default="0"),
    Column("index_size", BigInteger, nullable=False, server_default="0"),
    Column("added_version", BigInteger, nullable=False),  # the version that brought it to the lake
    partial_index("segments_in_base_paths", "path", where=IN_BASE_PATH),
)

# Files that a table has adopted, ever, by the first bytes of the SHA-256 of their paths: none is adopted twice.
adopted_files = Table(
    "adopted_files",
    metadata,
    Column("table_id", Id, ForeignKey("tables.id"), primary_key=True),
    Column("digest", LargeBinary(16), primary_key=True),
)

segment_spans = Table(
    "segment_spans",
    metadata,
    Column("id", serial, primary_key=True, autoincrement=True),
    Column("table_id", Id, nullable=False),
    Column("segment", BigInteger, ForeignKey("segments.number"), nullable=False),
    Column("vector_id", BigInteger, nullable=False),  # 0: no row is deleted
    Column("columns_id", BigInteger, nullable=False, server_default="0"),  # 0: it has no column files
    Column("first_row_id", BigInteger, nullable=False, server_default="0"),
    Column("sequence", BigInteger, nullable=False, server_default="0"),
    Column("joined_version", BigInteger, nullable=False, server_default="0"),
    Column("added_version", BigInteger, nullable=False),
    Column("removed_version", BigInteger, nullable=False),
    # Copies of facts of the segment, so that one index answers a time range or a partition. See segments/live.py.
    Column("partition_id", serial, nullable=False),
    Column("time_class", SmallInteger, nullable=False),
    Column("time_min", BigInteger, nullable=False),
    Column("time_max", BigInteger, nullable=False, server_default="0"),
    Index("spans_segment", "segment", "removed_version"),
    Index("spans_time", "table_id", "time_class", "time_min", "removed_version"),
    Index("spans_partition", "table_id", "partition_id", "removed_version"),
    Index("spans_removed", "table_id", "removed_version", "added_version"),
    partial_index("spans_warm", "time_max", "segment", where=IS_OPEN),
)

# Segments of a table's base that the table no longer has as the base had them: it removed them, or opened spans of its
# own for them. A mask stays: what a restore brings back is a span of the table's own.
span_masks = Table(
    "span_masks",
    metadata,
    Column("table_id", Id, ForeignKey("tables.id"), primary_key=True),
    Column("segment", BigInteger, primary_key=True, autoincrement=False),
    Column("added_version", BigInteger, nullable=False),
    Index("span_masks_version", "table_id", "added_version"),
)

# What SQLite's planner should believe about the spans of a large table: rows in all, then rows per distinct value of
# the index's first column, first two columns, and so on. Without it, it takes an index by the number of its columns.
SPAN_STATISTICS = {
    "spans_segment": "1000000 2 1",
    "spans_time": "1000000 1000000 200000 2 1",
    "spans_partition": "1000000 1000000 100 20",
    "spans_removed": "1000000 1000000 500000 10",
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

# Column files, and the sets of them that spans name: a row for each top-level column in a file of the set.
column_files = Table(
    "column_files",
    metadata,
    Column("path", String, primary_key=True),
    Column("table_id", Id, nullable=False, index=True),
    Column("segment", BigInteger, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("sha256", LargeBinary, nullable=False),
    Column("facts", LargeBinary, nullable=False),  # all of it, see formats/manifest.py
    Column("added_version", BigInteger, nullable=False),
)

column_sets = Table(
    "column_sets",
    metadata,
    Column("id", BigInteger, primary_key=True, autoincrement=False),
    Column("field_id", Integer, primary_key=True, autoincrement=False),
    Column("table_id", Id, nullable=False, index=True),
    Column("segment", BigInteger, nullable=False),
    Column("path", String, nullable=False, index=True),
)

# Which compactions consumed a segment, and where the journals of a compaction lie.
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
