"""Projection: any kept version of a table as an Iceberg table, written on demand.

One line of projections per table and format. Each continues the one before: what changed since then becomes one new
manifest (or a few), manifests that lost a file are written again, all others are taken over. Versions in between appear
as if committed and expired. Files get fresh names and are recorded in the catalog at the end, in one transaction: a
killed process leaves unreferenced files, and the second of two processes uses the result of the first.
"""

# Decisions: docs/decisions/0233, docs/decisions/0496, docs/decisions/0514, docs/decisions/0701

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING
from uuid import UUID

from moulin.catalog.objects import projections
from moulin.catalog.objects.projections import DataCommit, Projected
from moulin.catalog.segments.feed import FeedEntry
from moulin.errors import Corrupt, NotFound, Unavailable
from moulin.iceberg.format import metadata as documents
from moulin.iceberg.format.avro import read_avro
from moulin.iceberg.format.json import Json
from moulin.iceberg.format.locations import location, locator, made_here, path_in_table, table_location
from moulin.iceberg.format.manifests import ManifestWriter, is_live, write_manifest_list
from moulin.iceberg.projection.folding import folded, schema_before, unfolded, without
from moulin.iceberg.projection.rewrite import Delta, Rewriter, Totals
from moulin.model.entities import TableState
from moulin.model.ids import new_id
from moulin.model.tags import ExpiredSnapshots, Ref, refs_of
from moulin.sized_cache import SizedCache
from moulin.storage import paths
from moulin.storage.segment_source import put_files
from moulin.table.context import Context

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata

# an attempt fails if another process continued the line: with many writers, once for each version in between
_ATTEMPTS = 200
LOOK_SECONDS = 10.0
"""How long the files of a projection are believed to be where they were seen."""
_REMEMBERED = 4096
_looked: SizedCache[str, float] = SizedCache(_REMEMBERED)
log = logging.getLogger("moulin.iceberg")


@dataclass(frozen=True, slots=True)
class Projection:
    """One version of a table as Iceberg metadata: the last version that changed it, and where its metadata lies.

    `metadata` is shared with others, and not to be changed.
    """

    table_id: UUID
    version: int
    format_version: int
    path: str
    location: str
    metadata: Json
    data: bytes | None = field(default=None, compare=False)
    """The metadata as it was written, if that was just done."""

    @property
    def snapshot_id(self) -> int | None:
        """The current snapshot; None for a table that never had rows."""
        found = self.metadata.get("current-snapshot-id")
        return None if found in (None, -1) else int(found)

    def model(self) -> TableMetadata:
        """The metadata as pyiceberg's model."""
        from pyiceberg.table.metadata import TableMetadataUtil

        return TableMetadataUtil.parse_obj(self.metadata)


def project(
    context: Context,
    table_id: UUID,
    version: int | None = None,
    *,
    format_version: int | None = None,
    known: TableState | None = None,
) -> Projection:
    """The table at `version`, by default now, as Iceberg metadata in the lake's storage; made if it is not there.

    The format is the one that the table has at that version, unless given. Rows that were put and not flushed are not
    part of any version. Cost follows what changed since the last projection. `known` is the table at `version`, if the
    caller has it.
    """
    for _ in range(_ATTEMPTS):
        state = known or context.catalog.table_by_id(table_id, version)
        known = None  # of another try it is not the newest
        chosen = format_version or documents.format_version(state)
        found: Projected | None = None
        try:
            line = _look(context, state, chosen)
            if version is None and line.unfolded and (after := folded(context, state)) is not state:
                known = after
                continue
            found = line.found
            if found is not None and not _is_whole(context, table_id, chosen, found):
                continue
            if found is None:
                if line.base is not None and not _is_whole(context, table_id, chosen, line.base):
                    continue
                if line.earlier:
                    _project_earlier(context, state, chosen, line)
                    line = _look(context, state, chosen)
                    if line.found is not None:
                        known = state
                        continue
                made = _Projector(context, state, chosen, line).run()
                if made is not None:
                    return made
            else:
                return _load(context, table_id, chosen, found)
        except NotFound:
            # Of this projection or the one before it: cleaned up since it was looked up, or lost.
            if found is None and not _forget_lost(context, table_id, chosen, state.head_version):
                raise
    raise Unavailable(f"Others kept projecting {table_id} at the same time: try again.")


