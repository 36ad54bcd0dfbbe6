"""Views: list, load, check, drop, rename."""

from __future__ import annotations

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from moulin.errors import AlreadyExists, InvalidInput, NotFound
from moulin.iceberg.rest import namespaces
from moulin.iceberg.rest.errors import missing
from moulin.iceberg.rest.requests import Body, LakeOf, PageSize, PageToken, database, levels, page
from moulin.iceberg.rest.tables import already_exists, identifier
from moulin.iceberg.rest.views.documents import loaded
from moulin.lake import Lake
from moulin.model.entities import View
from moulin.model.names import check_name, full_name

router = APIRouter()


@router.get("/namespaces/{namespace}/views")
def list_views(lake: LakeOf, namespace: str, token: PageToken = None, size: PageSize = None) -> Response:
    name = namespaces.find(lake, namespace).name
    names, following = page(sorted(view.name for view in lake.views(name)), token, size)
    found = [{"namespace": levels(namespace), "name": view} for view in names]
    return JSONResponse({"identifiers": found, "next-page-token": following})


@router.get("/namespaces/{namespace}/views/{view}")
def load_view(lake: LakeOf, namespace: str, view: str) -> Response:
    return JSONResponse(loaded(lake, find(lake, namespace, view)))


@router.head("/namespaces/{namespace}/views/{view}")
def view_exists(lake: LakeOf, namespace: str, view: str) -> Response:
    find(lake, namespace, view)
    return Response(status_code=204)


@router.delete("/namespaces/{namespace}/views/{view}")
def drop_view(lake: LakeOf, namespace: str, view: str) -> Response:
    found = find(lake, namespace, view)
    lake.drop_view(full_name(found.database, found.name))
    return Response(status_code=204)


@router.post("/views/rename")
def rename_view(lake: LakeOf, body: Body) -> Response:
    (old_database, old), (new_database, new) = identifier(body, "source"), identifier(body, "destination")
    found = find(lake, old_database, old)
    namespaces.find(lake, new_database)
    try:
        lake.rename_view(full_name(found.database, found.name), full_name(new_database, check_name(new, "view")))
    except AlreadyExists as error:
        raise already_exists(lake, "View", new_database, new, source=f"{old_database}.{old}") from error
    return Response(status_code=204)


def find(lake: Lake, namespace: str, view: str) -> View:
    """The view of a path. Without its namespace it is a missing view, too."""
    try:
        return lake.catalog.view(database(namespace), check_name(view, "view"))
    except (NotFound, InvalidInput) as error:
        raise missing("View", f"{namespace}.{view}") from error
