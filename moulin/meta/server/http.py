"""The HTTP side of a server: /healthz, /metrics, and whatever is mounted on the app.

The whole app is behind two gates. The first takes HTTP only, for names of this server. At the second, with tokens on, a
request that only looks takes the role read, any other write. /healthz is open to everyone.
"""

from __future__ import annotations

import asyncio
import logging
import re
import threading
from collections.abc import Awaitable, Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.authentication import AuthCredentials, SimpleUser
from starlette.types import ASGIApp, Receive, Scope, Send

import moulin
from moulin.errors import (
    AlreadyExists,
    Conflict,
    Corrupt,
    FailedPrecondition,
    Fenced,
    InvalidInput,
    MoulinError,
    NotFound,
    PermissionDenied,
    Unauthenticated,
    Unavailable,
    Unsupported,
)
from moulin.lake import Lake
from moulin.meta.auth import ANYONE, AccessFile, Caller, bearer, caller
from moulin.meta.authority import Authority
from moulin.meta.config import ServeConfig, split_address
from moulin.meta.roles import Role
from moulin.meta.server import oauth
from moulin.meta.server.calls import REQUEST_ID
from moulin.model.ids import new_id
from moulin.network.gate import HttpGate, close_socket
from moulin.network.hosts import AllowedHosts, allowed_hosts
from moulin.network.http_server import configure, listen
from moulin.network.logs import request_id

log = logging.getLogger("moulin.http")
_LOOKS: Final = ("GET", "HEAD", "OPTIONS")
_OPEN: Final = ("/healthz",)
_WAITING: Final = 4  # requests whose tokens wait for the keys of an issuer at a time
# What engines that only read post. A table may have any of these names: the whole path counts.
_READING: Final = re.compile(r"/iceberg/v1/(?:@[^/]+/)?namespaces/[^/]+/tables/[^/]+/(?:metrics|plan|tasks)")
_CANCELLING: Final = re.compile(r"/iceberg/v1/(?:@[^/]+/)?namespaces/[^/]+/tables/[^/]+/plan/[^/]+")
_READS: Final = {"POST": _READING, "DELETE": _CANCELLING}
# How the Iceberg REST specification names what the gate refuses.
_ICEBERG: Final[dict[type[MoulinError], str]] = {
    Unauthenticated: "NotAuthorizedException",
    PermissionDenied: "ForbiddenException",
    Unavailable: "ServiceUnavailableException",
}
_STATUS: Final[dict[type[MoulinError], int]] = {
    InvalidInput: 400,
    Unauthenticated: 401,
    PermissionDenied: 403,
    NotFound: 404,
    AlreadyExists: 409,
    Conflict: 409,
    Fenced: 409,
    FailedPrecondition: 412,
    Corrupt: 500,
    Unsupported: 501,
    Unavailable: 503,
}


class Exporter(Protocol):
    """What /metrics answers with."""

    def text(self) -> bytes: ...


def status_of(error: MoulinError) -> int:
    """The HTTP status of an error."""
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)


def build_app(
    lake: Lake,
    *,
    access: AccessFile | Authority | None = None,
    metrics: Exporter | None = None,
    hosts: AllowedHosts | None = None,
) -> FastAPI:
    """The app over `lake`. Other parts mount theirs on it: `app.mount("/iceberg", other)`."""
    app = FastAPI(title="Moulin", version=moulin.__version__, docs_url=None, redoc_url=None, openapi_url=None)
    app.state.lake = lake
    authority = Authority(access) if isinstance(access, AccessFile) else access
    app.add_middleware(_Gate, authority=authority)
    app.add_middleware(HttpGate, hosts=hosts, answer=_refused)  # the last one added is passed first

    @app.exception_handler(MoulinError)
    async def _refuse(request: Request, error: MoulinError) -> Response:
        return _answer(error)

    @app.get("/healthz")
    def healthz() -> Response:
        """Whether the catalog answers."""
        try:
            return JSONResponse({"status": "ok", "version": lake.version})
        except MoulinError as error:
            return JSONResponse({"status": "failing", "error": error.message}, status_code=503)

    @app.get("/metrics")
    def figures() -> Response:
        text = b"" if metrics is None else metrics.text()
        return Response(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    if authority is not None and authority.tickets is not None:
        app.router.routes.append(oauth.route(authority.tickets))
    return app


class _Gate:
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

        answer: Callable[[Scope, Receive, Send], Awaitable[None]] = self._app
        try:
            known = await self._identify(scope)
            caller.set(known)
            # As Starlette's own middleware says it, for what is mounted and knows nothing of this layer.
            scope["user"] = SimpleUser(known.name)
            scope["auth"] = AuthCredentials([role.name.lower() for role in Role if role <= known.role])
        except MoulinError as error:
            if scope["type"] != "http":
                await close_socket(scope, send)
                return
            answer = _answer(error, _ICEBERG.get(type(error)) if scope["path"].startswith("/iceberg/") else None)
        await answer(scope, receive, send_with_id)

    async def _identify(self, scope: Scope) -> Caller:
        if self._authority is None or scope["path"] in _OPEN or self._asks_for_token(scope):
            return ANYONE
        token = bearer(_headers(scope))
        if self._authority.may_wait(token):
            loop = asyncio.get_running_loop()
            known = await loop.run_in_executor(self._threads, self._authority.authenticate, token)
        else:
            known = self._authority.authenticate(token)
        method = scope.get("method", "")  # a web socket has none
        reads = method in _READS and _READS[method].fullmatch(scope["path"]) is not None
        looks = method in _LOOKS or reads
        needed = Role.READ if looks else Role.WRITE
        if known.role < needed:
            raise PermissionDenied(f"This takes the role {needed.name.lower()}, and token {known.name!r} has not.")
        return known

    def _asks_for_token(self, scope: Scope) -> bool:
        """Whether a request brings a name and secret instead of a token; its endpoint checks them."""
        known = self._authority is not None and self._authority.tickets is not None
        return known and scope["type"] == "http" and scope["method"] == "POST" and scope["path"] == oauth.PATH


def _headers(scope: Scope) -> Iterable[tuple[str, str]]:
    return ((key.decode("latin-1"), value.decode("latin-1")) for key, value in scope["headers"])


def _answer(error: MoulinError, kind: str | None = None) -> Response:
    code = status_of(error)
    body = {"error": {"type": kind or type(error).__name__, "message": error.message, "code": code}}
    headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, Unauthenticated) else None
    return JSONResponse(body, status_code=code, headers=headers)


def _refused(scope: Scope, status: int, message: str) -> Response:
    kind = "ForbiddenException" if scope["path"].startswith("/iceberg/") else PermissionDenied.__name__
    return JSONResponse({"error": {"type": kind, "message": message, "code": status}}, status_code=status)


def hosts_of(serve: ServeConfig) -> AllowedHosts | None:
    """The names that a server's HTTP answers to."""
    return allowed_hosts(split_address(serve.http_bind)[0], serve.allowed_hosts)


class HttpServer:
    """The app on its port, in a thread of its own."""

    def __init__(self, app: FastAPI, serve: ServeConfig) -> None:
        self._socket = listen(*split_address(serve.http_bind), serve.limits)
        self.connections = self._socket.connections
        self.port: int = self._socket.getsockname()[1]
        config = configure(
            app,
            self._socket,
            certificate=serve.tls_certificate,
            key=serve.tls_key,
            drain_seconds=serve.drain_seconds,
        )
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._run, name="moulin-http", daemon=True)

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def start(self) -> HttpServer:
        self._thread.start()
        return self

    def stop(self) -> None:
        """Answer what was asked, and end."""
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join()
        self._socket.close()