@dataclass(frozen=True, slots=True)
class _Line:
    """The existing projections: that of a version, or else the previous one, and what is in between.

    `earlier` are versions of engines since `base`; none where a newer version is projected already: then the one to be
    made is not of the line. `unfolded` are columns in files of their own.
    """

    found: Projected | None
    unfolded: frozenset[int]
    base: Projected | None = None
    earlier: Sequence[int] = ()
    is_newest: bool = False


def _look(context: Context, state: TableState, chosen: int) -> _Line:
    """The existing projections for a version, from one snapshot of the catalog."""
    pool, head = context.own_catalog().pool, state.head_version
    with pool.view():
        found, left_out = projections.find(pool, state.id, chosen, head), unfolded(context, state)
        if found is not None:
            return _Line(found, left_out)
        base, earlier = projections.before(pool, state.id, chosen, head), list[int]()
        is_newest = projections.is_newest(pool, state.id, chosen, head)
        if base is not None and is_newest:
            earlier = projections.engine_versions(pool, state.id, base.version, head)
        return _Line(None, left_out, base, earlier, is_newest)


def _project_earlier(context: Context, state: TableState, chosen: int, line: _Line) -> None:
    """Project commits of engines since the last projection, so that each finds its snapshot in the metadata."""
    for version in line.earlier:
        with suppress(NotFound):  # clean-up has passed it
            project(context, state.id, version, format_version=chosen)


def find_whole(context: Context, table_id: UUID, chosen: int, version: int) -> Projected | None:
    """The projection of exactly this version. If it lost a file, it is deleted with all projections that may share it:
    None.
    """
    found = projections.find(context.own_catalog().pool, table_id, chosen, version)
    return found if found is None or _is_whole(context, table_id, chosen, found) else None


def _is_whole(context: Context, table_id: UUID, chosen: int, found: Projected) -> bool:
    """Whether all files of a projection are in storage; checked from time to time, with one listing."""
    now, where = time.monotonic(), location(context.store, found.path)  # a copy of the lake has the same paths
    seen = _looked.find(where)
    if seen is not None and seen > now - LOOK_SECONDS:
        return True
    if _forget_lost(context, table_id, chosen, found.version) or _forget_moved(context, table_id, chosen, found):
        return False
    _looked.keep(where, now)
    return True


def _forget_lost(context: Context, table_id: UUID, chosen: int, version: int) -> bool:
    """Delete the projections of a table if a file of this one, or of the previous one, is missing or truncated."""
    pool = context.own_catalog().pool
    base = projections.before(pool, table_id, chosen, version)
    named = projections.files(pool, table_id, chosen, version)
    if base is not None:
        named |= projections.files(pool, table_id, chosen, base.version)
    there = {info.path: info.size for info in context.store.list(paths.metadata_prefix(table_id))}
    if all(there.get(path) == size for path, size in named.items()):
        return False
    log.warning("files of a projection are lost, and made again", extra={"table": str(table_id)})
    projections.forget(pool, table_id, chosen)
    return True


def _forget_moved(context: Context, table_id: UUID, chosen: int, found: Projected) -> bool:
    """Delete the projections of a table if they have another address: the lake was moved or copied."""
    try:
        if made_here(context.store, table_id, read_metadata(context, found.path)):
            return False
    except (Corrupt, KeyError):
        return False  # the reader reports it
    log.warning("the lake was moved: the projections of a table are made again", extra={"table": str(table_id)})
    projections.forget(context.own_catalog().pool, table_id, chosen)
    return True


def _load(context: Context, table_id: UUID, chosen: int, found: Projected) -> Projection:
    where = location(context.store, found.path)
    return Projection(table_id, found.version, chosen, found.path, where, _metadata(context, found.path))


_documents: SizedCache[str, Json] = SizedCache(16)  # the next commit continues what the last one wrote


def _metadata(context: Context, path: str) -> Json:
    """As `read_metadata`; files never change, and the last ones are kept. Nobody changes the document."""
    where = location(context.store, path)
    document = _documents.find(where)
    if document is None:
        document = read_metadata(context, path)
        _documents.keep(where, document)
    return document


def read_metadata(context: Context, path: str) -> Json:
    try:
        document: Json = json.loads(context.store.get(path))
    except ValueError as error:
        raise Corrupt(f"{path} is damaged: it is no JSON ({error}).") from None
    lists = ("schemas", "partition-specs", "sort-orders", "snapshots")
    if not isinstance(document, dict) or not all(isinstance(document.get(name), list) for name in lists):
        raise Corrupt(f"{path} is damaged: it is not metadata of a table.")
    return document


