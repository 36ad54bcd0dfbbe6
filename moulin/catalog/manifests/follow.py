"""Follows a lake by its manifests: applies newly published versions to a catalog built from older ones.

The cost depends on the new manifests and the number of tables, not on their size. It relies on two guarantees of
publish.py: manifests appear in version order, and all manifests of a version before any of the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.expiry import forget
from moulin.catalog.manifests import lake_replay as rows
from moulin.catalog.manifests.index import ManifestIndex
from moulin.catalog.manifests.lake_replay import (
    LakeReplay,
    base_path_row,
    branch_row,
    branch_table_row,
    database_row,
    entry_row,
    member_rows,
    request_row,
    view_row,
)
from moulin.catalog.manifests.recover import insert_versions
from moulin.catalog.manifests.replay import Span, TableReplay
from moulin.catalog.old_versions import delete_versions, forget_commits, past_versions
from moulin.catalog.segments.bases import Level
from moulin.catalog.segments.sql_rows import CARRIED, select_spans
from moulin.catalog.sql import schema as s
from moulin.catalog.sql.draft import table_entry
from moulin.catalog.sql.pool import Pool, chunks
from moulin.errors import NotFound
from moulin.formats import messages as pb
from moulin.storage import paths
from moulin.storage.store import Store

_VERSIONS_AT_ONCE = 256


class Rebuild(Exception):
    """The new versions do not follow the known ones: manifests in between were cleaned up, or the lake was
    recovered.
    """


@dataclass(slots=True)
class News:
    """Consecutive versions, each with all of its manifests; `more` means that there may be more."""

    versions: dict[int, list[pb.Manifest]] = field(default_factory=dict)
    more: bool = False


def look(store: Store, lake_uuid: UUID, version: int, incarnation: int, table_ids: set[UUID]) -> News:
    """The complete versions after `version`. Raises Rebuild if they are not all available."""
    search = _Search(store, lake_uuid, version, incarnation, table_ids)
    news = News()
    sure: int | None = None
    while search.newest > version and len(news.versions) < _VERSIONS_AT_ONCE:
        manifests, complete = search.read(version + 1)
        if not complete and sure is None:
            sure = search.index.published_through  # the next listing finds what this one misses
            search = _Search(store, lake_uuid, version, incarnation, table_ids)
            continue
        if not complete:
            if search.index.lake["full"] or (sure is not None and version < sure):
                raise Rebuild  # which reports what is missing, if clean-up did not remove it
            return news
        version += 1
        news.versions[version] = manifests
    news.more = search.newest > version
    return news


class _Search:
    """The manifests after a version, from one listing."""

    def __init__(self, store: Store, lake_uuid: UUID, version: int, incarnation: int, table_ids: set[UUID]) -> None:
        self.index = ManifestIndex(store, lake_uuid, after=version, writing=False)
        self.index.add_lake(version)
        self._cache: dict[str, pb.Manifest] = {}
        self._purged: set[bytes] = set()
        self._last_purge = 0
        known, purges = set(table_ids), dict[int, set[UUID]]()
        for full in self.index.lake["full"]:
            if self._read(paths.lake_manifest(full, "full")).incarnation > incarnation:
                raise Rebuild
        for manifest in map(self._read, (paths.lake_manifest(v, "delta") for v in self.index.lake["delta"])):
            known.update(UUID(bytes=entry.id) for entry in manifest.table_entries)
            if manifest.purged:
                self._purged.update(manifest.purged)
                purges[manifest.version] = known.intersection(UUID(bytes=gone) for gone in manifest.purged)
        self.index.add_tables(known, version)
        for number, tables in purges.items():
            if not all(map(self.index.has_table, tables)):
                self._last_purge = number
        self._parts: dict[int, set[str]] = {}
        for number in self.index.lake["delta"]:
            self._parts.setdefault(number, set()).add(paths.lake_manifest(number, "delta"))
        for table_id, kinds in self.index.tables.items():
            for number in kinds["delta"]:
                self._parts.setdefault(number, set()).add(paths.table_manifest(table_id, number, "delta"))
        self.newest = max(self._parts, default=version)
        soon = [name for number in sorted(self._parts)[:_VERSIONS_AT_ONCE] for name in sorted(self._parts[number])]
        wanted = [name for name in soon if name not in self._cache]
        try:
            self._cache.update(zip(wanted, self.index.read_in_order(wanted), strict=True))
        except NotFound:
            raise Rebuild from None

    def read(self, version: int) -> tuple[list[pb.Manifest], bool]:
        """The manifests of a version, and whether they are complete, except for those that clean-up may have
        removed.
        """
        found = {name: self._read(name) for name in sorted(self._parts.get(version, ()))}
        if not found:  # its only tables may be purged with all of their folders
            return [], version < self._last_purge
        one = next(iter(found.values()))
        needed = {paths.lake_manifest(version, "delta")} if one.lake else set()
        gone = self._purged
        needed.update(paths.table_manifest(UUID(bytes=t), version, "delta") for t in one.tables if t not in gone)
        return list(found.values()), not needed - found.keys()

    def _read(self, name: str) -> pb.Manifest:
        if name not in self._cache:
            try:
                self._cache[name] = self.index.read(name)
            except NotFound:
                raise Rebuild from None  # cleaned up between the listing and now
        return self._cache[name]


def apply(pool: Pool, connection: sa.Connection, news: News) -> None:
    """Apply new versions to a catalog (on SQLite)."""
    deltas: dict[UUID, list[pb.Manifest]] = {}
    forgotten: dict[UUID, int] = {}
    stamps: dict[int, tuple[int, str]] = {}
    for version, manifests in news.versions.items():
        for manifest in manifests:
            if manifest.erasures:  # older versions change too
                raise Rebuild
            stamps[version] = (manifest.timestamp_ns, manifest.kind)
            _apply_lake(connection, manifest, forgotten)
            if manifest.table_uuid:
                deltas.setdefault(UUID(manifest.table_uuid), []).append(manifest)
    insert_versions(pool, connection, stamps)
    connection.execute(s.counter.update().values(version=max(news.versions)))
    for table_id, chain in deltas.items():
        row = connection.execute(sa.select(s.tables).where(s.tables.c.id == table_id)).first()
        if row is None:  # purged by a later one of these versions
            continue
        replay = _TableFollow(connection, row)
        for manifest in chain:
            if not replay.extend(manifest):
                raise Rebuild
        replay.finish(table_entry(row), 0)
    for table_id, oldest in forgotten.items():
        forget(connection, table_id, oldest)
        forget_commits(connection, table_id, oldest)
    if forgotten:
        delete_versions(connection, past_versions(connection))


def _apply_lake(connection: sa.Connection, manifest: pb.Manifest, forgotten: dict[UUID, int]) -> None:
    """Rows of databases, tables, views and requests at a version."""
    for database in manifest.databases:
        _upsert(connection, s.databases, database_row(database))
    for entry in manifest.table_entries:
        row = entry_row(entry)
        known = connection.execute(sa.select(s.tables.c.oldest_version).where(s.tables.c.id == row["id"])).scalar()
        if known is None:
            LakeReplay().insert_table(connection, entry)
        else:
            _upsert(connection, s.tables, row)
            if entry.oldest_version > known:
                forgotten[row["id"]] = entry.oldest_version
    for view in manifest.views:
        row = view_row(view)
        _upsert(connection, s.views, row)
        connection.execute(s.view_members.delete().where(s.view_members.c.view_id == row["id"]))
        if members := member_rows(view):
            connection.execute(s.view_members.insert(), members)
    for base in manifest.base_paths:
        _upsert(connection, s.base_paths, base_path_row(base))
    for branch in manifest.branches:
        _upsert(connection, s.branches, branch_row(branch))
    for table in manifest.branch_tables:
        row, b = branch_table_row(table), s.branch_tables
        mine = (b.c.branch_id == row["branch_id"], b.c.source_id == row["source_id"])
        connection.execute(b.delete().where(*mine))
        connection.execute(b.insert().values(row))
    _apply_ingest(connection, manifest)
    for request in manifest.requests:
        _upsert(connection, s.requests, request_row(request))
    for purged in manifest.purged:
        forgotten.pop(UUID(bytes=purged), None)
        purge(connection, UUID(bytes=purged))


def _apply_ingest(connection: sa.Connection, manifest: pb.Manifest) -> None:
    """Tokens, and streams with their offsets, at a version."""
    k, t, c = s.token_secrets, s.stream_tables, s.stream_checkpoints
    for token in manifest.ingest_tokens:
        row = rows.token_row(token)
        _upsert(connection, s.ingest_tokens, row)
        connection.execute(k.delete().where(k.c.token_id == row["id"]))
        connection.execute(k.insert(), rows.secret_rows(token))
    known = [table_id.bytes for table_id in connection.execute(sa.select(s.tables.c.id)).scalars()]
    for stream in manifest.streams:
        row = rows.stream_row(stream)
        _upsert(connection, s.streams, row)
        connection.execute(t.delete().where(t.c.stream_id == row["id"]))
        for table in rows.stream_table_rows(stream, known):
            connection.execute(t.insert().values(table))
        for point in rows.checkpoint_rows(stream, known, {manifest.version: manifest.timestamp_ns}):
            if point["version"] == manifest.version:
                connection.execute(c.insert().values(point))
    for one in manifest.set_asides:
        connection.execute(s.set_asides.insert().values(rows.set_aside_row(one)))
    if manifest.routing_changed:
        connection.execute(s.counter.update().values(routing_seq=manifest.version))


def _upsert(connection: sa.Connection, table: sa.Table, row: dict[str, Any]) -> None:
    done = connection.execute(table.update().where(table.c.id == row["id"]).values(row))
    if done.rowcount == 0:
        connection.execute(table.insert().values(row))


def purge(connection: sa.Connection, gone: UUID) -> None:
    """Delete a database, table, view, branch, token or stream and all rows that belong to it."""
    connection.execute(s.branch_tables.delete().where(s.branch_tables.c.branch_id == gone))
    connection.execute(s.view_members.delete().where(s.view_members.c.view_id == gone))
    connection.execute(s.token_secrets.delete().where(s.token_secrets.c.token_id == gone))
    for table in (s.stream_tables, s.stream_checkpoints):
        connection.execute(table.delete().where(table.c.stream_id == gone))
    for table in reversed(s.metadata.sorted_tables):
        if "table_id" in table.c and table is not s.view_members:
            connection.execute(table.delete().where(table.c.table_id == gone))
    for table in (s.views, s.base_paths, s.branches, s.ingest_tokens, s.streams, s.tables, s.databases):
        connection.execute(table.delete().where(table.c.id == gone))


class _TableFollow(TableReplay):
    """Continues from the catalog's rows of a table. Only rows in the deltas are loaded."""

    def __init__(self, connection: sa.Connection, row: Any) -> None:
        super().__init__(connection, row.id)
        c = s.table_commits
        query = sa.select(c.c.snapshot_id).where(c.c.table_id == row.id, c.c.version == row.head_version)
        self._snapshot_id = connection.execute(query.limit(1)).scalar()
        if self._snapshot_id is not None:  # else the table is new, and its first delta is among these
            self.base, self.head = row.created_version, row.head_version
        self._time_classes = row.time_classes
        self._before = {name: getattr(row, name) for name in ("segments", "rows", "bytes", "inline")}
        self._loaded: dict[int, int] = {}  # open spans: segment -> id of the row
        self._closed: list[dict[str, int]] = []
        self._is_new = self._snapshot_id is None
        self._newly_masked: list[int] = []

    def extend(self, manifest: pb.Manifest) -> bool:
        self._load(manifest)
        return super().extend(manifest)

    def _load(self, manifest: pb.Manifest) -> None:
        """The catalog's rows of the segments and vectors in a delta."""
        numbers = sorted({ref.number for ref in manifest.data_files} - self._facts.keys())
        vectors = sorted({ref.dv_id for ref in manifest.data_files if ref.dv_id} - self._vectors.keys())
        g, p, d = s.segments, s.segment_spans, s.deletion_vectors
        for chunk in chunks(numbers):
            for row in self._connection.execute(sa.select(g).where(g.c.number.in_(chunk))):
                self._facts[row.number] = (row.rows, row.size, row.inline)
            mine = p.c.table_id == self._table_id
            for row in self._connection.execute(
                select_spans().where(mine, p.c.segment.in_(chunk), p.c.removed_version == s.OPEN)
            ):
                carried = tuple(getattr(row, name) for name in CARRIED)
                sums = (row.rows, row.size, row.inline, row.deleted)
                self._carried[row.segment] = carried[:-1]  # the column files are those of the span
                self._open[row.segment] = Span(row.vector_id, row.added_version, carried, *sums)
                self._loaded[row.segment] = row.id
                live = {"segments": 1, "rows": row.rows - row.deleted, "bytes": row.size, "inline": int(row.inline)}
                for name, amount in live.items():
                    self._before[name] -= amount
            m = s.span_masks
            masked = sa.select(m.c.segment).where(m.c.table_id == self._table_id, m.c.segment.in_(chunk))
            self._masks.update(self._connection.execute(masked).scalars())
        for chunk in chunks(vectors):
            found = self._connection.execute(sa.select(d.c.id, d.c.cardinality).where(d.c.id.in_(chunk)))
            self._vectors.update({row.id: row.cardinality for row in found})

    def _mask(self, number: int, version: int) -> None:
        if number not in self._masks:
            self._newly_masked.append(number)
        super()._mask(number, version)

    def _insert_span(self, number: int, span: Span, removed_version: int) -> None:
        span_id = self._loaded.pop(number, None)
        if span_id is None:
            super()._insert_span(number, span, removed_version)
        elif removed_version < s.OPEN:
            self._closed.append({"span_id": span_id, "version": removed_version})

    def _flush(self) -> None:
        super()._flush()
        if self._closed:
            p = s.segment_spans
            close = p.update().where(p.c.id == sa.bindparam("span_id")).values(removed_version=sa.bindparam("version"))
            self._connection.execute(close, self._closed)
            self._closed = []

    def _insert_regions(self) -> None:
        r = s.regions
        for number in self._regions:
            self._connection.execute(r.delete().where(r.c.table_id == self._table_id, r.c.number == number))
        super()._insert_regions()

    def _sums(self, state: pb.TableState) -> dict[str, int]:
        return {name: amount + self._before[name] for name, amount in super()._sums(state).items()}

    def _based(self, base: Level, numbers: Sequence[int] | None = None) -> tuple[int, int, int, int]:
        """The spans of a known table that new masks hide."""
        if self._is_new:
            return super()._based(base)
        segments, rows, size, inline = 0, 0, 0, 0
        for chunk in chunks(self._newly_masked):
            one = super()._based(Level(base.table_id, base.version), chunk)
            segments, rows, size, inline = (
                was - gone for was, gone in zip((segments, rows, size, inline), one, strict=True)
            )
        return segments, rows, size, inline
