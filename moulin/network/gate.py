"""The first gate for a request: it must be HTTP, with a host name of the server.

Plain ASGI, around an app and everything mounted on it. A web socket is accepted if a route of the app uses one, with
the same checks.
"""

# Decisions: docs/decisions/0221

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from starlette.responses import Response
from starlette.routing import Match, WebSocketRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from moulin.network.hosts import AllowedHosts

POLICY_VIOLATION: Final = 1008

Answer = Callable[[Scope, int, str], Response]
"""Makes the answer to a refused request: of its scope, a status and a message."""


class HttpGate:
    """Refuses what is not HTTP, and what names a foreign host."""

    def __init__(self, app: ASGIApp, hosts: AllowedHosts | None, answer: Answer) -> None:
        self._app, self._hosts, self._answer = app, hosts, answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http" and not _is_asked_for(scope):
            await close_socket(scope, send)
            return
        refusal = None
        if self._hosts is not None:
            refusal = self._hosts.refusal(header(scope, b"host"), header(scope, b"origin"))
        if refusal is None:
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await self._answer(scope, *refusal)(scope, receive, send)
        else:
            await close_socket(scope, send)


def header(scope: Scope, name: bytes) -> str | None:
    """A header of a request, None when it has none."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), None)


async def close_socket(scope: Scope, send: Send) -> None:
    """Refuse a web socket before it is open, and whatever else is not HTTP."""
    if scope["type"] != "websocket":
        raise RuntimeError(f"This server supports only HTTP, not {scope['type']}.")
    await send({"type": "websocket.close", "code": POLICY_VIOLATION})


def _is_asked_for(scope: Scope) -> bool:
    routes = getattr(scope.get("app"), "routes", ())
    return any(isinstance(route, WebSocketRoute) and route.matches(scope)[0] is Match.FULL for route in routes)
