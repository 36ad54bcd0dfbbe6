"""The HTTP side of a server: /healthz, /metrics, and whatever is mounted on the app.

The app is behind two gates. The first accepts only HTTP, for host names of this server. The second, if tokens are
required, checks the role of each route (`http_gate.py`). /healthz is open to everyone.
"""

from __future__ import annotations

import logging
import re
import threading
from typing import Final, Protocol

import uvicorn
from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException
from starlette.types import Scope

import moulin
from moulin.errors import MoulinError, PermissionDenied
from moulin.lake import Lake
from moulin.meta.auth import AccessFile
from moulin.meta.authority import Authority
from moulin.meta.config import ServeConfig, split_address
from moulin.meta.server import oauth
from moulin.meta.server.http_gate import CallerGate
from moulin.network.answers import answer, answer_with
from moulin.network.callers import RouteRule
from moulin.network.gate import HttpGate
from moulin.network.hosts import AllowedHosts, allowed_hosts
from moulin.network.http_server import configure, listen

log = logging.getLogger("moulin.http")
_OPEN: Final = RouteRule(frozenset({"GET", "HEAD"}), re.compile("/healthz"), None)
# It brings a name and secret instead of a token, which the endpoint checks.
_ASKING: Final = RouteRule(frozenset({"POST"}), re.compile(re.escape(oauth.PATH)), None)


class Exporter(Protocol):
    """What /metrics answers with."""

    def text(self) -> bytes: ...


def build_app(
    lake: Lake,
    *,
    access: AccessFile | Authority | None = None,
    metrics: Exporter | None = None,
    hosts: AllowedHosts | None = None,
) -> FastAPI:
    """The app over `lake`. Other parts mount theirs on it: `app.mount("/iceberg", other)`.

    `app.state` has the `lake`, the `authority`, the `rules` of routes, which parts add to, and `stopping`, which is
    set when the server is told to stop: an answer that goes on forever ends then.
    """
    app = FastAPI(title="Moulin", version=moulin.__version__, docs_url=None, redoc_url=None, openapi_url=None)
    authority = Authority(access) if isinstance(access, AccessFile) else access
    app.state.lake, app.state.authority = lake, authority
    app.state.rules, app.state.stopping = [_OPEN], threading.Event()
    app.add_middleware(CallerGate, authority=authority)
    app.add_middleware(HttpGate, hosts=hosts, answer=_refused)  # the last one added is passed first

    @app.exception_handler(MoulinError)
    async def _refuse(request: Request, error: MoulinError) -> Response:
        return answer(error)

    @app.exception_handler(HTTPException)
    async def _no_such(request: Request, error: HTTPException) -> Response:
        """Also for addresses below /iceberg that no mount takes, such as one with a line end in it."""
        if request.url.path.startswith("/iceberg/"):
            body = {
                "type": "UnsupportedOperationException",
                "message": "This endpoint does not exist.",
                "code": error.status_code,
            }
            return JSONResponse({"error": body}, status_code=error.status_code)
        return JSONResponse({"detail": error.detail}, status_code=error.status_code, headers=error.headers)

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
        app.state.rules.append(_ASKING)
    return app


def _refused(scope: Scope, status: int, message: str) -> Response:
    kind = "ForbiddenException" if scope["path"].startswith("/iceberg/") else PermissionDenied.__name__
    return answer_with(status, kind, message)


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
        self._stopping: threading.Event = app.state.stopping
        self._thread = threading.Thread(target=self._run, name="moulin-http", daemon=True)

    def _run(self) -> None:
        self._server.run(sockets=[self._socket])

    def start(self) -> HttpServer:
        self._thread.start()
        return self

    def end_streams(self) -> None:
        """End the answers that would go on forever; others are answered as before."""
        self._stopping.set()

    def stop(self) -> None:
        """Answer what was asked, and end."""
        self.end_streams()
        self._server.should_exit = True
        if self._thread.ident is not None:
            self._thread.join()
        self._socket.close()
