"""The lake and its numbers: its lives, the counter that every mutation locks, reserves, versions, request ids."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, Integer, LargeBinary, SmallInteger, String, Table

from moulin.catalog.sql.schema.base import Id, metadata

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

# One row. Every mutation locks it first; see `Pool.write`.
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

versions = Table(
    "versions",
    metadata,
    Column("version", BigInteger, primary_key=True, autoincrement=False),
    Column("timestamp_ns", BigInteger, nullable=False, index=True),
    Column("kind", String, nullable=False),
)

# Idempotency keys. A commit may take `versions` versions in a row, the last being `version`; `digest` is that of what
# was asked for, where a key given again with another request is refused.
requests = Table(
    "requests",
    metadata,
    Column("id", String, primary_key=True),
    Column("version", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False, index=True),
    Column("versions", Integer, nullable=False, server_default="1"),
    Column("digest", LargeBinary),
)
