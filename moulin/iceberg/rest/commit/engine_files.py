"""Files that an engine wrote for a snapshot: found below the table's folder, read, checked."""

# Decisions: docs/decisions/0065, docs/decisions/0112

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

import pyarrow as pa
from pyroaring import BitMap64

from moulin.errors import Corrupt, InvalidInput, NotFound, Unsupported
from moulin.formats import position_deletes
from moulin.iceberg.format.avro import read_avro
from moulin.iceberg.format.json import Json
from moulin.iceberg.format.locations import location, table_location
from moulin.iceberg.format.manifests import ADDED, DELETED, source_type
from moulin.iceberg.rest.commit.locations import base_roots, below, spellings
from moulin.model.entities import TableState
from moulin.model.layout.bounds import bound_to_bytes
from moulin.model.layout.partition import PartitionTuple, format_partition
from moulin.model.layout.partition_rows import split_by_partition
from moulin.model.schema.values import PrimitiveType, Schema
from moulin.storage import paths
from moulin.storage.store import Store
from moulin.storage.table_store import Lost
from moulin.table.context import Context

_COUNTS = {1: ("added_files_count", "added_rows_count"), 0: ("existing_files_count", "existing_rows_count")}


class Folder:
    """The files of one table by their locations. Nothing outside of the table's folder is read."""

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._table = store, folder + "/"
        root = location(store, "x").removesuffix("x")
        self._roots = spellings(root)
        self.location = location(store, self._table.rstrip("/"))

    def path(self, where: object) -> str:
        """The path in the store for a location; rejected if it is not below the table's."""
        if isinstance(where, str):
            for root in self._roots:
                if where.startswith(root + self._table):
                    return paths.checked(where.removeprefix(root))
        raise InvalidInput(f"{where!r} does not lie below the table's location, {self.location}.")

    def data_path(self, where: object) -> str:
        """The path behind the location of a data file."""
        return self.path(where)

    def read(self, where: object) -> bytes:
        path = self.path(where)
        try:
            return self._store.get(path)
        except (NotFound, Lost):
            raise InvalidInput(f"{where} is not there: write files before the commit that names them.") from None

    def size(self, where: object) -> int:
        try:
            return self._store.head(self.path(where)).size
        except NotFound:
            raise InvalidInput(f"{where} is not there: write files before the commit that names them.") from None

    def etag(self, where: object) -> str:
        """The ETag of a file; empty if the store has none."""
        try:
            return self._store.head(self.path(where)).etag or ""
        except NotFound:
            raise InvalidInput(f"{where} is not there: write files before the commit that names them.") from None

    def avro(self, where: object) -> tuple[list[Json], dict[str, str]]:
        try:
            return read_avro(self.read(where), str(where))
        except Corrupt as error:
            raise InvalidInput(error.message) from None


class TableFolder(Folder):
    """The folder of a table of the lake, and those of its segments that lie elsewhere: engines put deletes beside them.

    A clone has segments of its base, and a table that took over what a branch made has segments of the branch's.
    """

    def __init__(self, context: Context, state: TableState) -> None:
        super().__init__(context.store, paths.table_prefix(state.id))
        self._context, self._state = context, state
        self._bases: list[tuple[str, UUID]] | None = None
        self.location = table_location(context.store, state)

    def path(self, where: object) -> str:
        if isinstance(where, str) and not any(where.startswith(root + self._table) for root in self._roots):
            if (based := self.based(where)) is not None:
                return based
            for root in self._roots:
                if where.startswith(root):
                    path = paths.checked(where.removeprefix(root))
                    if self._is_beside(path):
                        return path
        return super().path(where)

    def based(self, where: str) -> str | None:
        """The path behind a location below a base path; None when it lies below none."""
        if self._bases is None:
            self._bases = base_roots(self._context)
        return below(self._bases, where)

    def _is_beside(self, path: str) -> bool:
        """Whether a file lies in the folder of a live segment of the table."""
        number = paths.segment_number(path)
        if number is None:
            return False
        catalog, state = self._context.catalog, self._state
        found = catalog.segments_by_number(state.id, [number], state.version).get(number)
        return found is not None and found.facts.path.rpartition("/")[0] == path.rpartition("/")[0]

    def data_path(self, where: object) -> str:
        """The same; a segment may be one of the table's base. REQUIRES: the caller checks that it is the table's."""
        if isinstance(where, str):
            for root in self._roots:
                path = where.removeprefix(root)
                if where.startswith(root) and paths.parse_segment_path(path) is not None:
                    return paths.checked(path)
        return self.path(where)


