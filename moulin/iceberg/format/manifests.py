"""Manifests and manifest lists from the facts of segments. What they must hold: docs/formats/iceberg.md."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from moulin._proto.moulin.format.v1 import manifest_pb2 as pb
from moulin.catalog.objects.projections import DataCommit
from moulin.errors import InvalidInput, Unsupported
from moulin.formats import manifest as codec
from moulin.iceberg.format.adopted import require_readable
from moulin.iceberg.format.avro import manifest_list_schema, manifest_schema, read_header, write_avro
from moulin.iceberg.format.data_entries import DataEntryEncoder, avro_file
from moulin.iceberg.format.deletes import DeleteFile, delete_file_record
from moulin.iceberg.format.json import Json
from moulin.iceberg.format.locations import address
from moulin.iceberg.format.metadata import schema_json
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.ids import new_id
from moulin.model.layout.bounds import bound_from_bytes, bound_to_bytes, is_wider
from moulin.model.layout.partition_spec import PartitionField, PartitionSpec
from moulin.model.schema.documents import to_text
from moulin.model.schema.values import (
    DoubleType,
    FloatType,
    IcebergType,
    IntegerType,
    LongType,
    PrimitiveType,
    TimestampNanoType,
    TimestamptzNanoType,
)
from moulin.storage import paths

EXISTING, ADDED, DELETED = 0, 1, 2
DATA, DELETES = 0, 1
MANIFEST_ENTRIES = 2048
"""Maximum number of entries of a manifest, which bounds the cost of removing a file."""

SEGMENTS_KEY = "moulin.segments"
"""Header key of a manifest: the segments of its live entries, which come first, in their order, as a JSON list."""

_WIDE_BYTES = 8
ManifestFile = Json
Write = Callable[[str, bytes], str]


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a manifest. `delete` means that it is for the segment's deleted rows.

    A data file takes its numbers from the segment. Delete files bring theirs: None means those of the snapshot.
    """

    status: int
    segment: LiveSegment
    delete: DeleteFile | None = None
    sequence: int | None = None
    snapshot_id: int | None = None

    @property
    def rows(self) -> int:
        return self.segment.facts.rows if self.delete is None else self.delete.count


