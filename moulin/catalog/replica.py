"""A catalog made from the manifests in storage alone, to read a lake whose own catalog is out of reach.

It is a private SQLite file that goes away with the process. Nothing is ever written to the storage: no marker, no
manifest, no pin. `refresh` applies the versions that were published since, in one transaction, so a reader sees the
version before or after it.
"""

# Decisions: docs/decisions/0035, docs/decisions/0417

from __future__ import annotations

import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.catalog import Catalog
from moulin.catalog.commit import branches
from moulin.catalog.identity import read_marker
from moulin.catalog.manifests.follow import Rebuild, apply, look, purge
from moulin.catalog.manifests.index import ManifestIndex
from moulin.catalog.manifests.line import Line, read_line
from moulin.catalog.manifests.recover import fill
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import Draft
from moulin.catalog.sql.drivers import database_url
from moulin.catalog.sql.pool import Pool, Write
from moulin.config import Config
from moulin.errors import Corrupt, FailedPrecondition, NotFound, Unavailable
from moulin.model.ids import new_id
from moulin.storage import paths
from moulin.storage.store import Store

_ATTEMPTS = 5  # to read manifests that clean-up may remove


class _ReplicaPool(Pool):
    """Refuses every transaction that writes, but those of the replica itself."""

    def __init__(self, file: str, config: Config, uri: str) -> None:
        super().__init__(database_url(f"sqlite:///{file}"), config)
        self.living = None  # the lake's own clean-up does not know of this process
        self._uri = uri
        self._filling = threading.local()
        with self._allowed():
            self.migrate()

    @contextmanager
    def unordered(self, *, durable: bool = True) -> Iterator[sa.Connection]:
        if not getattr(self._filling, "now", False):
            raise FailedPrecondition(
                f"The lake in {self._uri} was opened read-only, from its manifests: open it by the address of its "
                f"catalog to make changes."
            )
        with super().unordered(durable=False) as connection:
            yield connection

    @contextmanager
    def filling(self) -> Iterator[sa.Connection]:
        with self._allowed(), self.unordered() as connection:
            yield connection

    @contextmanager
    def _allowed(self) -> Iterator[None]:
        self._filling.now = True
        try:
            yield
        finally:
            self._filling.now = False


class _Here(Write):
    """A mutation whose rows stay in this process: it takes no version."""

    def take_version(self, kind: str) -> int:
        return self.version


class ReplicaCatalog(Catalog):
    """A lake as its published manifests say it is. Pins are granted, and bind nobody."""

    pool: _ReplicaPool
    may_write = False
    knows_claims = False
    is_replica = True

    @classmethod
    def from_manifests(cls, store: Store, config: Config) -> ReplicaCatalog:
        """The catalog of the lake in `store`, at the last complete version that was published."""
        marker = read_marker(store)
        if marker is None:
            raise NotFound(f"{store.uri} contains no lake: {paths.marker()} does not exist.")
        folder = tempfile.mkdtemp(prefix="moulin-replica-")
        try:
            pool = _ReplicaPool(f"{folder}/catalog.sqlite", config, store.uri)
            catalog = cls(pool, store, UUID(str(marker["uuid"])))
            catalog._refreshing, catalog._cloned = threading.Lock(), set()
            catalog._remove = weakref.finalize(catalog, shutil.rmtree, folder, ignore_errors=True)
            catalog._rebuild()
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        return catalog

    _refreshing: threading.Lock
    _cloned: set[UUID]  # clones of tables that nobody opened on their branch yet
    _remove: weakref.finalize[..., ReplicaCatalog]

    def refresh(self) -> int:
        """Follow what was published since; returns the version that reads see from now on."""
        with self._refreshing:
            more = True
            while more:
                try:
                    more = self._follow()
                except Rebuild:
                    self._rebuild()
                    more = False
            return self.version()

    def close(self) -> None:
        super().close()
        self._remove()

    def pin(self, table_id: UUID, version: int) -> UUID:
        return new_id()

    def renew_pin(self, pin_id: UUID) -> None:
        """Nothing to renew: the lake's own clean-up does not know of this reader."""

    def unpin(self, pin_id: UUID) -> None:
        """Nothing to give up."""

    def _follow(self) -> bool:
        with self.pool.read() as connection:
            version = connection.execute(sa.select(s.counter.c.version)).scalar_one()
            incarnation = connection.execute(sa.select(s.lake.c.incarnation)).scalar_one()
            table_ids = {*connection.execute(sa.select(s.tables.c.id)).scalars()}
        news = look(self.store, self.uuid, version, incarnation, table_ids)
        if news.versions:
            with self.pool.filling() as connection:
                manifests = [manifest for each in news.versions.values() for manifest in each]
                opened = {UUID(bytes=entry.id) for manifest in manifests for entry in manifest.table_entries}
                for table_id in opened & self._cloned:
                    purge(connection, table_id)  # the lake's own clone takes its place
                apply(self.pool, connection, news)
            self._cloned -= opened
        return news.more

    def _open_on_branch(self, *where: sa.ColumnElement[bool]) -> None:
        """Clone tables of branches that nobody opened yet, for reads here: no version has these clones."""
        with self.pool.read() as connection:
            found = branches.unopened(connection, *where)
        if found:
            with self._refreshing:
                with self.pool.filling() as connection:
                    made = self._clone(connection, *where)
                self._cloned |= made

    def _clone(self, connection: sa.Connection, *where: sa.ColumnElement[bool]) -> set[UUID]:
        found = branches.unopened(connection, *where)
        version, now = connection.execute(sa.select(s.counter.c.version)).scalar_one(), time.time_ns()
        for row in found:
            here = _Here(connection, version, now, now, deltas=0, incarnation=0, response_seq=0, routing_seq=0)
            branches.clone_table(Draft(here, self.uuid, "open-on-branch"), row)
        return {row.own_id for row in found}

    def _rebuild(self) -> None:
        """Start from full manifests. Retries if clean-up removes manifests at the same time."""
        with self.pool.read() as connection:
            shown = connection.execute(sa.select(s.counter.c.version)).scalar() or 0
        damage = ""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                index, line = read_line(self.store, self.uuid, writing=False)
                with self.pool.filling() as connection:
                    self._fill(connection, index, line, shown)
                    # Those who read such a table may be about to ask for its segments.
                    again = [self._clone(connection, branches.named(table_id)) for table_id in self._cloned]
                self._cloned = set().union(*again)
                return
            except NotFound:
                continue
            except Corrupt as error:
                if attempt == _ATTEMPTS or error.message == damage:
                    raise
                damage = error.message
        raise Unavailable(f"The manifests in {self.store.uri} are being cleaned up faster than they are read: retry.")

    def _fill(self, connection: sa.Connection, index: ManifestIndex, line: Line, shown: int) -> None:
        for table in reversed(s.metadata.sorted_tables):
            connection.execute(table.delete())
        highest, _ = fill(self.pool, connection, index, line, lambda done, total: None)
        if line.version < shown:
            raise NotFound(f"Version {shown} was already shown, but the manifests lead only to version {line.version}.")
        state = line.lake.state
        values = {"uuid": self.uuid, "format": s.FORMAT, "storage": self.store.uri, "created_at": state.created_at}
        connection.execute(s.lake.insert().values(id=1, incarnation=line.lake.incarnation, **values))
        counter = {"version": line.version, "response_seq": state.response_seq, "clock_ns": highest.timestamp_ns}
        connection.execute(s.counter.insert().values(id=1, deltas=0, **counter))
