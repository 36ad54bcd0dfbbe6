"""Scan planning: which files of a table a scan has to read, found by the catalog with a filter, without manifests.

A plan with many files returns the rest as tasks. A task contains all that is needed to fetch it (the version and
segment numbers), so servers keep no state. Slow plans are made in the background: see `pending.py`.

A scan between two snapshots returns the files appended after the first, up to the second. See docs/decisions/0160.
"""

from __future__ import annotations

import base64
import binascii
import json
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from moulin.catalog.segments import feed
from moulin.errors import InvalidInput, MoulinError, NotFound
from moulin.iceberg.format import metadata as documents
from moulin.iceberg.format.json import Json
from moulin.iceberg.projection.projection import Projection, project
from moulin.iceberg.rest import tables
from moulin.iceberg.rest.credentials import BorrowerOf, lend
from moulin.iceberg.rest.errors import RestError
from moulin.iceberg.rest.requests import Body, LakeOf, field, read_json, words
from moulin.iceberg.rest.scan.files import scan_tasks
from moulin.iceberg.rest.scan.filter import read_filter
from moulin.iceberg.rest.scan.pending import Plan, Plans
from moulin.iceberg.rest.scan.residual import Residuals
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.facts import LiveSegment
from moulin.model.predicate import Predicate
from moulin.table.find.index_search import narrow
from moulin.table.read.quarantine import refuse_quarantined
from moulin.table.read.scan import facts_by_field, plan_segments

router = APIRouter()
FILES = 1000
"""Files that an answer lists at most."""

_LARGEST = 4 << 20  # limit of a decoded task in bytes


@dataclass(frozen=True, slots=True)
class _Asked:
    """A checked request."""

    state: TableState
    since: int | None
    found: Projection | None
    filter: Any
    predicate: Predicate
    stats: frozenset[int]


@router.post("/namespaces/{namespace}/tables/{table}/plan")
def plan_scan(request: Request, lake: LakeOf, borrower: BorrowerOf, namespace: str, table: str, body: Body) -> Response:
    asked = _read(lake, tables.flushed(lake, namespace, table), body)
    plans: Plans = request.app.state.plans
    made = plans.run(borrower.name, asked.state.id, lambda plan: _plan(lake, asked, plan))
    if isinstance(made, Plan):
        return JSONResponse({"status": "submitted", "plan-id": made.id})
    lent = lend(lake, borrower, asked.state.id, tables.credentials_path(lake, namespace, table))
    return JSONResponse(made if lent is None else {**made, "storage-credentials": lent.storage_credentials})


@router.get("/namespaces/{namespace}/tables/{table}/plan/{plan_id}")
def fetch_plan(
    request: Request, lake: LakeOf, borrower: BorrowerOf, namespace: str, table: str, plan_id: str
) -> Response:
    plans: Plans = request.app.state.plans
    plan = plans.find(borrower.name, tables.find(lake, namespace, table).id, plan_id)
    if plan.result is None:
        return JSONResponse({"status": "submitted"})
    return Response(plan.result, media_type="application/json")


@router.delete("/namespaces/{namespace}/tables/{table}/plan/{plan_id}")
def cancel_plan(
    request: Request, lake: LakeOf, borrower: BorrowerOf, namespace: str, table: str, plan_id: str
) -> Response:
    plans: Plans = request.app.state.plans
    plans.cancel(plans.find(borrower.name, tables.find(lake, namespace, table).id, plan_id))
    return Response(status_code=204)


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
    if len(segments) != len(task.numbers) or task.schema_id not in state.schemas:
        raise _no_such_task("The task names files that are no longer there: plan the scan again.")
    chosen = replace(state, version=task.version, schema_id=task.schema_id)
    residuals = None if task.filter is None else Residuals(task.filter, chosen)
    answer = scan_tasks(lake, chosen, segments, found, residuals, frozenset(task.stats))
    return JSONResponse({"plan-tasks": [], **answer})


def _read(lake: Lake, state: TableState, body: Json) -> _Asked:
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
    stats = _columns_with_parts(chosen, words(body, "stats-fields"))
    since = _snapshot(lake, state, start)[0].version if between else None
    return _Asked(chosen, since, found, body.get("filter"), read_filter(body.get("filter"), chosen.schema), stats)


