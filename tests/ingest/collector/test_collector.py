"""The collector, asked by real clients and by bad ones."""

from __future__ import annotations

import gzip
import json
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import httpx
import pyarrow as pa
import pytest
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as GrpcLogs
from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as GrpcMetrics
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as GrpcSpans
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as HttpLogs
from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as HttpMetrics
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as HttpSpans
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from moulin.errors import FailedPrecondition
from moulin.formats.baby_segment import Payload
from moulin.ingest.collector.collector import CollectorSettings
from moulin.ingest.collector.stream import StreamSettings
from tests.ingest.conftest import TOKEN, FaultyStore, MemoryRegistry, Running, running

HEADERS = {"authorization": f"Bearer {TOKEN}"}
EXPORT = "/opentelemetry.proto.collector.logs.v1.LogsService/Export"
RESOURCE = Resource.create({"service.name": "shop", "moulin.table": "audit"})


def request(body: str = "hello", records: int = 1) -> bytes:
    made = ExportLogsServiceRequest()
    scope = made.resource_logs.add().scope_logs.add()
    for _ in range(records):
        scope.log_records.add(time_unix_nano=10**18).body.string_value = body
    return made.SerializeToString()  # type: ignore[no-any-return]


def post(collector: Running, data: bytes, path: str = "/v1/logs", **headers: str) -> httpx.Response:
    kind = {"content-type": "application/x-protobuf"}
    given = {key.replace("_", "-"): value for key, value in headers.items()}
    return httpx.post(collector.url + path, content=data, headers={**HEADERS, **kind, **given}, timeout=20)


def call(collector: Running, data: bytes, token: str | None = TOKEN, **options: Any) -> bytes:
    metadata = [("authorization", f"Bearer {token}")] if token else []
    with grpc.insecure_channel(collector.target) as channel:
        return channel.unary_unary(EXPORT)(data, metadata=metadata, timeout=20, **options)  # type: ignore[no-any-return]


@pytest.fixture(params=["grpc", "http", "http-gzip"])
def exporters(request: pytest.FixtureRequest, collector: Running) -> Iterator[tuple[Any, Any, Any]]:
    """The SDK's exporters of spans, metrics and logs."""
    if request.param == "grpc":
        options: dict[str, Any] = {"endpoint": collector.target, "insecure": True, "headers": HEADERS}
        yield GrpcSpans(**options), GrpcMetrics(**options), GrpcLogs(**options)
        return
    options = {"headers": HEADERS}
    if request.param == "http-gzip":
        options["compression"] = Compression.Gzip
    yield (
        HttpSpans(endpoint=f"{collector.url}/v1/traces", **options),
        HttpMetrics(endpoint=f"{collector.url}/v1/metrics", **options),
        HttpLogs(endpoint=f"{collector.url}/v1/logs", **options),
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_opentelemetry_sdk_sends_all_signals(collector: Running, exporters: tuple[Any, Any, Any]) -> None:
    spans, metrics, logs = exporters
    tracing = TracerProvider(resource=RESOURCE)
    tracing.add_span_processor(BatchSpanProcessor(spans))
    with tracing.get_tracer("test", "1.0").start_as_current_span("checkout", attributes={"items": 3}) as span:
        span.add_event("paid", {"amount": 9.5})
    measuring = MeterProvider([PeriodicExportingMetricReader(metrics, 60_000)], resource=RESOURCE)
    measuring.get_meter("test").create_counter("orders").add(5, {"region": "eu"})
    measuring.get_meter("test").create_histogram("latency").record(12.5)
    logging_ = LoggerProvider(resource=RESOURCE)
    logging_.add_log_record_processor(SimpleLogRecordProcessor(logs))
    logger = logging.getLogger("moulin.test.sdk")
    handler = LoggingHandler(logger_provider=logging_)
    logger.addHandler(handler)
    try:
        logger.warning("the order is late")
    finally:
        logger.removeHandler(handler)
    for provider in (tracing, measuring, logging_):
        provider.force_flush()
        provider.shutdown()

    (found,) = collector.rows("traces")
    assert (found["name"], found["service_name"], found["attributes_typed"]) == ("checkout", "shop", '{"items":3}')
    assert found["trace_id"] == format(span.get_span_context().trace_id, "032x")
    assert found["events"][0]["attributes"] == [("amount", "9.5")]
    points = {row["name"]: row for row in collector.rows("metrics")}
    assert (points["orders"]["kind"], points["orders"]["value_int"], points["orders"]["monotonic"]) == ("sum", 5, True)
    assert (points["latency"]["kind"], points["latency"]["count"], points["latency"]["sum"]) == ("histogram", 1, 12.5)
    (line,) = collector.rows("logs")
    assert (line["body"], line["severity_text"]) == ("the order is late", "WARN")
    assert all(entry.token_id == collector.registry.grants[TOKEN].token_id for entry in collector.entries())


def test_the_stored_bytes_are_those_sent_and_the_token_is_not_among_them(collector: Running) -> None:
    data = request("as it is") + b"\xa2\x1f\x01x"  # with a field that is not known yet
    call(collector, data)
    post(collector, data)
    assert [entry.data for entry in collector.entries()] == [data, data]
    for info in collector.store.list(""):
        assert TOKEN.encode() not in collector.store.get(info.path)


def test_json_has_hex_ids(collector: Running) -> None:
    span = {
        "traceId": "5B8EFFF798038103D269B633813FC60C",
        "spanId": "EEE19B7EC3C1B174",
        "parentSpanId": "eee19b7ec3c1b173",
        "name": "s",
        "kind": 2,
        "startTimeUnixNano": "1544712660000000000",
        "endTimeUnixNano": "1544712661000000000",
        "attributes": [
            {"key": "traceId", "value": {"stringValue": "not an id"}},
            {"key": "n", "value": {"intValue": "7"}},
        ],
        "somethingNew": {"a": 1},
    }
    body = {"resourceSpans": [{"scopeSpans": [{"scope": {"name": "x"}, "spans": [span]}]}]}
    answer = post(collector, json.dumps(body).encode(), "/v1/traces", content_type="application/json; charset=utf-8")
    assert (answer.status_code, answer.json(), answer.headers["content-type"]) == (200, {}, "application/json")
    (row,) = collector.rows("traces")
    assert row["trace_id"] == "5b8efff798038103d269b633813fc60c"
    assert (row["span_id"], row["parent_span_id"]) == ("eee19b7ec3c1b174", "eee19b7ec3c1b173")
    assert (row["kind"], row["duration_ns"], row["attributes_typed"]) == ("server", 10**9, '{"n":7}')


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[",
        b"[]",
        b"null",
        b'{"resourceSpans": 3}',
        b'{"resourceSpans":[{"scopeSpans":[{"spans":[{"traceId":"zz"}]}]}]}',
        b'{"resourceSpans":' + b"[" * 5000 + b"]" * 5000 + b"}",
        b'{"resourceSpans":[' + b"[" * 500,
    ],
    ids=range(8),
)
def test_bad_json_is_rejected(collector: Running, body: bytes) -> None:
    answer = post(collector, body, "/v1/traces", content_type="application/json")
    assert answer.status_code == 400
    assert answer.json()["code"] == 3
    assert "OTLP" in answer.json()["message"]


