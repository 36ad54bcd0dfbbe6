"""Running work: streams of collectors and their backlog, members of the cluster, merge tasks."""

from __future__ import annotations

import time
from collections.abc import Iterable
from uuid import UUID

from fastapi import APIRouter

from moulin.catalog.catalog import Catalog
from moulin.console.api.requests import USUAL, CatalogOf, ConsoleOf, Cursor, Limit, page_of, takes
from moulin.console.api.shapes import Int64, Page, Shape
from moulin.errors import NotFound
from moulin.model.ingest import MemberKind
from moulin.model.merge_task import MergeTask
from moulin.model.names import full_name
from moulin.model.operations import Claim
from moulin.network.callers import Role

router = APIRouter(tags=["machinery"])
READ, PIPELINE = takes(Role.READ), takes(Role.PIPELINE)
_ANY_ATTEMPT = 0


class StreamTableShape(Shape):
    """How far a table is with a stream: up to an offset, which was stored at a time."""

    table_id: str
    table: str
    merged_offset: Int64
    merged_time: Int64


class StreamShape(Shape):
    """A collector's stream. Up to `frontier` all is in tables; what waits behind it is `waiting` baby segments.

    `stored_at` is when the newest baby segment was stored, if one ever was.
    """

    id: str
    collector: str
    description: str
    created_at: Int64
    stopped_at: Int64 | None
    frontier: Int64
    frontier_time: Int64
    stored_at: Int64 | None
    waiting: int
    waiting_bytes: Int64
    lag_seconds: float
    missing: Int64 | None
    tables: list[StreamTableShape]


class AsideShape(Shape):
    """Records that a nursery could not read and moved past; `path` is where they are, empty once they are gone."""

    version: Int64
    stream_id: str
    offset: Int64
    records: Int64
    reason: str
    path: str


class MemberShape(Shape):
    id: str
    kind: str
    endpoint: str
    heartbeat_at: Int64


class TaskShape(Shape):
    """A merge task that is not done: what `moulin task list` shows."""

    id: str
    table_id: str
    table: str
    state: str
    segments: int
    level: int
    created_at: Int64
    worker: str | None
    claimed_at: Int64 | None
    free_in_seconds: float | None
    attempt: int
    failures: int
    last_error: str | None


class TableTaskShape(TaskShape):
    """A merge task of one table, with the numbers of the segments that it rewrites."""

    inputs: list[Int64]


class Released(Shape):
    """Whether the task was taken from a worker, out of its back-off or out of quarantine; false if it was free."""

    released: bool


@router.get("/streams", **READ)
def list_streams(
    console: ConsoleOf, catalog: CatalogOf, cursor: Cursor = None, limit: Limit = USUAL
) -> Page[StreamShape]:
    """The streams that are not retired, by id, with what waits in storage."""
    listed = catalog.ingest.snapshot()
    lags = {lag.stream_id: lag for lag in console.flow.look(lambda: listed.streams).lags}
    now = time.time_ns()
    page, more = page_of(listed.streams, cursor, limit, lambda one: (str(one.id),), str)
    names = _names(catalog, {table.table_id for one in page for table in one.tables})
    items = []
    for one in page:
        lag = lags.get(one.id)
        items.append(
            StreamShape(
                id=str(one.id),
                collector=one.collector_id,
                description=one.description,
                created_at=one.created_at,
                stopped_at=one.stopped_at,
                frontier=one.frontier,
                frontier_time=one.frontier_time,
                stored_at=max(one.frontier_time, lag.newest_at if lag else 0) or None,
                waiting=lag.objects if lag else 0,
                waiting_bytes=lag.stored_bytes if lag else 0,
                lag_seconds=round(lag.seconds(now), 1) if lag else 0.0,
                missing=lag.gap.offset if lag and lag.gap else None,
                tables=[
                    StreamTableShape(
                        table_id=str(t.table_id),
                        table=names[t.table_id],
                        merged_offset=t.merged_offset,
                        merged_time=t.merged_time,
                    )
                    for t in one.tables
                ],
            )
        )
    return Page(items=items, next_cursor=more)


