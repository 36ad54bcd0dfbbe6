"""OTLP/gRPC: the three Export services. Requests are handled as bytes, so that they are stored exactly as sent."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

import grpc
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from moulin.errors import InvalidInput, MoulinError, Unauthenticated
from moulin.ingest.collector.collector import RETRY_AFTER, Collector
from moulin.ingest.collector.limits import TooLarge
from moulin.model.otel import Signal
from moulin.network.limits import grpc_options

_log = logging.getLogger(__name__)

_SERVICES: Final[dict[Signal, str]] = {
    "logs": "opentelemetry.proto.collector.logs.v1.LogsService",
    "traces": "opentelemetry.proto.collector.trace.v1.TraceService",
    "metrics": "opentelemetry.proto.collector.metrics.v1.MetricsService",
}
# google.rpc.Status{code: 14, details: [Any{RetryInfo{retry_delay: Duration{seconds: 1}}}]}, written once by hand.
_RETRY_INFO: Final = b"\x0a\x02\x08" + bytes([RETRY_AFTER])
_TYPE_URL: Final = b"type.googleapis.com/google.rpc.RetryInfo"


def response(signal: Signal, rejected: int, reason: str) -> Any:
    """What OTLP answers to a request that was taken, all of it or in part; a reason alone is a warning."""
    if signal == "logs":
        logs = ExportLogsServiceResponse()
        if rejected or reason:
            logs.partial_success.rejected_log_records, logs.partial_success.error_message = rejected, reason
        return logs
    if signal == "traces":
        traces = ExportTraceServiceResponse()
        if rejected or reason:
            traces.partial_success.rejected_spans, traces.partial_success.error_message = rejected, reason
        return traces
    metrics = ExportMetricsServiceResponse()
    if rejected or reason:
        metrics.partial_success.rejected_data_points, metrics.partial_success.error_message = rejected, reason
    return metrics


def make_server(collector: Collector) -> grpc.aio.Server:
    """A server without a port yet; see `add_insecure_port` and `add_secure_port`."""
    limit = collector.settings.request_bytes
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", limit),
            ("grpc.so_reuseport", 0),  # a second collector on the same port must fail
            *grpc_options(collector.settings.connections),
        ]
    )
    for signal, service in _SERVICES.items():
        handler = grpc.unary_unary_rpc_method_handler(_export(collector, signal))
        server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler(service, {"Export": handler})])
    return server


def _export(collector: Collector, signal: Signal) -> Callable[[bytes, Any], Awaitable[bytes]]:
    async def export(data: bytes, context: Any) -> bytes:
        header = next((value for key, value in context.invocation_metadata() if key == "authorization"), None)
        room = collector.room()
        try:
            grant, token = await collector.authorize(header)
            room.grow(len(data))
            checked = await collector.check(signal, data)
            await collector.export(signal, grant, token, checked)
        except MoulinError as error:
            await _abort(collector, context, error)
            raise
        finally:
            room.release()
        answer: bytes = response(signal, checked.rejected, checked.reason).SerializeToString()
        return answer

    return export


async def _abort(collector: Collector, context: Any, error: MoulinError) -> None:
    """Ends the call with the right status for the sender."""
    metadata: tuple[tuple[str, bytes], ...] = ()
    if isinstance(error, InvalidInput):
        collector.counts.invalid += 1
        code = grpc.StatusCode.RESOURCE_EXHAUSTED if isinstance(error, TooLarge) else grpc.StatusCode.INVALID_ARGUMENT
    elif isinstance(error, Unauthenticated):
        code = grpc.StatusCode.UNAUTHENTICATED
    elif error.retryable:
        code = grpc.StatusCode.UNAVAILABLE
        metadata = (("grpc-status-details-bin", _details(error.message)),)
    else:
        _log.error("A request could not be taken: %s", error.message)
        code = grpc.StatusCode.INTERNAL
    await context.abort(code, error.message, metadata)


def _details(message: str) -> bytes:
    text = message.encode()[:120]
    packed = b"\x0a" + bytes([len(_TYPE_URL)]) + _TYPE_URL + b"\x12" + bytes([len(_RETRY_INFO)]) + _RETRY_INFO
    return b"\x08\x0e\x12" + bytes([len(text)]) + text + b"\x1a" + bytes([len(packed)]) + packed
