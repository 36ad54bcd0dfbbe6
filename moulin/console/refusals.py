"""Responses of the APIs of other systems: bodies and errors in the format that their clients expect."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

from moulin.errors import MoulinError
from moulin.network.answers import status_of

HEADERS: Final = {"Cache-Control": "no-cache", "X-Content-Type-Options": "nosniff"}


def plain(body: Any, status: int = 200) -> Response:
    """A body as JSON that nobody keeps."""
    return JSONResponse(body, status, headers=HEADERS)


def answer_errors(app: FastAPI, refuse: Callable[[int, str], Response], api: str) -> None:
    """Has `refuse` make the answer for each error, from a status and a sentence. `api` says where the API is."""

    @app.exception_handler(MoulinError)
    async def _refuse(request: Request, error: MoulinError) -> Response:
        return refuse(status_of(error), error.message)

    @app.exception_handler(RequestValidationError)
    async def _refuse_shape(request: Request, error: RequestValidationError) -> Response:
        first = error.errors()[0]
        return refuse(400, f"The parameter {str(first['loc'][-1])[:100]!r} does not fit: {str(first['msg'])[:200]}.")

    @app.exception_handler(HTTPException)
    async def _no_such(request: Request, error: HTTPException) -> Response:
        return refuse(error.status_code, f"This endpoint does not exist. {api}")


__all__ = ["HEADERS", "answer_errors", "plain"]
