"""Errors in the format of the REST catalog specification: status, type and body.

409 with CommitFailedException means "read again and retry". 500 with CommitStateUnknownException means that the outcome
of a commit is unknown: engines then keep their files. An invalid request gives 400.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect

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

log = logging.getLogger("moulin.iceberg.rest")
COMMIT_FAILED: Final = "CommitFailedException"

_BY_KIND: Final[dict[type[MoulinError], tuple[int, str]]] = {
    InvalidInput: (400, "BadRequestException"),
    Unsupported: (400, "BadRequestException"),
    FailedPrecondition: (400, "BadRequestException"),
    Unauthenticated: (401, "NotAuthorizedException"),
    PermissionDenied: (403, "ForbiddenException"),
    NotFound: (404, "NotFoundException"),
    AlreadyExists: (409, "AlreadyExistsException"),
    Conflict: (409, COMMIT_FAILED),
    Fenced: (409, COMMIT_FAILED),
    Unavailable: (503, "ServiceUnavailableException"),
    Corrupt: (500, "InternalServerError"),
}


class RestError(Exception):
    """An error of the specification without an equivalent in the lake."""

    headers: Mapping[str, str] | None = None

    def __init__(self, status: int, kind: str, message: str) -> None:
        super().__init__(message)
        self.status, self.kind, self.message = status, kind, message


def no_such(what: str, message: str) -> RestError:
    """`what` is Table, View or Namespace."""
    return RestError(404, f"NoSuch{what}Exception", message)


def missing(what: str, name: str) -> RestError:
    """The error for a missing `what` (Table, View or Namespace), with the text that clients match on."""
    return no_such(what, f"{what} does not exist: {name}")


def taken(what: str, name: str) -> RestError:
    """The error for a name in use, with the text that clients match on."""
    return RestError(409, "AlreadyExistsException", f"{what} already exists: {name}")


def commit_failed(message: str) -> RestError:
    """A violated requirement: the engine reloads and retries."""
    return RestError(409, COMMIT_FAILED, message)


class CommitStateUnknown(RestError):
    """The outcome of a commit is unknown: the engine keeps its files."""

    def __init__(self, message: str) -> None:
        super().__init__(500, "CommitStateUnknownException", message)


def answer(status: int, kind: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    body = {"error": {"message": message, "type": kind, "code": status}}
    headers = {"WWW-Authenticate": "Bearer"} if status == 401 else headers
    return JSONResponse(body, status_code=status, headers=headers)


def to_response(error: Exception) -> Response:
    """The response for any error."""
    if isinstance(error, RestError):
        return answer(error.status, error.kind, error.message, error.headers)
    if isinstance(error, MoulinError):
        status, kind = next((found for known, found in _BY_KIND.items() if isinstance(error, known)), (500, "Error"))
        return answer(status, kind, error.message)
    if isinstance(error, RequestValidationError):
        first = error.errors()[0]
        path = ".".join(str(part) for part in first["loc"])
        return answer(400, "BadRequestException", f"{path}: {first['msg']}.")
    if isinstance(error, HTTPException):
        kind = "UnsupportedOperationException" if error.status_code in (404, 405) else "BadRequestException"
        return answer(error.status_code, kind, "This catalog has no such endpoint; /v1/config lists those it has.")
    if isinstance(error, RecursionError):
        return answer(400, "BadRequestException", "The request is nested too deeply: flatten it.")
    if isinstance(error, ClientDisconnect):  # the client is gone, and nothing failed here
        return answer(400, "BadRequestException", "The request ended before its body did.")
    log.error("a request failed", exc_info=error)
    return answer(500, "InternalServerError", "The catalog failed; its log says why.")


def install(app: FastAPI) -> None:
    """Converts every error of `app` to a response of the specification."""

    def handle(request: Request, error: Exception) -> Response:
        return to_response(error)

    for kind in (
        RestError,
        MoulinError,
        RequestValidationError,
        HTTPException,
        RecursionError,
        ClientDisconnect,
        Exception,
    ):
        app.add_exception_handler(kind, handle)
