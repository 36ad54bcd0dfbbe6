"""Views that engines create, change and register. Their SQL is stored unchanged and checked when it is run."""

# Decisions: docs/decisions/0500, docs/decisions/0501

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from uuid import UUID

from fastapi import APIRouter
from fastapi.responses import JSONResponse, Response

from moulin.errors import AlreadyExists, Conflict, InvalidInput, MoulinError, NotFound, Unsupported
from moulin.iceberg.format.json import Json
from moulin.iceberg.rest import namespaces
from moulin.iceberg.rest.commit.register import path_in_lake
from moulin.iceberg.rest.commit.shapes import read_schema
from moulin.iceberg.rest.errors import CommitStateUnknown, RestError
from moulin.iceberg.rest.requests import Body, LakeOf, field, texts
from moulin.iceberg.rest.tables import already_exists, identifier
from moulin.iceberg.rest.views import documents
from moulin.iceberg.rest.views.updates import FORMAT_VERSION, Changed, apply, check_requirements
from moulin.iceberg.rest.views.views import find
from moulin.lake import Lake
from moulin.model import view_history
from moulin.model.entities import View, ViewHistory, ViewQuery
from moulin.model.names import check_name, full_name
from moulin.model.schema.values import Schema
from moulin.table.commit.retry import back_off, retry

router = APIRouter()
_ATTEMPTS: Final = 5
_MAX_FILE: Final = 8 << 20


@router.post("/namespaces/{namespace}/views")
def create_view(lake: LakeOf, namespace: str, body: Body) -> Response:
    database = namespaces.find(lake, namespace).name
    name = check_name(field(body, "name", str), "view")
    given = read_schema(field(body, "schema", dict))
    schema = Schema(*given.fields, schema_id=0, identifier_field_ids=given.identifier_field_ids)
    version = documents.read_version(field(body, "view-version", dict))
    version = replace(version, version_id=1, schema_id=0)
    location = field(body, "location", str, None)
    history = ViewHistory(1, (version,), ((version.timestamp_ms, 1),), (schema,), location)
    view_history.kept(properties := texts(body, "properties"))
    return JSONResponse(documents.loaded(lake, _made(lake, database, name, history, properties)))


@router.post("/namespaces/{namespace}/views/{view}")
def replace_view(lake: LakeOf, namespace: str, view: str, body: Body) -> Response:
    if "identifier" in body and identifier(body, "identifier")[1] != view:
        raise InvalidInput("The request's identifier is not the view of its path.")
    changed = retry(
        _ATTEMPTS, lambda: _replaced(lake, namespace, view, body), lambda error: isinstance(error, Conflict), back_off
    )
    try:
        return JSONResponse(documents.loaded(lake, changed))
    except MoulinError as error:
        raise CommitStateUnknown(f"The commit was made, and cannot be shown ({error.message}).") from error


@router.post("/namespaces/{namespace}/register-view")
def register_view(lake: LakeOf, namespace: str, body: Body) -> Response:
    """A view of the lake by the address that it is shown with, or one whose metadata lies in the lake's storage."""
    database = namespaces.find(lake, namespace).name
    name = check_name(field(body, "name", str), "view")
    where = field(body, "metadata-location", str)
    known = documents.named_view(where)
    found = None if known is None else _known(lake, known)
    if found is not None:
        history, properties = documents.history_of(lake, found), documents.properties_of(found)
        history = replace(history, uuid=history.uuid or str(found.id))
    else:
        history, properties = _read_file(lake, where)
    return JSONResponse(documents.loaded(lake, _made(lake, database, name, history, properties)))


def _made(lake: Lake, database: str, name: str, history: ViewHistory, properties: Mapping[str, str]) -> View:
    query, description = _query(history, properties)
    try:
        return lake.own_catalog().create_view(database, name, [], description, query=query)
    except AlreadyExists as error:
        raise already_exists(lake, "View", database, name) from error


def _query(history: ViewHistory, properties: Mapping[str, str]) -> tuple[ViewQuery, str | None]:
    """The catalog's form of a view: its query and description."""
    own = dict(properties)
    description = own.pop(documents.COMMENT, None)
    return ViewQuery(history.current.representations, history.schema, own, history=history), description


def _replaced(lake: Lake, namespace: str, name: str, body: Json) -> View:
    view = find(lake, namespace, name)
    history = documents.history_of(lake, view)
    uuid = history.uuid or str(view.id)
    check_requirements(field(body, "requirements", list, []), uuid)
    before = documents.properties_of(view)
    changed = Changed(history, dict(before), uuid)
    apply(field(body, "updates", list), changed)
    if (changed.history, changed.properties) == (history, before):
        return view
    if view.query is None and changed.history.current_id == history.current_id:
        raise Unsupported(
            f"View {full_name(view.database, view.name)} is a union of tables, and has no properties, location or "
            "versions: replace it by a query."
        )
    query, description = _query(changed.history, changed.properties)
    expected = 0 if view.query is None else view.query.version
    try:
        return lake.own_catalog().create_view(
            view.database, view.name, [], description, query=query, replace=True, expected=expected
        )
    except NotFound:
        return find(lake, namespace, name)  # says that it is gone
    except Conflict as error:
        raise Conflict(f"Cannot commit: {error.message}") from error


def _known(lake: Lake, view_id: UUID) -> View | None:
    """The view of the lake with this id, live or dropped."""
    for database in lake.databases():
        for view in lake.views(database.name, include_dropped=True):
            if view.id == view_id:
                return view
    return None


def _read_file(lake: Lake, where: str) -> tuple[ViewHistory, dict[str, str]]:
    """Metadata of a view in the lake's storage; an error says nothing of what else a file holds."""
    path = path_in_lake(lake, where)
    try:
        if lake.store.head(path).size > _MAX_FILE:
            raise InvalidInput(f"{path} is too large for the metadata of a view.")
        document = json.loads(lake.store.get(path))
    except NotFound:
        raise InvalidInput(f"{path} is not there.") from None
    except (ValueError, RecursionError):
        raise InvalidInput(f"{path} is not metadata of a view.") from None
    try:
        return _read_document(document)
    except (InvalidInput, RestError, AttributeError, TypeError, ValueError):
        raise InvalidInput(f"{path} is not metadata of a view of format version {FORMAT_VERSION}.") from None


def _read_document(document: Json) -> tuple[ViewHistory, dict[str, str]]:
    if field(document, "format-version", int) != FORMAT_VERSION:
        raise InvalidInput("another format version")
    history = ViewHistory(
        field(document, "current-version-id", int),
        tuple(documents.read_version(one) for one in field(document, "versions", list)),
        tuple(
            (field(one, "timestamp-ms", int), field(one, "version-id", int))
            for one in field(document, "version-log", list)
        ),
        tuple(read_schema(one) for one in field(document, "schemas", list)),
        field(document, "location", str),
        str(UUID(field(document, "view-uuid", str))),
    )
    properties = texts(document, "properties")
    ids = {one.version_id for one in history.versions}
    if history.current_id not in ids or history.current.schema_id not in {one.schema_id for one in history.schemas}:
        raise InvalidInput("no current version")
    return view_history.trimmed(history, view_history.kept(properties)), properties
