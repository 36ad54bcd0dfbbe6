"""A check of any Iceberg table against the specification: metadata, manifest list, manifests, data and delete files.

It reads the current snapshot, or all in the metadata. Every finding has the rule, the address and what was found there;
no findings mean that all checked rules hold.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from moulin.errors import Corrupt, MoulinError
from moulin.iceberg.check import metadata as check_metadata
from moulin.iceberg.check.files import check_data_file, check_delete_file
from moulin.iceberg.check.metadata import Finding
from moulin.iceberg.check.metadata_files import Files, find_metadata
from moulin.iceberg.format.avro import read_avro
from moulin.iceberg.format.json import Json
from moulin.iceberg.format.manifests import ADDED, DATA, DELETED, DELETES, EXISTING

_HEADER = ("schema", "partition-spec", "partition-spec-id", "format-version", "content")


@dataclass(frozen=True, slots=True)
class LiveFile:
    """A live entry of a manifest, with all inherited values."""

    location: str
    record: Json
    sequence: int
    spec_id: int
    first_row_id: int | None


@dataclass(slots=True)
class _Live:
    data: dict[str, LiveFile] = field(default_factory=dict)
    deletes: list[LiveFile] = field(default_factory=list)
    # status, spec and file of added and removed entries
    changed: list[tuple[int, int, Json]] = field(default_factory=list)


def check(where: str, files: Files | None = None, *, data: bool = True, every_snapshot: bool = False) -> list[Finding]:
    """Check the table whose metadata, or folder, is `where`. Without `data`, data and delete files are not read."""
    files = files or Files()
    return list(_Checker(files, data).run(find_metadata(where), every_snapshot))


class _Checker:
    def __init__(self, files: Files, data: bool) -> None:
        self.files, self.with_data = files, data
        self.seen: set[str] = set()
        self.metadata: Json = {}
        self.format = 0

    def run(self, where: str, every_snapshot: bool) -> Iterator[Finding]:
        try:
            document = json.loads(self.files.read(where))
        except (MoulinError, ValueError) as error:
            yield Finding("metadata is readable", where, str(error))
            return
        if not isinstance(document, dict):
            yield Finding("metadata is readable", where, "it is no JSON object")
            return
        version, snapshots = document.get("format-version"), document.get("snapshots") or []
        if not isinstance(version, int) or not all(isinstance(one, dict) for one in snapshots):
            found = "format-version is not a number, or snapshots are not objects"
            yield Finding("fields are present and of their type", where, found)
            return
        self.metadata, self.format = document, version
        problems = list(check_metadata.check(document, where))
        yield from problems
        current = document.get("current-snapshot-id")
        for snapshot in snapshots:
            if every_snapshot or snapshot.get("snapshot-id") == current:
                try:
                    yield from self._snapshot(snapshot)
                except (KeyError, TypeError, ValueError) as error:
                    name = f"snapshot {snapshot.get('snapshot-id')}"
                    yield Finding("fields are present and of their type", name, f"{type(error).__name__}: {error}")

    def _snapshot(self, snapshot: Json) -> Iterator[Finding]:
        where = snapshot.get("manifest-list")
        if where is None:
            yield Finding("a snapshot has a manifest list", f"snapshot {snapshot.get('snapshot-id')}", "none")
            return
        try:
            manifests, _ = read_avro(self.files.read(where), where)
        except MoulinError as error:
            yield Finding("a manifest list is readable", where, error.message)
            return
        live = _Live()
        for manifest in manifests:
            yield from self._manifest(manifest, snapshot, live)
        yield from self._totals(snapshot, live, where)
        yield from self._lineage(snapshot, live)
        yield from self._scope(live)
        if self.with_data:
            current = snapshot.get("snapshot-id") == self.metadata.get("current-snapshot-id")
            schema_id = None if current else snapshot.get("schema-id")
            for file in live.data.values():
                key = f"{file.location} in schema {schema_id}"
                if key not in self.seen:
                    self.seen.add(key)
                    yield from check_data_file(self.files, self.metadata, file.record, schema_id)
            for file in live.deletes:
                key = f"{file.location}@{file.record.get('content_offset')}"
                if key not in self.seen:
                    self.seen.add(key)
                    rows = {name: one.record["record_count"] for name, one in live.data.items()}
                    yield from check_delete_file(self.files, file.record, rows)

    def _manifest(self, manifest: Json, snapshot: Json, live: _Live) -> Iterator[Finding]:
        where, sequence = manifest["manifest_path"], int(snapshot.get("sequence-number") or 0)
        try:
            raw = self.files.read(where)
            entries, header = read_avro(raw, where)
        except Corrupt as error:
            yield Finding("a manifest is readable", where, error.message)
            return
        except MoulinError as error:
            yield Finding("a manifest exists", where, error.message)
            return
        content = manifest.get("content", DATA)
        yield from self._header(manifest, header, where, len(raw), content)
        if manifest.get("sequence_number", 0) > sequence:
            yield Finding("a manifest is not newer than its snapshot", where, f"{manifest['sequence_number']}")
        if content == DELETES and manifest.get("first_row_id") is not None:
            yield Finding("a delete manifest has no first row id", where, str(manifest["first_row_id"]))
        if content == DATA and self.format >= 3 and "first_row_id" not in manifest:
            yield Finding("a data manifest has a first row id", where, "the field is missing")
        counts, rows = {EXISTING: 0, ADDED: 0, DELETED: 0}, {EXISTING: 0, ADDED: 0, DELETED: 0}
        least: int | None = None
        next_row = manifest.get("first_row_id")
        for index, entry in enumerate(entries):
            name = f"{where} entry {index}"
            record, status = entry["data_file"], entry["status"]
            if status not in counts:
                yield Finding("an entry's status is 0, 1 or 2", name, str(status))
                continue
            counts[status] += 1
            rows[status] += record["record_count"]
            own = entry.get("sequence_number")
            if own is None and status != ADDED:
                yield Finding("only added entries inherit a sequence number", name, "it is null")
            own = manifest.get("sequence_number", 0) if own is None else own
            if own > sequence:
                yield Finding("an entry is not newer than its snapshot", name, f"{own}, the snapshot has {sequence}")
            if (record.get("content", 0) == 0) != (content == DATA):
                yield Finding("data and delete files are not mixed", name, f"content {record.get('content')}")
            since = entry.get("snapshot_id")
            if status != EXISTING and snapshot.get("snapshot-id") in (since, since or manifest["added_snapshot_id"]):
                live.changed.append((status, manifest["partition_spec_id"], record))
            if status == DELETED:
                continue
            least = own if least is None else min(least, own)
            first = record.get("first_row_id")
            if first is None and next_row is not None and content == DATA:
                first, next_row = next_row, next_row + record["record_count"]
            file = LiveFile(record["file_path"], record, own, manifest["partition_spec_id"], first)
            if content == DELETES:
                live.deletes.append(file)
            elif file.location in live.data:
                yield Finding("a data file is live once", name, file.location)
            else:
                live.data[file.location] = file
        for status, word in ((ADDED, "added"), (EXISTING, "existing"), (DELETED, "deleted")):
            for figure, found in ((f"{word}_files_count", counts[status]), (f"{word}_rows_count", rows[status])):
                if manifest.get(figure) is not None and manifest[figure] != found:
                    yield Finding("the list counts a manifest right", where, f"{figure} {manifest[figure]} not {found}")
        if least is not None and manifest.get("min_sequence_number", 0) > least:
            yield Finding("min_sequence_number is the least", where, f"{manifest['min_sequence_number']} > {least}")
        yield from self._summaries(manifest, [entry["data_file"] for entry in entries], where)

    def _header(self, manifest: Json, header: dict[str, str], where: str, size: int, content: int) -> Iterator[Finding]:
        if size != manifest["manifest_length"]:
            yield Finding("manifest_length is the file's", where, f"{manifest['manifest_length']}, it has {size} bytes")
        for key in _HEADER:
            if key not in header and not (self.format < 2 and key in ("format-version", "content")):
                yield Finding("a manifest's header has its key-values", where, f"{key} is missing")
        if header.get("partition-spec-id", str(manifest["partition_spec_id"])) != str(manifest["partition_spec_id"]):
            yield Finding("a manifest has one spec", where, f"{header['partition-spec-id']} in its header")
        specs = {spec["spec-id"] for spec in self.metadata.get("partition-specs", [])}
        if manifest["partition_spec_id"] not in specs:
            yield Finding("a manifest's spec is known", where, f"spec {manifest['partition_spec_id']}")
        if header.get("content", "data") != ("data" if content == DATA else "deletes"):
            yield Finding("header and list agree on the content", where, header.get("content", ""))
        yield from check_metadata.avro_ids(header.get("avro.schema", "{}"), where)

    def _summaries(self, manifest: Json, records: list[Json], where: str) -> Iterator[Finding]:
        summaries = manifest.get("partitions") or []
        tuples = [list(record["partition"].values()) for record in records]
        for index, summary in enumerate(summaries):
            values = [values[index] for values in tuples if index < len(values)]
            if any(value is None for value in values) and not summary["contains_null"]:
                yield Finding("a partition summary covers its values", where, f"field {index}: null is not announced")
            if any(value is not None and value == value for value in values) and summary["lower_bound"] is None:
                yield Finding("a partition summary covers its values", where, f"field {index}: there are no bounds")

    def _totals(self, snapshot: Json, live: _Live, where: str) -> Iterator[Finding]:
        summary = snapshot.get("summary") or {}
        if self.format >= 2 and summary.get("operation") not in ("append", "replace", "overwrite", "delete"):
            yield Finding("a snapshot has an operation", where, str(summary.get("operation")))
        positions = [one for one in live.deletes if one.record["content"] == 1]
        equalities = [one for one in live.deletes if one.record["content"] == 2]
        for key, found in (
            ("total-data-files", len(live.data)),
            ("total-records", sum(one.record["record_count"] for one in live.data.values())),
            ("total-delete-files", len(live.deletes)),
            ("total-position-deletes", sum(one.record["record_count"] for one in positions)),
            ("total-equality-deletes", sum(one.record["record_count"] for one in equalities)),
            ("total-files-size", sum(_size(one.record) for one in (*live.data.values(), *live.deletes))),
            *_changes(live),
        ):
            if key in summary and summary[key] != str(found):
                yield Finding("a summary's totals are those of its files", where, f"{key} {summary[key]}, not {found}")

    def _lineage(self, snapshot: Json, live: _Live) -> Iterator[Finding]:
        if self.format < 3:
            return
        limit = self.metadata.get("next-row-id") or 0
        ranges: list[tuple[int, int, str]] = []
        for file in live.data.values():
            if file.first_row_id is None:
                if snapshot.get("first-row-id") is not None:
                    yield Finding("every data file has a first row id", file.location, "none, nor one to inherit")
                continue
            ranges.append((file.first_row_id, file.first_row_id + file.record["record_count"], file.location))
        ranges.sort()
        end = 0
        for first, last, name in ranges:
            if first < end:
                yield Finding("row id ranges do not overlap", name, f"[{first}, {last}) starts before {end}")
            if last > limit:
                yield Finding("row ids are below next-row-id", name, f"[{first}, {last}), next-row-id is {limit}")
            end = max(end, last)

    def _scope(self, live: _Live) -> Iterator[Finding]:
        """Checks that each delete file applies to its data files."""
        vectors: dict[str, str] = {}
        for file in live.deletes:
            record, target = file.record, file.record.get("referenced_data_file")
            is_vector = str(record["file_format"]).upper() == "PUFFIN"
            if is_vector and self.format < 3:
                yield Finding("deletion vectors exist from version 3 on", file.location, f"version {self.format}")
            if is_vector and (target is None or record.get("content_offset") is None):
                yield Finding("a deletion vector names its file and extent", file.location, "a field is null")
                continue
            if record["content"] == 2 and not record.get("equality_ids"):
                yield Finding("an equality delete has its ids", file.location, "equality_ids is empty")
            if target is None:
                continue
            if target not in live.data:
                yield Finding("a delete file is about a live data file", file.location, str(target))
                continue
            data = live.data[target]
            if is_vector and target in vectors:
                yield Finding("a data file has one deletion vector", target, f"{vectors[target]} and {file.location}")
            vectors[target] = file.location
            if file.sequence < data.sequence:
                yield Finding("a delete applies to older data", file.location, f"{file.sequence} < {data.sequence}")
            if file.spec_id != data.spec_id or repr(record["partition"]) != repr(data.record["partition"]):
                yield Finding("a delete lies in its data's partition", file.location, str(record["partition"]))


def _changes(live: _Live) -> Iterator[tuple[str, int]]:
    """Checks the counts in a snapshot's summary."""
    for status, data, other in ((ADDED, "added", "added"), (DELETED, "deleted", "removed")):
        files = [record for one, _, record in live.changed if one == status]
        rows = [record for record in files if record.get("content", 0) == 0]
        positions = [record for record in files if record.get("content", 0) == 1]
        yield f"{data}-data-files", len(rows)
        yield f"{data}-records", sum(record["record_count"] for record in rows)
        yield f"{other}-delete-files", len(files) - len(rows)
        yield f"{other}-position-deletes", sum(record["record_count"] for record in positions)
        yield f"{other}-files-size", sum(map(_size, files))
    partitions = {(spec, repr(record["partition"])) for _, spec, record in live.changed}
    if all(record["partition"] for _, _, record in live.changed):  # writers differ on what is not partitioned
        yield "changed-partition-count", len(partitions)


def _size(record: Json) -> int:
    """The bytes of a file that are the table's: of a Puffin file with several vectors, those of one."""
    return int(record.get("content_size_in_bytes") or record["file_size_in_bytes"])


def as_rows(findings: list[Finding]) -> list[dict[str, Any]]:
    return [{"rule": one.rule, "where": one.where, "found": one.found} for one in findings]
