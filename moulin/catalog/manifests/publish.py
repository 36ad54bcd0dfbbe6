"""Publishes manifests from the outbox to storage, in version order, after their commit, never under the counter's lock.

Several processes may publish at once: each starts with the lowest waiting version, and writes the same bytes to the
same names, so the order does not matter. A commit is valid even if it is not published yet; the rest is published with
the next commit, open or clean-up.
"""

# Decisions: docs/decisions/0004

from __future__ import annotations

import logging
import math
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.identity import beyond
from moulin.catalog.manifests import full as full_manifests
from moulin.catalog.manifests.scrub import erasures_after, scrub_object
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import MOST_DELTAS, SEQUENCES_PER_DELTA
from moulin.catalog.sql.pool import Pool
from moulin.catalog.sql.prepared import Prepared
from moulin.errors import AlreadyExists, Fenced, MoulinError
from moulin.formats.erasure import Scrubber
from moulin.storage import paths
from moulin.storage.store import Store

log = logging.getLogger(__name__)
# A full manifest is written again once that share of the table changed, so that its cost stays in proportion; it holds
# inline segments whole, and waits for as many deltas more.
_SEGMENTS_PER_DELTA = 256
_AT_ONCE = 64
_SOON = 0.1  # delay for batching manifests of small appends, in seconds
_LOWEST = Prepared(sa.select(s.outbox).order_by(s.outbox.c.version, s.outbox.c.path).limit(_AT_ONCE))


