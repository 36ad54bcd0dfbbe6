"""Publishing a branch: our own endpoint, below the prefix of the branch. See docs/operations/iceberg_rest.md."""

# Decisions: docs/decisions/0416

from __future__ import annotations

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse, Response

from moulin.errors import InvalidInput
from moulin.iceberg.rest.requests import Body, LakeOf, field
from moulin.lake import Lake

router = APIRouter()


@router.post("/publish", include_in_schema=False)
def publish(request: Request, branch: LakeOf, body: Body) -> Response:
    """Publish the branch as one version of main; {"dry-run": true} only returns the result."""
    main: Lake = request.app.state.lake
    if branch.on_branch is None:
        raise InvalidInput("Main is published already: name a branch, as in /v1/@exp/publish.")
    done = main.publish(branch.on_branch, dry_run=field(body, "dry-run", bool, False))
    tables = [
        {"name": one.name, "kind": one.kind, "inserted": one.inserted, "updated": one.updated, "deleted": one.deleted}
        for one in done.tables
    ]
    return JSONResponse({"version": done.version, "dry-run": done.dry_run, "tables": tables})
