"""The console on a server: its files under `/`, its API under `/api/v1`. See docs/operations/console.md."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from fastapi import APIRouter, Depends, FastAPI, Request, Response
from fastapi.exceptions import HTTPException, RequestValidationError
from fastapi.routing import APIRoute
from starlette.datastructures import MutableHeaders
from starlette.exceptions import HTTPException as AnyHTTPException
from starlette.types import ASGIApp, Message, Receive, Scope, Send

import moulin
from moulin.console import assets
from moulin.console.api import (
    access,
    changes,
    events,
    history,
    lake,
    logs,
    machinery,
    metrics,
    parts,
    session,
    sql,
    tables,
    traces,
    trash,
)
from moulin.console.api.requests import OPEN, ROLE, Console, Functions, NotModified, Readers
from moulin.console.jaeger import app as jaeger
from moulin.console.loki import app as loki
from moulin.console.loki import tail
from moulin.console.prometheus import app as prometheus
from moulin.console.prometheus import forms
from moulin.console.sql.statements import Statements
from moulin.errors import InvalidInput, MoulinError, NotFound, PermissionDenied, Unsupported
from moulin.ingest.flow import FlowWatch
from moulin.network.answers import answer, answer_with
from moulin.network.callers import COOKIE_PATH, Role, RouteRule, caller

PREFIX: Final = COOKIE_PATH
_ROUTERS: Final = tuple(
    part.router
    for part in (
        session,
        lake,
        events,
        tables,
        parts,
        history,
        changes,
        trash,
        machinery,
        access,
        logs,
        traces,
        metrics,
        sql,
    )
)
LARGEST_BODY: Final = 1 << 20
"""Maximum size of a request: a login has no token yet."""
_LOOKS: Final = frozenset({"GET", "HEAD"})
_OTHERWISE: Final = {404: NotFound, 405: Unsupported}


def build(console: Console) -> FastAPI:
    """The API of a lake. Its description is at `/openapi.json` below it."""
    checks = [Depends(_require_role)]
    app = FastAPI(title="Moulin", version=moulin.__version__, docs_url=None, redoc_url=None, dependencies=checks)
    app.state.console, app.state.pulse, app.state.tails = console, events.Pulse(console), logs.Tails()
    for router in _ROUTERS:
        app.include_router(router)

    @app.exception_handler(MoulinError)
    async def _refuse(request: Request, error: MoulinError) -> Response:
        return answer(error)

    @app.exception_handler(RequestValidationError)
    async def _refuse_shape(request: Request, error: RequestValidationError) -> Response:
        return answer(InvalidInput(_sentence(error.errors())))

    @app.exception_handler(AnyHTTPException)
    async def _refuse_otherwise(request: Request, error: AnyHTTPException) -> Response:
        kind = _OTHERWISE.get(error.status_code, InvalidInput).__name__
        return answer_with(error.status_code, kind, f"{error.detail.rstrip('.')}. See {PREFIX}/openapi.json.")

    @app.exception_handler(NotModified)
    async def _known(request: Request, known: NotModified) -> Response:
        return Response(status_code=304, headers={"ETag": known.tag})

    app.add_middleware(_Guards)
    return app


class _Guards:
    """Bounds what is read of a request, and adds the headers that keep answers from pages of others.

    Plain ASGI, so that streams stay streams.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update(assets.GUARDS)
                headers.setdefault("Cache-Control", "no-cache")
            await send(message)

        taken = 0

        async def receive_bounded() -> Message:
            nonlocal taken
            message = await receive()
            taken += len(message.get("body", b""))
            if taken > LARGEST_BODY:
                raise HTTPException(413, f"A request can have at most {LARGEST_BODY >> 10} KiB.")
            return message

        await self._app(scope, receive_bounded, send_guarded)


def _sentence(found: Iterable[Any]) -> str:
    first = next(iter(found))
    where = ".".join(str(part) for part in first.get("loc", ()))
    return f"The request does not fit: {where[:200]}: {str(first.get('msg', ''))[:200]}. See {PREFIX}/openapi.json."


def rules() -> list[RouteRule]:
    """The role of every route of the API, and of the files. A route that names none is for admins."""
    found = [RouteRule(_LOOKS, re.compile(re.escape(PREFIX) + "/openapi\\.json"), None), *assets.RULES]
    return found + [_rule(route) for router in _ROUTERS for route in api_routes(router)]


def api_routes(router: APIRouter) -> list[APIRoute]:
    return [route for route in router.routes if isinstance(route, APIRoute)]


async def _require_role(request: Request) -> None:
    """The role of the route that answers. The gate read the path by itself, and may have taken it for another route."""
    role = _role(request.scope["route"])
    if role is not None and caller.get().role < role:
        raise PermissionDenied(f"This needs the role {role.name.lower()}: send a token that has it.")


def _role(route: APIRoute) -> Role | None:
    named = (route.openapi_extra or {}).get(ROLE, Role.ADMIN.name.lower())
    return None if named == OPEN else Role[named.upper()]


def _rule(route: APIRoute) -> RouteRule:
    pattern = route.path_regex.pattern.removeprefix("^").removesuffix("$")
    methods = frozenset(route.methods or ())
    return RouteRule(
        methods | _LOOKS if "GET" in methods else methods, re.compile(re.escape(PREFIX) + pattern), _role(route)
    )


def mount(
    app: FastAPI,
    readers: Readers | None = None,
    statements: Statements | None = None,
    functions: Functions | None = None,
) -> None:
    """Put the console of the server's lake on its app.

    `readers` says which engines read a table, `functions` which functions an engine has. `statements` end with the
    server.
    """
    state = app.state
    console = Console(
        state.lake, state.authority, state.stopping, readers, FlowWatch(state.lake), sql=statements, functions=functions
    )
    if statements is not None:
        statements.end_with(state.stopping)
    state.rules.extend(rules())
    app.router.routes.append(tail.route(console))
    state.rules.append(tail.RULE)
    app.mount(PREFIX, build(console))
    app.mount(jaeger.PREFIX, jaeger.build(console))
    app.mount(loki.PREFIX, loki.build(console))
    app.mount(prometheus.PREFIX, prometheus.build(console))
    state.rules.append(forms.rule(prometheus.PREFIX))
    assets.mount(app)
