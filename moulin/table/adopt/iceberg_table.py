"""Iceberg tables: lists the files of the current snapshot, from metadata and manifests."""

# Decisions: docs/decisions/0434, docs/decisions/0480

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

import fastavro
from pyroaring import BitMap64

from moulin.catalog.objects.new_table import NewTable
from moulin.errors import Corrupt, InvalidInput, NotFound, Unsupported
from moulin.formats.position_deletes import deleted_positions
from moulin.model.layout.partition import FIRST_FIELD_ID, parse_spec
from moulin.model.layout.partition_spec import IdentityTransform, PartitionSpec, spec_of
from moulin.model.layout.sort_order import UNSORTED_SORT_ORDER
from moulin.model.schema.documents import schema_of
from moulin.model.schema.values import Schema
from moulin.table.adopt.imported import Imported, Place, Values

METADATA: Final = "metadata"
_NAME = re.compile(r"(?:v([0-9]+)|([0-9]+)-.*)\.metadata\.json")
_HINT = "version-hint.text"
_DELETED = 2  # a status
_POSITIONS = 1  # a content
_PARQUET = "PARQUET"


def newest_metadata(place: Place) -> str | None:
    """The name of the newest metadata in the folder of a table; None when it has none."""
    names = place.names(METADATA)
    if _HINT in names:
        hint = place.get(f"{METADATA}/{_HINT}").decode(errors="replace").strip()
        named = f"v{hint}.metadata.json"
        if named in names:
            return f"{METADATA}/{named}"
    numbers = [(int(m[1] or m[2]), name) for name in names if (m := _NAME.fullmatch(name))]
    return f"{METADATA}/{max(numbers)[1]}" if numbers else None


def read_iceberg(place: Place, partition_by: Iterable[str] | None, name: str | None = None) -> Imported:
    """The current snapshot of the table whose metadata has this name, by default the newest."""
    name = name or newest_metadata(place)
    if name is None:
        raise NotFound(f"{place.uri} has no Iceberg metadata.")
    return _Reading(place, place.document(name)).run(partition_by)


