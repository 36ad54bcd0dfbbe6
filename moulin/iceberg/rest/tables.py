"""Tables: list, load, check, drop, rename. Loading one projects it, if that was not done for its version yet."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import APIRouter, Header, Query
from fastapi.responses import JSONResponse, Response

from moulin.errors import AlreadyExists, InvalidInput, NotFound
from moulin.iceberg.format import metadata as documents
from moulin.iceberg.format.json import Json
from moulin.iceberg.format.locations import location
from moulin.iceberg.projection.folding import folded
from moulin.iceberg.projection.projection import Projection, find_whole, project
from moulin.iceberg.rest import namespaces
from moulin.iceberg.rest.credentials import BorrowerOf, Lent, lend
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
)
from moulin.lake import Lake
from moulin.model.entities import TableState
from moulin.model.names import AT, check_name, full_name
from moulin.sized_cache import SizedCache
from moulin.storage import paths
from moulin.table.keyed.tables import flush_table

router = APIRouter()
Snapshots = Literal["all", "refs"]


@router.get("/namespaces/{namespace}/tables")
def list_tables(lake: LakeOf, namespace: str, token: PageToken = None, size: PageSize = None) -> Response:
    name = namespaces.find(lake, namespace).name
    names, following = page(sorted(table.name for table in lake.tables(name)), token, size)
    found = [{"namespace": levels(namespace), "name": table} for table in names]
    return JSONResponse({"identifiers": found, "next-page-token": following})


@router.get("/namespaces/{namespace}/tables/{table}")
def load_table(
    lake: LakeOf,
    borrower: BorrowerOf,
    namespace: str,
    table: str,
    snapshots: Snapshots = "all",
    if_none_match: Annotated[str | None, Header()] = None,
) -> Response:
    state = flushed(lake, namespace, table)
    chosen = documents.format_version(state)
    known = find_whole(lake.context, state.id, chosen, state.head_version)
    lent = lend(lake, borrower, state.id, credentials_path(lake, namespace, table))
    if known is None or (snapshots == "refs" and if_none_match is None):
        return loaded(lake, state, snapshots, lent=lent)
    tag = etag(lake, state, chosen, snapshots)
    tag = tag if lent is None else lent.tag(tag)
    if if_none_match is not None and tag in {one.strip() for one in if_none_match.split(",")}:
        return Response(status_code=304, headers={"ETag": tag})
    try:
        raw = read_cached(lake, known.path) if snapshots == "all" else None
    except NotFound:
        raw = None  # cleaned up since it was looked up
    if raw is None:
        return loaded(lake, state, snapshots, lent=lent)
    return _raw(location(lake.store, known.path), raw, tag, lent)


@router.head("/namespaces/{namespace}/tables/{table}")
def table_exists(lake: LakeOf, namespace: str, table: str) -> Response:
    find(lake, namespace, table)
    return Response(status_code=204)


@router.delete("/namespaces/{namespace}/tables/{table}")
def drop_table(
    lake: LakeOf, namespace: str, table: str, purge: Annotated[bool, Query(alias="purgeRequested")] = False
) -> Response:
    """Dropped tables can be resurrected for a while, unless a purge is asked for."""
    state = find(lake, namespace, table)
    lake.drop_table(state.full_name, immediate=purge)
    return Response(status_code=204)


@router.post("/tables/rename")
def rename_table(lake: LakeOf, body: Body) -> Response:
    (old_database, old), (new_database, new) = identifier(body, "source"), identifier(body, "destination")
    find(lake, old_database, old)
    namespaces.find(lake, new_database)
    try:
        lake.rename_table(full_name(old_database, old), full_name(new_database, check_name(new, "table")))
    except AlreadyExists as error:
        raise already_exists(lake, "Table", new_database, new, source=f"{old_database}.{old}") from error
    return Response(status_code=204)


@router.post("/namespaces/{namespace}/tables/{table}/metrics")
def report_metrics(lake: LakeOf, namespace: str, table: str, body: Body) -> Response:
    """Reports of scans and commits are accepted and discarded."""
    find(lake, namespace, table)
    field(body, "report-type", str)
    return Response(status_code=204)


@router.get("/namespaces/{namespace}/tables/{table}/credentials")
def credentials(lake: LakeOf, borrower: BorrowerOf, namespace: str, table: str) -> Response:
    """Credentials that were not lent before, or have most of their time before them; none where none are lent."""
    state = find(lake, namespace, table)
    lent = lend(lake, borrower, state.id, credentials_path(lake, namespace, table), always=True)
    found = [] if lent is None else lent.storage_credentials
    return JSONResponse({"storage-credentials": found}, headers={"Cache-Control": "no-store"})


def credentials_path(lake: Lake, namespace: str, table: str) -> str:
    """Where credentials of a table are renewed, below the address of the catalog."""
    prefix = "" if lake.on_branch is None else f"/{AT}{lake.on_branch}"
    return f"v1{prefix}/namespaces/{quote(namespace, safe='')}/tables/{quote(table, safe='')}/credentials"


def identifier(body: Json, name: str) -> tuple[str, str]:
    """Database and name of a table identifier in a body."""
    found = field(body, name, dict)
    return database_in_body(field(found, "namespace", list)), field(found, "name", str)


def already_exists(
    lake: Lake, wanted: Literal["Table", "View"], database: str, name: str, *, source: str | None = None
) -> RestError:
    """The answer when a name is taken that was `wanted` for a table or view, in the words that clients look for.

    `source` is what was to be renamed.
    """
    kind = taken_by(lake, database, name) or wanted
    if source is not None:
        message = f"Cannot rename {source} to {database}.{name}. {kind} already exists"
        return RestError(409, "AlreadyExistsException", message)
    return taken(kind if kind == wanted else f"{kind} with same name", f"{database}.{name}")


def taken_by(lake: Lake, database: str, name: str) -> Literal["Table", "View"] | None:
    """The object with a name; None if it is free."""
    with suppress(NotFound):
        lake.catalog.table(database, name)
        return "Table"
    with suppress(NotFound):
        lake.catalog.view(database, name)
        return "View"
    return None


def find(lake: Lake, namespace: str, table: str) -> TableState:
    """The table of a path. Without its namespace it is a missing table too: engines that look for metadata tables
    (`shop.orders.snapshots`) ask for a table of a nested namespace first, and go on when there is none.
    """
    try:
        return lake.catalog.table(database(namespace), check_name(table, "table"))
    except (NotFound, InvalidInput, RestError) as error:
        raise missing("Table", f"{namespace.replace(SEPARATOR, '.')}.{table}") from error


def flushed(lake: Lake, namespace: str, table: str) -> TableState:
    """The table of a path, flushed and folded. Other tables are not touched."""
    state = find(lake, namespace, table)
    flush_table(lake.context, state.id)
    return folded(lake.context, find(lake, namespace, table))


def etag(lake: Lake, state: TableState, format_version: int, snapshots: Snapshots) -> str:
    """Responses have the same tag if and only if they are equal, so a moved lake has different ones."""
    where = location(lake.store, paths.metadata_prefix(state.id))
    text = f"{where} {format_version} {state.head_version} {snapshots}"
    return f'"{hashlib.sha256(text.encode()).hexdigest()[:32]}"'


def read_cached(lake: Lake, path: str) -> bytes:
    """The bytes of a metadata file, which never change."""
    where = location(lake.store, path)
    data = _metadata.find(where)
    if data is None:
        data = lake.store.get(path)
        if len(data) <= _LARGEST:
            _metadata.keep(where, data)
    return data


_FILES, _LARGEST = 256, 256 << 10
_metadata: SizedCache[str, bytes] = SizedCache(_FILES)


def _raw(where: str, metadata: bytes, tag: str, lent: Lent | None) -> Response:
    """The answer with metadata as it is stored."""
    rest: Json = {"config": {}} if lent is None else lent.join({"config": {}})
    more = json.dumps(rest, separators=(",", ":")).encode()[1:]
    body = b'{"metadata-location":%s,"metadata":%s,%s' % (json.dumps(where).encode(), metadata, more)
    return Response(body, media_type="application/json", headers={"ETag": tag, **_caching(lent)})


def _caching(lent: Lent | None) -> dict[str, str]:
    return {} if lent is None else {"Cache-Control": "private, no-cache"}


def loaded(
    lake: Lake,
    state: TableState,
    snapshots: Snapshots = "all",
    *,
    version: int | None = None,
    lent: Lent | None = None,
) -> Response:
    """A table's metadata, location and tag as an answer; at `version`, by default now."""
    found = project(lake.context, state.id, version, known=state if version is None else None)
    shown = lake.catalog.table_by_id(state.id, found.version) if found.version != state.head_version else state
    tag = etag(lake, shown, found.format_version, snapshots)
    tag = tag if lent is None else lent.tag(tag)
    if snapshots == "all" and found.data is not None:
        return _raw(found.location, found.data, tag, lent)
    body = load_result(found, snapshots)
    body = body if lent is None else lent.join(body)
    text = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return Response(text.encode(), media_type="application/json", headers={"ETag": tag, **_caching(lent)})


def load_result(found: Projection, snapshots: Snapshots = "all") -> Json:
    metadata = found.metadata
    if snapshots == "refs":
        kept = {ref["snapshot-id"] for ref in metadata["refs"].values()}
        metadata = {**metadata, "snapshots": [one for one in metadata["snapshots"] if one["snapshot-id"] in kept]}
    return {"metadata-location": found.location, "metadata": metadata, "config": {}}
