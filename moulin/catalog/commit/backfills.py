"""Batches of backfills in the catalog: request ids whose digest identifies the list of files."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.sql import schema as s
from moulin.storage import paths

_PREFIX = "backfill:"


def request_id(table_id: UUID, source: str, number: int) -> str:
    """The request id of a batch; `source` is the key of the source's name. Request ids of batches are kept for good."""
    return f"{_PREFIX}{table_id}:{source}:{number}"


def files(connection: sa.Connection, after: int) -> Iterator[tuple[str, bytes]]:
    """Path and SHA-256 of the file lists of batches committed after a version, for existing tables."""
    r = s.requests
    known = set(connection.execute(sa.select(s.tables.c.id)).scalars())
    found = sa.select(r.c.id, r.c.digest).where(r.c.id.startswith(_PREFIX), r.c.version > after)
    for name, digest in connection.execute(found):
        table_id, source, number = name.removeprefix(_PREFIX).split(":")
        if digest is not None and UUID(table_id) in known:
            yield paths.backfill_batch(UUID(table_id), source, int(number), bytes(digest)), bytes(digest)