def test_fields_that_otlp_does_not_have_are_left_out_however_deep(collector: Running) -> None:
    body = b'{"a":' * 5000 + b"1" + b"}" * 5000
    assert post(collector, body, "/v1/traces", content_type="application/json").status_code == 200


def test_bad_requests_are_rejected_and_never_stored(collector: Running) -> None:
    for data in (b"\xff\xff", b"\x0a\x7f", b"not protobuf at all"):
        answer = post(collector, data)
        assert answer.status_code == 400
        assert b"OTLP" in answer.content
        with pytest.raises(grpc.RpcError) as told:
            call(collector, data)
        assert told.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    assert post(collector, request(), content_type="text/plain").status_code == 415
    assert post(collector, request(), content_encoding="br").status_code == 415
    assert post(collector, request(), content_encoding="gzip").status_code == 400
    assert post(collector, gzip.compress(request())[:-9], content_encoding="gzip").status_code == 400
    assert post(collector, request(), "/v1/nothing").status_code == 404
    assert httpx.get(f"{collector.url}/v1/logs").status_code == 405
    assert collector.entries() == []
    assert collector.registry.streams == []


def test_bad_tokens_are_rejected_and_not_looked_up_each_time(collector: Running) -> None:
    before = collector.registry.validations
    for token in (None, "", "ing_wrong", "ing_wrong", TOKEN[:-1]):
        with pytest.raises(grpc.RpcError) as told:
            call(collector, request(), token)
        assert told.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert TOKEN[:-1] not in told.value.details()
    answer = post(collector, request(), authorization="Bearer ing_wrong")
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert post(collector, request(), authorization=f"Basic {TOKEN}").status_code == 401
    assert collector.registry.validations - before == 2
    assert collector.entries() == []


def test_a_token_that_is_revoked_ends_soon(store: FaultyStore, registry: MemoryRegistry) -> None:
    with running(store, registry, CollectorSettings(token_recheck=0.05)) as collector:
        call(collector, request())
        del registry.grants[TOKEN]
        time.sleep(0.06)
        assert post(collector, request()).status_code == 401


def test_requests_that_are_too_large_are_refused(store: FaultyStore, registry: MemoryRegistry) -> None:
    with running(store, registry, CollectorSettings(request_bytes=20_000, budget_bytes=1 << 20)) as collector:
        large = request("x" * 30_000)
        assert post(collector, large).status_code == 413
        bomb = gzip.compress(request("x" * 30_000_000))
        assert len(bomb) < 40_000
        assert post(collector, bomb, content_encoding="gzip").status_code == 413
        with pytest.raises(grpc.RpcError) as told:
            call(collector, large)
        assert told.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        with pytest.raises(grpc.RpcError) as told:
            call(collector, request("x" * 3_000_000), compression=grpc.Compression.Gzip)
        assert told.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert post(collector, gzip.compress(request("x" * 10_000)), content_encoding="gzip").status_code == 200
        assert collector.collector.in_flight == 0
        assert len(collector.entries()) == 1