def _plan(lake: Lake, asked: _Asked, plan: Plan) -> Json:
    """The response: the first files, and tasks for the others."""
    state, found = asked.state, asked.found
    residuals = None if asked.filter is None else Residuals(asked.filter, state)
    facts_of = asked.stats | (frozenset() if residuals is None else residuals.field_ids)
    if asked.since is not None:
        segments, found = _appended(lake, asked.since, state, asked.predicate), None
    else:
        segments = [] if found is None else plan_segments(lake.catalog, state, asked.predicate, facts_of)
    plan.go_on()
    if not asked.predicate.is_true:
        segments = narrow(lake.catalog, lake.context.secondary, state, asked.predicate, segments).segments
    plan.go_on()
    answer = scan_tasks(lake, state, segments[:FILES], found, residuals, asked.stats)
    rest = []
    for first in range(FILES, len(segments), FILES):
        numbers = tuple(one.facts.number for one in segments[first : first + FILES])
        rest.append(
            _Task(state.version, numbers, asked.filter, asked.since is not None, state.schema_id, (*asked.stats,))
        )
    return {"status": "completed", "plan-tasks": [task.pack(state) for task in rest], **answer}


def _appended(lake: Lake, since: int, state: TableState, predicate: Predicate) -> list[LiveSegment]:
    """Files that appends after version `since` added, up to that of `state`, as they came.

    Deletes and compactions in between add no rows. Other commits that add rows are refused: their rows would be missed.
    """
    pool = lake.own_catalog().pool
    refuse_quarantined(lake.catalog, state)
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


def _columns_with_parts(state: TableState, names: Sequence[str]) -> frozenset[int]:
    """The ids of columns, and of all that is inside them."""
    _check_columns(state, names)
    found = {state.schema.find_field(name, case_sensitive=False).field_id for name in names}
    if not found:
        return frozenset()
    whole = {state.schema.find_column_name(one) for one in found}
    inner = {
        one
        for one in state.schema.field_ids
        if any((state.schema.find_column_name(one) or "").startswith(f"{name}.") for name in whole)
    }
    return frozenset(found | inner)


def _check_columns(state: TableState, names: Sequence[str]) -> None:
    for name in names:
        try:
            state.schema.find_field(name, case_sensitive=False)
        except ValueError:
            raise InvalidInput(f"The scan selects a column {name!r}, which does not exist.") from None


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


@dataclass(frozen=True, slots=True)
class _Task:
    """Files of a plan that are to be fetched: segments that are live at a version, or as appends added them."""

    version: int
    numbers: tuple[int, ...]
    filter: Any
    appended: bool
    schema_id: int
    stats: tuple[int, ...]

    def pack(self, state: TableState) -> str:
        document = [
            str(state.id), self.version, self.numbers, self.filter, self.appended, self.schema_id, self.stats,
        ]  # fmt: skip
        return base64.urlsafe_b64encode(zlib.compress(json.dumps(document, separators=(",", ":")).encode())).decode()

    @classmethod
    def unpack(cls, state: TableState, text: str) -> _Task:
        try:
            unpacker = zlib.decompressobj()
            data = unpacker.decompress(base64.b64decode(text.encode(), altchars=b"-_", validate=True), _LARGEST)
            table_id, version, numbers, wanted, appended, schema_id, stats = read_json(data)
            figures = (version, schema_id, *numbers, *stats)
            if table_id != str(state.id) or not all(type(one) is int and 0 <= one < 1 << 63 for one in figures):
                raise ValueError
        except (ValueError, TypeError, RecursionError, binascii.Error, zlib.error, MoulinError):
            raise _no_such_task("Unknown plan-task: pass back a plan-task of this table's plan unchanged.") from None
        return cls(version, tuple(numbers[:FILES]), wanted, bool(appended), schema_id, tuple(stats))


def _no_such_task(message: str) -> RestError:
    return RestError(404, "NoSuchPlanTaskException", message)


__all__ = ["FILES", "router"]
