"""Computes the manifests of a projection from those of the previous one: added, removed and reused entries."""

# Decisions: docs/decisions/0062, docs/decisions/0236

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moulin.catalog.segments.feed import FeedSegment
from moulin.formats.puffin import DeletionVectorBlob, write_puffin
from moulin.iceberg.format.avro import read_avro, read_header
from moulin.iceberg.format.deletes import (
    DeleteFile,
    from_record,
    position_deletes,
    stored_vectors,
    vector_file,
)
from moulin.iceberg.format.json import Json
from moulin.iceberg.format.locations import address, location
from moulin.iceberg.format.manifests import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    EXISTING,
    Entry,
    ManifestFile,
    ManifestWriter,
    live_files,
    segments_of,
)
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.ids import new_id
from moulin.model.layout.bounds import is_wider
from moulin.sized_cache import SizedCache
from moulin.storage import paths
from moulin.table.context import Context

SIZES = (64, 1024)
"""Manifests are put into tiers by their live files: at most 64, at most 1,024, more ..."""

MOST_SMALL = 32
"""... and when a tier but the last has more than this, of one kind and spec, they become one. So there are few, and an
entry is written three times at most while files only come."""


_REMEMBERED = 4096
_schema_ids: SizedCache[str, int] = SizedCache(_REMEMBERED)  # of manifests, by location


@dataclass(slots=True)
class Delta:
    """What differs between two versions: data files by segment number, and the deleted rows of segments."""

    added: list[LiveSegment] = field(default_factory=list)
    removed: dict[int, LiveSegment] = field(default_factory=dict)
    deletes_added: list[LiveSegment] = field(default_factory=list)
    deletes_removed: dict[int, LiveSegment] = field(default_factory=dict)

    @classmethod
    def of(cls, segments: Iterable[FeedSegment]) -> Delta:
        delta = cls()
        for pair in segments:
            if pair.before is None and pair.after is not None:
                delta.added.append(pair.after)
            if pair.before is not None and pair.after is None:
                delta.removed[pair.before.facts.number] = pair.before
            if pair.before is not None and pair.before.vector is not None:
                delta.deletes_removed[pair.before.facts.number] = pair.before
            if pair.after is not None and pair.after.vector is not None:
                delta.deletes_added.append(pair.after)
        return delta

    @classmethod
    def all(cls, segments: Iterable[LiveSegment]) -> Delta:
        return cls.of(FeedSegment(None, segment) for segment in segments)


@dataclass(slots=True)
class Totals:
    """The counts for a snapshot's summary, from its manifests.

    `size` is that of all files, from snapshot to snapshot; `changed` has the partitions of files that came or went.
    """

    size: int = 0
    figures: Counter[str] = field(default_factory=Counter)
    changed: set[tuple[int, tuple[bytes | None, ...]]] = field(default_factory=set)

    def add(self, entries: Iterable[Entry]) -> None:
        """Count entries that came or went. Of what came as EXISTING, from earlier commits, only the size counts."""
        files: Counter[str] = Counter()
        for entry in entries:
            removed, facts = entry.status == DELETED, entry.segment.facts
            size = facts.size if entry.delete is None else entry.delete.length or entry.delete.size
            self.size += -size if removed else size
            if entry.status == EXISTING:
                continue
            self.changed.add((facts.spec_id, facts.partition))
            files["removed-files-size" if removed else "added-files-size"] += size
            if entry.delete is None:
                word = "deleted" if removed else "added"
                files[f"{word}-data-files"] += 1
                files[f"{word}-records"] += entry.rows
            else:
                word = "removed" if removed else "added"
                files[f"{word}-delete-files"] += 1
                files[f"{word}-dvs" if entry.delete.is_vector else f"{word}-position-delete-files"] += 1
                files[f"{word}-position-deletes"] += entry.rows
        self.figures.update(files)

    def forget(self, entries: Iterable[Entry]) -> None:
        """Count entries that went and that no manifest lists."""
        for entry in entries:
            self.size -= entry.segment.facts.size if entry.delete is None else entry.delete.length or entry.delete.size

    def summary(self, manifests: Sequence[ManifestFile]) -> dict[str, str]:
        data = [one for one in manifests if one["content"] == DATA]
        deletes = [one for one in manifests if one["content"] == DELETES]
        totals = {
            **self.figures,
            "changed-partition-count": len(self.changed),
            "total-data-files": sum(live_files(one) for one in data),
            "total-records": sum(one["added_rows_count"] + one["existing_rows_count"] for one in data),
            "total-delete-files": sum(live_files(one) for one in deletes),
            "total-position-deletes": sum(one["added_rows_count"] + one["existing_rows_count"] for one in deletes),
            "total-equality-deletes": 0,
            "total-files-size": self.size,
        }
        return {name: str(value) for name, value in totals.items()}


