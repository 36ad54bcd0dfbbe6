"""Reading tables: lists, details, rows and history."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated
from uuid import UUID

import pyarrow as pa
from fastapi import APIRouter, Query, Request

from moulin.console.api.requests import (
    BY_VERSION,
    USUAL,
    CatalogOf,
    ConsoleOf,
    Cursor,
    Limit,
    SearchText,
    from_cursor,
    page_of,
    table_of,
    takes,
    to_cursor,
)
from moulin.console.api.shapes import Int64, Page, Rows, Shape, rows_of
from moulin.model.entities import TableEntry, TableState
from moulin.model.tags import refs_of, shown
from moulin.network.callers import Role
from moulin.table.stats import TableStats, sorting

router = APIRouter(tags=["tables"], dependencies=BY_VERSION)
READ = takes(Role.READ)
Version = Annotated[int | None, Query(ge=0, lt=1 << 63, description="As it was at this version; by default now.")]


class DatabaseShape(Shape):
    id: str
    name: str
    created_at: Int64
    properties: dict[str, str]


class TableRow(Shape):
    """A table as a list shows it. `version` is the last one that changed it."""

    id: str
    database_id: str
    database: str
    name: str
    created_at: Int64
    version: Int64
    segments: Int64
    rows: Int64
    bytes: Int64


class Field(Shape):
    id: int
    name: str
    type: str
    required: bool
    doc: str | None


class SchemaShape(Shape):
    """One of the schemas that a table had."""

    id: int
    columns: list[Field]


class Level(Shape):
    level: int
    segments: int
    bytes: Int64
    rows: Int64
    live: Int64
    deleted: Int64


class TableDetail(Shape):
    """A table as it is now. `read_amplification`: in how many segments one key, or moment, may be."""

    id: str
    database: str
    name: str
    version: Int64
    created_version: Int64
    oldest_version: Int64
    created_at: Int64
    rows: Int64
    deleted_rows: Int64
    bytes: Int64
    segments: int
    read_amplification: int
    write_amplification: float | None
    levels: list[Level]
    primary_key: list[str]
    partitioned_by: str
    sorted_by: str
    event_time: str | None
    properties: dict[str, str]
    tags: dict[str, Int64]
    schema_id: int
    schemas: list[SchemaShape]
    location: str


@router.get("/databases", **READ)
def list_databases(catalog: CatalogOf, cursor: Cursor = None, limit: Limit = USUAL) -> Page[DatabaseShape]:
    """The databases of main, by name."""
    page, more = page_of(catalog.databases(), cursor, limit, lambda one: (one.name,), str)
    items = [
        DatabaseShape(id=str(one.id), name=one.name, created_at=one.created_at, properties=dict(one.properties))
        for one in page
    ]
    return Page(items=items, next_cursor=more)


@router.get("/tables", **READ)
def list_tables(
    catalog: CatalogOf,
    q: SearchText = "",
    database: Annotated[UUID | None, Query(description="The id of a database.")] = None,
    cursor: Cursor = None,
    limit: Limit = USUAL,
) -> Page[TableRow]:
    """The tables of main, by the names of database and table."""
    after = from_cursor(cursor, str, str)
    found = catalog.overview.tables(
        None if after is None else (after[0], after[1]), limit + 1, text=q.strip(), database_id=database
    )
    page = found[:limit]
    more = to_cursor(page[-1].database, page[-1].name) if len(found) > limit else None
    return Page(items=[_row(one) for one in page], next_cursor=more)


def _row(one: TableEntry) -> TableRow:
    return TableRow(
        id=str(one.id),
        database_id=str(one.database_id),
        database=one.database,
        name=one.name,
        created_at=one.created_at,
        version=one.head_version,
        segments=one.segments,
        rows=one.rows,
        bytes=one.bytes,
    )


@router.get("/tables/{table_id}", **READ)
def show_table(table_id: UUID, console: ConsoleOf, catalog: CatalogOf) -> TableDetail:
    """What a table is and what it is made of: the figures of `moulin table show`."""
    stats = table_of(console, table_id).stats()
    return _detail(catalog.table_by_id(table_id), stats, f"{console.lake.store.uri}/tables/{table_id}")


def _detail(state: TableState, stats: TableStats, location: str) -> TableDetail:
    names = [state.schema.find_column_name(number) for number in state.schema.identifier_field_ids]
    return TableDetail(
        id=str(state.id),
        database=state.database,
        name=state.name,
        version=stats.version,
        created_version=state.created_version,
        oldest_version=state.oldest_version,
        created_at=state.created_at,
        rows=stats.rows,
        deleted_rows=stats.deleted_rows,
        bytes=stats.bytes,
        segments=stats.segments,
        read_amplification=stats.read_amplification,
        write_amplification=stats.write_amplification,
        levels=[
            Level(level=x.level, segments=x.files, bytes=x.bytes, rows=x.rows, live=x.live, deleted=x.deleted)
            for x in stats.levels
        ],
        primary_key=[name for name in names if name is not None],
        partitioned_by=stats.partitioning,
        sorted_by=sorting(state),
        event_time=state.event_time_field.name if state.event_time_field else None,
        properties=shown(state.properties),
        tags={name: ref.version for name, ref in refs_of(state.properties).items()},
        schema_id=state.schema_id,
        schemas=[
            SchemaShape(
                id=number,
                columns=[
                    Field(id=f.field_id, name=f.name, type=str(f.field_type), required=f.required, doc=f.doc)
                    for f in schema.fields
                ],
            )
            for number, schema in sorted(state.schemas.items())
        ],
        location=location,
    )


@router.get("/tables/{table_id}/rows", **READ)
def preview_rows(
    table_id: UUID,
    request: Request,
    console: ConsoleOf,
    version: Version = None,
    limit: Annotated[int, Query(ge=1, le=500, description="How many rows at most.")] = 50,
) -> Rows:
    """Some rows of a version: what is committed, in no order."""
    table = table_of(console, table_id)
    at = table.state().version if version is None else version
    with console.reading(request) as go_on, table.at(version=at) as snapshot:
        scan = snapshot.scan(limit=limit + 1)
        batches = []
        with closing(scan.to_batches()) as found_batches:
            for batch in found_batches:
                go_on()
                batches.append(batch)
        found = pa.Table.from_batches(batches, scan.schema)
    return rows_of(found.slice(0, limit), snapshot.version, more=found.num_rows > limit)