@dataclass(slots=True)
class ManifestWriter:
    """Writes the manifests of one snapshot of a table.

    `write` writes a file with that name next to the metadata and returns its location; `locate` returns the location of
    a segment's file; `find_snapshots` the snapshot ids of earlier sequence numbers; `find_columns` the encoded column
    facts of segments by number, of which `Entry.segment` need not have any.
    """

    state: TableState
    format_version: int
    commit: DataCommit
    find_snapshots: Callable[[Iterable[int]], Mapping[int, int]]
    find_columns: Callable[[Sequence[int]], Mapping[int, bytes]]
    locate: Callable[[str], str]
    write: Write
    _partitions: dict[tuple[int, tuple[bytes | None, ...]], dict[str, Any]] = field(default_factory=dict)
    _snapshots: dict[int, int] = field(default_factory=dict)
    _encoders: dict[int, tuple[Json, DataEntryEncoder]] = field(default_factory=dict)

    def data(self, segments: Iterable[LiveSegment]) -> list[ManifestFile]:
        """Manifests of data files that are new to the line: those of this commit as ADDED, older ones as EXISTING."""
        made: list[ManifestFile] = []
        mine: list[Entry] = []
        older: dict[int, list[Entry]] = {}  # by spec
        for segment in segments:
            if segment.sequence == self.commit.sequence:
                mine.append(Entry(ADDED, segment))
                continue
            group = older.setdefault(segment.facts.spec_id, [])
            group.append(Entry(EXISTING, segment))
            if len(group) == MANIFEST_ENTRIES:
                made.append(self.manifest(older.pop(segment.facts.spec_id)))
        made += [self.manifest(group) for group in older.values()]
        mine.sort(key=lambda entry: entry.segment.first_row_id)
        stretches = (stretch for group in _by_spec(mine) for stretch in _contiguous(group))
        return [*(self.manifest(block) for stretch in stretches for block in _blocks(stretch)), *made]

    def existing(self, entries: Iterable[Entry]) -> list[ManifestFile]:
        """Manifests of files that earlier ones held."""
        return [self.manifest(block) for group in _by_spec(entries) for block in _blocks(group)]

    def deletes(self, entries: Iterable[Entry]) -> list[ManifestFile]:
        """Manifests of delete files, in storage order."""
        ordered = sorted(entries, key=_where_stored)
        return [self.manifest(block) for group in _by_spec(ordered) for block in _blocks(group)]

    def manifest(self, entries: Sequence[Entry]) -> ManifestFile:
        """One manifest of entries that share a spec and a kind; live ones come first in it."""
        entries = sorted(entries, key=lambda entry: entry.status == DELETED)
        first = entries[0]
        spec = self.state.specs[first.segment.facts.spec_id]
        content = DATA if first.delete is None else DELETES
        live = [entry.segment.facts.number for entry in entries if entry.status != DELETED]
        numbers = live or [entry.segment.facts.number for entry in entries]
        header = {
            "schema": to_text(schema_json(self.state.schema, self.format_version)),
            "schema-id": str(self.state.schema_id),
            "partition-spec": json.dumps([_spec_field(field) for field in spec.fields]),
            "partition-spec-id": str(spec.spec_id),
            "format-version": str(self.format_version),
            "content": "data" if content == DATA else "deletes",
            SEGMENTS_KEY: json.dumps(live, separators=(",", ":")),
        }
        schema, encoder = self._encoder(spec)
        if content == DATA:
            data = avro_file(schema, self._encoded(entries, encoder), header)
        else:
            data = write_avro(schema, [self._delete_record(entry) for entry in entries], header)
        location = self.write(paths.iceberg_manifest_name(new_id(), min(numbers), max(numbers)), data)
        return self._list_entry(location, len(data), spec, content, entries)

    def _encoder(self, spec: PartitionSpec) -> tuple[Json, DataEntryEncoder]:
        if spec.spec_id not in self._encoders:
            schema = manifest_schema(self.partition_fields(spec), self.format_version)
            partition = schema["fields"][-1]["type"]["fields"][3]["type"]
            encoder = DataEntryEncoder(self.state.schema, partition, self.format_version)
            self._encoders[spec.spec_id] = schema, encoder
        return self._encoders[spec.spec_id]

    def _list_entry(
        self, location: str, size: int, spec: PartitionSpec, content: int, entries: Sequence[Entry]
    ) -> ManifestFile:
        live = [self._sequence(entry) for entry in entries if entry.status != DELETED]
        counts = {status: [entry.rows for entry in entries if entry.status == status] for status in (0, 1, 2)}
        made: ManifestFile = {
            "manifest_path": location,
            "manifest_length": size,
            "partition_spec_id": spec.spec_id,
            "content": content,
            "sequence_number": self.commit.sequence,
            "min_sequence_number": min(
                (self.commit.sequence if sequence is None else sequence for sequence in live),
                default=self.commit.sequence,
            ),
            "added_snapshot_id": self.commit.snapshot_id,
            "added_files_count": len(counts[ADDED]),
            "existing_files_count": len(counts[EXISTING]),
            "deleted_files_count": len(counts[DELETED]),
            "added_rows_count": sum(counts[ADDED]),
            "existing_rows_count": sum(counts[EXISTING]),
            "deleted_rows_count": sum(counts[DELETED]),
            "partitions": self._summaries(spec, entries),
            "key_metadata": None,
        }
        if self.format_version >= 3:
            starts = [entry.segment.first_row_id for entry in entries]
            made["first_row_id"] = min(starts) if content == DATA else None
        return made

    def _sequence(self, entry: Entry) -> int | None:
        """The sequence number of an entry; None when it is the snapshot's own."""
        if entry.status == ADDED:
            return None
        return entry.segment.sequence if entry.delete is None else entry.sequence

    def _encoded(self, entries: Sequence[Entry], encoder: DataEntryEncoder) -> list[bytes]:
        """Entries of data files."""
        if unknown := {e.segment.sequence for e in entries if e.status == EXISTING} - self._snapshots.keys():
            self._snapshots.update(self.find_snapshots(unknown))
        stored = self.find_columns([entry.segment.facts.number for entry in entries])
        mine, snapshots = self.commit.snapshot_id, self._snapshots
        encoded = []
        for entry in entries:
            segment, facts = entry.segment, entry.segment.facts
            if facts.adopted is not None and entry.status != DELETED:
                require_readable(self.state, facts, facts.adopted)
            found = stored.get(facts.number)
            if found is None:  # cleaned up: its facts are in the change that removed it
                columns = codec.encode_columns(facts.columns, facts.split_offsets)
            else:
                columns = pb.SegmentColumns.FromString(found)
            encoded.append(
                encoder.encode(
                    entry.status,
                    snapshots.get(segment.sequence, mine) if entry.status == EXISTING else mine,
                    self._sequence(entry),
                    address(self.locate, facts),
                    self._partition(segment),
                    facts,
                    columns,
                    None if entry.status == ADDED else segment.first_row_id,
                )
            )
        return encoded

    def _delete_record(self, entry: Entry) -> Json:
        assert entry.delete is not None
        sequence, mine = self._sequence(entry), self.commit.snapshot_id
        return {
            "status": entry.status,
            "snapshot_id": entry.snapshot_id or mine if entry.status == EXISTING else mine,
            "sequence_number": sequence,
            "file_sequence_number": sequence,
            "data_file": delete_file_record(entry.delete, self._partition(entry.segment)),
        }

    def partition_fields(self, spec: PartitionSpec) -> list[tuple[int, str, IcebergType]]:
        """Id, name and type of each field of a partition tuple."""
        return [(field.field_id, field.name, self._partition_type(field)) for field in spec.fields]

    def _partition_type(self, field: PartitionField) -> IcebergType:
        kind = field.transform.result_type(source_type(self.state, field.source_id))
        # Before format version 3 the column can only be one of earlier schemas; engines do not know the type.
        old = self.format_version < 3 and isinstance(kind, TimestampNanoType | TimestamptzNanoType)
        return LongType() if old else kind

    def _partition(self, segment: LiveSegment) -> dict[str, Any]:
        key = segment.facts.spec_id, segment.facts.partition
        if key not in self._partitions:
            fields = self.partition_fields(self.state.specs[key[0]])
            schema, _ = self._encoder(self.state.specs[key[0]])
            names = [f["name"] for f in schema["fields"][-1]["type"]["fields"][3]["type"]["fields"]]
            self._partitions[key] = {
                name: None if value is None else _value(kind, value)
                for name, (_, _, kind), value in zip(names, fields, key[1], strict=True)
            }
        return self._partitions[key]

    def _summaries(self, spec: PartitionSpec, entries: Sequence[Entry]) -> list[Json]:
        """For each partition field, the range of its values over all entries, deleted ones too."""
        tuples = list({id(p): p for p in (self._partition(entry.segment) for entry in entries)}.values())
        summaries = []
        for index, (_, _, kind) in enumerate(self.partition_fields(spec)):
            values = [list(values.values())[index] for values in tuples]
            known = [value for value in values if value is not None and not _is_nan(value)]
            assert isinstance(kind, PrimitiveType)
            summaries.append(
                {
                    "contains_null": any(value is None for value in values),
                    "contains_nan": any(_is_nan(value) for value in values),
                    "lower_bound": bound_to_bytes(kind, min(known)) if known else None,
                    "upper_bound": bound_to_bytes(kind, max(known)) if known else None,
                }
            )
        return summaries