def check_statistics(folder: Folder, files: Iterable[Json | None]) -> None:
    """Reject statistics whose file is missing, not below the table's folder, or of a different size."""
    for one in files:
        if one is not None and folder.size(one["statistics-path"]) != one["file-size-in-bytes"]:
            raise InvalidInput(f"{one['statistics-path']} does not have {one['file-size-in-bytes']} bytes.")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A live data file of a manifest."""

    record: Json
    status: int
    spec_id: int
    names: Sequence[tuple[int, str]]

    @property
    def location(self) -> str:
        return str(self.record["file_path"])


@dataclass(slots=True)
class Entries:
    """The live files of some manifests: data files and equality deletes by location, others by location and offset."""

    data: dict[str, DataFile] = field(default_factory=dict)
    deletes: dict[tuple[str, int | None], Json] = field(default_factory=dict)
    equality: dict[str, DataFile] = field(default_factory=dict)


def read_manifests(folder: Folder, manifests: Sequence[Json]) -> Entries:
    """The live files of manifests; rejected if a manifest list differs from them."""
    found = Entries()
    added: list[int] = []
    compared: list[int] = []
    for manifest in manifests:
        where = manifest["manifest_path"]
        records, header = folder.avro(where)
        _check_counts(manifest, records)
        names, spec_id = _partition_names(header), int(manifest["partition_spec_id"])
        for record in records:
            if record["status"] == DELETED:
                continue
            file = record["data_file"]
            if file.get("key_metadata") is not None:
                raise Unsupported(f"{file['file_path']} is encrypted: this catalog keeps no keys to read it with.")
            content = file.get("content") or 0
            if content == 2:
                found.equality[file["file_path"]] = DataFile(file, record["status"], spec_id, names)
                compared.append(manifest.get("sequence_number") or 0)
            elif content == 1:
                found.deletes[file["file_path"], file.get("content_offset")] = file
            elif file["file_path"] in found.data:
                raise InvalidInput(f"{file['file_path']} is in the snapshot twice.")
            else:
                found.data[file["file_path"]] = DataFile(file, record["status"], spec_id, names)
                added += [manifest.get("sequence_number") or 0] if record["status"] == ADDED else []
    if compared and added and min(added) < max(compared):
        raise Unsupported("A commit has an equality delete for rows that an earlier snapshot of it adds: commit each.")
    return found


def _check_counts(manifest: Json, records: Sequence[Json]) -> None:
    for status, (files, rows) in _COUNTS.items():
        mine = [record["data_file"]["record_count"] for record in records if record["status"] == status]
        for name, count in ((files, len(mine)), (rows, sum(mine))):
            said = manifest.get(name)
            if said is not None and said != count:
                raise InvalidInput(f"{manifest['manifest_path']} has {name} {count}; its manifest list says {said}.")


def _partition_names(header: dict[str, str]) -> list[tuple[int, str]]:
    """Id and name of each field of a manifest's partition tuples."""
    try:
        schema = json.loads(header["avro.schema"])
        data_file = next(one for one in schema["fields"] if one.get("field-id") == 2 or one["name"] == "data_file")
        record = next(one for one in data_file["type"]["fields"] if one["name"] == "partition")["type"]
        return [(int(one["field-id"]), one["name"]) for one in record["fields"]]
    except (LookupError, TypeError, ValueError, StopIteration) as error:
        raise InvalidInput(f"A manifest's partition tuples cannot be read ({type(error).__name__}).") from None


def partition_of(state: TableState, file: DataFile) -> PartitionTuple:
    """The partition tuple of a data file, as bytes."""
    spec = state.specs.get(file.spec_id)
    if spec is None:
        raise InvalidInput(f"{file.location} is of partition spec {file.spec_id}, which the table does not have.")
    names = dict(file.names)
    values: list[bytes | None] = []
    for one in spec.fields:
        if one.field_id not in names:
            raise InvalidInput(f"{file.location} has no value for partition field {one.name!r}.")
        value: Any = file.record["partition"].get(names[one.field_id])
        kind = one.transform.result_type(source_type(state, one.source_id))
        assert isinstance(kind, PrimitiveType)
        values.append(None if value is None else bound_to_bytes(kind, value))
    return tuple(values)


def checked_partition(state: TableState, file: DataFile, rows: pa.Table, schema: Schema) -> PartitionTuple:
    """The partition tuple of a data file, which is that of each of its rows; what says otherwise is refused.

    Scans leave out files by their tuples: one that lies would hide rows.
    """
    given = partition_of(state, file)
    spec = state.specs[file.spec_id]
    if not {one.source_id for one in spec.fields} <= set(schema.field_ids):
        raise InvalidInput(f"{file.location} is of partition spec {file.spec_id}, whose columns were dropped.")
    found = [values for values, _ in split_by_partition(rows, spec, schema)]
    if any(values != given for values in found):
        other = format_partition(spec, schema, next(values for values in found if values != given))
        raise InvalidInput(
            f"{file.location} has rows of partition {other}; its manifest says {format_partition(spec, schema, given)}."
        )
    return given


def deleted_positions(folder: Folder, record: Json) -> Iterator[tuple[str, BitMap64]]:
    """Locations of data files, and the rows of them that one delete file names."""
    return position_deletes.deleted_positions(folder.read(record["file_path"]), record)


__all__ = [
    "ADDED",
    "DataFile",
    "Entries",
    "Folder",
    "TableFolder",
    "check_statistics",
    "checked_partition",
    "deleted_positions",
    "read_manifests",
]