def test_records_with_malformed_ids_are_rejected_and_the_others_taken(collector: Running) -> None:
    made = ExportLogsServiceRequest()
    scope = made.resource_logs.add().scope_logs.add()
    for trace_id in (b"short", bytes(range(16)), b""):
        scope.log_records.add(trace_id=trace_id).body.string_value = trace_id.hex()
    answer = ExportLogsServiceResponse.FromString(call(collector, made.SerializeToString()))
    assert answer.partial_success.rejected_log_records == 1
    assert "16 bytes" in answer.partial_success.error_message
    assert [row["body"] for row in collector.rows("logs")] == [bytes(range(16)).hex(), ""]


def test_a_request_without_records_needs_no_object(collector: Running) -> None:
    assert call(collector, b"") == b""
    assert post(collector, b"").status_code == 200
    assert collector.registry.streams == []


def test_overload_and_a_store_that_is_away_are_retryable_errors(store: FaultyStore, registry: MemoryRegistry) -> None:
    settings = CollectorSettings(request_bytes=50_000, budget_bytes=60_000, stream=StreamSettings(patience=1.5))
    with running(store, registry, settings) as collector:
        call(collector, request())
        store.fault = lambda path: "before"
        answers: list[httpx.Response] = []
        first = threading.Thread(target=lambda: answers.append(post(collector, request("x" * 40_000))))
        first.start()
        while collector.collector.in_flight < 40_000:
            time.sleep(0.01)
        over = post(collector, request("x" * 40_000))
        assert (over.status_code, over.headers["retry-after"]) == (503, "1")
        with pytest.raises(grpc.RpcError) as told:
            call(collector, request("x" * 40_000))
        assert told.value.code() is grpc.StatusCode.UNAVAILABLE
        details = dict(told.value.trailing_metadata())["grpc-status-details-bin"]
        assert b"google.rpc.RetryInfo" in details
        first.join()
        assert answers[0].status_code == 503
        assert post(collector, request()).status_code == 503
        store.fault = lambda path: None
        while post(collector, request("back")).status_code == 503:
            time.sleep(0.05)
        bodies = [row["body"] for row in collector.rows("logs")]
        assert bodies == ["hello", "x" * 40_000, "back"], "of the refused ones, that on its way was stored, once"


def test_requests_of_many_clients_at_once_are_stored_once_and_in_order(collector: Running) -> None:
    """Each request is stored once, in the order of each client."""

    def send(client: int) -> None:
        with grpc.insecure_channel(collector.target) as channel:
            export = channel.unary_unary(EXPORT)
            for number in range(20):
                export(request(f"{client}-{number}"), metadata=[*HEADERS.items()], timeout=20)

    threads = [threading.Thread(target=send, args=(client,)) for client in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    bodies = [row["body"] for row in collector.rows("logs")]
    assert len(bodies) == 160
    for client in range(8):
        mine = [body for body in bodies if body.startswith(f"{client}-")]
        assert mine == [f"{client}-{number}" for number in range(20)]


def test_rows_are_appended_in_ndjson_and_arrow(collector: Running) -> None:
    lines = b'{"id": 1}\n{"id": 2}\n'
    answer = post(collector, lines, "/v1/append/shop.orders", content_type="application/x-ndjson")
    assert (answer.status_code, answer.json()) == (200, {"rows": 2})
    sink = pa.BufferOutputStream()
    table = pa.table({"id": [3, 4, 5]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    arrow = sink.getvalue().to_pybytes()
    kind = "application/vnd.apache.arrow.stream"
    assert post(collector, arrow, "/v1/append/shop.orders", content_type=kind).json() == {"rows": 3}
    found = [(e.payload, e.table, e.records, e.data) for e in collector.entries()]
    assert found == [(Payload.NDJSON, "orders", 2, lines), (Payload.ARROW, "orders", 3, arrow)]
    for path, data, content_type, status in (
        ("/v1/append/shop.nothing", lines, "application/x-ndjson", 404),
        ("/v1/append/other.orders", lines, "application/x-ndjson", 404),
        ("/v1/append/orders", lines, "application/x-ndjson", 404),
        ("/v1/append/shop.orders", b'{"id": 1', "application/x-ndjson", 400),
        ("/v1/append/shop.orders", arrow[:-30], kind, 400),
        ("/v1/append/shop.orders", lines, kind, 400),
        ("/v1/append/shop.orders", lines, "text/csv", 415),
    ):
        assert post(collector, data, path, content_type=content_type).status_code == status
    assert len(collector.entries()) == 2


def test_a_store_that_ignores_put_if_absent_is_refused(store: FaultyStore, registry: MemoryRegistry) -> None:
    store.ignores_absence = True
    with pytest.raises(FailedPrecondition, match="put-if-absent"), running(store, registry):
        pass


def test_a_collector_reports_its_health_and_metrics(collector: Running) -> None:
    call(collector, request())
    assert httpx.get(f"{collector.url}/healthz").json()["status"] == "ok"
    assert "moulin_collector_accepted_total 1" in httpx.get(f"{collector.url}/metrics").text
