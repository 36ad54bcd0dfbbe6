"""Formats the files of a plan: data files with statistics, and their deletes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from moulin.iceberg.format.avro import read_avro
from moulin.iceberg.format.deletes import DeleteFile, from_record, stored_vectors, vector_file
from moulin.iceberg.format.json import Json
from moulin.iceberg.format.locations import address, locator
from moulin.iceberg.format.manifests import DELETES, is_live, source_type
from moulin.iceberg.projection.projection import Projection
from moulin.iceberg.rest.scan.residual import Residuals
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.facts import ColumnFacts, LiveSegment
from moulin.model.schema.single_value import from_bytes, to_json
from moulin.model.schema.values import PrimitiveType, Schema
from moulin.storage import paths
from moulin.storage.segment_source import put_files

_COUNTS: Final = (("column-sizes", "size"), ("value-counts", "values"), ("null-value-counts", "nulls"))


def scan_tasks(
    lake: Lake,
    state: TableState,
    segments: Sequence[LiveSegment],
    found: Projection | None,
    residuals: Residuals | None = None,
    stats: AbstractSet[int] = frozenset(),
) -> Json:
    """File scan tasks, and the delete files that they refer to. `stats` are the columns whose statistics are told."""
    put_files(lake.store, [segment.facts for segment in segments])
    locate = locator(lake.store)
    deletes: list[Json] = []
    tasks: list[Json] = []
    by_file = {} if found is None else dict(_delete_files(lake, found, segments))
    for segment in segments:
        where = address(locate, segment.facts)
        shared = {"spec-id": segment.facts.spec_id, "partition": _partition(state, segment)}
        told = _statistics(state.schema, segment, stats) if stats else {}
        task: Json = {"data-file": {**shared, **_data_file(segment, where), **told}}
        if (delete := by_file.get(where)) is not None:
            task["delete-file-references"] = [len(deletes)]
            deletes.append({**shared, **_delete_file(delete)})
        if residuals is not None:
            task["residual-filter"] = residuals.of(segment)
        tasks.append(task)
    return {"file-scan-tasks": tasks, "delete-files": deletes}


def _statistics(schema: Schema, segment: LiveSegment, stats: AbstractSet[int]) -> Json:
    """Counts and bounds of some columns. As in manifests, a column that may hold NaN has no bounds."""
    chosen = [one for one in segment.facts.columns if one.field_id in stats]
    made: Json = {name: _map({one.field_id: getattr(one, key) for one in chosen}) for name, key in _COUNTS}
    made["nan-value-counts"] = _map({one.field_id: one.nans for one in chosen if one.nans is not None})
    for name, side in (("lower-bounds", "lower"), ("upper-bounds", "upper")):
        bounds = {one.field_id: _bound(schema, one, getattr(one, side)) for one in chosen}
        made[name] = _map({field_id: bound for field_id, bound in bounds.items() if bound is not None})
    return made


def _bound(schema: Schema, facts: ColumnFacts, data: bytes | None) -> Any:
    kind = schema.find_type(facts.field_id)
    if data is None or facts.nans or not isinstance(kind, PrimitiveType):
        return None
    try:
        return _finite(to_json(kind, from_bytes(kind, data)))
    except (ValueError, TypeError):  # of a type that the column had before
        return None


def _map(values: dict[int, Any]) -> Json:
    return {"keys": list(values), "values": list(values.values())}


def _data_file(segment: LiveSegment, where: str) -> Json:
    facts = segment.facts
    return {
        "content": "data",
        "file-path": where,
        "file-format": "parquet",
        "file-size-in-bytes": facts.size,
        "record-count": facts.rows,
        "sort-order-id": facts.sort_order_id,
        "first-row-id": segment.first_row_id,
    }


def _delete_file(delete: DeleteFile) -> Json:
    made: Json = {
        "content": "position-deletes",
        "file-path": delete.location,
        "file-format": "puffin" if delete.is_vector else "parquet",
        "file-size-in-bytes": delete.size,
        "record-count": delete.count,
        "referenced-data-file": delete.data_file,
    }
    if delete.is_vector:
        made |= {"content-offset": delete.offset, "content-size-in-bytes": delete.length}
    return made


def _partition(state: TableState, segment: LiveSegment) -> list[Any]:
    values = []
    for one, value in zip(state.specs[segment.facts.spec_id].fields, segment.facts.partition, strict=True):
        kind = one.transform.result_type(source_type(state, one.source_id))
        assert isinstance(kind, PrimitiveType)
        values.append(None if value is None else _finite(to_json(kind, from_bytes(kind, value))))
    return values


def _finite(value: Any) -> Any:
    """A value that JSON can hold: NaN and the infinities as text, as Iceberg's Java library spells them."""
    if not isinstance(value, float) or math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _delete_files(lake: Lake, found: Projection, segments: Sequence[LiveSegment]) -> Iterator[tuple[str, DeleteFile]]:
    """The deleted rows of segments by location: stored vectors, or the files that a projection made of them."""
    locate = locator(lake.store)
    worn = {address(locate, one.facts): one for one in segments if one.vector is not None}
    if found.format_version >= 3:
        stored = stored_vectors(lake.store, worn.values())
        for where, one in list(worn.items()):
            assert one.vector is not None
            if stored[one.vector.path].data_files.get(one.vector.offset) == where:
                del worn[where]
                yield where, vector_file(one.vector, locate(one.vector.path), stored[one.vector.path].size, where)
    if not worn:
        return
    snapshot = next(one for one in found.metadata["snapshots"] if one["snapshot-id"] == found.snapshot_id)
    for manifest in _read(lake, found, snapshot["manifest-list"]):
        if manifest["content"] == DELETES and is_live(manifest):
            for entry in _read(lake, found, manifest["manifest_path"]):
                if entry["status"] != 2 and entry["data_file"]["referenced_data_file"] in worn:
                    yield entry["data_file"]["referenced_data_file"], from_record(entry["data_file"])


def _read(lake: Lake, found: Projection, where: str) -> list[Json]:
    path = f"{paths.metadata_prefix(found.table_id)}/{where.rpartition('/')[2]}"
    return read_avro(lake.store.get(path), path, partitions=False)[0]


__all__ = ["scan_tasks"]
