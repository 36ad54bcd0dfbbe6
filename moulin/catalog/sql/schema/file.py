"""Files on their way: manifests that are not in storage yet, and objects in storage that wait for deletion."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Index, Integer, LargeBinary, String, Table

from moulin.catalog.sql.schema.base import Id, metadata

# Manifest bytes of committed versions that are not in storage yet.
outbox = Table(
    "outbox",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("path", String, primary_key=True),
    Column("data", LargeBinary, nullable=False),
)

# Objects in storage that wait for deletion.
trash = Table(
    "trash",
    metadata,
    Column("path", String, primary_key=True),
    Column("size", BigInteger, nullable=False),
    Column("reason", String, nullable=False),
    Column("delete_after", BigInteger, nullable=False, index=True),
    Column("failures", Integer, nullable=False),
    Column("last_error", String),
    # Of a segment: its table and number, and since when no new read has seen it. Of a journal: the version of its
    # compaction and the number of the first output.
    Column("table_id", Id),
    Column("segment", BigInteger, index=True),
    Column("tombstoned_at", BigInteger),
    Column("tombstone_version", BigInteger),
    Column("output", BigInteger, index=True),
    Index("trash_merge", "table_id", "tombstone_version"),
)
