"""Dropped objects that can be resurrected, and the branches of the lake."""

from __future__ import annotations

from typing import Annotated
from uuid import UUID

from fastapi import APIRouter, Query

from moulin.console.api.requests import USUAL, CatalogOf, Cursor, Limit, page_of, takes
from moulin.console.api.shapes import Done, Int64, Page, Shape
from moulin.errors import NotFound, PermissionDenied
from moulin.network.callers import Role, caller

router = APIRouter(tags=["lake"])
_DATABASE, _TABLE, _VIEW, _TOKEN = "database", "table", "view", "ingest_token"


class Tombstone(Shape):
    """A dropped object. `kind` is database, table, view or ingest_token; it is deleted for good at `delete_at`."""

    id: str
    kind: str
    name: str
    database: str | None
    dropped_at: Int64
    delete_at: Int64


class BranchShape(Shape):
    """A line of versions that began as main was at `version`. `opened` of its tables have rows of their own.

    `published_version` is the version of main that has what the branch did; `dropped` says that it can come back.
    """

    id: str
    name: str
    version: Int64
    created_at: Int64
    expires_at: Int64 | None
    tables: int
    opened: int
    published_version: Int64 | None
    dropped: bool


@router.get("/trash", **takes(Role.READ))
def list_trash(catalog: CatalogOf, cursor: Cursor = None, limit: Limit = USUAL) -> Page[Tombstone]:
    """What was dropped and can come back, by when it is deleted."""
    names = {one.id: one.name for one in catalog.databases(include_dropped=True)}
    found = [
        Tombstone(
            id=str(one.id),
            kind=one.kind,
            name=one.name,
            database=None if one.kind == _DATABASE else names.get(one.database_id),
            dropped_at=one.tombstone.tombstoned_at,
            delete_at=one.tombstone.delete_at,
        )
        for one in catalog.tombstones()
    ]
    page, more = page_of(found, cursor, limit, lambda one: (one.delete_at, one.id), int, str)
    return Page(items=page, next_cursor=more)


@router.post("/trash/{object_id}/resurrect", **takes(Role.WRITE))
def resurrect(object_id: UUID, catalog: CatalogOf) -> Done:
    """Bring a dropped object back under its name. An ingest token takes the role admin."""
    found = next((one for one in catalog.tombstones() if one.id == object_id), None)
    if found is None:
        raise NotFound("This is not in the trash: it was restored, or its grace period has ended.")
    if found.kind == _TOKEN and caller.get().role < Role.ADMIN:
        raise PermissionDenied("Restoring an ingest token needs the role admin: use a token that has it.")
    if found.kind == _DATABASE:
        catalog.resurrect_database(object_id)
    elif found.kind == _TABLE:
        catalog.resurrect_table(found.database_id, object_id)
    elif found.kind == _VIEW:
        catalog.resurrect_view(found.database_id, object_id)
    else:
        catalog.ingest.resurrect_token(found.database_id, object_id)
    return Done(version=catalog.version())


@router.get("/branches", **takes(Role.READ))
def list_branches(
    catalog: CatalogOf,
    dropped: Annotated[bool, Query(description="Those that were published or dropped, too.")] = False,
    cursor: Cursor = None,
    limit: Limit = USUAL,
) -> Page[BranchShape]:
    """The branches, by name: what `moulin branch list` shows."""
    found = catalog.branches(include_dropped=dropped)
    page, more = page_of(found, cursor, limit, lambda one: (one.name, str(one.id)), str, str)
    items = [
        BranchShape(
            id=str(one.id),
            name=one.name,
            version=one.version,
            created_at=one.created_at,
            expires_at=one.expires_at,
            tables=one.tables,
            opened=one.opened,
            published_version=one.published_version,
            dropped=one.tombstone is not None,
        )
        for one in page
    ]
    return Page(items=items, next_cursor=more)
