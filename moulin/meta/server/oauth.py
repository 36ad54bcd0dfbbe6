"""POST /iceberg/v1/oauth/tokens: OAuth2 client credentials and token exchange, as Iceberg's clients use them.

A client's id and secret are the name and the secret of an access token; the answer is a ticket for it. Parameters are
accepted only in the body, because URLs end up in logs.
"""

# Decisions: docs/decisions/0520

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Final
from urllib.parse import parse_qsl, unquote_plus

from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from moulin.errors import Unauthenticated, Unavailable
from moulin.meta.roles import Role
from moulin.meta.tickets import Tickets

PATH: Final = "/iceberg/v1/oauth/tokens"
_LARGEST: Final = 64 << 10
_FORM: Final = "application/x-www-form-urlencoded"
_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_ACCESS_TOKEN: Final = "urn:ietf:params:oauth:token-type:access_token"


class _OAuthError(Exception):
    """An error as RFC 6749 spells it."""

    def __init__(self, error: str, description: str, status: int = 400) -> None:
        super().__init__(description)
        self.error, self.description, self.status = error, description, status


def route(tickets: Tickets) -> Route:
    """The endpoint."""

    async def answer(request: Request) -> Response:
        try:
            form = await _form(request)
            basic = _basic(request)
            body = await run_in_threadpool(_grant, tickets, form, basic)  # reads files
            return JSONResponse(body, headers={"Cache-Control": "no-store"})
        except _OAuthError as error:
            return _refusal(error)
        except Unauthenticated as error:
            return _refusal(_OAuthError("invalid_client", error.message, 401))
        except Unavailable as error:
            return _refusal(_OAuthError("temporarily_unavailable", error.message, 503))

    return Route(PATH, answer, methods=["POST"])


def _grant(tickets: Tickets, form: Mapping[str, str], basic: tuple[str, str] | None) -> dict[str, object]:
    kind = form.get("grant_type", "")
    scopes = form.get("scope", "").split()
    most = Role.READ if "read" in scopes else Role.WRITE if "write" in scopes else Role.ADMIN
    name, secret = _client(form, basic)
    if kind == "client_credentials":
        if not secret:
            raise _OAuthError(
                "invalid_client", "Send client_id and client_secret: an access token's name and secret.", 401
            )
        token, seconds = tickets.issue(name, secret, most)
    elif kind == _EXCHANGE:
        if "actor_token" in form:
            raise _OAuthError("invalid_request", "This server does not support actors: send only subject_token.")
        if form.get("subject_token_type", _ACCESS_TOKEN) != _ACCESS_TOKEN or not form.get("subject_token"):
            raise _OAuthError("invalid_request", f"Send a subject_token of the type {_ACCESS_TOKEN}.")
        # A client that proves who it is may have let its token expire.
        token, seconds = tickets.issue(name, secret, most) if secret else tickets.exchange(form["subject_token"], most)
    else:
        raise _OAuthError("unsupported_grant_type", f"grant_type must be client_credentials or {_EXCHANGE}.")
    return {
        "access_token": token,
        "token_type": "bearer",
        "expires_in": seconds,
        "issued_token_type": _ACCESS_TOKEN,
        "scope": form.get("scope") or "catalog",
    }


def _client(form: Mapping[str, str], basic: tuple[str, str] | None) -> tuple[str | None, str]:
    """Name and secret of the client; an empty name, or none, leaves it to the secret."""
    given = form.get("client_id") or None, form.get("client_secret", "")
    if basic is None:
        return given
    if given[1]:
        raise _OAuthError("invalid_request", "Send the client's secret only once: in the header or in the body.")
    if given[0] and given[0] != basic[0]:
        raise _OAuthError("invalid_client", "The header and the body have different clients.", 401)
    return basic[0] or None, basic[1]


async def _form(request: Request) -> dict[str, str]:
    if request.url.query:
        raise _OAuthError("invalid_request", "Send parameters in the body, not in the URL.")
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _FORM:
        raise _OAuthError("invalid_request", f"The body must be a form: send it as {_FORM}.")
    data = bytearray()
    try:
        async for chunk in request.stream():
            data += chunk
            if len(data) > _LARGEST:
                raise _OAuthError("invalid_request", f"A request can have at most {_LARGEST >> 10} KiB.")
    except ClientDisconnect:
        raise _OAuthError("invalid_request", "The request body is incomplete.") from None
    try:
        pairs = parse_qsl(data.decode("ascii"), keep_blank_values=True, max_num_fields=64, errors="strict")
    except ValueError:
        raise _OAuthError("invalid_request", "The body is not a form.") from None
    form = dict(pairs)
    if len(form) != len(pairs):
        raise _OAuthError("invalid_request", "A parameter is sent twice.")
    return form


def _basic(request: Request) -> tuple[str, str] | None:
    """Name and secret of `Authorization: Basic`. A bearer token is no client's: the body says what is asked for."""
    kind, _, text = request.headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return None
    try:
        name, colon, secret = base64.b64decode(text.strip(), validate=True).decode().partition(":")
    except (ValueError, binascii.Error):
        colon = name = secret = ""
    if not colon or not secret:
        raise _OAuthError("invalid_client", "The header Authorization must contain a name and a secret.", 401)
    return unquote_plus(name), unquote_plus(secret)


def _refusal(error: _OAuthError) -> Response:
    body = {"error": error.error, "error_description": error.description}
    headers = {"Cache-Control": "no-store"} | ({"WWW-Authenticate": "Basic"} if error.status == 401 else {})
    return JSONResponse(body, status_code=error.status, headers=headers)


__all__ = ["PATH", "route"]
