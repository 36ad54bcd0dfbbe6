"""Export: writes one version of a table as a separate Iceberg table, in a folder or an object store.

The tree is what Iceberg calls a Hadoop table: `metadata/v<N>.metadata.json`, and `metadata/version-hint.text` says N.
Exporting into the same folder again adds the next N. Data files are referred to in the lake, or copied. The table has
one snapshot, that of the version, with its branches and tags.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any
from uuid import UUID

from moulin.catalog.catalog import local_catalog
from moulin.catalog.objects import projections
from moulin.errors import AlreadyExists, FailedPrecondition
from moulin.formats.puffin import DeletionVectorBlob, write_puffin
from moulin.iceberg.format import metadata as documents
from moulin.iceberg.format.deletes import DeleteFile, position_deletes
from moulin.iceberg.format.json import Json
from moulin.iceberg.format.locations import location, path_in_table
from moulin.iceberg.format.manifests import ManifestWriter, write_manifest_list
from moulin.iceberg.projection.folding import folded, unfolded, without
from moulin.iceberg.projection.projection import named_commits
from moulin.iceberg.projection.rewrite import Delta, Rewriter, Totals
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.ids import new_id
from moulin.storage import paths
from moulin.storage.segment_source import open_segment, put_files
from moulin.storage.store import Store, open_store
from moulin.table.context import Context
from moulin.table.ports import Export
from moulin.table.read.quarantine import refuse_quarantined

_NUMBERED = re.compile(r"metadata/v([1-9][0-9]{0,8})\.metadata\.json")
_HINT = "metadata/version-hint.text"
_CHUNK = 8 << 20


def export(
    context: Context, table_id: UUID, directory: str, *, version: int | None = None, copy: bool = False
) -> Export:
    """Write a table at `version`, by default now, into `directory`. Interrupted, it leaves no new version there."""
    if local_catalog(context.catalog) is None:
        raise FailedPrecondition(
            "A table is exported where the lake's catalog is, not through a server or from a copy: open the lake by "
            "its folder or database, or read the table through the Iceberg REST catalog of `moulin serve`."
        )
    state = context.catalog.table_by_id(table_id, version)
    refuse_quarantined(context.catalog, state)
    if version is None:
        state = folded(context, state)
    if left_out := unfolded(context, state):
        state = without(state, left_out)
    target = open_store(directory)
    if target.uri == context.store.uri or target.uri.startswith(f"{context.store.uri}/"):
        raise FailedPrecondition(f"{directory} lies inside the lake: export into a folder of its own.")
    with context.pins.hold(table_id, state.version):
        return _Exporter(context, state, target, copy).run()


class _Exporter:
    def __init__(self, context: Context, state: TableState, target: Store, copy: bool) -> None:
        self.context, self.state, self.target, self.copy = context, state, target, copy
        self.pool, self.format = context.own_catalog().pool, documents.format_version(state)
        self.files = self.bytes = 0

    def run(self) -> Export:
        state = self.state
        commit = projections.data_commit(self.pool, state.id, state.head_version)
        snapshots: list[Json] = []
        refs: dict[str, Json] = {}
        if commit is not None:
            segments = self.context.catalog.segments(state.id, state.version, with_columns=False)
            if self.copy:
                for facts in (segment.facts for segment in segments):
                    self._copy(partial(open_segment, self.context.store, facts), facts.size, _copied(facts.path))
            else:
                put_files(self.context.store, [segment.facts for segment in segments])
            as_committed = replace(state, schema_id=commit.schema_id)
            writer = ManifestWriter(
                as_committed,
                self.format,
                commit,
                lambda sequences: projections.snapshot_ids(self.pool, state.id, sequences),
                lambda numbers: projections.column_facts(self.pool, numbers),
                self._locate,
                lambda name, data: self._write(f"metadata/{name}", data),
            )
            totals = Totals()
            vectors = self._vectors(segments) if self.copy else None
            rewriter = Rewriter(self.context, as_committed, writer, "metadata", totals, vectors)
            manifests = rewriter.apply([], Delta.all(segments))
            where, _ = write_manifest_list(manifests, commit, self.format, writer.write)
            snapshots.append(documents.snapshot(commit, where, totals.summary(manifests), self.format))
            refs = self._refs(commit.snapshot_id)
        changed = projections.commit_time(self.pool, state.id, state.head_version)
        document = documents.table_metadata(state, self.format, self._root(), changed, snapshots, [], refs)
        for kind in ("statistics", "partition-statistics"):
            document[kind] = list(self._statistics(document[kind]))
        name = self._publish(json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode())
        return Export(state.head_version, location(self.target, name), self._root(), self.files, self.bytes)

    def _publish(self, data: bytes) -> str:
        """Metadata under the next free number, then the hint that says so."""
        taken = [int(m[1]) for info in self.target.list("metadata") if (m := _NUMBERED.fullmatch(info.path))]
        number = max(taken, default=0) + 1
        while True:
            name = f"metadata/v{number}.metadata.json"
            try:
                self._write(name, data)
                break
            except AlreadyExists:
                number += 1
        self.target.put(_HINT, str(number).encode())
        return name

    def _root(self) -> str:
        return location(self.target, "metadata").removesuffix("/metadata")

    def _locate(self, path: str) -> str:
        if not self.copy:
            return location(self.context.store, path)
        return location(self.target, _copied(path))

    def _refs(self, snapshot_id: int) -> dict[str, Json]:
        """The current refs of the snapshot: tags are not part of the version."""
        newest = self.context.catalog.table_by_id(self.state.id)
        found = named_commits(self.context, newest)
        return {ref.name: documents.ref_json(ref, snapshot_id) for ref, one in found if one.snapshot_id == snapshot_id}

    def _statistics(self, files: Sequence[Json]) -> Iterator[Json]:
        """Statistics whose file is still there; copied with the data, to the same path below the table's folder."""
        for one in files:
            path = path_in_table(self.state.id, one["statistics-path"])
            if path is None:  # an engine put it below a base path
                yield from () if self.copy else (one,)
                continue
            if not self.context.store.exists(path):
                continue
            where = location(self.context.store, path)
            if self.copy:
                name = path.removeprefix(paths.table_prefix(self.state.id) + "/")
                size = one["file-size-in-bytes"]
                self._copy(partial(self.context.store.reader, path, size), size, name)
                where = location(self.target, name)
            yield {**one, "statistics-path": where}

    def _copy(self, open_source: Callable[[], Any], size: int, name: str) -> None:
        """Copy a file of the lake, unless an earlier export did: they never change."""
        if self.target.exists(name) and self.target.head(name).size == size:
            return
        with open_source() as source, self.target.writer(name) as sink:
            while block := source.read(_CHUNK):
                sink.write(block)
                self.bytes += len(block)
        self.files += 1

    def _vectors(self, segments: Sequence[LiveSegment]) -> Mapping[int, DeleteFile]:
        """The deleted rows of copied segments, in files that name the copies."""
        store, worn = self.context.store, [segment for segment in segments if segment.vector is not None]
        worn.sort(key=lambda segment: segment.facts.spec_id)  # as they lie in manifests
        bitmaps = {}
        for segment in worn:
            assert segment.vector is not None
            bitmaps[segment.facts.number] = self.context.vectors.get(store, segment.vector, segment.facts.rows)
        if not worn:
            return {}
        found: dict[int, DeleteFile] = {}
        if self.format >= 3:
            blobs = [DeletionVectorBlob(self._locate(s.facts.path), bitmaps[s.facts.number]) for s in worn]
            data, extents = write_puffin(blobs)
            where = self._write(f"data/{new_id().hex}.puffin", data)
            for blob, extent, segment in zip(blobs, extents, worn, strict=True):
                found[segment.facts.number] = DeleteFile(
                    where, len(data), extent.cardinality, blob.referenced_data_file, extent.offset, extent.length
                )
            return found
        for segment in worn:
            bitmap, name = bitmaps[segment.facts.number], self._locate(segment.facts.path)
            data = position_deletes(name, bitmap, segment.facts.rows)
            where = self._write(f"data/{paths.position_deletes_name(new_id())}", data)
            first, last = int(bitmap.min()), int(bitmap.max())
            found[segment.facts.number] = DeleteFile(where, len(data), len(bitmap), name, first=first, last=last)
        return found

    def _write(self, path: str, data: bytes) -> str:
        self.target.put_if_absent(path, data)
        self.files += 1
        self.bytes += len(data)
        return location(self.target, path)


def _copied(path: str) -> str:
    """The path of a segment's copy: one folder for all, named by number and file."""
    if paths.is_adopted(path):
        return f"data/adopted-{hashlib.sha256(path.encode()).hexdigest()[:16]}.parquet"
    number = paths.segment_number(path)
    return f"data/{'' if number is None else f'{number}-'}{path.rpartition('/')[2]}"
