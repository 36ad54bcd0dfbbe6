"""Namespaces: the databases of the lake. Dots in the name of a database separate its levels.

A database is shown below its nearest existing parent: `a.b` is ["a", "b"] when there is a database `a`, else ["a.b"].
"""

# Decisions: docs/decisions/0630

from __future__ import annotations

from fastapi import APIRouter, Query
from fastapi.responses import JSONResponse, Response

from moulin.errors import AlreadyExists, FailedPrecondition, InvalidInput, NotFound
from moulin.iceberg.rest.errors import RestError, missing, taken
from moulin.iceberg.rest.requests import (
    SEPARATOR,
    Body,
    LakeOf,
    PageSize,
    PageToken,
    database,
    database_in_body,
    field,
    levels,
    page,
    texts,
    words,
)
from moulin.lake import Lake
from moulin.model.entities import Database
from moulin.model.names import check_name, parent_names
from moulin.table.properties import check_properties

router = APIRouter()


@router.get("/namespaces")
def list_namespaces(
    lake: LakeOf, token: PageToken = None, size: PageSize = None, parent: str | None = Query(None)
) -> Response:
    above = levels(parent) if parent else []
    below = find(lake, parent).name if parent else None
    known = {found.name for found in lake.databases()}
    mine = [name for name in sorted(known) if next((one for one in parent_names(name) if one in known), None) == below]
    names, following = page(mine, token, size)
    cut = 0 if below is None else len(below) + 1
    return JSONResponse({"namespaces": [[*above, name[cut:]] for name in names], "next-page-token": following})


@router.post("/namespaces")
def create_namespace(lake: LakeOf, body: Body) -> Response:
    parts = field(body, "namespace", list)
    name = check_name(database_in_body(parts), "database")
    if len(parts) > 1:
        find(lake, SEPARATOR.join(parts[:-1]))
    try:
        made = lake.create_database(name, properties=texts(body, "properties"))
    except AlreadyExists:
        raise taken("Namespace", name) from None
    return JSONResponse({"namespace": parts, "properties": dict(made.properties)})


@router.get("/namespaces/{namespace}")
def load_namespace(lake: LakeOf, namespace: str) -> Response:
    found = find(lake, namespace)
    return JSONResponse({"namespace": levels(namespace), "properties": dict(found.properties)})


@router.head("/namespaces/{namespace}")
def namespace_exists(lake: LakeOf, namespace: str) -> Response:
    find(lake, namespace)
    return Response(status_code=204)


@router.delete("/namespaces/{namespace}")
def drop_namespace(lake: LakeOf, namespace: str) -> Response:
    name = find(lake, namespace).name
    try:
        lake.drop_database(name)
    except FailedPrecondition as error:
        raise RestError(409, "NamespaceNotEmptyException", f"Namespace {name} is not empty: {error.message}") from error
    return Response(status_code=204)


@router.post("/namespaces/{namespace}/properties")
def update_properties(lake: LakeOf, namespace: str, body: Body) -> Response:
    found = find(lake, namespace)
    updates, removals = texts(body, "updates"), words(body, "removals")
    if both := sorted(set(updates) & set(removals)):
        raise RestError(422, "UnprocessableEntityException", f"Property {both[0]!r} is both updated and removed.")
    unknown = [key for key in removals if key not in found.properties]
    removed = [key for key in removals if key in found.properties]
    lake.own_catalog().set_database_properties(found.id, check_properties(updates), removed)
    return JSONResponse({"updated": sorted(updates), "removed": removed, "missing": unknown})


def find(lake: Lake, namespace: str) -> Database:
    """The database of a namespace in a path."""
    name = database(namespace)
    try:
        return lake.catalog.database(check_name(name, "database"))
    except (NotFound, InvalidInput) as error:
        raise missing("Namespace", name) from error
