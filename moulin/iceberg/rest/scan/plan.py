"""Scan planning: which files of a table a scan has to read, found by the catalog with a filter, without manifests.

A plan is complete when it is answered. One of many files names the rest in tasks that carry all that is needed to
fetch them, so that no server keeps anything: the version, and numbers of segments.

A scan between two snapshots is one of what was appended after the first, up to the second. See docs/decisions/0160.
"""

from __future__ import annotations

import base64
import binascii
import json
import math
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from moulin.catalog.segments import feed
from moulin.errors import InvalidInput, MoulinError, NotFound
from moulin.iceberg.format import metadata as documents
from moulin.iceberg.format.avro import read_avro
from moulin.iceberg.format.deletes import DeleteFile, from_record, stored_vectors, vector_file
from moulin.iceberg.format.json import Json
from moulin.iceberg.format.locations import address, locator
from moulin.iceberg.format.manifests import DELETES, is_live, source_type
from moulin.iceberg.projection.projection import Projection, project
from moulin.iceberg.rest import tables
from moulin.iceberg.rest.errors import RestError
from moulin.iceberg.rest.requests import Body, LakeOf, field, words
from moulin.iceberg.rest.scan.filter import read_filter
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.predicate import Predicate
from moulin.model.schema.single_value import from_bytes, to_json
from moulin.model.schema.values import PrimitiveType
from moulin.storage import paths
from moulin.storage.segment_source import put_files
from moulin.table.read.scan import facts_by_field, plan_segments

router = APIRouter()
FILES = 1000
"""Files that an answer lists at most."""

_LARGEST = 4 << 20  # bytes of what a task unpacks to


@router.post("/namespaces/{namespace}/tables/{table}/plan")
def plan_scan(lake: LakeOf, namespace: str, table: str, body: Body) -> Response:
    state = tables.flushed(lake, namespace, table)
    start, end = (field(body, f"{side}-snapshot-id", int, None) for side in ("start", "end"))
    wanted = field(body, "snapshot-id", int, None)
    between = start is not None or end is not None
    if between and (start is None or end is None or wanted is not None):
        raise InvalidInput(
            "A scan names one snapshot with snapshot-id, or two with start-snapshot-id and end-snapshot-id."
        )
    chosen, found = _snapshot(lake, state, end if between else wanted)
    if field(body, "use-snapshot-schema", bool, False):
        chosen = replace(chosen, schema_id=lake.catalog.table_by_id(state.id, chosen.version).schema_id)
    _check_columns(chosen, words(body, "select"))
    residual = body.get("filter")
    predicate = read_filter(residual, chosen.schema)
    if between:
        since, _ = _snapshot(lake, state, start)
        segments, found = _appended(lake, since.version, chosen, predicate), None
    else:
        segments = [] if found is None else plan_segments(lake.catalog, chosen, predicate)
    rest = [segments[start : start + FILES] for start in range(FILES, len(segments), FILES)]
    answer = _tasks(lake, chosen, segments[:FILES], residual, found)
    tasks = [_Task(chosen.version, tuple(s.facts.number for s in block), residual, between) for block in rest]
    return JSONResponse({"status": "completed", "plan-tasks": [task.pack(chosen) for task in tasks], **answer})


@router.post("/namespaces/{namespace}/tables/{table}/tasks")
def fetch_tasks(lake: LakeOf, namespace: str, table: str, body: Body) -> Response:
    state = tables.find(lake, namespace, table)
    task = _Task.unpack(state, field(body, "plan-task", str))
    try:
        if task.appended:
            as_added = lake.own_catalog().maintenance.segments_with_vectors(state.id, dict.fromkeys(task.numbers, 0))
            live, found = {one.facts.number: one for one in as_added}, None
        else:
            live = lake.catalog.segments_by_number(state.id, task.numbers, task.version)
            found = project(lake.context, state.id, task.version)
    except NotFound as error:
        raise _no_such_task(error.message) from error
    segments = [live[number] for number in task.numbers if number in live]
    if len(segments) != len(task.numbers):
        raise _no_such_task("The task names files that are no longer there: plan the scan again.")
    chosen = replace(state, version=task.version)
    return JSONResponse({"plan-tasks": [], **_tasks(lake, chosen, segments, task.residual, found)})