def named_commits(context: Context, state: TableState) -> Iterator[tuple[Ref, DataCommit]]:
    """The branches and tags of a table whose versions have rows, each with the commit that its snapshot stands for."""
    for ref in refs_of(state.properties).values():
        try:
            named = context.catalog.table_by_id(state.id, ref.version)
        except NotFound:  # the name was taken from it since, and clean-up has passed it
            continue
        commit = projections.data_commit(context.own_catalog().pool, state.id, named.head_version)
        if commit is not None:
            yield ref, commit


@dataclass(frozen=True, slots=True)
class _Known:
    """What the catalog says of the version to be projected, beside the projection that it continues, if any.

    `entry` is what changed since that one; None when it cannot be continued, or has the same rows.
    """

    erased: int
    oldest: int
    commit: DataCommit | None
    changed: int
    entry: FeedEntry | None


class _Projector:
    """Writes one projection."""

    def __init__(self, context: Context, state: TableState, chosen: int, line: _Line) -> None:
        self.context, self.format, self.line = context, chosen, line
        self.left_out = line.unfolded  # engines would not find columns that lie in files of their own
        self.state = without(state, line.unfolded) if line.unfolded else state
        self.pool, self.store = context.own_catalog().pool, context.store
        self.folder = paths.metadata_prefix(state.id)
        self.added: dict[str, int] = {}

    def run(self) -> Projection | None:
        """The projection; None if another process was first."""
        state, base, on_line = self.state, self.line.base, self.line.is_newest
        with self.context.pins.hold(state.id, state.head_version, check=False), self.context.catalog.writing():
            known = self._look_up()
            before: Json = {} if base is None else _metadata(self.context, base.path)
            if base is not None and not made_here(self.store, state.id, before):
                return None  # of a process that reaches this lake by another address, since it was looked for
            made, document, data, removed = self._make(known, before)
            parent = (projections.FIRST if base is None else base.version) if on_line else None
            recorded = projections.record(
                self.pool,
                state.id,
                self.format,
                made,
                parent,
                self.added,
                removed if on_line else (),
                known.erased,
            )
            if not recorded and projections.last_erased(self.pool, state.id) != known.erased:
                self.store.delete(self.added)  # at once: they contain bounds of erased rows
            if not recorded:
                return None
            self._note_whole(base, made)
            where = location(self.store, made.path)
            _documents.keep(where, document)
            return Projection(state.id, made.version, self.format, made.path, where, document, data)

    def _note_whole(self, base: Projected | None, made: Projected) -> None:
        """What was just written is there; what is taken over was there when that of `base` was looked for."""
        seen = time.monotonic() if base is None else _looked.find(location(self.store, base.path))
        if seen is not None:
            _looked.keep(location(self.store, made.path), seen)

    def _look_up(self) -> _Known:
        """The input from one snapshot of the catalog."""
        state, pool, head, base = self.state, self.pool, self.state.head_version, self.line.base
        with pool.view():
            oldest = projections.oldest_projectable(pool, state.id)
            commit = projections.data_commit(pool, state.id, head)
            usable = base is not None and base.version >= oldest and commit is not None
            entry = None
            if usable and base is not None and commit is not None and base.sequence < commit.sequence:
                (entry,) = self.context.catalog.feed(state.id, base.version, head, net=True)
            if head < oldest:
                raise NotFound(f"Version {head} of {state.full_name} was cleaned up.")
            return _Known(
                projections.last_erased(pool, state.id),
                oldest,
                commit,
                projections.commit_time(pool, state.id, head),
                entry,
            )

    def _make(self, known: _Known, before: Json) -> tuple[Projected, Json, bytes, Iterable[str] | None]:
        state, base, oldest, commit = self.state, self.line.base, known.oldest, known.commit
        if commit is not None and self.left_out:
            commit = replace(commit, schema_id=self._schema_before(commit.schema_id))
        expired = ExpiredSnapshots.of(state.properties)
        listed = [(one, int(one["summary"][documents.VERSION_KEY])) for one in before.get("snapshots", [])]
        kept = [one for one, version in listed if version >= oldest and not expired.has(one["snapshot-id"], version)]
        removed: list[str] | None = [] if base is None else [base.path]
        if commit is not None and (base is None or base.sequence < commit.sequence):
            made, dropped = self._snapshot(commit, base, known.entry, before)
            kept.append(made)
            removed = None if known.entry is None or removed is None else [*removed, *dropped]
        elif commit is not None:
            current = [one for one in before["snapshots"] if one["snapshot-id"] == commit.snapshot_id]
            kept += [one for one in current if one not in kept]
        document = documents.table_metadata(
            state,
            self.format,
            table_location(self.store, state),
            known.changed,
            kept,
            self._log(base, before, oldest),
            self._refs(kept),
        )
        for kind in ("statistics", "partition-statistics"):
            document[kind] = [self._located(one) for one in document[kind]]
        name = paths.metadata_name(state.head_version, new_id())
        data = json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()
        self._write(name, data)
        sequence = 0 if commit is None else commit.sequence
        return Projected(state.head_version, sequence, f"{self.folder}/{name}"), document, data, removed

    def _schema_before(self, schema_id: int) -> int:
        state = self.context.catalog.table_by_id(self.state.id, self.state.version)
        return schema_before(state, schema_id, self.left_out)

    def _located(self, statistics: Json) -> Json:
        """Statistics with the address that their file has now."""
        path = path_in_table(self.state.id, statistics["statistics-path"])
        if path is None:
            return statistics
        return {**statistics, "statistics-path": location(self.store, path)}

    def _refs(self, kept: list[Json]) -> dict[str, Json]:
        """Named versions that have rows; a snapshot that is not among those `kept` is projected, and added to them."""
        refs: dict[str, Json] = {}
        for ref, commit in named_commits(self.context, self.state):
            if all(one["snapshot-id"] != commit.snapshot_id for one in kept):
                found = project(self.context, self.state.id, ref.version, format_version=self.format)
                kept += [one for one in found.metadata["snapshots"] if one["snapshot-id"] == commit.snapshot_id]
            refs[ref.name] = documents.ref_json(ref, commit.snapshot_id)
        return refs

    def _log(self, base: Projected | None, before: Json, oldest: int) -> list[Json]:
        if base is None:
            return []
        last = {"metadata-file": location(self.store, base.path), "timestamp-ms": before["last-updated-ms"]}
        log = [*before.get("metadata-log", []), last]
        return [entry for entry in log if self._version(entry["metadata-file"]) >= min(oldest, base.version)]

    def _version(self, where: str) -> int:
        found = paths.parse_metadata(f"{self.folder}/{where.rpartition('/')[2]}")
        return -1 if found is None else found[1]

    def _snapshot(
        self, commit: DataCommit, base: Projected | None, entry: FeedEntry | None, before: Json
    ) -> tuple[Json, list[str]]:
        """The snapshot of a commit that no projection has yet, and the files of `base` that it does without.

        `entry` is what changed since `base`; without it everything is written.
        """
        # Bounds have the types of that commit; widened columns can still be read with them.
        state, catalog = replace(self.state, schema_id=commit.schema_id), self.context.catalog
        delta, old, totals = Delta(), list[Json](), Totals()
        dropped: list[str] = []
        if base is not None and entry is not None:
            delta = Delta.of(entry.segments)
            if before["snapshots"] and base.sequence:
                last = next(one for one in before["snapshots"] if one["sequence-number"] == base.sequence)
                path = f"{self.folder}/{last['manifest-list'].rpartition('/')[2]}"
                old, _ = read_avro(self.store.get(path), path)
                totals.size = int(last["summary"].get("total-files-size", 0))
                dropped.append(path)
        else:
            delta = Delta.all(catalog.segments(state.id, state.head_version, with_columns=False))
        writer = ManifestWriter(
            state,
            self.format,
            commit,
            lambda sequences: projections.snapshot_ids(self.pool, state.id, sequences),
            lambda numbers: projections.column_facts(self.pool, numbers),
            locator(self.store),
            self._write,
        )
        put_files(self.store, [segment.facts for segment in delta.added])
        rewriter = Rewriter(self.context, state, writer, self.folder, totals)
        manifests = rewriter.apply([one for one in old if is_live(one)], delta)
        dropped += [self._name(one) for one in old if one not in manifests]
        dropped += [f"{self.folder}/{name}" for name in rewriter.dropped]
        where, _ = write_manifest_list(manifests, commit, self.format, self._write)
        return documents.snapshot(commit, where, totals.summary(manifests), self.format), dropped

    def _name(self, manifest: Json) -> str:
        return f"{self.folder}/{manifest['manifest_path'].rpartition('/')[2]}"

    def _write(self, name: str, data: bytes) -> str:
        path = f"{self.folder}/{name}"
        self.store.put_derived(path, data)
        self.added[path] = len(data)
        return location(self.store, path)


__all__ = ["Projection", "find_whole", "named_commits", "project", "read_metadata"]