@router.get("/asides", **READ)
def list_asides(catalog: CatalogOf, cursor: Cursor = None, limit: Limit = USUAL) -> Page[AsideShape]:
    """What nurseries set aside, oldest first."""
    found = [
        AsideShape(
            version=version,
            stream_id=str(one.stream_id),
            offset=one.offset,
            records=one.records,
            reason=one.reason,
            path=one.path,
        )
        for version, one in catalog.ingest.set_asides()
    ]
    numbered = list(enumerate(found))
    page, more = page_of(numbered, cursor, limit, lambda one: (one[0],), int)
    return Page(items=[one for _, one in page], next_cursor=more)


@router.get("/members", **READ)
def list_members(catalog: CatalogOf, cursor: Cursor = None, limit: Limit = USUAL) -> Page[MemberShape]:
    """Who takes part in the cluster right now."""
    page, more = page_of(catalog.ingest.members(), cursor, limit, lambda one: (one.id,), str)
    items = [
        MemberShape(
            id=one.id, kind=MemberKind(one.kind).name.lower(), endpoint=one.endpoint, heartbeat_at=one.heartbeat_at
        )
        for one in page
    ]
    return Page(items=items, next_cursor=more)


@router.get("/tasks", **READ)
def list_tasks(catalog: CatalogOf, cursor: Cursor = None, limit: Limit = USUAL) -> Page[TaskShape]:
    """The merge tasks that are not done, oldest first."""
    found = catalog.maintenance.merge_tasks()
    page, more = page_of(found, cursor, limit, lambda one: (one.created_at, str(one.id)), int, str)
    now, names = time.time_ns(), _names(catalog, {one.table_id for one in page})
    return Page(items=[_task(one, names[one.table_id], now) for one in page], next_cursor=more)


@router.get("/tables/{table_id}/tasks", **READ)
def list_tasks_of_table(
    table_id: UUID, catalog: CatalogOf, cursor: Cursor = None, limit: Limit = USUAL
) -> Page[TableTaskShape]:
    """The merge tasks of a table that are not done, oldest first, with their segments."""
    entry = catalog.table_entry(table_id)
    name, now = full_name(entry.database, entry.name), time.time_ns()
    found = catalog.maintenance.merge_tasks(table_id)
    page, more = page_of(found, cursor, limit, lambda one: (one.created_at, str(one.id)), int, str)
    items = []
    for one in page:
        inputs = sorted(catalog.maintenance.merge_task_inputs(one.id))
        items.append(TableTaskShape(**_task(one, name, now).model_dump(), inputs=inputs))
    return Page(items=items, next_cursor=more)


def _names(catalog: Catalog, tables: Iterable[UUID]) -> dict[UUID, str]:
    names = {}
    for table_id in tables:
        try:
            entry = catalog.table_entry(table_id)
            names[table_id] = full_name(entry.database, entry.name)
        except NotFound:
            names[table_id] = str(table_id)
    return names


def _task(task: MergeTask, table: str, now: int) -> TaskShape:
    left = task.seconds_left(now)
    return TaskShape(
        id=str(task.id),
        table_id=str(task.table_id),
        table=table,
        state=task.shown_state(now),
        segments=task.segments,
        level=task.level,
        created_at=task.created_at,
        worker=task.worker,
        claimed_at=task.claimed_at,
        free_in_seconds=None if left is None else round(left, 1),
        attempt=task.attempt,
        failures=task.failures,
        last_error=task.last_error,
    )


@router.post("/tasks/{task_id}/release", **PIPELINE)
def release_task(task_id: UUID, catalog: CatalogOf) -> Released:
    """Make a task available at once: taken from its worker, out of its back-off or out of quarantine."""
    return Released(released=catalog.maintenance.release_merge_task(Claim(task_id, _ANY_ATTEMPT)))


@router.delete("/tasks/{task_id}", status_code=204, **PIPELINE)
def delete_task(task_id: UUID, catalog: CatalogOf) -> None:
    """Delete a task: its segments stay as they are and are free to be planned again."""
    if not catalog.maintenance.delete_merge_task(task_id):
        raise NotFound(f"Merge task {task_id} does not exist; it may be completed or deleted.")