def write_manifest_list(
    manifests: Sequence[ManifestFile], commit: DataCommit, format_version: int, write: Write
) -> tuple[str, int]:
    """The manifest list of a snapshot; returns its location and size."""
    metadata = {
        "snapshot-id": str(commit.snapshot_id),
        "parent-snapshot-id": str(commit.parent_snapshot_id) if commit.parent_snapshot_id else "null",
        "sequence-number": str(commit.sequence),
        "format-version": str(format_version),
    }
    if format_version >= 3:
        metadata["first-row-id"] = str(commit.first_row_id)
    data = write_avro(manifest_list_schema(format_version), manifests, metadata)
    return write(paths.manifest_list_name(commit.snapshot_id, new_id()), data), len(data)


def segments_of(data: bytes, source: str) -> list[int]:
    """The numbers of the segments of a manifest's live entries, in their order."""
    text = read_header(data, source).get(SEGMENTS_KEY)
    if text is None:
        raise Unsupported(f"{source} was not written by Moulin: it does not say which segments it holds.")
    return [int(number) for number in json.loads(text)]


def is_live(manifest: ManifestFile) -> bool:
    return bool(manifest["added_files_count"] + manifest["existing_files_count"])


def live_files(manifest: ManifestFile) -> int:
    return int(manifest["added_files_count"] + manifest["existing_files_count"])


