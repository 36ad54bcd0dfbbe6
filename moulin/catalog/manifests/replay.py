"""Rebuilds the catalog rows of one table by replaying its manifests.

Deltas form a chain: each contains the id of the snapshot before it. A chain starts with the delta that created the
table or, if clean-up removed that, with a full manifest.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, NamedTuple
from uuid import UUID

import sqlalchemy as sa

from moulin.catalog.commit import indexes, regions
from moulin.catalog.expiry import forget
from moulin.catalog.objects import base_paths, tables
from moulin.catalog.objects.births import packed_steps, read_births
from moulin.catalog.objects.history import packed_rows
from moulin.catalog.old_versions import forget_commits
from moulin.catalog.segments.bases import Level, in_level
from moulin.catalog.segments.column_sets import file_row, set_rows
from moulin.catalog.segments.live import time_class
from moulin.catalog.segments.sql_rows import (
    input_rows,
    journal_rows,
    partition_ids,
    segment_row,
    select_spans,
    span_row,
    vector_row,
)
from moulin.catalog.sql import schema as s
from moulin.errors import Corrupt
from moulin.formats import manifest as codec
from moulin.formats import messages as pb

_FLUSH = 4096  # rows held back before they are inserted

# The tables that replay inserts into, in the order of their references.
_FILLED = (
    s.table_schemas,
    s.table_specs,
    s.table_sort_orders,
    s.table_commits,
    s.partitions,
    s.segments,
    s.deletion_vectors,
    s.column_files,
    s.column_sets,
    s.segment_spans,
    s.span_masks,
    s.merge_inputs,
    s.journals,
    s.regions,
    s.indexes,
    s.index_files,
    s.index_coverage,
)


class Span(NamedTuple):
    """The open span of a segment."""

    vector_id: int
    added_version: int
    carried: tuple[int, ...]  # as `CARRIED` names it
    rows: int
    size: int
    inline: bool
    deleted: int


class TableReplay:
    """Applies the manifests of one table: `begin` with a full one or none, `extend` by deltas, `finish`."""

    def __init__(self, connection: sa.Connection, table_id: UUID) -> None:
        self._connection = connection
        self._table_id = table_id
        self.highest_vector = 0
        self.highest_segment = 0
        self._start_anew()

    def _start_anew(self) -> None:
        self.base: int | None = None  # the first version of the chain
        self.head = 0
        self.segments = 0
        self._snapshot_id: int | None = None
        self._state: pb.TableState | None = None
        self._open: dict[int, Span] = {}
        # Of ended spans' segments, which may be reopened.
        self._facts: dict[int, tuple[int, int, bool]] = {}
        self._carried: dict[int, tuple[int, ...]] = {}
        self._vectors: dict[int, int] = {}  # id -> cardinality
        self._column_sets: set[int] = set()
        self._column_files: set[str] = set()
        self._partitions: dict[tuple[int, tuple[bytes | None, ...]], int] = {}
        self._rows: dict[str, list[dict[str, Any]]] = {table.name: [] for table in _FILLED}
        self._time_classes = 0
        self._regions: dict[int, pb.Region] = {}
        self._masks: set[int] = set()

    def begin(self, manifest: pb.Manifest) -> None:
        """Start with a full manifest, or restart with it after a gap."""
        self._forget()
        self._set_head(manifest)
        self._number_partitions(manifest)
        self._add_masks(manifest)
        for ref in manifest.data_files:
            self._add_segment(ref)
            self._add_vector(ref, ref.dv_version)
            self._add_columns(ref, ref.since_version)
            self._open_span(ref.number, ref.dv_id, ref.columns_id, ref.since_version)
        self._add_past(manifest)

    def extend(self, manifest: pb.Manifest) -> bool:
        """Apply the next delta; False if it does not follow the previous one."""
        previous = manifest.previous_snapshot_id if manifest.HasField("previous_snapshot_id") else None
        if previous != self._snapshot_id:
            return False
        version = manifest.version
        self._set_head(manifest)
        self._number_partitions(manifest)
        self._add_masks(manifest)
        for ref in manifest.data_files:
            if ref.status == codec.DELETED:
                self._close_span(ref.number, version)
            elif ref.status == codec.ADDED or ref.added_version:
                if self._is_of_base(ref, manifest.table):
                    self._mask(ref.number, version)
                self._add_segment(ref)
                self._add_vector(ref, version)
                self._add_columns(ref, version)
                self._open_span(ref.number, ref.dv_id, ref.columns_id, version)
            else:
                self._add_vector(ref, version)
                self._add_columns(ref, version)
                self._close_span(ref.number, version)
                self._open_span(ref.number, ref.dv_id, ref.columns_id, version)
        self._add_past(manifest)
        for row in input_rows(self._table_id, version, manifest.merge_inputs):
            self._insert(s.merge_inputs, row)
        for row in journal_rows(self._table_id, version, manifest.journals):
            self._insert(s.journals, row)
        return True

    def _is_of_base(self, ref: pb.DataFileRef, state: pb.TableState) -> bool:
        """Whether the base had the segment when this table began: one of its own, or one that a publish brought it."""
        if not ref.owner or not state.base_id or ref.owner == state.base_id:
            return bool(state.base_id) and ref.owner == state.base_id
        p, at = s.segment_spans, state.base_version
        mine = sa.and_(p.c.table_id == UUID(bytes=state.base_id), p.c.segment == ref.number)
        query = sa.select(p.c.segment).where(mine, p.c.added_version <= at, p.c.removed_version > at)
        return self._connection.execute(query).first() is not None

    def _add_past(self, manifest: pb.Manifest) -> None:
        """The versions of older sequence numbers and row ids, from full manifests, and the first manifest of a
        clone.
        """
        past = ((number, first) for number, first in manifest.sequence_versions.items() if first != manifest.version)
        for row in (*packed_rows(self._table_id, sorted(past)), *packed_steps(self._table_id, read_births(manifest))):
            self._insert(s.table_commits, row)
        mine = (ref.path for ref in manifest.data_files if ref.columns.HasField("adopted"))
        files = {*manifest.adopted_files, *map(base_paths.file_digest, mine)}
        base_paths.remember(self._connection, self._table_id, files)

    def _set_head(self, manifest: pb.Manifest) -> None:
        if self.base is None:
            self.base = manifest.version
        self.head, self._snapshot_id, self._state = manifest.version, manifest.snapshot_id, manifest.table
        for name, source in tables.SETTINGS.items():
            for setting in getattr(manifest.table, name):
                self._insert(source, {source.c[1].name: setting.id, "json": setting.json})
        for commit in manifest.commits:
            self._insert(s.table_commits, _commit_row(commit))
        self._regions.update({region.number: region for region in manifest.regions})
        indexes.replay(self._connection, self._table_id, manifest)

    def _number_partitions(self, manifest: pb.Manifest) -> None:
        wanted = {_partition(ref) for ref in manifest.data_files if ref.added_version} - self._partitions.keys()
        if wanted:
            self._partitions.update(partition_ids(self._connection, self._table_id, wanted))

    def _add_segment(self, ref: pb.DataFileRef) -> None:
        partition_id = self._partitions[_partition(ref)]
        row = segment_row(self._owner(ref), ref, partition_id)
        k = time_class(row["time_min"], row["time_max"])
        times = row["time_min"] or 0, row["time_max"] or 0
        joined = ref.first_row_id, ref.sequence, ref.added_version
        self._carried[ref.number] = (partition_id, k, *times, *joined)
        self._time_classes |= 1 << k if k >= 0 else 0
        known = self._may_be_shared(ref) and self._is_known(s.segments.c.number, ref.number)
        if known and ref.adopted:
            self._adopt(s.segments, s.segments.c.number, ref.number, partition_id=partition_id)
        if ref.number in self._facts:
            return
        if not known:
            self._insert(s.segments, row)
        self._facts[ref.number] = (ref.num_rows, ref.file_size, row["inline"])
        self.highest_segment = max(self.highest_segment, ref.number)
        self.segments += 1

    def _owner(self, ref: pb.DataFileRef) -> UUID:
        """The table that a segment belongs to; if its first owner is purged, the table that uses it."""
        if not ref.owner or ref.adopted:
            return self._table_id
        owner = UUID(bytes=ref.owner)
        return owner if self._is_known(s.tables.c.id, owner) else self._table_id

    def _add_vector(self, ref: pb.DataFileRef, version: int) -> None:
        vector = codec.ref_to_vector(ref)
        if vector is None:
            return
        known = self._may_be_shared(ref) and self._is_known(s.deletion_vectors.c.id, vector.id)
        if known and ref.dv_adopted:
            self._adopt(s.deletion_vectors, s.deletion_vectors.c.id, vector.id)
        if vector.id not in self._vectors:
            self._vectors[vector.id] = vector.cardinality
            if not known:
                self._insert(s.deletion_vectors, vector_row(self._table_id, vector, version))
            self.highest_vector = max(self.highest_vector, vector.id)

    def _may_be_shared(self, ref: pb.DataFileRef) -> bool:
        """Whether a segment or its vector may come from another table: the source of a clone, or a published branch.

        Only clones are published, so only their segments move to another table.
        """
        is_clone = self._state is not None and bool(self._state.base_id)
        return bool(ref.owner) or ref.adopted or ref.dv_adopted or is_clone

    def _adopt(self, table: sa.Table, key: sa.Column[int], number: int, **values: int) -> None:
        """Take over the row of a segment or vector of a branch."""
        self._connection.execute(table.update().where(key == number).values(table_id=self._table_id, **values))

    def _add_columns(self, ref: pb.DataFileRef, version: int) -> None:
        """The column files of a reference, and their set; a reference with only a set was described earlier."""
        if not ref.columns_id or ref.columns_id in self._column_sets:
            return
        self._column_sets.add(ref.columns_id)
        self.highest_vector = max(self.highest_vector, ref.columns_id)  # they are numbered together
        files = [codec.decode_file(file) for file in ref.column_files]
        if not files:
            if not self._is_known(s.column_sets.c.id, ref.columns_id):
                raise self.damaged(f"the column files of segment {ref.number} were never described")
            return
        for file in files:
            if file.path not in self._column_files and not self._is_known(s.column_files.c.path, file.path):
                self._insert(s.column_files, file_row(self._table_id, file, version))
            self._column_files.add(file.path)
        if not self._is_known(s.column_sets.c.id, ref.columns_id):
            for row in set_rows(self._table_id, ref.columns_id, files):
                self._insert(s.column_sets, row)

    def _is_known(self, column: sa.Column[Any], number: int | str | UUID) -> bool:
        """Whether the original owner inserted the row; it may no longer use it."""
        return self._connection.execute(sa.select(column).where(column == number)).first() is not None

    def _add_masks(self, manifest: pb.Manifest) -> None:
        for mask in manifest.masks:
            self._mask(mask.segment, mask.added_version)

    def _mask(self, number: int, version: int) -> None:
        """Mask a segment of the base in the table."""
        if number not in self._masks:
            self._masks.add(number)
            self._insert(s.span_masks, {"segment": number, "added_version": version})

    def _open_span(self, number: int, vector_id: int, columns_id: int, version: int) -> None:
        if number in self._open or number not in self._carried:
            raise self.damaged(f"segment {number} is added twice, or was never described")
        carried, facts = (*self._carried[number], columns_id), self._facts[number]
        self._open[number] = Span(vector_id, version, carried, *facts, self._vectors.get(vector_id, 0))

    def _close_span(self, number: int, version: int) -> None:
        span = self._open.pop(number, None)
        if span is not None:
            self._insert_span(number, span, version)
        elif self._state is not None and self._state.base_id and number not in self._masks:
            self._mask(number, version)
        else:
            raise self.damaged(f"segment {number} is removed and was not there")

    def _insert_span(self, number: int, span: Span, removed_version: int) -> None:
        row = span_row(self._table_id, number, span.vector_id, span.added_version, span.carried, removed_version)
        self._insert(s.segment_spans, row)

    def _insert(self, table: sa.Table, row: dict[str, Any]) -> None:
        rows = self._rows[table.name]
        rows.append({"table_id": self._table_id, **row})
        if len(rows) >= _FLUSH:
            self._flush()

    def _flush(self) -> None:
        for table in _FILLED:
            if rows := self._rows[table.name]:
                self._connection.execute(table.insert(), rows)
                rows.clear()

    def _forget(self) -> None:
        if self.base is not None:
            for table in reversed(_FILLED):
                self._connection.execute(table.delete().where(table.c.table_id == self._table_id))
        self._start_anew()

    def finish(self, entry: pb.TableEntry, deltas: int) -> None:
        """Insert the remaining rows, and update the table's row."""
        oldest = entry.oldest_version
        if self._state is None or self.base is None or self.head < entry.head_version:
            raise self.damaged("manifests of it are missing")
        if self.base > max(entry.created_version, oldest):
            raise self.damaged(f"manifests of it from before version {self.base} are missing")
        state = self._state
        for number, span in self._open.items():
            self._insert_span(number, span, s.OPEN)
        self._insert_regions()
        self._flush()
        oldest = max(oldest, state.oldest_version, self.base)
        if oldest > self.base:  # clean-up had removed these, and their files may be deleted
            forget(self._connection, self._table_id, oldest)
            forget_commits(self._connection, self._table_id, oldest)
        self._connection.execute(
            s.tables.update()
            .where(s.tables.c.id == self._table_id)
            .values(
                head_version=self.head,
                oldest_version=oldest,
                schema_id=state.schema_id,
                spec_id=state.spec_id,
                sort_order_id=state.sort_order_id,
                event_time=state.event_time if state.HasField("event_time") else None,
                last_column_id=state.last_column_id,
                last_partition_id=state.last_partition_id,
                last_sequence=state.last_sequence,
                next_row_id=state.next_row_id,
                properties=json.loads(state.properties_json),
                base_id=UUID(bytes=state.base_id) if state.base_id else None,
                base_version=state.base_version or None,
                **self._sums(state),
                time_classes=self._time_classes,
                deltas=deltas,
            )
        )

    def _insert_regions(self) -> None:
        for row in regions.recovered(self._table_id, self._regions.values()):
            self._insert(s.regions, row)

    def _sums(self, state: pb.TableState) -> dict[str, int]:
        """The sums of the open spans, including those of the base."""
        spans = self._open.values()
        rows = sum(span.rows - span.deleted for span in spans)
        sums = {"segments": len(spans), "rows": rows, "bytes": sum(span.size for span in spans)}
        sums["inline"] = sum(span.inline for span in spans)
        if state.base_id:
            base = Level(UUID(bytes=state.base_id), state.base_version, self._table_id, s.OPEN)
            sums = {name: amount + more for (name, amount), more in zip(sums.items(), self._based(base), strict=True)}
        return sums

    def _based(self, base: Level, numbers: Sequence[int] | None = None) -> tuple[int, int, int, int]:
        """Segments, rows, bytes and inline segments of a level, all or those of `numbers`; notes their time classes."""
        query = select_spans().where(*in_level(s.segment_spans, base))
        query = query if numbers is None else query.where(s.segment_spans.c.segment.in_(numbers))
        rows = self._connection.execute(query).all()
        for row in rows:
            self._time_classes |= 1 << row.time_class if row.time_class >= 0 else 0
        live = sum(row.rows - row.deleted for row in rows)
        return len(rows), live, sum(row.size for row in rows), sum(bool(row.inline) for row in rows)

    def damaged(self, what: str) -> Corrupt:
        return Corrupt(
            f"Table {self._table_id} cannot be recovered: {what} (version {self.head}). Restore the manifests in "
            "its folder from a copy, and recover again."
        )


def _partition(ref: pb.DataFileRef) -> tuple[int, tuple[bytes | None, ...]]:
    return ref.spec_id, tuple(value.value if value.HasField("value") else None for value in ref.partition)


def _commit_row(commit: pb.Commit) -> dict[str, Any]:
    return {
        "version": commit.version,
        "ordinal": commit.ordinal,
        "timestamp_ns": commit.timestamp_ns,
        "kind": commit.kind,
        "schema_id": commit.schema_id,
        "spec_id": commit.spec_id,
        "sort_order_id": commit.sort_order_id,
        "sequence": commit.sequence,
        "snapshot_id": commit.snapshot_id,
        "first_row_id": commit.first_row_id,
        "added_rows": commit.added_rows,
        "properties": json.loads(commit.properties_json) if commit.HasField("properties_json") else None,
        "summary": json.loads(commit.summary_json),
    }
