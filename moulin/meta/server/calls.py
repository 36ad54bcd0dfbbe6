"""Wraps every call: request id, deadline, one log line, errors as status.

The id is the caller's `x-request-id`, or a new one. It is returned in the trailing metadata and is in every line logged
during the call.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, Final, NoReturn, Protocol

import grpc

from moulin.catalog.sql.pool import gave_up
from moulin.errors import InvalidInput, MoulinError
from moulin.meta.auth import ANYONE, Authenticate, caller
from moulin.meta.codec import errors as status
from moulin.meta.features import note_features
from moulin.model.ids import new_id
from moulin.network.logs import request_id

REQUEST_ID: Final = "x-request-id"

log = logging.getLogger("moulin.meta")
_SANE_ID = re.compile(r"[\x21-\x7e]{1,128}")
_PRIVATE = ("/moulin.lake.v1.CatalogService/EraseRows",)  # an error may quote what is to be erased
_QUIET = ("/grpc.health.", "/grpc.reflection.")


class Observer(Protocol):
    """Is told of every call that has ended; metrics fill this in."""

    def started(self, method: str) -> None: ...
    def ended(self, method: str, code: str, seconds: float) -> None: ...


class Calls(grpc.ServerInterceptor):  # type: ignore[misc]
    """The outermost interceptor of a server."""

    def __init__(self, authenticate: Authenticate, observer: Observer | None = None) -> None:
        self._authenticate, self._observer = authenticate, observer

    def intercept_service(self, continuation: Callable[[Any], Any], details: Any) -> Any:
        handler = continuation(details)
        if handler is None:
            return None
        metadata = [(entry.key, entry.value) for entry in details.invocation_metadata]
        given = next((value for key, value in metadata if key == REQUEST_ID), "")
        call_id = given if _SANE_ID.fullmatch(given) else str(new_id())
        method: str = details.method

        def identify() -> None:
            note_features(metadata)
            caller.set(self._authenticate(method, metadata))

        return wrap(handler, lambda run: _Call(run, method, call_id, identify, self._observer))


def wrap(handler: Any, around: Callable[[Callable[..., Any]], Any]) -> Any:
    """A handler whose function is wrapped; `around` gives an object with `unary` and `stream`."""
    if handler.response_streaming:
        make = grpc.stream_stream_rpc_method_handler if handler.request_streaming else None
        function = handler.stream_stream if handler.request_streaming else handler.unary_stream
        make = make or grpc.unary_stream_rpc_method_handler
        return make(around(function).stream, handler.request_deserializer, handler.response_serializer)
    make = grpc.stream_unary_rpc_method_handler if handler.request_streaming else grpc.unary_unary_rpc_method_handler
    function = handler.stream_unary if handler.request_streaming else handler.unary_unary
    return make(around(function).unary, handler.request_deserializer, handler.response_serializer)


class _Call:
    """One call on its way through its servicer."""

    def __init__(
        self,
        run: Callable[..., Any],
        method: str,
        call_id: str,
        identify: Callable[[], None],
        observer: Observer | None,
    ) -> None:
        self._run, self._method, self._id, self._identify, self._observer = run, method, call_id, identify, observer
        self._begun = time.perf_counter()

    def unary(self, request: Any, context: Any) -> Any:
        self._begin(context)
        try:
            self._identify()
            answer = self._run(request, context)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets a status
            self._fail(error, context)
        self._end("OK")
        return answer

    def stream(self, request: Any, context: Any) -> Iterator[Any]:
        self._begin(context)
        try:
            self._identify()
            yield from self._run(request, context)
        except GeneratorExit:
            self._end("CANCELLED")
            raise
        except Exception as error:  # noqa: BLE001
            self._fail(error, context)
        self._end("OK")

    def _begin(self, context: Any) -> None:
        request_id.set(self._id)
        gave_up.set(lambda: not context.is_active())
        caller.set(ANYONE)
        if self._observer:
            self._observer.started(self._method)
        context.set_trailing_metadata(((REQUEST_ID, self._id),))
        remaining = context.time_remaining()
        if not context.is_active() or (remaining is not None and remaining <= 0):
            self._end("DEADLINE_EXCEEDED")
            context.abort(
                grpc.StatusCode.DEADLINE_EXCEEDED, "The deadline passed before the call started; nothing was done."
            )

    def _fail(self, error: Exception, context: Any) -> NoReturn:
        if context.code() is not None:  # aborted by the servicer or by another interceptor: the status is set
            self._end(getattr(context.code(), "name", str(context.code())))
            raise error
        if isinstance(error, RecursionError):  # some document of the request, past every budget of its readers
            error = InvalidInput("The request is nested too deeply: flatten it.")
        if isinstance(error, MoulinError):
            code, message = status.code_of(error), status.message_of(error)
            detail = status.to_message_error(error).SerializeToString()
            context.set_trailing_metadata(((REQUEST_ID, self._id), (status.DETAIL, detail)))
            self._end(code.name, message)
        else:
            code = grpc.StatusCode.INTERNAL
            message = f"The server failed in a way it should not; its log has more under request {self._id}."
            shown = None if self._method in _PRIVATE else error
            log.error("call failed", exc_info=shown, extra={"method": self._method, "kind": type(error).__name__})
            self._end(code.name)
        context.abort(code, message)
        raise AssertionError  # abort raises

    def _end(self, code: str, message: str = "") -> None:
        seconds = time.perf_counter() - self._begun
        if self._observer:
            self._observer.ended(self._method, code, seconds)
        level = logging.DEBUG if code == "OK" and self._method.startswith(_QUIET) else logging.INFO
        if code == "UNAUTHENTICATED":  # callers without a token cannot fill the log: repeated warnings are limited
            level = logging.WARNING
        facts: dict[str, Any] = {"method": self._method, "code": code, "millis": round(seconds * 1000, 3)}
        if name := caller.get().name:
            facts["caller"] = name
        if message and self._method not in _PRIVATE:
            facts["error"] = message
        log.log(level, "call", extra=facts)