class Rewriter:
    """Applies a delta to manifests. `dropped` names the delete files of projections that are no longer needed.

    `vectors` gives the extent of each segment's deletion vector, where that is not the one in the lake.
    """

    def __init__(
        self,
        context: Context,
        state: TableState,
        writer: ManifestWriter,
        folder: str,
        totals: Totals,
        vectors: Mapping[int, DeleteFile] | None = None,
    ) -> None:
        self.context, self.state, self.writer, self.folder, self.totals = context, state, writer, folder, totals
        self.vectors = vectors
        self._widest = frozenset(wider_schemas(state))
        self.dropped: list[str] = []

    def apply(self, old: Sequence[ManifestFile], delta: Delta) -> list[ManifestFile]:
        kept, rewritten = list[ManifestFile](), list[ManifestFile]()
        for manifest in old:
            gone = delta.removed if manifest["content"] == DATA else delta.deletes_removed
            written = self._without(manifest, gone) if self._may_hold(manifest, gone) else manifest
            if written is manifest and self._is_too_wide(manifest):
                written = self._renewed(manifest)
            if written is not None:
                (kept if written is manifest else rewritten).append(written)
        new = self.writer.data(delta.added)
        mine = self.writer.commit.sequence
        self.totals.add(Entry(ADDED if one.sequence == mine else EXISTING, one) for one in delta.added)
        deletes = [Entry(ADDED, one, file) for one, file in self._delete_files(delta.deletes_added)]
        self.totals.add(deletes)
        found = [*self._joined(kept), *rewritten, *new, *self.writer.deletes(deletes)]
        return sorted(found, key=_reading_order)

    def _may_hold(self, manifest: ManifestFile, numbers: Mapping[int, LiveSegment]) -> bool:
        span = paths.parse_iceberg_manifest(manifest["manifest_path"])
        return span is None or any(span[0] <= number <= span[1] for number in numbers)

    def _without(self, manifest: ManifestFile, gone: Mapping[int, LiveSegment]) -> ManifestFile | None:
        """The manifest with what is gone marked as deleted; itself, if it holds none of that.

        None when nothing is left of files that are partitioned by a dropped column. Some engines read no manifest of
        such files, so that only without it a compaction of everything makes the table readable for them.
        """
        data = self._read(manifest)
        numbers = segments_of(data, manifest["manifest_path"])
        lost = [number for number in numbers if number in gone]
        if not lost:
            return manifest
        entries = self._entries(manifest, data, numbers, gone)
        removed = [entry for entry in entries if entry.status == DELETED]
        self.dropped += [
            name
            for entry in removed
            if entry.delete is not None
            and paths.parse_projection_path(f"{self.folder}/{(name := entry.delete.location.rpartition('/')[2])}")
        ]
        if len(removed) == len(entries) and manifest["partition_spec_id"] in self.state.lost_specs:
            self.totals.forget(removed)
            return None
        self.totals.add(removed)
        return self.writer.manifest(entries)

    def _is_too_wide(self, manifest: ManifestFile) -> bool:
        """Whether a manifest was written when columns were wider than they are since a restore.

        Bounds and partition values are of the types of that time. Narrow ones can be read as wide ones, but not so the
        other way round.
        """
        if not self._widest:
            return False
        number = _schema_ids.find(manifest["manifest_path"])
        if number is None:
            number = int(read_header(self._read(manifest), manifest["manifest_path"])["schema-id"])
            _schema_ids.keep(manifest["manifest_path"], number)
        return number in self._widest

    def _renewed(self, manifest: ManifestFile) -> ManifestFile:
        """The live entries of a manifest, written again for the schema of now."""
        data = self._read(manifest)
        return self.writer.manifest(self._entries(manifest, data, segments_of(data, manifest["manifest_path"]), {}))

    def _entries(
        self, manifest: ManifestFile, data: bytes, numbers: Sequence[int], gone: Mapping[int, LiveSegment]
    ) -> list[Entry]:
        """The live entries of a manifest as they go into another: EXISTING, or DELETED when they are `gone`."""
        stay = [number for number in numbers if number not in gone]
        segments = {**self.context.catalog.segments_by_number(self.state.id, stay, self.state.head_version), **gone}
        status = {number: DELETED if number in gone else EXISTING for number in numbers}
        if manifest["content"] == DATA:
            return [Entry(status[number], segments[number]) for number in numbers]
        records, _ = read_avro(data, manifest["manifest_path"], partitions=False)
        return [
            Entry(
                status[number],
                segments[number],
                from_record(record["data_file"]),
                _or(record["sequence_number"], manifest["sequence_number"]),
                _or(record["snapshot_id"], manifest["added_snapshot_id"]),
            )
            for number, record in zip(numbers, records, strict=False)
        ]

    def _joined(self, manifests: Sequence[ManifestFile]) -> list[ManifestFile]:
        """Many small manifests of one kind, spec and tier as few larger ones."""
        groups: dict[tuple[int, int, int], list[ManifestFile]] = {}
        for manifest in manifests:
            tier = bisect_left(SIZES, live_files(manifest))
            if tier < len(SIZES):
                groups.setdefault((tier, manifest["content"], manifest["partition_spec_id"]), []).append(manifest)
        result = list(manifests)
        for (_, content, _), group in groups.items():
            if len(group) <= MOST_SMALL:
                continue
            entries: list[Entry] = []
            for manifest in group:
                data = self._read(manifest)
                entries += self._entries(manifest, data, segments_of(data, manifest["manifest_path"]), {})
            joined = self.writer.deletes(entries) if content == DELETES else self.writer.existing(entries)
            gone = {id(one) for one in group}
            result = [*(one for one in result if id(one) not in gone), *joined]
        return result

    def _read(self, manifest: ManifestFile) -> bytes:
        return self.context.store.get(f"{self.folder}/{manifest['manifest_path'].rpartition('/')[2]}")

    def _delete_files(self, segments: Sequence[LiveSegment]) -> Iterable[tuple[LiveSegment, DeleteFile]]:
        """The deleted rows of each segment: its vector as it is stored, or written as a position-delete file.

        A vector that names its segment where the lake was before is written again.
        """
        if self.vectors is not None:
            yield from ((segment, self.vectors[segment.facts.number]) for segment in segments)
            return
        store = self.context.store
        stored = stored_vectors(store, segments) if self.writer.format_version >= 3 else {}
        for segment in segments:
            vector = segment.vector
            assert vector is not None
            target = address(self.writer.locate, segment.facts)
            if self.writer.format_version >= 3 and stored[vector.path].data_files.get(vector.offset) == target:
                yield segment, vector_file(vector, location(store, vector.path), stored[vector.path].size, target)
                continue
            positions = self.context.vectors.get(store, vector, segment.facts.rows)
            if self.writer.format_version >= 3:
                data, (extent,) = write_puffin([DeletionVectorBlob(target, positions)])
                where = self.writer.write(paths.projected_vector_name(new_id()), data)
                yield (
                    segment,
                    DeleteFile(where, len(data), extent.cardinality, target, extent.offset, extent.length),
                )
                continue
            data = position_deletes(target, positions, segment.facts.rows)
            where = self.writer.write(paths.position_deletes_name(new_id()), data)
            first, last = int(positions.min()), int(positions.max())
            yield segment, DeleteFile(where, len(data), vector.cardinality, target, first=first, last=last)


def wider_schemas(state: TableState) -> Iterator[int]:
    """The schemas of a table in which a column is wider than it is now: a restore went back behind them."""
    types = {number: state.schema.find_type(number) for number in state.schema.field_ids}
    for schema_id, schema in state.schemas.items():
        common = types.keys() & set(schema.field_ids)
        if any(is_wider(schema.find_type(number), types[number]) for number in common):
            yield schema_id


def _reading_order(manifest: ManifestFile) -> tuple[int, int]:
    """By spec, as the vectors of one commit lie in their file; data files stay where they are, before the deletes."""
    return manifest["content"], 0 if manifest["content"] == DATA else manifest["partition_spec_id"]


def _or(value: Any, otherwise: Any) -> Any:
    return otherwise if value is None else value


__all__ = ["Delta", "Json", "Rewriter", "Totals"]
