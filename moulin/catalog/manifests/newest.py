"""Detects an outdated catalog by manifests in storage that it does not know.

A copy of an older catalog file, a lost write-ahead log and a restored dump all look healthy. A commit to one would
reuse version numbers.
"""

# Decisions: docs/decisions/0186

from __future__ import annotations

from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.manifests.index import ManifestIndex
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.pool import Pool
from moulin.errors import Corrupt, Fenced
from moulin.storage import paths
from moulin.storage.store import Store

_TABLES = 64  # listed when a lake is opened: the most recently changed tables


def require_newest(pool: Pool, store: Store, lake_uuid: UUID) -> None:
    """Reject a catalog that is behind storage. Costs one listing for the lake and one for each of 64 tables."""
    t = s.tables
    with pool.read() as connection:
        version = int(connection.execute(sa.select(s.counter.c.version)).scalar_one())
        recent = connection.execute(sa.select(t.c.id).order_by(t.c.head_version.desc()).limit(_TABLES)).scalars().all()
    index = ManifestIndex(store, lake_uuid, after=version, writing=False)
    index.add_lake(version)
    index.add_tables(recent, version)
    with pool.read() as connection:  # others may have committed since
        version = int(connection.execute(sa.select(s.counter.c.version)).scalar_one())
    if index.highest_version <= version:
        return
    lives = (index.read(paths.lake_manifest(full, "full")).incarnation for full in index.lake["full"])
    if max(lives, default=0) > (pool.incarnation or 0):
        raise Fenced(
            f"The lake in {store.uri} was recovered into another catalog, and this one is outdated. Use "
            "that one, or move this one away and run `moulin recover`."
        )
    raise Corrupt(
        f"The catalog is at version {version}, and {store.uri} holds version {index.highest_version}: the catalog went "
        "back in time (an older copy, a restored dump, or a lost write-ahead log). Put the newest one back, or move it "
        "away and run `moulin recover`."
    )