class Publisher:
    """Publishes for one process. Thread-safe."""

    def __init__(self, pool: Pool, store: Store, lake_uuid: UUID) -> None:
        self._pool, self._store, self._lake_uuid = pool, store, lake_uuid
        self._lock = threading.Lock()
        self._background = ThreadPoolExecutor(max_workers=1, thread_name_prefix="moulin-manifests")
        self._pending: dict[UUID | None, Future[None]] = {}
        self._soon: Future[None] | None = None
        self._soon_lock = threading.Lock()
        self.fence_seconds = 5.0  # how often to check whether the lake was recovered elsewhere
        self._looked_at = -math.inf

    def publish(self) -> None:
        """Write every waiting manifest to storage. Raises Unavailable if storage fails.

        Raises Fenced if storage belongs to another catalog: then this one accepts no more changes.
        """
        if self._pool.given_up is not None:
            raise Fenced(self._pool.given_up)
        try:
            self._publish()
        except Fenced as error:
            self._pool.give_up(error.message)
            raise

    def _publish(self) -> None:
        with self._lock:
            more = True
            while more:
                rows, more = self._waiting()
                for row in rows:
                    self._put(row.path, row.data)
                if rows:
                    self._look_for_successor(rows[-1].version)
                    with self._pool.repeatable() as connection:
                        connection.execute(s.outbox.delete().where(s.outbox.c.version <= rows[-1].version))

    def publish_soon(self) -> None:
        """Publish in the background after a short delay, together with other commits.

        Raises nothing. After closing, manifests stay in the outbox for the next process.
        """
        with self._soon_lock, suppress(RuntimeError):  # of an executor that was shut down
            if self._soon is None or self._soon.done():
                self._soon = self._background.submit(self._publish_soon)

    def _publish_soon(self) -> None:
        time.sleep(_SOON)
        with suppress(Fenced):  # this catalog is outdated, which the next commit reports
            self.publish_quietly()

    def publish_quietly(self) -> None:
        """Publish after a commit: on a storage error, manifests stay in the outbox, and the commit is valid.

        Raises nothing but Fenced.
        """
        try:
            self.publish()
        except Fenced:
            raise
        except MoulinError as error:
            log.warning("Manifests are waiting in the outbox: %s", error)
        except Exception:
            log.exception("Manifests wait in the outbox")

    def write_full_if_due(self, table_ids: list[UUID]) -> None:
        """Start writing full manifests in the background for tables (and the lake) with many deltas.

        Raises nothing: the next commit retries.
        """
        try:
            self._write_full_if_due(table_ids)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is not an error of the commit
            log.warning("Full manifests were not started: %s", error)

    def _write_full_if_due(self, table_ids: list[UUID]) -> None:
        limit = self._pool.config.manifest_deltas
        t = s.tables
        due: list[UUID | None] = []
        with self._pool.read() as connection:
            long = sa.and_(t.c.deltas > limit + t.c.inline, t.c.deltas > t.c.segments / _SEGMENTS_PER_DELTA)
            grown = sa.or_(t.c.deltas > t.c.last_sequence / SEQUENCES_PER_DELTA, t.c.deltas > MOST_DELTAS)
            long = sa.and_(long, grown)
            due.extend(connection.execute(sa.select(t.c.id).where(t.c.id.in_(table_ids), long)).scalars())
            if connection.execute(sa.select(s.counter.c.deltas)).scalar_one() > limit:
                due.append(None)
        for key in due:
            if key not in self._pending or self._pending[key].done():
                self._pending[key] = self._background.submit(self._write_full, key)

    def write_full(self, table_id: UUID | None) -> None:
        """Write a full manifest of a table, or of the lake (None), after every delta that it replaces."""
        version, path, data = full_manifests.build(self._pool, self._lake_uuid, table_id)
        self.publish()
        self._put(path, data, same_bytes=False)
        self._scrub_if_erased(path, version)
        full_manifests.mark_written(self._pool, table_id, version)

    def _scrub_if_erased(self, path: str, version: int) -> None:
        """A manifest built before an erase, and written after the erase scanned its folder, would contain erased
        rows.
        """
        with self._pool.read() as connection:
            erasures = erasures_after(connection, version)
        for erasure in erasures:
            for _ in scrub_object(self._pool, self._store, path, Scrubber(erasure)):
                pass

    def write_every_full(self) -> None:
        """Write a current full manifest of each table and of the lake.

        A missing manifest then only affects older versions, until clean-up removes them.
        """
        with self._pool.read() as connection:
            table_ids = connection.execute(sa.select(s.tables.c.id)).scalars().all()
        for table_id in table_ids:
            self.write_full(table_id)
        self.write_full(None)

    def published_version(self) -> int:
        """Every manifest up to this version is in storage."""
        with self._pool.read() as connection:
            waiting = connection.execute(sa.select(sa.func.min(s.outbox.c.version))).scalar_one()
            current = connection.execute(sa.select(s.counter.c.version)).scalar_one()
        return int(current if waiting is None else waiting - 1)

    def close(self) -> None:
        """Wait for manifests being written."""
        self._background.shutdown(wait=True)

    def _waiting(self) -> tuple[list[Any], bool]:
        """The manifests of the lowest waiting versions, complete versions only, and whether there may be more."""
        with self._pool.read() as connection:
            rows = list(_LOWEST.all(connection, {}))
            if len(rows) < _AT_ONCE:
                return rows, False
            whole = [row for row in rows if row.version < rows[-1].version]
            if not whole:
                whole = list(connection.execute(sa.select(s.outbox).where(s.outbox.c.version == rows[0].version)))
            return whole, True

    def _put(self, path: str, data: bytes, *, same_bytes: bool = True) -> None:
        try:
            self._store.put_if_absent(path, data)
        except AlreadyExists:
            if same_bytes and self._store.get(path) != data and self._still_waits(path, data):
                raise Fenced(
                    f"{path} was written by another catalog; the lake was recovered elsewhere. Stop and reconnect."
                ) from None

    def _still_waits(self, path: str, data: bytes) -> bool:
        """Whether the outbox has these bytes. An erase changes older manifests, here and in storage."""
        with self._pool.read() as connection:
            found = connection.execute(sa.select(s.outbox.c.data).where(s.outbox.c.path == path)).scalar()
        return bool(found == data)

    def _look_for_successor(self, version: int) -> None:
        """A recovery of this lake starts with a full manifest whose version differs from ours."""
        if time.monotonic() - self._looked_at < self.fence_seconds:
            return
        if self._store.exists(paths.lake_manifest(beyond(version), "full")):
            raise Fenced(
                "The lake was recovered into another catalog; changes made through this one are lost. Reconnect."
            )
        self._looked_at = time.monotonic()

    def _write_full(self, table_id: UUID | None) -> None:
        try:
            self.write_full(table_id)
        except MoulinError as error:
            log.warning("A full manifest was not written and will be retried: %s", error)
