"""The authorization gate: checks the bearer token or the session cookie of a browser against the role of the route.

Parts that are mounted on the app add a `RouteRule` for each of their routes to `app.state.rules`. Routes without a rule
need the role read for reads and write for changes. Open routes need an explicit rule.
"""

# Decisions: docs/decisions/0530

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final

from starlette.authentication import AuthCredentials, SimpleUser
from starlette.types import ASGIApp, Receive, Scope, Send

from moulin.errors import MoulinError, PermissionDenied, Unauthenticated, Unavailable
from moulin.meta.auth import ANYONE, Caller, bearer, caller
from moulin.meta.authority import Authority
from moulin.meta.server.calls import REQUEST_ID
from moulin.model.ids import new_id
from moulin.network.answers import answer
from moulin.network.callers import COOKIE, COOKIE_PATH, IDENTIFY, Role, RouteRule
from moulin.network.gate import close_socket, header
from moulin.network.logs import request_id

_LOOKS: Final = ("GET", "HEAD", "OPTIONS")
_SITE: Final = b"sec-fetch-site"
_OWN_PAGE: Final = "same-origin"
# How the Iceberg REST specification names what the gate refuses.
_ICEBERG: Final[dict[type[MoulinError], str]] = {
    Unauthenticated: "NotAuthorizedException",
    PermissionDenied: "ForbiddenException",
    Unavailable: "ServiceUnavailableException",
}
_WAITING: Final = 4  # requests whose tokens wait for the keys of an issuer at a time


class CallerGate:
    """Asks for a token and gives every request an id. Plain ASGI, so that it also covers what is mounted."""

    def __init__(self, app: ASGIApp, authority: Authority | None) -> None:
        self._app, self._authority = app, authority
        self._threads = ThreadPoolExecutor(_WAITING, thread_name_prefix="moulin-issuer")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        request_id.set(call_id := str(new_id()))

        async def send_with_id(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), (REQUEST_ID.encode(), call_id.encode())]
            await send(message)

        respond: Callable[[Scope, Receive, Send], Awaitable[None]] = self._app
        try:
            known = await self._identify(scope)
            caller.set(known)
            scope[IDENTIFY] = partial(self._identify, scope)
            # As Starlette's own middleware says it, for what is mounted and knows nothing of this layer.
            scope["user"] = SimpleUser(known.name)
            scope["auth"] = AuthCredentials([role.name.lower() for role in Role if role <= known.role])
        except MoulinError as error:
            if scope["type"] != "http":
                await close_socket(scope, send)
                return
            respond = answer(error, _ICEBERG.get(type(error)) if scope["path"].startswith("/iceberg/") else None)
        await respond(scope, receive, send_with_id)

    async def _identify(self, scope: Scope) -> Caller:
        """Who calls; Unauthenticated or PermissionDenied when they may not."""
        _refuse_other_pages(scope)
        needed = _role(scope)
        if self._authority is None or needed is None:
            return ANYONE
        token = _token(scope)
        if self._authority.may_wait(token):
            loop = asyncio.get_running_loop()
            known = await loop.run_in_executor(self._threads, self._authority.authenticate, token)
        else:
            known = self._authority.authenticate(token)
        if known.role < needed:
            raise PermissionDenied(f"This takes the role {needed.name.lower()}, and token {known.name!r} has not.")
        return known


def _role(scope: Scope) -> Role | None:
    """The role that a request takes; None for an open route."""
    method = scope.get("method", "")  # a web socket has none
    rules: Sequence[RouteRule] = getattr(getattr(scope.get("app"), "state", None), "rules", ())
    for rule in rules:
        if rule.covers(method, scope["path"]):
            return rule.role
    return Role.READ if method in _LOOKS else Role.WRITE


def _token(scope: Scope) -> str:
    if header(scope, b"authorization") is None and (token := _session(scope)) is not None:
        return token
    return bearer(_headers(scope))


def _session(scope: Scope) -> str | None:
    """The token in the cookie of a browser; None without one, and on paths that it is not for."""
    if not _is_for_browsers(scope):
        return None
    for text in (value for key, value in _headers(scope) if key == "cookie"):
        for pair in text.split(";"):
            name, equals, value = pair.strip().partition("=")
            if name == COOKIE and equals and value:
                return value
    return None


def _refuse_other_pages(scope: Scope) -> None:
    """Raises PermissionDenied for a request from a page of another site in the user's browser.

    Browsers say in `Sec-Fetch-Site` whose page it was; programs send neither that nor a cookie.
    """
    if not _is_for_browsers(scope):
        return
    site = header(scope, _SITE)
    by_cookie = header(scope, b"authorization") is None and _session(scope) is not None
    if scope.get("method") in _LOOKS:
        allowed = not by_cookie or site in (None, "none", _OWN_PAGE)
    else:
        allowed = site == _OWN_PAGE or (site is None and not by_cookie)
    if not allowed:
        raise PermissionDenied(
            "Only pages of this server can use its session: send the token as `authorization: Bearer ...` instead."
        )


def _is_for_browsers(scope: Scope) -> bool:
    path: str = scope["path"]
    return path == COOKIE_PATH or path.startswith(f"{COOKIE_PATH}/")


def _headers(scope: Scope) -> Iterable[tuple[str, str]]:
    return ((key.decode("latin-1"), value.decode("latin-1")) for key, value in scope["headers"])
