"""Ingest: tokens, streams of collectors, what nurseries set aside, and members."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, Index, Integer, LargeBinary, SmallInteger, String, Table

from moulin.catalog.sql.schema.base import Id, metadata, partial_index, serial

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
    partial_index("ingest_tokens_live_name", "database_id", "name", unique=True, where="tombstoned_at IS NULL"),
)

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
    partial_index("streams_active", "collector_id", unique=True, where="stopped_at IS NULL"),
)

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
    Column("id", serial, primary_key=True, autoincrement=True),
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
