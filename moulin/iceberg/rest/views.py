"""Views: the lake's own, as SQL that engines can read. Unions become texts, and queries have theirs.

Engines list, load, check, rename and drop them. None is made here: the lake plans a text before it stores it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from moulin.errors import InvalidInput, NotFound, Unsupported
from moulin.iceberg.format.json import Json
from moulin.iceberg.format.locations import location
from moulin.iceberg.format.metadata import schema_json
from moulin.iceberg.rest import namespaces
from moulin.iceberg.rest.errors import no_such
from moulin.iceberg.rest.requests import Body, LakeOf, PageSize, PageToken, page
from moulin.iceberg.rest.tables import identifier
from moulin.lake import Lake
from moulin.model.entities import SPARK, Representation, View, ViewQuery
from moulin.model.names import check_name, quote
from moulin.model.schema.values import Schema
from moulin.storage import paths

router = APIRouter()
_DIALECTS = {SPARK: "`", "duckdb": '"'}
_Shown = tuple[Schema, int, Sequence[Representation]]


@router.get("/namespaces/{namespace}/views")
def list_views(lake: LakeOf, namespace: str, token: PageToken = None, size: PageSize = None) -> Response:
    name = namespaces.find(lake, namespace).name
    names, following = page(sorted(view.name for view in lake.views(name)), token, size)
    found = [{"namespace": [name], "name": view} for view in names]
    return JSONResponse({"identifiers": found, "next-page-token": following})


@router.get("/namespaces/{namespace}/views/{view}")
def load_view(lake: LakeOf, namespace: str, view: str) -> Response:
    found = find(lake, namespace, view)
    metadata = _metadata(lake, found)
    return JSONResponse({"metadata-location": f"{metadata['location']}/view.json", "metadata": metadata, "config": {}})


@router.head("/namespaces/{namespace}/views/{view}")
def view_exists(lake: LakeOf, namespace: str, view: str) -> Response:
    find(lake, namespace, view)
    return Response(status_code=204)


@router.post("/namespaces/{namespace}/views", include_in_schema=False)
def create_view(lake: LakeOf, namespace: str, body: Body) -> Response:
    namespaces.find(lake, namespace)
    raise Unsupported("Views are made with lake.create_view or CREATE VIEW in lake.sql, and not through this catalog.")


@router.delete("/namespaces/{namespace}/views/{view}")
def drop_view(lake: LakeOf, namespace: str, view: str) -> Response:
    found = find(lake, namespace, view)
    lake.drop_view(f"{found.database}.{found.name}")
    return Response(status_code=204)


@router.post("/views/rename")
def rename_view(lake: LakeOf, body: Body) -> Response:
    (old_database, old), (new_database, new) = identifier(body, "source"), identifier(body, "destination")
    found = find(lake, old_database, old)
    namespaces.find(lake, new_database)
    lake.rename_view(f"{found.database}.{found.name}", f"{new_database}.{check_name(new, 'view')}")
    return Response(status_code=204)


def find(lake: Lake, namespace: str, view: str) -> View:
    """The view of a path."""
    name = namespaces.find(lake, namespace).name
    try:
        return lake.catalog.view(name, check_name(view, "view"))
    except (NotFound, InvalidInput) as error:
        raise no_such("View", error.message) from error


def _metadata(lake: Lake, view: View) -> Json:
    """The view as the view specification has it, with its present version alone."""
    schema, version, texts = _union(lake, view) if view.query is None else _query(view.query)
    at = view.created_at // 1_000_000
    comment = {} if view.description is None else {"comment": view.description}
    return {
        "view-uuid": str(view.id),
        "format-version": 1,
        "location": location(lake.store, f"{paths.tables_prefix()}/views/{view.id}"),
        "current-version-id": version,
        "versions": [
            {
                "version-id": version,
                "timestamp-ms": at,
                "schema-id": schema.schema_id,
                "summary": {"engine-name": "moulin"},
                "default-namespace": [view.database],
                "representations": [{"type": "sql", "dialect": one.dialect, "sql": one.sql} for one in texts],
            }
        ],
        "version-log": [{"timestamp-ms": at, "version-id": version}],
        "schemas": [schema_json(schema, 3)],
        "properties": {**({} if view.query is None else view.query.properties), **comment},
    }


def _union(lake: Lake, view: View) -> _Shown:
    """Its columns are those of its first table, and another list of tables is another version."""
    schema = lake.catalog.table_by_id(view.members[0].id).schema
    members = hashlib.sha256(repr(view.members).encode()).digest()
    texts = [Representation(name, _sql(view, schema.column_names, mark)) for name, mark in _DIALECTS.items()]
    return schema, 1 + int.from_bytes(members[:3], "big"), texts


def _query(query: ViewQuery) -> _Shown:
    return query.schema, query.version, query.representations


def _sql(view: View, columns: list[str], mark: str) -> str:
    def spelled(name: str) -> str:
        return quote(name) if mark == "`" else mark + name.replace(mark, mark * 2) + mark

    shown = ", ".join(spelled(name) for name in columns if "." not in name)
    return " UNION ALL ".join(f"SELECT {shown} FROM {spelled(table.name)}" for table in view.members)
