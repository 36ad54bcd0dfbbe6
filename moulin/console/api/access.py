"""The access tokens of the server."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import APIRouter, Query
from pydantic import Field

from moulin.console.api.requests import USUAL, Console, ConsoleOf, Cursor, Limit, Tokens, page_of, takes
from moulin.console.api.shapes import Int64, Page, Shape
from moulin.errors import FailedPrecondition
from moulin.network.callers import Role

router = APIRouter(tags=["access"])
ADMIN = takes(Role.ADMIN)


class TokenShape(Shape):
    name: str
    role: str
    expires_at: Int64 | None


class NewTokenRequest(Shape):
    """Without `days`, the token never expires."""

    name: Annotated[str, Field(max_length=64)]
    role: Literal["read", "write", "pipeline", "admin"] = "read"
    days: float | None = None


class NewToken(Shape):
    """The only answer that ever has the secret."""

    name: str
    role: str
    secret: str


def _tokens(console: Console) -> Tokens:
    if console.authority is None:
        raise FailedPrecondition("This server requires no tokens: everyone has full access. Set auth to on in [serve].")
    if console.authority.access is None:
        raise FailedPrecondition("This server accepts only tokens of its issuer: create and revoke them there.")
    return console.authority.access


@router.get("/access/tokens", **ADMIN)
def list_tokens(console: ConsoleOf, cursor: Cursor = None, limit: Limit = USUAL) -> Page[TokenShape]:
    """The tokens, by name: what `moulin access list` shows."""
    page, more = page_of(_tokens(console).tokens(), cursor, limit, lambda one: (one.name,), str)
    items = [TokenShape(name=one.name, role=one.role.name.lower(), expires_at=_nanos(one.expires)) for one in page]
    return Page(items=items, next_cursor=more)


def _nanos(moment: datetime | None) -> int | None:
    return None if moment is None else int(moment.astimezone(UTC).timestamp()) * 1_000_000_000


@router.post("/access/tokens", **ADMIN)
def create_token(asked: NewTokenRequest, console: ConsoleOf) -> NewToken:
    """Make a token. Its secret is shown once."""
    secret = _tokens(console).create(asked.name, Role[asked.role.upper()], asked.days)
    return NewToken(name=asked.name, role=asked.role, secret=secret)


@router.delete("/access/tokens", status_code=204, **ADMIN)
def revoke_token(console: ConsoleOf, name: Annotated[str, Query(min_length=1, max_length=64)]) -> None:
    """Take a token back: it is refused from now on, and streams that were opened with it end."""
    _tokens(console).revoke(name)
