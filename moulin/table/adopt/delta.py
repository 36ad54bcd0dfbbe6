"""Delta tables: reads their log without a library. Unknown features are rejected."""

# Decisions: docs/decisions/0434

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import unquote

import pyarrow.parquet as pq
from pyroaring import BitMap64

from moulin.errors import Corrupt, InvalidInput, Unsupported
from moulin.model.schema.type_reader import parse_type
from moulin.model.schema.values import IcebergType, ListType, MapType, NestedField, StructType
from moulin.table.adopt.delta_vectors import read_vector, vector_id
from moulin.table.adopt.imported import Imported, Place, Values
from moulin.table.creation import new_table

LOG: Final = "_delta_log"
_COMMIT = re.compile(r"([0-9]{20})\.json")
_CHECKPOINT = re.compile(r"([0-9]{20})\.checkpoint(?:\.([0-9]{10})\.([0-9]{10}))?\.parquet")
# What a reader has to know, and does.
_KNOWN = frozenset({"deletionVectors", "timestampNtz", "vacuumProtocolCheck", "columnMapping"})
_NAMES: Final[Mapping[str, str]] = {
    "integer": "int",
    "short": "int",
    "byte": "int",
    "timestamp": "timestamptz",
    "timestamp_ntz": "timestamp",
}


def read_delta(place: Place, partition_by: Iterable[str] | None) -> Imported:
    """The newest version of a Delta table."""
    state = _State(place)
    for action in _actions(place):
        state.apply(action)
    columns = state.columns()
    chosen = state.partitions if partition_by is None else list(partition_by)
    files, deleted = state.files()
    return place.imported(new_table(columns, partition_by=chosen), files, deleted)


def _actions(place: Place) -> Iterator[dict[str, Any]]:
    """What the log says, from its newest checkpoint on."""
    names = place.names(LOG)
    commits = {int(m[1]): name for name in names if (m := _COMMIT.fullmatch(name))}
    start, parts = _checkpoint(names)
    for name in parts:
        yield from pq.read_table(io.BytesIO(place.get(f"{LOG}/{name}"))).to_pylist()
    later = sorted(number for number in commits if number > start)
    if later != list(range(start + 1, start + 1 + len(later))) or (start < 0 and not later):
        raise Corrupt(f"The log of the Delta table in {place.uri} has gaps: versions of it are missing.")
    for number in later:
        for line in place.get(f"{LOG}/{commits[number]}").splitlines():
            if line.strip():
                yield _action(line, place)


def _action(line: bytes, place: Place) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise Corrupt(f"The log of the Delta table in {place.uri} has a line that is not a JSON object.")
    return found


def _checkpoint(names: Iterable[str]) -> tuple[int, list[str]]:
    """The version of the newest checkpoint that is whole, and its files; -1 when there is none."""
    found: dict[tuple[int, int], list[str]] = {}
    for name in names:
        if (match := _CHECKPOINT.fullmatch(name)) is not None:
            found.setdefault((int(match[1]), int(match[3] or 1)), []).append(name)
    whole = [(version, parts) for (version, count), parts in found.items() if len(parts) == count]
    return max(whole, default=(-1, []))


class _State:
    """The table after the actions so far."""

    def __init__(self, place: Place) -> None:
        self._place = place
        # The same file may be there with another deletion vector, in any order in one commit: both name an action.
        self._files: dict[tuple[str, str], tuple[Values, Mapping[str, Any] | None]] = {}
        self.partitions: list[str] = []
        self._schema: dict[str, Any] | None = None

    def apply(self, action: Mapping[str, Any]) -> None:
        if (protocol := action.get("protocol")) is not None:
            self._check_protocol(protocol)
        if (metadata := action.get("metaData")) is not None:
            self._take_metadata(metadata)
        if (added := action.get("add")) is not None:
            self._add(added)
        if (removed := action.get("remove")) is not None:
            self._files.pop(self._identity(removed), None)

    def _check_protocol(self, protocol: Mapping[str, Any]) -> None:
        if protocol.get("minReaderVersion", 1) > 3:  # the newest that there is
            raise Unsupported(f"The Delta table in {self._place.uri} needs a newer reader than this release.")
        if unknown := set(protocol.get("readerFeatures") or ()) - _KNOWN:
            raise Unsupported(
                f"The Delta table in {self._place.uri} uses {min(unknown)}, which is not supported: load its rows "
                f"with append or backfill."
            )

    def _take_metadata(self, metadata: Mapping[str, Any]) -> None:
        configuration = dict(metadata.get("configuration") or {})
        if configuration.get("delta.columnMapping.mode", "none") != "none":
            raise Unsupported(
                f"The Delta table in {self._place.uri} uses column mapping, which is not supported: load its rows "
                f"with append."
            )
        self._schema = json.loads(metadata["schemaString"])
        self.partitions = list(metadata.get("partitionColumns") or ())

    def _add(self, added: Mapping[str, Any]) -> None:
        values = dict(added.get("partitionValues") or {})
        self._files[self._identity(added)] = values, added.get("deletionVector")

    def _identity(self, action: Mapping[str, Any]) -> tuple[str, str]:
        vector = action.get("deletionVector")
        return self._path(action), vector_id(vector) if vector else ""

    def files(self) -> tuple[dict[str, Values], dict[str, BitMap64]]:
        """The files of the table, and the positions in them of rows that were deleted."""
        found, deleted = dict[str, Values](), dict[str, BitMap64]()
        for (path, _), (values, vector) in self._files.items():
            if path in found:
                raise Corrupt(f"The log of the Delta table in {self._place.uri} has {path} twice.")
            found[path] = values
            if vector:
                deleted[path] = read_vector(self._place, vector)
        return found, deleted

    def _path(self, action: Mapping[str, Any]) -> str:
        path = unquote(str(action["path"]))
        if "://" in path or path.startswith("/"):
            raise Unsupported(f"{path} of the Delta table in {self._place.uri} is outside of its folder.")
        return path

    def columns(self) -> list[tuple[str, IcebergType, bool]]:
        if self._schema is None:
            raise Corrupt(f"The log of the Delta table in {self._place.uri} has no schema.")
        return [(field["name"], _type(field["type"]), field.get("nullable", True)) for field in self._schema["fields"]]


def _type(given: Any) -> IcebergType:
    """A type of Spark's JSON. The ids inside it are provisional."""
    if isinstance(given, str):
        return parse_type(_NAMES.get(given, given))
    match given.get("type"):
        case "struct":
            fields = given["fields"]
            return StructType(*(NestedField(0, f["name"], _type(f["type"]), not f["nullable"]) for f in fields))
        case "array":
            return ListType(0, _type(given["elementType"]), not given["containsNull"])
        case "map":
            key, value = _type(given["keyType"]), _type(given["valueType"])
            return MapType(0, key, 0, value, not given["valueContainsNull"])
    raise InvalidInput(f"A Delta table has a column of type {str(given)[:100]}, which is unknown.")


__all__ = ["LOG", "read_delta"]
