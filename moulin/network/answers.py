"""Errors as HTTP responses: status and body."""

from __future__ import annotations

from typing import Final

from starlette.responses import JSONResponse, Response

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


def status_of(error: MoulinError) -> int:
    """The HTTP status of an error."""
    return next((status for kind, status in _STATUS.items() if isinstance(error, kind)), 500)


def answer(error: MoulinError, kind: str | None = None) -> Response:
    """What a client gets instead of what it asked for; `kind` replaces the name of the error."""
    status = status_of(error)
    headers = {"WWW-Authenticate": "Bearer"} if isinstance(error, Unauthenticated) else None
    return answer_with(status, kind or type(error).__name__, error.message, headers)


def answer_with(status: int, kind: str, message: str, headers: dict[str, str] | None = None) -> Response:
    body = {"error": {"type": kind, "message": message, "code": status}}
    return JSONResponse(body, status_code=status, headers=headers)
