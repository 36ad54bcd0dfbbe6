"""Tokens: of the server, who may call it and what; of ingest, who may send telemetry and where it goes."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Literal
from uuid import UUID

from fastapi import APIRouter, Query
from pydantic import Field

from moulin.catalog.catalog import Catalog
from moulin.console.api.requests import USUAL, CatalogOf, Console, ConsoleOf, Cursor, Limit, Tokens, page_of, takes
from moulin.console.api.shapes import Int64, Page, Shape
from moulin.errors import FailedPrecondition, NotFound
from moulin.model.ingest import SIGNALS, Token
from moulin.model.names import full_name
from moulin.network.callers import Role

router = APIRouter(tags=["access"])
ADMIN = takes(Role.ADMIN)
_DAY = 86_400


class TokenShape(Shape):
    name: str
    role: str
    expires_at: Int64 | None


class NewTokenRequest(Shape):
    """Without `days`, the token never expires."""

    name: Annotated[str, Field(max_length=64)]
    role: Literal["read", "write", "pipeline", "admin"] = "read"
    days: float | None = None


class RotateRequest(Shape):
    """Without `days`, the token ends when it would have."""

    name: Annotated[str, Field(max_length=64)]
    days: float | None = None


class NewToken(Shape):
    """The only answer that ever has the secret."""

    name: str
    role: str
    secret: str


class IngestTokenShape(Shape):
    """A token that sends telemetry. `hint` is the end of its newest secret; signals name the tables they go to."""

    id: str
    database: str
    name: str
    hint: str
    created_at: Int64
    expires_at: Int64 | None
    traces: str
    logs: str
    metrics: str


class IngestRotateRequest(Shape):
    """Former secrets count for `overlap_seconds` more. Without `days`, the new one never expires."""

    overlap_seconds: Annotated[float, Field(ge=0, le=30 * _DAY)] = 0
    days: Annotated[float | None, Field(gt=0, le=36_500)] = None


class NewIngestToken(Shape):
    """The only answer that ever has the secret."""

    id: str
    name: str
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


@router.post("/access/tokens/rotate", **ADMIN)
def rotate_token(asked: RotateRequest, console: ConsoleOf) -> NewToken:
    """Give a token another secret, which is shown once; the former one is refused from now on."""
    tokens = _tokens(console)
    secret = tokens.rotate(asked.name, asked.days)
    (role,) = (one.role for one in tokens.tokens() if one.name == asked.name)
    return NewToken(name=asked.name, role=role.name.lower(), secret=secret)


@router.delete("/access/tokens", status_code=204, **ADMIN)
def revoke_token(console: ConsoleOf, name: Annotated[str, Query(min_length=1, max_length=64)]) -> None:
    """Take a token back: it is refused from now on, and streams that were opened with it end."""
    _tokens(console).revoke(name)


@router.get("/ingest/tokens", **ADMIN)
def list_ingest_tokens(catalog: CatalogOf, cursor: Cursor = None, limit: Limit = USUAL) -> Page[IngestTokenShape]:
    """The ingest tokens of all databases, by name: what `moulin token list` shows."""
    found = [(database, one) for database in catalog.databases() for one in catalog.ingest.tokens(database.id)]
    page, more = page_of(found, cursor, limit, lambda one: (one[0].name, one[1].name), str, str)
    items = [
        IngestTokenShape(
            id=str(one.id),
            database=database.name,
            name=one.name,
            hint=one.hint,
            created_at=one.created_at,
            expires_at=one.expires_at,
            **{signal: _name(catalog, getattr(one.routing, signal)) for signal in SIGNALS},
        )
        for database, one in page
    ]
    return Page(items=items, next_cursor=more)


def _name(catalog: Catalog, table_id: UUID) -> str:
    try:
        entry = catalog.table_entry(table_id)
    except NotFound:
        return str(table_id)
    return full_name(entry.database, entry.name)


@router.post("/ingest/tokens/{token_id}/rotate", **ADMIN)
def rotate_ingest_token(token_id: UUID, asked: IngestRotateRequest, catalog: CatalogOf) -> NewIngestToken:
    """Give an ingest token another secret, which is shown once."""
    found = _ingest_token(catalog, token_id)
    made = catalog.ingest.rotate_token(
        found.database_id,
        token_id,
        overlap_seconds=asked.overlap_seconds,
        expires_in=None if asked.days is None else asked.days * _DAY,
    )
    return NewIngestToken(id=str(token_id), name=made.token.name, secret=made.plaintext)


@router.delete("/ingest/tokens/{token_id}", status_code=204, **ADMIN)
def drop_ingest_token(token_id: UUID, catalog: CatalogOf) -> None:
    """Drop an ingest token: what it sends is refused. It lies in the trash until its grace window ends."""
    catalog.ingest.drop_token(_ingest_token(catalog, token_id).database_id, token_id)


def _ingest_token(catalog: Catalog, token_id: UUID) -> Token:
    for database in catalog.databases():
        for one in catalog.ingest.tokens(database.id):
            if one.id == token_id:
                return one
    raise NotFound(f"There is no ingest token {token_id}; it may be in the trash.")
