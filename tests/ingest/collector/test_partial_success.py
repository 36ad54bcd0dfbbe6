"""One bad record does not lose the batch of its sender: the rest is taken, and the answer says what was not."""

from __future__ import annotations

import json
from typing import Any

import httpx
import pytest
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from moulin.ingest.otlp.otlp import REQUESTS
from moulin.model.otel import Signal
from tests.ingest.collector.test_collector import call, post
from tests.ingest.conftest import Running
from tests.ingest.otlp.test_mend import add_records, deep


def bodies(*texts: str) -> bytes:
    request = ExportLogsServiceRequest()
    scope = request.resource_logs.add().scope_logs.add()
    for text in texts:
        scope.log_records.add().body.string_value = text
    return request.SerializeToString()  # type: ignore[no-any-return]


@pytest.mark.parametrize("way", ["grpc", "http"])
def test_a_body_that_is_not_utf8_is_mended_and_all_records_are_taken(collector: Running, way: str) -> None:
    data = bodies("one", "MARK", "three").replace(b"MARK", b"\xff\xfeAB")
    answer = ExportLogsServiceResponse.FromString(
        call(collector, data) if way == "grpc" else post(collector, data).content
    )
    assert answer.partial_success.rejected_log_records == 0
    assert "UTF-8" in answer.partial_success.error_message
    assert [row["body"] for row in collector.rows("logs")] == ["one", "\ufffd\ufffdAB", "three"]
    assert "moulin_collector_mended_texts_total 1" in httpx.get(f"{collector.url}/metrics").text


@pytest.mark.parametrize("kind", ["array", "kvlist"])
@pytest.mark.parametrize(
    ("signal", "response", "field"),
    [
        ("logs", ExportLogsServiceResponse, "rejected_log_records"),
        ("traces", ExportTraceServiceResponse, "rejected_spans"),
        ("metrics", ExportMetricsServiceResponse, "rejected_data_points"),
    ],
)
def test_a_record_nested_48_levels_deep_is_rejected_and_the_others_are_taken(
    collector: Running, signal: Signal, response: Any, field: str, kind: str
) -> None:
    request = REQUESTS[signal]()
    records = add_records(signal, request, 3)
    deep(records[1].attributes.add(key="deep").value, 48, kind)
    answer = response.FromString(post(collector, request.SerializeToString(), f"/v1/{signal}").content)
    assert getattr(answer.partial_success, field) == 1
    assert "nested too deeply" in answer.partial_success.error_message
    assert [row["event_time_unix_nano"] for row in collector.rows(signal)] == [1, 3]
    assert "moulin_collector_rejected_records_total 1" in httpx.get(f"{collector.url}/metrics").text


def test_a_resource_nested_too_deeply_loses_its_own_records_only(collector: Running) -> None:
    request = REQUESTS["traces"]()
    for _ in range(2):
        add_records("traces", request, 2)
    deep(request.resource_spans[0].resource.attributes.add(key="deep").value, 60)
    answer = ExportTraceServiceResponse.FromString(post(collector, request.SerializeToString(), "/v1/traces").content)
    assert answer.partial_success.rejected_spans == 2
    assert len(collector.rows("traces")) == 2


def test_json_is_treated_alike(collector: Running) -> None:
    value: dict[str, Any] = {"stringValue": "bottom"}
    for _ in range(48):
        value = {"kvlistValue": {"values": [{"key": "k", "value": value}]}}
    records = [{"body": {"stringValue": "MARK"}}, {"body": value}, {"body": {"stringValue": "three"}}]
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode().replace(b"MARK", b"\xff!")
    answer = post(collector, body, content_type="application/json")
    assert answer.status_code == 200
    told = answer.json()["partialSuccess"]
    assert told["rejectedLogRecords"] == "1"
    assert "UTF-8" in told["errorMessage"]
    assert [row["body"] for row in collector.rows("logs")] == ["\ufffd!", "three"]


@pytest.mark.parametrize(("opening", "closing"), [('{"arrayValue":{"values":[', "]}}"), ('{"new":[', "]}")])
def test_json_deeper_than_a_parser_goes_loses_one_record_at_most(
    collector: Running, opening: str, closing: str
) -> None:
    inside = json.dumps({"stringValue": 'br[ack{ets "'})
    value = opening * 20_000 + inside + closing * 20_000
    records = f'{{"body":{inside}}},{{"timeUnixNano":"2","body":{value}}},{{"body":{inside}}}'
    body = f'{{"resourceLogs":[{{"scopeLogs":[{{"logRecords":[{records}]}}]}}]}}'
    answer = post(collector, body.encode(), content_type="application/json")
    assert answer.status_code == 200
    rejected = int(answer.json().get("partialSuccess", {}).get("rejectedLogRecords", 0))
    assert rejected == ("array" in opening), "names that OTLP does not know are skipped, however deep"
    assert [row["body"] for row in collector.rows("logs")].count('br[ack{ets "') == 2
    assert len(collector.rows("logs")) == 3 - rejected
    unclosed = post(collector, body[: body.index(closing)].encode(), content_type="application/json")
    assert unclosed.status_code == 400


def test_malformed_ids_and_deep_values_are_counted_together(collector: Running) -> None:
    request = REQUESTS["logs"]()
    records = add_records("logs", request, 4)
    records[0].trace_id = b"short"
    deep(records[2].body, 70)
    answer = ExportLogsServiceResponse.FromString(call(collector, request.SerializeToString()))
    assert answer.partial_success.rejected_log_records == 2
    assert "16 bytes" in answer.partial_success.error_message
    assert "nested" in answer.partial_success.error_message
    assert len(collector.rows("logs")) == 2