def _appended(lake: Lake, since: int, state: TableState, predicate: Predicate) -> list[LiveSegment]:
    """Files that appends after version `since` added, up to that of `state`, as they came.

    Deletes and compactions in between add no rows. Other commits that add rows are refused: their rows would be missed.
    """
    pool = lake.own_catalog().pool
    if since > state.version:
        raise InvalidInput("The snapshot that a scan starts after is younger than the one it ends with: swap them.")
    appends = []
    for version, kinds in feed.kinds(pool, state.id, since, state.version).items():
        operation = documents.operation(kinds)
        if operation == "overwrite":
            raise InvalidInput(
                f"Version {version} of {state.full_name}, between the two snapshots, is not an append "
                f"({', '.join(sorted(kinds))}): scan the later snapshot whole, or read the table's change feed."
            )
        if operation == "append":
            appends.append(version)
    found = [] if predicate.is_false else feed.added(pool, state.id, set(appends))
    if predicate.is_true:
        return found
    return [
        one
        for one in found
        if predicate.may_match_partition(state.specs[one.facts.spec_id], state.schema, one.facts.partition)
        and predicate.may_match(facts_by_field(one), one.facts.rows)
    ]


def _check_columns(state: TableState, names: Sequence[str]) -> None:
    for name in names:
        try:
            state.schema.find_field(name, case_sensitive=False)
        except ValueError:
            raise InvalidInput(f"The scan selects a column {name!r}: there is none.") from None


def _snapshot(lake: Lake, state: TableState, snapshot_id: int | None) -> tuple[TableState, Projection | None]:
    """The table with the version that a snapshot stands for, and the projection that lists it; None: it has no rows."""
    found = project(lake.context, state.id, state.version)
    if snapshot_id is None or snapshot_id == found.snapshot_id:
        return state, None if found.snapshot_id is None else found
    for one in found.metadata["snapshots"]:
        if one["snapshot-id"] == snapshot_id:
            version = int(one["summary"][documents.VERSION_KEY])
            return replace(state, version=version), project(lake.context, state.id, version)
    raise InvalidInput(f"{state.full_name} has no snapshot {snapshot_id}, or no longer.")


def _tasks(
    lake: Lake, state: TableState, segments: Sequence[LiveSegment], residual: Any, found: Projection | None
) -> Json:
    """File scan tasks, and the delete files that they refer to."""
    put_files(lake.store, [segment.facts for segment in segments])
    locate = locator(lake.store)
    deletes: list[Json] = []
    tasks: list[Json] = []
    by_file = {} if found is None else dict(_delete_files(lake, found, segments))
    for segment in segments:
        where = address(locate, segment.facts)
        shared = {"spec-id": segment.facts.spec_id, "partition": _partition(state, segment)}
        task: Json = {"data-file": {**shared, **_data_file(segment, where)}}
        if (delete := by_file.get(where)) is not None:
            task["delete-file-references"] = [len(deletes)]
            deletes.append({**shared, **_delete_file(delete)})
        if residual is not None:
            task["residual-filter"] = residual
        tasks.append(task)
    return {"file-scan-tasks": tasks, "delete-files": deletes}


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


@dataclass(frozen=True, slots=True)
class _Task:
    """Files of a plan that are to be fetched: segments that are live at a version, or as appends added them."""

    version: int
    numbers: tuple[int, ...]
    residual: Any
    appended: bool

    def pack(self, state: TableState) -> str:
        document = [str(state.id), self.version, self.numbers, self.residual, self.appended]
        return base64.urlsafe_b64encode(zlib.compress(json.dumps(document, separators=(",", ":")).encode())).decode()

    @classmethod
    def unpack(cls, state: TableState, text: str) -> _Task:
        try:
            unpacker = zlib.decompressobj()
            data = unpacker.decompress(base64.b64decode(text.encode(), altchars=b"-_", validate=True), _LARGEST)
            table_id, version, numbers, residual, appended = json.loads(data)
            if table_id != str(state.id) or not all(isinstance(one, int) for one in (version, *numbers)):
                raise ValueError
        except (ValueError, TypeError, binascii.Error, zlib.error, MoulinError):
            raise _no_such_task("Unknown plan-task: pass back a plan-task of this table's plan unchanged.") from None
        return cls(version, tuple(numbers), residual, bool(appended))


def _no_such_task(message: str) -> RestError:
    return RestError(404, "NoSuchPlanTaskException", message)


__all__ = ["FILES", "router"]
