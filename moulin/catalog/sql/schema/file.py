"""Files on their way: manifests that are not in storage yet, objects that wait for deletion, and erasures."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, Index, Integer, LargeBinary, String, Table

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

# Rows erased from every version. One that has no `version` began and did not commit: it is to be run again, and its
# condition is not kept. One that has a version and is not finished can be finished by anybody: `data` is the erasure as
# manifests hold it, and `report` names the files.
erasures = Table(
    "erasures",
    metadata,
    Column("id", Id, primary_key=True),
    Column("table_id", Id, nullable=False),
    Column("outline", String, nullable=False),
    Column("started_at", BigInteger, nullable=False),
    Column("version", BigInteger),
    Column("data", LargeBinary),
    Column("report", JSON(none_as_null=True)),
    Column("finished_at", BigInteger),
)
