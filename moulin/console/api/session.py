"""Login from a browser, and the current user."""

# Decisions: docs/decisions/0530

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Request, Response
from pydantic import Field

from moulin.console.api.requests import ConsoleOf, takes
from moulin.console.api.shapes import Shape
from moulin.network.callers import ANYONE, COOKIE, COOKIE_PATH, Role, caller

router = APIRouter(tags=["session"])


class Login(Shape):
    """A token that the server takes, such as `moulin access create` shows."""

    token: Annotated[str, Field(min_length=1, max_length=4000)]


class Me(Shape):
    """Who calls. A server that asks for no tokens calls everybody admin."""

    name: str
    role: str
    tokens: bool


@router.post("/session", **takes(None))
def log_in(login: Login, request: Request, response: Response, console: ConsoleOf) -> Me:
    """Log a browser in: the token goes into a cookie that scripts cannot read, and is checked with every request."""
    if console.authority is None:
        return Me(name=ANYONE.name, role=ANYONE.role.name.lower(), tokens=False)
    token = login.token.strip()
    known = console.authority.authenticate(token)
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, token, path=COOKIE_PATH, httponly=True, samesite="strict", secure=secure)
    return Me(name=known.name, role=known.role.name.lower(), tokens=True)


@router.delete("/session", status_code=204, **takes(None))
def log_out(response: Response) -> None:
    """Log the browser out. The token itself stays good until it is revoked."""
    response.delete_cookie(COOKIE, path=COOKIE_PATH, httponly=True, samesite="strict")


@router.get("/me", **takes(Role.READ))
def who_am_i(console: ConsoleOf) -> Me:
    """The caller's name and role."""
    me = caller.get()
    return Me(name=me.name, role=me.role.name.lower(), tokens=console.authority is not None)
