"""Changes of tables: restores, tags, properties, drops, and planned compactions."""

from __future__ import annotations

from typing import Annotated, Final, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field

from moulin.catalog.segments.stats import Filter
from moulin.console.api.requests import CatalogOf, ConsoleOf, table_of, takes
from moulin.console.api.shapes import Done, Int64, Shape
from moulin.errors import Conflict, FailedPrecondition
from moulin.network.callers import Role
from moulin.table.compact.planner import create_tasks

router = APIRouter(tags=["tables"])
WRITE = takes(Role.WRITE)
MOST_ROWS_INDEXED: Final = 5_000_000
"""Rows of a table that a request may index: some seconds of work."""
Version = Annotated[Int64, Field(ge=0, lt=1 << 63)]


class RestoreRequest(Shape):
    """`expected_version` is the table's version that the caller saw: another one is a conflict."""

    version: Version
    expected_version: Version | None = None


class Restored(Done):
    rows_added: Int64
    rows_deleted: Int64
    rows_updated: Int64


class TagRequest(Shape):
    """Without a version, the newest."""

    name: Annotated[str, Field(min_length=1, max_length=255)]
    version: Version | None = None


class TablePatch(Shape):
    """Properties to set, and names of some to remove."""

    properties: dict[str, str] = Field(default_factory=dict)
    remove: list[str] = Field(default_factory=list)


class IndexRequest(Shape):
    """Without a name, the column and the kind make one."""

    column: Annotated[str, Field(min_length=1, max_length=1000)]
    kind: Literal["btree", "bloom", "bitmap", "label_list"] = "btree"
    name: Annotated[str | None, Field(min_length=1, max_length=255)] = None


class MadeIndex(Shape):
    name: str
    version: Int64


class Dropped(Shape):
    """Until when a dropped table can be brought back."""

    delete_at: Int64 | None


class PlannedTasks(Shape):
    """Merge tasks that were made for workers, and the segments in them."""

    tasks: int
    segments: int


@router.post("/tables/{table_id}/restore", **WRITE)
def restore(table_id: UUID, asked: RestoreRequest, console: ConsoleOf) -> Restored:
    """Bring back the rows and the schema of an older version, as a new version."""
    table = table_of(console, table_id, to_change=True)
    head = table.state().head_version
    if asked.expected_version is not None and head != asked.expected_version:
        raise Conflict(f"Table {table.name} is at version {head} now, not {asked.expected_version}: reload it.")
    done = table.restore(asked.version)
    return Restored(
        version=done.version,
        rows_added=done.rows_added,
        rows_deleted=done.rows_deleted,
        rows_updated=done.rows_updated,
    )


@router.post("/tables/{table_id}/tags", **WRITE)
def tag(table_id: UUID, asked: TagRequest, console: ConsoleOf) -> Done:
    """Give a version a name. A tag of that name moves."""
    return Done(version=table_of(console, table_id, to_change=True).tag(asked.name, asked.version).version)


@router.delete("/tables/{table_id}/tags", **WRITE)
def drop_tag(table_id: UUID, console: ConsoleOf, name: Annotated[str, Query(min_length=1, max_length=255)]) -> Done:
    """Take a name from a version."""
    return Done(version=table_of(console, table_id, to_change=True).drop_tag(name).version)


@router.patch("/tables/{table_id}", **WRITE)
def set_properties(table_id: UUID, asked: TablePatch, console: ConsoleOf) -> Done:
    """Set and remove properties."""
    done = table_of(console, table_id, to_change=True).set_properties(asked.properties, remove=asked.remove)
    return Done(version=done.version)


@router.post("/tables/{table_id}/indexes", **WRITE)
def create_index(table_id: UUID, asked: IndexRequest, console: ConsoleOf) -> MadeIndex:
    """Index a column of a table that is not large, in this server."""
    table = table_of(console, table_id, to_change=True)
    rows = table.stats().rows
    if rows > MOST_ROWS_INDEXED:
        raise FailedPrecondition(
            f"Table {table.name} has {rows:,} rows, and this server indexes at most {MOST_ROWS_INDEXED:,}: "
            "call `create_index` of the table in a program, with Spark at hand."
        )
    made = table.create_index(asked.column, asked.kind, asked.name)
    return MadeIndex(name=made.name, version=made.created_version)


@router.delete("/tables/{table_id}/indexes", **WRITE)
def drop_index(table_id: UUID, console: ConsoleOf, name: Annotated[str, Query(min_length=1, max_length=255)]) -> Done:
    """Drop a secondary index. No row goes with it."""
    return Done(version=table_of(console, table_id, to_change=True).drop_index(name).version)


@router.delete("/tables/{table_id}", **WRITE)
def drop(table_id: UUID, catalog: CatalogOf) -> Dropped:
    """Drop a table. It can be brought back until its grace window ends."""
    entry = catalog.table_entry(table_id)
    dropped = catalog.drop_table(entry.database_id, table_id)
    return Dropped(delete_at=None if dropped.tombstone is None else dropped.tombstone.delete_at)


@router.post("/tables/{table_id}/merges", **takes(Role.PIPELINE))
def plan_compaction(table_id: UUID, console: ConsoleOf) -> PlannedTasks:
    """Make merge tasks of what is worth compacting; workers take them."""
    planned = create_tasks(console.lake.context, table_id, Filter())
    return PlannedTasks(tasks=planned.tasks, segments=planned.segments)