class _Reading:
    def __init__(self, place: Place, metadata: Mapping[str, Any]) -> None:
        self._place, self._metadata = place, metadata
        self._sequences: dict[str, int] = {}  # of data files: older deletes do not concern them
        self._deletes: list[tuple[int, dict[str, Any]]] = []
        if metadata.get("format-version") not in (1, 2, 3):
            raise Unsupported(f"The Iceberg table in {place.uri} has format {metadata.get('format-version')!r}.")

    def run(self, partition_by: Iterable[str] | None) -> Imported:
        try:
            schema, spec = self._schema(), self._spec()
            files = self._files(schema)
            deleted = self._deleted(files)
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            if isinstance(error, InvalidInput | Unsupported | Corrupt | NotFound):
                raise
            raise InvalidInput(f"The Iceberg table in {self._place.uri} cannot be read: {error!r}.") from None
        if partition_by is not None:
            spec, _ = parse_spec(list(partition_by), schema)
        last_partition = max([int(self._metadata.get("last-partition-id") or 0), FIRST_FIELD_ID - 1])
        last_partition = max([last_partition, *(field.field_id for field in spec.fields)])
        last_column = max(int(self._metadata["last-column-id"]), schema.highest_field_id)
        new = NewTable(schema, last_column, spec, last_partition, UNSORTED_SORT_ORDER, None, {})
        return self._place.imported(new, files, deleted)

    def _schema(self) -> Schema:
        m = self._metadata
        current = m.get("current-schema-id")
        found = next((one for one in m.get("schemas") or () if one.get("schema-id") == current), m.get("schema"))
        schema = schema_of(found)  # type: ignore[arg-type] # a document that is none is an error there
        return Schema(*schema.fields, schema_id=0)

    def _spec(self) -> PartitionSpec:
        m = self._metadata
        specs = m.get("partition-specs") or [{"spec-id": 0, "fields": m.get("partition-spec") or []}]
        found = next((one for one in specs if one["spec-id"] == m.get("default-spec-id", 0)), specs[0])
        return PartitionSpec(*spec_of(found).fields, spec_id=0)

    def _files(self, schema: Schema) -> dict[str, Values]:
        current = self._metadata.get("current-snapshot-id")
        snapshots = self._metadata.get("snapshots") or ()
        snapshot = next((one for one in snapshots if one["snapshot-id"] == current), None)
        if snapshot is None:
            return {}
        if "manifest-list" not in snapshot:
            raise Unsupported(f"The Iceberg table in {self._place.uri} has no manifest list: rewrite its manifests.")
        found: dict[str, Values] = {}
        for manifest in self._avro(snapshot["manifest-list"]):
            live = (manifest.get("added_files_count") or 0) + (manifest.get("existing_files_count") or 0)
            if manifest.get("content") == 1:
                if live or manifest.get("added_files_count") is None:
                    self._deletes += self._entries(manifest)
                continue
            self._read_manifest(manifest, schema, found)
        return found

    def _entries(self, manifest: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
        """The live files of a manifest, each with the sequence number from which on it counts."""
        for entry in self._avro(manifest["manifest_path"]):
            if entry["status"] != _DELETED:
                own = entry.get("sequence_number")
                yield int(manifest.get("sequence_number") or 0) if own is None else own, entry["data_file"]

    def _deleted(self, files: Mapping[str, Values]) -> dict[str, BitMap64]:
        """Positions of deleted rows by file. A vector of a file stands in place of all other deletes of it."""
        vectors, others = dict[str, BitMap64](), dict[str, BitMap64]()
        for sequence, record in self._deletes:
            if record.get("content") != _POSITIONS:
                raise self._has_equality_deletes()
            is_vector = record["file_format"].upper() == "PUFFIN"
            for where, positions in deleted_positions(self._place.get(self._relative(record["file_path"])), record):
                path = self._relative(where)
                if path not in files or self._sequences[path] > sequence:
                    continue
                if is_vector and path in vectors:
                    raise Corrupt(f"{where} has two deletion vectors: a data file has at most one.")
                into = vectors if is_vector else others
                into[path] = into.get(path, BitMap64()) | positions
        return {**others, **vectors}

    def _read_manifest(self, manifest: Mapping[str, Any], schema: Schema, found: dict[str, Values]) -> None:
        names = self._identities(int(manifest["partition_spec_id"]), schema)
        for sequence, file in self._entries(manifest):
            if file.get("content"):
                raise Corrupt(f"{manifest['manifest_path']} has a delete file among data files.")
            if file["file_format"].upper() != _PARQUET:
                raise Unsupported(f"{file['file_path']} is {file['file_format']}: only Parquet files are adopted.")
            partition = file.get("partition") or {}
            values = {column: partition.get(name) for name, column in names.items()}
            path = self._relative(file["file_path"])
            self._sequences[path] = sequence
            found[path] = {name: None if value is None else str(value) for name, value in values.items()}

    def _identities(self, spec_id: int, schema: Schema) -> dict[str, str]:
        """The partition fields that are a column as it is, with the names of the columns: files may lack those."""
        specs = self._metadata.get("partition-specs") or ()
        document = next((one for one in specs if one["spec-id"] == spec_id), None)
        fields = () if document is None else spec_of(document).fields
        columns = {field.field_id: field.name for field in schema.fields}
        plain = [f for f in fields if isinstance(f.transform, IdentityTransform) and f.source_id in columns]
        return {field.name: columns[field.source_id] for field in plain}

    def _avro(self, where: str) -> list[Any]:
        data = self._place.get(self._relative(where))
        try:
            return list(fastavro.reader(io.BytesIO(data)))
        except Exception as error:  # noqa: BLE001 - of any kind, for damage may be anywhere
            raise Corrupt(f"{where} is not an Avro file that can be read: {type(error).__name__}.") from None

    def _relative(self, where: str) -> str:
        """The path of a file below the table's folder, wherever that was when the table was written."""
        root = str(self._metadata["location"]).rstrip("/")
        for start in (root, self._place.uri, root.removeprefix("file://"), root.removeprefix("file:")):
            if where.removeprefix("file://").startswith(f"{start.removeprefix('file://')}/"):
                return where.removeprefix("file://")[len(start.removeprefix("file://")) + 1 :]
        raise Unsupported(f"{where} is outside of the folder of its table, {root}: it is not imported.")

    def _has_equality_deletes(self) -> Unsupported:
        return Unsupported(
            f"The Iceberg table in {self._place.uri} has equality deletes, which delete rows by value: rewrite its "
            f"data files first, or load its rows with append."
        )


__all__ = ["METADATA", "newest_metadata", "read_iceberg"]
