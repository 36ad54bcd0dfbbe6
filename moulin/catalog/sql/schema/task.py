"""Work in progress: merge tasks, staged segment numbers, leases and pins. None takes a version or is recovered."""

from __future__ import annotations

from sqlalchemy import JSON, BigInteger, Column, ForeignKey, Integer, SmallInteger, String, Table

from moulin.catalog.sql.schema.base import Id, metadata

# A task can be claimed from `available_at` on: its creation, the end of a back-off, or the end of a lease; never (OPEN)
# when it is done or in quarantine. A claim raises `attempt`, which fences the ones before.
merge_tasks = Table(
    "merge_tasks",
    metadata,
    Column("id", Id, primary_key=True),
    Column("table_id", Id, nullable=False, index=True),
    Column("created_at", BigInteger, nullable=False),
    Column("level", SmallInteger, nullable=False),
    Column("kind", String, nullable=False, server_default="compact"),  # or fill, which only who began it does
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
