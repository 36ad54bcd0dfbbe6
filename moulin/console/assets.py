"""The static files of the console: read and compressed once, and served with a strict content security policy."""

# Decisions: docs/decisions/0532

from __future__ import annotations

import gzip
import hashlib
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from fastapi import FastAPI, Request, Response

from moulin.network.callers import RouteRule

FOLDER: Final = Path(__file__).parent / "static"
_TYPES: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
POLICY: Final = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "style-src-attr 'unsafe-inline'",
        "img-src 'self' data:",
        "connect-src 'self'",
        "base-uri 'none'",
        "form-action 'self'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
GUARDS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
}
_PAGE: Final = "index.html"
RULES: Final = [RouteRule(frozenset({"GET", "HEAD"}), re.compile("/|/assets/.*"), None)]


@dataclass(frozen=True, slots=True)
class Asset:
    """One file, as it is sent."""

    body: bytes
    packed: bytes
    kind: str
    tag: str


@cache
def load() -> dict[str, Asset]:
    """Every file that pages may ask for, by its path below `static/`."""
    found = {}
    for path in sorted(FOLDER.rglob("*")):
        if (kind := _TYPES.get(path.suffix)) is not None:
            body = path.read_bytes()
            tag = f'"{hashlib.sha256(body).hexdigest()[:20]}"'
            found[path.relative_to(FOLDER).as_posix()] = Asset(body, gzip.compress(body, 9, mtime=0), kind, tag)
    return found


def mount(app: FastAPI) -> None:
    """Serve the page under `/` and the other files under `/assets/`."""

    @app.api_route("/", methods=["GET", "HEAD"], include_in_schema=False)
    def page(request: Request) -> Response:
        return _respond(request, load()[_PAGE])

    @app.api_route("/assets/{path:path}", methods=["GET", "HEAD"], include_in_schema=False)
    def file(request: Request, path: str) -> Response:
        found = load().get(path)
        return (
            Response("This file does not exist.\n", 404, media_type="text/plain")
            if found is None
            else _respond(request, found)
        )


def _respond(request: Request, asset: Asset) -> Response:
    headers = {
        **GUARDS,
        "Content-Security-Policy": POLICY,
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cache-Control": "no-cache",
        "Vary": "Accept-Encoding",
        "ETag": asset.tag,
    }
    if asset.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=headers)
    packed = "gzip" in request.headers.get("accept-encoding", "")
    if packed:
        headers["Content-Encoding"] = "gzip"
    return Response(asset.packed if packed else asset.body, headers=headers, media_type=asset.kind)
