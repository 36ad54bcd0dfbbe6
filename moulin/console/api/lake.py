"""The lake as a whole: statistics, problems, recent events, and search."""

from __future__ import annotations

import time
from typing import Annotated

from fastapi import APIRouter, Query

from moulin.catalog.objects.browse import Activity
from moulin.console.api.requests import (
    BY_VERSION,
    CatalogOf,
    ConsoleOf,
    Cursor,
    Limit,
    SearchText,
    from_cursor,
    takes,
    to_cursor,
)
from moulin.console.api.shapes import Int64, Page, Shape
from moulin.model.names import AT, full_name
from moulin.model.schema.documents import schema_from_json
from moulin.network.callers import Role

router = APIRouter(tags=["lake"])
READ = takes(Role.READ)
_MINUTE = 60_000_000_000
_MINUTES = 60
_FOUND = 20
_CHANGES = 50  # of one version that are listed


class Minute(Shape):
    """How many versions were committed in one minute, which begins at a time."""

    at: Int64
    versions: int


class LakeShape(Shape):
    """Figures of the lake. Sums are over the live tables of main."""

    uri: str
    version: Int64
    committed_at: Int64 | None
    now: Int64
    databases: int
    tables: int
    rows: Int64
    bytes: Int64
    segments: Int64
    branches: int
    merge_tasks: int
    quarantined: int
    to_delete: int
    failing_deletions: int
    dropped: int
    stuck: list[str]
    minutes: list[Minute]


class Change(Shape):
    """What a version did to one table, of main or of a branch. The branch is in the table's name, too."""

    table_id: str
    table: str
    branch: str | None
    kind: str
    added_rows: Int64
    summary: dict[str, str]


class Happened(Shape):
    """One version of the lake: how many `tables` it changed, and the first changes of them."""

    version: Int64
    at: Int64
    kind: str
    tables: int
    changes: list[Change]


class Hit(Shape):
    """Something with a name: `kind` is table, column, branch or version. `id` is that of the table, where it is one."""

    kind: str
    name: str
    id: str | None = None
    table: str | None = None


@router.get("/lake", **READ)
def show_lake(console: ConsoleOf, catalog: CatalogOf) -> LakeShape:
    """Totals, freshness, what is stuck, and versions by the minute over the last hour."""
    figures = catalog.overview.figures()
    tasks, quarantined = catalog.maintenance.task_counts()
    waiting, failing, said = catalog.maintenance.trash_counts()
    now = time.time_ns()
    first = now // _MINUTE - _MINUTES + 1
    counted = catalog.overview.versions_by_time(first * _MINUTE, _MINUTE)
    stuck = list(console.flow.look(lambda: catalog.ingest.snapshot().streams).advice)
    if quarantined:
        stuck.append(f"{quarantined} merge tasks failed too often and are in quarantine: see Tasks for their errors.")
    if failing:
        stuck.append(f"{failing} objects cannot be deleted: {said}")
    return LakeShape(
        uri=console.lake.store.uri,
        version=figures.version,
        committed_at=figures.committed_at,
        now=now,
        databases=figures.databases,
        tables=figures.tables,
        rows=figures.rows,
        bytes=figures.bytes,
        segments=figures.segments,
        branches=len(catalog.branches()),
        merge_tasks=tasks,
        quarantined=quarantined,
        to_delete=waiting,
        failing_deletions=failing,
        dropped=figures.dropped,
        stuck=stuck,
        minutes=[Minute(at=step * _MINUTE, versions=counted.get(step, 0)) for step in range(first, first + _MINUTES)],
    )


@router.get("/lake/activity", dependencies=BY_VERSION, **READ)
def show_activity(
    catalog: CatalogOf,
    since: Annotated[int, Query(ge=0, lt=1 << 63, description="Versions after this one.")] = 0,
    cursor: Cursor = None,
    limit: Limit = 100,
) -> Page[Happened]:
    """What happened, newest first: every version, with the tables that it changed."""
    key = from_cursor(cursor, int)
    found = catalog.overview.activity(since, None if key is None else key[0], limit + 1, _CHANGES)
    more = to_cursor(found[limit - 1].version) if len(found) > limit else None
    return Page(items=[_happened(one) for one in found[:limit]], next_cursor=more)


def _happened(one: Activity) -> Happened:
    changes = [
        Change(
            table_id=str(change.table_id),
            table=full_name(change.database, change.name),
            branch=change.database.rpartition(AT)[2] if AT in change.database else None,
            kind=change.kind,
            added_rows=change.added_rows,
            summary=dict(change.summary),
        )
        for change in one.changes
    ]
    return Happened(version=one.version, at=one.timestamp_ns, kind=one.kind, tables=one.tables, changes=changes)


@router.get("/search", dependencies=BY_VERSION, **READ)
def search(catalog: CatalogOf, q: SearchText) -> Page[Hit]:
    """Tables, columns, branches and versions that have a text in their names, at most 20 of each."""
    if not (text := q.strip()):
        return Page(items=[])
    hits = [
        Hit(kind="table", name=full_name(one.database, one.name), id=str(one.id))
        for one in catalog.overview.tables(None, _FOUND, text=text)
    ]
    for entry, document in catalog.overview.tables_with_column(text, _FOUND):
        names = [field.name for field in schema_from_json(document).fields if text.lower() in field.name.lower()]
        owner = full_name(entry.database, entry.name)
        hits += [Hit(kind="column", name=name, id=str(entry.id), table=owner) for name in names]
    hits += [
        Hit(kind="branch", name=one.name, id=str(one.id))
        for one in catalog.branches()
        if text.lower() in one.name.lower()
    ]
    if text.isascii() and text.isdigit() and len(text) < 19:
        found = catalog.overview.activity(int(text) - 1, int(text) + 1, 1)
        hits += [Hit(kind="version", name=str(one.version)) for one in found]
    return Page(items=hits)
