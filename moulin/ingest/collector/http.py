"""OTLP/HTTP and appends: `POST /v1/logs`, `/v1/traces`, `/v1/metrics` and `/v1/append/{database}.{table}`."""

from __future__ import annotations

import json
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from google.protobuf import json_format
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import Route
from starlette.types import Scope

from moulin.errors import InvalidInput, MoulinError, NotFound, Unauthenticated
from moulin.formats.baby_segment import Payload
from moulin.ingest.collector.collector import RETRY_AFTER, Collector, Room
from moulin.ingest.collector.grpc_server import response
from moulin.ingest.collector.health import Health
from moulin.ingest.collector.limits import TooLarge
from moulin.ingest.collector.requests import Inflater
from moulin.model.otel import SIGNALS, Signal
from moulin.network.connections import Connections
from moulin.network.counts import Figure, counters
from moulin.network.gate import HttpGate
from moulin.network.hosts import AllowedHosts

_log = logging.getLogger(__name__)

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
ROWS: Final = {
    "application/x-ndjson": Payload.NDJSON,
    "application/jsonl": Payload.NDJSON,
    "application/vnd.apache.arrow.stream": Payload.ARROW,
}
# The codes of google.rpc.Code that go with the answers given here.
_CODES: Final = {400: 3, 401: 16, 403: 7, 404: 5, 413: 8, 415: 3, 500: 13, 503: 14}


class _Refused(Exception):
    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status, self.message = status, message


def make_app(
    collector: Collector, hosts: AllowedHosts | None = None, connections: Connections | None = None
) -> Starlette:
    """The ASGI application of a collector. `connections` are those of its server, for the metrics."""
    routes = [Route(f"/v1/{signal}", _otlp(collector, signal), methods=["POST"]) for signal in SIGNALS]
    routes.append(Route("/v1/append/{name}", _append(collector), methods=["POST"]))
    routes.append(Route("/healthz", _health(collector), methods=["GET"]))
    routes.append(Route("/metrics", _metrics(collector, connections), methods=["GET"]))
    return Starlette(routes=routes, middleware=[Middleware(HttpGate, hosts=hosts, answer=_refused)])


def _otlp(collector: Collector, signal: Signal) -> Callable[[Request], Awaitable[Response]]:
    async def export(request: Request) -> Response:
        kind = _content_type(request)
        room = collector.room()
        try:
            if kind not in (PROTOBUF, JSON):
                raise _Refused(415, f"Send {PROTOBUF} or {JSON}, not {kind[:100]!r}.")
            grant, token = await collector.authorize(request.headers.get("authorization"))
            data = await _body(request, collector, room)
            checked = await collector.check(signal, data, is_json=kind == JSON)
            await collector.export(signal, grant, token, checked)
        except (MoulinError, _Refused, ClientDisconnect) as error:
            return _failure(collector, error, kind)
        finally:
            room.release()
        answer = response(signal, checked.rejected, checked.reason)
        if kind == JSON:
            return Response(json_format.MessageToJson(answer, indent=None), media_type=JSON)
        return Response(answer.SerializeToString(), media_type=PROTOBUF)

    return export


def _append(collector: Collector) -> Callable[[Request], Awaitable[Response]]:
    async def append(request: Request) -> Response:
        room = collector.room()
        try:
            payload = ROWS.get(_content_type(request))
            if payload is None:
                raise _Refused(415, f"Send one of {', '.join(ROWS)}.")
            grant, token = await collector.authorize(request.headers.get("authorization"))
            data = await _body(request, collector, room)
            rows = await collector.append(grant, token, request.path_params["name"], payload, data)
        except (MoulinError, _Refused, ClientDisconnect) as error:
            return _failure(collector, error, JSON)
        finally:
            room.release()
        return JSONResponse({"rows": rows})

    return append


def _health(collector: Collector) -> Callable[[Request], Awaitable[Response]]:
    known = Health(collector)

    async def health(request: Request) -> Response:
        problem = await known.problem()
        if problem is None:
            return JSONResponse({"status": "ok", "in_flight_bytes": collector.in_flight})
        told = {"status": "failing", "error": problem, "in_flight_bytes": collector.in_flight}
        return JSONResponse(told, 503, {"retry-after": str(RETRY_AFTER)})

    return health


def _metrics(collector: Collector, connections: Connections | None) -> Callable[[Request], Awaitable[Response]]:
    prefix = "moulin_collector"

    async def metrics(request: Request) -> Response:
        figures = [
            *counters(prefix, collector.counts),
            *counters(f"{prefix}_stream", collector.writer.counts),
            Figure(f"{prefix}_in_flight_bytes", "gauge", "Bytes on their way to the store.", collector.in_flight),
        ]
        if connections is not None:
            figures += connections.figures()
        text = "".join(figure.lines() for figure in figures)
        return PlainTextResponse(text, media_type="text/plain; version=0.0.4; charset=utf-8")

    return metrics


def _refused(scope: Scope, status: int, message: str) -> Response:
    return JSONResponse({"code": _CODES[403], "message": message}, status)


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def _body(request: Request, collector: Collector, room: Room) -> bytes:
    """The whole body, decompressed; its bytes count against the budget as they come."""
    encoding = request.headers.get("content-encoding", "identity").strip().lower()
    if encoding not in ("identity", "", "gzip"):
        raise _Refused(415, f"The content encoding {encoding[:100]!r} is not known: send gzip, or none.")
    limit = collector.settings.request_bytes
    inflater = Inflater(limit) if encoding == "gzip" else None
    parts, received = [], 0
    async for chunk in request.stream():
        received += len(chunk)
        if received > limit:  # of gzip that unpacks to nothing
            raise TooLarge(
                f"The request has more than {limit:,} bytes (collector_request_bytes): send smaller batches."
            )
        while chunk:
            if inflater is None:
                data, chunk = chunk, b""
            else:
                data, chunk = await collector.work(inflater.feed, chunk)
            room.grow(len(data))
            parts.append(data)
    if inflater:
        inflater.finish()
    return b"".join(parts)


def _failure(collector: Collector, error: Exception, kind: str) -> Response:
    """An answer whose status tells the sender what to do, with a google.rpc.Status as its body."""
    headers = {}
    if isinstance(error, ClientDisconnect):
        return Response(status_code=400)
    if isinstance(error, _Refused):
        status, message = error.status, error.message
    else:
        assert isinstance(error, MoulinError)
        status, message = _status(error), error.message
    if status in (400, 413, 415):
        collector.counts.invalid += 1
    if status == 503:
        headers["retry-after"] = str(RETRY_AFTER)
    if status == 401:
        headers["www-authenticate"] = "Bearer"
    if status >= 400 and status != 503:
        headers["connection"] = "close"  # the rest of the body, if any, is not read
    if status == 500:
        _log.error("A request could not be taken: %s", message)
    if kind == PROTOBUF:
        return Response(_rpc_status(_CODES[status], message), status, headers, PROTOBUF)
    return Response(json.dumps({"code": _CODES[status], "message": message}), status, headers, JSON)


def _status(error: MoulinError) -> int:
    if isinstance(error, TooLarge):
        return 413
    if isinstance(error, InvalidInput):
        return 400
    if isinstance(error, Unauthenticated):
        return 401
    if isinstance(error, NotFound):
        return 404
    return 503 if error.retryable else 500


def _rpc_status(code: int, message: str) -> bytes:
    """google.rpc.Status in protobuf."""
    text = message.encode()[:4000]
    size = len(text)
    length = bytes([size]) if size < 128 else bytes([size & 127 | 128, size >> 7])
    return b"\x08" + bytes([code]) + b"\x12" + length + text
