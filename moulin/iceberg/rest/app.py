"""The Iceberg REST catalog as an app, to be mounted under /iceberg of a server. See docs/operations/iceberg_rest.md."""

# Decisions: docs/decisions/0416

from __future__ import annotations

import re

from fastapi import APIRouter, FastAPI
from fastapi.responses import JSONResponse, Response

import moulin
from moulin.iceberg.rest import branches, errors, namespaces, openapi, tables
from moulin.iceberg.rest.commit import commit, create, register
from moulin.iceberg.rest.idempotency import LIFETIME, Idempotency
from moulin.iceberg.rest.requests import LakeOf
from moulin.iceberg.rest.scan import plan as scans
from moulin.iceberg.rest.scan.pending import Plans
from moulin.iceberg.rest.turns import Turns
from moulin.iceberg.rest.views import changes, views
from moulin.lake import Lake
from moulin.model.names import AT, MAIN, is_branch_name
from moulin.model.table_settings import REBASE_APPENDS
from moulin.network.callers import Role, RouteRule

PREFIX = "/iceberg"
_TABLES = PREFIX + "/v1/(?:@[^/]+/)?namespaces/[^/]+/tables/[^/]+"
# What engines that only read post, and how they cancel. A table may have any of these names: the whole path counts.
_READING = [
    RouteRule(frozenset({"POST"}), re.compile(_TABLES + "/(?:metrics|plan|tasks)"), Role.READ),
    RouteRule(frozenset({"DELETE"}), re.compile(_TABLES + "/plan/[^/]+"), Role.READ),
]
_ROUTERS = (
    namespaces.router,
    tables.router,
    create.router,
    register.router,
    commit.router,
    scans.router,
    views.router,
    changes.router,
)

router = APIRouter()


@router.get("/config")
def config(lake: LakeOf, warehouse: str | None = None) -> Response:
    """What this catalog can do. The `warehouse` that a client names is the lake, whatever its name.

    With @branch at its end it is that branch: all further paths begin with the prefix that is returned.
    """
    branch = (warehouse or "").rpartition(AT)[2] if AT in (warehouse or "") else MAIN
    prefix = {}
    if branch != MAIN and is_branch_name(branch):
        prefix = {"prefix": AT + lake.catalog.branch(branch).name}
    # The specification wants a ref to stand where a commit says: tables with this property take appends all the same.
    defaults = {"moulin.table-property.rebase-appends": REBASE_APPENDS}
    return JSONResponse(
        {"defaults": defaults, "overrides": prefix, "endpoints": ENDPOINTS, "idempotency-key-lifetime": LIFETIME}
    )


def _endpoints() -> list[str]:
    """Every endpoint, as the specification spells them: `GET /v1/{prefix}/namespaces`."""
    return [
        f"{method} /v1/{{prefix}}{getattr(route, 'path', '').replace('_', '-')}"
        for part in _ROUTERS
        for route in part.routes
        if getattr(route, "include_in_schema", False)  # those that only say why not are left out
        for method in sorted(getattr(route, "methods", ()))
    ]


ENDPOINTS = _endpoints()


@router.get("/openapi.json", include_in_schema=False)
def openapi_document() -> Response:
    """Every endpoint as OpenAPI."""
    return Response(openapi.render(ENDPOINTS), media_type="application/json")


def build(lake: Lake) -> FastAPI:
    """The catalog over `lake`."""
    app = FastAPI(
        title="Moulin Iceberg REST", version=moulin.__version__, docs_url=None, redoc_url=None, openapi_url=None
    )
    app.state.lake, app.state.turns = lake, Turns()
    app.state.plans = Plans()
    errors.install(app)
    app.add_middleware(Idempotency)
    for part in (router, *_ROUTERS):
        app.include_router(part, prefix="/v1")
    for part in (branches.router, *_ROUTERS):
        app.include_router(part, prefix=f"/v1/{AT}{{branch}}")
    return app


def mount(app: FastAPI) -> None:
    """Put the catalog of the server's lake under its prefix."""
    app.state.rules.extend(_READING)
    app.mount(PREFIX, build(app.state.lake))


__all__ = ["ENDPOINTS", "PREFIX", "build", "mount"]