def source_type(state: TableState, field_id: int) -> IcebergType:
    """The type of a partition source: of the current schema, or of the newest that still had the column."""
    schemas = [state.schema, *(state.schemas[number] for number in sorted(state.schemas, reverse=True))]
    for schema in schemas:
        try:
            return schema.find_type(field_id)
        except ValueError:
            continue
    raise Unsupported(f"No schema of {state.full_name} has the partition source with field id {field_id}.")


def _value(kind: IcebergType, data: bytes) -> Any:
    """A partition value. One of a file that a restore removed may be too wide for the column of now: then None."""
    assert isinstance(kind, PrimitiveType)
    wide = LongType() if isinstance(kind, IntegerType) else DoubleType() if isinstance(kind, FloatType) else kind
    if not (is_wider(wide, kind) and len(data) == _WIDE_BYTES):
        return bound_from_bytes(kind, data)
    value = bound_from_bytes(wide, data)
    try:
        return value if _is_nan(value) else bound_from_bytes(kind, bound_to_bytes(kind, value))
    except InvalidInput:
        return None


def _is_nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _spec_field(given: Any) -> Json:
    return {
        "name": given.name,
        "transform": str(given.transform),
        "source-id": given.source_id,
        "field-id": given.field_id,
    }


def _where_stored(entry: Entry) -> tuple[str, int]:
    """DuckDB 1.5.5 takes one vector of a Puffin file for another when it reads them out of their order in the file."""
    assert entry.delete is not None
    return entry.delete.location, entry.delete.offset or 0


def _by_spec(entries: Iterable[Entry]) -> list[list[Entry]]:
    groups: dict[int, list[Entry]] = {}
    for entry in entries:
        groups.setdefault(entry.segment.facts.spec_id, []).append(entry)
    return [groups[spec_id] for spec_id in sorted(groups)]


def _contiguous(entries: list[Entry]) -> list[list[Entry]]:
    """Runs with consecutive row ids, as a reader assigns them from the first id of the manifest."""
    cuts = [0]
    for index, (one, next_one) in enumerate(pairwise(entries), start=1):
        if one.segment.first_row_id + one.segment.facts.rows != next_one.segment.first_row_id:
            cuts.append(index)
    return [entries[start:end] for start, end in pairwise([*cuts, len(entries)])]


def _blocks(entries: list[Entry]) -> list[list[Entry]]:
    return [entries[start : start + MANIFEST_ENTRIES] for start in range(0, len(entries), MANIFEST_ENTRIES)]
