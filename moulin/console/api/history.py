"""The history of a table: its commits, and differences between two versions."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import Annotated, Final
from uuid import UUID

import pyarrow as pa
from fastapi import APIRouter, Query, Request

from moulin.catalog.catalog import Catalog
from moulin.console.api.requests import (
    BY_VERSION,
    USUAL,
    CatalogOf,
    ConsoleOf,
    Cursor,
    Limit,
    from_cursor,
    table_of,
    takes,
    to_cursor,
)
from moulin.console.api.shapes import Int64, Page, Rows, Shape, rows_of
from moulin.errors import FailedPrecondition, InvalidInput
from moulin.model.publication import schema_changes
from moulin.model.tags import shown
from moulin.network.callers import Role
from moulin.table.read.feed import Feed

router = APIRouter(tags=["tables"], dependencies=BY_VERSION)
READ = takes(Role.READ)
_VERSION = Query(ge=0, lt=1 << 63)
MOST_ROWS_GONE: Final = 50_000_000
"""Rows of replaced segments that a diff may match: the id of each is in memory."""


class Commit(Shape):
    """One operation of one version on the table."""

    version: Int64
    ordinal: int
    at: Int64
    kind: str
    schema_id: int
    added_rows: Int64
    summary: dict[str, str]


class Diff(Shape):
    """What a table differs in between two versions. Rows are those of the change feed, the first of them."""

    since: Int64
    until: Int64
    schema_changes: list[str]
    properties: dict[str, tuple[str | None, str | None]]
    segments_added: int
    segments_removed: int
    inserted: Int64
    updated: Int64
    deleted: Int64
    rows: Rows


@router.get("/tables/{table_id}/commits", **READ)
def list_commits(table_id: UUID, catalog: CatalogOf, cursor: Cursor = None, limit: Limit = USUAL) -> Page[Commit]:
    """What happened to the table, newest first: what `moulin table history` shows."""
    key = from_cursor(cursor, int, int)
    found = catalog.overview.commits(table_id, None if key is None else (key[0], key[1]), limit + 1)
    page = found[:limit]
    items = [
        Commit(
            version=one.version,
            ordinal=one.ordinal,
            at=one.timestamp_ns,
            kind=str(one.kind),
            schema_id=one.schema_id,
            added_rows=one.added_rows,
            summary=dict(one.summary),
        )
        for one in page
    ]
    more = to_cursor(page[-1].version, page[-1].ordinal) if len(found) > limit else None
    return Page(items=items, next_cursor=more)


@router.get("/tables/{table_id}/diff", **READ)
def show_diff(
    table_id: UUID,
    request: Request,
    console: ConsoleOf,
    catalog: CatalogOf,
    since: Annotated[int, _VERSION],
    until: Annotated[int, _VERSION],
    limit: Annotated[int, Query(ge=0, le=500, description="How many rows at most.")] = 50,
) -> Diff:
    """What two versions of a table differ in: columns, properties, segments and rows."""
    if since > until:
        raise InvalidInput(f"A diff must go from an older version to a newer one, not from {since} to {until}.")
    old, new = catalog.table_by_id(table_id, since), catalog.table_by_id(table_id, until)
    before, after = shown(old.properties), shown(new.properties)
    held = [_rows_of_segments(catalog, table_id, version) for version in (since, until)]
    gone = sum(rows for number, rows in held[0].items() if number not in held[1])
    if gone > MOST_ROWS_GONE:
        raise FailedPrecondition(
            f"Segments of {gone} rows were replaced between these versions, but a diff here compares at most "
            f"{MOST_ROWS_GONE}: choose versions closer together, or read `table.changes` in a program."
        )
    feed = table_of(console, table_id).changes(since, until, net=True)
    with console.reading(request) as go_on:
        feed = feed.bounded(go_on)
        counts, rows = feed.counts(), _first_rows(feed, until, limit)
    return Diff(
        since=since,
        until=until,
        schema_changes=list(schema_changes(old, new)),
        properties={
            name: (before.get(name), after.get(name))
            for name in sorted(before.keys() | after.keys())
            if before.get(name) != after.get(name)
        },
        segments_added=len(held[1].keys() - held[0].keys()),
        segments_removed=len(held[0].keys() - held[1].keys()),
        inserted=counts.get("insert", 0),
        updated=counts.get("update_after", 0),
        deleted=counts.get("delete", 0),
        rows=rows,
    )


def _rows_of_segments(catalog: Catalog, table_id: UUID, version: int) -> dict[int, int]:
    """How many rows each live segment has, by its number."""
    live = catalog.segments(table_id, version, with_columns=False)
    return {one.facts.number: one.facts.rows for one in live}


def _first_rows(feed: Feed, version: int, limit: int) -> Rows:
    batches = feed.to_batches()
    try:
        found = pa.Table.from_batches(_enough(batches, limit + 1), feed.schema)
    finally:
        batches.close()
    return rows_of(found.slice(0, limit), version, more=found.num_rows > limit)


def _enough(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.RecordBatch]:
    """The first batches that have so many rows together."""
    held = 0
    while held < rows and (batch := next(islice(batches, 1), None)) is not None:
        held += batch.num_rows
        yield batch
