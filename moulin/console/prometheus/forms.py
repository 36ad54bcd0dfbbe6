"""Queries sent as POST forms by Grafana and promtool, for long queries."""

from __future__ import annotations

import re
from typing import Final

from starlette.types import ASGIApp, Receive, Scope, Send

from moulin.network.callers import Role, RouteRule

LARGEST: Final = 1 << 16
"""Bytes of a form; a longer one is refused as one without parameters."""
_PATHS: Final = r"/api/v1/(?:query|query_range|labels|series)"
_FORM: Final = b"application/x-www-form-urlencoded"


def rule(prefix: str) -> RouteRule:
    """A query looks, however it comes."""
    return RouteRule(frozenset({"POST"}), re.compile(re.escape(prefix) + _PATHS), Role.READ)


class Forms:
    """Answers a posted form as a request that has the same parameters in its address."""

    def __init__(self, app: ASGIApp, prefix: str) -> None:
        self._app, self._path = app, re.compile(re.escape(prefix) + _PATHS)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST" and self._path.fullmatch(scope["path"]):
            body = await _body(receive) if _is_form(scope) else b""
            joined = b"&".join(part for part in (scope["query_string"], body) if part)
            scope = {**scope, "method": "GET", "query_string": joined}
        await self._app(scope, receive, send)


def _is_form(scope: Scope) -> bool:
    return any(name == b"content-type" and value.startswith(_FORM) for name, value in scope["headers"])


async def _body(receive: Receive) -> bytes:
    """What was posted; nothing when it is too long, or its sender went away."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] != "http.request" or len(body) > LARGEST:
            return b""
        body += message.get("body", b"")
        more = message.get("more_body", False)
    return body if len(body) <= LARGEST else b""


__all__ = ["Forms", "rule"]
